"""Tables say what the comparison found, whatever letters a name has."""

import csv
import io
import re
from html import unescape

import pytest
from markdown_it import MarkdownIt

from instaaug.report.comparison import (
    MethodComparison,
    MethodScores,
    compare_scores,
    one_line,
    shorten_words,
)
from instaaug.report.tables import (
    Digits,
    choose_digits,
    format_p_value,
    format_ratio,
    labeled_remarks,
    method_remark,
    runs_to_csv,
    table_columns,
    table_notes,
    table_rows,
    to_csv,
    to_latex,
    to_markdown,
)
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


@pytest.mark.parametrize(
    ("means", "errors", "is_share", "written"),
    [
        ([0.65, 0.61], [0.011, 0.004], True, "65.0"),
        ([0.65, 0.61], [0.0011, 0.0004], True, "65.00"),
        ([0.65], [], True, "65.0"),
        ([0.65, 0.65], [0.0, 0.0], True, "65.0"),
        ([3.456, 2.1], [0.042], False, "3.456"),
        ([3.456, 2.1], [0.42], False, "3.46"),
        ([345.6, 210.0], [12.0], False, "346"),
        ([3.456], [], False, "3.46"),
        ([0.0], [], False, "0.00"),
        ([2.5e-9], [1e-10], False, "2.50e−09"),
        ([2.5e9], [1e8], False, "2.50e+09"),
    ],
)
def test_decimals_follow_the_errors(
    means: list[float], errors: list[float], is_share: bool, written: str
) -> None:
    assert choose_digits(means, errors, is_share=is_share).write(means[0]) == written


@pytest.mark.parametrize(
    ("value", "written"), [(0.0123, "+1.2"), (-0.0123, "−1.2"), (-0.0001, "0.0"), (0.0001, "0.0")]
)
def test_a_sign_stands_before_what_is_not_nought(value: float, written: str) -> None:
    assert Digits(100.0, 1).write(value, signed=True) == written


@pytest.mark.parametrize(
    ("p", "written"),
    [(0.0, "<0.001"), (0.00099, "<0.001"), (0.001, "0.001"), (0.0994, "0.099"), (0.1, "0.10")],
)
def test_a_p_value_is_never_nought(p: float, written: str) -> None:
    assert format_p_value(p) == written


def test_ratios_have_three_digits() -> None:
    assert [format_ratio(x) for x in (0.5, 9.994, 10, 150.4)] == [
        *("0.50×", "9.99×", "10.0×", "150×")
    ]


def remark(method: MethodScores, *others: MethodScores, reference: str | None = None) -> str:
    found = compare_scores([method, *others], reference=reference)
    return next(method_remark(m, found) for m in found.methods if m.runs is method)


def with_failures(failures: dict[int, str], n_expected: int = 4) -> MethodScores:
    return MethodScores("x", {}, n_expected=n_expected, failures=failures)


@pytest.mark.parametrize(
    ("failures", "words"),
    [
        ({}, ""),
        ({3: "Out of\n memory."}, "seed 3 failed: Out of memory"),
        ({3: " "}, "seed 3 failed"),
        ({2: "A.", 0: "A.", 1: "A"}, "seeds 0, 1 and 2 failed: A"),
        ({0: "A", 1: "B", 3: "A"}, "seeds 0 and 3 failed: A; seed 1 failed: B"),
        (dict.fromkeys(range(4), "A"), "every seed failed: A"),
    ],
)
def test_failures_are_told_once_per_reason(failures: dict[int, str], words: str) -> None:
    assert remark(with_failures(failures)) == words


def test_a_test_that_was_not_made_is_explained() -> None:
    base = runs("base", 0.5, 0.6, 0.8)
    assert remark(runs("x", 0.51, 0.61, 0.81), base, reference="base") == (
        "the same difference with every seed, so no p-value"
    )
    elsewhere = MethodScores("x", {7: 0.5}, n_expected=1)
    assert remark(elsewhere, base, reference="base") == "no seed in common with the reference"
    partly = MethodScores("x", {1: 0.5, 2: 0.9, 3: 0.4}, n_expected=3)
    assert remark(partly, base, reference="base") == "compared over 2 seeds"
    assert remark(runs("x", 0.55, 0.61, 0.81), base, reference="base") == ""
    fewer = runs("x", 0.55, 0.61)
    assert remark(fewer, base, reference="base") == "compared over 2 seeds"
    assert remark(base, fewer, reference="x") == "compared over 2 seeds"
    assert remark(runs("x", 0.51, 0.61), base, reference="base") == (
        "compared over 2 seeds; the same difference with every seed, so no p-value"
    )
    assert remark(runs("x", 0.51), base, reference="base") == "compared over 1 seed"


def test_remarks_have_labels_and_may_tell_of_missing_seeds() -> None:
    found = compare_scores(ROWS)
    failed = [
        "mixup: seed 1 failed: The loss is NaN; compared over 2 seeds",
        "broken: every seed failed: No memory",
    ]
    assert labeled_remarks(found, most=80) == failed
    assert labeled_remarks(found, most=80, with_progress=True) == [
        "mixup: 2 of 3 seeds; seed 1 failed: The loss is NaN; compared over 2 seeds",
        failed[1],
    ]
    assert labeled_remarks(found, most=15)[0] == "mixup: seed 1…"


def notes(comparison: MethodComparison) -> str:
    return " ".join(table_notes(comparison))


def test_notes_warn_of_a_reference_that_was_chosen_by_the_scores() -> None:
    chosen, named = compare_scores(ROWS), compare_scores(ROWS, reference="random")
    assert (
        "The reference, random, has the best mean among baselines with all seeds. Chosen by"
    ) in notes(chosen)
    assert "too large for a method that beats it, and too small for one that" in notes(chosen)
    assert "The reference, random, was named and not chosen by its score." in notes(named)
    assert "luck" not in notes(named)
    assert "no baseline has finished" in notes(compare_scores([ROWS[2], ROWS[4]]))


@pytest.mark.parametrize(("n", "words"), [(1, "1 run had ended"), (5, "5 runs had ended")])
def test_a_reference_that_was_named_late_is_told(n: int, words: str) -> None:
    late = notes(compare_scores(ROWS, reference="random", named_after=n))
    assert f"The reference, random, was named after {words}:" in late
    assert "not chosen by its score" not in late
    assert "named after" not in notes(compare_scores(ROWS, reference="random", named_after=0))
    assert "named after" not in notes(compare_scores(ROWS, named_after=n))


def test_variants_of_ours_alone_want_a_reference() -> None:
    words = "all methods are variants of InstaAug; name a --reference."
    assert words in notes(compare_scores([ROWS[2], ROWS[3]]))
    assert words not in notes(compare_scores([ROWS[2], ROWS[3]], reference="ours"))
    assert words not in notes(compare_scores([ROWS[2], ROWS[4]]))


def test_views_are_explained_where_there_are_several() -> None:
    found = compare_scores(VIEWED)
    assert "1 is the image as it is" in notes(found)
    assert "One view is" in notes(found)
    brief = " ".join(table_notes(found, with_one_view=False))
    assert "1 is the image as it is" in brief
    assert "One view is" not in brief
    assert "view" not in notes(compare_scores(ROWS))


def test_what_p_is_about_is_told_where_there_is_one() -> None:
    words = "P is about other seeds on these images"
    assert words in notes(compare_scores(ROWS))
    assert words not in notes(compare_scores([runs("a", 0.5), runs("b", 0.6)]))


def test_notes_tell_of_what_is_there_alone() -> None:
    everything = notes(compare_scores(ROWS))
    assert "in percent, the mean ± standard error over 3 seeds (higher is better)" in everything
    assert "Holm's p allows for all 4 tests. With 3 seeds, a large p is no evidence" in everything
    assert "time of a training step" in everything
    assert "Only methods that have finished all their seeds have a rank." in everything
    rows = [runs("a", 1.5, n_expected=1), runs("b", 2.5, n_expected=1)]
    single = compare_scores(rows, measure="RMSE", is_share=False, higher_is_better=False)
    assert table_notes(single) == [
        "RMSE is with one seed (lower is better).",
        "The reference, a, has the best mean among baselines with all seeds.",
    ]


def test_many_seeds_need_no_warning() -> None:
    rows = [runs(name, *(0.5 + 0.01 * (i * k % 7) for i in range(6)), n_expected=6)
            for k, name in enumerate("abc", 1)]  # fmt: skip
    assert "no evidence" not in notes(compare_scores(rows))


@pytest.mark.parametrize("words", HOSTILE)
def test_words_become_one_line_that_can_be_seen(words: str) -> None:
    line = one_line(words)
    assert line.isprintable()
    assert line == line.strip()
    assert one_line(line) == line


@pytest.mark.parametrize("most", [3, 8, 13, 40])
def test_shortened_words_are_no_longer_than_wanted(most: int) -> None:
    for words in ("a loss of NaN, at step 3", "unbreakableunbreakableunbreakableunbreakable"):
        short = shorten_words(words, most)
        assert len(short) <= most
        assert (short == words) == (len(words) <= most)
        assert words.startswith(short.removesuffix("…"))


def rendered(text: str) -> str:
    return str(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text))


def cells(comparison: MethodComparison) -> list[list[str]]:
    """The text of every cell of the body; tags within a cell are gone."""
    body = rendered(to_markdown(comparison)).split("<tbody>")[1].split("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    found = [re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL) for row in rows]
    return [[unescape(re.sub(r"</?strong>", "", cell)) for cell in row] for row in found]


def test_the_rendered_table_has_the_cells_of_every_method() -> None:
    found = compare_scores(ROWS)
    columns = table_columns(found)
    wanted = [[getattr(row, column.key) for column in columns] for row in table_rows(found)]
    assert cells(found) == wanted
    assert cells(found)[0][:3] == ["1", "ours", "67.3 ± 1.5"]
    assert cells(found)[3] == [*("–", "mixup", "59.5 ± 1.5", "2 of 3"), *cells(found)[3][4:]]


def test_the_difference_and_its_p_value_are_in_their_columns() -> None:
    """Differences 5, 4 and 6 points: t = 5√3, p = 1 - t / √(t² + 2) = 0.01307.

    It is the second smallest of four, and so is multiplied by three.
    """
    found = compare_scores(ROWS)
    assert [column.heading for column in table_columns(found)] == [
        *("#", "method", "accuracy (%)", "seeds", "difference", "p", "Holm", "step")
    ]
    assert cells(found)[0][4:] == ["+5.0 [+2.5, +7.5]", "0.013", "0.039", "2.00×"]
    assert cells(found)[2][4:7] == ["reference", "–", "–"]


def test_views_and_the_scores_from_one_view_have_columns() -> None:
    """One of ours has no score from one view for its third seed, so there is no mean."""
    found = compare_scores(VIEWED)
    assert [column.heading for column in table_columns(found)][2:5] == [
        *("accuracy (%)", "views", "one view")
    ]
    assert {row[1]: row[3:5] for row in cells(found)} == {
        "ours": ["16", "–"],
        "random": ["16", "56.0"],
        "none": ["1", "52.0"],
        "later": ["–", "–"],
    }
    assert "One view is the mean score from the image as it is." in to_markdown(found)


def test_the_best_that_has_finished_is_bold_and_nothing_else() -> None:
    lucky = MethodScores("lucky", {0: 0.99}, n_expected=3)
    page = rendered(to_markdown(compare_scores([*ROWS, lucky])))
    assert re.findall("<strong>(.*?)</strong>", page) == ["ours", "67.3 ± 1.5"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_words_are_shown_as_they_are(name: str) -> None:
    bad = MethodScores(name, {0: 0.5}, n_expected=2, failures={1: name})
    found = compare_scores([runs("base", 0.4, 0.6, n_expected=2), bad])
    assert [row[1] for row in cells(found)] in (["base", one_line(name)], [one_line(name), "base"])
    page = rendered(to_markdown(found))
    item = page.split("<li>")[1].split("</li>")[0]
    assert unescape(item) == (
        f"{one_line(name)}: seed 1 failed: {one_line(name).rstrip('.')}; compared over 1 seed"
    )
    assert set(re.findall(r"</?(\w+)", page)) <= {
        *("table", "thead", "tbody", "tr", "th", "td", "strong", "ul", "li", "p")
    }


def test_links_are_not_made_of_addresses() -> None:
    text = to_markdown(compare_scores([runs("http://a.org www.b.org c@d.org", 0.5)]))
    assert not re.search(r"://|www\.|@", text)


def test_the_lines_of_the_table_are_equally_long() -> None:
    table = to_markdown(compare_scores(ROWS)).split("\n\n")[0].splitlines()
    assert len({len(line) for line in table}) == 1
    assert len(table) == 2 + len(ROWS)


def test_errors_are_in_their_own_unit() -> None:
    rows = [runs("a", 3.1, 3.3, 3.5), runs("b", 2.9, 3.2, 3.3)]
    found = compare_scores(rows, measure="RMSE", is_share=False, higher_is_better=False)
    assert cells(found)[0][:3] == ["1", "b", "3.13 ± 0.12"]
    assert cells(found)[0][3] == "reference"
    assert "%" not in to_markdown(found).replace("95%", "")


def read_latex(text: str) -> str:
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
    assert read_latex(rows_of(compare_scores(rows))[1][1].strip()) == one_line(name)


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


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_numbers_come_back_with_every_bit() -> None:
    found = compare_scores(ROWS)
    for line, method in zip(read_csv(to_csv(found)), found.methods, strict=True):
        difference = method.difference
        numbers = {
            "mean": method.runs.mean,
            "standard_error": method.runs.error,
            "difference": difference and difference.mean,
            "low": difference and difference.interval and difference.interval[0],
            "high": difference and difference.interval and difference.interval[1],
            "p_value": difference and difference.p_value,
            "holm_p_value": method.holm,
            "rank": method.rank,
            "step_cost": method.runs.step_cost,
        }
        assert {k: float(line[k]) if line[k] else None for k in numbers} == numbers
        assert line["method"] == method.runs.name
        assert line["is_ours"] == str(method.runs.is_ours)
        assert line["n_seeds"] == str(len(method.runs.scores))
        assert line["reference"] == "random"


def test_every_run_that_has_ended_has_a_line() -> None:
    lines = read_csv(runs_to_csv(compare_scores(ROWS)))
    scores = {(x["method"], int(x["seed"])): float(x["score"]) for x in lines if x["score"]}
    assert scores == {(m.name, seed): score for m in ROWS for seed, score in m.scores.items()}
    failures = {(x["method"], int(x["seed"])): x["failure"] for x in lines if x["failure"]}
    assert failures == {(m.name, seed): why for m in ROWS for seed, why in m.failures.items()}
    assert len(lines) == len(scores) + len(failures)


def test_views_are_told_for_methods_and_runs() -> None:
    found = compare_scores(VIEWED)
    lines = [(x["method"], x["n_views"], x["one_view_mean"]) for x in read_csv(to_csv(found))]
    assert lines[0] == ("ours", "16", "")
    assert lines[1][:2] == ("random", "16")
    assert float(lines[1][2]) == pytest.approx(0.56)
    assert lines[2:] == [("none", "1", "0.52"), ("later", "", "")]
    runs = {
        (x["method"], int(x["seed"])): (x["n_views"], x["one_view"])
        for x in read_csv(runs_to_csv(found))
    }
    assert runs["random", 1] == ("16", "0.56")
    assert runs["ours", 2] == ("16", "")
    assert runs["none", 0] == ("1", "0.5")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_words_stay_in_one_cell_and_are_no_formula(name: str) -> None:
    found = compare_scores([MethodScores(name, {0: 0.5}, n_expected=2, failures={1: name})])
    for text in (to_csv(found), runs_to_csv(found)):
        for line in read_csv(text):
            assert line["method"].removeprefix("'") == one_line(name).removeprefix("'")
            assert not any(cell.startswith(tuple("=+-@\t\r＝＋－＠")) for cell in line.values())
    assert len(to_csv(found).splitlines()) == 2
    assert len(runs_to_csv(found).splitlines()) == 3


def test_negative_numbers_are_numbers() -> None:
    lines = {line["method"]: line for line in read_csv(to_csv(compare_scores(ROWS)))}
    assert float(lines["none"]["difference"]) < 0
