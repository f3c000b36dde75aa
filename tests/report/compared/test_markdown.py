"""The Markdown table, rendered by another library, shows every cell as it is."""

import re
from html import unescape

import pytest
from markdown_it import MarkdownIt

from instaaug.report.comparison import MethodComparison, MethodScores, compare_scores, one_line
from instaaug.report.tables import table_columns, table_rows, to_markdown
from tests.support.compared import HOSTILE, ROWS, VIEWED, runs


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
