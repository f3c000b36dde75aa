"""What is learned augmentation worth in training from few photos, and what could be won at most?

20 classes of Tiny-ImageNet with 100 photos each, views of 32 pixels cut from 64, a narrow
PreActResNet-18, 50 epochs: without augmentation the model overfits. An oracle that knows where
the objects are (``oracle.py``) shows what crops could be worth. Every model is scored with its own
views, with boxes in one order for all images, learned on validation images, with crops of random
place and size, and with the oracle's.

Needs INSTAAUG_DATA, a folder with the original files in ``tiny-imagenet`` or
``tiny-imagenet-30``. All is one ``instaaug compare``, which goes on where it stopped; a run takes
about 80 seconds of one core. ``regimes`` ask the same elsewhere.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.compared import run_rows
from benchmarks.oracle import OracleCrops, load_photos, photo_folder
from benchmarks.record import save
from instaaug.augmentation import Augmenter
from instaaug.data import DataSplits, LabeledImages
from instaaug.methods import RandomAugmentation
from instaaug.runs.build import load_task
from instaaug.runs.folder import Run
from instaaug.runs.training import load_splits
from instaaug.stats import paired_t_test, t_interval
from instaaug.tasks import (
    AugmentedTask,
    BatchLoader,
    SupervisedTask,
    evaluate,
    make_predictor,
)
from instaaug.tasks.view_order import FEWEST, learn_order, makes_crops_alone
from instaaug.transforms import Crop

__all__ = [
    "Regime",
    "choose_on_validation",
    "load",
    "load_all",
    "main",
    "make_table",
    "run",
    "score_views",
]

ROOT = Path(__file__).parents[1]
CONFIGS = Path("configs") / "tiny_imagenet"
REFERENCE = "random-0.35"
RIVAL = "random, chosen"
CROPS = ("random-0.25", "random-0.35", "random-0.5")
FAMILIES = {RIVAL: CROPS}
LIT_FAMILIES = {
    **FAMILIES,
    "random, light chosen": (*CROPS, "random-0.35-lit"),
}
"""Methods that differ in a setting; which of them counts is chosen on validation images."""
LEVELS = ((0.35, 7), (0.5, 6), (0.65, 5), (0.8, 4), (1.0, 1))
"""The boxes that the oracle chooses from, and the least side of uniform crops at test time."""
NOTE = (
    "validation images, half as many as training images, choose the random range, how views are "
    "merged, and teach φ where its goal is usefulness; the test images are the same for all seeds"
)
N_CLASSES = 20
N_VALIDATION = 50  # of each class
N_TEST = 150  # of each class, the same for every seed
N_VIEWS, FEW_VIEWS = 10, 4
N_AT_ONCE = 100
VIEWS = ("own 4", "ordered 4", "ordered", "uniform", "oracle")


@dataclass(frozen=True)
class Regime:
    """Images to train on, and who takes part.

    Arguments:
        name: Of the benchmark, its runs and its file.
        source: The function that loads the images, or a folder.
        configs: The folder with ``training.yaml``, the settings that all share, and the next.
        methods: The file that says who takes part.
        seeds: How many.
        options: Further settings, as on the command line.
        note: What validation images are for, and what else is to be known.
        families: Of whom one member counts in each seed, the best on validation images.
    """

    name: str
    source: str = "benchmarks.training:load"
    configs: Path = CONFIGS
    methods: str = "training_methods.yaml"
    seeds: int = 5
    options: tuple[str, ...] = ()
    note: str = NOTE
    families: Mapping[str, Sequence[str]] = field(default_factory=lambda: FAMILIES)

    @property
    def runs(self) -> Path:
        """Where the runs are, under the root of the repository."""
        return Path("runs") / self.name

    @property
    def has_data(self) -> bool:
        """Whether its photos are at hand."""
        known = knows_objects(self.source)
        return photo_folder() is not None if known else Path(self.source).is_dir()

    @property
    def command(self) -> tuple[str, ...]:
        """The comparison."""
        return (
            "instaaug", "compare", self.source,
            "--config", str(self.configs / "training.yaml"),
            "--methods", str(self.configs / self.methods), *self.options,
            "--seeds", str(self.seeds), "--reference", REFERENCE, "--out", str(self.runs),
        )  # fmt: skip


def knows_objects(source: str) -> bool:
    """Whether images are photos of Tiny-ImageNet, the objects of which are known."""
    return source.startswith("benchmarks.")


def load(seed: int, n_images: int = 100, n_classes: int | None = None) -> DataSplits:
    """Photos of the first classes: the last ones for the test, others drawn by the seed.

    Arguments:
        seed: Draws training and validation images.
        n_images: Training images of each class.
        n_classes: How many; ``N_CLASSES`` if absent.
    """
    n_classes = N_CLASSES if n_classes is None else n_classes
    photos = load_photos().train
    generator = np.random.default_rng([19, seed])
    parts: list[list[np.ndarray]] = [[], [], []]
    for label in range(n_classes):
        rows = np.flatnonzero(photos.targets.numpy() == label)
        pool = generator.permutation(rows[:-N_TEST])
        taken = (pool[:n_images], pool[n_images : n_images + N_VALIDATION], rows[-N_TEST:])
        for part, some in zip(parts, taken, strict=True):
            part.append(np.sort(some))
    classes = photos.classes[:n_classes]
    train, validation, test = (
        replace(photos.subset(np.concatenate(part)), classes=classes) for part in parts
    )
    return DataSplits(train, validation, test, name="photos")


def load_all(seed: int) -> DataSplits:
    """All photos: of every class, 50 drawn by the seed to choose on, the official ones to test."""
    splits = load_photos()
    generator = np.random.default_rng([19, seed])
    parts: list[list[np.ndarray]] = [[], []]
    for label in range(len(splits.train.classes)):
        pool = generator.permutation(np.flatnonzero(splits.train.targets.numpy() == label))
        for part, some in zip(parts, (pool[N_VALIDATION:], pool[:N_VALIDATION]), strict=True):
            part.append(np.sort(some))
    train, validation = (splits.train.subset(np.concatenate(part)) for part in parts)
    return replace(splits, train=train, validation=validation, name="photos")


def score_views(folder: Path) -> dict[str, float]:
    """Accuracies of a run, kept in its folder.

    With uniform crops, with the oracle's, if there is one, and with ordered boxes in the test;
    with four views, too, of its own and ordered; with its own on validation images.
    """
    kept = folder / "views.json"
    if kept.is_file():
        return dict(json.loads(kept.read_text()))
    run = Run(folder)
    config, facts = run.read_train_settings(), run.read_facts()
    task, splits = load_task(run), load_splits(config)
    assert splits.validation is not None  # noqa: S101  # as `load` splits
    shape: dict[str, Any] = {"mean": facts.mean, "std": facts.std, "size": facts.image_size}
    uniform = RandomAugmentation(Crop(), sizes=(LEVELS[0][0], 1.0), **shape)
    scores = {
        "uniform": _accuracy(task, uniform, splits.test),
        "validation": _accuracy(task, task.augmenter, splits.validation),
    }
    if knows_objects(config.data.source):
        scores["oracle"] = _accuracy(task, OracleCrops(levels=LEVELS, **shape), splits.test)
    known = len(splits.validation)
    if isinstance(task, SupervisedTask) and makes_crops_alone(task.augmenter) and known >= FEWEST:
        few, many = FEW_VIEWS, N_VIEWS
        order = learn_order(
            task, splits.validation, make_predictor(task, n_samples=many),
            n_images=known, n_views=many, size=facts.image_size,
            batch_size=N_AT_ONCE, seed=config.seed,
        )  # fmt: skip
        scores |= {
            "own 4": _accuracy(task, task.augmenter, splits.test, few),
            "ordered 4": _accuracy(task, order.augmenter, splits.test, few),
            "ordered": _accuracy(task, order.augmenter, splits.test, many),
        }
    kept.write_text(json.dumps(scores))
    return scores


def _accuracy(
    task: AugmentedTask, views: Augmenter, images: LabeledImages, n_views: int = N_VIEWS
) -> float:
    wrapped = views.wrap(task.predictor, n_views).eval()
    generator = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def predict(x: torch.Tensor) -> torch.Tensor:
        x = task.normalize(x)
        return (
            wrapped(x, generator) if views.averages_views else task.predictor(views.canonical(x))
        )

    return evaluate(predict, BatchLoader(images, N_AT_ONCE), task.make_tally())["top1"]


def choose_on_validation(
    rows: Sequence[Mapping[str, Any]], members: Sequence[str]
) -> list[Mapping[str, Any]]:
    """For every seed, the run of the member that is best on validation images.

    Arguments:
        rows: Runs, with ``method``, ``seed`` and ``validation``.
        members: Methods to choose from.

    Example:
        >>> rows = [{"method": m, "seed": 0, "validation": v} for m, v in (("a", 0.3), ("b", 0.4))]
        >>> [row["method"] for row in choose_on_validation(rows, ["a", "b"])]
        ['b']
    """
    own = [row for row in rows if row["method"] in members]
    seeds = sorted({row["seed"] for row in own})
    return [max((r for r in own if r["seed"] == s), key=lambda r: r["validation"]) for s in seeds]


def _all_rows(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for row in run_rows(folder):
        run = folder / row["method"] / f"seed_{row['seed']}"
        results = json.loads((run / "results.json").read_text())
        known = results["test"].get("learned", {}).get("crop", {})
        rows.append(
            {
                **row,
                **score_views(run),
                **({"mixing": results["mixing"]} if "mixing" in results else {}),
                **{name: known.get(name) for name in ("loss_correlation", "own_loss_correlation")},
            }
        )
    return rows


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over seeds, the interval of the accuracy that counts, and what φ knows."""
    own = [row["augmented"] or row["plain"] for row in rows]
    numbers = ("plain", *VIEWS, "mutual information", "loss_correlation", "own_loss_correlation",
               "entropy", "seconds")  # fmt: skip
    means = {name: [r[name] for r in rows if r.get(name) is not None] for name in numbers}
    return {
        "seeds": len(rows),
        "accuracy": sum(own) / len(own),
        "interval": list(t_interval(own)) if len(own) > 1 else None,
        **{name: sum(values) / len(values) for name, values in means.items() if values},
    }


def _against(
    rows: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """The difference to other runs with the same seeds, and its p-value."""
    first, second = ({r["seed"]: r["augmented"] or r["plain"] for r in x} for x in (rows, others))
    seeds = sorted(first.keys() & second.keys())
    if len(seeds) < 2:
        return None
    test = paired_t_test([first[s] for s in seeds], [second[s] for s in seeds])
    return {"mean": test.mean, "interval": list(test.interval), "p": test.p_value}


def make_table(
    rows: Sequence[Mapping[str, Any]], families: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, Any]]:
    """By method or family, means over its runs and the difference to the chosen random range."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["method"], []).append(row)
    groups |= {name: choose_on_validation(rows, members) for name, members in families.items()}
    rival = groups[RIVAL]
    return {
        name: {**_summary(own), f"against {RIVAL}": _against(own, rival)}
        for name, own in sorted(groups.items())
    }


def main() -> None:
    """Run what is missing, print the table, write the file."""
    run(Regime("training", families=LIT_FAMILIES))


def run(regime: Regime) -> None:
    """Run what is missing of a regime, print the table, write the file."""
    if not regime.has_data:
        print(f"{regime.name} is skipped: INSTAAUG_DATA names no folder with its photos.")
        return
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run(regime.command, check=True, cwd=ROOT, env=environment)  # noqa: S603
    rows = _all_rows(ROOT / regime.runs)
    table = make_table(rows, regime.families)
    for name, found in sorted(table.items(), key=lambda item: -item[1]["accuracy"]):
        kinds = [kind for kind in ("plain", *VIEWS) if kind in found]
        views = "  ".join(f"{kind} {found[kind]:.1%}" for kind in kinds)
        known = "  ".join(
            f"{what} {found[what]:.3f}"
            for what in ("mutual information", "loss_correlation", "own_loss_correlation")
            if what in found
        )
        print(f"{name:24} {found['seeds']} seeds  {found['accuracy']:.1%}  {views}  {known}")
    findings = {
        "command": " ".join(regime.command).replace(regime.source, Path(regime.source).name),
        "note": regime.note,
        "table": table,
        "runs": rows,
    }
    save(regime.name, {}, findings=findings, seeds=regime.seeds)


if __name__ == "__main__":
    main()
