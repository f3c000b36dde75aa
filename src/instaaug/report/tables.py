"""A comparison as a table: in Markdown, LaTeX and CSV, with notes on how to read it."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, log10
from statistics import median

from instaaug.report.comparison import (
    ComparedMethod,
    MethodComparison,
    MethodScores,
    join_words,
    one_line,
    shorten_words,
)
from instaaug.stats import CONFIDENCE

__all__ = [
    "NOTHING",
    "Digits",
    "TableColumn",
    "TableRow",
    "choose_digits",
    "format_p_value",
    "format_ratio",
    "labeled_remarks",
    "method_remark",
    "runs_to_csv",
    "table_columns",
    "table_notes",
    "table_rows",
    "to_csv",
    "to_latex",
    "to_markdown",
]

SMALL_ERROR = 0.0025  # of a share: above it, a second decimal of the percentage says nothing
MOST_DECIMALS, PLAIN = 6, 1e6  # beyond, numbers are written with a power of ten
SMALLEST_P = 0.001
Number = float | int

FEW_SEEDS = 5
ON_P = (
    "P is about other seeds on these images: first weights, order, draws, and splits where the "
    "data have no test set of their own. It says nothing about new images."
)

NOTHING = "–"

LONGEST_IN_MARKDOWN = 300
MARKDOWN_LETTERS = re.compile(
    r"(?P<entity>[|\\<>&]|:(?=//)|(?<=\bwww)\.|@)"
    r"|(?P<escaped>[`*\[\]~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))",
    re.IGNORECASE,
)

LONGEST_IN_LATEX = 120
IN_TEXT = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "[": "{[}",  # not an option of the line break before it
    "]": "{]}",
    "*": "{*}",  # nor a star of it
    "–": r"\textendash{}",
    "…": r"\ldots{}",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "φ": r"$\varphi$",
    "θ": r"$\theta$",
    "λ": r"$\lambda$",
    "τ": r"$\tau$",
    "²": r"$^2$",
} | {letter: f"\\{letter}" for letter in "&%$#_"}
IN_FORMULA = {"±": r"\pm", "−": "-", "×": r"\times", ",": "{,}"}
POWER = re.compile(r"e([+−])0*(\d+)")

CSV_COLUMNS = (
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
CsvCell = str | int | float | None


@dataclass(frozen=True)
class Digits:
    """How the scores of a table are written.

    Arguments:
        scale: What they are multiplied with, 100 for percent.
        decimals: How many, or None for a power of ten.
    """

    scale: float
    decimals: int | None

    def write(self, value: float, *, signed: bool = False) -> str:
        """A number, with a plus if it is positive and its sign matters.

        Example:
            >>> Digits(100.0, 1).write(0.6519), Digits(1.0, 2).write(-0.001, signed=True)
            ('65.2', '0.00')
        """
        scaled = value * self.scale
        text = f"{scaled:.2e}" if self.decimals is None else f"{scaled:.{self.decimals}f}"
        is_zero = float(text) == 0
        sign = "+" if signed and scaled > 0 and not is_zero else ""
        return (text.lstrip("-") if is_zero else sign + text).replace("-", "−")


def choose_digits(means: Sequence[float], errors: Sequence[float], *, is_share: bool) -> Digits:
    """Digits down to those of the usual error, or three of the largest score if none is known.

    Shares have one decimal in percent, or two if errors are small.

    Example:
        >>> choose_digits([0.652, 0.611], [0.0123, 0.009], is_share=True)
        Digits(scale=100.0, decimals=1)
        >>> choose_digits([3.41], [], is_share=False)
        Digits(scale=1.0, decimals=2)
    """
    known = [error for error in errors if error > 0]
    if is_share:
        return Digits(100.0, 2 if known and median(known) < SMALL_ERROR else 1)
    largest = max(map(abs, means), default=0.0)
    wanted = 2 - floor(log10(largest or 1.0))
    if known:
        wanted = 1 - floor(log10(median(known)))
    if largest >= PLAIN or wanted > MOST_DECIMALS:
        return Digits(1.0, None)
    return Digits(1.0, max(0, wanted))


def format_p_value(p: Number) -> str:
    """A p-value, never rounded to 0.

    Example:
        >>> format_p_value(0.00001), format_p_value(0.0312), format_p_value(0.348)
        ('<0.001', '0.031', '0.35')
    """
    if p < SMALLEST_P:
        return f"<{SMALLEST_P}"
    return f"{p:.3f}" if p < 0.0995 else f"{p:.2f}"


def format_ratio(ratio: Number) -> str:
    """How many times as much.

    Example:
        >>> format_ratio(1.234), format_ratio(41.7), format_ratio(12345)
        ('1.23×', '41.7×', '12,345×')
    """
    if ratio >= 100:
        return f"{ratio:,.0f}×"
    return f"{ratio:.1f}×" if ratio >= 10 else f"{ratio:.2f}×"


def table_notes(comparison: MethodComparison, *, with_one_view: bool = True) -> list[str]:
    """Sentences on scores, views, the test, the reference and the cost, as far as they are there.

    Arguments:
        comparison: What the table shows.
        with_one_view: Whether it has a column of the scores from the image as it is.

    Example:
        >>> from instaaug.report.comparison import compare_scores
        >>> from instaaug.report.comparison import MethodScores
        >>> table_notes(compare_scores([MethodScores("none", {0: 0.5}, n_expected=1)]))[0]
        'Accuracy is in percent, with one seed (higher is better).'
    """
    notes = [
        _score_note(comparison),
        _view_note(comparison, with_one_view=with_one_view),
        _test_note(comparison),
        ON_P if comparison.n_tested else "",
        _reference_note(comparison),
    ]
    if any(method.runs.mean is not None and method.rank is None for method in comparison.methods):
        notes.append("Only methods that have finished all their seeds have a rank.")
    if any(method.runs.step_cost is not None for method in comparison.methods):
        notes.append("Step is the time of a training step, relative to one without augmentation.")
    return [note for note in notes if note]


def _score_note(comparison: MethodComparison) -> str:
    n = max(len(method.runs.scores) for method in comparison.methods)
    name = one_line(comparison.measure)
    name = name[:1].upper() + name[1:]
    unit = " in percent," if comparison.is_share else ""
    over = f"the mean ± standard error over {_count_seeds(n)}" if n > 1 else "with one seed"
    better = "higher" if comparison.higher_is_better else "lower"
    return f"{name} is{unit} {over} ({better} is better)."


def _view_note(comparison: MethodComparison, *, with_one_view: bool) -> str:
    if not comparison.has_views:
        return ""
    words = (
        "Views is how many views of a test image, drawn by the method itself, a score averages "
        "the predictions of: 1 is the image as it is, and more take that much more computation."
    )
    if with_one_view:
        words += " One view is the mean score from the image as it is."
    return words


def _count_seeds(n: int) -> str:
    return f"{n} seed{'' if n == 1 else 's'}"


def _test_note(comparison: MethodComparison) -> str:
    if not comparison.n_tested:
        return ""
    n = max(m.difference.n for m in comparison.methods if m.difference is not None)
    unit = ", in percentage points" if comparison.is_share else ""
    words = (
        f"Differences are paired by seed{unit}, with Student's {CONFIDENCE:.0%} interval; p is "
        f"of the two-sided paired t-test, and Holm's p allows for {_count_tests(comparison)}."
    )
    if n <= FEW_SEEDS:
        words += f" With {_count_seeds(n)}, a large p is no evidence that two methods are alike."
    return words


def _count_tests(comparison: MethodComparison) -> str:
    return f"all {comparison.n_tested} tests" if comparison.n_tested > 1 else "the only test"


def _reference_note(comparison: MethodComparison) -> str:
    reference = comparison.reference_runs
    if reference is None:
        if all(method.runs.is_ours for method in comparison.methods):
            return (
                "There is no reference: all methods are variants of InstaAug; name a --reference."
            )
        return "There is no reference, as no baseline has finished all its seeds."
    if not comparison.is_selected and comparison.named_after:
        n = comparison.named_after
        return (
            f"The reference, {reference.label}, was named after {n} run{'s' * (n > 1)} had ended: "
            "if their scores had a part in it, p is not what it claims to be."
        )
    if not comparison.is_selected:
        return f"The reference, {reference.label}, was named and not chosen by its score."
    words = f"The reference, {reference.label}, has the best mean among baselines with all seeds."
    if comparison.n_tested:
        words += (
            " Chosen by these very scores, it owes its place partly to luck: p is rather too large"
            " for a method that beats it, and too small for one that loses to it. A win is one"
            " over this row, not over every baseline."
        )
    return words


def method_remark(method: ComparedMethod, comparison: MethodComparison) -> str:
    """What a reader should know about a method's row; empty if it is an ordinary one.

    Example:
        >>> from instaaug.report.comparison import compare_scores
        >>> runs = MethodScores("mixup", {0: 0.5}, n_expected=3, failures={1: "The loss is NaN."})
        >>> method_remark((found := compare_scores([runs])).methods[0], found)
        'seed 1 failed: The loss is NaN'
    """
    told = (method.runs.choice, method.runs.learned)
    sentences = [one_line(words).rstrip(".") for words in told if words]
    remarks = [*sentences, *_failure_remarks(method.runs), *_test_remarks(method, comparison)]
    return "; ".join(remarks)


def labeled_remarks(
    comparison: MethodComparison, *, most: int, with_progress: bool = False
) -> list[str]:
    """A line for each method that there is a remark on.

    Arguments:
        comparison: All methods.
        most: Letters of a remark; of longer ones, the first words are kept.
        with_progress: Whether seeds that are missing are a remark, too.

    Example:
        >>> from instaaug.report.comparison import compare_scores
        >>> runs = MethodScores("mixup", {}, n_expected=1, failures={7: "The loss is NaN."})
        >>> labeled_remarks(compare_scores([runs]), most=80)
        ['mixup: seed 7 failed: The loss is NaN']
    """
    found = []
    for method in comparison.methods:
        progress = _describe_progress(method.runs) if with_progress else ""
        parts = [part for part in (progress, method_remark(method, comparison)) if part]
        if parts:
            found.append(f"{method.runs.label}: {shorten_words('; '.join(parts), most)}")
    return found


def _describe_progress(runs: MethodScores) -> str:
    if runs.is_complete or not runs.scores:
        return ""  # that there is no score at all is said in its place
    return f"{len(runs.scores)} of {runs.n_expected} seeds"


def _failure_remarks(runs: MethodScores) -> list[str]:
    """One sentence per reason, with the seeds that it holds for."""
    seeds_of: dict[str, list[str]] = {}
    for seed, sentence in sorted(runs.failures.items()):
        seeds_of.setdefault(one_line(sentence).rstrip("."), []).append(str(seed))
    found = []
    for sentence, seeds in seeds_of.items():
        which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {join_words(seeds)}"
        which = "every seed" if 1 < len(seeds) == runs.n_expected else which
        found.append(f"{which} failed: {sentence}" if sentence else f"{which} failed")
    return found


def _test_remarks(method: ComparedMethod, comparison: MethodComparison) -> list[str]:
    """Of how many seeds the difference is, if one of the two has more, and why it has no p."""
    found, reference = method.difference, comparison.reference_runs
    if found is None or reference is None or not method.runs.scores or not reference.scores:
        return []
    if not found.n:
        return ["no seed in common with the reference"]
    words = []
    if found.n < max(len(method.runs.scores), len(reference.scores)):
        words.append(f"compared over {found.n} seed{'s' if found.n > 1 else ''}")
    if found.is_constant:
        words.append("the same difference with every seed, so no p-value")
    return words


@dataclass(frozen=True)
class TableColumn:
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
class TableRow:
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


def table_columns(comparison: MethodComparison) -> list[TableColumn]:
    """The columns that have something in them; views only where some score is of several.

    Example:
        >>> from instaaug.report.comparison import compare_scores
        >>> from instaaug.report.comparison import MethodScores
        >>> found = compare_scores([MethodScores("none", {0: 0.5}, n_expected=1)])
        >>> [column.heading for column in table_columns(found)]
        ['#', 'method', 'accuracy (%)']
    """
    percent = " (%)" if comparison.is_share else ""
    every = [
        TableColumn("rank", "#"),
        TableColumn("label", "method", is_number=False),
        TableColumn("score", one_line(comparison.measure) + percent),
        TableColumn("views", "views"),
        TableColumn("one_view", "one view"),
        TableColumn("seeds", "seeds"),
        TableColumn("difference", "difference"),
        TableColumn("p", "p"),
        TableColumn("holm", "Holm"),
        TableColumn("cost", "step"),
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


def table_rows(comparison: MethodComparison) -> list[TableRow]:
    """The cells of every method, the best first.

    Example:
        >>> from instaaug.report.comparison import compare_scores
        >>> from instaaug.report.comparison import MethodScores
        >>> scores = {0: 0.50, 1: 0.52, 2: 0.54}
        >>> found = compare_scores([MethodScores("none", scores, n_expected=3, step_cost=1)])
        >>> (row,) = table_rows(found)
        >>> row.rank, row.score, row.difference, row.cost
        ('1', '52.0 ± 1.2', 'reference', '1.00×')
    """
    means = [method.runs.mean for method in comparison.methods if method.runs.mean is not None]
    errors = [method.runs.error for method in comparison.methods if method.runs.error is not None]
    digits = choose_digits(means, errors, is_share=comparison.is_share)
    return [_table_row(method, comparison, digits) for method in comparison.methods]


def _table_row(method: ComparedMethod, comparison: MethodComparison, digits: Digits) -> TableRow:
    runs, found = method.runs, method.difference
    p = None if found is None else found.p_value
    is_reference = runs.name == comparison.reference
    return TableRow(
        rank=NOTHING if method.rank is None else str(method.rank),
        label=runs.label,
        score=_write_score(method, digits),
        views=NOTHING if runs.mean is None else str(runs.n_views or 1),
        one_view=NOTHING if runs.one_view_mean is None else digits.write(runs.one_view_mean),
        seeds="" if runs.is_complete else f"{len(runs.scores)} of {runs.n_expected}",
        difference="reference" if is_reference else _write_difference(method, digits),
        p=NOTHING if p is None else format_p_value(p),
        holm=NOTHING if method.holm is None else format_p_value(method.holm),
        cost=NOTHING if runs.step_cost is None else format_ratio(runs.step_cost),
        is_best=method.rank == 1,
        is_ours=runs.is_ours,
    )


def _write_score(method: ComparedMethod, digits: Digits) -> str:
    if method.runs.mean is None:
        return "failed" if method.runs.failures and not method.runs.n_waiting else "waiting"
    mean = digits.write(method.runs.mean)
    return mean if method.runs.error is None else f"{mean} ± {digits.write(method.runs.error)}"


def _write_difference(method: ComparedMethod, digits: Digits) -> str:
    found = method.difference
    if found is None or found.mean is None:
        return NOTHING
    mean = digits.write(found.mean, signed=True)
    if found.interval is None:
        return mean
    low, high = (digits.write(end, signed=True) for end in found.interval)
    return f"{mean} [{low}, {high}]"


def to_markdown(comparison: MethodComparison) -> str:
    """The table, the best method in bold, with remarks and notes below it.

    Names and sentences are shown as they are, whatever letters they have.

    Example:
        >>> from instaaug.report.comparison import compare_scores
        >>> from instaaug.report.comparison import MethodScores
        >>> runs = [MethodScores(name, {0: 0.5}, n_expected=1) for name in ("a|b", "none")]
        >>> print(to_markdown(compare_scores(runs)).split("Accuracy")[0].strip())
        |   # | method       | accuracy (%) | difference |
        | --: | :----------- | -----------: | ---------: |
        |   1 | **a&#124;b** |     **50.0** |  reference |
        |   1 | **none**     |     **50.0** |        0.0 |
    """
    columns = table_columns(comparison)
    lines = [[_escape_markdown(column.heading) for column in columns]]
    lines += [
        [_markdown_cell(row, column) for column in columns] for row in table_rows(comparison)
    ]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(columns))]
    table = [_markdown_line(line, widths, columns) for line in lines]
    table.insert(
        1,
        _markdown_line(
            [_markdown_rule(c, w) for c, w in zip(columns, widths, strict=True)], widths
        ),
    )
    remarks = [
        f"- {_escape_markdown(x)}" for x in labeled_remarks(comparison, most=LONGEST_IN_MARKDOWN)
    ]
    notes = [_escape_markdown(note) for note in table_notes(comparison)]
    return "\n\n".join(["\n".join(part) for part in (table, remarks) if part] + notes) + "\n"


def _markdown_cell(row: TableRow, column: TableColumn) -> str:
    words = str(getattr(row, column.key))
    words = words if column.is_number else _escape_markdown(words)
    return f"**{words}**" if row.is_best and column.key in ("label", "score") else words


def _markdown_rule(column: TableColumn, width: int) -> str:
    return "-" * (width - 1) + ":" if column.is_number else ":" + "-" * (width - 1)


def _markdown_line(
    cells: list[str], widths: list[int], columns: list[TableColumn] | None = None
) -> str:
    padded = [
        cell.rjust(width) if columns and columns[i].is_number else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"


def _escape_markdown(words: str) -> str:
    """Words that Markdown shows as they are: no table cells, emphasis, tags, links or formulas."""
    return MARKDOWN_LETTERS.sub(_escape_letter, words)


def _escape_letter(found: re.Match[str]) -> str:
    letter = found.group()
    return f"&#{ord(letter)};" if found["entity"] else f"\\{letter}"


def to_latex(comparison: MethodComparison) -> str:
    r"""A ``table`` with the best method in bold; notes and remarks are its caption.

    It needs ``\usepackage{booktabs}``. Names and sentences are shown as they are; letters beyond
    the alphabets that the document's fonts have, such as emoji, are up to the document.

    Example:
        >>> from instaaug.report.comparison import compare_scores
        >>> from instaaug.report.comparison import MethodScores
        >>> scores = {0: 0.50, 1: 0.52, 2: 0.54}
        >>> runs = MethodScores("50%_noise", scores, n_expected=3)
        >>> print(to_latex(compare_scores([runs])).splitlines()[7].strip())
        $1$ & \textbf{50\%\_noise} & $\mathbf{52.0 \pm 1.2}$ \\
    """
    columns = table_columns(comparison)
    kinds = "".join("r" if column.is_number else "l" for column in columns)
    heads = " & ".join(_latex_heading(column) for column in columns)
    rows = (
        " & ".join(_latex_cell(row, column) for column in columns)
        for row in table_rows(comparison)
    )
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"  \centering\small",
            rf"  \begin{{tabular}}{{{kinds}}}",
            r"    \toprule",
            rf"    {heads} \\",
            r"    \midrule",
            *(rf"    {row} \\" for row in rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            rf"  \caption{{{_latex_caption(comparison)}}}",
            r"\end{table}",
            "",
        ]
    )


def _latex_caption(comparison: MethodComparison) -> str:
    remarks = (f"{x}." for x in labeled_remarks(comparison, most=LONGEST_IN_LATEX))
    return " ".join(_latex_text(words) for words in [*table_notes(comparison), *remarks])


def _latex_heading(column: TableColumn) -> str:
    return "$p$" if column.key == "p" else _latex_text(column.heading)


def _latex_cell(row: TableRow, column: TableColumn) -> str:
    words = str(getattr(row, column.key))
    is_bold = row.is_best and column.key in ("label", "score")
    if not column.is_number:
        return rf"\textbf{{{_latex_text(words)}}}" if is_bold else _latex_text(words)
    if column.key == "seeds" or not any(letter.isdigit() for letter in words):
        return _latex_text(words)
    formula = _latex_formula(words)
    return rf"$\mathbf{{{formula}}}$" if is_bold else f"${formula}$"


def _latex_text(words: str) -> str:
    """Words as they are: no letter has a meaning, and no two of them become one."""
    text = "".join(IN_TEXT.get(letter, letter) for letter in words)
    return re.sub(r"([-',])(?=\1)", r"\1{}", text)


def _latex_formula(words: str) -> str:
    """Our own numbers: 65.2 ± 0.4, +1.2 [−0.3, +2.7], <0.001, 1.93×, 1.2e−09."""
    words = POWER.sub(lambda found: f"×10^{{{found[1].strip('+')}{found[2]}}}", words)
    words = words.replace(" [", "\\ [").replace(", ", ",\\ ")
    return re.sub(r",(?!\\)|[±−×]", lambda found: IN_FORMULA[found.group()], words)


def to_csv(comparison: MethodComparison) -> str:
    """One line per method, the best first; what is not known is empty.

    Scores are as they came: shares are not in percent. A name that a spreadsheet would run as a
    formula has an apostrophe before it.

    Example:
        >>> from instaaug.report.comparison import compare_scores
        >>> from instaaug.report.comparison import MethodScores
        >>> runs = MethodScores("none", {0: 0.5, 1: 0.625}, n_expected=2)
        >>> print(to_csv(compare_scores([runs])).splitlines()[1])
        1,none,none,False,0.5625,0.0625,1,0.5625,2,2,none,,,,,,,,
    """
    return _write_csv(
        CSV_COLUMNS, (_csv_line(method, comparison) for method in comparison.methods)
    )


def runs_to_csv(comparison: MethodComparison) -> str:
    r"""One line per run that has ended: its scores, or why it failed.

    ``score`` is over ``n_views`` views of each image, ``one_view`` from the image as it is.

    Example:
        >>> from instaaug.report.comparison import compare_scores
        >>> from instaaug.report.comparison import MethodScores
        >>> runs = MethodScores("none", {1: 0.625}, n_expected=2, failures={0: "NaN"})
        >>> print(runs_to_csv(compare_scores([runs])).replace("\n", "; "))
        method,seed,score,n_views,one_view,failure; none,0,,,,NaN; none,1,0.625,1,0.625,;
    """
    lines: list[list[CsvCell]] = []
    for runs in (method.runs for method in comparison.methods):
        for seed in sorted({*runs.scores, *runs.failures}):
            score, failure = runs.scores.get(seed), runs.failures.get(seed, "")
            n_views = None if score is None else runs.n_views or 1
            lines.append([runs.name, seed, score, n_views, runs.one_view.get(seed), failure])
    return _write_csv(("method", "seed", "score", "n_views", "one_view", "failure"), lines)


def _csv_line(method: ComparedMethod, comparison: MethodComparison) -> list[CsvCell]:
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
        method_remark(method, comparison),
    ]


def _write_csv(heads: Iterable[str], lines: Iterable[list[CsvCell]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([_disarm(cell) for cell in line] for line in lines)
    return file.getvalue()


def _disarm(cell: CsvCell) -> CsvCell:
    """Words on one line that no spreadsheet takes for a formula; numbers as they are."""
    if not isinstance(cell, str):
        return cell
    words = one_line(cell)
    return f"'{words}" if words.startswith(FORMULAS) else words
