"""The outputs of a frozen model for every view of every image, from which φ learns."""

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from instaaug.augmentation import InstaAug
from instaaug.augmentation.dense import warp_back
from instaaug.data.cache import OnProgress
from instaaug.distributions import CategoricalTheta, Joint
from instaaug.errors import DiskError, ShapeError
from instaaug.files import is_full_disk, lock_folder, write_text
from instaaug.frozen.images import NormalizedImages
from instaaug.functional.warp import PaddingMode
from instaaug.networks import FrozenFeatures
from instaaug.networks.model_interface import (
    Output,
    as_input_of,
    device_of,
    evaluation_mode,
    output_rows,
)
from instaaug.objectives import Loss
from instaaug.parameterizations import Family
from instaaug.shapes import Images, Maps, check_finite
from instaaug.transforms import Composition

__all__ = [
    "N_CANDIDATES",
    "FrozenViews",
    "TableStore",
    "ViewTable",
    "all_views",
    "any_joint",
    "bytes_per_image",
    "can_tabulate",
    "check_table",
    "condense",
    "hash_state",
    "tabulate",
]


AT_ONCE = 32
LARGEST_IN_HALF = 256.0  # half precision is off by 1/16 there, by more beyond
FEWEST_IN_HALF = 16  # numbers per view; fewer take no room in any precision
WIDE = 4096  # numbers of features per image; fewer take little room in any precision
CLOSE = 0.02  # of the largest number; half precision is not more exact

PROGRESS = "table.json"
NUMBERS = "fiu"  # kinds of arrays that a table may hold

N_CANDIDATES = 40
ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class ViewTable:
    """Outputs of a frozen model for K views of N images.

    Arguments:
        outputs: ``(N, K, ...)``, in memory or mapped from a file.
        targets: What is right for each image.
        features: The model's features of each original image, for φ to read; ``(N, E, h, w)``.
        calibration: What divides the outputs when they are read.
    """

    outputs: np.ndarray
    targets: Tensor
    features: np.ndarray | None = None
    calibration: float = 1.0

    def __len__(self) -> int:
        return len(self.targets)

    def subset(self, index: Tensor) -> "ViewTable":
        """The part that belongs to some of the images, in memory."""
        rows = index.numpy()
        features = None if self.features is None else self.features[rows]
        return ViewTable(self.outputs[rows], self.targets[index], features, self.calibration)

    def outputs_of(self, index: Tensor) -> Float[Tensor, "batch k *rest"]:
        """Outputs for all views of some of the images."""
        return torch.from_numpy(self.outputs[index.numpy()]).float() / self.calibration

    def features_of(self, index: Tensor) -> Float[Tensor, "batch e h w"]:
        """The model's features of some of the images."""
        assert self.features is not None  # noqa: S101  # asked only where φ reads it
        return torch.from_numpy(self.features[index.numpy()]).float()


@dataclass(frozen=True)
class FrozenViews:
    """A frozen model and the views that it is to see of each image.

    Arguments:
        model: The model; it is run in evaluation mode.
        transform: Makes the views.
        rows: θ of the views, one row each; the first leaves the image as it is.
        features: Where φ reads the model's own features, they come from the first view's pass.
        output: Picks the tensor out of what the model returns.
        padding_mode: What lies outside of the image.
        map_size: For a model that returns maps, height and width in which they are brought back
            onto the image. What a view does not cover is filled in from the first view.
    """

    model: nn.Module
    transform: Composition
    rows: Float[Tensor, "k d"]
    features: FrozenFeatures | None = None
    output: Output | None = None
    padding_mode: PaddingMode = "zeros"
    map_size: tuple[int, int] | None = None

    @torch.no_grad()
    def outputs(self, x: Images) -> tuple[Float[Tensor, "batch k *rest"], Maps | None]:
        """Outputs for all views of a batch, and the features of the original images."""
        x = x.to(device_of(self.model))
        features, returned, outputs = None, None, list[Tensor]()
        with evaluation_mode(self.model):
            for k, row in enumerate(self.rows.to(x)):
                theta = row.expand(len(x), -1)
                view = self.transform.apply(x, theta, padding_mode=self.padding_mode)
                if k == 0 and self.features is not None:
                    features, returned = self.features.features_and_outputs(view)
                if k > 0 or self.features is None or not self.features.reads(self.model):
                    returned = self.model(as_input_of(self.model, view))
                found = output_rows(returned, len(x), self.output).float()
                if self.map_size is not None:
                    matrix = self.transform.matrix(theta, aspect=x.shape[-1] / x.shape[-2])
                    found, covered = warp_back(found, matrix, size=self.map_size)
                    found = torch.lerp(outputs[0] if outputs else found, found, covered)
                outputs.append(found)
        return torch.stack(outputs, dim=1).cpu(), None if features is None else features.cpu()

    @property
    def fingerprint(self) -> str:
        """Changes with the model's state, the views, and how they are made."""
        digest = hashlib.sha256()
        hash_state(digest.update, self.model)
        digest.update(self.rows.contiguous().numpy().tobytes())
        config = {**self.transform.to_config(), "padding_mode": self.padding_mode}
        digest.update(json.dumps([config, repr(self.features), self.map_size]).encode())
        return digest.hexdigest()


def hash_state(update: Callable[[Any], None], module: nn.Module) -> None:
    """Pass the state of a module, bytes after bytes, to the ``update`` of a digest."""
    for name, value in sorted(module.state_dict().items()):
        if not isinstance(value, Tensor):  # a module's extra state
            update(f"{name} {value!r}".encode())
            continue
        update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        flat = value.detach().cpu().contiguous().flatten()
        update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")


def bytes_per_image(views: FrozenViews, images: NormalizedImages) -> int:
    """What a row of the table takes, from the first view of the first image.

    It takes up to twice as much if the outputs for another view turn out to be too large for half
    precision.
    """
    x = images.first(1)
    row = _as_arrays(x, *replace(views, rows=views.rows[:1]).outputs(x))
    return len(views.rows) * row.pop("outputs").nbytes + sum(part.nbytes for part in row.values())


class TableStore:
    """Named arrays of N rows each, filled from the first row on, in memory or in a folder.

    A folder also records how many rows are done and what they were made from. If it is opened
    again for the same rows, it resumes; otherwise, or if a file is damaged, it starts over.

    Arguments:
        folder: Where the arrays are kept; None for memory.
        made_from: Names the model, the views and all else that the rows depend on.
        n_rows: How many rows there will be.

    Example:
        >>> store = TableStore(None, "a model", n_rows=3)
        >>> store.append(outputs=np.ones((2, 5), np.float16))
        >>> store.n_done, store.arrays["outputs"].shape
        (2, (3, 5))
    """

    def __init__(self, folder: Path | None, made_from: str, n_rows: int) -> None:
        self.folder, self.made_from, self.n_rows = folder, made_from, n_rows
        self.arrays: dict[str, np.ndarray] = {}
        self.n_done = 0
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._reopen(folder)

    def append(self, **rows: np.ndarray) -> None:
        """Fill in the next rows of every array; they are on disk when this returns."""
        if not self.arrays:
            self.arrays = self._create(rows)
        wider = {k: rows[k].dtype for k, a in self.arrays.items() if not _holds(a, rows[k])}
        if wider:
            self._widen(wider)
        n = len(next(iter(rows.values())))
        for name, part in rows.items():
            self.arrays[name][self.n_done : self.n_done + n] = part
        self.n_done += n
        self._write()

    def forget(self) -> None:
        """Drop all rows and start over."""
        self.arrays, self.n_done = {}, 0

    def _write(self) -> None:
        if self.folder is None:
            return
        for array in self.arrays.values():
            assert isinstance(array, np.memmap)  # noqa: S101  # made or opened as one
            array.flush()
        notes = {
            "made_from": self.made_from,
            "n_rows": self.n_rows,
            "n_done": self.n_done,
            "arrays": sorted(self.arrays),
        }
        write_text(self.folder / PROGRESS, json.dumps(notes) + "\n")

    def _widen(self, kinds: dict[str, np.dtype]) -> None:
        """Give some arrays a wider type of number."""
        old = {name: self.arrays[name] for name in kinds}
        self.arrays |= self._create({k: a[:0].astype(kinds[k]) for k, a in old.items()})
        for name, array in old.items():
            self.arrays[name][: self.n_done] = array[: self.n_done]

    def _create(self, rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Empty arrays for rows like these."""
        shapes = {name: (self.n_rows, *part.shape[1:]) for name, part in rows.items()}
        if self.folder is None:
            return {name: np.zeros(shapes[name], part.dtype) for name, part in rows.items()}
        (self.folder / PROGRESS).unlink(missing_ok=True)  # of other arrays
        paths = {name: self.folder / f"{name}.npy" for name in rows}
        with ExitStack() as cleaning:
            for path in paths.values():
                path.unlink(missing_ok=True)  # a process that has it open keeps the old content
                cleaning.callback(path.unlink, missing_ok=True)
            made = {k: _new_file(paths[k], rows[k].dtype, shapes[k]) for k in rows}
            cleaning.pop_all()
        return made

    def _reopen(self, folder: Path) -> None:
        notes = _read_notes(folder / PROGRESS)
        if (notes.get("made_from"), notes.get("n_rows")) != (self.made_from, self.n_rows):
            return
        n_done, names = notes.get("n_done"), _names(notes.get("arrays"))
        if type(n_done) is not int or not 0 <= n_done <= self.n_rows:
            return
        arrays = {name: _open(folder / f"{name}.npy", self.n_rows) for name in names}
        whole = {name: array for name, array in arrays.items() if array is not None}
        if not names or len(whole) < len(names):
            return
        if n_done < self.n_rows:
            whole = {name: np.load(folder / f"{name}.npy", mmap_mode="r+") for name in names}
        self.arrays, self.n_done = whole, n_done


def tabulate(
    views: FrozenViews,
    images: NormalizedImages,
    *,
    folder: Path | None = None,
    loss: Loss | None = None,
    on_progress: OnProgress | None = None,
) -> ViewTable:
    """The table of all views of all images; with a folder, each batch is saved.

    An interrupted table is resumed, and a finished one reused, if the model, the views and the
    images are the same and the first image still gives its first row; otherwise it is computed
    again. It is kept in half precision, or in full precision if it has few or large numbers.

    Arguments:
        views: The model and its views.
        images: The images.
        folder: Where to keep the table; in memory if absent.
        loss: Tried on every batch, so that targets that do not fit are found at once.
        on_progress: Called with the number of images done and of all images.
    """
    report = on_progress or (lambda *_: None)
    with lock_folder(folder):
        store = TableStore(folder, views.fingerprint, len(images))
        if store.n_done and not _is_current(store, views, images):
            store.forget()
        targets = _targets_of_done_rows(store, images)
        report(store.n_done, len(images))
        for x, y in images.batches(AT_ONCE, start=store.n_done):
            outputs, features = views.outputs(x)
            where = f"It is one of the images {store.n_done} to {store.n_done + len(x) - 1}."
            check_finite(outputs, name="model(x)", advice=where)
            if loss is not None:
                loss(outputs[:, 0], y)
            store.append(**_as_arrays(x, outputs, features))
            targets.append(y)
            report(store.n_done, len(images))
    arrays = store.arrays
    return ViewTable(arrays["outputs"], torch.cat(targets), arrays.get("features"))


def check_table(
    table: ViewTable, views: FrozenViews, images: NormalizedImages, *, loss: Loss | None = None
) -> None:
    """Raise unless a table is of these views of so many images, with targets that fit."""
    wanted, got = (len(images), len(views.rows)), table.outputs.shape[:2]
    if got != wanted:
        raise ShapeError(
            f"`table` must have a row per image and a column per view, {wanted}: got {got}. Make "
            "it from the same data and transform."
        )
    channels = None if table.features is None else table.features.shape[1]
    if views.features is not None and channels != len(views.features.mean):
        raise ShapeError(
            f"`table` must hold the model's features, {len(views.features.mean)} channels, for φ "
            f"to read: got {channels or 'none'}. Give FrozenViews its features, or let φ read "
            'pixels: features="pyramid".'
        )
    if loss is not None:
        for index in torch.arange(len(table)).split(AT_ONCE):
            loss(table.outputs_of(index)[:, 0], table.targets[index])


def _is_current(store: TableStore, views: FrozenViews, images: NormalizedImages) -> bool:
    """Whether the model still gives the first row for the first image, up to rounding.

    This is checked because a fingerprint does not change with the model's code or ``output``.
    """
    x = images.first(1)
    now = _as_arrays(x, *views.outputs(x))
    return now.keys() == store.arrays.keys() and all(
        _nearly_equal(store.arrays[name][:1], part) for name, part in now.items()
    )


def _nearly_equal(then: np.ndarray, now: np.ndarray) -> bool:
    if (then.shape, then.dtype.kind) != (now.shape, now.dtype.kind):
        return False
    room = CLOSE * float(np.abs(now).max()) if now.dtype.kind == "f" else 0.0
    return np.allclose(then.astype(np.float64), now, rtol=0.0, atol=room)


def _targets_of_done_rows(store: TableStore, images: NormalizedImages) -> list[Tensor]:
    """Targets of the images that are done; if an image has changed, all rows are dropped."""
    targets: list[Tensor] = []
    done = 0
    for x, y in images.batches(AT_ONCE) if store.n_done else ():
        n = min(len(x), store.n_done - done)
        if n <= 0:
            break
        if not np.array_equal(_checksums(x[:n]), store.arrays["checksums"][done : done + n]):
            store.forget()
            return []
        targets.append(y[:n])
        done += n
    return targets


def _as_arrays(x: Images, outputs: Tensor, features: Maps | None) -> dict[str, np.ndarray]:
    """The rows of the table that belong to a batch."""
    few_or_large = outputs[0, 0].numel() < FEWEST_IN_HALF or outputs.abs().max() > LARGEST_IN_HALF
    narrow = outputs if few_or_large else outputs.half()
    rows = {"outputs": narrow.numpy(), "checksums": _checksums(x)}
    if features is None:
        return rows
    is_wide = features[0].numel() > WIDE and features.abs().max() <= LARGEST_IN_HALF
    return {**rows, "features": (features.half() if is_wide else features).numpy()}


def _checksums(x: Images) -> np.ndarray:
    pixels = x.contiguous().numpy()
    return np.array([crc32(image) for image in pixels], np.uint32)


def _holds(array: np.ndarray, part: np.ndarray) -> bool:
    return bool(np.can_cast(part.dtype, array.dtype))


def _open(path: Path, n_rows: int) -> np.ndarray | None:
    """A memory map of a file with ``n_rows`` rows of numbers; None if it is missing or damaged.

    It is read-only: opened for writing, a file that was cut short would be filled up with zeros.
    """
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except Exception:  # however it is damaged
        return None
    is_column = array.ndim > 0 and len(array) == n_rows and array.dtype.kind in NUMBERS
    return array if is_column else None


def _names(noted: Any) -> list[str]:
    """Names of arrays, none of which leads out of the folder."""
    names = noted if isinstance(noted, list) else []
    return [name for name in names if isinstance(name, str) and name.isidentifier()]


def _read_notes(path: Path) -> dict[str, Any]:
    try:
        notes = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _new_file(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Map a new file whose disk space is reserved: running out later would be fatal."""
    try:
        array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        _reserve(path, array.offset + array.nbytes)
    except OSError as error:
        if not is_full_disk(error):
            raise
        n_bytes = int(np.prod(shape)) * dtype.itemsize
        raise DiskError(
            f"There is no room for {str(path)!r}, {n_bytes:,} bytes. Choose another folder, fewer "
            "views or fewer images."
        ) from error
    return array


def _reserve(path: Path, n_bytes: int) -> None:
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, n_bytes)
    except OSError as error:
        if is_full_disk(error):
            raise  # else a file system that cannot reserve


def can_tabulate(aug: InstaAug) -> bool:
    """Whether all views can be listed: choices from tables only, and no box that moves."""
    return all(isinstance(f, CategoricalTheta) for f in any_joint(aug).factors.values())


def all_views(aug: InstaAug) -> Float[Tensor, "k d"]:
    """θ of the input as it is, and of all other views."""
    identity = aug.transform.identity()
    others = aug.other_choices(any_joint(aug)).table.cpu()
    return torch.cat([identity, others.to(identity.dtype)])


def any_joint(aug: InstaAug) -> Joint:
    """A distribution of the right kind, for its tables; its probabilities mean nothing."""
    like = next(aug.parameters())
    factors = {}
    for name, family in zip(aug.phi.names, aug.phi.families, strict=True):
        assert isinstance(family, Family)  # noqa: S101  # nn.ModuleList is untyped
        factors[name] = family(like.new_zeros(1, family.n_raw))
    return Joint(factors)


def condense(table: ViewTable, *, n_candidates: int = N_CANDIDATES) -> ViewTable:
    r"""Keep, for each image, its true class and those that some view finds most probable.

    The true class comes first, so that every target is 0. All other classes become one, with the
    score :math:`\log \sum_c e^{z_c}` of each view, which is then averaged over views like that of
    any class. By convexity the cross-entropy of the result lies between that of the mean output
    and the mean of those of single views: a view that sees something else entirely is penalized
    even where the others would outvote it. This way φ chooses better views, and learns many
    times faster.

    Arguments:
        table: Class scores ``(N, K, C)``; one with few classes comes back as it is.
        n_candidates: Classes that are kept apart.

    Example:
        >>> scores = np.zeros((2, 3, 1000), np.float16)
        >>> small = condense(ViewTable(scores, torch.tensor([7, 999])))
        >>> small.outputs.shape, small.targets
        ((2, 3, 41), tensor([0, 0]))
    """
    if table.outputs.ndim != 3 or table.outputs.shape[2] <= n_candidates + 1:
        return table
    parts = []
    for index in torch.arange(len(table)).split(ROWS_AT_ONCE):
        outputs = table.outputs_of(index)
        classes = _candidates(outputs, table.targets[index], n_candidates)
        parts.append(_gather(outputs, classes).numpy().astype(table.outputs.dtype))
    return ViewTable(np.concatenate(parts), torch.zeros_like(table.targets), table.features)


def _candidates(
    outputs: Float[Tensor, "batch k classes"], targets: Int[Tensor, " batch"], n: int
) -> Int[Tensor, "batch n"]:
    largest = outputs.softmax(dim=2).amax(dim=1)
    largest.scatter_(1, targets.long()[:, None], 2.0)  # more than any probability
    return largest.topk(n, dim=1).indices


def _gather(
    outputs: Float[Tensor, "batch k classes"], classes: Int[Tensor, "batch n"]
) -> Float[Tensor, "batch k n_and_one"]:
    index = classes[:, None].expand(-1, outputs.shape[1], -1)
    rest = outputs.scatter(2, index, -torch.inf).logsumexp(dim=2, keepdim=True)
    return torch.cat([outputs.gather(2, index), rest], dim=2)
