"""The command line, called within the test's own process."""

import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

__all__ = ["QUICK", "QUICK_FIT", "SPOTTER", "CommandLine", "Outcome", "run_quietly"]

QUICK = (
    "--trainer.max_epochs=1", "--trainer.accelerator=cpu", "--data.batch_size=8",
    "--data.image_size=16", "--views.n_views=2",
)  # fmt: skip
SPOTTER = "tests.support.spots:spotter"
QUICK_FIT = (
    "--model.image_size=16", "--crop.grid=[[1, 1], [0.5, 2]]", "--views=[2, 4]", "--phi.steps=60",
)  # fmt: skip


def run_quietly(folder: Path, *arguments: object) -> str:
    """What a command prints that makes a run to share, with its cache in ``folder``."""
    from instaaug.cli import main

    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as printed:
        patch.setenv("INSTAAUG_CACHE", str(folder / "cache"))
        patch.setenv("COLUMNS", "200")
        patch.setattr(sys, "argv", ["instaaug", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code
    return printed.getvalue()


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class CommandLine:
    """Calls ``instaaug`` with arguments, and gives its exit code and what it printed."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: object) -> Outcome:
        from instaaug.cli import main

        self.capsys.readouterr()
        self.monkeypatch.setattr(sys, "argv", ["instaaug", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = self.capsys.readouterr()
        return Outcome(int(stop.value.code or 0), printed.out, printed.err)

    def error(self, *arguments: object) -> str:
        """The one sentence of a command that fails."""
        outcome = self(*arguments)
        assert outcome.code == 2, outcome
        assert outcome.err.startswith("error: ")
        assert outcome.err.count("\n") == 1
        assert "Traceback" not in outcome.err
        return outcome.err.removeprefix("error: ").strip()
