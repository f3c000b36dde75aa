"""Accuracy in and out of distribution: one dot per model, one axis for each."""

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.report.charts.axes import NamedLine, quiet, write_names
from instaaug.report.records import RunRecord, accuracy_of, read_record
from instaaug.report.theme import BLUE, GREEN, INK, MUTED, figure, save_figure
from instaaug.safe_files import read_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "SHIFTED",
    "DotLook",
    "SettingScale",
    "ShiftPoint",
    "draw_key",
    "draw_runs",
    "draw_shift_scatter",
    "setting_links",
]

YELLOW, RED_HUE = 0.135, 0.0  # hues; what changes from yellow to red, as in the paper
BRIGHTEST, DARKEST = 0.95, 0.72  # red is darker, so that the order shows in gray, too
PALEST = 0.12  # saturation of a dot whose second setting is the smallest
LARGEST = {"hue": 0.5, "saturation": 1.0, "value": 1.0}  # limits of a strength of one
SMALLEST_DOT, LARGEST_DOT = 3.5, 10.0  # diameters in points
PLAIN_SIZE = 8.0
EDGE = 0.9
MOST_SHOWN = 6  # values of a setting in the key
NEUTRAL = "#52606d"

Color = tuple[float, float, float]

WIDTH, HEIGHT, KEY = 6.2, 4.8, 1.5
MOST_SETTINGS = 3
LINKS = (2.6, 0.9)  # points: the first kind of line is thick, the second thin
LINK = "#b8c2cc"
MARKERS = ("*", "D", "P", "^", "s", "X", "v")
COLORS = (BLUE, INK, GREEN, "#8a4f8a", "#616e7c", "#1d6f72", "#4b3f8f")  # dots are yellow to red
SIZES = {"*": 230.0, "P": 120.0, "X": 120.0}
LEAST_SPAN = 1.0  # percent, of an axis
Number = float | int

SHIFTED = "shifted.json"
"""What ``instaaug evaluate RUN OTHER_DATA --json RUN/shifted.json`` leaves for the scatter."""


@dataclass(frozen=True)
class SettingScale:
    """A setting and the values that it takes, in rising order."""

    name: str
    values: tuple[float, ...]

    def share(self, value: float) -> float:
        """0 for the smallest value, 1 for the largest; by rank, for jitters often double."""
        return self.values.index(value) / max(1, len(self.values) - 1)

    def key_values(self) -> list[float]:
        """The values that the key lists: all, or as many from end to end."""
        n = len(self.values)
        if n <= MOST_SHOWN:
            return list(self.values)
        return [self.values[i * (n - 1) // (MOST_SHOWN - 1)] for i in range(MOST_SHOWN)]


@dataclass(frozen=True)
class DotLook:
    """What a dot looks like.

    Arguments:
        color: Of its edge, and of its filling if it is full.
        fill: From 0, nearly gray, to 1, the full color.
        size: Diameter in points.
    """

    color: Color | str
    fill: float = 1.0
    size: float = PLAIN_SIZE

    @classmethod
    def of(cls, scales: Sequence[SettingScale], settings: Mapping[str, float | int]) -> "DotLook":
        """The look of some values: the scales give color, filling and size, in this order."""
        shares = [scale.share(float(settings[scale.name])) for scale in scales]
        color = _shade(shares[0])
        fill = shares[1] if len(shares) > 1 else 1.0
        size = _diameter(shares[2]) if len(shares) > 2 else PLAIN_SIZE
        return cls(color, fill, size)

    def face(self) -> Color:
        """The color of the filling: as saturated as the dot is full."""
        from matplotlib.colors import hsv_to_rgb, rgb_to_hsv, to_rgb

        hue, saturation, value = rgb_to_hsv(to_rgb(self.color))
        share = PALEST + self.fill * (1 - PALEST)
        red, green, blue = hsv_to_rgb((hue, share * saturation, 1 - share * (1 - value)))
        return float(red), float(green), float(blue)

    def scatter_style(self) -> dict[str, Any]:
        """Arguments of ``Axes.scatter``."""
        return {
            "s": self.size**2,
            "facecolors": [self.face()],
            "edgecolors": [self.color],
            "linewidths": EDGE,
        }


def draw_key(
    canvas: "Figure",
    title: str,
    scales: Sequence[SettingScale],
    links: Mapping[str, float],
    link_color: str,
) -> None:
    """Explain the dots beside the axes: every setting with its values, and the lines.

    Arguments:
        canvas: The figure.
        title: What all dots are.
        scales: The settings, as given to `DotLook.of`.
        links: By setting, the width of the lines along it.
        link_color: Of these lines.
    """
    from matplotlib.lines import Line2D

    handles: list[Any] = []
    for i, scale in enumerate(scales):
        handles.append(Line2D([], [], ls="", label=scale.name))
        for value in scale.key_values():
            look = _example(i, scale.share(value))
            handles.append(
                Line2D(
                    [],
                    [],
                    ls="",
                    marker="o",
                    ms=look.size,
                    mfc=look.face(),
                    mec=look.color,
                    mew=EDGE,
                    label=f"{value:g}",
                )
            )
    if links:
        handles.append(Line2D([], [], ls="", label="lines: only this changes"))
    for name, width in links.items():
        handles.append(Line2D([], [], color=link_color, lw=width, label=name))
    key = canvas.legend(
        handles=handles,
        loc="outside right upper",
        title=title,
        title_fontproperties={"weight": "bold", "size": 9},
        alignment="left",
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=1.6,
    )
    for handle, text in zip(handles, key.get_texts(), strict=True):
        if handle.get_linestyle() == "None" and handle.get_marker() in ("", "None", None):
            text.set_fontweight("bold")


def _shade(share: float) -> Color:
    """From yellow, 0, to red, 1."""
    from matplotlib.colors import hsv_to_rgb

    hue, value = YELLOW + share * (RED_HUE - YELLOW), BRIGHTEST + share * (DARKEST - BRIGHTEST)
    red, green, blue = hsv_to_rgb((hue, 1.0, value))
    return float(red), float(green), float(blue)


def _diameter(share: float) -> float:
    return SMALLEST_DOT + share * (LARGEST_DOT - SMALLEST_DOT)


def _example(i: int, share: float) -> DotLook:
    """A dot that differs from others in the ``i``-th setting alone."""
    if i == 0:
        return DotLook(_shade(share))
    if i == 1:
        return DotLook(NEUTRAL, fill=share)
    return DotLook(NEUTRAL, size=_diameter(share))


@dataclass(frozen=True)
class ShiftPoint:
    """One model.

    Arguments:
        name: Of its method; written beside it where it has no settings.
        x: Accuracy in percent on data as in training.
        y: Accuracy in percent on other data.
        settings: By name, what distinguishes it from models of the same method.
    """

    name: str
    x: Number
    y: Number
    settings: Mapping[str, Number] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(isfinite(value) and 0 <= value <= 100 for value in (self.x, self.y)):
            raise ArgumentError(
                f"`x` and `y` must lie in [0, 100] percent: got {self.x} and {self.y} for "
                f"{self.name!r}. Multiply shares by 100."
            )
        if not all(isfinite(value) for value in self.settings.values()):
            raise ArgumentError(
                f"`settings` must be finite: got {dict(self.settings)} for {self.name!r}."
            )


def draw_shift_scatter(points: Sequence[ShiftPoint], *, links: Sequence[str] = ()) -> "Figure":
    """Draw in- against out-of-distribution accuracy.

    Points with settings are dots: the first setting is their color, from yellow to red, the second
    how saturated that is, the third their size. Points without are large markers with a name. A
    faint line shows where both accuracies are equal, if that is in view.

    Arguments:
        points: The models.
        links: Settings along which neighboring dots are connected, one or two: the first by thick
            lines, the second by thin ones.

    Raises:
        ArgumentError: If there is no point, or the settings of the dots do not go together.

    Example:
        >>> dots = [ShiftPoint("random", 80.0 + h, 60.0 - h, {"hue": h}) for h in (0, 1, 2)]
        >>> best = ShiftPoint("InstaAug", 82.0, 65.0)
        >>> drawing = draw_shift_scatter([*dots, best], links=["hue"])
        >>> [text.get_text() for text in drawing.axes[0].texts]
        ['InstaAug']
    """
    if not points:
        raise ArgumentError("`points` must hold at least one model: got none.")
    dots = [point for point in points if point.settings]
    named = [point for point in points if not point.settings]
    names = _checked_settings(dots, links)
    if len(named) > len(MARKERS):
        raise ArgumentError(
            f"`points` must hold at most {len(MARKERS)} models without settings: got "
            f"{len(named)}. Give the others settings."
        )
    scales = [
        SettingScale(name, tuple(sorted({float(d.settings[name]) for d in dots})))
        for name in names
    ]
    with figure(WIDTH + (KEY if dots else 0.0), HEIGHT) as canvas:
        axes = canvas.add_subplot()
        lines = _draw_links(axes, dots, links)
        for dot in dots:
            look = DotLook.of(scales, dot.settings)
            axes.scatter([dot.x], [dot.y], zorder=3, **look.scatter_style())
        labels = [_draw_named(axes, point, i) for i, point in enumerate(named)]
        _dress(axes)
        labels += _draw_diagonal(axes)
        if dots:
            draw_key(canvas, dots[0].name, scales, dict(zip(links, LINKS, strict=False)), LINK)
        if labels:
            places = [([float(dot.x)], [float(dot.y)]) for dot in dots]
            write_names(canvas, axes, labels, others=[*lines, *places])
    return canvas


def setting_links(
    points: Sequence[ShiftPoint], setting: str
) -> list[tuple[ShiftPoint, ShiftPoint]]:
    """Pairs that are neighbors in one setting and equal in all others.

    Arguments:
        points: Points that have the same settings.
        setting: The one that changes.

    Example:
        >>> points = [
        ...     ShiftPoint(str(i), 1, 2, {"hue": h, "value": v})
        ...     for i, (h, v) in enumerate([(0, 0), (0, 2), (0, 1), (1, 0)])
        ... ]
        >>> [(a.name, b.name) for a, b in setting_links(points, "value")]
        [('0', '2'), ('2', '1')]
    """

    def others(point: ShiftPoint) -> list[tuple[str, Number]]:
        return sorted((k, v) for k, v in point.settings.items() if k != setting)

    order = sorted(points, key=lambda point: (others(point), point.settings[setting]))
    return [pair for _, group in groupby(order, key=others) for pair in pairwise(group)]


def _checked_settings(dots: Sequence[ShiftPoint], links: Sequence[str]) -> list[str]:
    """Names of the settings, in the order of the first dot."""
    names = list(dots[0].settings) if dots else []
    if len(names) > MOST_SETTINGS or len(links) > len(LINKS):
        raise ArgumentError(
            f"`points` can show {MOST_SETTINGS} settings, and `links` {len(LINKS)} of them: got "
            f"{len(names)} and {len(links)}."
        )
    for dot in dots:
        if set(dot.settings) != set(names):
            raise ArgumentError(
                f"`points` must have the same settings: got {', '.join(names)} and "
                f"{', '.join(dot.settings)}."
            )
    places = [tuple(dot.settings[name] for name in names) for dot in dots]
    if len(set(places)) < len(places):
        twice = next(place for place in places if places.count(place) > 1)
        raise ArgumentError(
            "`points` must differ in their settings: got "
            f"{dict(zip(names, twice, strict=True))} twice. Average over seeds first."
        )
    for name in links:
        if name not in names:
            raise UnknownNameError("setting", name, names)
    return names


def _draw_links(
    axes: "Axes", dots: Sequence[ShiftPoint], links: Sequence[str]
) -> list[tuple[list[float], list[float]]]:
    lines = []
    for setting, width in zip(links, LINKS, strict=False):
        for a, b in setting_links(dots, setting):
            x, y = [float(a.x), float(b.x)], [float(a.y), float(b.y)]
            axes.plot(x, y, color=LINK, lw=width, solid_capstyle="round", zorder=2)
            lines.append((x, y))
    return lines


def _draw_named(axes: "Axes", point: ShiftPoint, i: int) -> NamedLine:
    x, y, marker = [float(point.x)], [float(point.y)], MARKERS[i]
    size = SIZES.get(marker, 72.0)
    axes.scatter(
        x, y, s=size, marker=marker, color=COLORS[i], edgecolors="white", linewidths=1, zorder=5
    )
    return NamedLine(point.name, x, y, COLORS[i])


def _dress(axes: "Axes") -> None:
    quiet(axes, grid="both")
    axes.margins(0.09)
    axes.autoscale_view()
    axes.set_xlabel("accuracy in distribution (%)", color=INK)
    axes.set_ylabel("accuracy out of distribution (%)", color=INK)
    for low, high, set_limits in (
        (*axes.get_xlim(), axes.set_xlim),
        (*axes.get_ylim(), axes.set_ylim),
    ):
        missing = max(0.0, LEAST_SPAN - (high - low)) / 2
        set_limits(low - missing, high + missing)


def _draw_diagonal(axes: "Axes") -> list[NamedLine]:
    """Where both accuracies are equal, if that is in view, and how to name it."""
    x, y = axes.get_xlim(), axes.get_ylim()
    start, stop = max(x[0], y[0]), min(x[1], y[1])
    if start >= stop:
        return []
    axes.plot([start, stop], [start, stop], color=MUTED, lw=0.9, ls=(0, (6, 4)), zorder=1)
    axes.set(xlim=x, ylim=y)
    end = stop - 0.12 * (stop - start)
    return [NamedLine("equal", [start, end], [start, end], "#75808c")]


def draw_runs(records: Sequence[RunRecord], *, names: Mapping[str, str] | None = None) -> "Figure":
    """Draw the runs for which both accuracies are known, in the mean over their seeds.

    A setting of random augmentation is a dot; all others are markers with a name. Thick lines
    connect dots of equal hue and value, thin ones dots of equal hue and saturation.

    Arguments:
        records: Runs whose test images are in the groups easy and hard, as those of RawFooT and
            of ``paper.lights``; or runs with ``shifted.json`` in their folder.
        names: By the name of a run's folder or of the folder above, what to write beside it.

    Raises:
        ArgumentError: If that holds for none of them.
    """
    found: dict[tuple[str, tuple[tuple[str, float], ...]], list[tuple[float, float]]] = {}
    for record in records:
        if (place := _accuracies(record)) is not None:
            strengths = _strengths(record)
            name = "random" if strengths else _method_name(record, names or {})
            found.setdefault((name, tuple(strengths.items())), []).append(place)
    points = []
    for (name, strengths_of), places in found.items():
        x, y = (100 * fmean(axis) for axis in zip(*places, strict=True))
        points.append(ShiftPoint(name, x, y, dict(strengths_of)))
    settings = next((list(point.settings) for point in points if point.settings), [])
    links = settings[1:] if len(settings) == MOST_SETTINGS else settings
    return draw_shift_scatter(points, links=links[: len(LINKS)])


def _accuracies(record: RunRecord) -> tuple[float, float] | None:
    """Accuracy on images as in training, and on others; None if one of them is not known."""
    groups = record.results.get("test", {}).get("groups", {})
    if {"easy", "hard"} <= set(groups):
        easy, hard = (groups[name]["plain"]["top1"] for name in ("easy", "hard"))
        return easy, hard
    test, file = accuracy_of(record, "plain"), record.path / SHIFTED
    if test is None or test.measure != "top1" or not file.is_file():
        return None
    shifted = accuracy_of(replace(record, results={"test": read_json(file)}), "plain")
    return None if shifted is None else (test.value, shifted.value)


def _method_name(record: RunRecord, names: Mapping[str, str]) -> str:
    """What was given for the run or its comparison's folder, or the name of its method."""
    for folder in (record.path.name, record.path.parent.name):
        if folder in names:
            return names[folder]
    method = str(record.config.get("method.name"))
    shared = method == "instaaug" and record.config.get("phi.conditioning") == "none"
    return f"{method}, shared" if shared else method


def _strengths(record: RunRecord) -> dict[str, float]:
    """The strength of random augmentation: of each color parameter, or one for all."""
    if record.config.get("method.name") != "random":
        return {}
    strength = record.config.get("method.strength", 1.0)
    if "hsv_jitter" in str(record.config.get("transforms")):
        by_name = strength if isinstance(strength, Mapping) else dict.fromkeys(LARGEST, strength)
        return {
            name: round(float(by_name.get(name, 1.0)) * most, 9) for name, most in LARGEST.items()
        }
    if isinstance(strength, Mapping):
        return {str(name): float(value) for name, value in strength.items()}
    return {"strength": float(strength)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the scatter of the runs that are named on the command line."""
    parser = ArgumentParser(prog="python -m paper.shift_scatter", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of finished runs")
    parser.add_argument("--out", type=Path, default=Path("shift_scatter.png"), help="PNG or SVG")
    options = parser.parse_args(arguments)
    save_figure(draw_runs([read_record(run) for run in options.runs]), options.out)
    print(f"Look at {options.out}.")


if __name__ == "__main__":
    main()
