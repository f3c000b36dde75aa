"""The command line starts quickly, explains itself, and says errors in a sentence."""

import json
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import pytest

from instaaug import __version__
from instaaug.cli import main
from instaaug.errors import InstaAugWarning
from instaaug.runs.rotation import RotationSettings
from instaaug.runs.settings import TrainSettings
from instaaug.settings import setting_infos
from tests.support.command_line import CommandLine


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["instaaug", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


COMMANDS = (
    "train", "resume", "verdict", "compare", "tune", "evaluate", "predict", "embed", "export",
    "report", "inspect", "bench", "list", "show", "cache", "demo", "tta",
)  # fmt: skip


def test_help_names_the_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--help") == 0
    words = capsys.readouterr().out.split()
    assert set(COMMANDS) <= set(words)
    assert run(monkeypatch, "tta", "--help") == 0
    assert "fit" in capsys.readouterr().out.split()


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
    infos = [info for info in setting_infos(TrainSettings) if info.name not in ("kind", "data")]
    assert {f"--{info.name}" for info in infos} <= set(text.split())
    assert all(f"─ {info.section} ─" in text for info in infos)
    for words in (
        "Passes through the training images. [default: 20]",
        "Boxes: [side, places per axis] of each size. [default: [[0.25, 16], [0.5, 8]]]",
        "Optimizer of the model. One of sgd, adam, adamw. [default: adamw]",
        "Compile the model: slower to start, then faster. [default: false]",
    ):
        assert words in text


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"]])
def test_help_needs_neither_torch_nor_yaml(arguments: list[str]) -> None:
    code = f"""
import sys
from instaaug.cli import main
sys.argv = ["instaaug", *{arguments}]
try:
    main()
finally:
    print({{"torch", "yaml", "numpy"}} & set(sys.modules), file=sys.stderr)
"""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "set()\n")


def test_a_missing_folder_is_said_before_torch_is_imported(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    code = f"""
import sys
from instaaug.cli import main
sys.argv = ["instaaug", "train", {str(tmp_path / "photo")!r}]
try:
    main()
finally:
    print("torch" in sys.modules)
"""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "False\n")
    assert f"There is no folder or file '{tmp_path / 'photo'}'." in done.stderr
    assert f"Did you mean '{tmp_path / 'photos'}'?" in done.stderr


def test_the_demo_writes_figure_and_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    few = partial(RotationSettings, n_train=64, n_test=40)
    monkeypatch.setattr("instaaug.cli.demo.RotationSettings", few)
    assert run(monkeypatch, "demo", "--steps", "2", "--out", str(tmp_path / "new")) == 0
    assert {p.name for p in (tmp_path / "new").iterdir()} == {
        "figure5.png",
        "figure5.svg",
        "results.json",
    }
    shared, own = json.loads((tmp_path / "new" / "results.json").read_text())
    assert (shared["method"], own["method"]) == ("augerino", "instaaug")
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


def test_the_version_is_printed(instaaug: CommandLine) -> None:
    assert instaaug("--version").out.strip() == f"instaaug {__version__}"


def test_the_package_is_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "instaaug", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"instaaug {__version__}"
