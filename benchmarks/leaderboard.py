"""Which method is best on real photos? The 30 classes of Tiny-ImageNet, every method, three seeds.

Needs INSTAAUG_DATA, a folder with the original files in ``tiny-imagenet``. All is one
``instaaug compare``, some hours of one core, which goes on where it stopped.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.record import save

__all__ = ["main"]

ROOT = Path(__file__).parents[1]
CONFIGS = Path("configs") / "tiny_imagenet"
RUNS = Path("runs") / "leaderboard"
COMMAND = (
    "instaaug", "compare", "tiny-imagenet", "--config", str(CONFIGS / "compare.yaml"),
    "--methods", f"@{CONFIGS / 'contenders.yaml'}", "--seeds", "3", "--jobs", "2",
    "--reference", "random", "--out", str(RUNS),
)  # fmt: skip


def run_rows() -> list[dict[str, Any]]:
    """What came out of every run."""
    rows = []
    for file in sorted((ROOT / RUNS).glob("*/seed_*/results.json")):
        results = json.loads(file.read_text())
        test, timing = results["test"], json.loads((file.parent / "timing.json").read_text())
        learned: dict[str, Any] = next(iter(test.get("learned", {}).values()), {})
        rows.append(
            {
                "method": file.parents[1].name,
                "seed": results["seed"],
                "plain": test["plain"]["top1"],
                "augmented": test.get("augmented", {}).get("top1"),
                "nll": test["plain"]["nll"],
                "nll augmented": test.get("augmented", {}).get("nll"),
                "entropy": learned.get("entropy"),
                "mutual information": learned.get("mutual_information"),
                "seconds": round(timing["seconds"]),
                "split hash": results["split_hash"],
            }
        )
    return rows


def method_rows() -> list[dict[str, Any]]:
    """Mean, error, difference to the reference and cost of every method, the best first."""
    from instaaug.experiments.comparison.results import read_comparison

    comparison = read_comparison(ROOT / RUNS, reference="random")
    rows = []
    for method in comparison.methods:
        paired = method.difference
        rows.append(
            {
                "method": method.runs.name,
                "seeds": len(method.runs.scores),
                "views": method.runs.n_views,
                "mean": method.runs.mean,
                "standard error": method.runs.error,
                "difference": None if paired is None else paired.mean,
                "p": None if paired is None else paired.p_value,
                "step cost": method.runs.step_cost,
                "failures": {str(seed): words for seed, words in method.runs.failures.items()},
            }
        )
    return rows


def main() -> None:
    """Run what is missing, print the table, write the file."""
    if "INSTAAUG_DATA" not in os.environ and not (ROOT / RUNS).exists():
        print("leaderboard is skipped: INSTAAUG_DATA names no folder with 'tiny-imagenet'.")
        return
    subprocess.run(COMMAND, check=True, cwd=ROOT)  # noqa: S603
    findings = {"command": " ".join(COMMAND), "methods": method_rows(), "runs": run_rows()}
    save("leaderboard", {}, findings=findings, seeds=3)
