"""Do learned crops beat random ones on real photos? The 30 classes of Tiny-ImageNet, three seeds.

Needs INSTAAUG_DATA, a folder with the original files in ``tiny-imagenet``. Each run is one
``instaaug train`` with a file of ``configs/tiny_imagenet``, about a quarter of an hour of one
core; runs that are there are not repeated.
"""

import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.record import save

__all__ = ["main"]

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "runs" / "tiny_imagenet"
SEEDS = (0, 1, 2)
METHODS: dict[str, tuple[str, list[str]]] = {
    "none": ("none", []),
    "random 0.55": ("random", ["--method.sizes", "[0.55, 1.0]"]),
    "random 0.7": ("random", []),
    "learned": ("learned", []),
}
SEEDS_OF = {"none": (0,), "random 0.55": (0,)}


def folder(method: str, seed: int) -> Path:
    """Where a run is, or will be."""
    return RUNS / f"{method.replace(' ', '_')}-{seed}"


def train(method: str, seed: int) -> dict[str, Any]:
    """The results of one run, which is made if it is not there."""
    out = folder(method, seed)
    results = out / "results.json"
    if not results.is_file():
        config, options = METHODS[method]
        path = ROOT / "configs" / "tiny_imagenet" / f"{config}.yaml"
        go_on = ["resume", str(out)]
        begin = ["train", "--config", str(path), *options, "--seed", str(seed), "--out", str(out)]
        command = go_on if out.exists() else [*begin, "--trainer.threads", "1"]
        subprocess.run(["instaaug", *command], check=True)  # noqa: S603, S607
    return dict(json.loads(results.read_text()))


def row(method: str, seed: int) -> dict[str, Any]:
    """The numbers that matter."""
    results = train(method, seed)
    test = results["test"]
    learned = test.get("learned", {}).get("crop", {})
    return {
        "method": method,
        "seed": seed,
        "plain": test["plain"]["top1"],
        "augmented": test.get("augmented", {}).get("top1"),
        "nll": test["plain"]["nll"],
        "nll augmented": test.get("augmented", {}).get("nll"),
        "ece augmented": test.get("augmented", {}).get("ece"),
        "n_samples": test.get("augmented", {}).get("n_samples"),
        "entropy": learned.get("entropy"),
        "mutual information": learned.get("mutual_information"),
        "split hash": results["split_hash"],
    }


def main() -> None:
    """Run what is missing, print the table, write the file."""
    plan = [(m, seed) for m in METHODS for seed in SEEDS_OF.get(m, SEEDS)]
    if "INSTAAUG_DATA" not in os.environ and not all(folder(*p).exists() for p in plan):
        print("tiny_imagenet is skipped: INSTAAUG_DATA names no folder with 'tiny-imagenet'.")
        return
    rows = [row(method, seed) for method, seed in plan]
    means = {}
    for method in METHODS:
        own = [r for r in rows if r["method"] == method]
        means[method] = {
            "seeds": len(own),
            "plain": statistics.mean(r["plain"] for r in own),
            "augmented": statistics.mean(r["augmented"] or r["plain"] for r in own),
        }
        plain, augmented = means[method]["plain"], means[method]["augmented"]
        print(f"{method:28} {len(own)} seeds  {plain:.1%}  with samples {augmented:.1%}")
    save("tiny_imagenet", {}, findings={"runs": rows, "means": means}, seed=0)
