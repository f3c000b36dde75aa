"""How much memory does each thing need at its peak? Bytes of tensors, counted, not sampled.

The profiler reports every allocation and release of torch's allocator, so that the numbers are
exact and the same on every run. What was there before (weights, the images) is not counted.
"""

from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

from benchmarks.record import save
from instaaug import InstaAug, fit_tta
from instaaug import transforms as T
from instaaug.networks import PreActResNet18
from instaaug.speed.questions import RANDOM, WIDTHS, steps

__all__ = ["main", "peak_bytes"]

VIEWS = (1, 4, 10, 50)
SIDES = {64: 32, 224: 8}
PLAIN = "one plain forward pass"


def peak_bytes(run: Callable[[], object]) -> int:
    """The most that tensors made during a call held at any moment, beyond what was there."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    held = peak = 0
    changes = sorted(
        (event.start_ns(), event.nbytes())
        for event in recorded.profiler.kineto_results.events()
        if event.name() == "[memory]"
    )
    for _, change in changes:
        held += change
        peak = max(peak, held)
    return peak


def of_training(width: float) -> dict[str, int]:
    peaks = {}
    for name, step in steps(width).items():
        step()  # momentum buffers are made once, and stay
        peaks[name] = peak_bytes(step)
    return peaks


def of_test_time(side: int, batch: int) -> dict[str, int]:
    model = PreActResNet18(200, stem_stride=2 if side == 64 else 4).eval()
    aug = InstaAug(T.Crop()).eval()
    x = torch.rand(batch, 3, side, side)
    with torch.no_grad():
        peaks = {PLAIN: peak_bytes(lambda: model(x))}
        for n in VIEWS:
            predictor = aug.wrap(model, n).eval()
            peaks[f"TTA, n = {n}"] = peak_bytes(lambda p=predictor: p(x))  # type: ignore[misc]
    return peaks


def of_fit() -> dict[str, int]:
    model = PreActResNet18(10, width=0.25, stem_stride=2).eval()
    x, y = torch.rand(128, 3, 64, 64), torch.randint(10, (128,))
    with torch.no_grad():
        forward = peak_bytes(lambda: model(x[:32]))
    whole = peak_bytes(lambda: fit_tta(model, (x, y), steps=20))
    return {"one plain forward pass of 32": forward, "fit_tta, 128 images": whole}


def main() -> None:
    torch.manual_seed(0)
    findings = {f"training step, {title}": of_training(w) for title, w in WIDTHS.items()}
    findings |= {f"test time, {s} px, batch {b}": of_test_time(s, b) for s, b in SIDES.items()}
    findings["fit_tta"] = of_fit()
    for title, peaks in findings.items():
        reference = peaks.get(RANDOM, next(iter(peaks.values())))
        table = Table(title=f"{title}: peak of tensors", title_justify="left")
        for heading in ("what", "MiB", "ratio"):
            table.add_column(heading)
        for name, peak in peaks.items():
            table.add_row(name, f"{peak / 2**20:.1f}", f"{peak / reference:.3f}")
        Console().print(table)
    save("memory", {}, findings={"peak bytes": findings}, seed=0)
