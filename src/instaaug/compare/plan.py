"""Before anything is trained: how many epochs, what is compared with, what it will take."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from instaaug.compare.budget import epochs_in, measured_epoch, seconds_of, words_of
from instaaug.compare.contenders import Contender
from instaaug.compare.standings import standing_of
from instaaug.compare.state import ComparisonState
from instaaug.compare.step_cost import measured_costs
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.runs.settings import TrainSettings

__all__ = ["check_reference", "plan_words", "with_costs", "with_epochs", "with_reference"]


def check_reference(
    before: ComparisonState | None, contenders: Sequence[Contender], reference: str | None
) -> None:
    """Raise unless the reference takes part, or did before."""
    labels = {c.label for c in contenders} | set(before.contenders if before else ())
    if reference is not None and reference not in labels:
        raise UnknownNameError("contender", reference, labels)


def with_epochs(
    base: TrainSettings, before: ComparisonState | None, budget: str | None, *, has_epochs: bool
) -> tuple[TrainSettings, float]:
    """With as many epochs as fit the budget, were given, or were found before; time of one.

    Arguments:
        base: The settings that all share.
        before: What is in the folder already.
        budget: Training time of a run; it has priority over epochs in a file.
        has_epochs: Whether the settings give the epochs.

    Raises:
        ArgumentError: If the budget is no time, or not that of before.
    """
    seconds = None if budget is None else seconds_of(budget)
    known = None if before is None else before.epoch_seconds
    if before is not None:
        if seconds is not None and (before.budget is None or seconds_of(before.budget) != seconds):
            raise ArgumentError(
                "`budget` must be what the comparison that is there began with, "
                f"{before.budget or 'none at all'}: got {budget!r}. Choose another folder."
            )
        if seconds is not None or not has_epochs:
            base = base.override({"trainer.max_epochs": before.settings["trainer"]["max_epochs"]})
    epoch_seconds = measured_epoch(base) if known is None else known
    if before is None and seconds is not None:
        base = base.override({"trainer.max_epochs": epochs_in(seconds, epoch_seconds)})
    return base, epoch_seconds


def with_reference(out: Path, state: ComparisonState, reference: str | None) -> ComparisonState:
    """With what is compared with, and how many runs had a result when it was named."""
    if reference in (None, state.reference):
        return state
    n_done = sum(
        standing_of(out, label, seed).status == "done"
        for label, seeds in state.seeds.items()
        for seed in seeds
    )
    return replace(state, reference=reference, reference_named_after=n_done or None)


def with_costs(
    state: ComparisonState,
    contenders: Sequence[Contender],
    base: TrainSettings,
    *,
    on_timing: Callable[[Sequence[str]], None],
) -> ComparisonState:
    """With the cost of a step of those contenders that were not timed before.

    Arguments:
        state: What is known.
        contenders: Who takes part.
        base: The settings that all share.
        on_timing: Called with the labels of those that are to be timed.
    """
    new = {c.label: c.config(base) for c in contenders if c.label not in state.costs}
    if not new:
        return state
    on_timing(list(new))
    costs = {label: list(cost) for label, cost in measured_costs(new, base).items()}
    return replace(state, costs={**state.costs, **costs})


def plan_words(
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
    per_run = n_epochs * (state.epoch_seconds or 0.0)
    to_do = ("waiting", "failed") if retry else ("waiting",)
    costs = [
        state.costs.get(contender.label, [1.0])[0]
        for contender in contenders
        for seed in seeds
        if standing_of(out, contender.label, seed).status in to_do
    ]
    n_runs = len(contenders) * len(seeds)
    left = "" if len(costs) == n_runs else f", of which {len(costs)} are left"
    numbers = (len(contenders), "method"), (len(seeds), "seed"), (n_runs, "run")
    methods, runs_of, runs = (f"{n} {word}{'s' * (n != 1)}" for n, word in numbers)
    return (
        f"{methods} × {runs_of} = {runs} of {n_epochs} epoch{'s' * (n_epochs != 1)}{left}; about "
        f"{words_of(per_run * sum(costs) / jobs)} of training in all. Everything is in {out}."
    )
