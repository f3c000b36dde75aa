"""Speed, guarded without a clock: how many operators a step needs, and what that depends on."""

import pytest
import torch

from instaaug import InstaAug
from instaaug import transforms as T
from tests.support.operators import Counter

LOCAL = T.LocalNoise(levels=((0.5, 4),))
ALL_KINDS = [LOCAL, T.Crop(), T.Rotation(), T.Shear(), T.ColorJitter(), T.Brightness()]


def operators_of_a_step(
    aug: InstaAug, *, batch: int, n_samples: int = 1, side: int = 64
) -> Counter:
    x = torch.rand(batch, 3, side, side)
    aug.zero_grad()
    with Counter() as counter:
        drawn = aug(x, n_samples=n_samples)
        losses = drawn.inputs.mean(dim=(1, 2, 3))
        aug.objective(losses, drawn).backward()
    return counter


def test_the_work_does_not_loop_over_images() -> None:
    aug = InstaAug(ALL_KINDS)
    few, many = (operators_of_a_step(aug, batch=b).counts for b in (3, 24))
    assert few == many


def test_the_work_does_not_loop_over_samples() -> None:
    aug = InstaAug(ALL_KINDS)
    few, many = (operators_of_a_step(aug, batch=2, n_samples=n).counts for n in (2, 8))
    assert few == many


def test_the_work_does_not_loop_over_boxes() -> None:
    few, many = (InstaAug(T.Crop(levels=((0.5, n), (1.0, 1)))) for n in (4, 16))
    assert operators_of_a_step(few, batch=2).total == operators_of_a_step(many, batch=2).total


def test_all_geometry_is_one_interpolation_forward_and_one_backward() -> None:
    counts = operators_of_a_step(InstaAug(ALL_KINDS), batch=2).counts
    assert counts["aten.grid_sampler_2d"] == 1
    assert counts["aten.grid_sampler_2d_backward"] == 1


def test_crops_alone_send_no_gradient_through_the_warp() -> None:
    counts = operators_of_a_step(InstaAug(T.Crop()), batch=2).counts
    assert counts["aten.grid_sampler_2d"] == 1
    assert "aten.grid_sampler_2d_backward" not in counts


# Ceilings a tenth above what the step needed when they were written; raise one only on purpose.
@pytest.mark.parametrize(
    ("transform", "ceiling"),
    [(T.Crop(), 345), (T.Rotation(), 375), (T.ColorJitter(), 410)],
    ids=["crop", "rotation", "color"],
)
def test_a_step_needs_no_more_operators_than_it_used_to(
    transform: T.Transform, ceiling: int
) -> None:
    assert operators_of_a_step(InstaAug(transform), batch=4).total <= ceiling
