"""Augerino's color variant: what its limits mean, and that it finds out which colors matter."""

from math import log

import pytest
import torch
from torch import nn

from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.hsv import hsv_jitter
from instaaug.methods import AugerinoColor
from tests.support.learned_ranges import seeded, trained
from tests.support.models import images


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
    assert saturation == pytest.approx((1 + a, 1 + b))
    assert value == pytest.approx((1 - a, 1 + b))
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
