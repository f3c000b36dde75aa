"""What does it cost to fit test-time augmentation for a frozen model, and to use it?

EfficientNet-Lite0 at 128 px, crops cut from 256 px. A batch of the table is compared with as many
plain forward passes as there are boxes; the steps of φ, which need no pass, come on top and are
counted against the passes over 2,500 images.
"""

import time

import torch

from benchmarks.imagenet import SIDE, SIZE, load_model
from benchmarks.record import Tables, compare, save
from instaaug.augmentation.settings import as_composition
from instaaug.frozen import DEFAULT_CROPS, FrozenViews, ViewTable, fit_tta
from instaaug.networks import FrozenFeatures
from instaaug.parameterizations import CropGrid

__all__ = ["main"]

BATCH = 32
N_IMAGES = 2500
N_BOXES, N_TIMED = 30, 10


def main() -> Tables:
    torch.manual_seed(0)
    model = load_model("Lite0")
    large, small = torch.rand(BATCH, 3, SIDE, SIDE), torch.rand(BATCH, 3, SIZE, SIZE)
    boxes = CropGrid(DEFAULT_CROPS.levels, max_outside=0.0).boxes
    rows = boxes[:: len(boxes) // N_TIMED]  # whole first; a third of the boxes, for time
    features = FrozenFeatures(model, size=SIZE)
    views = FrozenViews(model, as_composition(DEFAULT_CROPS, size=SIZE), rows, features)

    def passes(n: int) -> None:
        with torch.no_grad():
            for _ in range(n):
                model(small)

    k = len(rows)
    contenders = {
        f"{k} plain forward passes": lambda: passes(k),
        f"a batch of the table, {k} boxes": lambda: views.outputs(large),
    }
    tables = {"fit": compare(contenders, reference=f"{k} plain forward passes",
                             budgets={f"a batch of the table, {k} boxes": 1.2})}  # fmt: skip
    aug = fit_tta(model, (large, torch.arange(BATCH)), size=SIZE, steps=1)
    for n in (4, 10):
        predictor = aug.wrap(model, n).eval()

        def plain_passes(n: int = n) -> None:
            passes(n)

        def predict(predictor: torch.nn.Module = predictor) -> None:
            with torch.no_grad():
                predictor(large)

        name, plain = f"learned views, n = {n}", f"{n} plain forward passes"
        tables[f"inference, n = {n}"] = compare(
            {plain: plain_passes, name: predict}, reference=plain, budgets={name: 1.05}
        )
    row = tables["fit"][0]
    seconds = seconds_of_steps(views)
    of_passes = seconds / (row.reference_seconds / k * N_BOXES * N_IMAGES / BATCH)
    findings = {
        "seconds of 400 steps of φ": seconds,
        f"their share of {N_BOXES} passes over {N_IMAGES} images": of_passes,
        "whole fit over passes": row.ratio + of_passes,
    }
    print(findings)
    save("frozen_cost", tables, findings=findings, seed=0, batch=BATCH, side=SIDE, size=SIZE)
    return tables


def seconds_of_steps(views: FrozenViews) -> float:
    """The time that φ takes to learn from a finished table of 512 images and 1000 classes."""
    n, k = 512, N_BOXES
    outputs = torch.randn(n, k, 1000).half().numpy()
    table = ViewTable(outputs, torch.arange(n), torch.randn(n, 12, 4, 4).numpy())
    images = torch.zeros(n, 3, 8, 8)
    start = time.perf_counter()
    fit_tta(views.model, (images, table.targets), size=SIZE, table=table)
    return time.perf_counter() - start
