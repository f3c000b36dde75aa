"""Does the model ever wait for images?"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.record import Tables, compare, save
from instaaug.data import LabeledImages
from instaaug.networks import PreActResNet18, SmallCNN
from instaaug.tasks import BatchLoader

__all__ = ["main"]

BATCH, SIDE, CLASSES, IMAGES = 100, 64, 30, 15_000
STEPS = {"PreActResNet-18, width 0.1875": 2, "small CNN": 20}
IN_MEMORY, FROM_FILE = "one batch in memory", "memory-mapped file"
BUDGET = 1.10


def stored_images(folder: str) -> LabeledImages:
    """As many images as the 30 classes of Tiny-ImageNet have, in a file as the cache writes it."""
    generator = np.random.default_rng(0)
    path = Path(folder) / "pixels.npy"
    pixels = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.uint8, shape=(IMAGES, SIDE, SIDE, 3)
    )
    for rows in np.array_split(np.arange(IMAGES), 30):
        pixels[rows] = generator.integers(0, 256, (len(rows), SIDE, SIDE, 3), dtype=np.uint8)
    pixels.flush()
    labels = torch.arange(IMAGES) % CLASSES
    return LabeledImages(np.load(path, mmap_mode="r"), labels, tuple(map(str, range(CLASSES))))


def endless(loader: BatchLoader) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        yield from loader


def steps(
    model: nn.Module, batches: Iterator[tuple[Tensor, Tensor]], n: int
) -> Callable[[], None]:
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def run() -> None:
        for _ in range(n):
            x, y = next(batches)
            F.cross_entropy(model(x.float().div_(255)), y).backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


def model_of(title: str) -> nn.Module:
    torch.manual_seed(0)
    small = title == "small CNN"
    return SmallCNN(CLASSES) if small else PreActResNet18(CLASSES, width=0.1875, stem_stride=2)


def main() -> Tables:
    tables = {}
    with tempfile.TemporaryDirectory() as folder:
        data = stored_images(folder)
        batch = data.__getitems__(range(BATCH))
        for title, n in STEPS.items():
            loader = BatchLoader(data, BATCH, seed=0)
            contenders = {
                IN_MEMORY: steps(model_of(title), iter(lambda: batch, None), n),
                FROM_FILE: steps(model_of(title), endless(loader), n),
            }
            tables[f"training, {title}"] = compare(
                contenders, reference=IN_MEMORY, budgets={FROM_FILE: BUDGET}
            )
        start = time.perf_counter()
        n_images = sum(len(x) for x, _ in BatchLoader(data, BATCH, seed=1))
        alone = n_images / (time.perf_counter() - start)
    findings = {"images per second of the loader alone": round(alone)}
    save("input_pipeline", tables, findings=findings, batch=BATCH, side=SIDE, seed=0)
    return tables
