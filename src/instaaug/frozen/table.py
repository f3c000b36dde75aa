"""What a frozen model says of every view of every image: computed once, then φ learns from it."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from instaaug.errors import ShapeError
from instaaug.frozen.pictures import Pictures
from instaaug.frozen.table_store import TableStore, claimed
from instaaug.functional.warp import PaddingMode
from instaaug.networks import FrozenFeatures
from instaaug.networks.evaluation_mode import evaluation_mode
from instaaug.networks.model_input import device_of, suited_to
from instaaug.networks.model_output import Output, rows_of
from instaaug.objectives import Loss
from instaaug.shapes import Images, Maps, check_finite
from instaaug.transforms import Composition

__all__ = ["FrozenViews", "OnProgress", "ViewTable", "check_table", "tabulate"]

OnProgress = Callable[[int, int], None]
"""Called with the number of images done and of all images."""

AT_ONCE = 32
LARGEST_IN_HALF = 256.0  # half precision is off by 1/16 there, by more beyond
FEWEST_IN_HALF = 16  # numbers per view; fewer take no room in any precision
ALIKE = 0.02  # of the largest number; half precision is not more exact


@dataclass(frozen=True)
class ViewTable:
    """Outputs of a frozen model for K views of N images.

    Arguments:
        outputs: ``(N, K, ...)``, in memory or mapped from a file.
        targets: What is right for each image.
        seen: What the model saw in each image as it is, for φ to read; ``(N, E, h, w)``.
    """

    outputs: np.ndarray
    targets: Tensor
    seen: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def subset(self, index: Tensor) -> "ViewTable":
        """The part that belongs to some of the images, in memory."""
        rows = index.numpy()
        seen = None if self.seen is None else self.seen[rows]
        return ViewTable(self.outputs[rows], self.targets[index], seen)

    def outputs_of(self, index: Tensor) -> Float[Tensor, "batch k *rest"]:
        """Outputs for all views of some of the images."""
        return torch.from_numpy(self.outputs[index.numpy()]).float()

    def seen_of(self, index: Tensor) -> Float[Tensor, "batch e h w"]:
        """What the model saw in some of the images."""
        assert self.seen is not None  # noqa: S101  # asked only where φ reads it
        return torch.from_numpy(self.seen[index.numpy()]).float()


@dataclass(frozen=True)
class FrozenViews:
    """A frozen model and the views that it is to see of each image.

    Arguments:
        model: The model; in evaluation mode whenever it is asked.
        transform: Makes the views.
        rows: θ of the views, one row each; the first leaves the image as it is.
        features: Where φ reads the model's own features, they come from the first view's pass.
        output: Picks the tensor out of what the model returns.
        padding_mode: What lies outside of the image.
    """

    model: nn.Module
    transform: Composition
    rows: Float[Tensor, "k d"]
    features: FrozenFeatures | None = None
    output: Output | None = None
    padding_mode: PaddingMode = "zeros"

    @torch.no_grad()
    def outputs(self, x: Images) -> tuple[Float[Tensor, "batch k *rest"], Maps | None]:
        """Outputs for all views of a batch, and what the model saw in the images as they are."""
        x = x.to(device_of(self.model))
        seen, returned, outputs = None, None, []
        with evaluation_mode(self.model):
            for k, row in enumerate(self.rows.to(x)):
                view = self.transform.apply(
                    x, row.expand(len(x), -1), padding_mode=self.padding_mode
                )
                if k == 0 and self.features is not None:
                    seen, returned = self.features.look(view)
                if k > 0 or self.features is None or not self.features.reads(self.model):
                    returned = self.model(suited_to(self.model, view))
                outputs.append(rows_of(returned, len(x), self.output).float())
        return torch.stack(outputs, dim=1).cpu(), None if seen is None else seen.cpu()

    @property
    def fingerprint(self) -> str:
        """Changes with the model's state, the views, and how they are made."""
        digest = hashlib.sha256()
        for name, value in sorted(self.model.state_dict().items()):
            if not isinstance(value, Tensor):  # a module's extra state
                digest.update(f"{name} {value!r}".encode())
                continue
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            flat = value.detach().cpu().contiguous().flatten()
            digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
        digest.update(self.rows.contiguous().numpy().tobytes())
        config = {**self.transform.to_config(), "padding_mode": self.padding_mode}
        digest.update(json.dumps([config, repr(self.features)]).encode())
        return digest.hexdigest()


def tabulate(
    views: FrozenViews,
    pictures: Pictures,
    *,
    folder: Path | None = None,
    loss: Loss | None = None,
    on_progress: OnProgress | None = None,
) -> ViewTable:
    """The table of all views of all images; with a folder, it is written as it goes.

    An interrupted table goes on where it stopped, and a finished one is used again, if the model,
    the views and the images are the same, and the first image still gives what is written there;
    otherwise it is made anew. Half precision holds it; full precision where there are few numbers,
    or large ones.

    Arguments:
        views: The model and its views.
        pictures: The images.
        folder: Where to keep the table; in memory if absent.
        loss: Tried on every batch, so that targets that do not fit are found at once.
        on_progress: Called with the number of images done and of all images.
    """
    report = on_progress or (lambda *_: None)
    with claimed(folder):
        store = TableStore(folder, views.fingerprint, len(pictures))
        if store.n_done and not _still_true(store, views, pictures):
            store.forget()
        targets = _targets_of_done(store, pictures)
        report(store.n_done, len(pictures))
        for x, y in pictures.batches(AT_ONCE, start=store.n_done):
            outputs, seen = views.outputs(x)
            where = f"It is one of the images {store.n_done} to {store.n_done + len(x) - 1}."
            check_finite(outputs, name="model(x)", advice=where)
            if loss is not None:
                loss(outputs[:, 0], y)
            store.append(**_as_arrays(x, outputs, seen))
            targets.append(y)
            report(store.n_done, len(pictures))
    arrays = store.arrays
    return ViewTable(arrays["outputs"], torch.cat(targets), arrays.get("seen"))


def check_table(
    table: ViewTable, views: FrozenViews, pictures: Pictures, *, loss: Loss | None = None
) -> None:
    """Raise unless a table is about these views of that many images, with targets that fit."""
    wanted, got = (len(pictures), len(views.rows)), table.outputs.shape[:2]
    if got != wanted:
        raise ShapeError(
            f"`table` must have a row per image and a column per view, {wanted}: got {got}. Make "
            "it from the same data and transform."
        )
    channels = None if table.seen is None else table.seen.shape[1]
    if views.features is not None and channels != len(views.features.mean):
        raise ShapeError(
            f"`table` must hold what the model saw, {len(views.features.mean)} channels, for φ to "
            f"read it: got {channels or 'none'}. Give FrozenViews its features, or let φ read "
            'pixels: features="pyramid".'
        )
    if loss is not None:
        for index in torch.arange(len(table)).split(AT_ONCE):
            loss(table.outputs_of(index)[:, 0], table.targets[index])


def _still_true(store: TableStore, views: FrozenViews, pictures: Pictures) -> bool:
    """Whether the first image gives the first row, as far as a row can be trusted.

    No fingerprint can tell whether the code of the model, or ``output``, has changed.
    """
    x = pictures.first(1)
    now = _as_arrays(x, *views.outputs(x))
    return now.keys() == store.arrays.keys() and all(
        _alike(store.arrays[name][:1], part) for name, part in now.items()
    )


def _alike(then: np.ndarray, now: np.ndarray) -> bool:
    if (then.shape, then.dtype.kind) != (now.shape, now.dtype.kind):
        return False
    room = ALIKE * float(np.abs(now).max()) if now.dtype.kind == "f" else 0.0
    return np.allclose(then.astype(np.float64), now, rtol=0.0, atol=room)


def _targets_of_done(store: TableStore, pictures: Pictures) -> list[Tensor]:
    """Targets of the images that are done; if these have changed, none is."""
    targets: list[Tensor] = []
    done = 0
    for x, y in pictures.batches(AT_ONCE) if store.n_done else ():
        n = min(len(x), store.n_done - done)
        if n <= 0:
            break
        if not np.array_equal(_checksums(x[:n]), store.arrays["checksums"][done : done + n]):
            store.forget()
            return []
        targets.append(y[:n])
        done += n
    return targets


def _as_arrays(x: Images, outputs: Tensor, seen: Maps | None) -> dict[str, np.ndarray]:
    """The rows of the table that belong to a batch."""
    few_or_large = outputs[0, 0].numel() < FEWEST_IN_HALF or outputs.abs().max() > LARGEST_IN_HALF
    narrow = outputs if few_or_large else outputs.half()
    rows = {"outputs": narrow.numpy(), "checksums": _checksums(x)}
    return rows if seen is None else {**rows, "seen": seen.numpy()}


def _checksums(x: Images) -> np.ndarray:
    pixels = x.contiguous().numpy()
    return np.array([crc32(image) for image in pixels], np.uint32)
