"""Does anything pile up? Memory, tensors and open files after thousands of steps and calls."""

import gc
import logging
import os
import resource
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning.pytorch import Callback
from PIL import Image
from torch.nn import functional as F
from typing_extensions import override

from benchmarks.reliability.trials import Trials
from instaaug import InstaAug
from instaaug.networks import SmallCNN
from instaaug.transforms import Crop

__all__ = ["Held", "grown", "soak_loop", "soak_predictor", "soak_run", "try_soak"]

STEPS_PER_TRIAL, CALLS_PER_TRIAL, FILES_PER_TRIAL = 400, 40, 4
SIDE = 8
CROPS = Crop(levels=((1.0, 1), (0.5, 2)))
MOST_MEGABYTES = 16.0  # which an allocator may keep
MOST_TENSORS = 8
MOST_FILES = 0


class Held(NamedTuple):
    """What a process holds at one time."""

    megabytes: float
    tensors: int
    objects: int
    files: int

    @classmethod
    def now(cls) -> "Held":
        """What this process holds, after garbage was collected."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        things = gc.get_objects()
        tensors = sum(issubclass(type(thing), torch.Tensor) for thing in things)
        files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # a Path would hold it open
        megabytes = pages * resource.getpagesize() / 2**20
        return cls(megabytes, tensors, len(things), files)


def grown(what: str, n: int, held: list[Held]) -> Trials:
    """The row of a soak: lost if more is held at the end than after the warm-up.

    Arguments:
        what: What was repeated.
        n: How often.
        held: At the end of the warm-up, and later.
    """
    first, last = held[0], held[-1]
    lost = (
        last.megabytes - first.megabytes > MOST_MEGABYTES
        or last.tensors - first.tensors > MOST_TENSORS
        or last.files - first.files > MOST_FILES
    )
    note = "; ".join(
        f"{before:.0f} → {after:.0f} {name}"
        for name, before, after in zip(
            ("MB", "tensors", "objects", "files"), first, last, strict=True
        )
    )
    return Trials(what, n, int(lost), note=note)


def _repeat(call: Callable[[], Any], n: int) -> list[Held]:
    """What is held after a tenth of the calls and after all."""
    held = []
    for i in range(n):
        call()
        if i + 1 in (n // 10, n):
            held.append(Held.now())
    return held


def soak_loop(n: int) -> Trials:
    """Take steps of the four-line loop."""
    torch.manual_seed(0)
    model, aug = SmallCNN(3, channels=4), InstaAug(CROPS, diversity=(0.1, 0.4))
    optimizer = torch.optim.SGD([*model.parameters(), *aug.parameters()], lr=1e-3)
    x, y = torch.rand(4, 3, SIDE, SIDE), torch.arange(4) % 3

    def step() -> None:
        batch = aug(x)
        losses = F.cross_entropy(model(batch.inputs), y, reduction="none")
        aug.objective(losses, batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    return grown("steps of the four-line loop", n, _repeat(step, n))


def soak_predictor(n: int) -> Trials:
    """Call a predictor."""
    torch.manual_seed(0)
    aug = InstaAug(CROPS, diversity=(0.1, 0.4))
    predictor = aug.wrap(SmallCNN(3, channels=4), n_samples=3).eval()
    x = torch.rand(4, 3, SIDE, SIDE)
    with torch.no_grad():
        return grown("calls of a predictor", n, _repeat(lambda: predictor(x), n))


class _Watch(Callback):
    """Notes what is held at the ends of epochs."""

    def __init__(self, n_epochs: int) -> None:
        self.at, self.held = {max(1, n_epochs // 10), n_epochs}, list[Held]()

    @override
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if trainer.current_epoch + 1 in self.at:
            self.held.append(Held.now())


def soak_run(n_steps: int, n_files: int, *, n_epochs: int = 20) -> list[Trials]:
    """Train a run with its logs and checkpoints, then predict files with it.

    Arguments:
        n_steps: Of training.
        n_files: How often a picture is predicted.
        n_epochs: Each ends with a validation and a checkpoint.
    """
    from instaaug.runs.inference import predict_files
    from instaaug.runs.settings import TrainSettings
    from instaaug.runs.training import train

    batch = 2
    with TemporaryDirectory() as place, _quiet():
        file, picture, run = (Path(place) / name for name in ("a.npz", "a.png", "run"))
        n_images = 6 + batch * n_steps // n_epochs
        images = np.random.default_rng(0).integers(0, 256, (n_images, SIDE, SIDE, 3), np.uint8)
        labels = np.arange(n_images) % 3
        few = dict.fromkeys(("x_test", "x_val"), images[:6])
        few |= dict.fromkeys(("y_test", "y_val"), labels[:6])
        arrays: dict[str, Any] = {"x_train": images, "y_train": labels, **few}
        np.savez(file, **arrays)
        Image.fromarray(images[0]).save(picture)
        settings = {
            "data": str(file), "data.batch_size": batch, "model.width": 0.25, "views.n_views": 2,
            "trainer.max_epochs": n_epochs, "trainer.accelerator": "cpu", "trainer.threads": 1,
            "crop.grid": [[1, 1], [0.5, 2]],
        }  # fmt: skip
        watch = _Watch(n_epochs)
        train(TrainSettings.from_mapping(settings), run, callbacks=[watch])
        predicted = _repeat(lambda: list(predict_files(run, [picture])), n_files)
    return [
        grown("steps of a run with logs and checkpoints", n_steps, watch.held),
        grown("files predicted, the run loaded each time", n_files, predicted),
    ]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the remarks of Lightning."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logger.setLevel(level)


def try_soak(trials: int, seed: int, folder: Path) -> list[Trials]:
    """A row for each kind of call that is made thousands of times."""
    del seed, folder  # nothing is drawn that matters, and nothing stays
    torch.set_num_threads(1)
    return [
        soak_loop(trials * STEPS_PER_TRIAL),
        soak_predictor(trials * CALLS_PER_TRIAL),
        *soak_run(trials * STEPS_PER_TRIAL, trials * FILES_PER_TRIAL),
    ]
