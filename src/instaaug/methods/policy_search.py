"""Fast AutoAugment's search: which policy makes held-out images look like those of training."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Generator, nn

from instaaug.augmentation.held_out import HeldOutBatch
from instaaug.errors import ArgumentError
from instaaug.methods.fast_auto_augment import FastAutoAugment, Step, SubPolicy
from instaaug.methods.operation_levels import LEVELS
from instaaug.methods.optuna_package import quiet_optuna
from instaaug.networks.evaluation_mode import evaluation_mode

__all__ = ["OnTrial", "density_match", "search_policy"]

N_RANDOM_TRIALS = 20  # hyperopt's, which the authors use
DECIMALS = 4

OnTrial = Callable[[int, int], None]
"""Called with the number of policies tried and of all."""


def search_policy(
    model: nn.Module,
    held_out: HeldOutBatch,
    augmenter: FastAutoAugment,
    *,
    n_trials: int = 200,
    n_subpolicies: int = 5,
    n_passes: int = 5,
    n_best: int = 10,
    chunk_size: int = 256,
    seed: int = 0,
    on_trial: OnTrial | None = None,
) -> tuple[SubPolicy, ...]:
    """Find sub-policies with one model that was trained without them on other images.

    A trial is a policy of a few sub-policies; TPE, the tree-structured Parzen estimator, proposes
    the next one from the :func:`density_match` of those before. The best trials are put together.
    As in the source, of the sub-policies of a trial with the same operations in the same order
    only the first is kept, and what is found with several models is simply joined.

    Arguments:
        model: Returns logits ``(B, num_classes)``; is left as it was.
        held_out: Images that the model was not trained on.
        augmenter: Says how operations are applied and how many a sub-policy has; is left as it
            was.
        n_trials: Policies to try; the first 20 are random.
        n_subpolicies: Sub-policies of a trial.
        n_passes: Times that every image is augmented in a trial.
        n_best: Trials to keep.
        chunk_size: Most rows per call of the model, which bounds the memory.
        seed: Decides what is tried and drawn.
        on_trial: Told of the progress.

    Raises:
        MissingOptunaError: If Optuna is not installed.

    References:
        | Fast AutoAugment (Lim et al., 2019)
        | https://arxiv.org/abs/1905.00397

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 10))
        >>> held_out = HeldOutBatch(torch.rand(16, 3, 8, 8), torch.arange(16) % 10)
        >>> aug = FastAutoAugment()
        >>> aug.set_policy(search_policy(model, held_out, aug, n_trials=3, n_best=2))
        >>> aug
        FastAutoAugment(10 sub-policies of 2 steps, room for 500)
    """
    _check(n_trials=n_trials, n_subpolicies=n_subpolicies, n_passes=n_passes, n_best=n_best)
    device = held_out.inputs.device
    candidate = deepcopy(augmenter).to(device)
    generator = Generator(device).manual_seed(seed)
    tried: list[tuple[float, tuple[SubPolicy, ...]]] = []
    with quiet_optuna() as optuna, evaluation_mode(model):
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=N_RANDOM_TRIALS,
            multivariate=False,  # like hyperopt's
            constant_liar=False,  # there is one trial at a time
            seed=seed,
        )
        study = optuna.create_study(direction="maximize", sampler=sampler)
        space = _space(optuna, n_subpolicies, augmenter.n_operations)
        for i in range(n_trials):
            trial = study.ask(space)
            policy = _decoded(trial.params, n_subpolicies, augmenter.n_operations)
            candidate.set_policy(policy)
            reward = density_match(
                model,
                held_out,
                candidate,
                n_passes=n_passes,
                chunk_size=chunk_size,
                generator=generator,
            )
            study.tell(trial, reward)
            tried.append((reward, policy))
            if on_trial is not None:
                on_trial(i + 1, n_trials)
    best = sorted(tried, key=lambda one: -one[0])[:n_best]  # the earlier ones of equals
    return tuple(one for _, policy in best for one in _without_duplicates(policy))


@torch.no_grad()
def density_match(
    model: nn.Module,
    held_out: HeldOutBatch,
    augmenter: FastAutoAugment,
    *,
    n_passes: int = 5,
    chunk_size: int = 256,
    generator: Generator | None = None,
) -> float:
    """Share of images that the model classifies rightly in at least one of several passes.

    Arguments:
        model: In evaluation mode.
        held_out: Images that it was not trained on.
        augmenter: Augments every image in every pass.
        n_passes: How often.
        chunk_size: Most rows per call of the model.
        generator: Source of randomness.
    """
    n_right = 0
    n_images = max(chunk_size // n_passes, 1)
    for x, targets in zip(
        held_out.inputs.split(n_images), held_out.targets.split(n_images), strict=True
    ):
        outputs = model(augmenter(x, n_passes, generator=generator).inputs)
        right = outputs.argmax(dim=1).view(n_passes, -1) == targets
        n_right += int(right.any(dim=0).sum())
    return n_right / len(held_out.targets)


def _check(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise ArgumentError(f"`{name}` must be at least 1: got {value}.")


def _space(optuna: Any, n_subpolicies: int, n_operations: int) -> dict[str, Any]:
    space: dict[str, Any] = {}
    for place in _places(n_subpolicies, n_operations):
        space[f"operation_{place}"] = optuna.distributions.CategoricalDistribution(tuple(LEVELS))
        space[f"probability_{place}"] = optuna.distributions.FloatDistribution(0.0, 1.0)
        space[f"level_{place}"] = optuna.distributions.FloatDistribution(0.0, 1.0)
    return space


def _places(n_subpolicies: int, n_operations: int) -> list[str]:
    return [f"{i}_{j}" for i in range(n_subpolicies) for j in range(n_operations)]


def _decoded(
    values: dict[str, Any], n_subpolicies: int, n_operations: int
) -> tuple[SubPolicy, ...]:
    steps = [
        Step(
            values[f"operation_{place}"],
            round(values[f"probability_{place}"], DECIMALS),
            round(values[f"level_{place}"], DECIMALS),
        )
        for place in _places(n_subpolicies, n_operations)
    ]
    return tuple(tuple(steps[i : i + n_operations]) for i in range(0, len(steps), n_operations))


def _without_duplicates(policy: tuple[SubPolicy, ...]) -> list[SubPolicy]:
    """The first sub-policy of each sequence of operations."""
    first: dict[tuple[str, ...], SubPolicy] = {}
    for one in policy:
        first.setdefault(tuple(step.operation for step in one), one)
    return list(first.values())
