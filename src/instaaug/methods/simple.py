"""The base of methods that minimize the mean loss, and the simplest of them: no augmentation."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.augmentation import AugmentedBatch, Augmenter
from instaaug.augmentation.checks import check_call, check_losses
from instaaug.augmentation.settings import as_composition
from instaaug.functional.warp import PaddingMode
from instaaug.methods.registry import METHODS
from instaaug.shapes import Images, Matrices, Rendered, Rows, check_images, repeat_batch
from instaaug.transforms import Transform

__all__ = ["NoAugmentation", "SimpleAugmenter", "TransformAugmenter"]


class SimpleAugmenter(Augmenter):
    """Draws θ, renders it, and minimizes the mean loss.

    A subclass gives :meth:`draw_theta` and :meth:`render`. If it has parameters, the mean loss is
    all they learn from.
    """

    size: int | None = None
    """Side of what comes out, for a method that resizes; else the input's own."""

    @abstractmethod
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        """θ of ``n_samples`` independent samples of each input."""

    @override
    def canonical(self, x: Images) -> Rendered:
        if self.size is None or {*x.shape[-2:]} == {self.size}:
            return x
        return self.resize(x, self.size)

    @override
    def draw(
        self,
        x: Images,
        n_samples: int,
        *,
        select: str = "sample",
        replace: bool = False,
        generator: Generator | None = None,
    ) -> Float[Tensor, "n batch d"]:
        return self.draw_theta(x, n_samples, generator)

    @override
    def forward(
        self,
        x: Images,
        n_samples: int = 1,
        generator: Generator | None = None,
        targets: Tensor | None = None,
    ) -> AugmentedBatch:
        check_images(x)
        check_call(len(x), n_samples=n_samples, targets=targets, exact=False)
        theta = self.draw_theta(x, n_samples, generator)
        return AugmentedBatch(
            inputs=self.render(repeat_batch(x, n_samples), theta.flatten(0, 1)),
            targets=None if targets is None else repeat_batch(targets, n_samples),
            theta=theta,
            log_prob=theta.new_zeros(theta.shape[:2]),
            entropy=theta.new_zeros(len(x), 0),
        )

    @override
    def objective(self, losses: Tensor, batch: AugmentedBatch) -> Tensor:
        """The mean loss, and what the method adds to it."""
        mean = check_losses(losses, batch).mean()
        return mean if batch.added_loss is None else mean + batch.added_loss

    @override
    def monitor(self, batch: AugmentedBatch) -> Mapping[str, Tensor]:
        return {}


class TransformAugmenter(SimpleAugmenter):
    """Draws θ of a transform, applies it, and minimizes the mean loss.

    Arguments:
        transforms: A transform, its name, or a list of them.
        mean: Per-channel mean the images were normalized with.
        std: Per-channel standard deviation the images were normalized with.
        padding_mode: What lies outside of the image.
        size: Output side, or height and width; the input's own by default.
    """

    def __init__(
        self,
        transforms: Transform | str | Sequence[Transform | str],
        *,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.transform = as_composition(transforms, mean=mean, std=std, size=size)
        self.padding_mode: PaddingMode = padding_mode

    @override
    def canonical(self, x: Images) -> Rendered:
        return self.transform.resize(x, padding_mode=self.padding_mode)

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        return self.transform.apply(x, theta, padding_mode=self.padding_mode)

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        if not self.transform.tells_matrix:
            return super().matrix(theta, aspect=aspect)
        return self.transform.matrix(theta, aspect=aspect)


@METHODS.register("none")
class NoAugmentation(SimpleAugmenter):
    """Leaves every input as it is, but for its size.

    Arguments:
        size: Output side; the input's own by default.

    Example:
        >>> x = torch.rand(2, 3, 8, 8)
        >>> NoAugmentation()(x).inputs is x
        True
    """

    averages_views = False
    changes_single_images = False

    def __init__(self, *, size: int | None = None) -> None:
        super().__init__()
        self.size = size

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        return x.new_zeros(n_samples, len(x), 0)

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        return self.canonical(x)

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        return torch.eye(3, device=theta.device).expand(len(theta), 3, 3)
