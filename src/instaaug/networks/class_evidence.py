"""What each place of a feature map says about the classes that the whole image suggests."""

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.shapes import Maps

__all__ = ["N_EVIDENCE", "class_evidence"]

N_CANDIDATES = 16
N_EVIDENCE = 12


def class_evidence(
    features: Maps,
    logits: Float[Tensor, "batch classes"],
    weight: Float[Tensor, "classes channels"] | None,
    bias: Float[Tensor, " classes"] | None,
) -> Float[Tensor, "batch evidence height width"]:
    r"""Twelve numbers per place, none of which knows any class by name.

    A linear layer on averaged features may as well be asked before averaging: at place p it gives
    :math:`z_p = W h_p + b`, the class activation map. Of the 16 classes that the whole image makes
    most probable, ask for each place: how strong is the strongest, how certain is the place, does
    it agree with the whole? Three more numbers say how certain the whole image is.

    Few images suffice to learn from these, because 1280 channels have become twelve, and what is
    learned holds for classes that were never seen.

    Arguments:
        features: The last map of the model.
        logits: What the model says of the whole image.
        weight: Of its linear layer; None if the channels of the map are the classes.
        bias: Likewise.

    References:
        | Learning Deep Features for Discriminative Localization (Zhou et al., 2016)
        | https://arxiv.org/abs/1512.04150
    """
    best, classes = logits.topk(min(N_CANDIDATES, logits.shape[1]), dim=1)
    here = _local_logits(features, classes, weight, bias)
    local = here.log_softmax(dim=1)
    whole = best.log_softmax(dim=1)
    agreement = (local + whole[:, :, None, None]).logsumexp(dim=1, keepdim=True)
    second = min(1, best.shape[1] - 1)
    about_places = [
        here.amax(dim=1, keepdim=True),
        local.amax(dim=1, keepdim=True),
        (local.exp() * local).sum(dim=1, keepdim=True),
        local[:, :1],
        agreement,
        local[:, :5].logsumexp(dim=1, keepdim=True),
        here[:, :1],
        here[:, second : second + 1],
        features.norm(dim=1, keepdim=True),
    ]
    about_whole = torch.stack(
        [whole[:, 0], (whole.exp() * whole).sum(dim=1), best[:, 0] - best[:, second]], dim=1
    )
    spread = about_whole[:, :, None, None].expand(-1, -1, *features.shape[2:])
    return torch.cat([*about_places, spread], dim=1)


def _local_logits(
    features: Maps,
    classes: Tensor,
    weight: Float[Tensor, "classes channels"] | None,
    bias: Float[Tensor, " classes"] | None,
) -> Float[Tensor, "batch candidates height width"]:
    if weight is None:
        index = classes[:, :, None, None].expand(-1, -1, *features.shape[2:])
        return features.gather(1, index)
    scores = torch.bmm(weight[classes].float(), features.flatten(2)).unflatten(
        2, features.shape[2:]
    )
    return scores if bias is None else scores + bias[classes].float()[:, :, None, None]
