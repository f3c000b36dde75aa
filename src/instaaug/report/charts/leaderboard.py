"""One row per method, the best at the top: score, interval, and what it costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.report.charts.axes import GRAY, quiet
from instaaug.report.comparison import ComparedMethod, MethodComparison, MethodScores, one_line
from instaaug.report.theme import BLUE, INK, MUTED, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["LeaderboardRow", "draw_comparison", "draw_leaderboard"]

WIDTH, ROW, LINE, ENDS = 7.4, 0.31, 0.15, 1.0  # inches
COST_SHARE = 0.22  # width of the column of costs, of that of the scores
MOST_ROWS = 60
LETTERS = 34  # of a name, per line
DIGIT = 6.6  # points
Number = float | int


@dataclass(frozen=True)
class LeaderboardRow:
    """One method.

    Arguments:
        name: What it is called.
        score: How good it is.
        low: The lower end of its interval, or the score itself if it has none.
        high: The upper end, or the score itself.
        p_value: Of its difference to the best baseline on the same images, if it was tested.
        cost: How many times as long a training step takes, if it was measured.
    """

    name: str
    score: Number
    low: Number
    high: Number
    p_value: Number | None = None
    cost: Number | None = None

    def __post_init__(self) -> None:
        ends = (self.low, self.score, self.high)
        if not all(map(isfinite, ends)) or not self.low <= self.score <= self.high:
            raise ArgumentError(
                f"`score` must be finite and lie in its interval: got {self.score} in "
                f"[{self.low}, {self.high}] for {self.name!r}."
            )
        if self.p_value is not None and not 0 <= self.p_value <= 1:
            raise ArgumentError(
                f"`p_value` must lie in [0, 1]: got {self.p_value} for {self.name!r}."
            )
        if self.cost is not None and not (isfinite(self.cost) and self.cost > 0):
            raise ArgumentError(
                f"`cost` must be a finite ratio above 0: got {self.cost} for {self.name!r}."
            )


def draw_leaderboard(
    rows: Sequence[LeaderboardRow],
    *,
    measure: str = "accuracy (%)",
    interval: str = "95 % interval",
    baseline: str | None = None,
    lower_is_better: bool = False,
) -> "Figure":
    """Draw methods sorted by their score: a dot with its interval each.

    The best one is blue and bold. Columns for p-values and costs are there if any row has one.

    Arguments:
        rows: The methods, in any order.
        measure: What the score is, with its unit.
        interval: What the lines are.
        baseline: Name of the row whose score is drawn through all others.
        lower_is_better: Whether the score is an error.

    Raises:
        ArgumentError: If there is nothing to draw, or a name comes twice.
        UnknownNameError: If no row has the name of the baseline.

    Example:
        >>> drawing = draw_leaderboard(
        ...     [LeaderboardRow("none", 55.1, 52.0, 58.0), LeaderboardRow("learned", 66.0, 64, 68)]
        ... )
        >>> [label.get_text() for label in drawing.axes[0].get_yticklabels()]
        ['learned', 'none']
    """
    names = [row.name for row in rows]
    if not 1 <= len(rows) <= MOST_ROWS or len(set(names)) < len(names):
        raise ArgumentError(
            f"`rows` must be 1 to {MOST_ROWS}, each with a name of its own: got {len(rows)} rows "
            f"with {len(set(names))} names."
        )
    if baseline is not None and baseline not in names:
        raise UnknownNameError("row", baseline, names)
    order = sorted(rows, key=lambda row: row.score if lower_is_better else -row.score)
    labels = [wrap(row.name, LETTERS) or [""] for row in order]
    heights = [ROW + LINE * (len(label) - 1) for label in labels]
    places = [sum(heights[:i]) + heights[i] / 2 for i in range(len(order))]
    is_measured = any(row.high > row.low for row in order)
    label = f"{measure}, with {interval}" if is_measured else measure
    has_cost = any(row.cost is not None for row in order)
    with figure(WIDTH, sum(heights) + ENDS) as canvas:
        widths = [1.0, COST_SHARE] if has_cost else [1.0]
        axes, *further = canvas.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
        _draw_scores(axes, order, places)
        _dress(axes, places, labels, sum(heights), label)
        _write_numbers(axes, order, places)
        if baseline is not None:
            _draw_baseline(axes, next(row for row in order if row.name == baseline))
        for column in further:
            _draw_costs(column, order, places, sum(heights))
    return canvas


def _draw_scores(axes: "Axes", order: Sequence[LeaderboardRow], places: Sequence[float]) -> None:
    for i, (row, y) in enumerate(zip(order, places, strict=True)):
        color = GRAY if i else BLUE
        if row.high > row.low:
            axes.hlines(y, row.low, row.high, color=color, lw=1.6 if i else 2.6, zorder=3)
        axes.scatter(
            [row.score], [y], s=36 if i else 70, color=color, edgecolors="white", lw=0.8, zorder=4
        )


def _dress(
    axes: "Axes",
    places: Sequence[float],
    labels: Sequence[Sequence[str]],
    bottom: float,
    measure: str,
) -> None:
    quiet(axes, grid="x")
    axes.spines["left"].set_visible(False)
    axes.set_ylim(bottom, 0)
    axes.set_yticks(places, ["\n".join(label) for label in labels])
    axes.tick_params(axis="y", length=0)
    axes.get_yticklabels()[0].set(fontweight="bold", color=BLUE)
    axes.margins(x=0.06)
    axes.autoscale_view()
    largest = float(max(map(abs, axes.get_xlim())))
    axes.locator_params(axis="x", nbins=6 if _is_plain(largest) else 3)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}".replace("-", "−"))
    axes.set_xlabel(measure, color=INK)


def _write_numbers(axes: "Axes", order: Sequence[LeaderboardRow], places: Sequence[float]) -> None:
    """The scores at the right, and the p-values beside them."""
    scores = _format_alike([float(row.score) for row in order])
    width = max(map(len, scores))
    for i, (row, y) in enumerate(zip(order, places, strict=True)):
        words = scores[i].rjust(width, "\N{FIGURE SPACE}")
        look = {"color": INK} if i else {"color": BLUE, "fontweight": "bold"}
        _write(axes, 1.0, y, words, offset=8.0, **look)
        if row.p_value is not None:
            _write(axes, 1.0, y, _describe_p(float(row.p_value)), offset=20 + DIGIT * width)


def _write(axes: "Axes", x: float, y: float, words: str, *, offset: float, **look: Any) -> None:
    """Write some points to the right of a share of the width, in a row."""
    axes.annotate(
        words,
        (x, y),
        xycoords=axes.get_yaxis_transform(),
        xytext=(offset, 0),
        textcoords="offset points",
        annotation_clip=False,
        **{"va": "center", "fontsize": 9.5, "color": GRAY, **look},
    )


def _format_alike(values: Sequence[float]) -> list[str]:
    """Numbers with the same decimals, as many as it takes to show three digits of the largest."""
    largest = max(map(abs, values)) or 1.0
    if not _is_plain(largest):
        return [f"{value:.2e}" for value in values]
    decimals = next((d for d in (1, 2, 3, 4) if largest >= 10.0 ** (2 - d)), 5)
    return [f"{value:.{decimals}f}" for value in values]


def _is_plain(largest: float) -> bool:
    """Whether numbers up to this one are written without a power of ten."""
    return 1e-3 <= largest < 1e5


def _describe_p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _draw_baseline(axes: "Axes", row: LeaderboardRow) -> None:
    axes.axvline(float(row.score), color=GRAY, ls="--", lw=1.1, zorder=1)
    _head(axes, float(row.score), "baseline")


def _head(axes: "Axes", x: float, words: str) -> None:
    """Words above the axes."""
    axes.annotate(
        words,
        (x, 1),
        xycoords=axes.get_xaxis_transform(),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        fontsize=8.5,
        color=GRAY,
    )


def _draw_costs(
    axes: "Axes", order: Sequence[LeaderboardRow], places: Sequence[float], bottom: float
) -> None:
    known = [(float(r.cost), y) for r, y in zip(order, places, strict=True) if r.cost is not None]
    most = max(cost for cost, _ in known)
    axes.set(xlim=(0, 1.8 * most), ylim=(bottom, 0), xticks=[], yticks=[])
    axes.hlines([y for _, y in known], 0, [cost for cost, _ in known], color=MUTED, lw=4)
    for cost, y in known:
        words = f"{cost:,.0f}×" if cost >= 100 else f"{cost:.3g}×"
        _write(axes, cost / (1.8 * most), y, words, offset=4.0, fontsize=8.5, color=INK)
    axes.spines[:].set_visible(False)
    _head(axes, 0.9 * most, "cost of a step")


def draw_comparison(comparison: MethodComparison) -> "Figure":
    """Draw the methods that have a score: mean, standard error, Holm's p-value and cost.

    Raises:
        ArgumentError: If none has a score.

    Example:
        >>> from instaaug.report.comparison import compare_scores
        >>> from instaaug.report.comparison import MethodScores
        >>> runs = MethodScores("none", {0: 0.5, 1: 0.6}, n_expected=2)
        >>> draw_comparison(compare_scores([runs])).axes[0].get_xlabel()
        'accuracy (%), with standard error'
    """
    scale = 100.0 if comparison.is_share else 1.0
    names = {method.runs.name: _comparison_name(method.runs) for method in comparison.methods}
    rows = [
        _comparison_row(method, names[method.runs.name], scale)
        for method in comparison.methods
        if method.runs.mean is not None
    ]
    if not rows:
        raise ArgumentError("`comparison` must have a score to draw: got none. Wait for a run.")
    reference = comparison.reference_runs
    has_test = comparison.n_tested > 0
    return draw_leaderboard(
        rows,
        measure=one_line(comparison.measure) + (" (%)" if comparison.is_share else ""),
        interval="standard error" + ("; p of the difference, by Holm" * has_test),
        baseline=names[reference.name] if reference and reference.scores else None,
        lower_is_better=not comparison.higher_is_better,
    )


def _comparison_name(runs: MethodScores) -> str:
    parts = [f"{runs.n_views} views"] if runs.has_views else []
    parts += [] if runs.is_complete else [f"{len(runs.scores)} of {runs.n_expected} seeds"]
    return runs.label + (f" ({', '.join(parts)})" if parts else "")


def _comparison_row(method: ComparedMethod, name: str, scale: float) -> LeaderboardRow:
    mean, error = scale * (method.runs.mean or 0.0), scale * (method.runs.error or 0.0)
    cost = method.runs.step_cost
    return LeaderboardRow(name, mean, mean - error, mean + error, method.holm, cost)
