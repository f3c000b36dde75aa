"""A comparison as a table for LaTeX, with the rules of booktabs."""

import re

from instaaug.report.compared.cells import Column, Row, table_columns, table_rows
from instaaug.report.compared.comparison import Comparison
from instaaug.report.compared.notes import notes_on
from instaaug.report.compared.remarks import labeled_remarks

__all__ = ["to_latex"]

LONGEST_REMARK = 120
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


def to_latex(comparison: Comparison) -> str:
    r"""A ``table`` with the best method in bold; notes and remarks are its caption.

    It needs ``\usepackage{booktabs}``. Names and sentences are shown as they are; letters beyond
    the alphabets that the document's fonts have, such as emoji, are up to the document.

    Example:
        >>> from instaaug.report.compared.comparison import compare_scores
        >>> from instaaug.report.compared.method_scores import MethodScores
        >>> scores = {0: 0.50, 1: 0.52, 2: 0.54}
        >>> runs = MethodScores("50%_noise", scores, n_expected=3)
        >>> print(to_latex(compare_scores([runs])).splitlines()[7].strip())
        $1$ & \textbf{50\%\_noise} & $\mathbf{52.0 \pm 1.2}$ \\
    """
    columns = table_columns(comparison)
    kinds = "".join("r" if column.is_number else "l" for column in columns)
    heads = " & ".join(_heading(column) for column in columns)
    rows = (" & ".join(_cell(row, column) for column in columns) for row in table_rows(comparison))
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
            rf"  \caption{{{_caption(comparison)}}}",
            r"\end{table}",
            "",
        ]
    )


def _caption(comparison: Comparison) -> str:
    remarks = (f"{x}." for x in labeled_remarks(comparison, most=LONGEST_REMARK))
    return " ".join(_text(words) for words in [*notes_on(comparison), *remarks])


def _heading(column: Column) -> str:
    return "$p$" if column.key == "p" else _text(column.heading)


def _cell(row: Row, column: Column) -> str:
    words = str(getattr(row, column.key))
    is_bold = row.is_best and column.key in ("label", "score")
    if not column.is_number:
        return rf"\textbf{{{_text(words)}}}" if is_bold else _text(words)
    if column.key == "seeds" or not any(letter.isdigit() for letter in words):
        return _text(words)
    formula = _formula(words)
    return rf"$\mathbf{{{formula}}}$" if is_bold else f"${formula}$"


def _text(words: str) -> str:
    """Words as they are: no letter has a meaning, and no two of them become one."""
    text = "".join(IN_TEXT.get(letter, letter) for letter in words)
    return re.sub(r"([-',])(?=\1)", r"\1{}", text)


def _formula(words: str) -> str:
    """Our own numbers: 65.2 ± 0.4, +1.2 [−0.3, +2.7], <0.001, 1.93×, 1.2e−09."""
    words = POWER.sub(lambda found: f"×10^{{{found[1].strip('+')}{found[2]}}}", words)
    words = words.replace(" [", "\\ [").replace(", ", ",\\ ")
    return re.sub(r",(?!\\)|[±−×]", lambda found: IN_FORMULA[found.group()], words)
