"""AdaAug with boxes for operations: the paper's ablation "AdaAug with LRP"."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.distributions import ThetaDistribution
from instaaug.errors import ArgumentError
from instaaug.functional.probability import gumbel_top_k
from instaaug.functional.warp import PaddingMode
from instaaug.methods.ada_policy import AdaPolicy, Candidates, Raw
from instaaug.methods.registry import METHODS
from instaaug.parameterizations import CropGrid, make_family
from instaaug.parameterizations.heads import SMALL
from instaaug.shapes import Images
from instaaug.spaces import Level
from instaaug.transforms import PAPER_LEVELS, Crop

__all__ = ["AdaCrops"]


@METHODS.register("adacrops")
class AdaCrops(AdaPolicy):
    r"""Draws one box of a grid for each input, by a policy that learns as AdaAug's does.

    InstaAug's boxes with AdaAug's way of learning: a linear map of the classifier's features gives
    a logit per box, and learns from the loss of mixed features on held-out images; see
    :class:`~instaaug.methods.ada_policy.AdaPolicy`. Boxes have no magnitudes. Where there are more
    than ``max_explored``, so many are drawn uniformly for each held-out image, without
    replacement, and the policy's probabilities are renormalized over them.

    Arguments:
        levels: Pairs (size, n): ``n`` × ``n`` boxes of that fraction of the image side.
        max_outside: Share of a box, per axis, that may lie outside; boxes beyond are moved
            inwards.
        initial_entropy: Of the first policy, in nats. Like InstaAug's it prefers large boxes; the
            default is the middle of the band that was best in the paper. From log K on all boxes
            are alike.
        temperature: Divides the logits where boxes are drawn.
        max_explored: Most boxes per held-out image whose features are mixed.
        search_every: Batches per step of the policy.
        mean: Per-channel mean the images were normalized with.
        std: Per-channel standard deviation, likewise.
        padding_mode: What lies outside of the image.
        size: Side, or height and width, of what comes out; the input's own by default.

    References:
        | Instance-Specific Augmentation: Capturing Local Invariances (Miao et al., 2022)
        | https://arxiv.org/abs/2206.00051

    Example:
        >>> from instaaug.networks import SmallCNN
        >>> aug = AdaCrops(levels=[(0.5, 2), (1.0, 1)])
        >>> aug.attach(SmallCNN(10))
        >>> aug.draw(torch.rand(2, 3, 32, 32), n_samples=4).shape
        torch.Size([4, 2, 4])
    """

    def __init__(
        self,
        *,
        levels: Sequence[Level] = PAPER_LEVELS,
        max_outside: float = 1.0,
        initial_entropy: float = 3.25,
        temperature: float = 1.0,
        max_explored: int = 17,
        search_every: int = 3,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        if max_explored < 2:
            raise ArgumentError(
                "`max_explored` must be at least 2, or there is nothing to mix: got "
                f"{max_explored}. AdaAug mixes 17."
            )
        crop = Crop(tuple(levels), max_outside=max_outside)
        grid = CropGrid(crop.levels, max_outside=max_outside)
        super().__init__(
            crop, n_candidates=min(max_explored, len(grid)), temperature=temperature,
            search_every=search_every, mean=mean, std=std, padding_mode=padding_mode, size=size,
        )  # fmt: skip
        self.grid, self.initial_entropy = grid, initial_entropy
        self.family = make_family(crop.spaces["box"], grid)

    @override
    def make_head(self, n_features: int) -> nn.Linear:
        head = nn.Linear(n_features, len(self.grid))
        with torch.no_grad():
            head.weight.mul_(SMALL)
            head.bias.copy_(self.family.raw_at(self.initial_entropy))
        return head

    def distribution(self, x: Images) -> ThetaDistribution:
        """What boxes are drawn from for each input."""
        return self.family(self.raw(x) / self.temperature)

    @override
    @torch.no_grad()
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        boxes = self.distribution(x)
        return boxes.theta(boxes.draw(n_samples, generator=generator))

    @override
    @torch.no_grad()
    def draw(
        self,
        x: Images,
        n_samples: int,
        *,
        select: str = "sample",
        replace: bool = False,
        generator: Generator | None = None,
    ) -> Float[Tensor, "n batch d"]:
        boxes = self.distribution(x)
        if select == "top":
            return boxes.theta(boxes.spread(n_samples))
        return boxes.theta(boxes.draw(n_samples, replace=replace, generator=generator))

    @override
    def candidates(self, raw: Raw, generator: Generator | None) -> Candidates:
        alike = torch.zeros_like(raw.detach())
        which = gumbel_top_k(alike, self.n_candidates, generator=generator)
        weight = raw.T.gather(0, which).softmax(dim=0)
        return Candidates(self.family(raw).theta(which), weight)

    @override
    def extra_repr(self) -> str:
        return (
            f"{self.grid.story}, temperature {self.temperature:g}, {self.n_candidates} explored "
            f"every {self.search_every} steps"
        )
