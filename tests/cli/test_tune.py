"""``instaaug tune``: what it prints, what it leaves, how it goes on."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rich.console import Console

from instaaug.cli.terminal import STOPPED
from instaaug.cli.tune import run_tune
from instaaug.compare.tuning import tune
from instaaug.errors import ArgumentError
from instaaug.report.theme import MissingPlottingError
from instaaug.runs.settings import TrainSettings
from instaaug.yaml_files import read_yaml
from tests.support.picture_folders import plain_folder

QUICK = {
    "trainer.max_epochs": 2, "data.batch_size": 8, "data.image_size": 16, "views.n_views": 2,
    "trainer.accelerator": "cpu", "phi.width": 0.25, "model.width": 0.25,
}  # fmt: skip


@pytest.fixture
def pets(tmp_path: Path) -> dict[str, Any]:
    """Settings to tune on a folder of images."""
    plain_folder(tmp_path / "pets")
    return {"data": "pets", **QUICK}


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials are not trained: the second is the best, the third is cut short."""

    def run(config: object, folder: Path, report: Any) -> Sequence[float] | None:
        report(1, 0.5 if folder.name != "002" else 0.1)
        n_right = {"000": 60, "001": 90}.get(folder.name)
        return None if n_right is None else [1.0] * n_right + [0.0] * (100 - n_right)

    monkeypatch.setattr(
        "instaaug.cli.tune.tune", lambda *args, **rest: tune(*args, **rest, run=run)
    )
    monkeypatch.setattr("instaaug.cli.tune.save_figure", lambda *_: None)  # which takes long


def read_tuned(folder: Path) -> TrainSettings:
    return TrainSettings.from_mapping(read_yaml(folder / "tuned.yaml"))


def call(given: dict[str, Any], trials: int = 3, **rest: Any) -> None:
    run_tune(given, trials=trials, **{"config": None, "out": None, "budget": None, **rest})


def test_a_search_from_beginning_to_end(
    pets: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Interrupted in its second trial, and called again."""

    def interrupted(records: Sequence[Any]) -> None:
        if len(records) == 2 and records[-1].rungs:
            os.kill(os.getpid(), signal.SIGINT)

    pets["data.validation_fraction"] = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "instaaug.cli.tune.tune",
            lambda *args, **rest: tune(*args, **{**rest, "on_change": interrupted}),
        )
        with pytest.raises(SystemExit) as stop:
            call(pets, trials=2)
    assert stop.value.code == STOPPED
    printed = capsys.readouterr()
    assert "The settings hold out no validation images: the trials hold out 10%" in printed.out
    assert "Stopped. The same command goes on. The best so far is in runs/pets-tuning" in (
        printed.err
    )

    call(pets, trials=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Tuning on pets; the search is in runs/pets-tuning."
    shown = [line for line in lines if line.startswith("trial ")]
    assert [line.split()[1] for line in shown] == ["1/2", "2/2"]
    assert "complete, unchanged settings" in shown[0]
    folder = tmp_path / "runs" / "pets-tuning"
    assert lines[-1] == (
        f"Train with it: instaaug train {tmp_path}/pets --config runs/pets-tuning/tuned.yaml"
    )
    assert read_tuned(folder).trainer.max_epochs == 2
    with Image.open(folder / "tuning.png") as picture:
        assert picture.width > 1000
    assert "<svg" in (folder / "tuning.svg").read_text()[:500]


@pytest.mark.usefixtures("faked")
def test_what_was_found_is_said_with_its_noise(
    pets: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    call(pets)
    out = capsys.readouterr().out
    assert "Validation accuracy 90.0 % (s.e. 3.0), against 60.0 % (s.e. 4.9) with" in out
    assert "more than chance explains for this seed, on these validation images (p < 0.001" in out
    assert "The score of the best of several is optimistic" in out
    assert "3/3" in out
    assert "pruned" in out


def test_a_search_that_cannot_begin_leaves_no_folder(pets: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="`trials` must be at least 1"):
        call(pets, trials=0)
    assert not (tmp_path / "runs" / "pets-tuning").exists()


@pytest.mark.parametrize("is_terminal", [False, True])
def test_why_a_trial_failed_is_shown(
    is_terminal: bool,
    pets: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(config: object, folder: Path, report: Any) -> Sequence[float]:
        if folder.name == "001":
            raise RuntimeError("[/red] no kernel")
        return [1.0, 0.0]

    monkeypatch.setattr(
        "instaaug.cli.tune.tune", lambda *args, **rest: tune(*args, **rest, run=run)
    )
    monkeypatch.setattr("instaaug.cli.tune.save_figure", lambda *_: None)  # which takes long
    monkeypatch.setattr(
        "instaaug.cli.tune.Console",
        lambda **rest: Console(force_terminal=is_terminal, width=200, height=40, **rest),
    )
    call(pets, trials=2)
    assert "failed: RuntimeError: [/red] no kernel" in capsys.readouterr().out


@pytest.mark.usefixtures("faked")
def test_on_a_terminal_a_table_grows(
    pets: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "instaaug.cli.tune.Console",
        lambda **rest: Console(force_terminal=True, width=160, height=40, **rest),
    )
    call(pets)
    out = capsys.readouterr().out
    assert "phi.conditioning none" in out
    assert "1/3" in out
    assert "running, unchanged settings" in out
    assert "90.0 % (s.e. 3.0)" in out


@pytest.mark.usefixtures("faked")
def test_other_settings_get_a_folder_of_their_own_and_a_file_is_heeded(
    pets: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my.yaml").write_text("entropy: {band: [1.0, 2.0]}\nseed: 3\n")
    call(pets, trials=1, config=tmp_path / "my.yaml")
    call({**pets, "entropy.diversity": (0.1, 0.2)}, trials=1, config=tmp_path / "my.yaml")
    first, second = (tmp_path / "runs" / name for name in ("pets-tuning", "pets-tuning-2"))
    assert read_tuned(first).entropy.band == (1.0, 2.0)
    found = read_tuned(second)
    assert (found.entropy.band, found.entropy.diversity) == (None, (0.1, 0.2))
    assert found.seed == 3
    capsys.readouterr()
    call({**pets, "entropy.diversity": (0.1, 0.2)}, trials=1, config=tmp_path / "my.yaml")
    assert "no trial beat them" in capsys.readouterr().out
    assert not (tmp_path / "runs" / "pets-tuning-3").exists()


@pytest.mark.usefixtures("faked")
def test_without_matplotlib_there_is_no_figure_but_all_else(
    pets: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise MissingPlottingError("Figures need matplotlib.")

    monkeypatch.setattr("instaaug.cli.tune.draw_tuning", missing)
    call(pets, out=tmp_path / "search")
    assert "There is no figure. Figures need matplotlib." in capsys.readouterr().out
    assert (tmp_path / "search" / "tuned.yaml").is_file()
