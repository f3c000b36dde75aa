"""Distortions are those of kornia and scipy, image by image, and follow their law."""

from math import pi, sqrt

import numpy as np
import pytest
import torch
from kornia import enhance
from kornia.color import rgb_to_grayscale
from scipy import ndimage
from torch import Tensor

from instaaug.errors import ArgumentError, ShapeError
from instaaug.methods import distortions
from instaaug.methods.distortions import Distortions, DrawnDistortions, change_where
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p, uniform_p
from tests.support.images import largest_difference, random_images

ALL_AT_TIMES = Distortions(strength=1.0, jitter=0.6, gray=0.4, blur=0.5)
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normalized(x: Tensor) -> Tensor:
    return (x - x.new_tensor(MEAN).view(3, 1, 1)) / x.new_tensor(STD).view(3, 1, 1)


@pytest.fixture(params=["some", "all"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens to some images is computed for them, or for all where a device needs it."""
    if request.param == "all":
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)


BOTH_WAYS = pytest.mark.usefixtures("_both_ways")


def of_kornia(x: Tensor, name: str, amount: float) -> Tensor:
    """One operation of the jitter on one image."""
    if name == "brightness":
        return enhance.adjust_brightness_accumulative(x, amount)
    if name == "contrast":
        return enhance.adjust_contrast_with_mean_subtraction(x, amount)
    if name == "saturation":
        return enhance.adjust_saturation_with_gray_subtraction(x, amount)
    return enhance.adjust_hue(x, amount * 2 * pi)


def blurred(x: Tensor, sigma: float, radius: int) -> Tensor:
    """One image, filtered by scipy along one side and then along the other."""
    kernel = np.array([np.exp(-(k**2) / (2 * sigma**2)) for k in range(-radius, radius + 1)])
    out = x.numpy()
    for axis in (-1, -2):
        out = ndimage.correlate1d(out, kernel / kernel.sum(), axis=axis, mode="nearest")
    return torch.from_numpy(out)


def distorted_in_a_loop(x: Tensor, drawn: DrawnDistortions, radius: int) -> Tensor:
    out = []
    for i, image in enumerate(x):
        one = image.flip(-1) if drawn.flip[i] else image
        if drawn.jitter[i]:
            for name, amount in drawn.amounts.items():
                one = of_kornia(one, name, float(amount[i]))
        if drawn.gray[i]:
            one = rgb_to_grayscale(one).expand(3, -1, -1)
        if drawn.blur[i]:
            one = blurred(one, float(drawn.sigma[i]), radius)
        out.append(one)
    return torch.stack(out)


@BOTH_WAYS
@pytest.mark.parametrize("seed", range(6))  # as many orders of the jitter
@pytest.mark.parametrize(("side", "radius"), [(16, 1), (48, 2)])  # ⌊⌊side / 10⌋ / 2⌋
def test_images_are_those_of_kornia_one_by_one(side: int, radius: int, seed: int) -> None:
    x = random_images(12, height=side, width=side, dtype=torch.float64, seed=seed)
    before = x.clone()
    drawn = ALL_AT_TIMES.draw(x, seeded(seed))
    assert all(flags.any() and not flags.all() for flags in (drawn.jitter, drawn.gray, drawn.blur))
    expected = distorted_in_a_loop(x, drawn, radius)
    assert largest_difference(ALL_AT_TIMES(x, seeded(seed)), expected) < 1e-6
    assert torch.equal(x, before)


def test_normalized_images_are_distorted_as_they_were_before() -> None:
    x = random_images(16, dtype=torch.float64)
    plain = Distortions(strength=1.0, blur=0.5)(x, seeded())
    told = Distortions(strength=1.0, blur=0.5, mean=MEAN, std=STD)(normalized(x), seeded())
    assert largest_difference(told, normalized(plain)) < 1e-12


@BOTH_WAYS
def test_images_that_nothing_happens_to_are_the_same_to_the_last_bit() -> None:
    x = normalized(random_images(40))
    some = Distortions(jitter=0.3, gray=0.2, blur=0.2, mean=MEAN, std=STD)
    drawn, out = some.draw(x, seeded()), some(x, seeded())
    unchanged = ~(drawn.jitter | drawn.gray | drawn.blur)
    left, mirrored = unchanged & ~drawn.flip, unchanged & drawn.flip
    assert left.sum() > 2
    assert mirrored.sum() > 2
    assert torch.equal(out[left], x[left])
    assert torch.equal(out[mirrored], x[mirrored].flip(-1))
    assert (out[~unchanged] != x[~unchanged]).flatten(1).any(dim=1).all()


@BOTH_WAYS
@pytest.mark.parametrize("off", [{"jitter": 0.0}, {"strength": 0.0}], ids=str)
def test_nothing_gives_the_input_itself(off: dict[str, float]) -> None:
    x = normalized(random_images(8))
    nothing = Distortions(gray=0.0, blur=0.0, flip=0.0, mean=MEAN, std=STD, **off)
    assert nothing(x) is x


@BOTH_WAYS
@pytest.mark.parametrize("channels", [1, 2])
def test_without_colors_there_is_brightness_and_contrast_alone(channels: int) -> None:
    x = random_images(8, channels=channels)
    assert torch.equal(Distortions(jitter=0.0, gray=1.0, flip=0.0)(x), x)
    always = Distortions(jitter=1.0, gray=1.0, flip=0.0)
    drawn = always.draw(x, seeded())
    assert set(drawn.amounts) == {"brightness", "contrast"}
    expected = x
    for name, amount in drawn.amounts.items():
        factor = amount.view(-1, 1, 1, 1)
        middle = expected.mean(dim=(1, 2, 3), keepdim=True) if name == "contrast" else 0.0
        expected = ((expected - middle) * factor + middle).clamp(0, 1)
    torch.testing.assert_close(always(x, seeded()), expected)


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, always = random_images(10), Distortions(jitter=1.0)
    at_once = always(x, seeded())
    monkeypatch.setattr(distortions, "IN_CACHE", 3 * x[0].numel())
    assert torch.equal(always(x, seeded()), at_once)


@BOTH_WAYS
def test_gradients_are_those_of_finite_differences() -> None:
    """Pixels of distinct channels, far from 0 and 1, where nothing is clipped."""
    x = 0.4 + 0.05 * random_images(6, height=4, width=5, dtype=torch.float64)
    x = (x + torch.tensor([0.0, 0.06, 0.12]).view(3, 1, 1)).requires_grad_()
    mild = Distortions(strength=0.1, jitter=0.7, gray=0.3, blur=0.5, mean=(0.1,), std=(1.5,))
    drawn = mild.draw(x, seeded(2))
    assert drawn.gray.any()
    assert drawn.blur.any()
    assert torch.autograd.gradcheck(lambda x: mild.apply_drawn(x, drawn), x, fast_mode=True)


N = 4000


def drawn_many(aug: Distortions, *, seed: int = 0) -> DrawnDistortions:
    return aug.draw(torch.empty(N, 3, 1, 1), seeded(seed))


def test_amounts_are_uniform_on_their_ranges() -> None:
    """Kolmogorov-Smirnov; a right sampler fails each with ERROR_PROBABILITY."""
    aug = Distortions(strength=0.5, jitter=0.8, blur=0.5)
    drawn = drawn_many(aug)
    ranges = dict.fromkeys(("brightness", "contrast", "saturation"), (0.6, 1.4))
    ranges["hue"] = (-0.1, 0.1)
    for name, (low, high) in ranges.items():
        share = (drawn.amounts[name][drawn.jitter].double() - low) / (high - low)
        assert share.min() > -1e-6
        assert share.max() < 1 + 1e-6
        assert uniform_p(share.clamp(0, 1)) > ERROR_PROBABILITY
        resting = drawn.amounts[name][~drawn.jitter]
        assert (resting == (0.0 if name == "hue" else 1.0)).all()
    assert uniform_p((drawn.sigma.double() - 0.1) / 1.9) > ERROR_PROBABILITY


def test_amounts_and_coins_are_independent() -> None:
    """Correlations of 4000 draws are within five standard errors of zero: 6e-7 for each of 36."""
    drawn = drawn_many(Distortions(jitter=1.0, gray=0.3, blur=0.5))
    rows = [drawn.flip, drawn.gray, drawn.blur, drawn.sigma, *drawn.amounts.values()]
    correlations = torch.corrcoef(torch.stack([row.double() for row in rows]))
    assert (correlations - torch.eye(len(rows))).abs().max() < 5 / sqrt(N)


@pytest.mark.parametrize("strength", [1.25, 2.5])
def test_factors_are_never_negative(strength: float) -> None:
    drawn = drawn_many(Distortions(strength=strength, jitter=1.0))
    for name in ("brightness", "contrast", "saturation"):
        assert 0 <= drawn.amounts[name].min() < 0.02
        assert drawn.amounts[name].max() == pytest.approx(1 + 0.8 * strength, rel=0.01)


def test_each_takes_place_as_often_as_was_asked() -> None:
    """Within five standard errors: a right coin fails with 6e-7."""
    wanted = {"flip": 0.5, "jitter": 0.8, "gray": 0.1, "blur": 0.3}
    drawn = drawn_many(Distortions(blur=0.3))
    for name, p in wanted.items():
        share = float(getattr(drawn, name).double().mean())
        assert abs(share - p) < 5 * sqrt(p * (1 - p) / N), name
    never = drawn_many(Distortions(jitter=0.0, gray=0.0, blur=0.0, flip=0.0))
    always = drawn_many(Distortions(jitter=1.0, gray=1.0, blur=1.0, flip=1.0))
    assert not any(getattr(never, name).any() for name in wanted)
    assert all(getattr(always, name).all() for name in wanted)


def test_all_orders_of_the_jitter_are_equally_likely() -> None:
    """Pearson's test on 24 orders; a right sampler fails with ERROR_PROBABILITY."""
    random, counts = seeded(), dict[tuple[str, ...], int]()
    for _ in range(720):
        order = tuple(ALL_AT_TIMES.draw(torch.empty(1, 3, 1, 1), random).amounts)
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    p = chi_square_p(torch.tensor(list(counts.values())), torch.ones(24) / 24)
    assert p > ERROR_PROBABILITY


def test_a_seed_decides_everything() -> None:
    x = random_images(8)
    torch.manual_seed(1)  # the global randomness must not matter
    first = ALL_AT_TIMES(x, seeded())
    torch.manual_seed(2)
    assert torch.equal(ALL_AT_TIMES(x, seeded()), first)
    assert not torch.equal(ALL_AT_TIMES(x, seeded(1)), first)


@pytest.mark.parametrize("name", ["jitter", "gray", "blur", "flip"])
@pytest.mark.parametrize("value", [-0.1, float("nan")])
def test_probabilities_beyond_their_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=f"`{name}` must be a probability"):
        Distortions(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("strength", [-0.1, 2.6, float("nan")])
def test_a_strength_that_cannot_be_is_refused(strength: float) -> None:
    with pytest.raises(ArgumentError, match="`strength` must lie in"):
        Distortions(strength=strength)


def test_what_is_no_batch_of_images_is_refused() -> None:
    with pytest.raises(ShapeError, match="at least one image"):
        Distortions()(torch.zeros(0, 3, 8, 8))


def test_it_says_what_it_does() -> None:
    assert repr(Distortions(gray=0.0)) == "Distortions(strength 0.5, flip 50%, jitter 80%)"


FACTORS = torch.tensor([2.0, 3.0, 5.0, 7.0])


def multiplied(some: Tensor, rows: Tensor | slice) -> Tensor:
    return some * FACTORS[rows, None, None, None]


@BOTH_WAYS
@pytest.mark.parametrize("pattern", ["0000", "0110", "1001", "1111"])
def test_each_flagged_image_changes_by_its_own_row(pattern: str) -> None:
    x = random_images(4).requires_grad_()
    before = x.detach().clone()
    flags = torch.tensor([flag == "1" for flag in pattern])
    factors = torch.where(flags, FACTORS, 1.0)[:, None, None, None]
    out = change_where(flags, x, multiplied)
    assert torch.equal(out, before * factors)
    assert torch.equal(x, before)
    (slope,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(slope, factors.expand_as(x))


def test_on_a_processor_only_flagged_images_are_computed() -> None:
    seen = []

    def noted(some: Tensor, rows: Tensor | slice) -> Tensor:
        seen.append(len(some))
        return some

    for pattern in ([True, False, True], [False, False, False], [True, True, True]):
        change_where(torch.tensor(pattern), random_images(3), noted)
    assert seen == [2, 3]
