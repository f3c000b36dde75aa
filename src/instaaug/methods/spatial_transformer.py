"""Spatial transformer: a network brings every input into the pose that suits the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation import AugmentedBatch
from instaaug.errors import ArgumentError
from instaaug.functional.affine import from_entries
from instaaug.functional.warp import PaddingMode
from instaaug.methods.registry import METHODS
from instaaug.methods.simple import TransformAugmenter
from instaaug.networks import feature_channels, make_network
from instaaug.parameterizations import PooledHead
from instaaug.shapes import Images, Matrices, Rendered, Rows, at_least_float32, check_images
from instaaug.spaces import Interval, Parameter, Space
from instaaug.transforms import GeometricTransform

__all__ = ["AffineEntries", "SpatialTransformer"]

IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
NAMES = ("x_from_x", "x_from_y", "x_shift", "y_from_x", "y_from_y", "y_shift")
WIDEST = 64
USUAL = 2.0  # size of an entry beyond which hardly anything of the image is seen


@dataclass(frozen=True)
class AffineEntries(GeometricTransform):
    """Any affine map, by the two upper rows of its matrix from output to input coordinates.

    Example:
        >>> x = torch.tensor([0.0, 1.0]).view(1, 1, 1, 2)
        >>> mirror = torch.tensor([[-1.0, 0.0, 0.0, 0.0, 1.0, 0.0]])
        >>> AffineEntries().apply(x, mirror).flatten()
        tensor([1., 0.])
    """

    name: ClassVar[str] = "affine_entries"

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        entries = tuple(
            Parameter(name, -USUAL, USUAL, identity, learned=False)  # no range is learned
            for name, identity in zip(NAMES, IDENTITY, strict=True)
        )
        return {"entries": Interval(entries)}

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        return from_entries(*theta.unbind(-1), 0.0, 0.0, 1.0)


@METHODS.register("spatial_transformer")
class SpatialTransformer(TransformAugmenter):
    r"""Warps every input by the affine map that a localization network finds for it.

    The network is trained by the loss of the task alone, whose gradient reaches it through the
    warp:

    .. math:: \tilde x(u, v) = x\bigl(A_\theta\,(u, v, 1)^\top\bigr), \qquad \theta = g(x)

    Nothing is random: all samples of an input are equal, and at test time the model sees
    the same as in training (:meth:`canonical`). The last layer starts with zero weights and the
    identity as its bias, so that at first nothing happens. A tenth of the model's learning rate
    is usual for g: with more it easily diverges to maps that show nothing of the image.

    g has the same trunk as InstaAug's φ, without BatchNorm. θ is A's two upper rows, row by row,
    in the normalized frame.

    Arguments:
        in_channels: Channels of the images.
        network: Trunk of g, by the name it is registered with.
        width: Multiplies its channels.
        mean: Per-channel mean the images were normalized with, to show them as they were.
        std: Per-channel standard deviation the images were normalized with.
        padding_mode: What lies outside of the image.
        size: Output side, or height and width; the input's own by default.

    References:
        | Spatial Transformer Networks (Jaderberg et al., 2015)
        | https://arxiv.org/abs/1506.02025

    Example:
        >>> aug, x = SpatialTransformer(), torch.rand(2, 3, 16, 16)
        >>> aug.draw(x, n_samples=1)[0, 0]
        tensor([1., 0., 0., 0., 1., 0.], grad_fn=...)
        >>> torch.equal(aug.canonical(x), x)
        True
    """

    learns_from_training_loss = True
    own_options = frozenset({"network", "width"})
    averages_views = False

    def __init__(
        self,
        *,
        in_channels: int = 3,
        network: str = "pyramid",
        width: float = 1.0,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        super().__init__(AffineEntries(), mean=mean, std=std, padding_mode=padding_mode, size=size)
        if in_channels < 1 or not 0 < width <= WIDEST:
            raise ArgumentError(
                f"`in_channels` must be at least 1 and `width` lie in (0, {WIDEST}]: got "
                f"{in_channels} and {width}. Color images have 3 channels."
            )
        self.in_channels = in_channels
        self.network = make_network(network, in_channels=in_channels, width=width)
        channels = feature_channels(self.network, in_channels=in_channels)
        self.head = PooledHead(channels, torch.tensor(IDENTITY))
        nn.init.zeros_(self.head.linear.weight)

    def localize(self, x: Images) -> Float[Tensor, "batch 6"]:
        """θ of every input."""
        check_images(x, channels=self.in_channels)
        maps = self.network(x.to(self.head.linear.weight.dtype))
        return at_least_float32(self.head(maps, None, len(x)))

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        return self.localize(x).expand(n_samples, -1, -1)

    @override
    def canonical(self, x: Images) -> Rendered:
        """The warped inputs, which is all that is needed at test time."""
        return self.render(x, self.localize(x))

    @override
    def monitor(self, batch: AugmentedBatch) -> Mapping[str, Tensor]:
        """Area of the region that is read, relative to the image, and distance from the center."""
        a, b, right, c, d, down = batch.theta.detach().unbind(-1)
        return {
            "area/seen": (a * d - b * c).abs().mean(),
            "shift/seen": torch.hypot(right, down).mean(),
        }
