"""A run that takes the place of another one, whenever the process is killed."""

from pathlib import Path

import pytest

from instaaug.runs.folder import DataFacts, Run
from instaaug.runs.replacing import replacing
from instaaug.runs.settings import TrainSettings

FACTS = DataFacts(8, 3, ("cat", "dog"), 2, None, None, "")


def begin(folder: Path, *, seed: int) -> None:
    """A run that has begun."""
    run = Run(folder)
    run.start(TrainSettings.from_mapping({"seed": seed}))
    run.write_facts(FACTS)


def seed_of(folder: Path) -> int:
    return Run(folder).read_train_settings().seed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    begin(tmp_path / "run", seed=1)
    return tmp_path / "run"


@pytest.fixture
def aside(folder: Path) -> Path:
    """Where the other run waits."""
    with replacing(folder):
        (found,) = folder.parent.iterdir()
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.iterdir())


def test_the_new_run_stays_once_it_has_begun(folder: Path) -> None:
    with replacing(folder):
        begin(folder, seed=2)
    assert names(folder) == ["run"]
    assert seed_of(folder) == 2


def test_the_old_run_comes_back_if_the_new_one_has_not_begun(folder: Path) -> None:
    with replacing(folder):
        Run(folder).start(TrainSettings.from_mapping({"seed": 2}))
    assert names(folder) == ["run"]
    assert seed_of(folder) == 1


def test_a_run_left_aside_comes_back_if_there_is_no_other(folder: Path, aside: Path) -> None:
    folder.rename(aside)  # a kill before the new run had a folder
    with replacing(folder):
        pass
    assert names(folder) == ["run"]
    assert seed_of(folder) == 1


def test_a_run_left_aside_is_cleared_away_with_the_next(folder: Path, aside: Path) -> None:
    begin(aside, seed=0)  # a kill while the run that is there now was training
    with replacing(folder):
        begin(folder, seed=2)
    assert names(folder) == ["run"]
    assert seed_of(folder) == 2
