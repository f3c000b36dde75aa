"""Do learned color jitters beat random ones under new lights? KTH-TIPS under simulated lights.

Needs INSTAAUG_DATA, a folder with ``kth-tips-128``: photos of eleven materials, seen at 64 px
under the simulated lights of ``paper.lights``. Models are trained under one light (15, as in the
InstaAug paper) or a few random ones and tested on other samples under all 46.

A setting is short, so that a run takes about a minute of one core: half of the training images, a
small network. Every method has three trials (strengths of random jitter, bands of learned ranges),
under light 15 with the first seed, and the best of them on validation images (other samples again,
under all 46 lights) is what all seeds and all numbers of lights are scored with. Runs that are
there are not repeated.
"""

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.record import save
from instaaug.data import DataSplits, LabeledImages, load_data
from instaaug.data.rawfoot import choose_lights
from instaaug.runs.build import load_task
from instaaug.runs.folder import Run
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import resume, train
from instaaug.tasks import BatchLoader, evaluate, make_predictor
from paper.lights import LIGHTS, relit_set

__all__ = ["load_lit", "main", "score"]

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "runs" / "color"
SIZE, RATE, EPOCHS, N_VIEWS = 64, 3e-3, 20, 10
TRAIN_FRACTION = 0.5
EVERY_LIGHT = range(1, len(LIGHTS) + 1)
PAPER_LIGHT = 15
SEEDS = range(5)
NUMBERS_OF_LIGHTS = (0, 1, 2, 4, 8)  # 0 is light 15
METHODS = ("none", "random", "shared", "per input", "shared, undone", "undone")
STRENGTHS = (0.25, 0.5, 0.75)
UNDO = 0.5  # share of each range, as much as the best random strength
BANDS = ((0.125, 0.25), (0.25, 0.5), (0.5, 0.75))  # of each side of a range
N_PARAMETERS = 3
N_ROUNDS = {"validation": 2, "test": 2}  # lights that each image is scored under


def train_lights(n_lights: int, seed: int) -> list[int]:
    """The lights to train under: the paper's one if ``n_lights`` is 0, else random ones."""
    return choose_lights(EVERY_LIGHT, n_lights, seed=seed) if n_lights else [PAPER_LIGHT]


@lru_cache(maxsize=2)
def load_lit(n_lights: int = 0, seed: int = 0) -> DataSplits:
    """Training images under few lights, other images under all of them."""
    splits = _load_photos(seed)
    assert splits.validation is not None  # noqa: S101
    return replace(
        splits,
        train=relit_set(splits.train, train_lights(n_lights, seed), per_image=1, seed=seed),
        validation=relit_set(splits.validation, EVERY_LIGHT, per_image=1, seed=seed),
        test=relit_set(splits.validation, EVERY_LIGHT, per_image=1, seed=seed),
    )


@lru_cache(maxsize=1)
def _load_photos(seed: int) -> DataSplits:
    source = Path(os.environ["INSTAAUG_DATA"]) / "kth-tips-128"
    return load_data(
        source, size=SIZE, split="block", seed=seed, test_fraction=0.2, validation_fraction=0.15
    )


def settings(n_lights: int, seed: int, options: Mapping[str, Any]) -> TrainSettings:
    """All settings of one run."""
    common = {
        "data.source": "benchmarks.color:load_lit",
        "data.options": {"n_lights": n_lights},
        "transforms": ("hsv_jitter",),
        "model.name": "small_cnn",
        "optimizer.learning_rate": RATE,
        "data.train_fraction": TRAIN_FRACTION,
        "trainer.max_epochs": EPOCHS,
        "trainer.threads": 1,
        "trainer.accelerator": "cpu",
        "seed": seed,
    }
    return TrainSettings().override({**common, **options})


def score(
    name: str, n_lights: int, seed: int, options: Mapping[str, Any], part: str = "validation"
) -> dict[str, Any]:
    """The scores of one run, which is made if it is not there.

    Arguments:
        name: Of the method and its settings.
        n_lights: Lights to train under; 0 for light 15.
        seed: Decides split, lights, weights and draws.
        options: Settings of the run that differ from the defaults.
        part: Which images to score: ``"validation"`` or ``"test"``.
    """
    out = RUNS / f"{name.replace(',', '').replace(' ', '_')}-{n_lights}-{seed}"
    file = out / f"{part}.json"
    if not (out / "results.json").is_file():
        resume(out) if out.exists() else train(settings(n_lights, seed, options), out)
    if not file.is_file():
        results = json.loads((out / "results.json").read_text())
        row: dict[str, Any] = {"lights": n_lights, "seed": seed}
        row |= _score_part(out, part, seed)
        row["learned"] = results["test"].get("learned", {}).get("hsv_jitter")
        row["seconds"] = json.loads((out / "timing.json").read_text())["seconds"]
        file.write_text(json.dumps(row))
    return {"method": name, **json.loads(file.read_text())}


def _score_part(out: Path, part: str, seed: int) -> dict[str, float]:
    """Accuracy on validation or test images, each under several lights: plain, and of views."""
    task = load_task(Run(out))
    photos: LabeledImages = getattr(_load_photos(seed), part)
    found: dict[str, list[float]] = {}
    for i in range(N_ROUNDS[part]):
        images = relit_set(photos, EVERY_LIGHT, per_image=1, seed=1000 * i + seed)
        for kind, n_samples in {"plain": 0, "views": N_VIEWS}.items():
            if kind == "views" and not task.augmenter.averages_views:
                continue
            predict = make_predictor(task, n_samples=n_samples, seed=seed)
            scores = evaluate(predict, BatchLoader(images, 256), task.make_tally())
            found.setdefault(kind, []).append(scores["top1"])
    return {kind: statistics.mean(values) for kind, values in found.items()}


def trials(method: str) -> dict[str, dict[str, Any]]:
    """The settings that a method may choose from, by name."""
    if method == "none":
        return {"none": {"method.name": "none"}}
    if method == "random":
        return {
            f"random {s:g}": {"method.name": "random", "method.strength": s} for s in STRENGTHS
        }
    return {
        f"{method} {low:g} to {high:g}": {
            "phi.conditioning": "none" if method.startswith("shared") else "input",
            "phi.undo": UNDO if method.endswith("undone") else 0.0,
            "phi.dependence": 1.0,  # what is measured is learning per input, not its shrinkage
            "entropy.diversity": (low**N_PARAMETERS, high**N_PARAMETERS),
        }
        for low, high in BANDS
    }


def choose(method: str) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    """The trial that does best on validation images: name, settings, and all that were tried."""
    options = trials(method)
    rows = [score(name, 0, 0, tried) for name, tried in options.items()]
    best = max(rows, key=lambda row: row.get("views", row["plain"]))
    return best["method"], options[best["method"]], rows


def main() -> None:
    """Run what is missing, print the table, write the file."""
    if "INSTAAUG_DATA" not in os.environ and not RUNS.exists():
        print("color is skipped: INSTAAUG_DATA names no folder with 'kth-tips-128'.")
        return
    chosen = {method: choose(method) for method in METHODS}
    tried = [row for _, _, own in chosen.values() for row in own]
    rows: list[dict[str, Any]] = []
    for n_lights, seed in product(NUMBERS_OF_LIGHTS, SEEDS):
        for method, (name, options, _) in chosen.items():
            row = score(name, n_lights, seed, options, "test")
            rows.append({**row, "method": method, "setting": name})
        findings = {"tried": tried, "runs": rows, "means": _means(rows)}
        save("color", {}, findings=findings, seed=0)  # what is there, should the next one not be
    for mean in _means(rows):
        lights = mean["lights"] or "15"
        print(
            f"{mean['method']:10} {lights!s:>3} {mean['seeds']} seeds  {mean['plain']:.1%}  "
            f"with {N_VIEWS} views {mean['views']:.1%}"
        )


def _means(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["lights"], row["method"]), []).append(row)
    return [
        {
            "method": method,
            "lights": lights,
            "seeds": len(own),
            "plain": statistics.mean(row["plain"] for row in own),
            "views": statistics.mean(row.get("views", row["plain"]) for row in own),
        }
        for (lights, method), own in sorted(groups.items())
    ]
