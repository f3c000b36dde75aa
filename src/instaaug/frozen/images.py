"""Images with targets in a fixed order, from tensors, a data set or a loader."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    default_collate,
)

from instaaug.data import from_dataset
from instaaug.errors import ArgumentError, DataError

__all__ = ["NormalizedImages", "TrainingData"]

TrainingData = Any
"""A pair of tensors, a ``Dataset`` of pairs, or a ``DataLoader`` over one."""

Batch = tuple[Float[Tensor, "batch channels height width"], Tensor]
Collate = Callable[[Any], Any]


class NormalizedImages:
    """Normalized images and their targets, in the same order every time.

    8-bit images become numbers in [0, 1]; then they are normalized, if the model wants that.

    Arguments:
        data: A pair of tensors ``(images, targets)``, a ``Dataset`` of pairs, one of Hugging
            Face, or a ``DataLoader``, whose data set is read in order.
        mean: Per-channel mean to normalize with.
        std: Per-channel standard deviation to normalize with.

    Example:
        >>> some = NormalizedImages((torch.zeros(5, 3, 8, 8, dtype=torch.uint8), torch.arange(5)))
        >>> [x.shape[0] for x, _ in some.batches(2)]
        [2, 2, 1]
    """

    def __init__(
        self,
        data: TrainingData,
        *,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        if (mean is None) != (std is None):
            raise ArgumentError("`mean` and `std` must be given together: got one of the two.")
        self.mean, self.std = mean, std
        self.collate: Collate = default_collate
        if isinstance(data, DataLoader):
            if data.batch_sampler is not None:  # else it collates nothing
                self.collate = data.collate_fn
            data = _in_order(data)
        elif isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[0], Tensor):
            data = _pair(*data)
        _check_dataset(data)
        if self.collate is default_collate and isinstance(data[0], Mapping):
            data = from_dataset(data)  # rows with columns, as Hugging Face's data sets have
        self.dataset = data

    def __len__(self) -> int:
        return len(self.dataset)

    def batches(self, size: int, *, start: int = 0) -> Iterator[Batch]:
        """Batches from image ``start`` on."""
        for rows in torch.arange(start, len(self)).split(size) if start < len(self) else ():
            yield self.at(rows)

    def at(self, index: Tensor) -> Batch:
        """The images with these numbers."""
        x, y = self._fetch(index.tolist())
        if tuple(x.shape[1:]) != self.image_shape:
            raise DataError(
                f"`data` must give images of one shape: got {tuple(x.shape[1:])} after "
                f"{self.image_shape}. Resize them first."
            )
        return self._normalize(x), y

    def subset(self, index: Tensor) -> "NormalizedImages":
        """The images with these numbers, in this order."""
        part = copy(self)
        part.dataset = Subset(self.dataset, index.tolist())
        return part

    def first(self, n: int) -> Float[Tensor, "batch channels height width"]:
        """The first images."""
        return next(self.batches(n))[0]

    @cached_property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        channels, height, width = self._fetch([0])[0].shape[1:]
        return channels, height, width

    def _fetch(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        """Images as they are, and their targets."""
        fetch = getattr(self.dataset, "__getitems__", None)
        items = [self.dataset[i] for i in rows] if fetch is None else fetch(rows)
        if isinstance(items, list):  # else a batch already
            try:
                items = self.collate(items)
            except (RuntimeError, TypeError) as error:
                raise DataError(
                    "`data` must give pairs (image, target), all images tensors of one shape: got "
                    f"items that make no batch ({error}). Resize and convert them first."
                ) from error
        return _to_batch(items)

    def _normalize(self, x: Tensor) -> Float[Tensor, "batch channels height width"]:
        """Images as the model wants them."""
        x = x.detach().cpu()
        x = x.float() if x.is_floating_point() else x.float() / 255
        if self.mean is None or self.std is None:
            return x
        return (x - x.new_tensor(self.mean)[:, None, None]) / x.new_tensor(self.std)[:, None, None]


def _in_order(loader: DataLoader[Any]) -> Any:
    """The data set of a loader, or the part that it loads."""
    batches, sampler = loader.batch_sampler, loader.sampler
    if batches is None or type(batches) is BatchSampler:
        if isinstance(sampler, SequentialSampler | RandomSampler):
            return loader.dataset
        if isinstance(sampler, SubsetRandomSampler):
            return Subset(loader.dataset, sorted(int(i) for i in sampler.indices))
        if isinstance(loader.dataset, IterableDataset):
            return loader.dataset  # refused below, with its own message
    raise DataError(
        f"`data` must be a DataLoader that loads all of its data set: got one with a "
        f"{type(batches if type(batches) is not BatchSampler else sampler).__name__}. Give the "
        "data set itself, or a torch.utils.data.Subset of it."
    )


def _pair(images: Tensor, targets: Any) -> TensorDataset:
    if len(images) != len(targets):
        raise DataError(
            f"`data` must have a target per image: got {len(images)} images and "
            f"{len(targets)} targets."
        )
    return TensorDataset(images, torch.as_tensor(targets))


def _check_dataset(data: Any) -> None:
    countable = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    if not countable or isinstance(data, IterableDataset | str | dict):
        raise DataError(
            "`data` must be a pair of tensors (images, targets), a Dataset or a DataLoader: got "
            f"{type(data).__name__}. It is read more than once, so that an iterator will not do; "
            "a folder is read by instaaug.data.load_data, the first items of a stream by "
            "instaaug.data.from_dataset(stream, limit=...)."
        )
    if len(data) == 0:
        raise DataError("`data` must hold at least one image: got none.")


def _to_batch(batch: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(batch, tuple | list) or len(batch) < 2 or not isinstance(batch[0], Tensor):
        raise DataError(
            "`data` must give pairs (image, target): got "
            f"{type(batch).__name__}. Wrap it in a Dataset that returns (x, y)."
        )
    x, y = batch[0], batch[1]
    if x.ndim != 4:
        raise DataError(
            f"`data` must give images (C, H, W): a batch of them has shape {tuple(x.shape)}."
        )
    try:
        return x, torch.as_tensor(y)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"`data` must give targets that are numbers: got {type(y).__name__} of "
            f"{type(y[0]).__name__ if len(y) else 'nothing'}. Number the classes from 0."
        ) from error
