"""Which parts of the entropy have a band of their own."""

from math import exp, log
from typing import Any, get_args

import pytest
import torch

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation.entropy_parts import Per
from instaaug.errors import ArgumentError, UnknownNameError

PARAMETERS = [f"hsv_jitter.{name}" for name in ("hue", "saturation", "value")]
SIDES = [f"{name}.{side}" for name in PARAMETERS for side in ("below", "above")]
CROP = T.Crop(levels=((1.0, 1), (0.5, 2)))


@pytest.mark.parametrize(
    ("per", "names"),
    [
        ("side", [*SIDES, "crop", "blur.strength.above"]),
        ("parameter", [*PARAMETERS, "crop", "blur.strength"]),
        ("factor", ["hsv_jitter", "crop", "blur"]),
        ("total", ["total"]),
    ],
)  # fmt: skip
def test_every_part_has_a_name_and_a_weight(per: Per, names: list[str]) -> None:
    aug = InstaAug([T.HSVJitter(), CROP, T.Blur()], per=per)
    assert list(aug.parts.names) == names
    assert len(aug.band.weight) == len(names)
    batch = aug(torch.rand(2, 3, 16, 16))
    aug.objective(torch.rand(2), batch).backward()
    told = {name for name in aug.monitor(batch) if name.startswith("weight/")}
    assert told == {f"weight/{name}" for name in names}


@pytest.mark.parametrize("per", get_args(Per))
def test_parts_in_their_bands_put_the_factor_into_its_own(per: Per) -> None:
    aug = InstaAug(T.HSVJitter(), per=per, diversity=(0.1, 0.3))
    family = aug.phi.families[0]
    for end, (raw_share, limit) in enumerate(
        zip((0.1, 0.3), aug.limits["hsv_jitter"], strict=True)
    ):
        share = raw_share ** (1 / 3)
        raw = torch.full((1, 6), log(share / (1 - share)))
        box = family(raw)
        assert float(box.entropy()) == pytest.approx(limit, abs=1e-5)
        joint = type(aug.distribution(torch.rand(1, 3, 8, 8)))({"hsv_jitter": box})
        found = aug.parts.entropies(joint)[0].tolist()
        assert found == pytest.approx([b[end] for b in aug.parts.part_limits.values()], abs=1e-5)


def test_a_side_that_vanishes_is_pushed_back_although_the_sum_is_in_its_band() -> None:
    """The value only brightens, the hue covers its circle: one band on the sum sees no wrong."""
    weights = {}
    for per in ("factor", "side"):
        band = (0.25**3, 0.75**3)  # a quarter to three quarters of each of three parameters
        aug = InstaAug("hsv_jitter", per=per, conditioning="none", diversity=band)
        # below: hue, saturation, value; above: the same
        raw = torch.tensor([6.0, 0.0, -5.0, 6.0, 0.0, 2.0])
        with torch.no_grad():
            next(aug.phi.heads.parameters()).copy_(raw)
        batch = aug(torch.rand(4, 3, 8, 8))
        low, high = aug.limits["hsv_jitter"]
        assert low < float(batch.entropy.detach().mean()) < high
        aug.objective(torch.zeros(4), batch)
        weights[per] = dict(zip(aug.parts.names, aug.band.weight.tolist(), strict=True))
    assert weights["factor"]["hsv_jitter"] == pytest.approx(0.1)
    assert weights["side"]["hsv_jitter.value.below"] > 1
    assert weights["side"]["hsv_jitter.value.above"] < 0.1
    assert weights["side"]["hsv_jitter.hue.below"] < 0
    assert weights["side"]["hsv_jitter.saturation.above"] == pytest.approx(0.1)


def test_parts_can_be_named() -> None:
    bands = {"hsv_jitter.value": (0.5, 0.6), "hsv_jitter.hue.below": (0.1, 0.2)}
    aug = InstaAug("hsv_jitter", diversity=bands)
    shares = {
        name: tuple(exp(end - node.largest) for end in aug.parts.part_limits[name])
        for name, node in ((part[0].name, part[0]) for part in aug.parts.parts)
    }
    assert shares["hsv_jitter.value.below"] == pytest.approx((0.5, 0.6))
    assert shares["hsv_jitter.value.above"] == pytest.approx((0.5, 0.6))
    assert shares["hsv_jitter.hue.below"] == pytest.approx((0.1, 0.2))
    assert shares["hsv_jitter.hue.above"] == pytest.approx((0.25, 0.5))
    low = log(0.05 + 0.125) + log(0.25 * 2 * log(4)) + log(0.5 * 2 * log(2))
    assert aug.limits["hsv_jitter"][0] == pytest.approx(low)


def test_one_band_on_the_total_is_shared_out_to_start_from() -> None:
    aug = InstaAug([T.HSVJitter(), CROP], entropy=(0.0, 0.5), per="total")
    assert aug.parts.part_limits == {"total": (0.0, 0.5)}
    for end, total in enumerate((0.0, 0.5)):
        assert sum(band[end] for band in aug.limits.values()) == pytest.approx(total)
    start = aug.distribution(torch.rand(4, 3, 8, 8)).entropy().mean()
    assert float(start.detach()) == pytest.approx(0.25, abs=0.3)
    apart = InstaAug([T.HSVJitter(), CROP], per="total")
    highest = sum(band[1] for band in apart.limits.values())
    assert apart.parts.part_limits["total"][1] == pytest.approx(highest)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"diversity": {"hsv_jitter.valuex": (0.1, 0.2)}}, UnknownNameError, "hsv_jitter.value"),
        ({"per": "factor", "diversity": {PARAMETERS[0]: (0.1, 0.2)}}, UnknownNameError, "hsv"),
        ({"per": "total", "entropy": (3.0, 9.0)}, ArgumentError, "cannot be reached.*'total'"),
    ],
)  # fmt: skip
def test_bands_that_make_no_sense_are_refused(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        InstaAug("hsv_jitter", **options)


def test_the_choice_is_saved_with_the_weights(tmp_path: Any) -> None:
    InstaAug("hsv_jitter", per="parameter").save(tmp_path / "aug.safetensors")
    assert InstaAug.load(tmp_path / "aug.safetensors").settings.per == "parameter"
