"""The LaTeX table has whole rows, and letters without any meaning in names."""

import re

import pytest

from instaaug.report.comparison import MethodComparison, MethodScores, compare_scores, one_line
from instaaug.report.tables import to_latex
from tests.support.compared import HOSTILE, ROWS, VIEWED, runs

NAMED = {
    "textbackslash": "\\",
    "textasciitilde": "~",
    "textasciicircum": "^",
    "textless": "<",
    "textgreater": ">",
    "textbar": "|",
    "textquotedbl": '"',
    "textasciigrave": "`",
    "textendash": "–",
    "ldots": "…",
}
TOKEN = re.compile(r"\\([a-zA-Z]+)\{\}|\\([&%$#_{}])|\{([\[\]*])\}|([-',])\{\}|([^\\{}&%$#_~^])")


def read(text: str) -> str:
    """What LaTeX would print of such text; anything that has a meaning fails."""
    found, at = "", 0
    while at < len(text):
        token = TOKEN.match(text, at)
        assert token, f"{text[at:]!r} is no plain text"
        found += NAMED[token[1]] if token[1] else next(part for part in token.groups() if part)
        at = token.end()
    return found


def rows_of(comparison: MethodComparison) -> list[list[str]]:
    body = to_latex(comparison).split("\\midrule\n")[1].split("    \\bottomrule")[0]
    lines = body.splitlines()
    assert all(line.endswith(r" \\") for line in lines)
    return [re.split(r"(?<!\\)&", line.strip().removesuffix(r" \\")) for line in lines]


def test_every_row_has_a_cell_per_column() -> None:
    found = compare_scores(ROWS)
    kinds = re.search(r"begin\{tabular\}\{(\w+)\}", to_latex(found))
    assert kinds
    assert kinds[1] == "rlrrrrrr"
    assert [len(row) for row in rows_of(found)] == [8] * len(ROWS)
    assert [cell.strip() for cell in rows_of(found)[0]] == [
        *("$1$", r"\textbf{ours}", r"$\mathbf{67.3 \pm 1.5}$", "", r"$+5.0\ [+2.5,\ +7.5]$"),
        *("$0.013$", "$0.039$", r"$2.00\times$"),
    ]
    assert [cell.strip() for cell in rows_of(found)[3][:4]] == [
        *(r"\textendash{}", "mixup", r"$59.5 \pm 1.5$", "2 of 3")
    ]


def test_views_are_columns() -> None:
    rows = [[cell.strip() for cell in row] for row in rows_of(compare_scores(VIEWED))]
    assert [row[3:5] for row in rows] == [
        ["$16$", r"\textendash{}"],
        ["$16$", "$56.0$"],
        ["$1$", "$52.0$"],
        [r"\textendash{}", r"\textendash{}"],
    ]


def test_only_the_best_is_bold() -> None:
    text = to_latex(compare_scores(ROWS))
    assert (text.count(r"\textbf"), text.count(r"\mathbf")) == (1, 1)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_printed_as_they_are(name: str) -> None:
    rows = [runs("base", 0.4, 0.6, n_expected=2), runs(name, 0.1, 0.2, n_expected=2)]
    assert read(rows_of(compare_scores(rows))[1][1].strip()) == one_line(name)


def test_rules_and_braces_are_balanced_whatever_the_words() -> None:
    rows = [MethodScores(x, {0: 0.5}, n_expected=2, failures={1: x}) for x in HOSTILE]
    text = to_latex(compare_scores(rows))
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0
    assert [text.count(rf"\{rule}") for rule in ("toprule", "midrule", "bottomrule")] == [1] * 3
    assert len(re.findall(r"(?<!\\)%", text)) == 1  # the comment on booktabs


@pytest.mark.parametrize(
    ("scores", "formula"),
    [
        ((2.5e-9, 2.7e-9), r"2.60\times10^{-9} \pm 1.00\times10^{-10}"),
        ((3.0, 3.2), r"3.10 \pm 0.10"),
    ],
)
def test_numbers_are_formulas(scores: tuple[float, ...], formula: str) -> None:
    found = compare_scores([runs("a", *scores, n_expected=2)], is_share=False)
    assert rows_of(found)[0][2].strip() == rf"$\mathbf{{{formula}}}$"


def test_large_costs_keep_their_comma() -> None:
    found = compare_scores([runs("a", 0.5, n_expected=1, cost=12345.0)])
    assert rows_of(found)[0][3].strip() == r"$12{,}345\times$"
