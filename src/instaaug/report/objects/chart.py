"""Crops and objects in numbers: size against size, and overlap against chance."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from instaaug.report.charts.axes import GRAY, quiet
from instaaug.report.objects.findings import COMPARED, PLACES, Findings
from instaaug.report.objects.overlap import MEASURES
from instaaug.report.objects.words import correlation_words, gain_words, number
from instaaug.report.theme import BLUE, INK, RED, figure
from instaaug.stats import mean_and_standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["binned_means", "draw_objects"]

WIDTH, HEIGHT = 10.4, 4.8
SHOWN = ("learned", *COMPARED)
MARKERS = {"learned": "o", "average": "s", "grid": "D", "anywhere": "^"}
N_BINS = 10
FEWEST_IN_BIN = 5
LEAST_HEIGHT = 0.1  # of the axis of sizes: what is smaller does not matter
LEAST_WIDTH = 0.02  # of the axes of overlaps
COLUMNS = (8, 54)  # points to the right of the axes
NOTE = (
    "bars: 95 % interval of the difference on the same images; off the line, it is beyond chance"
)
Z = 1.96  # of the normal interval of a bin's mean


def draw_objects(found: Findings) -> "Figure":
    """Expected size of the crop against that of the object; overlaps by where crops lie.

    On the left a dot per image, with means of tenths of the images. On the right mean overlaps; a
    bar is the 95 % interval of the paired difference to learned crops, so that one that misses
    the vertical line is a difference beyond chance.

    Arguments:
        found: What to draw.

    Example:
        >>> from instaaug.report.objects.findings import find_objects
        >>> boxes = torch.tensor([[-0.5, 0.0, 1.0, 2.0], [0.0, 0.0, 2.0, 2.0]])
        >>> drawing = draw_objects(
        ...     find_objects(torch.eye(2).repeat(3, 1), boxes, boxes.repeat(3, 1))
        ... )
        >>> [axes.get_title(loc="left") for axes in drawing.axes][:2]
        ['Size of crop and object', 'Overlap, mean of 6 images']
    """
    with figure(WIDTH, HEIGHT) as canvas:
        grid = canvas.add_gridspec(len(MEASURES), 2, width_ratios=(1.0, 1.0))
        _draw_sizes(canvas.add_subplot(grid[:, 0]), found)
        panels = [canvas.add_subplot(grid[row, 1]) for row in range(len(MEASURES))]
        for axes, measure in zip(panels, MEASURES, strict=True):
            _draw_overlaps(axes, found, measure)
        panels[0].set_title(f"Overlap, mean of {found.n_images:,} images", loc="left")
        for offset, words in zip(COLUMNS, ("mean", "learned less this"), strict=True):
            _beside(panels[0], -0.75, words, offset, INK)
        canvas.supxlabel(NOTE, x=0.99, ha="right", fontsize=8, color=GRAY)
    return canvas


def binned_means(x: Tensor, y: Tensor, n_bins: int) -> list[tuple[float, float, float]]:
    """Mean x, mean y and the standard error of the latter, for groups of images of similar x.

    Groups have the same number of images, five at least.

    Example:
        >>> x = torch.arange(10.0)
        >>> binned_means(x, 2 * x, 2)
        [(2.0, 4.0, 1.41...), (7.0, 14.0, 1.41...)]
    """
    n_bins = max(1, min(n_bins, len(x) // FEWEST_IN_BIN))
    order = x.argsort(stable=True)
    groups = zip(x[order].tensor_split(n_bins), y[order].tensor_split(n_bins), strict=True)
    return [(float(a.mean()), *mean_and_standard_error(b.tolist())) for a, b in groups]


def _draw_sizes(axes: "Axes", found: Findings) -> None:
    x, y = found.object_side, found.crop_side
    size = min(26.0, max(5.0, 9000.0 / len(x)))
    axes.scatter(x, y, s=size, color=BLUE, alpha=0.3, linewidths=0, zorder=2, rasterized=True)
    bins = binned_means(x, y, N_BINS)
    middle, mean, error = (list(column) for column in zip(*bins, strict=True))
    axes.errorbar(
        middle, mean, yerr=[Z * e for e in error], color=INK, lw=1.6, marker="o", ms=5,
        markeredgecolor="white", capsize=0, zorder=4,
    )  # fmt: skip
    quiet(axes, grid="both")
    low, high = _limits([*y.tolist(), *mean], LEAST_HEIGHT)
    axes.set(xlim=(0, 1.02), ylim=(low, high + 0.08 * (high - low)))
    axes.set_xlabel("side of the object (√ of its share of the image)", color=INK)
    axes.set_ylabel("expected side of the crop (share of the image’s)", color=INK)
    axes.set_title("Size of crop and object", loc="left")
    halo = _halo()
    axes.text(
        0.015, 0.985, correlation_words(found.size_correlation), transform=axes.transAxes,
        va="top", fontsize=9, color=INK, path_effects=halo, zorder=6,
    )  # fmt: skip


def _draw_overlaps(axes: "Axes", found: Findings, measure: str) -> None:
    means = {place: found.mean(measure, place) for place in SHOWN}
    gains = {place: found.gain(measure, place) for place in COMPARED}
    quiet(axes, grid="x")
    axes.axvline(means["learned"], color=RED, lw=1.0, ls=(0, (4, 3)), zorder=1)
    ends = list(means.values())
    for y, place in enumerate(SHOWN):
        color = RED if place == "learned" else GRAY
        if place in gains:
            low, high = (means["learned"] - end for end in gains[place].interval)
            axes.plot([low, high], [y, y], color=color, lw=2.4, solid_capstyle="butt", zorder=3)
            ends += [low, high]
        axes.scatter(
            [means[place]], [y], s=30, marker=MARKERS[place], color=color, edgecolors="white",
            linewidths=0.8, zorder=4,
        )  # fmt: skip
        _beside(axes, y, number(means[place]), COLUMNS[0], color)
        if place in gains:
            _beside(axes, y, gain_words(gains[place]), COLUMNS[1], color)
    axes.set(ylim=(len(SHOWN) - 0.5, -0.5), xlim=_limits(ends, LEAST_WIDTH))
    axes.set_yticks(range(len(SHOWN)), [PLACES[place] for place in SHOWN], fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel(MEASURES[measure], color=INK, fontsize=9)


def _beside(axes: "Axes", y: float | int, words: str, offset: int, color: str) -> None:
    """Write at the right of the axes, in the row at y."""
    axes.annotate(
        words, (1.0, y), xycoords=("axes fraction", "data"), xytext=(offset, 0),
        textcoords="offset points", va="center", fontsize=8, color=color, annotation_clip=False,
    )  # fmt: skip


def _limits(values: Sequence[float], least: float) -> tuple[float, float]:
    """Around all values, and never closer than ``least``."""
    low, high = min(values), max(values)
    room = 0.06 * max(high - low, least) + max(0.0, least - (high - low)) / 2
    return low - room, high + room


def _halo() -> list[object]:
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=3, foreground="white")]
