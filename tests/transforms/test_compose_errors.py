"""What a composition refuses, in its own words."""

from typing import Any

import pytest
import torch

from instaaug.errors import ArgumentError, ShapeError
from instaaug.transforms import Brightness, Composition, Crop, Rotation, Scale
from tests.support.images import largest_difference, random_images


def test_theta_of_a_wrong_shape_names_all_columns() -> None:
    words = (
        r"`theta` of composition must be \(2, 2\), a row per image: got \(2, 3\)\. "
        r"Columns: angle, factor\."
    )
    with pytest.raises(ShapeError, match=words):
        Composition((Rotation(), Scale())).apply(random_images(2), torch.ones(2, 3))


def test_no_transform_at_all_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"`transforms` must hold at least one.*: got none\."):
        Composition(())


@pytest.mark.parametrize("given", [{"mean": (0.5,)}, {"std": (0.5,)}], ids=str)
def test_mean_and_std_come_together(given: dict[str, Any]) -> None:
    words = r"`mean` and `std` must be given together: got one of the two\."
    with pytest.raises(ArgumentError, match=words):
        Composition((Brightness(),), **given)


def test_a_composition_in_a_composition_is_refused() -> None:
    words = r"`transforms` must not hold a Composition: .*List its transforms instead\."
    with pytest.raises(ArgumentError, match=words):
        Composition((Crop(), Composition((Rotation(),))))


def test_one_mean_serves_all_channels_but_two_do_not_serve_three() -> None:
    x = random_images(1) * 2 - 1
    single = Composition((Brightness(),), mean=(0.5,), std=(0.5,))
    out = single.apply(x, torch.tensor([[0.5]]))
    assert largest_difference(out, (x + 1) / 2 - 1) <= 1e-6
    words = r"`mean` and `std` must have one value per channel: got 2 for 3 channels\. A single"
    with pytest.raises(ShapeError, match=words):
        Composition((Brightness(),), mean=(0.5, 0.5), std=(0.5, 0.5)).apply(x, torch.ones(1, 1))
