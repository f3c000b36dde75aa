"""Does InstaAug find the ideal rotations? Five seeds, our sprites and the original ones."""

from pathlib import Path
from statistics import mean

import torch

from benchmarks.record import save
from instaaug.data import load_mario_iggy
from instaaug.runs.rotation import RotationMethod, learn_rotations

__all__ = ["main"]

ORIGINALS = Path(__file__).resolve().parents[2] / "shared" / "data" / "mario-iggy" / "images.npz"
SEEDS = range(5)
METHODS: tuple[RotationMethod, ...] = ("augerino", "instaaug-shared", "instaaug")


def main() -> list[dict[str, object]]:
    torch.set_num_threads(1)  # processor time is what is counted, and the models are tiny
    sources: dict[str, torch.Tensor | None] = {"sprites": None}
    if ORIGINALS.is_file():
        sources["mario-iggy"] = load_mario_iggy(ORIGINALS)
    else:
        print("mario-iggy: skipped, the original images.npz is not beside the project")
    runs: list[dict[str, object]] = []
    for source, sprites in sources.items():
        for method in METHODS:
            results = [learn_rotations(method, seed=s, sprites=sprites) for s in SEEDS]
            runs += [{"source": source, **r.summary()} for r in results]
            overlaps = [r.iou for r in results]
            print(
                f"{source:10} {method:15}  overlap {mean(overlaps):.3f}"
                f" (least {min(overlaps):.3f})"
                f"  accuracy {min(r.accuracy for r in results):.3f} at least"
                f"  {max(r.cpu_seconds for r in results):.0f} CPU-seconds at most",
                flush=True,
            )
    save("rotation", {}, findings={"runs": runs}, seeds=len(SEEDS))
    return runs
