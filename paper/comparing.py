"""Lines of a table that are methods of one ``instaaug compare``."""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from instaaug.errors import InstaAugError
from instaaug.safe_files import read_csv, read_json
from paper.exhibits import MissingData, Plan, Score

__all__ = [
    "CONFIGS",
    "ComparedRun",
    "choose_on_validation",
    "compare_crops",
    "compare_methods",
    "data_folder",
    "read_runs",
    "score_runs",
]

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "configs"


@dataclass(frozen=True)
class ComparedRun:
    """What one run of a comparison has reached, in percent.

    Arguments:
        method: Its label.
        seed: Of the run.
        plain: Test accuracy from the image alone.
        views: Test accuracy from views; None if the method is tested on the image.
        validation: Accuracy on validation images, from the image alone, after the last epoch.
        seconds: Of training.
        folder: With all its files.
    """

    method: str
    seed: int
    plain: float
    views: float | None
    validation: float | None
    seconds: float
    folder: Path

    @property
    def accuracy(self) -> float:
        """From views where the method has them."""
        return self.plain if self.views is None else self.views


def data_folder(*names: str) -> Path:
    """The first of the folders that INSTAAUG_DATA has.

    Raises:
        MissingData: If it has none of them.
    """
    root = os.environ.get("INSTAAUG_DATA")
    for name in names:
        if root and (Path(root) / name).is_dir():
            return Path(root) / name
    raise MissingData(f"INSTAAUG_DATA names no folder with {' or '.join(map(repr, names))}.")


def compare_methods(
    plan: Plan,
    source: str,
    *,
    config: Path,
    methods: Path,
    reference: str | None = None,
    options: Sequence[str] = (),
) -> list[ComparedRun]:
    """Run what is missing of a comparison; return all of its runs.

    Arguments:
        plan: Its folder gets the runs.
        source: Of data, as ``instaaug compare`` takes it.
        config: What all methods share, below ``configs``.
        methods: The contenders, below ``configs``.
        reference: What others are compared with.
        options: Further options of ``instaaug compare``; those of the plan have priority.

    Raises:
        InstaAugError: If the command fails.
    """
    command = [
        *(sys.executable, "-m", "instaaug", "compare", source),
        *("--config", str(CONFIGS / config), "--methods", str(CONFIGS / methods)),
        *("--seeds", str(plan.seeds), "--out", str(plan.folder / "runs"), "--no-timing"),
        *(() if reference is None else ("--reference", reference)),
        *options,
        *plan.overrides,
    ]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    ended = subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": path})  # noqa: S603
    if ended.returncode:
        raise InstaAugError(
            f"`instaaug compare` ended with code {ended.returncode}: what it printed says why. "
            "The same command goes on."
        )
    runs = read_runs(plan.folder / "runs")
    if unfinished := sorted(_begun_runs(plan.folder / "runs") - {run.folder for run in runs}):
        names = ", ".join(f"{folder.parent.name}/{folder.name}" for folder in unfinished)
        print(f"Without a result: {names}. Add --retry to begin failed runs again.")
    return runs


def _begun_runs(folder: Path) -> set[Path]:
    return {file.parent for file in folder.glob("*/seed_*/config.yaml")}


def compare_crops(
    plan: Plan, methods: str, *, reference: str | None = None, options: Sequence[str] = ()
) -> list[ComparedRun]:
    """Run what is missing of a comparison of crops on Tiny-ImageNet; return all of its runs.

    Arguments:
        plan: Its folder gets the runs.
        methods: The contenders, a file of ``configs/tiny_imagenet``, or of ``configs/paper`` at
            the paper's scale.
        reference: What others are compared with.
        options: Further options of ``instaaug compare``.

    Raises:
        MissingData: If there is no Tiny-ImageNet.
        InstaAugError: If the command fails.
    """
    if plan.scale == "paper":
        source, config = "tiny-imagenet", Path("paper") / "crop.yaml"
        options = ("--data.root", str(data_folder("tiny-imagenet")), *options)
    else:
        data_folder("tiny-imagenet", "tiny-imagenet-30")
        source, config = "benchmarks.training:load", Path("tiny_imagenet") / "training.yaml"
    return compare_methods(
        plan,
        source,
        config=config,
        methods=config.with_name(methods),
        reference=reference,
        options=options,
    )


def read_runs(folder: Path) -> list[ComparedRun]:
    """All finished runs of a comparison, sorted by method and seed."""
    return [_read_run(file.parent) for file in sorted(folder.glob("*/seed_*/results.json"))]


def _read_run(folder: Path) -> ComparedRun:
    results = read_json(folder / "results.json")
    test = results["test"]
    views = test.get("augmented", {}).get("top1")
    rows = read_csv(folder / "metrics.csv")
    known = [row["validation/top1"] for row in rows if "validation/top1" in row]
    return ComparedRun(
        folder.parent.name,
        results["seed"],
        100 * test["plain"]["top1"],
        None if views is None else 100 * views,
        100 * known[-1] if known else None,
        read_json(folder / "timing.json")["seconds"],
        folder,
    )


def score_runs(runs: Iterable[ComparedRun], method: str, *, views: bool = True) -> Score | None:
    """The accuracy of a method over its seeds; None if it has no run.

    Arguments:
        runs: Of all methods.
        method: Which of them.
        views: Whether views are merged, where the method has them.
    """
    own = [run for run in runs if run.method == method]
    return Score.of([run.accuracy if views else run.plain for run in own]) if own else None


def choose_on_validation(runs: Sequence[ComparedRun], members: Iterable[str]) -> str:
    """Of methods that differ in a setting, the one that is best on validation images.

    Arguments:
        runs: Of all methods.
        members: Labels to choose from; those without runs are passed over.

    Raises:
        InstaAugError: If none of them has a validation score.
    """
    means: Mapping[str, float] = {
        name: sum(known) / len(known)
        for name in members
        if (known := [r.validation for r in runs if r.method == name and r.validation is not None])
    }
    if not means:
        raise InstaAugError("none of the ranges to choose from has a run with a validation score.")
    return max(means, key=means.__getitem__)
