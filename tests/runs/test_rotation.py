"""The rotation experiment finds the ideal ranges."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from instaaug.data import load_mario_iggy
from instaaug.runs.rotation import (
    RotationMethod,
    RotationSettings,
    interval_iou,
    learn_rotations,
)
from tests.support.learned_ranges import softplus

SEEDS = range(5)
QUICK = RotationSettings(n_train=64, n_test=32, n_steps=3, batch_size=16)


def test_iou_of_equal_and_of_disjoint_intervals() -> None:
    a = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    b = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    assert interval_iou(a, b).tolist() == [1.0, 0.0]


def test_two_runs_with_one_seed_are_bit_identical() -> None:
    one, two = (learn_rotations(seed=3, settings=QUICK) for _ in range(2))
    assert torch.equal(one.intervals, two.intervals)
    assert one.iou == two.iou


def test_a_run_leaves_the_global_randomness_alone() -> None:
    before = torch.random.get_rng_state()
    learn_rotations(settings=QUICK)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("method", ["instaaug-shared", "augerino"])
def test_without_input_all_images_share_one_range(method: RotationMethod) -> None:
    result = learn_rotations(method, settings=QUICK)
    assert torch.equal(result.intervals, result.intervals[:1].expand_as(result.intervals))


def test_augerino_opens_a_symmetric_range_from_where_its_source_does() -> None:
    result = learn_rotations("augerino", settings=replace(QUICK, n_steps=1))
    low, high = result.intervals[0].tolist()
    assert low == -high
    assert high == pytest.approx(softplus(-1.0) / 2, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["sprites", "mario-iggy"])
def test_learned_ranges_match_the_ideal_ones(source: str, request: pytest.FixtureRequest) -> None:
    images = None
    if source == "mario-iggy":
        folder: Path = request.getfixturevalue("shared_data")
        images = load_mario_iggy(folder / source / "images.npz")
    torch.set_num_threads(1)
    results = [learn_rotations(seed=seed, sprites=images) for seed in SEEDS]
    rivals: tuple[RotationMethod, ...] = ("instaaug-shared", "augerino")
    shared = [learn_rotations(method, seed=0, sprites=images) for method in rivals]
    ious = [r.iou for r in results]
    assert min(r.accuracy for r in results) >= 0.99
    assert sum(ious) / len(ious) >= 0.90
    assert min(ious) >= 0.85
    assert max(r.cpu_seconds for r in results) <= 120
    assert max(r.iou for r in shared) < min(ious) - 0.1
