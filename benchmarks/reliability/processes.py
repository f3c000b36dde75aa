"""Several processes that train as one: killed, slowed down, and compared step by step."""

import hashlib
import json
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from typing_extensions import override

from benchmarks.reliability.commands import MODEL, TRAIN, VIEWS, Bench, TriedCommand, draw_pictures
from benchmarks.reliability.forks import Command, Ended
from benchmarks.reliability.trials import Ledger, Outcome, Trials, summarize
from instaaug import InstaAug
from instaaug.tasks import AugmentedTask

__all__ = ["compare_steps", "kill_one", "processes", "several_processes"]

BOUND = 60.0  # seconds within which the others must notice
PAUSE = 0.3  # seconds
N_STEPS = 1000
IMAGES = "images in each step"
N_PICTURES = 102  # of each class, for the steps that are compared; not divisible by 2 or 3


def several_processes(n: int, *more: str) -> TriedCommand:
    """A run in as many processes as it has devices."""
    words = ("train", "../data", *TRAIN, *VIEWS, "--trainer.max_epochs", "4", "--model", MODEL)
    several = ("--trainer.devices", str(n), "--trainer.strategy", "ddp", "--out", "run")
    return TriedCommand(f"train in {n} processes", (*words, *several, *more), "run", resumes=True)


def processes(trials: int, seed: int, folder: Path) -> list[Trials]:
    """Rows of runs in two and three processes on one machine, connected by gloo."""
    bench, ledger = Bench(folder), Ledger(folder / "trials.jsonl")
    rows = []
    for n in (2, 3):
        command = several_processes(n)
        for what, attempt, most in (
            (f"{command.name}, one killed", kill_one, trials // 5),
            (f"{command.name}, one slow", _slow_one, trials // 10),
        ):
            outcomes = [
                ledger.outcome(
                    f"{what} {seed} {i}",
                    partial(attempt, bench, command, n, random.Random(f"{what} {seed} {i}")),  # noqa: S311
                )
                for i in range(max(1, most))
            ]
            rows.append(summarize(what, outcomes))
    what = "train in 2 processes, go on with 1"
    number = [ledger.outcome(what, partial(_change_number, bench, several_processes(2)))]
    rows.append(summarize(what, number))
    n_steps = N_STEPS * min(trials, 50) // 50
    for n in (2, 3):
        found = ledger.note(f"{n} {n_steps}", partial(compare_steps, bench, n, n_steps))
        rows += [Trials(**row) for row in json.loads(found)]
    return rows


def _start(
    bench: Bench, words: Sequence[str], n: int, prepare: Callable[[], None] | None = None
) -> list[Command]:
    """As many processes of a run as a launcher would start."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(n)}
    shared |= {"NODE_RANK": "0", "INSTAAUG_OUT": "run"}
    return [
        Command(
            words, bench.here, prepare=prepare, environment={**shared, "LOCAL_RANK": str(rank)}
        )
        for rank in range(n)
    ]


def _reference(bench: Bench, command: TriedCommand, n: int) -> None:
    """What the run leaves when nothing disturbs it."""
    if command.name in bench.references:
        return
    bench.clear(command)
    ended = [process.wait() for process in _start(bench, command.words, n)]
    if any(one.code for one in ended):
        raise RuntimeError(f"{command.name} failed by itself: {ended}")
    bench.references[command.name] = bench.contents(command)
    bench.seconds[command.name] = ended[0].seconds


def _wait_for(file: Path) -> None:
    until = time.monotonic() + BOUND
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.005)


def kill_one(bench: Bench, command: TriedCommand, n: int, chance: random.Random) -> Outcome:
    """Kill one process once all have met; the others must say so, and the run must go on."""
    _reference(bench, command, n)
    bench.clear(command)
    running = _start(bench, command.words, n)
    _wait_for(bench.here / "run" / "last.ckpt")  # they have met
    time.sleep(chance.random() * bench.seconds[command.name] / 2)
    victim, since = chance.randrange(n), time.monotonic()
    os.kill(running[victim].pid, signal.SIGKILL)
    ended = [process.wait(since - process.started + BOUND) for process in running]
    others = [one for rank, one in enumerate(ended) if rank != victim]
    if silent := [one for one in others if one.code and "Another process" not in one.sentence]:
        return Outcome("lost", f"no sentence, code {silent[0].code}: {silent[0].text[-1500:]}")
    return _go_on(bench, command, n)


def _go_on(bench: Bench, command: TriedCommand, n: int) -> Outcome:
    ended = [process.wait() for process in _start(bench, ("resume", "run"), n)]
    return bench.verdict(command, max(ended, key=lambda one: abs(one.code)))


def _slow_one(bench: Bench, command: TriedCommand, n: int, chance: random.Random) -> Outcome:
    """Let one process rest several times; the others must wait for it."""
    _reference(bench, command, n)
    bench.clear(command)
    running = _start(bench, command.words, n)
    slow = running[chance.randrange(n)]
    for _ in range(4):
        time.sleep(chance.random() * bench.seconds[command.name] / 4)
        os.kill(slow.pid, signal.SIGSTOP)
        time.sleep(PAUSE)
        os.kill(slow.pid, signal.SIGCONT)
    ended = [process.wait() for process in running]
    return bench.verdict(command, max(ended, key=lambda one: abs(one.code)))


def _change_number(bench: Bench, command: TriedCommand) -> Outcome:
    """Two processes are killed, and one goes on, because somebody has changed the settings."""
    bench.clear(command)
    running = _start(bench, command.words, 2)
    _wait_for(bench.here / "run" / "last.ckpt")
    for process in running:
        os.kill(process.pid, signal.SIGKILL)
    for process in running:
        process.wait()
    config = bench.here / "run" / "config.yaml"
    config.write_text(config.read_text().replace("devices: 2", "devices: 1"))
    ended = bench.run(("resume", "run"))
    return Outcome("refused", ended.sentence) if ended.sentence else Outcome("lost", _tail(ended))


def _tail(ended: Ended) -> str:
    return f"code {ended.code}: {ended.text[-500:]}"


class _Witness(Callback):
    """Notes λ, entropies and all parameters after each step, and the means of each epoch.

    Arguments:
        console: Of the progress bar, whose place it takes.
    """

    def __init__(self, console: Console) -> None:
        del console
        self.notes: dict[str, list[str]] = {
            IMAGES: [], "λ after each step": [], "parameters after each step": [],
            "means of each epoch": [],
        }  # fmt: skip

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: list[Any],
        *_: object,
    ) -> None:  # fmt: skip
        assert isinstance(pl_module, AugmentedTask)  # noqa: S101
        assert isinstance(pl_module.augmenter, InstaAug)  # noqa: S101
        self.notes[IMAGES].append(str(len(batch[0])))
        self.notes["λ after each step"].append(str(pl_module.augmenter.weight.tolist()))
        digest = hashlib.sha256()
        for parameter in pl_module.parameters():
            digest.update(parameter.detach().numpy().tobytes())
        self.notes["parameters after each step"].append(digest.hexdigest())

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, AugmentedTask)  # noqa: S101
        self.notes["means of each epoch"] = [
            repr(sorted(row.items())) for row in pl_module.history
        ]
        Path(f"witness-{trainer.global_rank}.json").write_text(json.dumps(self.notes))


def _watch() -> None:
    import instaaug.cli.train

    setattr(instaaug.cli.train, "RichProgress", _Witness)  # noqa: B010  # not its to export


def compare_steps(bench: Bench, n: int, n_steps: int) -> str:
    """Rows, in JSON, of how many values were compared and how often a process had another one."""
    draw_pictures(bench.folder / "many", N_PICTURES)
    command = several_processes(n)
    bench.clear(command)
    steps_per_epoch = -(-3 * N_PICTURES * 7 // 10 // (8 * n))  # of what is left to train on
    epochs = str(-(-n_steps // steps_per_epoch))
    words = [word.replace("../data", "../many") for word in command.words]
    words += ["--trainer.max_epochs", epochs]
    ended = [process.wait(600.0) for process in _start(bench, words, n, _watch)]
    if any(one.code for one in ended):
        raise RuntimeError(f"{command.name} failed by itself: {[_tail(one) for one in ended]}")
    notes = [json.loads((bench.here / f"witness-{rank}.json").read_text()) for rank in range(n)]
    images = " and ".join(str(sum(map(int, note.pop(IMAGES)))) for note in notes)
    rows = [
        Trials(
            f"{n} processes, {kind}",
            len(notes[0][kind]),
            sum(len(set(row)) > 1 for row in _rows(notes, kind)),
            note=f"{images} images in all",
        )
        for kind in notes[0]
    ]
    return json.dumps([asdict(row) for row in rows])


def _rows(notes: Sequence[dict[str, list[str]]], kind: str) -> Iterator[tuple[str, ...]]:
    """What each process noted at the same time."""
    return zip(*(note[kind] for note in notes), strict=True)
