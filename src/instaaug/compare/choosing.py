"""Let every contender choose its settings on validation images before it is compared."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from instaaug.compare.contenders import Contender
from instaaug.compare.search_space import SearchSpace, changed_settings, describe_choice
from instaaug.compare.state import Choice, ComparisonState
from instaaug.compare.tuning import learns_from_validation, tune
from instaaug.compare.tuning_trials import RunTrial, run_trial
from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError
from instaaug.methods import find_method
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import load_splits

__all__ = ["choose_settings_of", "tuning_seed"]

FRESH = 1_000_000  # added to the seed: no run of a comparison has it


def tuning_seed(base: TrainSettings) -> int:
    """The seed of the trials, which none of the runs has."""
    return (base.seed + FRESH) % 2**31


def choose_settings_of(
    contenders: Sequence[Contender],
    base: TrainSettings,
    out: Path,
    before: ComparisonState | None,
    *,
    n_trials: int,
    run: RunTrial = run_trial,
    on_message: Callable[[str], None],
) -> dict[str, Choice]:
    """The choice of each contender that has something to choose; those of before are kept.

    All have the same number of trials, of as many epochs as the runs of the comparison have. The
    trials share a seed that no run has; they see no test image. A search that was interrupted
    goes on.

    Arguments:
        contenders: Who takes part.
        base: The settings that all share, the epochs among them.
        out: The folder of the comparison; a search is in ``LABEL/tuning``.
        before: The comparison that is in the folder already.
        n_trials: Trials of each.
        run: Trains and scores one trial.
        on_message: Called with a sentence on each choice.

    Raises:
        ArgumentError: If the data have no test images of their own: with another seed, trials
            would learn from the test images of the runs.
    """
    chosen = dict(before.chosen) if before is not None else {}
    trials = base.override({"seed": tuning_seed(base)})
    new = [c for c in contenders if c.label not in chosen and _can_choose(c, trials)]
    if new:
        _check_test_images(base, trials)
    for contender in new:
        if before is not None and contender.label in before.contenders:
            raise ArgumentError(
                f"`tune` must be asked for before the first run: {contender.label} has runs with "
                "the settings that were given. Choose another folder."
            )
        settings = contender.full_settings(trials)
        on_message(f"Tuning {contender.label} with {n_trials} trials on validation images.")
        result = tune(settings, out / contender.label / "tuning", n_trials=n_trials, run=run)
        sentence = describe_choice(settings.with_full_paths(), result.config)
        is_luck = not (result.verdict.is_default or result.verdict.is_beyond_noise)
        doubt = "; the lead may be chance" if is_luck else ""
        doubt += "; φ learned from these as well" if learns_from_validation(settings) else ""
        sentence = f"{sentence} ({len(result.records)} trials on validation images{doubt}.)"
        on_message(f"{contender.label}: {sentence}")
        changes = changed_settings(settings.with_full_paths(), result.config)
        chosen[contender.label] = Choice(changes, sentence)
    return chosen


def _can_choose(contender: Contender, base: TrainSettings) -> bool:
    settings = contender.full_settings(base)
    kind = find_method(settings.method.name)
    return SearchSpace.is_for(kind) and settings.entropy.rule != "fixed"


def _check_test_images(base: TrainSettings, trials: TrainSettings) -> None:
    first, second = (load_splits(settings).test for settings in (base, trials))
    if _identity(first) != _identity(second):
        raise ArgumentError(
            "`tune` needs data with test images of their own, in a folder test/ for example: "
            "these are drawn anew for every seed, so that trials would learn from the test images "
            "of the runs. Tune with `instaaug tune` instead, and say so."
        )


def _identity(images: LabeledImages) -> tuple[str, bytes]:
    rows = np.arange(len(images)) if images.rows is None else images.rows
    return images.fingerprint, rows.tobytes()
