"""What a finished ``instaaug compare`` has measured, for a result file."""

import json
from pathlib import Path
from typing import Any

__all__ = ["method_rows", "run_rows"]


def run_rows(folder: Path, *more: str) -> list[dict[str, Any]]:
    """What came out of every run.

    Arguments:
        folder: Of the comparison.
        more: Further scores to keep.
    """
    rows = []
    for file in sorted(folder.glob("*/seed_*/results.json")):
        results = json.loads(file.read_text())
        test, timing = results["test"], json.loads((file.parent / "timing.json").read_text())
        learned: dict[str, Any] = next(iter(test.get("learned", {}).values()), {})
        parts = {"": test["plain"], " augmented": test.get("augmented", {})}
        rows.append(
            {
                "method": file.parents[1].name,
                "seed": results["seed"],
                "plain": test["plain"]["top1"],
                "augmented": test.get("augmented", {}).get("top1"),
                **({"probes": results["probes"]} if results.get("probes") else {}),
                **{f"{n}{part}": parts[part].get(n) for n in ("nll", *more) for part in parts},
                "entropy": learned.get("entropy"),
                "mutual information": learned.get("mutual_information"),
                "seconds": round(timing["seconds"]),
                "split hash": results["split_hash"],
            }
        )
    return rows


def method_rows(folder: Path, *, reference: str) -> list[dict[str, Any]]:
    """Mean, error, difference to the reference and cost of every method, the best first."""
    from instaaug.compare.results import read_comparison

    comparison = read_comparison(folder, reference=reference)
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
