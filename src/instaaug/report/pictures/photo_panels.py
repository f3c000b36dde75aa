"""Photos and samples as they are."""

from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from instaaug.report.pictures.sheet import size_in_inches

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Image", "draw_photo", "draw_pixels", "pixels"]

SCREEN = 72  # dots per inch that an image of few pixels has less than

Image = Float[Tensor, "c h w"]


def pixels(image: Image) -> Any:
    """RGB for matplotlib; an image that has neither 1 nor 3 channels is shown by their mean."""
    if image.shape[0] != 3:
        image = image.mean(dim=0, keepdim=True)
    return image.clamp(0, 1).expand(3, -1, -1).permute(1, 2, 0).numpy()


def draw_photo(axes: "Axes", image: Image) -> None:
    """The photo as it is."""
    draw_pixels(axes, pixels(image))


def draw_pixels(axes: "Axes", array: Any, *, fill: bool = False) -> None:
    """An array of pixels; a small one goes into SVG as it is, and is not blown up.

    Arguments:
        axes: Where to draw.
        array: Rows of colors.
        fill: Whether to fill the panel, whatever its shape.
    """
    is_small = array.shape[0] < SCREEN * size_in_inches(axes)[1]
    axes.imshow(
        array, interpolation="none" if is_small else "auto", aspect="auto" if fill else "equal"
    )
