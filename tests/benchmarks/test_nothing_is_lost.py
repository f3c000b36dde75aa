"""A few trials of each kind; ``python -m benchmarks.run reliability`` has hundreds."""

import json
import random
import re
from pathlib import Path

import pytest

from benchmarks.reliability.commands import COMMANDS, Bench
from benchmarks.reliability.disk import try_site
from benchmarks.reliability.kills import kill_command
from benchmarks.reliability.processes import kill_one, several_processes
from benchmarks.reliability.sites import WriteSites, no_room
from benchmarks.reliability.trials import Ledger, Outcome, summarize
from benchmarks.reliability.truncation import cut_newest

BY_NAME = {command.name: command for command in COMMANDS}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.mark.parametrize("in_write", [True, False])
def test_a_killed_run_ends_with_the_same_bits(bench: Bench, in_write: bool) -> None:
    command = BY_NAME["train"]
    bench.reference(command)
    kill_command(command, bench, 0.6, in_write=in_write)
    ended = bench.run(command.next_words(bench.here, 1))
    assert bench.verdict(command, ended) == Outcome("equal")


def test_another_ending_is_noticed(bench: Bench) -> None:
    command = BY_NAME["train"]
    bench.reference(command)
    bench.clear(command)
    ended = bench.run((*command.words, "--seed", "1"))
    found = bench.verdict(command, ended)
    assert found.ending == "lost"
    assert "model.safetensors differs" in found.words
    (bench.here / "run" / "metrics.csv").unlink()
    (bench.here / "run" / ".metrics.csv.0.part").touch()
    words = bench.verdict(command, ended).words
    assert "metrics.csv is absent" in words
    assert ".metrics.csv.0.part is left over" in words


def test_a_full_disk_is_told_and_costs_nothing(bench: Bench) -> None:
    command = BY_NAME["train"]
    bench.reference(command)
    middle = len(bench.sites[command.name]) // 2
    assert try_site(command, bench, middle, no_room) == Outcome("equal")
    bench.clear(command)
    ended = bench.run(command.words, WriteSites(bench.here, at=middle, act=no_room).install)
    assert re.match(r"There is no room left for 'run/|'run/.*' cannot be used: No", ended.sentence)


def test_a_killed_process_of_two_is_told_and_costs_nothing(bench: Bench) -> None:
    chance = random.Random(1)  # noqa: S311  # kills the second process
    found = kill_one(bench, several_processes(2), 2, chance)
    assert found == Outcome("equal")


def test_a_cut_hits_the_newest_file(tmp_path: Path) -> None:
    chance = random.Random(0)  # noqa: S311
    for name in (".a.part", "b", "log.txt"):
        (tmp_path / name).write_text("0123456789")
    assert cut_newest(tmp_path, chance, unfinished=False) == "b"
    assert (tmp_path / "b").stat().st_size < 10
    assert cut_newest(tmp_path, chance, unfinished=True) == ".a.part"


def test_no_trial_is_made_twice(tmp_path: Path) -> None:
    outcomes = iter([Outcome("equal"), Outcome("lost", "all")])
    for _ in range(2):
        ledger = Ledger(tmp_path / "trials.jsonl")
        tried = [ledger.outcome(name, lambda: next(outcomes)) for name in ("a", "b")]
    row = summarize("trials", tried)
    assert (row.n, row.lost, row.refused) == (2, 1, 0)


def test_nothing_was_lost_in_the_published_trials() -> None:
    results = Path(__file__).parents[2] / "benchmarks" / "results" / "reliability.json"
    findings = json.loads(results.read_text())["findings"]
    for part in ("kills", "truncation", "processes", "disk", "readers", "numbers", "soak"):
        assert [row for row in findings[part] if row["lost"]] == []
    assert min(row["n"] for row in findings["kills"]) >= 50
