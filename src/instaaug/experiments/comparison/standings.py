"""How far the runs of a comparison are, as their folders show it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from instaaug.errors import DataError
from instaaug.experiments.comparison.state import read_failure
from instaaug.experiments.run_directory import RunDirectory
from instaaug.report.records.run_record import Score, accuracy_of, read_record

__all__ = ["Standing", "Status", "epochs_done", "run_folder", "standing_of"]

Status = Literal["waiting", "running", "done", "failed", "stopped"]


@dataclass(frozen=True)
class Standing:
    """How far a run of the comparison is.

    Arguments:
        label: Of its contender.
        seed: Its seed.
        folder: Where it is.
        status: What it does.
        epoch: Epochs that it has finished.
        score: What came out.
        sentence: What went wrong.
    """

    label: str
    seed: int
    folder: Path
    status: Status = "waiting"
    epoch: int = 0
    score: Score | None = None
    sentence: str = ""


def run_folder(out: Path, label: str, seed: int) -> Path:
    """Where a run of a comparison is."""
    return out / label / f"seed_{seed}"


def standing_of(out: Path, label: str, seed: int) -> Standing:
    """How far a run is, from its folder alone."""
    folder = run_folder(out, label, seed)
    standing = Standing(label, seed, folder, epoch=epochs_done(folder))
    if RunDirectory(folder).results_file.is_file():
        try:
            return replace(standing, status="done", score=accuracy_of(read_record(folder)))
        except DataError as error:
            return replace(standing, status="failed", sentence=str(error))
    if failure := read_failure(folder):
        return replace(standing, status="failed", sentence=failure.sentence)
    return standing


def epochs_done(folder: Path) -> int:
    """Epochs that a run has finished: lines of its table of metrics below the header."""
    table = RunDirectory(folder).metrics
    return max(0, table.read_bytes().count(b"\n") - 1) if table.is_file() else 0
