"""The base of methods that minimize the mean loss."""

from abc import abstractmethod
from collections.abc import Mapping

from jaxtyping import Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.augmentation import AugmentedBatch, Augmenter
from instaaug.augmentation.checks import check_call, checked_losses
from instaaug.shapes import Images, check_images

__all__ = ["SimpleAugmenter"]


class SimpleAugmenter(Augmenter):
    """Draws θ, renders it, and minimizes the mean loss.

    A subclass gives :meth:`draw_theta` and :meth:`render`. If it has parameters, the mean loss is
    all they learn from.
    """

    @abstractmethod
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        """θ of ``n_samples`` independent samples of each input."""

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
        repeated = x if n_samples == 1 else x.repeat(n_samples, 1, 1, 1)
        return AugmentedBatch(
            inputs=self.render(repeated, theta.flatten(0, 1)),
            targets=None
            if targets is None
            else targets.repeat(n_samples, *[1] * (targets.ndim - 1)),
            theta=theta,
            log_prob=theta.new_zeros(theta.shape[:2]),
            entropy=theta.new_zeros(len(x), 0),
        )

    @override
    def objective(self, losses: Tensor, batch: AugmentedBatch) -> Tensor:
        """The mean loss."""
        return checked_losses(losses, batch).mean()

    @override
    def monitor(self, batch: AugmentedBatch) -> Mapping[str, Tensor]:
        return {}
