"""How a run went, epoch by epoch: loss, accuracy, entropy in its band, and λ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from instaaug.errors import ArgumentError
from instaaug.report.charts.axes import (
    GRAY,
    NAME_FONT,
    NamedLine,
    log_ticks,
    quiet,
    set_log_ticks,
    write_names,
)
from instaaug.report.theme import BLUE, GREEN, INK, RED, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_training_curves"]

WIDTH, PANEL, ENDS = 6.6, 1.45, 0.5  # inches; the last for the label of the x axis
WIDE = 30.0  # ratio of largest to smallest value from which on a log scale is better
FEW = 20  # epochs that are marked one by one
FACTOR_COLORS = (BLUE, RED, GREEN, "#8a4f8a", "#a67c00", INK, GRAY)
FACTOR_DASHES = ("-", "--", ":", "-.")
FACTOR_MARKERS = ("o", "s", "^", "D")
LOSSES = {"train/loss": "train", "validation/loss": "validation", "validation/nll": "validation"}
SHARES = {
    "train/top1": "train top-1",
    "validation/top1": "validation top-1",
    "validation/top5": "validation top-5",
}
ERRORS = {"validation/rmse": "root mean squared", "validation/mae": "mean absolute"}

Number = float | int
EpochRow = Mapping[str, Number]
Band = tuple[Number, Number]


def draw_training_curves(
    history: Sequence[EpochRow], *, bands: Mapping[str, Band] | None = None
) -> "Figure":
    """Draw the numbers of every epoch in panels over one axis.

    Each panel is there if the history has something to show in it: loss, accuracy or error of a
    regression, the entropy of each factor with its band shaded, and λ of all factors. Values that
    span decades have a log scale. Gaps are where a value is missing or not finite.

    Arguments:
        history: Rows of ``metrics.csv``: by column, what is known.
        bands: By factor, its entropy band in nats.

    Raises:
        ArgumentError: If nothing can be drawn, or a band is none.

    Example:
        >>> rows = [
        ...     {"epoch": 0, "train/loss": 2.0, "train/entropy/crop": 3.9},
        ...     {"epoch": 1, "train/loss": 1.5, "train/entropy/crop": 3.3},
        ... ]
        >>> drawing = draw_training_curves(rows, bands={"crop": (3.0, 3.5)})
        >>> [axes.get_title(loc="left") for axes in drawing.axes]
        ['loss', 'entropy of crop (nats)']
    """
    bands = {name: _check_band(name, band) for name, band in (bands or {}).items()}
    columns = _columns(history)
    panels = [panel for panel in _panels(columns, bands) if panel.lines]
    if not panels:
        raise ArgumentError(
            "`history` must hold a finite train/loss, validation/…, train/entropy/… or "
            f"train/weight/…: got the columns {', '.join(columns) or 'none'} in {len(history)} "
            "rows."
        )
    epochs = _epochs(history)
    with figure(WIDTH, PANEL * len(panels) + ENDS) as canvas:
        stack = canvas.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, panel in zip(stack, panels, strict=True):
            _draw_panel(axes, panel, epochs)
        _dress_epochs(stack[-1], epochs)
        names = [_names(panel, epochs) for panel in panels]
        _leave_room(canvas, stack[-1], [line.name for lines in names for line in lines])
        for axes, lines in zip(stack, names, strict=True):
            write_names(canvas, axes, lines)
    return canvas


@dataclass(frozen=True)
class _Line:
    """One number over all epochs; NaN where it is missing."""

    name: str
    values: list[float]
    color: str
    dashes: str = "-"
    marker: str = "o"


@dataclass(frozen=True)
class _Panel:
    title: str
    lines: list[_Line] = field(default_factory=list)
    band: tuple[float, float] | None = None

    @property
    def is_log(self) -> bool:
        shown = [value for line in self.lines for value in line.values if isfinite(value)]
        return self.band is None and min(shown) > 0 and max(shown) >= WIDE * min(shown)


def _check_band(name: str, band: Band) -> tuple[float, float]:
    low, high = band
    if not (isfinite(low) and isfinite(high) and low <= high):
        raise ArgumentError(
            f"`bands` must be finite (low, high) with low ≤ high: got {tuple(band)} for {name!r}."
        )
    return float(low), float(high)


def _columns(history: Sequence[EpochRow]) -> dict[str, list[float]]:
    """Every column that has a finite value, with NaN for the others; val/ means validation/."""
    nothing = float("nan")
    columns: dict[str, list[float]] = {}
    for i, row in enumerate(history):
        for key, value in row.items():
            name = f"validation/{key.removeprefix('val/')}" if key.startswith("val/") else key
            if isfinite(value):
                columns.setdefault(name, [nothing] * len(history))[i] = float(value)
    return columns


def _epochs(history: Sequence[EpochRow]) -> list[float]:
    """The number of every epoch, from 1; that of the row where there is none."""
    return [float(row.get("epoch", i)) + 1 for i, row in enumerate(history)]


def _panels(columns: Mapping[str, list[float]], bands: Mapping[str, Band]) -> list[_Panel]:
    entropies, weights = (_by_factor(columns, kind) for kind in ("entropy", "weight"))
    looks = {
        name: (
            FACTOR_COLORS[i % len(FACTOR_COLORS)],
            FACTOR_DASHES[i % len(FACTOR_DASHES)],
            FACTOR_MARKERS[i % len(FACTOR_MARKERS)],
        )
        for i, name in enumerate(dict.fromkeys([*entropies, *weights]))
    }
    shares = {key: [100 * v for v in values] for key, values in columns.items() if key in SHARES}
    return [
        _Panel("loss", _named_lines(columns, LOSSES)),
        _Panel("accuracy (%)", _named_lines(shares, SHARES)),
        _Panel("validation error", _named_lines(columns, ERRORS)),
        *(
            _Panel(
                f"entropy of {name} (nats)",
                [_Line("", values, looks[name][0])],
                bands.get(name),
            )
            for name, values in entropies.items()
        ),
        _Panel(
            "weight of the entropy, λ",
            [_Line(name, values, *looks[name]) for name, values in weights.items()],
        ),
    ]


def _by_factor(columns: Mapping[str, list[float]], kind: str) -> dict[str, list[float]]:
    start = f"train/{kind}/"
    return {k.removeprefix(start): v for k, v in columns.items() if k.startswith(start)}


def _named_lines(columns: Mapping[str, list[float]], names: Mapping[str, str]) -> list[_Line]:
    """Training in dashed gray, validation in solid blue, what goes with it in green."""
    lines: list[_Line] = []
    for key, name in names.items():
        if key not in columns or name in [line.name for line in lines]:
            continue
        if key.startswith("train/"):
            lines.append(_Line(name, columns[key], GRAY, "--", "s"))
        elif any(line.color == BLUE for line in lines):
            lines.append(_Line(name, columns[key], GREEN, ":", "^"))
        else:
            lines.append(_Line(name, columns[key], BLUE))
    return lines


def _draw_panel(axes: "Axes", panel: _Panel, epochs: Sequence[float]) -> None:
    quiet(axes)
    if panel.band is not None:
        low, high = panel.band
        color = panel.lines[0].color
        axes.axhspan(low, high, color=color, alpha=0.14, lw=0, zorder=1)
        axes.hlines(panel.band, 0, 1, color=color, lw=0.7, transform=axes.get_yaxis_transform())
    marked = len(epochs) <= FEW
    for line in panel.lines:
        axes.plot(
            epochs,
            line.values,
            color=line.color,
            ls=line.dashes,
            lw=1.8,
            marker=line.marker if marked or _is_isolated(line.values) else "",
            ms=4,
            mec="white",
            mew=0.5,
            zorder=3,
        )
    axes.margins(y=0.15)
    axes.autoscale_view()
    scale = ", log scale" if panel.is_log else ""
    axes.set_title(f"{panel.title}{scale}", loc="left", fontsize=9.5, color=INK)
    axes.tick_params(labelsize=8.5)
    if panel.is_log:
        axes.set_yscale("log")
        set_log_ticks(axes.yaxis, log_ticks(*axes.get_ylim())[::2])
    else:
        axes.locator_params(axis="y", nbins=4)
        if axes.get_ylim()[0] < 0 < axes.get_ylim()[1]:
            axes.axhline(0, color=GRAY, lw=0.8, zorder=2)


def _is_isolated(values: Sequence[float]) -> bool:
    """Whether some value has no neighbor to draw a line to."""
    known = [False, *map(isfinite, values), False]
    return any(
        here and not before and not after
        for before, here, after in zip(known, known[1:], known[2:], strict=False)
    )


def _dress_epochs(axes: "Axes", epochs: Sequence[float]) -> None:
    from matplotlib.ticker import MaxNLocator

    margin = 0.02 * (epochs[-1] - epochs[0]) or 0.5
    axes.set_xlim(epochs[0] - margin, epochs[-1] + margin)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("epoch", color=INK)


def _leave_room(canvas: "Figure", axes: "Axes", names: Sequence[str]) -> None:
    """Settle the layout once for all panels, with room for the names beside them."""
    place: Any = {"x": 1.012, "y": 0.5, "transform": axes.transAxes, "fontsize": NAME_FONT}
    texts = [axes.text(s=name, **place) for name in names]
    canvas.draw_without_rendering()
    canvas.set_layout_engine("none")
    for text in texts:
        text.remove()


def _names(panel: _Panel, epochs: Sequence[float]) -> list[NamedLine]:
    """What to write at the ends of the lines, and beside the band."""
    if panel.band is not None:
        low, high = panel.band
        words = f"band {low:.2f} to {high:.2f}".replace("-", "−")
        return [NamedLine(words, [epochs[-1]], [(low + high) / 2], panel.lines[0].color)]
    names = []
    for line in panel.lines:
        known = [(x, y) for x, y in zip(epochs, line.values, strict=True) if isfinite(y)]
        x, y = zip(*known, strict=True)
        names.append(NamedLine(line.name, x, y, line.color))
    return names
