"""What is decided before anything is trained: epochs, reference, step costs, expected time."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import floor
from pathlib import Path
from typing import Any

from instaaug.compare.contenders import Contender
from instaaug.compare.state import Choice, ComparisonState, read_progress, read_state
from instaaug.compare.step_times import measure_epoch, measure_step_costs
from instaaug.durations import format_duration
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.runs.settings import TrainSettings

__all__ = [
    "add_costs",
    "check_reference",
    "choose_epochs",
    "describe_plan",
    "parse_duration",
    "plan_state",
    "set_reference",
    "sets_epochs",
]

DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def plan_state(
    out: Path,
    base: TrainSettings,
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    budget: str | None = None,
    chosen: Mapping[str, Choice] | None = None,
) -> ComparisonState:
    """The state of the comparison in a folder, with what is asked for now.

    Raises:
        ArgumentError: If the comparison in the folder has other settings.
    """
    asked = ComparisonState(
        settings=base.to_mapping(),
        contenders={c.label: dict(c.settings) for c in contenders},
        seeds={c.label: sorted(set(seeds)) for c in contenders},
        budget=budget,
        chosen=chosen or {},
    )
    before = read_state(out)
    return asked if before is None else before.merge(asked)


def sets_epochs(settings: Mapping[str, Any]) -> bool:
    """Whether settings, nested or with dotted names, say how many epochs to train.

    Example:
        >>> sets_epochs({"trainer.max_epochs": 3}), sets_epochs({"trainer": {"max_epochs": 3}})
        (True, True)
        >>> sets_epochs({"trainer": {"accelerator": "cpu"}})
        False
    """
    trainer = settings.get("trainer", {})
    return "trainer.max_epochs" in settings or (
        isinstance(trainer, Mapping) and "max_epochs" in trainer
    )


def choose_epochs(
    base: TrainSettings,
    before: ComparisonState | None,
    budget: str | None,
    *,
    epochs_are_set: bool,
) -> tuple[TrainSettings, float]:
    """The settings with the epochs to train, and the seconds of an epoch without augmentation.

    The epochs are as many as fit the budget, those set, or those of the comparison in the folder.

    Arguments:
        base: The settings that all contenders share.
        before: The comparison that is in the folder already.
        budget: Training time of a run; it has priority over epochs in a file.
        epochs_are_set: Whether the settings say how many epochs to train.

    Raises:
        ArgumentError: If the budget is no duration, or differs from that of before.
    """
    seconds = None if budget is None else parse_duration(budget)
    if before is not None:
        if seconds is not None and (
            before.budget is None or parse_duration(before.budget) != seconds
        ):
            raise ArgumentError(
                "`budget` must be what the comparison that is there began with, "
                f"{before.budget or 'none at all'}: got {budget!r}. Choose another folder."
            )
        if seconds is not None or not epochs_are_set:
            base = base.override({"trainer.max_epochs": before.settings["trainer"]["max_epochs"]})
    known = None if before is None else before.epoch_seconds
    epoch_seconds = measure_epoch(base) if known is None else known
    if before is None and seconds is not None:
        base = base.override({"trainer.max_epochs": max(1, floor(seconds / epoch_seconds))})
    return base, epoch_seconds


def check_reference(
    before: ComparisonState | None, contenders: Sequence[Contender], reference: str | None
) -> None:
    """Raise unless the reference takes part now, or did before."""
    labels = {c.label for c in contenders} | set(before.contenders if before else ())
    if reference is not None and reference not in labels:
        raise UnknownNameError("contender", reference, labels)


def set_reference(out: Path, state: ComparisonState, reference: str | None) -> ComparisonState:
    """The state with a reference, and how many runs had a result when it was named."""
    if reference in (None, state.reference):
        return state
    n_done = sum(run.status == "done" for run in state.read_progress(out))
    return replace(state, reference=reference, reference_named_after=n_done or None)


def add_costs(
    state: ComparisonState,
    contenders: Sequence[Contender],
    base: TrainSettings,
    *,
    on_timing: Callable[[Sequence[str]], None],
) -> ComparisonState:
    """The state with the step costs of those contenders that were not timed before.

    Arguments:
        state: The state so far.
        contenders: Who takes part.
        base: The settings that all contenders share.
        on_timing: Called with the labels of those that are about to be timed.
    """
    new = {c.label: c.full_settings(base) for c in contenders if c.label not in state.costs}
    if not new:
        return state
    on_timing(list(new))
    costs = {label: list(cost) for label, cost in measure_step_costs(new, base).items()}
    return replace(state, costs={**state.costs, **costs})


def describe_plan(
    out: Path,
    state: ComparisonState,
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    *,
    jobs: int,
    retry: bool,
) -> str:
    """How many runs there are, how many are left, and how long they will take."""
    n_epochs = state.settings["trainer"]["max_epochs"]
    run_seconds = n_epochs * (state.epoch_seconds or 0.0)
    to_do = ("waiting", "failed") if retry else ("waiting",)
    costs = [
        state.costs.get(contender.label, [1.0])[0]
        for contender in contenders
        for seed in seeds
        if read_progress(out, contender.label, seed).status in to_do
    ]
    n_runs = len(contenders) * len(seeds)
    left = "" if len(costs) == n_runs else f", of which {len(costs)} are left"
    counts = (len(contenders), "method"), (len(seeds), "seed"), (n_runs, "run")
    n_methods, n_seeds, all_runs = (f"{n} {word}{'s' * (n != 1)}" for n, word in counts)
    return (
        f"{n_methods} × {n_seeds} = {all_runs} of {n_epochs} epoch{'s' * (n_epochs != 1)}{left}; "
        f"about {format_duration(run_seconds * sum(costs) / jobs)} of training in all. Everything "
        f"is in {out}."
    )


def parse_duration(text: str) -> float:
    """A duration in seconds.

    Example:
        >>> parse_duration("90s"), parse_duration("1h30m"), parse_duration("1.5h")
        (90.0, 5400.0, 5400.0)
    """
    compact = "".join(text.lower().split())
    parts = DURATION.findall(compact)
    total = sum(float(number) * SECONDS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != compact or not total:
        raise ArgumentError(f"`budget` must be a time like 90s, 10m or 1h30m: got {text!r}.")
    return total
