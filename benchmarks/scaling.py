"""How does the cost grow with the batch, the pixels, the boxes and the views?

Timed is what InstaAug adds to a step (φ, draw, warp, color, objective, backward), with a loss that
costs nothing, all sizes in turns. The slope of log seconds on log size is 1 for linear growth.
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.record import save
from instaaug import InstaAug
from instaaug import transforms as T

__all__ = ["main", "slope"]

ROUNDS, WARM_UP = 20, 3
BATCH, SIDE = 64, 64
ALL_THREE = (T.Crop(), T.Rotation(), T.HSVJitter())
LARGEST_SLOPE = 1.1  # a tenth for noise


def learning(
    batch: int = BATCH, side: int = SIDE, n_samples: int = 1, n_boxes: int | None = None
) -> Callable[[], None]:
    torch.manual_seed(0)
    crop = T.Crop() if n_boxes is None else T.Crop(levels=((0.375, math.isqrt(n_boxes)),))
    aug = InstaAug(ALL_THREE if n_boxes is None else crop)
    x = torch.rand(batch, 3, side, side)

    def step() -> None:
        drawn = aug(x, n_samples=n_samples)
        aug.objective(drawn.inputs.mean(dim=(1, 2, 3)), drawn).backward()

    return step


def predicting(n_views: int) -> Callable[[], None]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    predictor = InstaAug(T.Crop()).wrap(model, n_views).eval()
    x = torch.rand(BATCH, 3, SIDE, SIDE)

    def predict() -> None:
        with torch.no_grad():
            predictor(x)

    return predict


def curves() -> dict[str, dict[int, Callable[[], None]]]:
    """By what grows: size and what to time."""
    return {
        "images in the batch": {b: learning(batch=b) for b in (32, 64, 128, 256)},
        "pixels of an image": {s * s: learning(batch=16, side=s) for s in (32, 64, 128, 256)},
        "boxes K": {k: learning(n_boxes=k) for k in (64, 256, 1024, 4096)},
        "draws per image, in training": {n: learning(8, n_samples=n) for n in (1, 4, 16, 64)},
        "views per image, at test time": {n: predicting(n) for n in (1, 4, 16, 64)},
    }


def medians(sizes: Mapping[int, Callable[[], None]]) -> dict[int, float]:
    seconds: dict[int, list[float]] = {size: [] for size in sizes}
    for round_number in range(WARM_UP + ROUNDS):
        for size, run in sizes.items():
            start = time.perf_counter()
            run()
            if round_number >= WARM_UP:
                seconds[size].append(time.perf_counter() - start)
    return {size: statistics.median(times) for size, times in seconds.items()}


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Of the straight line through (log size, log seconds), by least squares.

    Example:
        >>> round(slope([1, 2, 4], [3.0, 6.0, 12.0]), 6)
        1.0
    """
    logs = [math.log(size) for size in sizes], [math.log(s) for s in seconds]
    return statistics.linear_regression(*logs).slope


def main() -> None:
    findings = {}
    table = Table(title="How the cost grows", title_justify="left")
    for heading in ("what grows", "ms at each size", "slope", "of the last step", "verdict"):
        table.add_column(heading)
    for name, sizes in curves().items():
        times = medians(sizes)
        whole = slope(list(times), list(times.values()))
        last = slope(list(times)[-2:], list(times.values())[-2:])
        linear = max(whole, last) <= LARGEST_SLOPE
        spoken = ", ".join(f"{size}: {s * 1e3:.3g}" for size, s in times.items())
        verdict = "linear or better" if linear else "MORE THAN LINEAR"
        table.add_row(name, spoken, f"{whole:.2f}", f"{last:.2f}", verdict)
        findings[name] = {
            "milliseconds": {str(size): s * 1e3 for size, s in times.items()},
            "slope": whole,
            "slope of the last step": last,
            "verdict": verdict,
        }
    Console().print(table)
    save("scaling", {}, findings=findings, seed=0, batch=BATCH, side=SIDE, rounds=ROUNDS)
