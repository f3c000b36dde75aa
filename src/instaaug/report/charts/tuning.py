"""A search for settings: score against bands or ranges, and the best so far, trial by trial."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Any, Literal

from instaaug.errors import ArgumentError
from instaaug.report.charts.axes import (
    GRAY,
    NamedLine,
    log_ticks,
    quiet,
    set_log_ticks,
    write_names,
)
from instaaug.report.theme import BLUE, INK, MUTED, RED, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["TunedTrial", "draw_tuning"]

PANEL, HEIGHT = 4.3, 4.2
BAR, BEST_BAR, CAP = 2.0, 4.5, 7.0  # points
MARGIN = 1.12  # factor beside the outermost bands
PULLED_IN = 0.84  # share of the width that names start before
DEEPEST = 0.8  # how far below the complete trials the axis goes, in their span
DEFAULT = "as it was"
Number = float | int
State = Literal["complete", "pruned", "failed"]


@dataclass(frozen=True)
class TunedTrial:
    """The result of one trial.

    Arguments:
        number: From 0, the settings as they were.
        ranges: The band of each factor as diversity, or its range, (low, high) in (0, 1]; empty
            for a trial without.
        state: Pruned trials were cut short: their score is an early one.
        score: On validation images; None for a failed trial.
        error: Its standard error.
    """

    number: int
    ranges: Mapping[str, tuple[Number, Number]]
    state: State
    score: Number | None = None
    error: Number = 0.0

    def __post_init__(self) -> None:
        if not all(0 < low <= high <= 1 for low, high in self.ranges.values()):
            raise ArgumentError(
                f"`ranges` must be shares with 0 < low ≤ high ≤ 1: got {dict(self.ranges)}."
            )
        known = self.score is not None and isfinite(self.score) and self.error >= 0
        if (self.state != "failed") != known:
            raise ArgumentError(
                "`score` must be finite with an `error` of at least 0, and absent for a failed "
                f"trial: got {self.score} and {self.error} for one that is {self.state}."
            )

    @property
    def height(self) -> float:
        """The score of a trial that has one."""
        assert self.score is not None  # noqa: S101  # asked of these only
        return float(self.score)


def draw_tuning(
    trials: Sequence[TunedTrial],
    *,
    score_name: str = "validation accuracy (%)",
    largest: Number = 100.0,
    range_name: str = "band of {}, as diversity",
) -> "Figure":
    """Draw every trial as a bar over its range, as high as its score, and the best so far.

    The best one is thick and blue, the settings as they were are orange with round ends. Trials
    that were cut short are thin, dotted and hollow, and stand at the last score they had; those
    far below all others are triangles at the lower edge, failed ones crosses there. Whiskers are
    one standard error.

    Arguments:
        trials: In their order; at least one is complete, and all that have ranges have them of
            the same factors.
        score_name: What the score is.
        largest: The largest score there can be: no number stands above it.
        range_name: What a range is, with braces for the factor.

    Raises:
        ArgumentError: If no trial is complete, or trials have different factors.

    Example:
        >>> drawing = draw_tuning(
        ...     [
        ...         TunedTrial(0, {"crop": (0.06, 0.10)}, "complete", 64.0, 1.5),
        ...         TunedTrial(1, {"crop": (0.08, 0.16)}, "complete", 66.0, 1.5),
        ...         TunedTrial(2, {"crop": (0.03, 0.04)}, "pruned", 61.0),
        ...     ]
        ... )
        >>> [text.get_text() for text in drawing.axes[0].texts]
        ['best: 0.08 to 0.16', 'as it was: 0.06 to 0.1']
    """
    complete = [trial for trial in trials if trial.state == "complete"]
    factors = list(trials[0].ranges) if trials else []
    if not complete or any(list(trial.ranges) not in ([], factors) for trial in trials):
        raise ArgumentError(
            f"`trials` must hold a complete one, all with the same factors: got {len(complete)} "
            f"complete of {len(trials)}. Let a trial end before drawing."
        )
    best = max(complete, key=lambda trial: (trial.height, -trial.number))
    bottom, top = _limits(trials, complete)
    with figure(PANEL * (len(factors) + 1), HEIGHT) as canvas:
        panels = canvas.subplots(1, len(factors) + 1, sharey=True, squeeze=False)[0]
        for axes, factor in zip(panels, factors, strict=False):
            quiet(axes)
            axes.set_ylim(bottom, top)
            with_range = [trial for trial in trials if trial.ranges]
            _draw_ranges(axes, with_range, factor, best)
            axes.set_xlabel(f"{range_name.format(factor)} (log scale)", color=INK)
        quiet(panels[-1])
        panels[-1].set_ylim(bottom, top)
        _draw_progress(panels[-1], trials, best, bottom)
        panels[0].set_ylabel(score_name, color=INK)
        ticks = [tick for tick in panels[0].get_yticks() if bottom <= tick <= min(top, largest)]
        panels[0].set_yticks(ticks)
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")
        for axes, factor in zip(panels, factors, strict=False):
            _name_ranges(canvas, axes, [t for t in trials if t.ranges], factor, best)
    return canvas


def _limits(trials: Sequence[TunedTrial], complete: Sequence[TunedTrial]) -> tuple[float, float]:
    """The range of the axis, without outliers far below the others."""
    low = min(trial.height - trial.error for trial in complete)
    high = max(trial.height + trial.error for trial in complete)
    span = (high - low) or abs(high) / 10 or 1.0
    scored = [trial.height for trial in trials if trial.state != "failed"]
    bottom = max(min(low, *scored), low - DEEPEST * span) if len(scored) > 1 else low
    top = max(high, *scored) if len(scored) > 1 else high
    room = 0.12 * (top - bottom or span)
    return bottom - room, top + room


def _draw_ranges(
    axes: "Axes", trials: Sequence[TunedTrial], factor: str, best: TunedTrial
) -> None:
    ends = [end for trial in trials for end in trial.ranges[factor]]
    axes.set_xscale("log")
    limits = min(ends) / MARGIN, max(ends) * MARGIN
    axes.set_xlim(*limits)
    set_log_ticks(axes.xaxis, log_ticks(*limits))
    for trial in trials:
        if trial.state != "failed" and trial.height >= axes.get_ylim()[0]:
            _draw_band(axes, trial, trial.ranges[factor], best)


def _draw_band(
    axes: "Axes", trial: TunedTrial, band: tuple[Number, Number], best: TunedTrial
) -> None:
    look = _look(trial, best)
    height = trial.height
    ends = [float(end) for end in band]
    if trial is best or (trial.number == 0 and trial.state == "complete"):
        middle = sqrt(ends[0] * ends[1])
        whisker = height - trial.error, height + trial.error
        axes.vlines(middle, *whisker, color=look.color, lw=1.2, zorder=look.order)
    if ends[0] == ends[1]:
        axes.scatter(ends[:1], [height], s=36, marker="D", color=look.color, zorder=look.order)
        return
    axes.plot(
        ends, [height] * 2, color=look.color, lw=look.width, ls=look.dashes, zorder=look.order,
        solid_capstyle="butt",
    )  # fmt: skip
    cap = "o" if trial.number == 0 else "|"
    axes.scatter(
        ends, [height] * 2, s=(CAP * (0.7 if cap == "o" else 1)) ** 2, marker=cap, lw=1.1,
        color=look.color, zorder=look.order,
    )  # fmt: skip


@dataclass(frozen=True)
class _Look:
    color: str
    width: float
    dashes: Any
    order: int


def _look(trial: TunedTrial, best: TunedTrial) -> _Look:
    if trial is best:
        return _Look(BLUE, BEST_BAR, "-", 6)
    if trial.number == 0 and trial.state == "complete":
        return _Look(RED, BAR * 1.4, "-", 5)
    if trial.state == "complete":
        return _Look(GRAY, BAR, "-", 4)
    return _Look(MUTED, BAR / 2, (0, (2, 2)), 3)


def _name_ranges(
    canvas: "Figure", axes: "Axes", trials: Sequence[TunedTrial], factor: str, best: TunedTrial
) -> None:
    words = "best" if best.number else f"{DEFAULT}, and best"
    named = [_name_range(axes, best, factor, words, BLUE)] if best.ranges else []
    first = trials[0]
    if first is not best and first.state == "complete":
        named.append(_name_range(axes, first, factor, DEFAULT, RED))
    drawn: list[tuple[Sequence[float], Sequence[float]]] = []
    for trial in trials:
        if trial.state != "failed":
            low, high = (float(end) for end in trial.ranges[factor])
            drawn.append(([low, high], [trial.height] * 2))
            if trial is best or trial is first:
                ends = [trial.height - float(trial.error), trial.height + float(trial.error)]
                drawn.append(([sqrt(low * high)] * 2, ends))
    write_names(canvas, axes, named, others=drawn)


def _name_range(axes: "Axes", trial: TunedTrial, factor: str, words: str, color: str) -> NamedLine:
    low, high = (float(end) for end in trial.ranges[factor])
    middle = sqrt(low * high)
    limit = axes.transData.inverted().transform(axes.transAxes.transform((PULLED_IN, 0)))[0]
    band = f"{low:.2g} to {high:.2g}" if low < high else f"{low:.2g}"
    side = -1 if words == DEFAULT else 1  # the best one is above it
    height = trial.height + side * float(trial.error)
    return NamedLine(f"{words}: {band}", [min(middle, float(limit))], [height], color)


def _draw_progress(
    axes: "Axes", trials: Sequence[TunedTrial], best: TunedTrial, bottom: float
) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("trial", color=INK)
    axes.set_xlim(-0.7, len(trials) - 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    steps = _best_so_far(trials)
    axes.step(*zip(*steps, strict=True), where="post", color=BLUE, lw=1.4, zorder=2)
    for trial in trials:
        look = _look(trial, best)
        style: dict[str, Any] = {"zorder": look.order + 1}
        if trial.state == "failed":
            axes.scatter([trial.number], [bottom], s=40, marker="x", color=INK, clip_on=False)
        elif trial.height < bottom:
            axes.scatter(
                [trial.number], [bottom], s=30, marker="v", facecolors="white",
                edgecolors=GRAY, clip_on=False, **style,
            )  # fmt: skip
        elif trial.state == "pruned":
            axes.scatter(
                [trial.number], [trial.height], s=26, facecolors="white", edgecolors=GRAY, **style
            )
        else:
            ends = trial.height - trial.error, trial.height + trial.error
            axes.vlines(trial.number, *ends, color=look.color, lw=1.1, zorder=look.order)
            marker = "D" if trial is best else "s" if trial.number == 0 else "o"
            axes.scatter(
                [trial.number], [trial.height], s=46 if trial is best else 28, marker=marker,
                color=look.color, **style,
            )  # fmt: skip
    axes.set_title(_key(trials, bottom), fontsize=8.5, fontweight="normal", color=GRAY)


def _best_so_far(trials: Sequence[TunedTrial]) -> list[tuple[float, float]]:
    """Corners of the line, from the first complete trial to the edge."""
    corners: list[tuple[float, float]] = []
    for trial in trials:
        if trial.state == "complete" and (not corners or trial.height > corners[-1][1]):
            corners.append((float(trial.number), trial.height))
    return [*corners, (len(trials) - 0.3, corners[-1][1])]


def _key(trials: Sequence[TunedTrial], bottom: float) -> str:
    """What the markers mean, as far as they occur."""
    cut = [trial for trial in trials if trial.state == "pruned"]
    words = ["line: best so far"]
    if any(trial.height >= bottom for trial in cut):
        words.append("hollow: cut short")
    if any(trial.height < bottom for trial in cut):
        words.append("▽: lower still")
    if any(trial.state == "failed" for trial in trials):
        words.append("×: failed")
    return ", ".join(words)
