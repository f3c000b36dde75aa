"""AutoAugment, RandAugment and TrivialAugment draw what was published, per input."""

from collections import Counter
from collections.abc import Callable
from math import pi

import pytest
import torch
from torch import Tensor

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.methods import AutoAugment, RandAugment, TrivialAugment
from instaaug.methods.auto_augment import POLICIES
from instaaug.methods.drawn_operations import (
    NARROW,
    RAND_OPERATIONS,
    WIDE,
    DrawnOperations,
    with_hole_places,
)
from instaaug.methods.operations import OPERATIONS, SIGNED, number_of
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p
from tests.support.models import images
from tests.support.unhooked import unhooked

N_DRAWS = 6000
METHODS: dict[str, Callable[..., DrawnOperations]] = {
    "auto": AutoAugment,
    "rand": RandAugment,
    "trivial": TrivialAugment,
}
EVERY = pytest.mark.parametrize("name", METHODS)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(aug: DrawnOperations, *, side: int = 32, seed: int = 0) -> Tensor:
    """θ of N_DRAWS draws, (N_DRAWS, steps, 2)."""
    x = torch.zeros(N_DRAWS // 4, 1, side, side)
    return aug.draw(x, 4, generator=seeded(seed)).flatten(0, 1).unflatten(-1, (-1, 2))


# --- magnitudes ---------------------------------------------------------------------------------


def row(name: str, table: Tensor) -> list[float]:
    return [round(value, 4) for value in table[number_of(name)].tolist()]


def test_the_ten_magnitudes_of_auto_augment() -> None:
    table = NARROW.table(10, height=331, width=662)
    assert row("posterize", table) == [8, 8, 7, 7, 6, 6, 5, 5, 4, 4]
    assert row("shear_x", table) == row("shear_y", table)
    assert row("shear_x", table)[::3] == [0, 0.1, 0.2, 0.3]
    assert row("rotate", table)[9] == round(pi / 6, 4)
    assert row("color", table) == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert row("solarize", table)[::3] == [255, 170, 85, 0]
    # 150 pixels of 331; 16.67 of them are cut off to 16
    assert row("translate_y", table)[9] == round(150 / 331, 4)
    assert row("translate_y", table)[1] == round(16 / 331, 4)
    assert row("translate_x", table)[1] == round(33 / 662, 4)


def test_magnitude_nine_of_rand_augment() -> None:
    table = NARROW.table(31, height=224, width=224)[:, 9]
    found = {name: round(float(table[number_of(name)]), 4) for name in RAND_OPERATIONS}
    assert found == {
        "identity": 0, "shear_x": 0.09, "shear_y": 0.09,
        "translate_x": round(30 / 224, 4), "translate_y": round(30 / 224, 4),
        "rotate": round(9 * pi / 180, 4), "brightness": 0.27, "color": 0.27, "contrast": 0.27,
        "sharpness": 0.27, "posterize": 7, "solarize": 178.5, "auto_contrast": 0, "equalize": 0,
    }  # fmt: skip


def test_the_widest_magnitudes_of_trivial_augment() -> None:
    table = WIDE.table(31, height=64, width=128)
    found = {name: row(name, table)[30] for name in RAND_OPERATIONS}
    assert found == {
        "identity": 0, "shear_x": 0.99, "shear_y": 0.99, "translate_x": 0.25, "translate_y": 0.5,
        "rotate": round(0.75 * pi, 4), "brightness": 0.99, "color": 0.99, "contrast": 0.99,
        "sharpness": 0.99, "posterize": 2, "solarize": 0, "auto_contrast": 0, "equalize": 0,
    }  # fmt: skip
    assert row("posterize", table) == [round(8 - i / 5) for i in range(31)]
    assert row("translate_x", table)[1] == round(1 / 128, 4)  # 1.07 pixels


# --- frequencies --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_are_25_pairs_of_steps_in_tenths(policy: str) -> None:
    assert len(POLICIES[policy]) == 25
    for pair in POLICIES[policy]:
        for name, probability, magnitude_bin in pair:
            assert name in OPERATIONS
            assert round(10 * probability) in range(11)
            assert magnitude_bin in range(10)


@pytest.mark.parametrize("policy", POLICIES)
def test_sub_policies_are_drawn_with_their_probabilities(policy: str) -> None:
    """Pearson's test on all outcomes; a right sampler fails with ERROR_PROBABILITY."""
    table = NARROW.table(10, height=32, width=32)
    probs: Counter[tuple[float, ...]] = Counter()
    for pair in POLICIES[policy]:
        outcomes: dict[tuple[float, ...], float] = {(): 1 / 25}
        for name, probability, magnitude_bin in pair:
            value = round(float(table[number_of(name), magnitude_bin]), 5)
            signs = (1, -1) if name in SIGNED and value else (1,)
            ways = {(0.0, 0.0): 1 - probability}
            for sign in signs:
                ways[(float(number_of(name)), sign * value)] = probability / len(signs)
            outcomes = {
                (*before, *way): p * q
                for before, p in outcomes.items()
                for way, q in ways.items()
                if q > 0
            }
        probs.update(outcomes)
    theta = drawn(AutoAugment(policy))  # type: ignore[arg-type]
    found = Counter(tuple(round(v, 5) + 0.0 for v in one) for one in theta.flatten(1).tolist())
    assert set(found) <= set(probs)
    counts = torch.tensor([found[outcome] for outcome in probs])
    assert chi_square_p(counts, torch.tensor(list(probs.values()))) > ERROR_PROBABILITY


@pytest.mark.parametrize("n_operations", [1, 2, 3])
def test_rand_augment_draws_every_sequence_alike(n_operations: int) -> None:
    """Pearson's test; a right sampler fails with ERROR_PROBABILITY."""
    theta = drawn(RandAugment(n_operations=n_operations), side=64)
    assert theta.shape == (N_DRAWS, n_operations, 2)
    places = torch.tensor([RAND_OPERATIONS.index(OPERATIONS[int(i)]) for i in theta[:, 0, 0]])
    if n_operations > 1:  # pairs, in order
        second = [RAND_OPERATIONS.index(OPERATIONS[int(i)]) for i in theta[:, 1, 0]]
        places = places * 14 + torch.tensor(second)
    k = 14 ** min(n_operations, 2)
    counts = torch.bincount(places, minlength=k)
    assert chi_square_p(counts, torch.full((k,), 1 / k)) > ERROR_PROBABILITY


def test_rand_augment_takes_one_magnitude_in_both_directions() -> None:
    """Binomial counts, per operation and in all, 5 standard deviations: 6e-7 each."""
    theta = drawn(RandAugment(magnitude=12), side=64).flatten(0, 1)
    table = NARROW.table(31, height=64, width=64)[:, 12]
    signed = torch.isin(theta[:, 0], torch.tensor([float(number_of(name)) for name in SIGNED]))
    n_negative, n = int((theta[signed, 1] < 0).sum()), int(signed.sum())
    assert abs(n_negative - n / 2) <= 5 * (n / 4) ** 0.5
    for name in RAND_OPERATIONS:
        values = theta[theta[:, 0] == number_of(name), 1]
        assert torch.equal(values.abs(), table[number_of(name)].expand(len(values)))
        n_negative, n = int((values < 0).sum()), len(values)
        if name in SIGNED:
            assert abs(n_negative - n / 2) <= 5 * (n / 4) ** 0.5
        else:
            assert n_negative == 0


def test_trivial_augment_draws_operations_and_magnitudes_alike() -> None:
    """Pearson's test, twice; a right sampler fails with ERROR_PROBABILITY."""
    theta = drawn(TrivialAugment(), side=64)[:, 0]
    places = torch.tensor([RAND_OPERATIONS.index(OPERATIONS[int(i)]) for i in theta[:, 0]])
    counts = torch.bincount(places, minlength=14)
    assert chi_square_p(counts, torch.full((14,), 1 / 14)) > ERROR_PROBABILITY
    enhanced = [number_of(n) for n in ("brightness", "color", "contrast", "sharpness", "rotate")]
    rows = torch.isin(theta[:, 0], torch.tensor(enhanced).float())
    most = torch.where(theta[rows, 0] == number_of("rotate"), 0.75 * pi, 0.99)
    bins = (theta[rows, 1].abs() / most * 30).round().long()
    counts = torch.bincount(bins, minlength=31)
    assert chi_square_p(counts, torch.full((31,), 1 / 31)) > ERROR_PROBABILITY


@EVERY
def test_inputs_and_samples_have_draws_of_their_own(name: str) -> None:
    theta = METHODS[name]().draw(images(8), 4, generator=seeded(3))
    assert len({str(one) for one in theta[0].tolist()}) >= 4
    assert len({str(one) for one in theta[:, 0].tolist()}) >= 2


def test_holes_are_drawn_everywhere_alike_and_nothing_else_is_moved() -> None:
    """Pearson's test; a right sampler fails with ERROR_PROBABILITY."""
    cutout, rotate = number_of("cutout"), number_of("rotate")
    operation = torch.tensor([cutout, rotate]).repeat(256 * 30, 1)
    value = with_hole_places(operation, torch.full(operation.shape, 0.25), seeded(5))
    assert (value[:, 1] == 0.25).all()
    assert (value[:, 0] - value[:, 0].floor() == 0.25).all()
    counts = torch.bincount(value[:, 0].long(), minlength=256)
    assert chi_square_p(counts, torch.full((256,), 1 / 256)) > ERROR_PROBABILITY


def test_the_operations_of_rand_augment_are_the_published_fourteen() -> None:
    assert len(RAND_OPERATIONS) == 14
    assert not {"zoom", "invert", "cutout", "flip"} & set(RAND_OPERATIONS)


# --- rendering ----------------------------------------------------------------------------------


@EVERY
def test_rendering_is_deterministic_and_image_by_image(name: str) -> None:
    aug, x = METHODS[name](), images(16)
    theta = aug.draw(x, 1, generator=seeded(1))[0]
    out = aug.render(x, theta)
    assert torch.equal(out, aug.render(x, theta))
    alone = [aug.render(x[i : i + 1], theta[i : i + 1]) for i in range(16)]
    torch.testing.assert_close(out, torch.cat(alone), atol=1e-6, rtol=0)
    assert out.min() >= 0
    assert out.max() <= 1
    assert not torch.equal(out, x)


@EVERY
def test_normalized_images_are_changed_as_they_would_be_without(name: str) -> None:
    x, mean, std = images(24), (0.2, 0.3, 0.4), (0.5, 0.6, 0.7)
    x = (x * 255).round() / 255
    m, s = (torch.tensor(v).view(1, 3, 1, 1) for v in (mean, std))
    plain, normalized = METHODS[name](), METHODS[name](mean=mean, std=std)
    theta = plain.draw(x, 1, generator=seeded(2))[0]
    out = normalized.render((x - m) / s, theta) * s + m
    torch.testing.assert_close(out, plain.render(x, theta), atol=1e-5, rtol=0)


@EVERY
def test_padding_is_honored(name: str) -> None:
    white = torch.ones(1, 3, 16, 16)
    theta = torch.zeros(1, METHODS[name]().transform.n_parameters)
    theta[0, :2] = torch.tensor([float(number_of("translate_x")), 0.5])
    black, same = METHODS[name](), METHODS[name](padding_mode="border")
    assert black.render(white, theta)[0, 0, 0].tolist() == [0.0] * 8 + [1.0] * 8
    assert torch.equal(same.render(white, theta), white)


@EVERY
def test_interpolation_is_that_of_the_source_unless_it_is_chosen(name: str) -> None:
    x = images(1)
    theta = torch.zeros(1, METHODS[name]().transform.n_parameters)
    theta[0, :2] = torch.tensor([float(number_of("rotate")), 0.3])
    levels = set(x.flatten().tolist()) | {0.0}
    assert set(METHODS[name]().render(x, theta).flatten().tolist()) <= levels
    smooth = METHODS[name](interpolation="bilinear")
    assert not set(smooth.render(x, theta).flatten().tolist()) <= levels


@EVERY
def test_another_size_is_honored_and_operations_act_on_what_comes_out(name: str) -> None:
    x = images(12, height=32, width=32)
    aug = METHODS[name](size=(16, 24))
    theta = aug.draw(x, 1, generator=seeded(4))[0]
    with unhooked():  # the shape checker wants one size
        out, small = aug.render(x, theta), aug.transform.resized(x)
    assert out.shape == (12, 3, 16, 24)
    torch.testing.assert_close(out, METHODS[name]().render(small, theta), atol=1e-6, rtol=0)


def test_moves_are_whole_pixels_of_what_comes_out() -> None:
    x = torch.zeros(4000, 1, 8, 8)
    theta = TrivialAugment(size=(64, 100)).draw(x, 1, generator=seeded())[0]
    for name, side in (("translate_x", 100), ("translate_y", 64)):
        pixels = theta[theta[:, 0] == number_of(name), 1] * side
        torch.testing.assert_close(pixels, pixels.round(), atol=1e-4, rtol=0)
        assert pixels.abs().max() == 32


def test_the_settings_can_be_read_from_the_printed_form() -> None:
    assert repr(AutoAugment("cifar10")) == "AutoAugment(policy of cifar10, 25 sub-policies)"
    assert repr(RandAugment()) == "RandAugment(2 of 14 operations, magnitude 9 of 31)"
    assert repr(TrivialAugment()) == "TrivialAugment(one of 14 operations, one of 31 magnitudes)"


def test_unknown_policies_and_impossible_magnitudes_are_refused() -> None:
    words = r"no policy called 'cifar'\. Did you mean 'cifar10'\?"
    with unhooked(), pytest.raises(UnknownNameError, match=words):
        AutoAugment("cifar")  # type: ignore[arg-type]
    for magnitude in (-1, 31):
        with pytest.raises(ArgumentError, match="`magnitude` must be a bin from 0 to 30: got "):
            RandAugment(magnitude=magnitude)
    with pytest.raises(ArgumentError, match=r"`n_bins` must be at least 2: got 1\."):
        TrivialAugment(n_bins=1)
