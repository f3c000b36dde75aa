"""The commands that are tried, made so small that one takes a second, and what they leave."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError  # what torch raises
from typing import IO, Any

import numpy as np
import torch
from PIL import Image
from torch import nn

from benchmarks.reliability.forks import Command, Ended, warm_up
from benchmarks.reliability.sites import WriteSites
from benchmarks.reliability.trials import Outcome

__all__ = [
    "COMMANDS",
    "MODEL",
    "TRAIN",
    "VIEWS",
    "Bench",
    "ForkedRun",
    "TriedCommand",
    "draw_pictures",
    "tiny_model",
]

CLASSES = {"cat": 50, "dog": 120, "ibis": 190}  # and how bright they are
SMALL = ("--data.batch_size", "8", "--data.image_size", "8")
TRAIN = (*SMALL, "--trainer.max_epochs", "2", "--trainer.accelerator", "cpu")
VIEWS = ("--views.n_views", "2")
MODEL = "benchmarks.reliability.commands:tiny_model"
BOXES = ("--crop.grid", "[[1, 1], [0.5, 2]]", "--views", "[2]")
FEW_TESTS = ("--data.test_fraction", "0.1")  # each is drawn, which takes longer than to learn
CLOCK = ("timing.json", "log.txt")  # files that tell times, and nothing that was computed
UNIQUE = re.compile(r"[0-9a-f]{32}")  # in the names of unfinished files
TENSORS = (".ckpt", ".pt")  # how their content is stored depends on what was shared in memory
CLOCKED = ("seconds", "created")  # of a JSON file, what holds one of these words in its name


@dataclass(frozen=True)
class TriedCommand:
    """A command, and how its documentation says that it goes on after a kill.

    Arguments:
        name: As it is typed, in short.
        words: Its arguments.
        out: Its folder.
        resumes: Whether ``instaaug resume`` goes on with it, once there are settings.
        repeats: Whether the same command does.
        needs: A command that must have ended before.
    """

    name: str
    words: tuple[str, ...]
    out: str
    resumes: bool = False
    repeats: bool = True
    needs: "TriedCommand | None" = None

    def next_words(self, place: Path, number: int) -> tuple[str, ...]:
        """What is typed after a kill; where there are two ways, they take turns."""
        can_resume = self.resumes and (place / self.out / "config.yaml").is_file()
        if can_resume and (not self.repeats or number % 2):
            return ("resume", self.out)
        return self.words


_TRAIN = TriedCommand(
    "train", ("train", "../data", *TRAIN, *VIEWS, "--out", "run"), "run", True, repeats=False
)
_CONTRASTIVE = ("--task", "contrastive", "--contrastive.hidden", "8", "--model", MODEL)
_FROZEN = (*BOXES, *FEW_TESTS, "--out", "run")
_COMPARE = ("--methods", "none,random", "--seeds", "1", "--no-timing", "--retry", "--out", "all")
COMMANDS = (
    _TRAIN,
    replace(
        _TRAIN, name="train --task contrastive", words=(*_TRAIN.words, *_CONTRASTIVE)
    ),
    TriedCommand(
        "tta fit",
        ("tta", "fit", MODEL, "../data", "--model.image_size", "8", "--phi.steps", "20", *_FROZEN),
        "run", resumes=True,
    ),
    TriedCommand(
        "transfer",
        ("transfer", "../data", "--backbone", MODEL, "--backbone.image_size", "8",
         "--views.steps", "2", *_FROZEN),
        "run", resumes=True,
    ),
    TriedCommand("compare", ("compare", "../data", *TRAIN, *_COMPARE), "all"),
    TriedCommand(
        "tune", ("tune", "../data", *TRAIN, *VIEWS, "--trials", "2", "--out", "all"), "all"
    ),
    TriedCommand("report", ("report", "run"), "run/report", needs=_TRAIN),
)  # fmt: skip


def tiny_model(num_classes: int = 3) -> nn.Module:
    """A model for images of any size, always with the same weights; in training it has dropout."""
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Dropout(0.1), nn.Linear(4, num_classes),
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator)
    return model


class Bench:
    """A folder in which commands are tried, one after the other, always at the same path.

    All but ``report`` run as on a machine without matplotlib, whose figures would take most of
    the time.

    ``data`` has small pictures; a command runs in ``here``, which begins empty or with what the
    command needs, and keeps its cache of decoded images there.

    Arguments:
        folder: Made if it is absent.
    """

    def __init__(self, folder: Path) -> None:
        warm_up()
        self.folder = folder.resolve()
        self.here = self.folder / "here"
        self.references: dict[str, dict[str, str]] = {}
        self.seconds: dict[str, float] = {}
        self.sites: dict[str, list[str]] = {}
        draw_pictures(self.folder / "data")

    def clear(self, command: TriedCommand) -> None:
        """Make ``here`` what it is before the command."""
        shutil.rmtree(self.here, ignore_errors=True)
        self.here.with_name("removed").unlink(missing_ok=True)
        self.here.mkdir(parents=True)
        if command.needs is not None:
            kept = self.folder / "before"
            if not kept.exists():
                self.run(command.needs.words)
                shutil.copytree(self.here, kept)
            else:
                shutil.copytree(kept, self.here, dirs_exist_ok=True)

    def run(self, words: Sequence[str], prepare: Callable[[], None] | None = None) -> Ended:
        """A command in ``here``, to its end."""
        return self.start(words, prepare).wait()

    def start(self, words: Sequence[str], prepare: Callable[[], None] | None = None) -> Command:
        """A command in ``here``, whose runs are forks as well if it is a comparison."""

        def prepare_all() -> None:
            fork_runs()
            if words[0] != "report":
                sys.modules["matplotlib.figure"] = None  # type: ignore[assignment]
            if prepare is not None:
                prepare()

        return Command(words, self.here, prepare=prepare_all)

    def wait_for_orphans(self, longest: float = 60.0) -> bool:
        """Whether all that works in ``here`` has ended by itself."""
        until = time.monotonic() + longest
        while _any_process_in(self.here):
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def reference(self, command: TriedCommand) -> dict[str, str]:
        """What the command leaves when nothing disturbs it; the same twice, or it raises."""
        if command.name not in self.references:
            contents, log = [], self.folder / "sites.log"
            for _ in range(2):
                self.clear(command)
                ended = self.run(command.words, WriteSites(self.here, log=log).install)
                if ended.code:
                    raise RuntimeError(f"{command.name} failed by itself: {ended.text}")
                contents.append(self.contents(command))
                self.seconds[command.name] = ended.seconds
                self.sites[command.name] = UNIQUE.sub("", log.read_text()).splitlines()
            if differences := _differences(*contents):
                raise RuntimeError(f"{command.name} is not the same twice: {differences}")
            self.references[command.name] = contents[0]
        return self.references[command.name]

    def places(self, command: TriedCommand) -> str:
        """The numbers of its writes, without those that repeat the one before in the same file."""
        self.reference(command)
        lines = self.sites[command.name]
        before = ["", *lines]
        return " ".join(str(n) for n, line in enumerate(lines, 1) if line != before[n - 1])

    def contents(self, command: TriedCommand) -> dict[str, str]:
        """Digests of all files of a command by name, without the times that they tell."""
        root = self.here / command.out
        files = (file for file in sorted(root.rglob("*")) if file.is_file())
        return {
            str(file.relative_to(root)): _digest(file)
            for file in files
            if file.name not in CLOCK and "tensorboard" not in file.parts
        }

    def verdict(self, command: TriedCommand, ended: Ended, *, named: str | None = None) -> Outcome:
        """What a command that went on has come to.

        Arguments:
            command: The command.
            ended: How it ended.
            named: A file that it may refuse, in a sentence with its name; None if it must not.
        """
        if ended.code and named and named in ended.sentence:
            return Outcome("refused", ended.sentence)
        if ended.code:
            return Outcome("lost", f"code {ended.code}: {ended.text[-1500:]}")
        difference = _differences(self.reference(command), self.contents(command))
        return Outcome("lost", difference) if difference else Outcome("equal")


def _any_process_in(folder: Path) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder):
                return True
    return False


def _differences(wanted: dict[str, str], got: dict[str, str]) -> str:
    """The files that are absent, too many, or other than they should be."""
    words = [f"{name} is absent" for name in wanted if name not in got]
    words += [f"{name} is left over" for name in got if name not in wanted]
    words += [f"{name} differs" for name in wanted if name in got and wanted[name] != got[name]]
    return ", ".join(words)


def _digest(file: Path) -> str:
    content = file.read_bytes()
    if file.suffix in TENSORS:
        with suppress(RuntimeError, EOFError, OSError, UnpicklingError):  # half a file differs
            content = _flat(torch.load(file, weights_only=True))
    if file.suffix == ".json":
        with suppress(ValueError):  # half a file differs from a whole one
            content = json.dumps(_without_times(json.loads(content))).encode()
    return hashlib.sha256(content).hexdigest()


def _flat(value: Any) -> bytes:
    """All numbers and names within a value, to the last bit."""
    if isinstance(value, dict):
        return b"".join(str(key).encode() + _flat(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return b"".join(map(_flat, value))
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{tuple(value.shape)}".encode() + value.numpy().tobytes()
    return repr(value).encode()


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not any(word in k for word in CLOCKED)}
        return {k: _without_times(v) for k, v in kept.items()}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def draw_pictures(folder: Path, n: int = 8) -> None:
    """A folder per class with small pictures, told apart by their brightness."""
    for name, level in CLASSES.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(n):
            generator = np.random.default_rng([level, number])
            pixels = generator.integers(level - 20, level + 20, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


def fork_runs() -> None:
    """Let the runs of a comparison be forks as well, with all that they have of a process."""
    import instaaug.compare.runner

    class Processes:
        """What a comparison needs of ``subprocess``."""

        PIPE, STDOUT, Popen = subprocess.PIPE, subprocess.STDOUT, ForkedRun

    setattr(instaaug.compare.runner, "subprocess", Processes)  # noqa: B010


class ForkedRun:
    """A run of a comparison in a fork: a session, a pipe for input and a log of its own."""

    on_start: Callable[[], None] | None = None
    """Called in each of them when it begins."""

    def __init__(self, words: Sequence[str], *, stdout: IO[bytes], **_: Any) -> None:
        reading, writing = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            os.close(writing)
            for handle, stream in ((reading, 0), (stdout.fileno(), 1), (stdout.fileno(), 2)):
                os.dup2(handle, stream)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115
            os._exit(_train_run(Path(words[-1])))
        os.close(reading)
        self.stdin = os.fdopen(writing, "wb")
        self.code: int | None = None

    def poll(self) -> int | None:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


def _train_run(folder: Path) -> int:
    from instaaug.compare.single_run import main

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if ForkedRun.on_start is not None:
        ForkedRun.on_start()
    code = main(folder)
    sys.stdout.flush()
    sys.stderr.flush()
    return code
