"""What does a user get who sets nothing? Small sets of photos, clothes and things, all defaults.

3,000 training images and 2,000 others for the test, drawn by the seed: 300 and 200 of each class
of CIFAR-10 and of Fashion-MNIST, where models have not the time to overfit and crops may do more
harm than good. Without augmentation, with random crops of three ranges, and with what
``instaaug train`` does by itself. Every model predicts as ``instaaug predict`` would: from views,
if validation images say so.

Needs INSTAAUG_DATA, a folder with ``cifar10`` and ``fashion-mnist`` (a package of Debian has the
latter); a run takes about a minute of one core.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compared import run_rows
from benchmarks.record import save
from instaaug.data import DataSplits, LabeledImages, load_data
from instaaug.stats import paired_t_test

__all__ = ["load", "main", "scored_rows"]

ROOT = Path(__file__).parents[1]
RUNS = Path("runs") / "defaults"
METHODS = Path("configs") / "defaults" / "methods.yaml"
SETS = ("fashion-mnist", "cifar10")
SEEDS = 2
N_TRAIN, N_TEST = 300, 200  # of each class
RIVALS = ("none", "random-0.35", "random-0.5", "random-0.25")
OURS = "default"


def load(seed: int, name: str) -> DataSplits:
    """Some training images and some test images of a named set, drawn by the seed."""
    splits = load_data(name, seed=seed)
    generator = np.random.default_rng([23, seed])
    train = _draw(splits.train, N_TRAIN, generator)
    return DataSplits(train, None, _draw(splits.test, N_TEST, generator), name=name)


def _draw(images: LabeledImages, n: int, generator: np.random.Generator) -> LabeledImages:
    labels = images.targets.numpy()
    rows = [np.flatnonzero(labels == label) for label in range(len(images.classes))]
    return images.subset(np.sort(np.concatenate([generator.permutation(r)[:n] for r in rows])))


def scored_rows(folder: Path) -> list[dict[str, Any]]:
    """What came out of every run, with the accuracy of what it would predict."""
    rows = []
    for row in run_rows(folder):
        results = json.loads(
            (folder / row["method"] / f"seed_{row['seed']}" / "results.json").read_text()
        )
        n_views = (results["validation"] or {}).get("n_views", 1)
        accuracy = row["plain"] if n_views == 1 else row["augmented"]
        tried = results.get("tried", {}).get("words")
        rows.append({**row, "n_views": n_views, "accuracy": accuracy, "tried": tried})
    return rows


def make_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """By method, the mean over seeds and what the default has more."""
    by_method: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        by_method.setdefault(row["method"], []).append(row["accuracy"])
    table = {}
    for name, own in by_method.items():
        test = None if name == OURS else paired_t_test(by_method[OURS], own)
        gain = None if test is None else {"mean": test.mean, "interval": list(test.interval)}
        table[name] = {"accuracy": sum(own) / len(own), "the default has more": gain}
    return table


def main() -> None:
    """Run what is missing, print the tables, write the file."""
    if "INSTAAUG_DATA" not in os.environ:
        print("defaults is skipped: INSTAAUG_DATA names no folder with 'cifar10'.")
        return
    findings: dict[str, Any] = {"tables": {}, "runs": {}}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    for name in SETS:
        command = (
            "instaaug", "compare", "benchmarks.defaults:load", "--data.options.name", name,
            "--methods", str(METHODS), "--seeds", str(SEEDS), "--trainer.threads", "1",
            "--reference", RIVALS[0], "--out", str(RUNS / name),
        )  # fmt: skip
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path})  # noqa: S603
        rows = scored_rows(ROOT / RUNS / name)
        findings["runs"][name], findings["tables"][name] = rows, make_table(rows)
        for method, found in findings["tables"][name].items():
            print(
                f"{name:14} {method:12} {found['accuracy']:.1%}  {found['the default has more']}"
            )
    save("defaults", {}, findings=findings, seeds=SEEDS)


if __name__ == "__main__":
    main()
