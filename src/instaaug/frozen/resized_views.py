"""Views that were learned for one model, rendered in the size of another."""

from jaxtyping import Float
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation import InstaAug
from instaaug.augmentation.views import Select, Views
from instaaug.methods.simple import TransformAugmenter
from instaaug.networks.model_interface import Output
from instaaug.shapes import Images, Rendered

__all__ = ["ResizedViews"]


class ResizedViews(TransformAugmenter):
    """The views that an augmenter has learned, for a model that takes images of another size.

    φ reads the images as it has learned to, in its own size and, if it reads the features of a
    frozen model, by a pass of that model. The views are rendered in the other size.

    Arguments:
        learned: Chooses the views.
        size: Side of what the other model takes.

    Example:
        >>> views = ResizedViews(InstaAug("crop", size=16), 24)
        >>> x = torch.rand(2, 3, 32, 32)
        >>> views.render(x, views.draw(x, 4)[0]).shape
        torch.Size([2, 3, 24, 24])
    """

    def __init__(self, learned: InstaAug, size: int) -> None:
        super().__init__(learned.transform, padding_mode=learned.settings.padding_mode, size=size)
        self.learned = learned
        self.select, self.merge = learned.select, learned.merge
        self.sharpness, self.calibration = learned.sharpness, learned.calibration

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        return self.learned.draw(x, n_samples, generator=generator)

    @override
    def views(
        self, x: Images, n_samples: int, *, model: nn.Module | None = None,
        output: Output | None = None, chunk_size: int | None = None, select: Select = "sample",
        replace: bool = False, generator: Generator | None = None,
    ) -> Views:  # fmt: skip
        """What was learned; the outputs of the model that φ reads are not those of ``model``."""
        found = self.learned.views(
            x, n_samples, chunk_size=chunk_size, select=select, replace=replace,
            generator=generator,
        )  # fmt: skip
        return Views(found.theta, found.weight)

    @override
    def canonical(self, x: Images) -> Rendered:
        """The inputs in the size of the other model."""
        return self.transform.resize(x, padding_mode=self.padding_mode)
