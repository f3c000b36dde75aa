"""A comparison for spreadsheets and programs: every number in full."""

import csv
import io
from collections.abc import Iterable

from instaaug.report.compared.comparison import ComparedMethod, Comparison
from instaaug.report.compared.remarks import remark_on
from instaaug.report.compared.words import one_line

__all__ = ["runs_to_csv", "to_csv"]

COLUMNS = (
    "rank",
    "method",
    "label",
    "is_ours",
    "mean",
    "standard_error",
    "n_views",
    "one_view_mean",
    "n_seeds",
    "n_expected",
    "reference",
    "difference",
    "low",
    "high",
    "n_common_seeds",
    "p_value",
    "holm_p_value",
    "step_cost",
    "remark",
)
FORMULAS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # what spreadsheets would run
Cell = str | int | float | None


def to_csv(comparison: Comparison) -> str:
    """One line per method, the best first; what is not known is empty.

    Scores are as they came: shares are not in percent. A name that a spreadsheet would run as a
    formula has an apostrophe before it.

    Example:
        >>> from instaaug.report.compared.comparison import compare_scores
        >>> from instaaug.report.compared.method_scores import MethodScores
        >>> runs = MethodScores("none", {0: 0.5, 1: 0.625}, n_expected=2)
        >>> print(to_csv(compare_scores([runs])).splitlines()[1])
        1,none,none,False,0.5625,0.0625,1,0.5625,2,2,none,,,,,,,,
    """
    return _written(COLUMNS, (_line(method, comparison) for method in comparison.methods))


def runs_to_csv(comparison: Comparison) -> str:
    r"""One line per run that has ended: its scores, or why it failed.

    ``score`` is over ``n_views`` views of each image, ``one_view`` from the image as it is.

    Example:
        >>> from instaaug.report.compared.comparison import compare_scores
        >>> from instaaug.report.compared.method_scores import MethodScores
        >>> runs = MethodScores("none", {1: 0.625}, n_expected=2, failures={0: "NaN"})
        >>> print(runs_to_csv(compare_scores([runs])).replace("\n", "; "))
        method,seed,score,n_views,one_view,failure; none,0,,,,NaN; none,1,0.625,1,0.625,;
    """
    lines: list[list[Cell]] = []
    for runs in (method.runs for method in comparison.methods):
        for seed in sorted({*runs.scores, *runs.failures}):
            score, failure = runs.scores.get(seed), runs.failures.get(seed, "")
            n_views = None if score is None else runs.n_views or 1
            lines.append([runs.name, seed, score, n_views, runs.one_view.get(seed), failure])
    return _written(("method", "seed", "score", "n_views", "one_view", "failure"), lines)


def _line(method: ComparedMethod, comparison: Comparison) -> list[Cell]:
    runs, found = method.runs, method.difference
    low, high = found.interval if found and found.interval else (None, None)
    return [
        method.rank,
        runs.name,
        runs.label,
        str(runs.is_ours),
        method.runs.mean,
        method.runs.error,
        (runs.n_views or 1) if runs.scores else None,
        runs.one_view_mean,
        len(runs.scores),
        runs.n_expected,
        comparison.reference,
        found.mean if found else None,
        low,
        high,
        found.n if found else None,
        found.p_value if found else None,
        method.holm,
        runs.step_cost,
        remark_on(method, comparison),
    ]


def _written(heads: Iterable[str], lines: Iterable[list[Cell]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([_harmless(cell) for cell in line] for line in lines)
    return file.getvalue()


def _harmless(cell: Cell) -> Cell:
    """Words on one line that no spreadsheet takes for a formula; numbers as they are."""
    if not isinstance(cell, str):
        return cell
    words = one_line(cell)
    return f"'{words}" if words.startswith(FORMULAS) else words
