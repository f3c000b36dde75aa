"""Learn from more images than a table can hold: a small table first, then all images, one by one.

The table of a bounded, random part of the images gives φ its start, and all that needs to see the
same outputs again and again: the rule of merging, temperatures. Then every batch of images goes
through the model on all of its views, φ takes one step, and the outputs are dropped. It is one
descent: the learning rate and the temperature of the selection fall to their half over the steps
from the table, and to their end over those from the stream.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from instaaug.augmentation import InstaAug
from instaaug.data.cache import OnProgress
from instaaug.distributions import Joint
from instaaug.errors import ArgumentError
from instaaug.files import lock_folder, write_atomically
from instaaug.frozen.images import NormalizedImages
from instaaug.frozen.learning import (
    Descent,
    Learning,
    TableBatches,
    ViewBatch,
    finish,
    prepare,
    shuffle_forever,
    single_losses,
    view_confidence,
)
from instaaug.frozen.table import (
    AT_ONCE,
    FrozenViews,
    ViewTable,
    bytes_per_image,
    condense,
    hash_state,
)
from instaaug.networks import FrozenFeatures
from instaaug.networks.model_interface import device_of
from instaaug.shapes import check_finite

__all__ = [
    "MAX_TABLE_BYTES",
    "ImageStream",
    "OnPlan",
    "TablePlan",
    "choose_batch_size",
    "learn_from_stream",
    "plan_table",
    "split_progress",
]

MAX_TABLE_BYTES = 4 * 10**9
FEWEST_ROWS = 100  # of a table that says anything about a rule of merging, or a temperature
CHECKPOINT = "stream.pt"
SECONDS_BETWEEN_CHECKPOINTS = 60.0
BATCH_SIZES = (32, 256)  # least and most images per step, where nobody asks for a number


@dataclass(frozen=True)
class TablePlan:
    """Which images go into the table, where there is no room for all of them.

    Arguments:
        n_images: Of all.
        n_views: Of each.
        bytes_per_image: What one row of the table takes.
        rows: The numbers of the images in the table.
    """

    n_images: int
    n_views: int
    bytes_per_image: int
    rows: Int[Tensor, " n"]

    def __str__(self) -> str:
        size = self.n_images * self.bytes_per_image / 1e9
        return (
            f"{self.n_views} views of {self.n_images:,} images would take {size:.2g} GB: learning "
            f"from a stream, after a table of {len(self.rows):,} images."
        )


OnPlan = Callable[[TablePlan], None]


def plan_table(
    views: FrozenViews, images: NormalizedImages, *, max_bytes: int, seed: int = 0
) -> TablePlan | None:
    """Choose as many images at random as there is room for; None if there is room for all.

    A hundred images are always tabulated, without a look at their size.

    Arguments:
        views: The model, which is run on one image, and its views.
        images: All images.
        max_bytes: Room for the table, in memory or on disk.
        seed: Decides which images.
    """
    if len(images) <= FEWEST_ROWS:
        return None
    each = bytes_per_image(views, images)
    n_rows = max_bytes // each
    if n_rows >= len(images):
        return None
    if n_rows < FEWEST_ROWS:
        raise ArgumentError(
            f"`max_table_bytes` must leave room for {FEWEST_ROWS} images, {FEWEST_ROWS * each:,} "
            f"bytes: got {max_bytes:,}. Allow that much (--data.max_table_gb), or use fewer views."
        )
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(images), generator=generator)[:n_rows].sort().values
    return TablePlan(len(images), len(views.rows), each, rows)


@dataclass(frozen=True)
class ImageStream:
    """All images, and how often each goes through the model.

    Arguments:
        views: The model and its views.
        images: The images.
        passes: Times that φ sees each image; 0.1 is a random tenth of them.
        condensed: Whether outputs are shortened to the likely classes, like those of the table.
        batch_size: Images per step.
    """

    views: FrozenViews
    images: NormalizedImages
    passes: float = 1.0
    condensed: bool = False
    batch_size: int = BATCH_SIZES[1]

    def __post_init__(self) -> None:
        if not 0 < self.passes < float("inf"):
            raise ArgumentError(
                f"`passes` must be a number above 0: got {self.passes}. 1 learns once from every "
                "image, 0.1 from a tenth of them."
            )

    @property
    def n_steps(self) -> int:
        """Batches of all passes."""
        return max(1, round(self.passes * ceil(len(self.images) / self.batch_size)))

    def n_images(self, n_steps: int | None = None) -> int:
        """Images in the first batches; in all of them by default."""
        n_steps = self.n_steps if n_steps is None else n_steps
        rounds, rest = divmod(n_steps, ceil(len(self.images) / self.batch_size))
        return rounds * len(self.images) + rest * self.batch_size

    def batches(self, aug: InstaAug, learning: Learning, *, start: int = 0) -> Iterator[ViewBatch]:
        """Random batches without end, from the one with the number ``start`` on."""
        generator = torch.Generator().manual_seed(learning.seed)
        order = shuffle_forever(len(self.images), self.batch_size, generator)
        for index in islice(order, start, None):
            parts = [self._run(aug, learning, rows) for rows in index.split(AT_ONCE)]
            yield _join(aug, parts)

    def _run(self, aug: InstaAug, learning: Learning, rows: Int[Tensor, " n"]) -> "_Part":
        """Run the model on all views of a few images, and keep what a step needs."""
        x, y = self.images.at(rows)
        outputs, features = self.views.outputs(x)
        where = f"It is one of the images {int(rows[0])} to {int(rows[-1])}."
        check_finite(outputs, name="model(x)", advice=where)
        table = ViewTable(outputs.numpy(), y, calibration=aug.calibration)
        confidence = None
        if learning.objective == "single":
            outputs = single_losses(outputs, y, learning.loss)
        elif aug.merge == "confidence":
            confidence = view_confidence(table, aug.sharpness)
        if self.condensed:
            table = condense(table)
            outputs, y = torch.from_numpy(table.outputs), table.targets
        read = y if aug.phi.network is None else x if features is None else features
        return _Part(y, outputs, read, confidence)


class _Part(NamedTuple):
    """A few images of a batch."""

    targets: Tensor
    outputs: Tensor
    read: Tensor
    """What φ reads: the model's features, or pixels; if it reads nothing, one row per image."""
    confidence: Tensor | None


def _join(aug: InstaAug, parts: list[_Part]) -> ViewBatch:
    """One batch, on φ's device, with φ's distribution."""
    device = device_of(aug)
    targets = torch.cat([part.targets for part in parts]).to(device)
    outputs = torch.cat([part.outputs for part in parts]).to(device)
    read = torch.cat([part.read for part in parts]).to(device)
    sure = [part.confidence for part in parts if part.confidence is not None]
    confidence = torch.cat(sure).to(device) if sure else None
    return ViewBatch(_distribution(aug, read), targets, outputs, confidence)


def _distribution(aug: InstaAug, read: Tensor) -> Joint:
    network = aug.phi.network
    if isinstance(network, FrozenFeatures):
        return aug.phi.decode(network.maps(read), None, len(read))
    if network is None:
        return aug.phi.decode([], None, len(read))
    return aug.distribution(read)


def choose_batch_size(n_images: float | int, n_steps: int) -> int:
    """Images per step that make about so many steps: 32 at least, 256 at most.

    Example:
        >>> [choose_batch_size(n, 400) for n in (5_000, 50_000, 1_281_167)]
        [32, 125, 256]
    """
    least, most = BATCH_SIZES
    return int(min(max(n_images / n_steps, least), most))


def split_progress(
    on_progress: OnProgress | None, n_table: int, stream: ImageStream | None
) -> tuple[OnProgress, OnProgress]:
    """Callbacks of the table and of the stream that count on, towards one total."""
    total = n_table + (0 if stream is None else stream.n_images())

    def on_table(done: int, _: int) -> None:
        if on_progress is not None:
            on_progress(done, total)

    def on_stream(done: int, _: int) -> None:
        on_table(n_table + done, total)

    return on_table, on_stream


def learn_from_stream(
    aug: InstaAug,
    table: ViewTable,
    table_images: NormalizedImages,
    stream: ImageStream,
    learning: Learning,
    *,
    folder: Path | None = None,
    on_progress: OnProgress | None = None,
) -> None:
    """Learn from a table of some images, then from all images, whose outputs are not kept.

    Memory holds one batch; a folder holds φ and its optimizer after a recent step, from which an
    interrupted fit with the same settings goes on to the same bits.

    Arguments:
        aug: With φ.
        table: The model's outputs for some of the images.
        table_images: These images.
        stream: All images.
        learning: The steps are those from the table; those from the stream come on top.
        folder: Where to keep the checkpoint.
        on_progress: Called with the number of images streamed and of all that will be.
    """
    n_first, n_streamed = learning.steps, stream.n_steps
    learning = replace(learning, steps=n_first + n_streamed, n_streamed=n_streamed)
    report = on_progress or (lambda *_: None)
    total = stream.n_images()
    with lock_folder(folder):
        made_from = "" if folder is None else _fingerprint(aug, table, stream, learning)
        checkpoint = _Checkpoint(folder, made_from)
        prepare(aug, learning)
        descent = Descent(aug, learning)
        if not checkpoint.restore(aug, descent):
            batches = TableBatches(aug, table, table_images, learning)
            while descent.n_steps < n_first:
                descent.step(learning.loss_of(aug, next(batches), descent.n_steps))
        done = descent.n_steps - n_first
        report(stream.n_images(done), total)
        for batch in islice(stream.batches(aug, learning, start=done), n_streamed - done):
            descent.step(learning.loss_of(aug, batch, descent.n_steps))
            checkpoint.save(aug, descent, now=descent.n_steps == learning.steps)
            done = descent.n_steps - n_first
            report(stream.n_images(done), total)
    finish(aug, learning)


class _Checkpoint:
    """A file with φ, its optimizer and the state of the random numbers after some step.

    The order of images follows from the seed, so that the number of steps says which come next.
    """

    def __init__(self, folder: Path | None, made_from: str) -> None:
        self.file = None if folder is None else folder / CHECKPOINT
        self.made_from = made_from
        self.last = time.monotonic()

    def save(self, aug: InstaAug, descent: Descent, *, now: bool = False) -> None:
        """Write the file if the last one is old, or at once."""
        old = time.monotonic() - self.last >= SECONDS_BETWEEN_CHECKPOINTS
        if self.file is None or not (old or now):
            return
        state = {
            "made_from": self.made_from,
            "aug": aug.state_dict(),
            "descent": descent.state_dict(),
            "random": torch.get_rng_state(),
        }
        write_atomically(self.file, lambda file: torch.save(state, file))
        self.last = time.monotonic()

    def restore(self, aug: InstaAug, descent: Descent) -> bool:
        """Go on from the file; False if there is none of the same fit."""
        state = self._read()
        if state.get("made_from") != self.made_from:
            return False
        aug.load_state_dict(state["aug"])
        descent.load_state_dict(state["descent"])
        torch.set_rng_state(state["random"])
        return True

    def _read(self) -> dict[str, Any]:
        if self.file is None or not self.file.is_file():
            return {}
        try:
            state = torch.load(self.file, map_location="cpu", weights_only=True)
        except Exception:  # however it is damaged, the stream starts over
            return {}
        return state if isinstance(state, dict) else {}


def _fingerprint(aug: InstaAug, table: ViewTable, stream: ImageStream, learning: Learning) -> str:
    """Changes with all that the result depends on, but for images that are not in the table."""
    some = torch.arange(min(AT_ONCE, len(table)))
    loss = single_losses(table.outputs_of(some), table.targets[some], learning.loss).mean()
    facts = [
        stream.views.fingerprint, len(stream.images), stream.condensed, learning.objective,
        learning.n_views, learning.steps, learning.n_streamed, learning.batch_size,
        stream.batch_size, learning.learning_rate, learning.seed, aug.merge, aug.sharpness,
        repr(aug.settings), f"{float(loss):.4g}",
        _crc(table.outputs), _crc(table.targets.numpy()),
    ]  # fmt: skip
    digest = hashlib.sha256(json.dumps(facts).encode())
    hash_state(digest.update, aug)  # as it is before the first step
    return digest.hexdigest()


def _crc(array: np.ndarray) -> int:
    value = 0
    for start in range(0, len(array), AT_ONCE):
        value = crc32(array[start : start + AT_ONCE].tobytes(), value)
    return value
