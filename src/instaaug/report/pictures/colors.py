"""How far colors may move, by method: the paper's figure of learned color jittering."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from instaaug.augmentation.observed import Observed, ObservedFactor
from instaaug.errors import ArgumentError
from instaaug.report.pictures.color_columns import color_columns, is_color
from instaaug.report.pictures.columns import ColumnGroup
from instaaug.report.pictures.compared import check_same_images
from instaaug.report.pictures.input_rows import InputRows
from instaaug.report.pictures.sample_columns import sample_column

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_colors"]


def draw_colors(
    groups: Mapping[str, Observed],
    *,
    titles: Sequence[str] | None = None,
    n_samples: int = 4,
) -> "Figure":
    """Show for each method and image where its mean color may go, and samples.

    On the circle of hues a dot is the mean hue of the image, and the arc around it is where the
    learned jitter may bring it. On the plane of saturation and value the dot is the mean of the
    image, and the cross in its frame is the range. A parameter that does not vary has no panel.

    Arguments:
        groups: By name of the method, what it makes of the same images; at most 3 methods.
        titles: A line per image.
        n_samples: Samples of each method and image, in two lines.

    Raises:
        ArgumentError: If methods were shown different images, or leave colors alone.

    References:
        | Learning Instance-Specific Augmentations by Capturing Local Invariances, appendix D
        | (Miao et al., 2023)
        | https://arxiv.org/abs/2206.00051

    Example:
        >>> from instaaug import InstaAug, transforms as T
        >>> from instaaug.augmentation.observed import observe
        >>> seen = observe(InstaAug(T.HSVJitter(hue=0.0)), torch.rand(2, 3, 32, 32))
        >>> drawing = draw_colors({"InstaAug": seen})
        >>> [text.get_text() for text in drawing.texts]
        ['input', 'InstaAug', 'saturation × value', 'samples']
    """
    if n_samples < 1:
        raise ArgumentError(f"`n_samples` must be at least 1: got {n_samples}.")
    images = check_same_images(groups)
    columns = []
    for name, observed in groups.items():
        shown = observed.samples[:n_samples]
        lines = min(2, len(shown))
        samples = sample_column(
            shown, lines=lines, columns=-(-len(shown) // lines), heading="samples"
        )
        factor = _color(name, observed)
        columns.append(ColumnGroup(name, (*color_columns(factor, images), samples)))
    return InputRows(images, columns, titles).draw()


def _color(name: str, observed: Observed) -> ObservedFactor:
    for factor in observed.factors:
        if is_color(factor.space):
            return factor
    known = ", ".join(factor.name for factor in observed.factors) or "none"
    raise ArgumentError(
        f"`groups` must hold methods that change hue, saturation or value: {name!r} has the "
        f"factors {known}. Draw others with draw_inputs."
    )
