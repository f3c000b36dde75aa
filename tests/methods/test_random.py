"""Random augmentation draws what it claims, from ranges that strength and sizes set."""

from math import prod

import pytest
import torch
from torch import Tensor

from instaaug import transforms as T
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.methods import RandomAugmentation
from instaaug.spaces import Boxes, Interval
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p, uniform_p
from tests.support.models import images
from tests.support.thetas import ALL_NAMES, make

N_DRAWS = 2000
CROPS = T.Crop(levels=((1.0, 1), (0.5, 2)))


def drawn(aug: RandomAugmentation, n: int = N_DRAWS, *, seed: int = 0) -> Tensor:
    """θ of ``n`` draws for two images, one after the other: (2n, d)."""
    generator = torch.Generator().manual_seed(seed)
    return aug.draw(images(2), n, generator=generator).flatten(0, 1)


def interval_of(aug: RandomAugmentation, factor: str) -> Interval:
    space = aug.transform.spaces[factor]
    assert isinstance(space, Interval)
    return space


# --- intervals ----------------------------------------------------------------------------------

INTERVALS = [
    name
    for name in ALL_NAMES
    if all(isinstance(space, Interval) for space in make(name).spaces.values())
]


@pytest.mark.parametrize("strength", [0.25, 1.0])
@pytest.mark.parametrize("name", INTERVALS)
def test_values_are_uniform_on_their_share_of_the_range(name: str, strength: float) -> None:
    """Kolmogorov-Smirnov for each column; a right sampler fails with ERROR_PROBABILITY."""
    aug = RandomAugmentation(name, strength=strength)
    theta = drawn(aug).double()
    parameters = [
        p for factor in aug.transform.spaces for p in interval_of(aug, factor).parameters
    ]
    assert theta.shape[1] == len(parameters)
    for column, p in zip(theta.T, parameters, strict=True):
        share = strength if p.learned else 1.0
        low, high = (
            (1 - share) * p.coordinate(p.identity) + share * p.coordinate(end)
            for end in (p.low, p.high)
        )
        column = column.log() if p.multiplicative else column  # noqa: PLW2901
        slack = 1e-6 * (high - low)
        assert low - slack <= column.min()
        assert column.max() <= high + slack
        place = ((column - low) / (high - low)).clamp(0, 1)
        assert uniform_p(place) > ERROR_PROBABILITY / len(parameters)


def test_the_parameters_of_one_draw_are_independent() -> None:
    """Correlations of 4000 draws are within five standard errors, 5 / √4000, of zero."""
    theta = drawn(RandomAugmentation([T.Rotation(), T.Scale(), T.HSVJitter()]))
    correlations = torch.corrcoef(theta.T) - torch.eye(theta.shape[1])
    assert correlations.abs().max() < 5 / len(theta) ** 0.5


@pytest.mark.parametrize("name", INTERVALS)
def test_no_strength_changes_nothing(name: str) -> None:
    aug, x = RandomAugmentation(name, strength=0.0), images(4)
    torch.testing.assert_close(aug(x, 3).inputs, x.repeat(3, 1, 1, 1), atol=1e-5, rtol=0)


def test_each_factor_has_a_strength_of_its_own() -> None:
    aug = RandomAugmentation(
        [T.Rotation(1.0), T.Scale(), T.Translate()], strength={"rotation": 0.5, "scale": 0.0}
    )
    angle, size, *shift = drawn(aug).T
    assert 0.45 < angle.abs().max() <= 0.5
    assert torch.equal(size, torch.ones_like(size))
    limits = [p.high for p in interval_of(aug, "translate").parameters]
    reached = [float(column.abs().max()) for column in shift]
    assert reached == pytest.approx(limits, rel=0.02)  # nothing was said of it: all of its range


SWEEP = [(0.0, 0.0, 0.0), (0.1, 0.2, 0.4), (0.3, 1.0, 0.6), (0.5, 1.0, 1.0)]


@pytest.mark.parametrize(("h", "s", "v"), SWEEP)
def test_limits_are_strengths_of_single_parameters(h: float, s: float, v: float) -> None:
    """Hue within ± h, saturation within 4^±s and value within 2^±v, all of it reached."""
    aug = RandomAugmentation("hsv_jitter", strength={"hue": 2 * h, "saturation": s, "value": v})
    limits = [(-h, h), (4**-s, 4**s), (2**-v, 2**v)]
    assert aug.fixed_ranges()["hsv_jitter"] == [pytest.approx(pair) for pair in limits]
    for column, (low, high) in zip(drawn(aug).T, limits, strict=True):
        slack = 1e-6 + 0.01 * (high - low)
        assert low - 1e-6 <= column.min() <= low + slack
        assert high - slack <= column.max() <= high + 1e-6


@pytest.mark.parametrize(
    ("strength", "expected"),
    [
        ({"hue": 0.2}, [[0.2, 1.0, 1.0], [0.2, 1.0, 1.0], [1.0]]),
        ({"hue": 0.2, "hsv_jitter": 0.5}, [[0.2, 0.5, 0.5], [0.2, 1.0, 1.0], [1.0]]),
        ({"hue": 0.2, "hsv_jitter_2.hue": 0.4}, [[0.2, 1.0, 1.0], [0.4, 1.0, 1.0], [1.0]]),
        ({"angle": 0.1, "rotation": 0.9}, [[1.0] * 3, [1.0] * 3, [0.1]]),
    ],
    ids=str,
)
def test_the_more_specific_name_wins(
    strength: dict[str, float], expected: list[list[float]]
) -> None:
    aug = RandomAugmentation([T.HSVJitter(), T.HSVJitter(), T.Rotation()], strength=strength)
    assert list(aug.strength.values()) == expected


def test_a_seed_keeps_its_range_whatever_the_strength() -> None:
    aug = RandomAugmentation("noise", strength={"noise": 0.0})
    (seed,) = (p for p in interval_of(aug, "noise").parameters if not p.learned)
    assert aug.fixed_ranges()["noise"] == [(0.0, 0.0), (seed.low, seed.high)]


# --- boxes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(0.25, 1.0), (0.4, 0.4)])
def test_boxes_have_the_sizes_and_lie_inside_of_the_image(sizes: tuple[float, float]) -> None:
    x, y, width, height = drawn(RandomAugmentation(CROPS, sizes=sizes)).T
    assert torch.equal(width, height)
    side = width / 2
    assert sizes[0] - 1e-6 <= side.min()
    assert side.max() <= sizes[1] + 1e-6
    assert ((torch.stack([x, y]).abs() + side) <= 1 + 1e-6).all()


def test_sides_and_places_of_boxes_are_uniform() -> None:
    """Kolmogorov-Smirnov, three times; a right sampler fails with ERROR_PROBABILITY."""
    theta = drawn(RandomAugmentation(CROPS, sizes=(0.2, 0.8))).double()
    side = theta[:, 2] / 2
    places = ((theta[:, :2] / (1 - side[:, None])) + 1) / 2
    for column in ((side - 0.2) / 0.6, places[:, 0], places[:, 1]):
        assert uniform_p(column.clamp(0, 1)) > ERROR_PROBABILITY / 3


def test_the_largest_box_is_the_whole_image() -> None:
    aug, x = RandomAugmentation(CROPS, sizes=(1.0, 1.0)), images(4)
    torch.testing.assert_close(aug(x).inputs, x, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", [n for n in ALL_NAMES if n not in INTERVALS])
def test_boxes_and_choices_of_every_transform_are_drawn(name: str) -> None:
    aug, x = RandomAugmentation(name), images(3)
    batch = aug(x, 2)
    assert batch.inputs.isfinite().all()
    assert batch.inputs.shape == (6, 3, 16, 16)
    n_columns = sum(space.size for space in aug.transform.spaces.values())
    assert batch.theta.shape == (2, 3, n_columns)


# --- choices ------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [T.Flip(), T.Flip(vertical=True)])
def test_choices_are_equally_likely(transform: T.Transform) -> None:
    """Pearson's test; a right sampler fails with ERROR_PROBABILITY."""
    (space,) = transform.spaces.values()
    theta = drawn(RandomAugmentation(transform))
    rows = torch.tensor(space.rows)  # type: ignore[union-attr]
    counts = (theta[:, None] == rows).all(dim=-1).sum(dim=0)
    assert counts.sum() == len(theta)
    assert chi_square_p(counts, torch.full((len(rows),), 1 / len(rows))) > ERROR_PROBABILITY


# --- rendering, words, errors -------------------------------------------------------------------


def test_normalized_images_are_colored_as_they_would_be_without() -> None:
    x, mean, std = images(4), (0.2, 0.3, 0.4), (0.5, 0.6, 0.7)
    m, s = (torch.tensor(v).view(1, 3, 1, 1) for v in (mean, std))
    plain, normalized = (
        RandomAugmentation("hsv_jitter"),
        RandomAugmentation("hsv_jitter", mean=mean, std=std),
    )
    theta = drawn(plain, 2)
    torch.testing.assert_close(
        normalized.render((x - m) / s, theta) * s + m, plain.render(x, theta), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize(("padding_mode", "corner"), [("zeros", 0.0), ("border", 1.0)])
def test_what_lies_outside_is_up_to_the_user(padding_mode: str, corner: float) -> None:
    aug = RandomAugmentation(T.Translate(), padding_mode=padding_mode)  # type: ignore[arg-type]
    white = torch.ones(1, 3, 16, 16)
    far = torch.tensor([[p.high for p in interval_of(aug, "translate").parameters]])
    assert aug.render(white, far)[0, 0, 0, 0] == corner


def test_the_settings_can_be_read_from_the_printed_form() -> None:
    aug = RandomAugmentation(
        [CROPS, T.Flip(), T.Rotation(), T.HSVJitter(), T.Noise()],
        strength={"rotation": 0.5, "hue": 0.2, "noise": 0.3},
        sizes=(0.3, 0.9),
    )
    text = repr(aug)
    for words in (
        "boxes of side 0.3 to 0.9",
        "2 choices",
        "rotation: 50% of its range",
        "hsv_jitter: hue 20%, saturation 100%, value 100% of its range",
        "noise: 30% of its range",
    ):
        assert words in text


def test_the_number_of_columns_is_that_of_all_factors() -> None:
    aug = RandomAugmentation([CROPS, T.Flip(), T.HSVJitter()])
    sizes = [space.size for space in aug.transform.spaces.values()]
    assert drawn(aug, 5).shape == (10, sum(sizes))
    assert prod(sizes) > 0
    assert any(isinstance(space, Boxes) for space in aug.transform.spaces.values())


@pytest.mark.parametrize("strength", [-0.1, 1.5, {"rotation": 2.0}, float("nan")])
def test_a_strength_is_a_share(strength: float | dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=r"`strength` must lie in \[0, 1\]: got .* 'rotation'"):
        RandomAugmentation("rotation", strength=strength)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("rotate", "Did you mean 'rotation'"), ("hues", "Did you mean 'hue'"), ("noise.seed", "")],
)
def test_a_strength_for_what_is_not_there_is_answered_with_what_is(name: str, hint: str) -> None:
    """A seed is always drawn from all of its range, and so is not there."""
    known = "Known: hsv_jitter, hue, noise, rotation, saturation, strength, value"
    with pytest.raises(UnknownNameError, match=rf"no factor or parameter called '{name}'.*{hint}"):
        RandomAugmentation(["rotation", "hsv_jitter", "noise"], strength={name: 0.5})
    with pytest.raises(UnknownNameError, match=known.replace("hsv", "angle, hsv")):
        RandomAugmentation(["rotation", "hsv_jitter", "noise"], strength={name: 0.5})


@pytest.mark.parametrize("sizes", [(0.0, 1.0), (0.6, 0.5), (0.5, 1.1), (-0.5, 0.5)])
def test_sizes_are_two_sides_in_order(sizes: tuple[float, float]) -> None:
    with pytest.raises(ArgumentError, match="`sizes` must be two sides of boxes with 0 < small"):
        RandomAugmentation(CROPS, sizes=sizes)


def test_an_unknown_transform_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"no transform called 'rotate'\. Did you mean"):
        RandomAugmentation("rotate")
