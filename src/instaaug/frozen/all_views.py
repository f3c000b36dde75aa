"""Every view that an augmenter with finite choices can make."""

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.augmentation import InstaAug
from instaaug.augmentation.choosing import without_row
from instaaug.distributions import CategoricalTheta, Joint, enumerated
from instaaug.parameterizations import Family

__all__ = ["all_views", "can_tabulate", "other_choices"]


def can_tabulate(aug: InstaAug) -> bool:
    """Whether all views can be listed: choices from tables only, and no box that moves."""
    return all(isinstance(f, CategoricalTheta) for f in _any_joint(aug).factors.values())


def all_views(aug: InstaAug) -> Float[Tensor, "k d"]:
    """θ of the input as it is, and of all other views."""
    identity = aug.transform.identity()
    others = other_choices(aug, _any_joint(aug)).table.cpu()
    return torch.cat([identity, others.to(identity.dtype)])


def other_choices(aug: InstaAug, joint: Joint) -> CategoricalTheta:
    """The distribution over all views other than the input as it is."""
    return without_row(enumerated(joint), aug.transform.identity())


def _any_joint(aug: InstaAug) -> Joint:
    """A distribution of the right kind, for its tables; its probabilities mean nothing."""
    like = next(aug.parameters())
    factors = {}
    for name, family in zip(aug.phi.names, aug.phi.families, strict=True):
        assert isinstance(family, Family)  # noqa: S101  # a ModuleList forgets
        factors[name] = family(like.new_zeros(1, family.n_raw))
    return Joint(factors)
