"""The simulated lights: published white points, orders that physics demands, and real photos."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from instaaug.data import LabeledImages, load_data
from instaaug.data.rawfoot import EASY_LIGHTS, HARD_LIGHTS, parse_lights
from instaaug.errors import ArgumentError, DataError, ShapeError
from paper.lights import (
    LIGHTS,
    Light,
    channel_gains,
    daylight_chromaticity,
    planckian_chromaticity,
    relight,
    relit,
    relit_set,
)
from tests.support.picture_folders import gray_levels

GRAY = torch.full((1, 3, 4, 8), 0.5)


def photo(generator: torch.Generator) -> Tensor:
    return torch.rand(2, 3, 6, 8, generator=generator)


def textures(n: int = 5, channels: int = 3) -> LabeledImages:
    pixels = np.random.default_rng(0).integers(0, 256, (n, 6, 8, channels), dtype=np.uint8)
    labels = torch.arange(n) % 2
    return LabeledImages(pixels, labels, classes=("oat", "rye"), fingerprint="made by hand")


# White points


@pytest.mark.parametrize(
    ("kelvin", "x", "y"),  # CIE 15: D50, D55, D65, D75
    [
        (5003.0, 0.3457, 0.3585),
        (5503.0, 0.3324, 0.3474),
        (6504.0, 0.3127, 0.3290),
        (7504.0, 0.2990, 0.3149),
    ],
)
def test_daylight_has_the_published_white_points(kelvin: float, x: float, y: float) -> None:
    assert daylight_chromaticity(kelvin) == pytest.approx((x, y), abs=2e-4)


@pytest.mark.parametrize(
    ("kelvin", "x", "y"),  # Planck's law and the CIE 1931 observer; 2856 K is illuminant A
    [
        (2000.0, 0.5267, 0.4133),
        (2856.0, 0.4476, 0.4074),
        (4000.0, 0.3805, 0.3768),
        (6500.0, 0.3135, 0.3237),
    ],
)
def test_a_black_body_has_the_color_that_planck_gives(kelvin: float, x: float, y: float) -> None:
    assert planckian_chromaticity(kelvin) == pytest.approx((x, y), abs=1e-3)


@pytest.mark.parametrize("kelvin", [2222.0, 4000.0])
def test_the_cubics_of_a_black_body_meet(kelvin: float) -> None:
    below, above = planckian_chromaticity(kelvin), planckian_chromaticity(kelvin + 1e-6)
    assert below == pytest.approx(above, abs=1e-3)


def test_the_cubics_of_daylight_meet() -> None:
    assert daylight_chromaticity(7000.0) == pytest.approx(
        daylight_chromaticity(7000.001), abs=1e-4
    )


@pytest.mark.parametrize("color", ["L27", "L30", "L40", "D40", "D45", "D50", "D55", "D60"])
def test_warm_light_has_more_red_than_green_and_more_green_than_blue(color: str) -> None:
    red, green, blue = channel_gains(color).tolist()
    assert red == 1
    assert red > green > blue > 0


@pytest.mark.parametrize(
    "colors",
    [[f"D{n}" for n in range(40, 100, 5)], ["L27", "L30", "L40", "L50", "L57", "L65"]],
    ids=["daylights", "lamps"],
)
def test_the_hotter_the_bluer(colors: list[str]) -> None:
    gains = [channel_gains(color) for color in colors]
    ratios = [float(g[2] / g[0]) for g in gains]
    assert ratios == sorted(ratios)
    assert len(set(ratios)) == len(ratios)


@pytest.mark.parametrize("light", LIGHTS, ids=lambda light: light.name)
def test_no_light_makes_any_channel_negative_or_much_brighter(light: Light) -> None:
    gains = light.gains(16)
    assert gains.min() >= 0
    assert gains.max() < 1.2  # near a light from the side it is brighter than in the middle


# The table


def test_there_are_46_lights_numbered_in_order() -> None:
    assert [light.number for light in LIGHTS] == list(range(1, 47))


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (1, "D65 at 100%"),
        (4, "D65 at 25%"),
        (5, "D65 from 24°"),
        (13, "D65 from 90°"),
        (14, "D40"),
        (15, "D45"),
        (25, "D95"),
        (26, "L27"),
        (31, "L65"),
        (40, "L27 from 90°"),
        (42, "D65 + L27"),
        (44, "red"),
        (46, "blue"),
    ],
)
def test_lights_stand_at_their_documented_numbers(number: int, name: str) -> None:
    assert LIGHTS[number - 1].name == name


def test_easy_and_hard_lights_are_two_halves_of_all() -> None:
    assert len(EASY_LIGHTS) == len(HARD_LIGHTS) == 23
    assert sorted(EASY_LIGHTS + HARD_LIGHTS) == list(range(1, 47))


def test_the_document_lists_every_light() -> None:
    document = Path(__file__).resolve().parents[2] / "paper" / "rawfoot_lights.md"
    lines = document.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:3]] for line in lines if "|" in line]
    assert all([str(light.number), light.name] in cells for light in LIGHTS)


# What it does to images


@pytest.mark.parametrize("number", [1, 19])
def test_the_reference_light_changes_nothing(generator: torch.Generator, number: int) -> None:
    x = photo(generator)
    assert torch.equal(relight(x, LIGHTS[number - 1]), x)
    bits = (x * 255).to(torch.uint8)
    assert torch.equal(relight(bits, LIGHTS[number - 1]), bits)


def test_decoding_and_encoding_undo_each_other(generator: torch.Generator) -> None:
    x = photo(generator)
    full = Light(0, "almost all", "D65", intensity=1 - 1e-9)
    torch.testing.assert_close(relight(x, full), x, rtol=0, atol=1e-6)


def test_half_the_light_is_half_of_linear_rgb() -> None:
    # sRGB 0.5 is 0.2140 of the light of white; half of it is encoded as 0.3612
    answer = relight(GRAY, LIGHTS[3 - 1])
    torch.testing.assert_close(answer, torch.full_like(GRAY, 0.3612), rtol=0, atol=1e-3)


@pytest.mark.parametrize(("number", "channel"), [(44, 0), (45, 1), (46, 2)])
def test_pure_light_kills_the_other_channels(
    generator: torch.Generator, number: int, channel: int
) -> None:
    x = photo(generator)
    answer = relight(x, LIGHTS[number - 1])
    others = [c for c in range(3) if c != channel]
    assert answer[:, others].abs().max() == 0
    torch.testing.assert_close(answer[:, channel], x[:, channel], rtol=0, atol=1e-6)


@pytest.mark.parametrize("numbers", [range(1, 5), range(5, 14)], ids=["power", "angle"])
def test_weaker_and_lower_lights_are_darker(numbers: range) -> None:
    means = [float(relight(GRAY, LIGHTS[n - 1]).mean()) for n in numbers]
    assert means == sorted(means, reverse=True)
    assert len(set(means)) == len(means)


@pytest.mark.parametrize("number", range(5, 14))
def test_light_from_the_left_is_brightest_on_the_left(number: int) -> None:
    row = relight(GRAY, LIGHTS[number - 1])[0, 0, 0]
    assert torch.equal(row.sort(descending=True).values, row)
    assert row[0] > row[-1]


def test_light_from_straight_above_is_even_on_both_sides() -> None:
    row = Light(0, "above", "D65", angle=0.0).gains(9)[0]
    torch.testing.assert_close(row, row.flip(0))
    assert int(row.argmax()) == 4


@pytest.mark.parametrize("number", [41, 42, 43])
def test_a_mixture_turns_from_one_color_to_the_other(number: int) -> None:
    light = LIGHTS[number - 1]
    assert light.other is not None
    gains = light.gains(9)
    left, right = channel_gains(light.color), channel_gains(light.other)
    torch.testing.assert_close(gains[:, 4], (left + right) / 2)
    assert (gains[:, 0] - left).norm() < (gains[:, 0] - right).norm()
    assert (gains[:, -1] - right).norm() < (gains[:, -1] - left).norm()


def test_a_mixture_of_a_color_with_itself_is_that_color() -> None:
    mixed, plain = Light(0, "", "L27", other="L27"), Light(0, "", "L27")
    torch.testing.assert_close(mixed.gains(7), plain.gains(7))


@pytest.mark.parametrize("number", [3, 9, 15, 26, 42, 44])
def test_bytes_are_the_rounded_floats(generator: torch.Generator, number: int) -> None:
    bits = (photo(generator) * 255).to(torch.uint8)
    floats = relight(bits.float() / 255, LIGHTS[number - 1])
    assert torch.equal(relight(bits, LIGHTS[number - 1]), (floats * 255).round().to(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.uint8])
def test_the_kind_of_number_stays(dtype: torch.dtype) -> None:
    assert relight(torch.zeros(1, 3, 2, 2, dtype=dtype), LIGHTS[26 - 1]).dtype == dtype


def test_real_photos_keep_their_texture_and_lose_their_blue(shared_data: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    path = next((shared_data / "kth-tips-128" / "cracker").iterdir())
    x = torch.from_numpy(np.array(image.open(path).convert("RGB"))).permute(2, 0, 1)[None]
    warm = relight(x, LIGHTS[26 - 1]).float()
    assert warm[:, 2].mean() < 0.6 * x[:, 2].float().mean()
    pair = torch.stack([x[0, 1].flatten().float(), warm[0, 1].flatten()])
    assert torch.corrcoef(pair)[0, 1] > 0.99


# Whole data sets


def test_every_image_is_seen_under_every_light() -> None:
    data = textures()
    relit = relit_set(data, [1, 44])
    assert len(relit) == 10
    assert relit.classes == data.classes
    np.testing.assert_array_equal(relit.images[:5], data.images)
    np.testing.assert_array_equal(relit.images[5:, :, :, 0], data.images[:, :, :, 0])
    assert relit.images[5:, :, :, 1:].max() == 0
    assert torch.equal(relit.targets, data.targets.repeat(2))
    assert relit.name(8) == "image 3 under light 44"


def test_one_light_per_image_is_dealt_out_evenly() -> None:
    relit = relit_set(textures(12), [44, 45, 46], per_image=1, seed=3)
    assert len(relit) == 12
    lights = [relit.name(i).split()[-1] for i in range(12)]
    assert sorted(lights) == ["44"] * 4 + ["45"] * 4 + ["46"] * 4
    for i, light in enumerate(lights):
        only = int(light) - 44
        assert np.flatnonzero(relit.images[i].reshape(-1, 3).max(axis=0)).tolist() == [only]


def test_a_subset_is_relit_as_a_subset() -> None:
    data = textures().subset([4, 1])
    relit = relit_set(data, [1])
    np.testing.assert_array_equal(relit.images, data.images[[4, 1]])
    assert relit.name(0) == "image 4 under light 1"


def test_the_fingerprint_knows_lights_seed_and_subset() -> None:
    data = textures(6)
    sets = [
        relit_set(data, [1, 2]),
        relit_set(data, [1, 3]),
        relit_set(data, [1, 2], per_image=1),
        relit_set(data, [1, 2], per_image=1, seed=1),
        relit_set(data.subset([0, 1]), [1, 2]),
    ]
    assert len({relit.fingerprint for relit in sets} | {data.fingerprint}) == 6
    assert relit_set(data, [1, 2]).fingerprint == sets[0].fingerprint


# Mistakes


@pytest.mark.parametrize("kelvin", [3999.0, 25001.0, math.nan])
def test_daylight_outside_the_formula_is_refused(kelvin: float) -> None:
    with pytest.raises(ArgumentError, match=r"`kelvin` must lie in \[4000, 25000\].*got"):
        daylight_chromaticity(kelvin)


def test_a_black_body_outside_the_formula_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"`kelvin` must lie in \[1667, 25000\].*got 1000"):
        planckian_chromaticity(1000.0)


@pytest.mark.parametrize("color", ["", "A", "65", "Dx", "purple", "D6.5"])
def test_an_unknown_color_is_refused(color: str) -> None:
    with pytest.raises(ArgumentError, match="`color` must be D or L and hundreds of kelvins"):
        channel_gains(color)


@pytest.mark.parametrize("shape", [(3, 4, 4), (1, 1, 4, 4), (1, 4, 4, 3)])
def test_only_batches_of_color_images_are_lit(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"`images` must be a batch of color images \(B, 3, H, W"):
        relight(torch.zeros(shape), LIGHTS[0])


def test_other_integers_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"`images` must be 8-bit numbers.*got torch.int64"):
        relight(torch.zeros(1, 3, 2, 2, dtype=torch.int64), LIGHTS[0])


@pytest.mark.parametrize(("lights", "got"), [([0], "0"), ([1, 47], "47"), ([], "none")])
def test_unknown_lights_are_refused(lights: list[int], got: str) -> None:
    with pytest.raises(ArgumentError, match=f"`lights` must be at least one number.*got {got}"):
        relit_set(textures(), lights)


def test_other_ways_to_deal_out_lights_are_refused() -> None:
    with pytest.raises(ArgumentError, match="`per_image` must be 'all', or 1 or more: got 0"):
        relit_set(textures(), [1], per_image=0)


def test_grayscale_sets_are_refused() -> None:
    with pytest.raises(DataError, match="`data` must have three channels: got 1"):
        relit_set(textures(channels=1), [1])


# Data sources


def pixels(data: LabeledImages) -> Tensor:
    return data.__getitems__(range(len(data)))[0]


def test_training_and_test_are_lit_by_their_own_lights(tmp_path: Path) -> None:
    gray_levels(tmp_path / "a.npz")
    plain = load_data(tmp_path / "a.npz")
    lit = load_data(
        "paper.lights:relit",
        options={"source": tmp_path / "a.npz", "train_lights": "1", "test_lights": [44]},
    )  # full daylight; pure red
    assert len(lit.train) == len(plain.train)
    assert torch.equal(pixels(lit.train), pixels(plain.train))
    assert torch.equal(pixels(lit.test)[:, 0], pixels(plain.test)[:, 0])
    assert not pixels(lit.test)[:, 1:].any()
    assert plain.validation is not None
    assert lit.validation is not None
    assert torch.equal(pixels(lit.validation), pixels(plain.validation))
    assert torch.equal(lit.test.targets, plain.test.targets)
    assert lit.hash != plain.hash


def test_lights_differ_from_image_to_image(tmp_path: Path) -> None:
    gray_levels(tmp_path / "a.npz", n=60)
    lit = relit(tmp_path / "a.npz", "44-46", "1", validation_fraction=0.0)
    channels = pixels(lit.train).flatten(2).float().amax(dim=2) > 0  # red, green and blue alone
    assert torch.equal(channels.sum(dim=1), torch.ones(48, dtype=torch.int64))
    assert channels.sum(dim=0).tolist() == [16, 16, 16]


@pytest.mark.parametrize(
    ("text", "numbers"), [("1-3,7", [1, 2, 3, 7]), ("40", [40]), ("5,5-6", [5, 5, 6])]
)
def test_lights_are_numbers_and_ranges(text: str, numbers: list[int]) -> None:
    assert parse_lights(text) == numbers


@pytest.mark.parametrize("text", ["", "sun", "1;2", "1-2-3", "1,,2", "1.5"])
def test_lights_that_are_no_numbers_are_refused(text: str) -> None:
    with pytest.raises(
        ArgumentError, match=f"`lights` must be numbers such as 1-4,7: got '{text}'"
    ):
        parse_lights(text)


@pytest.mark.parametrize(
    ("train", "test", "words"),
    [
        ("1-4", "47", "`test_lights` must be at least one number from 1 to 46: got 47"),
        ("4-1", "5", "`train_lights` must be at least one number from 1 to 46: got none"),
    ],
)
def test_lights_that_do_not_exist_are_refused(
    train: str, test: str, words: str, tmp_path: Path
) -> None:
    gray_levels(tmp_path / "a.npz")
    with pytest.raises(ArgumentError, match=words):
        relit(tmp_path / "a.npz", train, test)


def test_easy_and_hard_lights_are_groups_of_the_test_images(tmp_path: Path) -> None:
    gray_levels(tmp_path / "a.npz", n=60)
    lit = relit(tmp_path / "a.npz", 15, "1,44", lights_per_image=2).test
    groups = lit.group_indices()
    assert {name: len(own) for name, own in groups.items()} == {"easy": 12, "hard": 12}
    x = pixels(lit)
    assert x[groups["easy"]][:, 1:].any()
    assert not x[groups["hard"]][:, 1:].any()  # pure red


def test_every_seed_draws_its_own_lights(tmp_path: Path) -> None:
    gray_levels(tmp_path / "a.npz", n=60)
    drawn = [relit(tmp_path / "a.npz", "1-46", n_train_lights=2, seed=s).train for s in (0, 0, 1)]
    found = [{train.name(i).split("under")[1] for i in range(len(train))} for train in drawn]
    assert found[0] == found[1] != found[2]
    assert len(found[0]) == len(found[2]) == 2


def test_rawfoot_is_never_relit(tmp_path: Path) -> None:
    for food, light in ((1, 1), (1, 15), (2, 1), (2, 15)):
        pixels = np.full((32, 32, 3), 99, dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{food:04}-{light:02}.png")
    options = {"train_lights": 15, "test_lights": 1}
    words = r"`source` must be images under one light: got RawFooT \(0001-15.png at row"
    with pytest.raises(ArgumentError, match=words):
        relit(tmp_path, "1", "2", size=8, options=options)
