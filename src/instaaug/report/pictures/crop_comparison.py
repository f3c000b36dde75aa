"""The paper's Figure 6: the crops of several methods on the same photos, side by side."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from instaaug.augmentation.observed import Observed, ObservedFactor
from instaaug.errors import ArgumentError
from instaaug.report.pictures.box_columns import centers_column, drawn_column, sizes_column
from instaaug.report.pictures.color_scales import draw_scale
from instaaug.report.pictures.columns import ColumnGroup
from instaaug.report.pictures.compared import check_same_images
from instaaug.report.pictures.crop_centers import DENSITIES
from instaaug.report.pictures.crop_panels import ProbabilityInk
from instaaug.report.pictures.input_rows import InputRows
from instaaug.report.pictures.sheet import Sheet
from instaaug.spaces import Boxes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_crop_comparison"]

FOOT = 0.5


def draw_crop_comparison(
    groups: Mapping[str, Observed], *, titles: Sequence[str] | None = None
) -> "Figure":
    """Show for each method and photo some crops, where their centers lie, and how large they are.

    Edges are colored by probability, on one scale for all. The last panel of a method is the
    share of crops at least as large as each size. A method without probabilities is shown by
    what was drawn: observe some hundred samples of it.

    Arguments:
        groups: By name of the method, what it makes of the same photos; at most 3 methods.
        titles: A line per photo.

    Raises:
        ArgumentError: If methods were shown different photos, or do not crop.

    References:
        | Learning Instance-Specific Augmentations by Capturing Local Invariances, Figure 6
        | (Miao et al., 2023)
        | https://arxiv.org/abs/2206.00051

    Example:
        >>> from instaaug import InstaAug, transforms as T
        >>> from instaaug.augmentation.observed import observe
        >>> x = torch.rand(2, 3, 32, 32)
        >>> blind = InstaAug(T.Crop(), conditioning="none")
        >>> methods = {"one for all": blind, "InstaAug": InstaAug(T.Crop())}
        >>> seen = {name: observe(aug, x) for name, aug in methods.items()}
        >>> drawing = draw_crop_comparison(seen)
        >>> len(drawing.axes)  # a photo and two times three panels, twice; two scales
        16
    """
    images = check_same_images(groups)
    crops = {name: _crop(name, observed) for name, observed in groups.items()}
    tops = [float(f.probs.max()) for f in crops.values() if f.probs is not None]
    ink = ProbabilityInk(max(tops)) if tops else None
    columns = [
        ColumnGroup(
            name,
            (drawn_column(crop, images, ink), centers_column(crop, images), sizes_column(crop)),
        )
        for name, crop in crops.items()
    ]

    def draw_foot(page: Sheet, top: float) -> None:
        draw_scale(page, 0.25, top, "density of centers / its maximum", DENSITIES)
        if ink is not None:
            draw_scale(page, 2.65, top, "probability of a box", ink.colors, most=ink.most)

    return InputRows(images, columns, titles, foot=FOOT).draw(draw_foot)


def _crop(name: str, observed: Observed) -> ObservedFactor:
    for factor in observed.factors:
        if isinstance(factor.space, Boxes):
            return factor
    known = ", ".join(factor.name for factor in observed.factors) or "none"
    raise ArgumentError(
        f"`groups` must hold methods that choose boxes: {name!r} has the factors {known}. Draw "
        "others with draw_inputs."
    )
