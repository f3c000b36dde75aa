"""Every warning is given where it belongs, and nowhere else."""

from math import log

import pytest
import torch

from instaaug.augmentation.observed import ObservedFactor
from instaaug.report.page.diagnosis import diagnose
from instaaug.spaces import Boxes, Interval, Parameter

K = 100
SPACE = Boxes(levels=((0.5, 10),))
ANGLE = Interval((Parameter("angle", -1.0, 1.0),))


def crops(probs: torch.Tensor, band: tuple[float, float] | None = (2.0, 3.0)) -> ObservedFactor:
    entropy = torch.distributions.Categorical(probs).entropy()
    return ObservedFactor(
        "crop", SPACE, torch.zeros(1, len(probs), 4), entropy=entropy, max_entropy=log(K),
        band=band, table=torch.zeros(K, 4), probs=probs,
    )  # fmt: skip


def windows(width: int, step: int = 7, n: int = 8) -> torch.Tensor:
    """Each input has ``width`` equally likely boxes, ``step`` further than those of the last."""
    probs = torch.zeros(n, K)
    for i in range(n):
        probs[i, (torch.arange(width) + step * i) % K] = 1 / width
    return probs


def turns(low: float, high: float, *, spread: float = 0.0, n: int = 8) -> ObservedFactor:
    shift = spread * torch.linspace(-1, 1, n)[:, None]
    lows, highs = low + shift, high + shift
    return ObservedFactor(
        "rotation", ANGLE, torch.zeros(1, n, 1), entropy=(highs - lows).log()[:, 0],
        max_entropy=log(2.0), band=(log(0.5), log(1.5)), low=lows, high=highs,
    )  # fmt: skip


def titles(*factors: ObservedFactor, **more: object) -> list[str]:
    return [found["title"] for found in diagnose(factors, **more)]  # type: ignore[arg-type]


def test_healthy_learning_has_no_warning() -> None:
    history = [{"epoch": 0.0, "train/loss": 1.0, "train/entropy/crop": 2.5}]
    scores = {"plain": {"top1": 0.7, "n": 500.0}, "augmented": {"top1": 0.75, "n": 500.0}}
    healthy = [crops(windows(12)), turns(-0.5, 0.4, spread=0.1)]
    assert diagnose(healthy, history=history, scores=scores) == []


def test_collapse_outside_of_the_band_is_serious_and_inside_a_hint() -> None:
    point = windows(1)
    (serious,) = diagnose([crops(point)])
    (hint,) = diagnose([crops(point, band=(0.0, 3.0))])
    assert serious["title"] == hint["title"] == "crop: collapsed"
    assert (serious["level"], hint["level"]) == ("serious", "hint")
    assert "1.0 of 100 choices" in serious["words"]
    assert "[2.00, 3.00] nats" in serious["words"]


def test_saturation_is_told() -> None:
    assert "crop: saturated" in titles(crops(torch.full((8, K), 1 / K)))
    assert "rotation: saturated" in titles(turns(-1.0, 1.0))
    assert "rotation: saturated" not in titles(turns(-0.9, 0.9, spread=0.1))


def test_a_side_at_the_edge_is_told_unless_all_are() -> None:
    title = "rotation: at the edge of its range"
    (found,) = diagnose([turns(-0.5, 0.97, spread=0.1)])
    assert found["title"] == title
    assert "covers 97% of the room above 0" in found["words"]
    assert "--entropy.per side" in found["advice"]
    assert title in titles(turns(-0.01, 0.6, spread=0.1))  # one-sided
    assert title not in titles(turns(-1.0, 1.0))


def test_a_range_without_width_has_collapsed() -> None:
    (first, *_) = diagnose([turns(-0.001, 0.001, spread=0.1)])
    assert first["title"] == "rotation: collapsed"
    assert "0.1% of each range" in first["words"]


@pytest.mark.parametrize(
    ("entropies", "told"),
    [([4.0, 3.9], "above"), ([1.0, 1.5], "below"), ([4.0, 2.5, 4.0], None), ([], None)],
)
def test_a_band_that_was_never_reached(entropies: list[float], told: str | None) -> None:
    history = [{"epoch": float(i), "train/entropy/crop": h} for i, h in enumerate(entropies)]
    found = diagnose([crops(windows(12))], history=history)
    assert [f["title"] for f in found] == ["crop: the band was never reached"] * (told is not None)
    if told:
        assert f"it ended {told} it" in found[0]["words"]
        assert ("smaller" if told == "above" else "larger") in found[0]["advice"]


def test_phi_that_ignores_its_input() -> None:
    same = windows(12, step=0)
    assert titles(crops(same)) == ["crop: φ ignores its input"]
    (found,) = diagnose([turns(-0.5, 0.4, spread=0.001)])
    assert found["title"] == "rotation: φ ignores its input"
    assert "the ends of angle differ by 0°, its width is 52°" in found["words"]
    assert titles(crops(same), turns(-0.5, 0.4), reads_input=False) == []
    assert titles(crops(same[:1])) == []  # one input says nothing


def test_a_factor_without_a_band_may_have_any_entropy() -> None:
    assert titles(crops(windows(1), band=None)) == []
    assert titles(crops(windows(1, step=0), band=None)) == ["crop: φ ignores its input"]


def test_a_loss_that_is_not_a_number_names_its_epoch() -> None:
    history = [{"epoch": 0.0, "train/loss": 1.0}, {"epoch": 1.0, "train/loss": float("nan")}]
    (found,) = diagnose([], history=history)
    assert "epoch 2" in found["words"]


def test_views_that_harm_and_few_images() -> None:
    few = {"plain": {"top1": 0.9, "n": 20.0}, "augmented": {"top1": 0.5, "n": 20.0}}
    assert titles(scores=few) == ["Few test images", "Views make predictions worse"]
    views, whole = {"epoch": 0.0, "train/entropy/crop": 2.5}, {"epoch": 1.0}
    assert titles(scores=few, history=[whole, views]) == titles(scores=few)
    assert titles(scores=few, history=[views, {**whole, "train/entropy/crop": None}]) == [
        "Few test images"
    ]
    assert titles(crops(windows(1, step=0)), history=[views, whole]) == ["crop: collapsed"]
    noise = {"plain": {"top1": 0.9, "n": 100.0}, "augmented": {"top1": 0.88, "n": 100.0}}
    assert titles(scores=noise) == []


def test_views_are_not_blamed_for_a_single_image() -> None:
    one = {"plain": {"top1": 1.0, "n": 1000.0}, "augmented": {"top1": 0.999, "n": 1000.0}}
    assert titles(scores=one) == []


def test_what_is_not_learned_says_nothing_of_the_input() -> None:
    """The seed of noise is drawn from all of its range for every input."""
    strength = torch.linspace(0.08, 0.15, 8)[:, None]
    space = Interval((Parameter("strength", 0.0, 0.2), Parameter("seed", 0.0, 1.0, learned=False)))
    noise = ObservedFactor(
        "noise", space, torch.zeros(1, 8, 2), entropy=strength.log()[:, 0], max_entropy=log(0.2),
        band=(-3.0, -1.0), low=torch.zeros(8, 2),
        high=torch.cat([strength, torch.ones(8, 1)], dim=1),
    )  # fmt: skip
    assert titles(noise) == []


def test_a_range_of_width_one_is_looked_at_as_well() -> None:
    hue = Interval((Parameter("hue", -0.5, 0.5, period=1.0),))
    ends = torch.full((8, 1), 0.2)
    factor = ObservedFactor(
        "hsv_jitter", hue, torch.zeros(1, 8, 1), entropy=torch.full((8,), log(0.4)),
        max_entropy=0.0, band=(-2.0, -0.5), low=-ends, high=ends,
    )  # fmt: skip
    (found,) = diagnose([factor])
    assert found["title"] == "hsv jitter: φ ignores its input"
    assert "its width is 144°" in found["words"]
    assert "--phi.learning_rate" in found["advice"]
    assert "--phi.steps" in diagnose([factor], is_fit=True)[0]["advice"]


def test_the_serious_come_first() -> None:
    found = diagnose([crops(windows(12, step=0)), turns(-0.001, 0.001, spread=0.1)])
    assert [f["level"] for f in found] == ["serious", "hint"]
