"""Columns on color: the dial of hues, and the plane of saturation and value."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from instaaug.augmentation.observed import ObservedFactor
from instaaug.report.pictures.color_panels import draw_hue_dial, draw_saturation_value, mean_color
from instaaug.report.pictures.columns import Column
from instaaug.report.pictures.range_columns import scalars
from instaaug.shapes import Images
from instaaug.spaces import Interval, Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["color_columns", "is_color"]

NAMES = ("hue", "saturation", "value")


def is_color(space: Space) -> bool:
    """Whether a factor is about hue, saturation or value, and nothing else."""
    return isinstance(space, Interval) and all(p.name in NAMES for p in space.parameters)


def color_columns(factor: ObservedFactor, images: Images) -> Iterator[Column]:
    """A dial if the hue may change, and a plane if saturation or value may."""
    named = {s.parameter.name: s for s in scalars(factor)}
    colors = [mean_color(image) for image in images]
    hue = named.pop("hue", None)
    if hue is not None:

        def dial(axes: "Axes", i: int) -> None:
            draw_hue_dial(axes, colors[i], hue.parameter, hue.span(i), hue.values(i))

        yield Column("hue", 1.0, dial)
    if named:

        def plane(axes: "Axes", i: int) -> None:
            spans = {name: s.span(i) for name, s in named.items()}
            known = {name: span for name, span in spans.items() if span is not None}
            drawn = {name: s.values(i) for name, s in named.items()}
            draw_saturation_value(axes, colors[i], known, drawn)

        yield Column(" × ".join(named), 1.0, plane)
