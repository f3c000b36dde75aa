"""``instaaug bench``: what it prints and writes; how long things take is not its affair here."""

import json
from pathlib import Path

import pytest

from instaaug.speed import Question, Tables, Timing, problems
from tests.support.command_line import CommandLine

MET = Timing("learned", "random", 1.02, 1.0, 1.04, 20, 0.102, 0.1, budget=1.05)
MISSED = Timing("slow", "random", 2.5, 2.4, 2.6, 20, 2.5, 1.0, budget=1.1)
FREE = Timing("kornia", "random", 1.3, 1.2, 1.4, 20, 0.13, 0.1)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two questions that answer at once; what is left is the number of rounds they were given."""
    rounds: list[int] = []

    def answer(rows: list[Timing]) -> Tables:
        return {"step": rows}

    def one(n: int) -> Tables:
        rounds.append(n)
        return answer([MET, FREE])

    def two(n: int) -> Tables:
        rounds.append(n)
        return {"views": [MISSED]}

    questions = {
        "step": Question("Is it fast?", one, "others 2.0"),
        "views": Question("And?", two),
    }
    monkeypatch.setattr("instaaug.cli.bench.QUESTIONS", questions)
    return rounds


def test_every_budget_has_a_verdict(instaaug: CommandLine, asked: list[int]) -> None:
    done = instaaug("bench")
    assert done.code == 0
    assert asked == [20, 20]
    (met,) = (line for line in done.out.splitlines() if "learned (102 ms)" in line)
    assert [part.strip() for part in met.split("│")[3:7]] == [
        "1.020", "1.000 to 1.040", "1.05", "met",
    ]  # fmt: skip
    (missed,) = (line for line in done.out.splitlines() if "slow (2.5 s)" in line)
    assert "MISSED" in missed
    assert "for comparison: others 2.0" in done.out
    assert "1 of 2 budgets met. Missed: slow." in done.out


def test_one_question_and_fewer_rounds(instaaug: CommandLine, asked: list[int]) -> None:
    done = instaaug("bench", "step", "--rounds", 5)
    assert asked == [5]
    assert "1 of 1 budgets met." in done.out
    assert "views" not in done.out


@pytest.mark.usefixtures("asked")
def test_what_was_measured_is_written_with_its_misses(
    instaaug: CommandLine, tmp_path: Path
) -> None:
    instaaug("bench", "--json", tmp_path / "speed.json")
    record = json.loads((tmp_path / "speed.json").read_text())
    assert problems(record) == []
    assert [row["verdict"] for row in record["tables"]["views"]] == ["MISSED"]
    assert record["settings"]["rounds"] == 20


def test_without_kornia_it_says_what_is_left_out(
    instaaug: CommandLine, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instaaug.cli.bench.has_kornia", lambda: False)
    assert "Without kornia, rows that compare with it are left out." in instaaug("bench").out
    assert asked


@pytest.mark.usefixtures("asked")
def test_a_wrong_name_gets_a_suggestion(instaaug: CommandLine) -> None:
    words = instaaug.error("bench", "stepp")
    assert words == "There is no question called 'stepp'. Did you mean 'step'? Known: step, views."


def test_the_help_names_every_question(instaaug: CommandLine) -> None:
    from instaaug.speed import QUESTIONS

    text = instaaug("bench", "--help").out
    assert all(name in text for name in QUESTIONS)
