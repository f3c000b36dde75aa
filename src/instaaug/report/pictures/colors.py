"""Where the color of a photo may move: a dial of hues, a plane of saturation and value."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from instaaug.augmentation.observed import Observed, ObservedFactor
from instaaug.errors import ArgumentError
from instaaug.report.pictures.ranges import (
    DIAL_REACH,
    PALE,
    Span,
    describe_span,
    draw_arc,
    draw_dots,
    scalars,
)
from instaaug.report.pictures.rows import (
    ColumnGroup,
    InputRows,
    PanelColumn,
    check_same_images,
    sample_column,
)
from instaaug.report.pictures.sheet import Image, inset
from instaaug.report.theme import INK, MUTED
from instaaug.shapes import Images
from instaaug.spaces import Interval, Parameter, Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "MeanColor",
    "color_columns",
    "draw_colors",
    "draw_hue_dial",
    "draw_saturation_value",
    "is_color",
    "mean_color",
]

PLANE = ("saturation", "value")
RING = (0.60, 0.84)  # inner and outer radius of the colored ring
ARC = (1.04, 0.14)  # outer radius and thickness of the learned arc
DOTS = 0.52
N_RING, N_PLANE = 128, 24  # pixels
WASH = 0.5  # how much white is mixed into the plane, so that marks stand out
GRAY = 1e-3  # a mean chroma below which a photo has no hue

NAMES = ("hue", "saturation", "value")


@dataclass(frozen=True)
class MeanColor:
    """Mean hue, saturation and value of a photo.

    Arguments:
        hue: As a share of the circle, red being 0; None for a gray photo.
        saturation: In [0, 1].
        value: In [0, 1].
    """

    hue: float | None
    saturation: float
    value: float


def mean_color(image: Image) -> MeanColor:
    """The mean hue on the circle, pixels weighted by their chroma; plain means of the others.

    Arguments:
        image: RGB in [0, 1]; any other number of channels counts as gray.

    Example:
        >>> mean_color(torch.tensor([0.0, 1.0, 0.0]).view(3, 1, 1))  # green
        MeanColor(hue=0.333..., saturation=1.0, value=1.0)
    """
    if image.shape[0] != 3:
        image = image.mean(dim=0, keepdim=True).expand(3, -1, -1)
    value, chroma = image.amax(dim=0), image.amax(dim=0) - image.amin(dim=0)
    # on the plane where red, green and blue are a third of a turn apart, up to a hexagon's error
    turns = torch.arange(3) / 3 * 2 * math.pi
    x, y = (torch.einsum("c,chw->hw", wave, image) for wave in (turns.cos(), turns.sin()))
    hue = math.atan2(float(y.mean()), float(x.mean())) / (2 * math.pi) % 1.0
    saturation = (chroma / value.clamp(min=1e-6)).mean()
    is_gray = float(chroma.mean()) < GRAY
    return MeanColor(None if is_gray else hue, float(saturation), float(value.mean()))


def draw_hue_dial(
    axes: "Axes",
    color: MeanColor,
    parameter: Parameter,
    learned: Span | None,
    drawn: Sequence[float],
) -> None:
    """The circle of hues, the photo's mean hue as a dot, and around it where it may move.

    Arguments:
        axes: Where to draw.
        color: The mean color of the photo.
        parameter: The shift of the hue.
        learned: Ends of the learned shift, if there are any.
        drawn: Shifts that were drawn.
    """
    assert parameter.period is not None  # noqa: S101
    turn = 2 * math.pi / parameter.period
    axes.set(aspect="equal")
    reach = RING[1]
    axes.imshow(_ring(), extent=(-reach, reach, -reach, reach), interpolation="bilinear")
    home = 2 * math.pi * (color.hue or 0.0)
    admissible = (home + parameter.low * turn, home + parameter.high * turn)
    draw_arc(axes, admissible, *ARC, facecolor=PALE)
    if learned is not None:
        low, high = learned
        draw_arc(axes, (home + low * turn, home + high * turn), *ARC, facecolor=INK)
    draw_dots(axes, [home + shift * turn for shift in drawn], DOTS)
    if color.hue is not None:
        middle = sum(RING) / 2
        x, y = -middle * math.sin(home), middle * math.cos(home)
        axes.plot(x, y, "o", markersize=5.5, color="white", markeredgecolor=INK)
    words = describe_span(parameter, learned) if color.hue is not None else "no hue"
    axes.text(0, 0, words, ha="center", va="center", fontsize=6, linespacing=0.95)
    axes.set(xlim=(-DIAL_REACH, DIAL_REACH), ylim=(-DIAL_REACH, DIAL_REACH))


def draw_saturation_value(
    axes: "Axes",
    color: MeanColor,
    learned: Mapping[str, Span],
    drawn: Mapping[str, Sequence[float]],
) -> None:
    """Saturation to the right, value upwards: the photo's mean as a dot, its range around it.

    Saturation and value are scaled and end at 1, as the transform does it with every pixel.

    Arguments:
        axes: Where to draw.
        color: The mean color of the photo.
        learned: By name, the ends of the learned factors; a name that is left out stays.
        drawn: By name, factors that were drawn.
    """
    inset(axes, left=0.17, bottom=0.17, top=0.05, right=0.05)
    plane, extent = _plane(color.hue), (0, 1, 0, 1)
    axes.imshow(plane, extent=extent, origin="lower", aspect="auto", interpolation="bilinear")
    (left, right), (low, high) = (
        _scale_color(getattr(color, name), learned.get(name, (1.0, 1.0))) for name in PLANE
    )
    if learned:
        box_x, box_y = [left, right, right, left, left], [low, low, high, high, low]
        axes.plot(box_x, box_y, color=INK, lw=1.1, clip_on=False)
        axes.plot([left, right], [color.value] * 2, color=INK, lw=2.4, solid_capstyle="butt")
        axes.plot([color.saturation] * 2, [low, high], color=INK, lw=2.4, solid_capstyle="butt")
    n = max((len(values) for values in drawn.values()), default=0)
    x, y = (
        [min(getattr(color, name) * f, 1.0) for f in drawn.get(name, [1.0] * n)] for name in PLANE
    )
    axes.scatter(x, y, s=5, color=INK, alpha=0.6, linewidths=0, clip_on=False)
    axes.plot(color.saturation, color.value, "o", ms=5.5, color="white", mec=INK, clip_on=False)
    axes.spines[:].set(visible=True, color=MUTED, linewidth=0.7)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set_xlabel("saturation →", fontsize=6, labelpad=2)
    axes.set_ylabel("value →", fontsize=6, labelpad=2)


def _scale_color(mean: float, factors: Span) -> Span:
    return min(mean * factors[0], 1.0), min(mean * factors[1], 1.0)


def _ring() -> Any:
    """RGBA of the circle of hues, red at the top, counterclockwise."""
    from matplotlib.colors import hsv_to_rgb

    axis = (np.arange(N_RING) + 0.5) / N_RING * 2 - 1
    x, y = np.meshgrid(axis * RING[1], -axis * RING[1])
    hue = np.arctan2(-x, y) / (2 * math.pi) % 1.0
    colors = hsv_to_rgb(np.stack([hue, np.full_like(hue, 0.75), np.full_like(hue, 0.95)], -1))
    radius = np.hypot(x, y)
    soft = 2 * RING[1] / N_RING  # one pixel, over which edges fade
    inside = np.clip((radius - RING[0]) / soft, 0, 1) * np.clip((RING[1] - radius) / soft, 0, 1)
    return np.concatenate([colors, inside[..., None]], axis=-1)


def _plane(hue: float | None) -> Any:
    """RGB of all saturations and values of one hue, washed out."""
    from matplotlib.colors import hsv_to_rgb

    axis = (np.arange(N_PLANE) + 0.5) / N_PLANE
    s, v = np.meshgrid(axis, axis)
    colors = hsv_to_rgb(np.stack([np.full_like(s, hue or 0.0), s * (hue is not None), v], -1))
    return WASH + (1 - WASH) * colors


def is_color(space: Space) -> bool:
    """Whether a factor is about hue, saturation or value, and nothing else."""
    return isinstance(space, Interval) and all(p.name in NAMES for p in space.parameters)


def color_columns(factor: ObservedFactor, images: Images) -> Iterator[PanelColumn]:
    """A dial if the hue may change, and a plane if saturation or value may."""
    named = {s.parameter.name: s for s in scalars(factor)}
    colors = [mean_color(image) for image in images]
    hue = named.pop("hue", None)
    if hue is not None:

        def dial(axes: "Axes", i: int) -> None:
            draw_hue_dial(axes, colors[i], hue.parameter, hue.span(i), hue.values(i))

        yield PanelColumn("hue", 1.0, dial)
    if named:

        def plane(axes: "Axes", i: int) -> None:
            spans = {name: s.span(i) for name, s in named.items()}
            known = {name: span for name, span in spans.items() if span is not None}
            drawn = {name: s.values(i) for name, s in named.items()}
            draw_saturation_value(axes, colors[i], known, drawn)

        yield PanelColumn(" × ".join(named), 1.0, plane)


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
        factor = _color_factor(name, observed)
        columns.append(ColumnGroup(name, (*color_columns(factor, images), samples)))
    return InputRows(images, columns, titles).draw()


def _color_factor(name: str, observed: Observed) -> ObservedFactor:
    for factor in observed.factors:
        if is_color(factor.space):
            return factor
    known = ", ".join(factor.name for factor in observed.factors) or "none"
    raise ArgumentError(
        f"`groups` must hold methods that change hue, saturation or value: {name!r} has the "
        f"factors {known}. Draw others with draw_inputs."
    )
