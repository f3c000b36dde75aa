"""Fast AutoAugment applies the policy it was given by the authors' law, and keeps it."""

import json
from collections import Counter
from math import radians
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.methods.fast_auto_augment import FastAutoAugment, Step, read_policy
from instaaug.methods.operation_levels import LEVELS
from instaaug.methods.operations import OPERATIONS, number_of
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p
from tests.support.models import images
from tests.support.unhooked import unhooked

N_DRAWS = 6000
NOTHING = ("equalize", 0.0, 0.0)
POLICY = (
    (Step("rotate", 0.5, 0.9), Step("invert", 0.25, 0.3)),
    (Step("color", 1.0, 0.2), Step("shear_x", 0.7, 0.0)),
    (Step("posterize", 0.0, 0.5), Step("solarize", 0.9, 0.75)),
)
PUBLISHED = {
    "shear_x": (-0.3, 0.3),
    "shear_y": (-0.3, 0.3),
    "translate_x": (-0.45, 0.45),
    "translate_y": (-0.45, 0.45),
    "rotate": (-30, 30),
    "auto_contrast": (0, 1),
    "invert": (0, 1),
    "equalize": (0, 1),
    "solarize": (0, 256),
    "posterize": (4, 8),
    "contrast": (0.1, 1.9),
    "color": (0.1, 1.9),
    "brightness": (0.1, 1.9),
    "sharpness": (0.1, 1.9),
    "cutout": (0, 0.2),
}
"""The authors' list: degrees, factors, sides."""


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(aug: FastAutoAugment, *, n: int = N_DRAWS, seed: int = 0) -> Tensor:
    """θ of n draws, (n, steps, 2)."""
    x = torch.zeros(n // 4, 1, 8, 8)
    return aug.draw(x, 4, generator=seeded(seed)).flatten(0, 1).unflatten(-1, (-1, 2))


def with_policy(policy: object, **settings: int) -> FastAutoAugment:
    aug = FastAutoAugment(**settings)  # type: ignore[arg-type]
    aug.set_policy(policy)
    return aug


# --- values -------------------------------------------------------------------------------------


def published_value(name: str, level: float) -> float:
    """What the authors' function of this name gets, in the units of our operations."""
    low, high = PUBLISHED[name]
    value = level * (high - low) + low
    if name == "rotate":
        return radians(value)
    if name == "posterize":
        return float(int(value))
    if name in ("contrast", "color", "brightness", "sharpness"):
        return value - 1
    return 0.0 if name in ("auto_contrast", "invert", "equalize") else value


def test_the_operations_are_the_published_fifteen() -> None:
    assert tuple(LEVELS) == tuple(PUBLISHED)


@pytest.mark.parametrize("level", [0.0, 0.4, 0.5, 1.0])
@pytest.mark.parametrize("name", PUBLISHED)
def test_levels_are_the_published_values_and_only_geometry_is_mirrored(
    name: str, level: float
) -> None:
    """All 200 coins alike: 1e-60."""
    step = drawn(with_policy([[(name, 1.0, level), NOTHING]]), n=200)[:, 0]
    assert (step[:, 0] == number_of(name)).all()
    expected, values = published_value(name, level), step[:, 1]
    if name == "cutout":  # the place of the hole is the whole part
        assert len(values.floor().unique()) > 50
        values = values - values.floor()
    mirrored = name in ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
    signs = (1, -1) if mirrored and abs(expected) > 1e-6 else (1,)
    found = {round(v, 4) + 0.0 for v in values.tolist()}
    assert found == {round(sign * expected, 4) + 0.0 for sign in signs}


# --- the law ------------------------------------------------------------------------------------


def law(policy: tuple[tuple[Step, ...], ...]) -> Counter[tuple[float, ...]]:
    """Probability of every outcome (operation, value, operation, value)."""
    probs: Counter[tuple[float, ...]] = Counter()
    for one in policy:
        outcomes: dict[tuple[float, ...], float] = {(): 1 / len(policy)}
        for name, probability, level in one:
            value = round(published_value(name, level), 4)
            signs = (1, -1) if name in ("rotate", "shear_x") else (1,)
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
    return probs


def check_law(aug: FastAutoAugment, policy: tuple[tuple[Step, ...], ...]) -> None:
    probs, theta = law(policy), drawn(aug)
    found = Counter(tuple(round(v, 4) + 0.0 for v in one) for one in theta.flatten(1).tolist())
    assert set(found) <= set(probs)
    counts = torch.tensor([found[outcome] for outcome in probs])
    assert chi_square_p(counts, torch.tensor(list(probs.values()))) > ERROR_PROBABILITY


def test_a_sub_policy_is_drawn_and_each_step_happens_with_its_probability() -> None:
    """Pearson's test on all outcomes; a right sampler fails with ERROR_PROBABILITY."""
    check_law(with_policy(POLICY), POLICY)


def test_a_new_policy_takes_the_place_of_a_longer_one() -> None:
    """Pearson's test on all outcomes; a right sampler fails with ERROR_PROBABILITY."""
    aug = with_policy(POLICY, n_policies=3)
    aug.set_policy(POLICY[:2])
    assert aug.policy == POLICY[:2]
    check_law(aug, POLICY[:2])


def test_an_empty_policy_takes_the_place_of_a_longer_one() -> None:
    aug = with_policy(POLICY)
    aug.set_policy([])
    assert aug.policy == ()
    assert not drawn(aug).any()


@pytest.mark.parametrize("n_operations", [1, 3])
def test_sub_policies_may_have_any_number_of_steps(n_operations: int) -> None:
    steps = [("invert", 1.0, 0.0), ("color", 1.0, 0.5), ("rotate", 1.0, 0.5)][:n_operations]
    aug = with_policy([steps], n_operations=n_operations)
    theta = drawn(aug, n=8)
    assert theta.shape == (8, n_operations, 2)
    assert [OPERATIONS[int(o)] for o in theta[0, :, 0]] == [name for name, _, _ in steps]
    assert not theta[..., 1].any()


def test_inputs_and_samples_have_draws_of_their_own_that_the_generator_decides() -> None:
    aug, x = with_policy(POLICY), images(8)
    theta = aug.draw(x, 4, generator=seeded(3))
    assert len({str(one) for one in theta[0].tolist()}) >= 3
    assert len({str(one) for one in theta[:, 0].tolist()}) >= 2
    first, second = (aug(x, 4, generator=seeded(3)) for _ in range(2))
    assert torch.equal(first.inputs, second.inputs)
    assert torch.equal(first.theta, theta)


def test_a_new_one_does_nothing() -> None:
    aug, x = FastAutoAugment(), images(5, channels=1, height=8, width=12)
    batch = aug(x, 3, generator=seeded())
    assert aug.policy == ()
    assert not batch.theta.any()
    assert torch.equal(batch.inputs, x.repeat(3, 1, 1, 1))


@pytest.mark.parametrize("channels", [1, 3])
def test_normalized_images_are_changed_as_they_would_be_without(channels: int) -> None:
    mean, std = (0.2, 0.3, 0.4)[:channels], (0.5, 0.6, 0.7)[:channels]
    x = (images(24, channels=channels) * 255).round() / 255
    m, s = (torch.tensor(v).view(1, -1, 1, 1) for v in (mean, std))
    plain = with_policy([[(name, 1.0, 0.2), ("invert", 0.5, 0)] for name in LEVELS])
    normalized = FastAutoAugment(mean=mean, std=std)
    normalized.set_policy(plain.policy)
    theta = plain.draw(x, 1, generator=seeded(2))[0]
    out = normalized.render((x - m) / s, theta) * s + m
    torch.testing.assert_close(out, plain.render(x, theta), atol=1e-5, rtol=0)


# --- keeping it ---------------------------------------------------------------------------------


def test_a_policy_survives_json() -> None:
    aug = with_policy(POLICY)
    assert aug.policy == POLICY
    assert read_policy(json.loads(json.dumps(aug.policy))) == POLICY


def test_a_policy_is_saved_with_the_weights(tmp_path: Path) -> None:
    aug = with_policy(POLICY)
    save_file(aug.state_dict(), tmp_path / "aug.safetensors")
    fresh = FastAutoAugment()
    fresh.load_state_dict(load_file(tmp_path / "aug.safetensors"))
    assert fresh.policy == POLICY
    assert torch.equal(drawn(fresh), drawn(aug))
    assert not list(fresh.parameters())
    assert not fresh.averages_views


def test_the_number_of_sub_policies_can_be_read_from_the_printed_form() -> None:
    assert repr(FastAutoAugment()) == "FastAutoAugment(no policy yet, room for 500)"
    aug = with_policy(POLICY, n_policies=7)
    assert repr(aug) == "FastAutoAugment(3 sub-policies of 2 steps, room for 7)"


# --- refusals -----------------------------------------------------------------------------------


def test_policies_that_cannot_be_applied_are_refused_and_nothing_changes() -> None:
    aug = with_policy(POLICY, n_policies=3)
    with pytest.raises(ArgumentError, match=r"got 4, with room for 3\. Raise `n_policies`\."):
        aug.set_policy([*POLICY, POLICY[0]])
    with pytest.raises(ArgumentError, match="must have 2 steps in every sub-policy: got one of 1"):
        aug.set_policy([POLICY[0], POLICY[1][:1]])
    with pytest.raises(UnknownNameError, match=r"no operation called 'inverse'.*Did you mean"):
        aug.set_policy([[("inverse", 1.0, 0.0), NOTHING]])
    with pytest.raises(UnknownNameError, match="no operation called 'zoom'"):
        aug.set_policy([[("zoom", 1.0, 0.0), NOTHING]])
    assert aug.policy == POLICY


@pytest.mark.parametrize(
    "step", [("invert", 1.1, 0), ("invert", 1, -0.1), ("invert", float("nan"), 0)]
)
def test_probabilities_and_levels_lie_between_0_and_1(step: tuple[str, float, float]) -> None:
    with pytest.raises(ArgumentError, match=r"in \[0, 1\]: got probability .* of 'invert'"):
        read_policy([[step, NOTHING]])


@pytest.mark.parametrize("values", [3, [3], [[3]], [[("invert", 1.0)]], [[("invert", "x", 0)]]])
def test_what_is_no_policy_is_refused(values: object) -> None:
    with pytest.raises(ArgumentError, match="`policy` must be a list of sub-policies of steps"):
        read_policy(values)


@pytest.mark.parametrize("name", ["n_policies", "n_folds", "n_trials", "n_images", "fold_epochs"])
def test_counts_are_checked_at_the_door(name: str) -> None:
    settings = {name: -1}
    with unhooked(), pytest.raises(ArgumentError, match=f"`{name}` must be at least [01]: got -1"):
        FastAutoAugment(**settings)  # type: ignore[arg-type]
