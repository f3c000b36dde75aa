"""Augerino draws what its widths say, learns them by the right gradient, and finds invariances."""

from collections.abc import Callable
from math import cosh, log, sinh, tau
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.linalg import expm
from torch import Tensor, nn
from torch.nn import functional as F

import instaaug
from instaaug import transforms as T
from instaaug.augmentation.observed import observe
from instaaug.errors import ArgumentError, ShapeError, UnknownNameError
from instaaug.functional.affine import from_entries, to_physical_frame
from instaaug.functional.color import hsv_jitter
from instaaug.functional.warp import warp
from instaaug.methods.augerino import Augerino, AugerinoColor, AugerinoCrop, LearnedRanges
from tests.support.goodness_of_fit import ERROR_PROBABILITY, uniform_p
from tests.support.images import largest_difference, random_images, smooth_images
from tests.support.learned_ranges import seeded, softplus, trained
from tests.support.models import images, labels, small_classifier
from tests.support.unhooked import unhooked

MAKERS: dict[str, Callable[[], LearnedRanges]] = {
    "affine": Augerino,
    "crop": AugerinoCrop,
    "color": AugerinoColor,
    "brightness and contrast": lambda: AugerinoColor(["contrast", "brightness"]),
}
EVERY = pytest.mark.parametrize("name", MAKERS)
GENERATORS = ("right", "down", "turn", "grow", "stretch", "slant")


def with_widths(*raw: float, **settings: float | bool) -> Augerino:
    aug = Augerino(**settings)  # type: ignore[arg-type]
    with torch.no_grad():
        aug.raw_widths.copy_(torch.tensor(raw))
    return aug


@EVERY
@pytest.mark.parametrize("n_samples", [1, 3])
def test_shapes_are_those_of_the_interface(name: str, n_samples: int) -> None:
    aug = MAKERS[name]()
    batch = aug(images(5, height=12, width=10), n_samples, targets=labels(5))
    d, n_factors = aug.transform.n_parameters, len(aug.transform.transforms)
    assert batch.inputs.shape == (5 * n_samples, 3, 12, 10)
    assert batch.theta.shape == (n_samples, 5, d)
    assert batch.entropy.shape == (5, n_factors)
    assert batch.targets is not None
    assert batch.targets.tolist() == labels(5).tolist() * n_samples
    for j in range(n_samples):
        rendered = aug.render(images(5, height=12, width=10), batch.theta[j])
        torch.testing.assert_close(batch.inputs[5 * j : 5 * (j + 1)], rendered)


@EVERY
def test_log_probability_and_entropy_are_those_of_the_ranges(name: str) -> None:
    aug = MAKERS[name]()
    batch, ranges = aug(images(4), 2), aug.fixed_ranges()
    parameters = {name: space.parameters for name, space in aug.transform.spaces.items()}  # type: ignore[union-attr]
    entropies = [
        sum(
            log(p.coordinate(high) - p.coordinate(low))
            for p, (low, high) in zip(parameters[factor], ends, strict=True)
        )
        for factor, ends in ranges.items()
    ]
    assert batch.entropy[0].tolist() == pytest.approx(entropies, abs=1e-5)
    expected = torch.full((2, 4), -sum(entropies))
    torch.testing.assert_close(batch.log_prob, expected, atol=1e-5, rtol=0)


@EVERY
def test_a_seeded_generator_makes_everything_repeatable_and_spares_the_global_one(
    name: str,
) -> None:
    aug, x, before = MAKERS[name](), images(6), torch.get_rng_state()
    one, two = (aug(x, 2, generator=seeded(4)) for _ in range(2))
    assert torch.equal(one.inputs, two.inputs)
    assert torch.equal(one.theta, aug.draw(x, 2, generator=seeded(4)))
    assert not torch.equal(one.theta, aug.draw(x, 2, generator=seeded(5)))
    assert torch.equal(aug.draw(x, 5, select="top"), aug.draw(x, 5, select="top"))
    assert torch.equal(before, torch.get_rng_state())


@EVERY
def test_draws_are_uniform_between_the_ends_and_independent(name: str) -> None:
    """Kolmogorov-Smirnov per column, and correlations within five standard errors of zero.

    A right sampler fails with ERROR_PROBABILITY, or 15 pairs times 6e-7.
    """
    aug = MAKERS[name]()
    theta = aug.draw(images(2), 2000, generator=seeded()).detach().double().flatten(0, 1)
    low, high = torch.tensor([e for ends in aug.fixed_ranges().values() for e in ends]).T.double()
    theta, low, high = (torch.where(aug.factors, x.abs().log(), x) for x in (theta, low, high))
    place = (theta - low) / (high - low)
    assert place.min() >= -1e-6
    assert place.max() <= 1 + 1e-6
    for column in place.T:
        assert uniform_p(column.clamp(0, 1)) > ERROR_PROBABILITY / theta.shape[1]
    correlations = torch.corrcoef(theta.T) - torch.eye(theta.shape[1])
    assert correlations.abs().max() < 5 / len(theta) ** 0.5


@EVERY
def test_the_gradient_is_that_of_finite_differences(name: str) -> None:
    """Through θ, the images and the bonus, in double precision."""
    aug, x = MAKERS[name]().double(), smooth_images(6, height=24, width=24)
    mixing = torch.rand(x[0].numel(), dtype=torch.float64, generator=seeded(1)) - 0.5

    def objective() -> Tensor:
        batch = aug(x, 2, generator=seeded(3))
        return aug.objective((batch.inputs.flatten(1) @ mixing).square(), batch)

    objective().backward()
    step = 1e-7
    for parameter in aug.parameters():
        assert parameter.grad is not None
        assert parameter.ndim == 1  # the optimizer lets none of them decay
        for i, gradient in enumerate(parameter.grad.tolist()):
            values = []
            for sign in (1, -1):
                with torch.no_grad():
                    parameter[i] += sign * step
                    values.append(float(objective()))
                    parameter[i] -= sign * step
            difference = (values[0] - values[1]) / (2 * step)
            assert gradient == pytest.approx(difference, rel=1e-3, abs=1e-6)
            assert gradient != 0


@EVERY
def test_what_was_learned_survives_a_file(name: str, tmp_path: Path) -> None:
    aug, fresh, x = MAKERS[name](), MAKERS[name](), images(3)
    with torch.no_grad():
        for i, parameter in enumerate(aug.parameters()):
            parameter.copy_(torch.linspace(-1, 2, len(parameter)) + i)
    assert set(aug.state_dict()) == {key for key, _ in aug.named_parameters()}
    save_file(aug.state_dict(), tmp_path / "ranges.safetensors")
    fresh.load_state_dict(load_file(tmp_path / "ranges.safetensors"))
    assert torch.equal(aug.draw(x, 4, generator=seeded()), fresh.draw(x, 4, generator=seeded()))


@EVERY
def test_a_wrapped_model_averages_over_samples(name: str) -> None:
    aug, model, x = MAKERS[name](), small_classifier().eval(), images(5)
    assert aug.averages_views
    theta = aug.draw(x, 4, generator=seeded())
    naive = torch.stack([model(aug.render(x, row)) for row in theta]).mean(dim=0)
    torch.testing.assert_close(aug.wrap(model, 4)(x, seeded()), naive, atol=1e-5, rtol=1e-5)


@EVERY
def test_what_is_observed_are_the_learned_ends(name: str) -> None:
    aug = MAKERS[name]()
    seen = observe(aug, images(2), 4, generator=seeded())
    assert [factor.name for factor in seen.factors] == list(aug.fixed_ranges())
    for factor in seen.factors:
        assert factor.low is not None
        assert factor.high is not None
        ends = torch.stack([factor.low[1], factor.high[1]], dim=-1)
        assert torch.equal(ends, torch.tensor(aug.fixed_ranges()[factor.name]))
        assert (factor.low <= factor.theta).all()
        assert (factor.theta <= factor.high).all()


def test_widths_become_curves_under_the_names_of_their_parameters() -> None:
    aug = AugerinoColor(["contrast", "brightness"])
    numbers = aug.monitor(aug(images(2)))
    assert list(numbers) == ["width/contrast.factor", "width/brightness.factor"]
    affine = Augerino(start=1.0, opened="turn")
    widths = affine.monitor(affine(images(2)))
    assert list(widths) == [f"width/affine.{generator}" for generator in GENERATORS]
    assert float(widths["width/affine.turn"]) == pytest.approx(softplus(1.0))
    assert float(widths["width/affine.right"]) == pytest.approx(0.05 * softplus(-5.0))
    assert not any(width.requires_grad for width in widths.values())


def test_the_ranges_can_be_read_from_the_printed_form_and_be_plotted() -> None:
    aug = with_widths(0.0, 0.0, 1.0, -5.0, -5.0, -5.0)
    for words in ("affine.turn: -0.657 to 0.657", "right: -0.0173", "weight of the bonus: 0.01"):
        assert words in repr(aug)
    texts = [t.get_text() for axes in instaaug.plot(aug, images(1)).axes for t in axes.texts]
    assert "−38° to +38°" in texts  # 0.657 radians


def test_images_are_warped_as_by_the_formulas_of_the_source() -> None:
    """Its generators, one image at a time; but for the frame, where pixels are areas."""
    aug, x = with_widths(3.0, 4.0, 1.0, 0.0, -0.5, 0.5), random_images(6)
    batch = aug(x, generator=seeded())
    basis = torch.zeros(6, 3, 3, dtype=torch.float64)
    basis[0, 0, 2] = basis[1, 1, 2] = 0.1
    basis[2, 0, 1], basis[2, 1, 0] = -1, 1
    basis[3, 0, 0] = basis[3, 1, 1] = 1
    basis[4, 0, 0], basis[4, 1, 1] = 1, -1
    basis[5, 0, 1] = basis[5, 1, 0] = 1
    to_weights = torch.tensor([-20, -20, 1, -1, -1, -1])  # a grid that moves left shows the right
    for i, row in enumerate(batch.theta[0].detach()):
        weights = (row * to_weights).double()
        assert (weights.abs() <= aug.widths() / 2 + 1e-6).all()
        matrix = torch.from_numpy(expm((weights[:, None, None] * basis).sum(dim=0).numpy()))
        grid = F.affine_grid(matrix[None, :2].float(), [1, 3, 16, 16], align_corners=False)
        expected = F.grid_sample(x[i : i + 1], grid, align_corners=False)
        assert largest_difference(batch.inputs[i : i + 1].detach(), expected) <= 1e-4


def warped(x: Tensor, a: float, b: float, c: float, d: float) -> Tensor:
    """Read at (a x + b y, c x + d y), in pixels."""
    matrix = from_entries(torch.full((len(x),), a), b, 0.0, c, d, 0.0, 0.0, 0.0, 1.0)
    return warp(x, to_physical_frame(matrix, x.shape[-1] / x.shape[-2]))


@pytest.mark.parametrize(
    ("generator", "value", "expected"),
    [
        ("right", 0.2, lambda x: T.Translate().apply(x, torch.tensor([[0.2, 0.0]] * 2))),
        ("down", 0.2, lambda x: T.Translate().apply(x, torch.tensor([[0.0, 0.2]] * 2))),
        ("turn", 0.6, lambda x: T.Rotation().apply(x, torch.full((2, 1), 0.6))),
        ("grow", log(1.3), lambda x: T.Scale().apply(x, torch.full((2, 1), 1.3))),
        ("stretch", log(1.3), lambda x: warped(x, 1 / 1.3, 0.0, 0.0, 1.3)),
        ("slant", 0.3, lambda x: warped(x, cosh(0.3), -sinh(0.3), -sinh(0.3), cosh(0.3))),
    ],
)
def test_single_generators_do_what_they_are_called(
    generator: str, value: float, expected: Callable[[Tensor], Tensor]
) -> None:
    x, theta = random_images(2, height=16, width=28), torch.zeros(2, 6)
    theta[:, GENERATORS.index(generator)] = value
    assert largest_difference(Augerino().render(x, theta), expected(x)) <= 1e-4


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_any_channels_precision_and_size_will_do(channels: int) -> None:
    x = images(2, channels, height=20, width=12).double()
    assert Augerino()(x).inputs.dtype == torch.float64
    with unhooked():  # the shape checker wants one size
        assert Augerino(size=(8, 9))(x).inputs.shape == (2, channels, 8, 9)


@pytest.mark.parametrize(("padding_mode", "corner"), [("zeros", 0.0), ("border", 1.0)])
def test_what_lies_outside_is_up_to_the_user(padding_mode: str, corner: float) -> None:
    aug = Augerino(padding_mode=padding_mode)  # type: ignore[arg-type]
    far = torch.tensor([[0.25, 0.25, 0.0, 0.0, 0.0, 0.0]])
    assert aug.render(torch.ones(1, 3, 16, 16), far)[0, 0, 0, 0] == corner


@pytest.mark.parametrize(
    ("settings", "raw"),
    [
        ({}, [0.0] * 6),
        ({"start": 1.0, "opened": "turn"}, [-5.0, -5.0, 1.0, -5.0, -5.0, -5.0]),
        ({"start": 2.0, "opened": "down+slant"}, [-5.0, 2.0, -5.0, -5.0, -5.0, 2.0]),
    ],
    ids=str,
)
def test_widths_start_where_they_are_told(settings: dict[str, float], raw: list[float]) -> None:
    aug = Augerino(**settings)  # type: ignore[arg-type]
    assert aug.raw_widths.tolist() == raw
    assert aug.widths().tolist() == pytest.approx([softplus(r) for r in raw])


def objective_and_gradient(aug: LearnedRanges) -> tuple[float, list[float]]:
    """Of losses 0 to 11, whose mean is 5.5."""
    objective = aug.objective(torch.arange(12.0), aug(images(4), 3))
    (gradient,) = torch.autograd.grad(objective, [next(aug.parameters())])
    return objective.item(), gradient.tolist()


@pytest.mark.parametrize("safe", [True, False])
def test_the_bonus_is_the_norm_of_the_widths(safe: bool) -> None:
    raw = (3.0, -1.0, 9.9, 0.0, 1.0, -5.0)
    value, gradient = objective_and_gradient(with_widths(*raw, weight=0.2, safe=safe))
    widths = [softplus(r) for r in raw]
    norm = sum(b * b for b in widths) ** 0.5
    assert value == pytest.approx(5.5 - 0.2 * norm, rel=1e-5)
    slopes = [float(torch.tensor(r).sigmoid()) for r in raw]
    expected = [-0.2 * b / norm * s for b, s in zip(widths, slopes, strict=True)]
    assert gradient == pytest.approx(expected, rel=1e-4)


def test_the_safe_form_pays_nothing_once_any_width_reaches_ten() -> None:
    raw = (3.0, -1.0, 1.0, 10.0, 1.0, -5.0)
    value, gradient = objective_and_gradient(with_widths(*raw, weight=0.2))
    assert value == 5.5
    assert gradient == [0.0] * 6
    value, gradient = objective_and_gradient(with_widths(*raw, weight=0.2, safe=False))
    assert value < 5.5 - 0.2 * 10
    assert max(gradient) < 0


def clock_hands(n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Red or green hands of a clock, the eighth of the circle they point to, and their color."""
    angle = tau * torch.rand(n, 1, 1, generator=seeded())
    is_green = torch.arange(n) % 2
    y, x = torch.meshgrid(*[torch.linspace(-1, 1, 16)] * 2, indexing="ij")
    along, across = x * angle.cos() + y * angle.sin(), x * angle.sin() - y * angle.cos()
    inside = torch.minimum(0.2 - across.abs(), 0.4 - (along - 0.4).abs())
    hand = torch.sigmoid(20 * inside)
    colors = torch.tensor([[1.0, 0.4, 0.2], [0.4, 1.0, 0.2]])[is_green]
    return hand[:, None] * colors[:, :, None, None], (8 * angle.flatten() / tau).long(), is_green


def hand_reader() -> list[nn.Module]:
    first, second = (nn.Conv2d(i, o, 3, stride=2, padding=1) for i, o in ((3, 8), (8, 16)))
    return [first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(256, 8)]


def test_the_turn_closes_where_the_direction_is_the_class() -> None:
    x, direction, _ = clock_hands(1024)
    aug = Augerino(weight=0.05, start=3.0, opened="turn")
    assert aug.widths()[2] > 3  # a circle is 6.3 wide, a class 0.8
    trained(aug, x, direction, *hand_reader())
    assert aug.widths()[2] < 0.2


def test_the_turn_opens_to_the_circle_where_the_color_is_the_class() -> None:
    x, _, is_green = clock_hands(1024)
    aug = Augerino(weight=0.05, start=-1.0, opened="turn")
    assert aug.widths()[2] < 0.32
    trained(aug, x, is_green, *hand_reader())
    assert aug.widths()[2] > 0.95 * tau


@pytest.mark.parametrize("make", [Augerino, AugerinoColor, AugerinoCrop])
@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf")])
def test_a_weight_is_a_number_of_at_least_zero(make: type[LearnedRanges], weight: float) -> None:
    with pytest.raises(ArgumentError, match="`weight` must be a number of at least 0: got "):
        make(weight=weight)  # type: ignore[call-arg]


@pytest.mark.parametrize("make", [Augerino, AugerinoCrop])
def test_a_start_is_a_finite_number(make: type[Augerino]) -> None:
    with pytest.raises(ArgumentError, match="`start` must be a finite raw width: got nan"):
        make(start=float("nan"))


def test_crops_are_symmetric_in_place_and_never_larger_than_the_image() -> None:
    aug = AugerinoCrop(start=1.0)
    right, down, size = aug.fixed_ranges()["uniform_crop"]
    half = softplus(1.0) / 2
    assert right == down == pytest.approx((-half, half))
    assert size == pytest.approx((0.2, 1.0))  # of the width of 1.3, 0.8 is left


def test_the_bonus_of_crops_is_the_norm_of_their_widths_until_one_is_all_there_is() -> None:
    aug = AugerinoCrop(weight=2.0)
    losses, batch = torch.zeros(4), aug(images(4))
    expected = -2.0 * (3 * softplus(0.0) ** 2) ** 0.5
    assert float(aug.objective(losses, batch).detach()) == pytest.approx(expected)
    wide = AugerinoCrop(start=1.0)
    assert float(wide.objective(losses, wide(images(4))).detach()) == 0.0


def test_crops_that_hurt_are_given_up_again() -> None:
    """Even those that had reached all that there is."""
    aug = AugerinoCrop(start=1.0)
    optimizer = torch.optim.Adam(aug.parameters(), 0.1)
    for step in range(40):
        batch = aug(images(8), generator=seeded(step))
        aug.objective(1 - batch.theta[..., 2].flatten(), batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert aug.fixed_ranges()["uniform_crop"][2][0] > 0.8


def test_crops_have_no_other_transform() -> None:
    with pytest.raises(ArgumentError, match="`transforms` must be uniform_crop: got rotation"):
        AugerinoCrop("rotation")


def test_generators_are_known_by_name() -> None:
    with pytest.raises(UnknownNameError, match=r"no generator called 'turns'\. Did you mean 'tu"):
        Augerino(opened="right+turns")


def color_ranges(low: list[float], high: list[float]) -> AugerinoColor:
    aug = AugerinoColor()
    with torch.no_grad():
        aug.raw_low.copy_(torch.tensor(low))
        aug.raw_high.copy_(torch.tensor(high))
    return aug


def test_limits_of_colors_are_shares_of_the_way_and_need_not_be_symmetric() -> None:
    a, b = 0.5, 0.8  # 2 σ(log 3) - 1 and 2 σ(log 9) - 1
    aug = color_ranges([-log(3), log(3), log(9)], [log(9), log(9), -log(3)])  # the last: crossed
    hue, saturation, value = aug.fixed_ranges()["hsv_jitter"]
    assert hue == pytest.approx((-a / 2, b / 2))
    assert saturation == pytest.approx((4**a, 4**b))
    assert value == pytest.approx((2**-a, 2**b))
    losses, batch = torch.arange(4.0), aug(images(4))
    expected = 1.5 - 0.1 * ((a + b) + (b - a) + (a + b))
    assert aug.objective(losses, batch).item() == pytest.approx(expected)


def test_normalized_images_are_colored_as_they_would_be_without() -> None:
    x, mean, std = images(4), (0.2, 0.3, 0.4), (0.5, 0.6, 0.7)
    m, s = (torch.tensor(v).view(1, 3, 1, 1) for v in (mean, std))
    batch = AugerinoColor()(x, generator=seeded())
    again = AugerinoColor(mean=mean, std=std)((x - m) / s, generator=seeded())
    torch.testing.assert_close(again.inputs * s + m, batch.inputs, atol=1e-5, rtol=0)
    hue, saturation, value = batch.theta[0].T
    torch.testing.assert_close(batch.inputs, hsv_jitter(x, hue, saturation, value))


def test_gray_images_have_brightness_but_no_hue() -> None:
    gray = images(2, channels=1)
    assert AugerinoColor(["contrast", "brightness"])(gray).inputs.shape == gray.shape
    with pytest.raises(ShapeError, match="`x` must be RGB for hsv_jitter: got 1 channels"):
        AugerinoColor()(gray)


@pytest.mark.parametrize("decisive", ["hue", pytest.param("value", marks=pytest.mark.slow)])
def test_the_range_of_what_decides_the_class_closes_and_the_other_opens(decisive: str) -> None:
    hue, value = torch.rand(2, 1024, generator=seeded())
    red = torch.tensor([1.0, 0.2, 0.2]).view(1, 3, 1, 1).expand(1024, 3, 2, 2)
    x = hsv_jitter(red, hue, torch.ones(1024), 0.25 + 0.5 * value)
    targets = (6 * (hue if decisive == "hue" else value)).long()
    layers = [nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 6)]
    aug = AugerinoColor(start=0.5)  # 24% of the way to either side
    trained(aug, x, targets, nn.Flatten(), *layers)
    low, high = aug.shares().detach()[[0, 2]].T
    closed, opened = (high - low).abs().tolist()[:: 1 if decisive == "hue" else -1]
    assert closed < 0.15
    assert opened > 1.5  # of 2


@pytest.mark.parametrize("start", [-2.0, 0.0, float("nan")])
def test_a_start_is_a_number_above_zero(start: float) -> None:
    with pytest.raises(ArgumentError, match="`start` must be a number above 0: got "):
        AugerinoColor(start=start)


def test_only_colors_are_for_the_color_variant() -> None:
    with pytest.raises(ArgumentError, match=r"`transforms` must change colors.* got 'rotation'"):
        AugerinoColor(["brightness", "rotation"])
