"""A comparison as the chart of the leaderboard."""

from typing import TYPE_CHECKING

from instaaug.errors import ArgumentError
from instaaug.report.charts.leaderboard import LeaderboardRow, draw_leaderboard
from instaaug.report.compared.comparison import ComparedMethod, Comparison
from instaaug.report.compared.method_scores import MethodScores
from instaaug.report.compared.words import one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_comparison"]


def draw_comparison(comparison: Comparison) -> "Figure":
    """Draw the methods that have a score: mean, standard error, Holm's p-value and cost.

    Raises:
        ArgumentError: If none has a score.

    Example:
        >>> from instaaug.report.compared.comparison import compare_scores
        >>> from instaaug.report.compared.method_scores import MethodScores
        >>> runs = MethodScores("none", {0: 0.5, 1: 0.6}, n_expected=2)
        >>> draw_comparison(compare_scores([runs])).axes[0].get_xlabel()
        'accuracy (%), with standard error'
    """
    scale = 100.0 if comparison.is_share else 1.0
    names = {method.runs.name: _name(method.runs) for method in comparison.methods}
    rows = [
        _row(method, names[method.runs.name], scale)
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


def _name(runs: MethodScores) -> str:
    parts = [f"{runs.n_views} views"] if runs.has_views else []
    parts += [] if runs.is_complete else [f"{len(runs.scores)} of {runs.n_expected} seeds"]
    return runs.label + (f" ({', '.join(parts)})" if parts else "")


def _row(method: ComparedMethod, name: str, scale: float) -> LeaderboardRow:
    mean, error = scale * (method.runs.mean or 0.0), scale * (method.runs.error or 0.0)
    cost = method.runs.step_cost
    return LeaderboardRow(name, mean, mean - error, mean + error, method.holm, cost)
