"""Training images that are kept from the model for a while, for φ to learn from."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from instaaug.data import LabeledImages
from instaaug.data.splits import SplitBy, deal_folds
from instaaug.errors import ArgumentError

__all__ = ["CrossFit", "Signal", "make_cross_fit"]

Signal = Literal["training", "validation", "held_out", "rotating"]
NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Folds of the training images, which are kept from the model one after the other.

    The loss of an image that the model has learned from says what it has memorized. Of an image
    that is kept from it, the loss says which views show what it recognizes. From epoch ``end`` on
    the model gets all images, and φ learns no more.

    Arguments:
        data: All training images.
        folds: Rows of ``data``; each fold is kept from the model for the same number of epochs.
        end: First epoch in which nothing is kept from the model.
        is_apart: Whether ``data`` are other images, which the model is never shown.

    Example:
        >>> import torch
        >>> pixels = np.zeros((4, 8, 8, 3), dtype=np.uint8)
        >>> data = LabeledImages(pixels, torch.zeros(4))
        >>> two = CrossFit(data, (np.array([0, 1]), np.array([2, 3])), end=6)
        >>> [two.rows(epoch).tolist() for epoch in (0, 2, 3, 6)]
        [[0, 1], [0, 1], [2, 3], []]
    """

    data: LabeledImages
    folds: tuple[np.ndarray, ...]
    end: int
    is_apart: bool = False

    @property
    def left_out(self) -> Callable[[int], np.ndarray] | None:
        """Rows that the loader of training images has to leave out, by epoch; None for none."""
        return None if self.is_apart else self.rows

    def rows(self, epoch: int) -> np.ndarray:
        """Rows of the training images that are kept from the model in an epoch."""
        return NO_ROWS if epoch >= self.end else self.folds[self._turn(epoch)]

    def images(self, epoch: int) -> LabeledImages:
        """The images of these rows, in an epoch before the end."""
        return self._parts[self._turn(epoch)]

    def _turn(self, epoch: int) -> int:
        return epoch * len(self.folds) // self.end

    @cached_property
    def _parts(self) -> tuple[LabeledImages, ...]:
        return tuple(self.data.subset(fold) for fold in self.folds)


def make_cross_fit(
    data: LabeledImages,
    signal: Signal,
    *,
    validation: LabeledImages | None = None,
    fraction: float,
    share: float,
    n_epochs: int,
    phi_starts: int = 0,
    seed: int = 0,
    by: SplitBy = "random",
) -> CrossFit | None:
    """The folds that a way to give φ its signal asks for; None if it learns from all images.

    Arguments:
        data: All training images.
        signal: ``"training"``, none; ``"validation"``, the validation images; ``"held_out"``, one
            fold; ``"rotating"``, as many as there are.
        validation: Images that the model does not learn from anyway.
        fraction: Share of the images in a fold.
        share: Share of the epochs in which φ learns.
        n_epochs: How many there are in all.
        phi_starts: First epoch in which φ learns.
        seed: Which of the possible folds.
        by: Whether single images are kept, blocks of neighbors, or what looks alike.
    """
    if signal == "training":
        return None
    if signal == "validation":
        if validation is None or not len(validation):
            raise ArgumentError(
                "`phi.signal` validation needs validation images: got none. Set "
                "`data.validation_fraction` to 0.1, or choose held_out."
            )
        return CrossFit(validation, (np.arange(len(validation)),), n_epochs, is_apart=True)
    if not 0 < fraction <= 0.5:
        raise ArgumentError(
            f"`data.held_out_fraction` must lie in (0, 0.5] for `phi.signal` {signal}: got "
            f"{fraction}. A tenth, 0.1, suits most data."
        )
    end = max(round(share * n_epochs), 1)
    if end <= phi_starts:
        raise ArgumentError(
            f"`phi.signal_share` must leave φ an epoch to learn in: got {share} of {n_epochs} "
            f"epochs, but φ begins after {phi_starts}. Raise it, or lower `phi.rest_epochs`."
        )
    n_folds = 1 if signal == "held_out" else min(int(1 / fraction + 1e-9), end)
    return CrossFit(data, tuple(deal_folds(data, fraction, n_folds, seed=seed, by=by)), end)
