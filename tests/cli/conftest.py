"""Every command runs in an empty folder, and knows nothing of the machine."""

import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests.support.command_line import QUICK, CommandLine
from tests.support.picture_folders import plain_folder


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSTAAUG_CACHE", str(tmp_path / ".cache"))
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("INSTAAUG_OUT", "INSTAAUG_DATA", "LOCAL_RANK", "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def instaaug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the images ``pets`` and the run ``run`` that was trained on them."""
    from instaaug.cli import main

    folder = tmp_path_factory.mktemp("shop")
    plain_folder(folder / "pets")
    out, pets = str(folder / "run"), str(folder / "pets")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()):
        patch.setenv("INSTAAUG_CACHE", str(folder / "cache"))
        patch.setattr(sys, "argv", ["instaaug", "train", pets, "--out", out, *QUICK])
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code
    return folder
