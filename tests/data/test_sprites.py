"""The sprites: known angles, known safe intervals."""

from math import pi
from pathlib import Path

import numpy as np
import pytest
import torch

from instaaug.data import RotatedSprites, draw_sprites, load_mario_iggy
from instaaug.errors import ArgumentError
from instaaug.transforms import Rotation


def test_sprites_are_images_in_the_unit_range() -> None:
    sprites = draw_sprites(64)
    assert sprites.shape == (2, 3, 64, 64)
    assert sprites.min() == 0
    assert sprites.max() == 1


def test_sprites_differ_from_each_other_and_from_themselves_upside_down() -> None:
    first, second = draw_sprites()
    images = [first, first.rot90(2, (1, 2)), second, second.rot90(2, (1, 2))]
    for i in range(4):
        for j in range(i):
            assert (images[i] - images[j]).abs().mean() > 0.05


def test_turning_an_image_back_by_its_known_angle_gives_the_upright_sprite() -> None:
    data = RotatedSprites(40, generator=torch.Generator().manual_seed(0))
    upright = Rotation().apply(data.images, -data.angles[:, None])
    first, second = draw_sprites()
    bases = torch.stack([first, first.rot90(2, (1, 2)), second, second.rot90(2, (1, 2))])
    errors = (upright[:, None] - bases).abs().mean(dim=(2, 3, 4))
    assert torch.equal(errors.argmin(dim=1), data.labels)
    # two bilinear interpolations blur pixel art; turned the wrong way it would be off much more
    assert errors.amin(dim=1).max() < 0.6 * errors.topk(2, largest=False).values[:, 1].min()


def test_angles_stay_within_the_limit_and_use_all_of_it() -> None:
    data = RotatedSprites(2000, generator=torch.Generator().manual_seed(0))
    assert data.angles.abs().max() <= pi / 4
    assert data.angles.abs().max() > 0.99 * pi / 4


def test_safe_intervals_are_a_half_turn_wide_and_end_at_the_right_angle() -> None:
    data = RotatedSprites(10, generator=torch.Generator().manual_seed(0))
    low, high = data.safe_intervals.unbind(-1)
    torch.testing.assert_close(high - low, torch.full((10,), pi))
    torch.testing.assert_close(high + data.angles, torch.full((10,), pi / 2))


def test_the_same_generator_seed_gives_the_same_data() -> None:
    one, two = (RotatedSprites(8, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one.images, two.images)


def test_items_are_image_and_label() -> None:
    data = RotatedSprites(8)
    image, label = data[5]
    assert image.shape == (3, 32, 32)
    assert int(label) == 1


def test_the_original_file_layout_can_be_loaded(tmp_path: Path) -> None:
    mario, iggy = np.random.default_rng(0).random((2, 1, 3, 32, 32))
    np.savez(tmp_path / "images.npz", mario=mario, iggy=iggy)
    sprites = load_mario_iggy(tmp_path / "images.npz")
    assert sprites.dtype == torch.float32
    np.testing.assert_allclose(sprites[1].numpy(), iggy[0], rtol=1e-6)


def test_the_real_original_can_be_loaded(shared_data: Path) -> None:
    assert load_mario_iggy(shared_data / "mario-iggy" / "images.npz").shape == (2, 3, 32, 32)


def test_a_missing_file_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="part of Augerino's public code"):
        load_mario_iggy(tmp_path / "images.npz")


def test_a_file_without_the_sprites_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "images.npz", mario=np.zeros((1, 3, 32, 32)))
    with pytest.raises(
        ArgumentError, match=r"must hold the arrays 'mario' and 'iggy'.*lacks iggy"
    ):
        load_mario_iggy(tmp_path / "images.npz")


def test_a_file_that_is_no_archive_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "images.npz").write_text("hello")
    with pytest.raises(ArgumentError, match="`path` must be a NumPy archive"):
        load_mario_iggy(tmp_path / "images.npz")


@pytest.mark.parametrize("size", [0, 8, 33])
def test_odd_sizes_are_refused(size: int) -> None:
    with pytest.raises(ArgumentError, match="`size` must be a multiple of 16"):
        draw_sprites(size)


def test_no_images_at_all_are_refused() -> None:
    with pytest.raises(ArgumentError, match="`n` must be at least 1: got 0"):
        RotatedSprites(0)
