"""How far the runs of a comparison are, as their folders show it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from instaaug.compare.state import read_failure
from instaaug.errors import DataError
from instaaug.report.records import Score, accuracy_of, read_record
from instaaug.runs.folder import Run

__all__ = ["Standing", "Status", "epochs_done", "on_other_images", "run_folder", "standing_of"]

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
        images: Tells apart which images it was trained and tested on, if it is done.
    """

    label: str
    seed: int
    folder: Path
    status: Status = "waiting"
    epoch: int = 0
    score: Score | None = None
    sentence: str = ""
    images: str | None = None


def run_folder(out: Path, label: str, seed: int) -> Path:
    """Where a run of a comparison is."""
    return out / label / f"seed_{seed}"


def standing_of(out: Path, label: str, seed: int) -> Standing:
    """How far a run is, from its folder alone."""
    folder = run_folder(out, label, seed)
    standing = Standing(label, seed, folder, epoch=epochs_done(folder))
    if Run(folder).results_file.exists():
        return _finished(standing)
    if failure := read_failure(folder):
        return replace(standing, status="failed", sentence=failure.sentence)
    return standing


def on_other_images(standings: Iterable[Standing]) -> list[tuple[Standing, Standing]]:
    """Runs that saw other images than most with their seed, each beside one of those."""
    by_seed: dict[int, list[Standing]] = {}
    for run in standings:
        if run.images is not None:
            by_seed.setdefault(run.seed, []).append(run)
    found = []
    for runs in by_seed.values():
        usual, _ = Counter(run.images for run in runs).most_common(1)[0]
        one = next(run for run in runs if run.images == usual)
        found += [(run, one) for run in runs if run.images != usual]
    return found


def epochs_done(folder: Path) -> int:
    """Epochs that a run has finished: lines of its table of metrics below the header."""
    table = Run(folder).metrics
    return max(0, table.read_bytes().count(b"\n") - 1) if table.is_file() else 0


def _finished(standing: Standing) -> Standing:
    """What came out; a result that cannot be read is a failure of this run alone."""
    try:
        record = read_record(standing.folder)
        score = accuracy_of(record)
    except (DataError, OSError) as error:
        return replace(standing, status="failed", sentence=str(error))
    if score is None:
        sentence = f"{str(standing.folder / 'results.json')!r} has no score on test images."
        return replace(standing, status="failed", sentence=sentence)
    split = record.results.get("split_hash")
    images = None if split is None else f"{split}, {score.n} for the test"
    return replace(standing, status="done", score=score, images=images)
