"""The command line starts quickly, explains itself, and says errors in a sentence."""

import json
import subprocess
import sys
import warnings
from dataclasses import fields
from pathlib import Path

import pytest

from instaaug.cli import main
from instaaug.errors import InstaAugWarning
from instaaug.runs.settings import PANELS, TrainSettings
from tests.support.command_line import CommandLine


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["instaaug", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


COMMANDS = ("train", "resume", "evaluate", "predict", "list", "show", "demo")


def test_help_names_the_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--help") == 0
    words = capsys.readouterr().out.split()
    assert set(COMMANDS) <= set(words)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, command, "--help") == 0
    usage = next(line for line in capsys.readouterr().out.splitlines() if "Usage:" in line)
    assert command in usage.split()


def test_the_help_of_train_has_every_setting_in_its_panel(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "train", "--help") == 0
    text = capsys.readouterr().out
    flags = {f"--{item.name.replace('_', '-')}" for item in fields(TrainSettings)} - {"--data"}
    assert flags <= set(text.split())
    assert all(f"─ {panel} ─" in text for panel in PANELS)


def test_the_command_line_is_imported_without_torch() -> None:
    code = "import sys, instaaug.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


def test_the_demo_writes_figure_and_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(monkeypatch, "demo", "--steps", "2", "--out", str(tmp_path / "new")) == 0
    assert {p.name for p in (tmp_path / "new").iterdir()} == {
        "figure5.png",
        "figure5.svg",
        "results.json",
    }
    shared, own = json.loads((tmp_path / "new" / "results.json").read_text())
    assert (shared["conditioning"], own["conditioning"]) == ("none", "input")
    assert 0 <= own["iou"] <= 1
    assert "figure5.png" in capsys.readouterr().out.replace("\n", "")


def test_a_missing_sprite_file_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = str(tmp_path / "none.npz")
    assert run(monkeypatch, "demo", "--sprites", missing, "--out", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: There is no file")
    assert "Traceback" not in error


def test_a_warning_of_ours_is_a_sentence_without_a_place_in_the_code(
    instaaug: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warned(_: object) -> None:
        warnings.warn("Boxes [first].", InstaAugWarning, stacklevel=1)

    monkeypatch.setattr("instaaug.cli.listing.run_list", warned)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert instaaug("list").err == "warning: Boxes [first].\n"
