"""The CSV files have every number in full and nothing that a spreadsheet would run."""

import csv
import io

import pytest

from instaaug.report.comparison import MethodScores, compare_scores, one_line
from instaaug.report.tables import runs_to_csv, to_csv
from tests.support.compared import HOSTILE, ROWS, VIEWED


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_numbers_come_back_with_every_bit() -> None:
    found = compare_scores(ROWS)
    for line, method in zip(read(to_csv(found)), found.methods, strict=True):
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
    lines = read(runs_to_csv(compare_scores(ROWS)))
    scores = {(x["method"], int(x["seed"])): float(x["score"]) for x in lines if x["score"]}
    assert scores == {(m.name, seed): score for m in ROWS for seed, score in m.scores.items()}
    failures = {(x["method"], int(x["seed"])): x["failure"] for x in lines if x["failure"]}
    assert failures == {(m.name, seed): why for m in ROWS for seed, why in m.failures.items()}
    assert len(lines) == len(scores) + len(failures)


def test_views_are_told_for_methods_and_runs() -> None:
    found = compare_scores(VIEWED)
    lines = [(x["method"], x["n_views"], x["one_view_mean"]) for x in read(to_csv(found))]
    assert lines[0] == ("ours", "16", "")
    assert lines[1][:2] == ("random", "16")
    assert float(lines[1][2]) == pytest.approx(0.56)
    assert lines[2:] == [("none", "1", "0.52"), ("later", "", "")]
    runs = {
        (x["method"], int(x["seed"])): (x["n_views"], x["one_view"])
        for x in read(runs_to_csv(found))
    }
    assert runs["random", 1] == ("16", "0.56")
    assert runs["ours", 2] == ("16", "")
    assert runs["none", 0] == ("1", "0.5")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_words_stay_in_one_cell_and_are_no_formula(name: str) -> None:
    found = compare_scores([MethodScores(name, {0: 0.5}, n_expected=2, failures={1: name})])
    for text in (to_csv(found), runs_to_csv(found)):
        for line in read(text):
            assert line["method"].removeprefix("'") == one_line(name).removeprefix("'")
            assert not any(cell.startswith(tuple("=+-@\t\r＝＋－＠")) for cell in line.values())
    assert len(to_csv(found).splitlines()) == 2
    assert len(runs_to_csv(found).splitlines()) == 3


def test_negative_numbers_are_numbers() -> None:
    lines = {line["method"]: line for line in read(to_csv(compare_scores(ROWS)))}
    assert float(lines["none"]["difference"]) < 0
