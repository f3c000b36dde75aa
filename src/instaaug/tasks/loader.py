"""Batches of images in an order that a seed decides, and that can be resumed anywhere."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from torch import Tensor

from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError

__all__ = ["BatchLoader"]

FEWEST = 2  # BatchNorm cannot learn from a single image


class BatchLoader:
    """Gives batches epoch after epoch; the next one is fetched while the present one is used.

    The order of an epoch depends on the seed and the epoch's number alone, and the place in it is
    part of the state, so that an interrupted epoch, once the state is loaded, goes on where it
    stopped; an epoch that is left and not taken up again counts as over. All processes give
    the same number of batches; the images of one step are dealt out among them, so that in the
    last step of an epoch some may have one image more than others. A remainder too small for
    that is left out; the next epoch has another order.

    Arguments:
        data: Images and targets.
        batch_size: Images per process and step.
        seed: Decides the order; without one the images come in their own order, all of them.
        rank: Number of this process.
        world: Number of processes.
        left_out: The rows of the data that are left out in an epoch. Its others then come again
            until the epoch is as long as the others are.
    """

    def __init__(
        self,
        data: LabeledImages,
        batch_size: int,
        *,
        seed: int | None = None,
        rank: int = 0,
        world: int = 1,
        left_out: Callable[[int], np.ndarray] | None = None,
    ) -> None:
        if seed is not None and len(data) < FEWEST * world:
            raise ArgumentError(
                f"`data` must hold at least {FEWEST * world} images to train on: got {len(data)}."
            )
        self.data, self.batch_size, self.seed = data, batch_size, seed
        self.rank, self.world, self.left_out = rank, world, left_out
        self.epoch, self.position = 0, 0
        self._goes_on = False

    def __len__(self) -> int:
        n, per_step = len(self.data), self.batch_size * self.world
        whole, rest = divmod(n, per_step)
        needed = FEWEST * self.world if self.seed is not None else 1
        return whole + (rest >= needed)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        if self.position and not self._goes_on:  # an earlier iteration was abandoned
            self.epoch, self.position = self.epoch + 1, 0
        self._goes_on = False
        order, n_batches = self._order(), len(self)
        with ThreadPoolExecutor(max_workers=1) as background:
            coming = background.submit(self._batch, order, self.position)
            for i in range(self.position, n_batches):
                batch = coming.result()
                if i + 1 < n_batches:
                    coming = background.submit(self._batch, order, i + 1)
                self.epoch, self.position = divmod(self.epoch * n_batches + i + 1, n_batches)
                yield batch

    def _order(self) -> np.ndarray:
        if self.seed is None:
            return np.arange(len(self.data))
        order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.data))
        if self.left_out is None:
            return order
        return np.resize(order[~np.isin(order, self.left_out(self.epoch))], len(order))

    def _batch(self, order: np.ndarray, i: int) -> tuple[Tensor, Tensor]:
        per_step = self.batch_size * self.world
        chosen = order[i * per_step : (i + 1) * per_step][self.rank :: self.world]
        x, targets = self.data.__getitems__(chosen.tolist() or [0])
        return x[: len(chosen)], targets[: len(chosen)]  # maybe none, in the last step

    def state_dict(self) -> dict[str, Any]:
        """The place of the next batch."""
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.epoch, self.position = state["epoch"], state["position"]
        self._goes_on = True
