"""A comparison as cells of text, before any format has its say."""

from dataclasses import dataclass

from instaaug.report.compared.comparison import ComparedMethod, Comparison
from instaaug.report.compared.digits import Digits, digits_for, p_in_digits, ratio_in_digits
from instaaug.report.compared.words import one_line

__all__ = ["NOTHING", "Column", "Row", "table_columns", "table_rows"]

NOTHING = "–"


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Arguments:
        key: The attribute of a row that it shows.
        heading: What stands above it.
        is_number: Whether it is set to the right and of our own letters only.
    """

    key: str
    heading: str
    is_number: bool = True


@dataclass(frozen=True)
class Row:
    """The cells of a method. A label or a remark is of any letters; all others are ours.

    Arguments:
        rank: Its place.
        label: Its name.
        score: Mean ± standard error, or why there is none.
        views: How many test-time views of an image the score averages.
        one_view: The mean score from the image as it is.
        seeds: How many of how many, unless it is all.
        difference: To the reference, with an interval.
        p: The p-value.
        holm: The adjusted one.
        cost: Of a step.
        is_best: Whether nothing that is complete is better.
        is_ours: Whether it is no baseline.
    """

    rank: str
    label: str
    score: str
    views: str
    one_view: str
    seeds: str
    difference: str
    p: str
    holm: str
    cost: str
    is_best: bool
    is_ours: bool


def table_columns(comparison: Comparison) -> list[Column]:
    """The columns that have something in them; views only where some score is of several.

    Example:
        >>> from instaaug.report.compared.comparison import compare_scores
        >>> from instaaug.report.compared.method_scores import MethodScores
        >>> found = compare_scores([MethodScores("none", {0: 0.5}, n_expected=1)])
        >>> [column.heading for column in table_columns(found)]
        ['#', 'method', 'accuracy (%)']
    """
    percent = " (%)" if comparison.is_share else ""
    every = [
        Column("rank", "#"),
        Column("label", "method", is_number=False),
        Column("score", one_line(comparison.measure) + percent),
        Column("views", "views"),
        Column("one_view", "one view"),
        Column("seeds", "seeds"),
        Column("difference", "difference"),
        Column("p", "p"),
        Column("holm", "Holm"),
        Column("cost", "step"),
    ]
    rows = table_rows(comparison)
    always = ("rank", "label", "score")
    empty = ("", NOTHING, "reference")
    unused = () if comparison.has_views else ("views", "one_view")
    return [
        column
        for column in every
        if column.key in always
        or (column.key not in unused and any(getattr(x, column.key) not in empty for x in rows))
    ]


def table_rows(comparison: Comparison) -> list[Row]:
    """The cells of every method, the best first.

    Example:
        >>> from instaaug.report.compared.comparison import compare_scores
        >>> from instaaug.report.compared.method_scores import MethodScores
        >>> scores = {0: 0.50, 1: 0.52, 2: 0.54}
        >>> found = compare_scores([MethodScores("none", scores, n_expected=3, step_cost=1)])
        >>> (row,) = table_rows(found)
        >>> row.rank, row.score, row.difference, row.cost
        ('1', '52.0 ± 1.2', 'reference', '1.00×')
    """
    means = [method.runs.mean for method in comparison.methods if method.runs.mean is not None]
    errors = [method.runs.error for method in comparison.methods if method.runs.error is not None]
    digits = digits_for(means, errors, is_share=comparison.is_share)
    return [_row(method, comparison, digits) for method in comparison.methods]


def _row(method: ComparedMethod, comparison: Comparison, digits: Digits) -> Row:
    runs, found = method.runs, method.difference
    p = None if found is None else found.p_value
    is_reference = runs.name == comparison.reference
    return Row(
        rank=NOTHING if method.rank is None else str(method.rank),
        label=runs.label,
        score=_score(method, digits),
        views=NOTHING if runs.mean is None else str(runs.n_views or 1),
        one_view=NOTHING if runs.one_view_mean is None else digits.write(runs.one_view_mean),
        seeds="" if runs.is_complete else f"{len(runs.scores)} of {runs.n_expected}",
        difference="reference" if is_reference else _difference(method, digits),
        p=NOTHING if p is None else p_in_digits(p),
        holm=NOTHING if method.holm is None else p_in_digits(method.holm),
        cost=NOTHING if runs.step_cost is None else ratio_in_digits(runs.step_cost),
        is_best=method.rank == 1,
        is_ours=runs.is_ours,
    )


def _score(method: ComparedMethod, digits: Digits) -> str:
    if method.runs.mean is None:
        return "failed" if method.runs.failures and not method.runs.n_waiting else "waiting"
    mean = digits.write(method.runs.mean)
    return mean if method.runs.error is None else f"{mean} ± {digits.write(method.runs.error)}"


def _difference(method: ComparedMethod, digits: Digits) -> str:
    found = method.difference
    if found is None or found.mean is None:
        return NOTHING
    mean = digits.write(found.mean, signed=True)
    if found.interval is None:
        return mean
    low, high = (digits.write(end, signed=True) for end in found.interval)
    return f"{mean} [{low}, {high}]"
