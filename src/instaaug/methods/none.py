"""No augmentation: what every other method is compared with."""

from jaxtyping import Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.methods.registry import METHODS
from instaaug.methods.simple import SimpleAugmenter
from instaaug.shapes import Images, Rendered

__all__ = ["NoAugmentation"]


@METHODS.register("none")
class NoAugmentation(SimpleAugmenter):
    """Leaves every input as it is.

    Example:
        >>> x = torch.rand(2, 3, 8, 8)
        >>> NoAugmentation()(x).inputs is x
        True
    """

    averages_views = False

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        return x.new_zeros(n_samples, len(x), 0)

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        return x
