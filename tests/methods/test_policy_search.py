"""The search finds what makes held-out images right, by the authors' reward."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.augmentation.held_out import HeldOutBatch
from instaaug.errors import ArgumentError
from instaaug.methods import policy_search
from instaaug.methods.fast_auto_augment import FastAutoAugment, SubPolicy
from instaaug.methods.operation_levels import LEVELS
from instaaug.methods.optuna_package import MissingOptunaError
from instaaug.methods.policy_search import density_match, search_policy
from tests.support.models import small_classifier

CHANCE = 1 / len(LEVELS)
SMALL: dict[str, Any] = {"n_trials": 45, "n_subpolicies": 3, "seed": 0}
Policy = tuple[SubPolicy, ...]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class BrighterHalf(nn.Module):
    """Says which half is brighter: left (0) or right (1)."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        value = x.mean(dim=1)
        half = value.shape[-1] // 2
        return torch.stack([value[..., :half].mean((1, 2)), value[..., half:].mean((1, 2))], 1)


def bright_halves(n: int) -> HeldOutBatch:
    """Dark noise with a bright block in the half that is the class."""
    targets = torch.arange(n) % 2
    x = 0.3 * torch.rand(n, 3, 8, 8, generator=seeded(4))
    x[targets == 0, :, 2:6, 1:3] = 0.9
    x[targets == 1, :, 2:6, 5:7] = 0.9
    return HeldOutBatch(x, targets)


def negatives(n: int) -> HeldOutBatch:
    """The same as negatives, which the model gets wrong until they are inverted."""
    upright = bright_halves(n)
    return HeldOutBatch(1 - upright.inputs, upright.targets)


def with_policy(policy: Any) -> FastAutoAugment:
    aug = FastAutoAugment()
    aug.set_policy(policy)
    return aug


# --- the reward ---------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_size", [1000, 25, 2])
def test_the_reward_is_that_of_a_loop_over_images(chunk_size: int) -> None:
    names = ("translate_x", "shear_x", "rotate", "invert", "solarize")
    aug = with_policy([[(name, 0.7, 0.9), ("invert", 0.3, 0)] for name in names])
    model, held_out, n_passes = BrighterHalf(), negatives(23), 3
    reward = density_match(
        model, held_out, aug, n_passes=n_passes, chunk_size=chunk_size, generator=seeded(7)
    )
    generator, n_images, n_right = seeded(7), max(chunk_size // n_passes, 1), 0
    for start in range(0, 23, n_images):
        x = held_out.inputs[start : start + n_images]
        theta = aug.draw(x, n_passes, generator=generator)
        for i in range(len(x)):
            views = [aug.render(x[i : i + 1], theta[j, i : i + 1]) for j in range(n_passes)]
            answers = [int(model(view).argmax()) for view in views]
            n_right += int(held_out.targets[start + i]) in answers
    assert 0 < n_right < 23
    assert reward == n_right / 23


@pytest.mark.parametrize("n_passes", [1, 2, 5])
@pytest.mark.parametrize("p", [0.1, 0.4])
def test_one_right_answer_in_any_pass_suffices(p: float, n_passes: int) -> None:
    """Binomial, 5 standard deviations: 6e-7 each."""
    n = 2000
    aug = with_policy([[("invert", p, 0.0), ("posterize", 0.0, 0.0)]])
    reward = density_match(
        BrighterHalf(), negatives(n), aug, n_passes=n_passes, generator=seeded(1)
    )
    expected = 1 - (1 - p) ** n_passes
    assert abs(reward - expected) <= 5 * (expected * (1 - expected) / n) ** 0.5


def test_images_that_nothing_is_done_to_give_the_plain_accuracy() -> None:
    aug = FastAutoAugment()
    assert density_match(BrighterHalf(), bright_halves(20), aug) == 1.0
    assert density_match(BrighterHalf(), negatives(20), aug) == 0.0


# --- what is found ------------------------------------------------------------------------------


def expected_share(policy: Policy, name: str) -> float:
    """Share of an operation among all that happen."""
    steps = [step for one in policy for step in one]
    happens = sum(step.probability for step in steps)
    return sum(step.probability for step in steps if step.operation == name) / happens


def test_a_planted_good_operation_is_found() -> None:
    found = search_policy(BrighterHalf(), negatives(40), FastAutoAugment(), **SMALL)
    steps = [step for one in found for step in one]
    n_invert = sum(step.operation == "invert" for step in steps)
    # Of 60 random steps 13 or more are `invert` with probability 1.4e-4; seeds find 13 to 22.
    assert len(steps) <= 60
    assert n_invert >= 13
    assert expected_share(found, "invert") > 3 * CHANCE
    fresh = HeldOutBatch(*(part[20:] for part in vars(negatives(60)).values()))
    reward = density_match(BrighterHalf(), fresh, with_policy(found), generator=seeded())
    at_random = with_policy([[(name, 0.5, 0.5), (name, 0.5, 0.5)] for name in LEVELS])
    assert reward > density_match(BrighterHalf(), fresh, at_random, generator=seeded()) + 0.3


def test_a_planted_harmful_operation_is_avoided() -> None:
    """In a single pass a wrong answer is not made good by others."""
    found = search_policy(
        BrighterHalf(), bright_halves(40), FastAutoAugment(), n_passes=1, **SMALL
    )
    assert expected_share(found, "invert") < CHANCE / 4
    alone = with_policy(found)
    reward = density_match(BrighterHalf(), bright_halves(200), alone, n_passes=1)
    assert reward > 0.9


def rewarded(
    monkeypatch: pytest.MonkeyPatch, reward_of: Callable[[Policy], float]
) -> list[tuple[float, Policy]]:
    """Let another function judge policies; returns the trials, as they come."""
    trials: list[tuple[float, Policy]] = []

    def judge(*arguments: Any, **_: Any) -> float:
        policy = arguments[2].policy
        trials.append((reward_of(policy), policy))
        return trials[-1][0]

    monkeypatch.setattr(policy_search, "density_match", judge)
    return trials


def nothing_to_see() -> tuple[nn.Module, HeldOutBatch, FastAutoAugment]:
    return nn.Identity(), bright_halves(2), FastAutoAugment()


def test_the_best_trials_are_joined_without_repeated_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trials = rewarded(monkeypatch, lambda policy: round(policy[0][0].level, 1))
    found = search_policy(*nothing_to_see(), n_trials=12, n_subpolicies=40, n_best=3)
    assert len(trials) == 12
    assert all(len(policy) == 40 for _, policy in trials)
    order = sorted(range(12), key=lambda i: (-trials[i][0], i))
    expected = []
    for i in order[:3]:
        seen = set()
        for one in trials[i][1]:
            pair = (one[0].operation, one[1].operation)
            if pair not in seen:
                expected.append(one)
            seen.add(pair)
    assert found == tuple(expected)
    assert len(found) < 120  # there were repeated ones


def test_later_trials_learn_from_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first 20 are random: the mean of their 40 probabilities is 0.5 ± 0.05."""
    trials = rewarded(monkeypatch, lambda policy: sum(step.probability for step in policy[0]) / 2)
    search_policy(*nothing_to_see(), n_trials=50, n_subpolicies=1)
    rewards = [reward for reward, _ in trials]
    assert abs(sum(rewards[:20]) / 20 - 0.5) < 0.25  # 5 standard deviations: 6e-7
    assert sum(rewards[30:]) / 20 > 0.8  # of random ones: 6 standard deviations


# --- manners ------------------------------------------------------------------------------------


def test_the_seed_decides_and_nothing_else_is_touched(
    capfd: pytest.CaptureFixture[str],
) -> None:
    import optuna

    model, aug = small_classifier(2), with_policy([[("invert", 0.3, 0.0), ("color", 0.1, 0.2)]])
    next(iter(model.children())).eval()
    modes = [part.training for part in model.modules()]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    states = torch.get_rng_state(), optuna.logging.get_verbosity(), aug.policy
    settings: dict[str, Any] = {"n_trials": 22, "n_subpolicies": 2, "n_best": 2}
    first, again, other = (
        search_policy(model, bright_halves(10), aug, seed=seed, **settings) for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other
    assert [part.training for part in model.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (optuna.logging.get_verbosity(), aug.policy) == states[1:]
    assert capfd.readouterr() == ("", "")


def test_the_model_is_judged_in_evaluation_mode() -> None:
    class Recorder(BrighterHalf):
        modes: set[tuple[bool, bool]] = set()  # noqa: RUF012

        @override
        def forward(self, x: Tensor) -> Tensor:
            self.modes.add((self.training, torch.is_grad_enabled()))
            return super().forward(x)

    model = Recorder().train()
    search_policy(model, bright_halves(4), FastAutoAugment(), n_trials=2)
    assert model.modes == {(False, False)}
    assert model.training


def test_what_is_found_is_what_was_tried_to_the_last_digit() -> None:
    found = search_policy(BrighterHalf(), bright_halves(4), FastAutoAugment(), n_trials=5)
    assert with_policy(found).policy == found


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    search_policy(
        BrighterHalf(),
        bright_halves(2),
        FastAutoAugment(),
        n_trials=3,
        on_trial=lambda done, total: told.append((done, total)),
    )
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("name", ["n_trials", "n_subpolicies", "n_passes", "n_best"])
def test_counts_are_checked_at_the_door(name: str) -> None:
    settings: dict[str, Any] = {name: 0}
    with pytest.raises(ArgumentError, match=f"`{name}` must be at least 1: got 0"):
        search_policy(*nothing_to_see(), **settings)


def test_without_optuna_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingOptunaError, match=r"pip install 'instaaug\[tune\]'"):
        search_policy(*nothing_to_see(), n_trials=1)
