"""Every command that a document shows works as printed, and prints what is shown."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from instaaug.cli.app import app
from instaaug.cli.settings import OPEN, SHORT
from tests.support.warm_commands import WarmCommands

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SECONDS = 240


def commands_of(document: str) -> Iterator[tuple[str, str]]:
    """Each line after a ``$``, with the output that is shown below it."""
    for block in re.findall(r"^```console\n(.*?)^```", document, re.DOTALL | re.MULTILINE):
        for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = piece.partition("\n")
            yield command, output


SHOWING = [path for path in DOCUMENTS if any(commands_of(path.read_text()))]
ALL_SPRITES = ("README", "compare")  # numbers, processes or lessons of full training
QUICK_CARDS = ("instaaug", "mixup")  # of 23 methods, each of which trains


def is_slow(path: Path) -> bool:
    is_card = path.parent.name == "methods" and path.stem not in QUICK_CARDS
    return is_card or path.stem == "compare"  # every run that is compared starts Python anew


def test_a_document_without_console_blocks_has_no_commands() -> None:
    assert list(commands_of("```\n$ no\n```\n")) == []
    shown = list(commands_of("```console\n$ one\nout\n$ two\n```\n"))
    assert shown == [("one", "out\n"), ("two", "")]


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmCommands]:
    with WarmCommands() as commands:
        yield commands


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] * is_slow(p)) for p in SHOWING]
)
def test_shown_commands_print_what_is_shown(
    path: Path, tmp_path: Path, warm: WarmCommands
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    here = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "INSTAAUG_CACHE": str(tmp_path / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    for command, shown in commands_of(path.read_text()):
        program, _, rest = command.partition(" | ")
        if program.startswith(("instaaug ", "python examples/")):
            words = shlex.split(program)
            few = path.stem not in ALL_SPRITES
            printed = warm.run(words, cwd=tmp_path, environment=environment, few=few).text
        else:
            printed, rest = "", command
        if rest:
            printed = in_a_shell(rest, printed, tmp_path, environment)
        assert doctest.OutputChecker().check_output(shown, printed, FLAGS), (
            f"$ {command}\n{printed}"
        )


OTHERS = {
    *("--help", "--epochs"),  # epochs: shown as a mistake
    *("--boxes", "--scale", "--publish", "--no-resume"),  # of python -m paper
    *("--aug-splits", "--jsd"),  # of timm
    *SHORT,
}


def options_of(command: Any) -> set[str]:
    """All options of a command and of those below it."""
    found = {flag for p in command.params for flag in (*p.opts, *p.secondary_opts)}
    return found.union(*(options_of(inner) for inner in getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_options_that_a_document_names_exist(path: Path) -> None:
    code = re.findall(r"`([^`\n]*)`|^\$ (instaaug .*)$", path.read_text(), re.MULTILINE)
    words = " ".join(span for pair in code for span in pair if "--" in span)
    named = set(re.findall(r"(?<![\w-])--[a-z][\w.-]*", words))
    unknown = named - options_of(get_command(app)) - OTHERS
    assert {flag for flag in unknown if not flag.startswith(OPEN)} == set()


def in_a_shell(command: str, piped: str, folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(  # noqa: S602  # our own documents
        command, shell=True, cwd=folder, env=environment, text=True, timeout=SECONDS,
        input=piped, capture_output=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr
