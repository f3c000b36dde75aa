"""At step 0 the entropy of every factor lies in the middle of its band."""

from typing import Any

import pytest
import torch

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.functional.boxes import coverage
from instaaug.parameterizations import Conditioning
from instaaug.transforms import TRANSFORMS
from tests.support.models import OwnNetwork, images, labels

CONDITIONINGS = pytest.mark.parametrize("conditioning", ["input", "none", "class"])


def distance_from_mid_band(aug: InstaAug, *, size: tuple[int, int] = (32, 32)) -> float:
    """The largest over factors, in nats, of the mean entropy over inputs."""
    x = images(8, aug.settings.in_channels, *size)
    entropy = aug(x, targets=labels(8)).entropy.mean(dim=0)
    middle = torch.tensor([(low + high) / 2 for low, high in aug.limits.values()])
    return float((entropy - middle).abs().max().detach())


@CONDITIONINGS
@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_every_transform_starts_mid_band(name: str, conditioning: Conditioning) -> None:
    torch.manual_seed(0)
    aug = InstaAug(name, conditioning=conditioning, num_classes=3)
    assert distance_from_mid_band(aug) < 0.15


@pytest.mark.parametrize("seed", range(5))
def test_the_start_does_not_depend_on_the_seed(seed: int) -> None:
    torch.manual_seed(seed)
    aug = InstaAug(["crop", "rotation", "hsv_jitter", "flip"])
    assert distance_from_mid_band(aug) < 0.15


@pytest.mark.parametrize(
    "settings",
    [
        {"entropy": (0.2, 0.4)},
        {"entropy": (3.0, 3.5)},
        {"entropy": (5.2, 5.7)},
        {"diversity": (0.5, 1.0)},
        {"network": "preact_resnet18", "width": 0.125},
        {"network": OwnNetwork()},
        {"baseline": "critic"},
        {"width": 2.0},
    ],
    ids="_".join,
)
def test_crops_start_mid_band_whatever_the_settings(settings: dict[str, Any]) -> None:
    torch.manual_seed(0)
    assert distance_from_mid_band(InstaAug("crop", **settings)) < 0.15


@pytest.mark.parametrize("size", [(64, 64), (17, 40), (224, 32)])
def test_the_start_does_not_depend_on_the_image_size(size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    assert distance_from_mid_band(InstaAug(["crop", "rotation"]), size=size) < 0.15


@pytest.mark.parametrize("levels", [((1.0, 1),), ((1.0, 1), (0.8, 2)), ((0.5, 3),), ((0.9, 4),)])
@CONDITIONINGS
def test_few_boxes_start_mid_band_and_can_leave_it(
    levels: tuple[tuple[float, int], ...], conditioning: Conditioning
) -> None:
    torch.manual_seed(0)
    aug = InstaAug(T.Crop(levels=levels), conditioning=conditioning, num_classes=3)
    assert distance_from_mid_band(aug) < 0.15
    log_probs = aug(images(3), targets=labels(3)).score_factors[0].log_probs
    assert log_probs.min() > -10  # nothing is out of reach of a gradient


def test_a_hue_circle_of_width_one_does_not_start_at_its_full_range() -> None:
    aug = InstaAug(T.HSVJitter(hue=0.5, saturation=0.0, value=0.0))
    (band,) = aug.limits.values()
    assert band[0] < band[1] < 0
    assert distance_from_mid_band(aug) < 0.15


def test_the_paper_band_is_the_default_of_crops() -> None:
    """The best band of the paper's 321 boxes is [3.0, 3.5] nats."""
    (band,) = InstaAug("crop").limits.values()
    assert band == pytest.approx((3.0, 3.5), abs=0.05)


@pytest.mark.parametrize("name", [n for n in sorted(TRANSFORMS) if TRANSFORMS[n].is_local])
@CONDITIONINGS
def test_a_local_transform_starts_small_and_all_over_the_image(
    name: str, conditioning: Conditioning
) -> None:
    torch.manual_seed(0)
    aug = InstaAug(name, conditioning=conditioning, num_classes=3)
    theta = aug(images(64, 3, 32, 32), targets=labels(64)).theta[0].detach()
    inside = coverage(theta[:, :4], height=32, width=32).mean(dim=(1, 2, 3))
    assert float(inside.mean()) < 0.08  # a box of a quarter of the side is 0.0625 of the image
    assert float(theta[:, :2].abs().mean()) == pytest.approx(0.5, abs=0.1)
