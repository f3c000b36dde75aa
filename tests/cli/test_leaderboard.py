"""The leaderboard fits a terminal and loses no digit."""

import io

import pytest
from instaaug.cli.leaderboard import leaderboard_table
from rich.console import Console

from instaaug.report.comparison import MethodComparison, compare_scores, one_line
from instaaug.report.tables import table_rows
from tests.support.compared import HOSTILE, ROWS, VIEWED, runs

NAMES = [
    *("random crop, rotation, color", "AutoAugment (ImageNet)", "InstaAug, class-specific"),
    *("spatial transformer", "TrivialAugment", "InstaAug without input"),
]


def printed(comparison: MethodComparison, width: int, *, with_notes: bool = True) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None)
    console.print(leaderboard_table(comparison, with_notes=with_notes))
    return file.getvalue()


def test_eighty_columns_hold_every_number_on_the_line_of_its_method() -> None:
    rows = [
        runs(
            name,
            0.61 - 0.1 * i,
            0.63 - 0.1 * i,
            0.66 - 0.09 * i,
            cost=1.0 + i,
            n_views=16,
            plain=[0.1] * 3,
        )
        for i, name in enumerate(NAMES)
    ]
    found = compare_scores(rows)
    lines = printed(found, 80).splitlines()
    assert max(map(len, lines)) <= 80
    for row in table_rows(found):
        (line,) = [line for line in lines if row.score in line]
        first, *_ = row.label.split()
        assert [line.split()[0], line.split()[1].rstrip(",")] == [row.rank, first.rstrip(",")]
        assert line.rstrip().endswith(row.cost)
        assert line.split(row.score)[1].split()[0] == "16"
        assert row.difference in line
        assert f" {row.p} " in line
        assert f" {row.holm} " in line


def test_views_are_shown_and_explained_but_one_view_is_for_files() -> None:
    text = printed(compare_scores(VIEWED), 80)
    assert "views" in text.splitlines()[0]
    assert "one view" not in text.lower()
    assert "1 is the image as it is" in " ".join(text.split())


def test_names_have_one_line_where_there_is_room() -> None:
    names = ["a name of more words than most", "another name of more words than most"]
    text = printed(compare_scores([runs(name, 0.5, 0.6, 0.9) for name in names]), 160)
    assert all(name in text for name in names)


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert all(len(line) <= width for line in printed(compare_scores(ROWS), width).splitlines())


def test_a_number_that_is_cut_is_seen_to_be_cut() -> None:
    found = compare_scores(ROWS)
    text = printed(found, 40, with_notes=False)
    keys = ("rank", "score", "difference", "p", "holm")
    whole = {
        word for row in table_rows(found) for key in keys for word in getattr(row, key).split()
    }
    numbers = [word for word in text.split("mixup:")[0].split() if word[-1].isdigit()]
    assert "…" in text
    assert set(numbers) <= whole


def test_remarks_are_always_below_and_notes_if_wanted() -> None:
    found = compare_scores(ROWS)
    brief, full = printed(found, 120, with_notes=False), printed(found, 120)
    for text in (brief, full):
        assert "mixup: 2 of 3 seeds; seed 1 failed: The loss is NaN" in text
        assert "broken: every seed failed: No memory" in text
    assert "The reference, random, has the best mean among baselines with all seeds." in full
    assert "reference, random" not in brief


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_printed_as_they_are(name: str) -> None:
    text = printed(compare_scores([runs("base", 0.5), runs(name, 0.4)]), 200)
    assert any(one_line(name) in line for line in text.splitlines())
    assert "\x1b" not in text
