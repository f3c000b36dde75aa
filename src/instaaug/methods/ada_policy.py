"""What AdaAug and its variants share: a policy that reads features and learns from mixing them."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation import AugmentedBatch, HeldOutBatch, HeldOutLearner, LossesOf
from instaaug.augmentation.settings import as_composition
from instaaug.errors import ArgumentError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.simple import SimpleAugmenter
from instaaug.networks.frozen_features import plain
from instaaug.networks.penultimate import PenultimateFeatures
from instaaug.shapes import Images, Rendered
from instaaug.transforms import Transform

__all__ = ["AdaPolicy", "Candidates"]

Raw = Float[Tensor, "batch n_raw"]
MOST_ROWS = 128  # that the model sees at once


@dataclass(frozen=True)
class Candidates:
    """The m variants of each of B inputs whose features are mixed.

    Arguments:
        theta: What makes them, ``(m, B, D)``.
        weight: Their shares of the mixture, with gradient, ``(m, B)``.
        magnitude: With gradient, ``(m, B)``: every pixel of a variant is held to grow by as much
            as its magnitude does, whatever it truly does. None where variants have none.
    """

    theta: Float[Tensor, "m batch d"]
    weight: Float[Tensor, "m batch"]
    magnitude: Float[Tensor, "m batch"] | None = None


class AdaPolicy(SimpleAugmenter, HeldOutLearner):
    r"""A linear map from the features of the classifier to a choice among candidates.

    With f the features of the model (what enters its last linear layer g) and p the policy, a
    held-out image x is judged by

    .. math:: \ell\Bigl(g\bigl(\textstyle\sum_j p_j(f(x))\, f(\tau_j(x))\bigr),\, y\Bigr),

    and only the policy learns from it. The model is in evaluation mode whenever it is asked.
    :meth:`attach` makes the policy, for only the model tells how many features there are.

    Arguments:
        transform: What happens to images.
        n_candidates: Variants whose features are mixed.
        temperature: Divides the logits where candidates are drawn, not where features are mixed.
        search_every: Batches per step of the policy.
        mean: Per-channel mean the images were normalized with.
        std: Per-channel standard deviation, likewise.
        padding_mode: What lies outside of the image.
        size: Side, or height and width, of what comes out.
    """

    head: nn.Linear | None

    def __init__(
        self,
        transform: Transform,
        *,
        n_candidates: int,
        temperature: float,
        search_every: int,
        mean: Sequence[float] | None,
        std: Sequence[float] | None,
        padding_mode: PaddingMode,
        size: int | tuple[int, int] | None,
    ) -> None:
        super().__init__()
        if not temperature > 0:
            raise ArgumentError(
                f"`temperature` must be above 0: got {temperature}. 1 draws by the learned "
                "probabilities, more makes them more alike."
            )
        if search_every < 1:
            raise ArgumentError(f"`search_every` must be at least 1: got {search_every}.")
        self.n_candidates = n_candidates
        self.temperature, self.search_every = temperature, search_every
        self.transform = as_composition(transform, mean=mean, std=std, size=size)
        self.padding_mode: PaddingMode = padding_mode
        self.head = None
        self._features: PenultimateFeatures | None = None

    @abstractmethod
    def make_head(self, n_features: int) -> nn.Linear:
        """The policy before it has learned anything."""

    @abstractmethod
    def candidates(self, raw: Raw, generator: Generator | None) -> Candidates:
        """What is mixed for inputs of which the policy says ``raw``."""

    @override
    def attach(self, model: nn.Module) -> None:
        """Read the features of ``model`` from now on; the first time, make the policy."""
        features = PenultimateFeatures(model)
        if self.head is None:
            self.head = self.make_head(features.n_features).to(features.head.weight.device)
        elif self.head.in_features != features.n_features:
            raise ArgumentError(
                f"`model` must have the {self.head.in_features} features that the policy reads: "
                f"got {features.n_features}. Make a new {type(self).__name__} for this model."
            )
        self._features = features

    def raw(self, x: Images, features: PenultimateFeatures | None = None) -> Raw:
        """What the policy says of each input, with gradient to the policy alone.

        Arguments:
            x: Images as the augmenter takes them.
            features: Those to read; the attached model's by default.
        """
        features = features or self._features
        if features is None or self.head is None:
            raise ArgumentError(
                f"`model` must be known to {type(self).__name__}, which reads its features: got "
                "none. Call attach(model) first."
            )
        seen = self.transform.resized(x, padding_mode=self.padding_mode)
        read = torch.cat([features(part) for part in seen.split(MOST_ROWS)])
        return self.head(read.to(self.head.weight))

    @override
    def search_objective(
        self,
        model: nn.Module,
        batch: AugmentedBatch,
        held_out: HeldOutBatch,
        losses_of: LossesOf,
        generator: Generator | None = None,
    ) -> Float[Tensor, ""]:
        """The mean loss of mixed features.

        A few inputs at a time, which bounds the memory: the graph of each part is used up to find
        how its loss depends on what the policy says, and a linear function with this value and
        gradient takes its place. So ``losses_of`` must not compare inputs.
        """
        features = self._features
        if features is None or features.model is not plain(model):
            features = PenultimateFeatures(model)
        raw = self.raw(held_out.inputs, features)
        at_once = max(1, MOST_ROWS // self.n_candidates)
        total = raw.new_zeros(())
        for start in range(0, len(raw), at_once):
            rows = slice(start, start + at_once)
            with torch.enable_grad():
                said = raw[rows].detach().requires_grad_()
                found = self.candidates(said, generator)
                mixed = self._mixed(held_out.inputs[rows], found, features)
                loss = losses_of(features.head(mixed), held_out.targets[rows]).sum()
                (slope,) = torch.autograd.grad(loss, said)
            total = total + loss.detach() + (slope * (raw[rows] - said.detach())).sum()
        return total / len(raw)

    def _mixed(
        self, x: Images, found: Candidates, features: PenultimateFeatures
    ) -> Float[Tensor, "batch n_features"]:
        n = len(found.theta)
        variants = self.render(x.repeat(n, 1, 1, 1), found.theta.flatten(0, 1))
        if found.magnitude is not None:
            nothing = (found.magnitude - found.magnitude.detach()).to(variants.dtype)
            variants = variants + nothing.flatten()[:, None, None, None]
        read = features(variants, gradient=found.magnitude is not None).unflatten(0, (n, -1))
        return torch.einsum("mb, mbf -> bf", found.weight.to(read.dtype), read)

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        return self.transform.apply(x, theta, padding_mode=self.padding_mode)
