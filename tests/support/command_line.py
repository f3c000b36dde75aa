"""The command line, called within the test's own process."""

import sys
from typing import NamedTuple

import pytest

__all__ = ["QUICK", "CommandLine", "Outcome"]

QUICK = (
    *(
        "--trainer.max_epochs",
        "1",
        "--data.batch_size",
        "8",
        "--data.image_size",
        "16",
        "--views.n_views",
        "2",
    ),
    *("--trainer.accelerator", "cpu"),
)


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
