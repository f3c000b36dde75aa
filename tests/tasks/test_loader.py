"""Batches: every image once, the same in every process count, and from any place onwards."""

import threading
from collections.abc import Sequence
from itertools import islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from typing_extensions import override

from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError
from instaaug.tasks import BatchLoader
from tests.support.tiny_training import labeled_halves, numbered

SIZES = {
    "n": st.integers(min_value=8, max_value=60),
    "batch_size": st.integers(min_value=2, max_value=9),
    "world": st.integers(min_value=1, max_value=4),
}


def epoch(loader: BatchLoader) -> list[list[int]]:
    """The numbers of the images in each batch of an epoch."""
    return [targets.int().tolist() for _, targets in loader]


def flat(batches: list[list[int]]) -> list[int]:
    return [number for batch in batches for number in batch]


class Watched(LabeledImages):
    """Tells when the second batch is asked for; breaks at the third."""

    asked = 0
    second = threading.Event()

    @override
    def __getitems__(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        type(self).asked += 1
        if self.asked == 2:
            self.second.set()
        if self.asked == 3:
            raise OSError("the disk is gone")
        return super().__getitems__(indices)


@pytest.fixture
def watched() -> Watched:
    Watched.asked, Watched.second = 0, threading.Event()
    data = numbered(12)
    return Watched(data.images, data.targets)


# --- one process --------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [2, 3, 5, 7, 20, 100])
@pytest.mark.parametrize("seed", [None, 0])
def test_every_image_comes_once_per_epoch(seed: int | None, batch_size: int) -> None:
    loader = BatchLoader(numbered(20), batch_size, seed=seed)
    batches = epoch(loader)
    assert sorted(flat(batches)) == list(range(20))
    assert len(batches) == len(loader)


def test_images_and_targets_stay_together() -> None:
    for x, targets in BatchLoader(numbered(20), 6, seed=1):
        assert torch.equal(x[:, 0, 0, 0].float(), targets)


def test_without_a_seed_the_images_come_in_their_own_order_every_time() -> None:
    loader = BatchLoader(numbered(10), 4)
    assert [epoch(loader) for _ in range(2)] == [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]] * 2


def test_each_epoch_has_another_order() -> None:
    """Two of three orders of fifty images agree with probability below 1e-60."""
    loader = BatchLoader(numbered(50), 10, seed=0)
    assert len({tuple(flat(epoch(loader))) for _ in range(3)}) == 3


@pytest.mark.parametrize("other", [0, 1])
def test_the_seed_alone_decides_the_order(other: int) -> None:
    orders = [
        [epoch(BatchLoader(numbered(50), 10, seed=seed)) for _ in range(2)] for seed in (0, other)
    ]
    assert orders[0][0] == orders[0][1]
    assert (orders[0] == orders[1]) == (other == 0)


@pytest.mark.parametrize("n_seen", [0, 1, 4, 5, 6, 10, 13])
def test_a_loaded_state_continues_with_the_batches_that_were_left(n_seen: int) -> None:
    """Five batches an epoch; the state is taken in the first, second or third."""
    everything, first = (BatchLoader(numbered(22), 5, seed=3) for _ in range(2))
    expected = [batch for _ in range(4) for batch in epoch(everything)][n_seen:]
    for taken in [5] * (n_seen // 5) + [n_seen % 5]:
        list(islice(first, taken))
    later = BatchLoader(numbered(22), 5, seed=3)
    later.load_state_dict(first.state_dict())
    assert [batch for _ in range(4) for batch in epoch(later)][: len(expected)] == expected


def test_a_batch_that_is_fetched_ahead_does_not_count_as_seen() -> None:
    loader = BatchLoader(numbered(12), 4, seed=0)
    next(iter(loader))
    assert loader.state_dict() == {"epoch": 0, "position": 1}


@pytest.mark.parametrize("seed", [None, 0])
def test_a_glance_at_the_first_batches_does_not_shorten_the_next_epoch(seed: int | None) -> None:
    """Lightning looks at two validation batches before training starts."""
    loader = BatchLoader(numbered(20), 4, seed=seed)
    list(islice(loader, 2))
    assert sorted(flat(epoch(loader))) == list(range(20))


def test_a_remainder_of_one_image_is_left_out_of_training() -> None:
    batches = epoch(BatchLoader(numbered(9), 4, seed=0))
    assert [len(batch) for batch in batches] == [4, 4]


def test_the_image_left_out_changes_from_epoch_to_epoch() -> None:
    """Ten epochs leave out the same of nine images with probability below 1e-8."""
    loader = BatchLoader(numbered(9), 4, seed=0)
    assert len({tuple(set(range(9)) - set(flat(epoch(loader)))) for _ in range(10)}) > 1


def test_a_remainder_of_one_image_is_evaluated() -> None:
    assert [len(batch) for batch in epoch(BatchLoader(numbered(9), 4))] == [4, 4, 1]


# --- several processes --------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(**SIZES)
def test_processes_share_a_training_epoch_without_overlap(
    n: int, batch_size: int, world: int
) -> None:
    shares = [
        epoch(BatchLoader(numbered(n), batch_size, seed=5, rank=rank, world=world))
        for rank in range(world)
    ]
    seen = [number for share in shares for number in flat(share)]
    assert len(set(seen)) == len(seen)
    assert n - len(seen) < 2 * world  # too few for a step of at least two images each
    assert len({len(share) for share in shares}) == 1
    sizes = [[len(batch) for batch in share] for share in shares]
    assert min(min(row) for row in sizes) >= 2
    assert max(max(row) for row in sizes) <= batch_size
    assert all(max(step) - min(step) <= 1 for step in zip(*sizes, strict=True))


@settings(max_examples=60, deadline=None)
@given(**SIZES)
def test_processes_evaluate_every_image_exactly_once(n: int, batch_size: int, world: int) -> None:
    """The last step may leave some of them without an image; they take part all the same."""
    shares = [
        epoch(BatchLoader(numbered(n), batch_size, rank=rank, world=world))
        for rank in range(world)
    ]
    assert sorted(number for share in shares for number in flat(share)) == list(range(n))
    assert len({len(share) for share in shares}) == 1


@pytest.mark.parametrize("world", [1, 2, 4])
def test_a_step_holds_the_same_images_whatever_the_number_of_processes(world: int) -> None:
    alone = epoch(BatchLoader(numbered(40), 8, seed=2))
    shares = [
        epoch(BatchLoader(numbered(40), 8 // world, seed=2, rank=rank, world=world))
        for rank in range(world)
    ]
    steps = [sorted(flat(list(step))) for step in zip(*shares, strict=True)]
    assert steps == [sorted(batch) for batch in alone]


def test_an_empty_share_has_the_shape_of_images() -> None:
    x, targets = list(BatchLoader(labeled_halves(9), 4, rank=1, world=2))[-1]
    assert x.shape == (0, 3, 8, 8)
    assert targets.shape == (0,)


@pytest.mark.parametrize(("n", "world"), [(1, 1), (3, 2), (7, 4)])
def test_too_few_images_to_train_on_are_refused(n: int, world: int) -> None:
    message = rf"`data` must hold at least {2 * world} images to train on: got {n}\."
    with pytest.raises(ArgumentError, match=message):
        BatchLoader(numbered(n), 4, seed=0, world=world)


# --- the thread that fetches --------------------------------------------------------------------


def test_the_next_batch_is_fetched_while_the_present_one_is_used(watched: Watched) -> None:
    batches = iter(BatchLoader(watched, 4))
    next(batches)
    assert watched.second.wait(timeout=10)
    batches.close()  # type: ignore[attr-defined]


def test_an_error_while_fetching_reaches_the_loop_in_its_turn(watched: Watched) -> None:
    batches = iter(BatchLoader(watched, 4))
    assert [len(next(batches)[0]) for _ in range(2)] == [4, 4]
    with pytest.raises(OSError, match="the disk is gone"):
        next(batches)
