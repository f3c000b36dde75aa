"""Find the settings of a method by training with many of them, most only briefly."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from instaaug.compare.search_space import SearchSpace, changed_settings
from instaaug.compare.single_run import describe_error
from instaaug.compare.tuning_trials import (
    RunTrial,
    TrialRecord,
    TrialState,
    TuningFolder,
    run_trial,
    rung_epochs,
)
from instaaug.data.cache import OnProgress
from instaaug.errors import (
    ArgumentError,
    DataError,
    InstaAugError,
    NonFiniteError,
    WeightsFileError,
)
from instaaug.files import lock_folder
from instaaug.methods.fast_auto_augment import import_optuna, quiet_optuna
from instaaug.runs.build import build_task, settle_phi
from instaaug.runs.folder import DataFacts
from instaaug.runs.pretrained import settle_pretrained
from instaaug.runs.settings import Task, TrainSettings
from instaaug.runs.training import load_splits
from instaaug.stats import paired_p_value
from instaaug.tasks import Interrupted

if TYPE_CHECKING:
    from optuna import Study, Trial

__all__ = [
    "TuningResult",
    "Verdict",
    "format_score",
    "judge",
    "learns_from_validation",
    "tune",
    "with_validation",
]

OnTrials = Callable[[Sequence[TrialRecord]], None]

SIGNIFICANCE_LEVEL = 0.05
SCORE_NAMES: dict[Task, str] = {
    "classification": "accuracy",
    "regression": "R²",
    "contrastive": "accuracy of a probe",
}
N_RANDOM_TRIALS = 6  # before the sampler uses what it has seen
REDUCTION_FACTOR = 2
DEFAULT_VALIDATION = 0.1


@dataclass(frozen=True)
class Verdict:
    """Which trial is best so far, and whether it beats the unchanged settings by more than chance.

    Arguments:
        best: The complete trial with the best score; the first one among equals, so that the
            unchanged settings win a tie.
        default: The trial of the unchanged settings; None if it failed.
        n_tried: Trials other than the default that were compared with it.
    """

    best: TrialRecord
    default: TrialRecord | None
    n_tried: int

    @property
    def is_default(self) -> bool:
        """Whether no trial was better than the unchanged settings."""
        return self.best.number == 0

    @property
    def difference(self) -> float | None:
        """The score of the best trial minus that of the default."""
        if self.default is None:
            return None
        return fmean(self.best.scores) - fmean(self.default.scores)

    @property
    def p_value(self) -> float | None:
        """How often chance alone would make the best of so many networks look this much better.

        It compares two networks, trained with one seed, on these validation images, and does not
        tell whether their settings differ with other seeds. Predictions are compared image by
        image: by McNemar's exact test if they are right or wrong, else by the normal
        approximation. The value is multiplied by the number of trials (Bonferroni), because the
        best of many is lucky.
        """
        if self.default is None or self.is_default:
            return None
        single = paired_p_value(self.best.scores, self.default.scores)
        return min(1.0, single * max(self.n_tried, 1))

    @property
    def is_beyond_noise(self) -> bool:
        """Whether chance is an unlikely explanation for this seed, on these images."""
        p = self.p_value
        return p is not None and p < SIGNIFICANCE_LEVEL

    def describe(self, task: Task) -> str:
        """The verdict in a sentence.

        Arguments:
            task: Decides whether scores are accuracies, of the model or of a probe, or R².
        """
        name = SCORE_NAMES[task]
        score = f"validation {name} {format_score(self.best, task)}"
        if self.default is None:
            return f"{score}; the unchanged settings failed."
        if self.is_default:
            return f"{score} with the unchanged settings; no trial beat them."
        before = f"{format_score(self.default, task)} with the unchanged settings"
        p = "p < 0.001" if (self.p_value or 0) < 0.001 else f"p = {self.p_value:.2g}"
        corrected = f"({p}, corrected for {self.n_tried} trials)"
        if not self.is_beyond_noise:
            return f"{score}, against {before}: which may be chance {corrected}."
        return (
            f"{score}, against {before}: more than chance explains for this seed, on these "
            f"validation images {corrected}; other seeds were not tried."
        )


def format_score(record: TrialRecord, task: Task) -> str:
    """The score of a complete trial with its standard error.

    Example:
        >>> record = TrialRecord(0, "complete", {}, {}, {}, scores=(1.0, 1.0, 1.0, 0.0))
        >>> format_score(record, "classification"), format_score(record, "regression")
        ('75.0 % (s.e. 21.7)', '0.750 (s.e. 0.217)')
    """
    mean = fmean(record.scores)
    if task == "regression":
        return f"{mean:.3f} (s.e. {record.error:.3f})"
    return f"{100 * mean:.1f} % (s.e. {100 * record.error:.1f})"


def judge(records: Sequence[TrialRecord]) -> Verdict | None:
    """The verdict on the trials so far; None if none is complete.

    Arguments:
        records: All trials, the default first.
    """
    complete = [record for record in records if record.state == "complete"]
    if not complete:
        return None
    best = max(complete, key=lambda record: (fmean(record.scores), -record.number))
    default = next((record for record in complete if record.number == 0), None)
    tried = [r for r in records if r.number > 0 and r.state in ("complete", "pruned")]
    return Verdict(best, default, len(tried))


@dataclass(frozen=True)
class TuningResult:
    """The outcome of a search.

    Arguments:
        config: The settings to train with.
        records: Every trial.
        verdict: Which one is best, and whether by more than chance.
    """

    config: TrainSettings
    records: tuple[TrialRecord, ...]
    verdict: Verdict


def tune(
    config: TrainSettings,
    out: str | Path,
    *,
    n_trials: int = 20,
    budget: float | None = None,
    command: str = "instaaug tune",
    run: RunTrial = run_trial,
    on_change: OnTrials | None = None,
    on_decode: OnProgress | None = None,
) -> TuningResult:
    """Search by successive halving, on validation images; the test images are never scored.

    The first trial is of the unchanged settings, so that nothing is returned that did not beat
    them. All trials have the same seed and the same images. A search that was interrupted, in
    whatever way, goes on when it is called again, and ends as if it had not been. A trial that
    fails is recorded as such, and the search goes on, unless the settings or files are at fault.

    Arguments:
        config: The settings to begin with; their ``validation_fraction`` of 0 becomes 0.1 in the
            trials, but stays 0 in what is returned.
        out: The folder of the search, new or to go on with.
        n_trials: Trials in all.
        budget: Seconds of all trials together after which no further one begins.
        command: What was typed, for the first line of ``tuned.yaml``.
        run: Trains and scores one trial.
        on_change: Called with all trials whenever one has begun, reached a rung, or ended.
        on_decode: Called with the number of files decoded and of all files.

    Raises:
        ArgumentError: If the settings cannot be tuned, or do not fit the search in the folder.
        InstaAugError: If all trials failed.
    """
    import_optuna()  # raises if it is not installed
    config = settle_pretrained(config.with_full_paths())
    _check(config, n_trials)
    in_use = (
        f"`out` must not be in use by another search: {str(out)!r} is. Wait for that one, or "
        "choose another folder."
    )
    path = Path(out)
    with lock_folder(path, error=in_use):
        try:
            search = _search(
                config, TuningFolder(path), n_trials, budget, command,
                run, on_change or (lambda _: None), on_decode,
            )  # fmt: skip
        finally:
            with suppress(OSError):  # it is not empty
                path.rmdir()
    verdict = judge(search.records)
    if verdict is None:
        raise InstaAugError(
            f"All {len(search.records)} trials failed, the last one with: "
            f"{search.records[-1].reason} If numbers became NaN, lower "
            "`optimizer.learning_rate`, or set `trainer.gradient_clip_val`."
        )
    return TuningResult(search.settings_of(verdict.best, config), tuple(search.records), verdict)


def with_validation(config: TrainSettings) -> TrainSettings:
    """The settings of the trials: these, with validation images, from which φ does not learn."""
    if config.data.validation_fraction:
        return config
    goal = settle_phi(config).goal  # it depends on whether there are such images
    return config.override({"data.validation_fraction": DEFAULT_VALIDATION, "phi.goal": goal})


def learns_from_validation(config: TrainSettings) -> bool:
    """Whether φ learns from the images that trials are compared on."""
    return config.method.name == "instaaug" and settle_phi(config).signal == "validation"


def _search(
    config: TrainSettings,
    folder: TuningFolder,
    n_trials: int,
    budget: float | None,
    command: str,
    run: RunTrial,
    on_change: OnTrials,
    on_decode: OnProgress | None,
) -> "_Search":
    """Run the trials that are left, and write the best settings after each."""
    tried = with_validation(config)
    splits = load_splits(tried, on_decode)
    if config.task == "contrastive" and len(splits.train.classes) < 2:
        raise ArgumentError(
            "`data` must have classes to tune contrastive learning: a probe on validation images "
            "is what chooses. Put images of each class into a folder of its own."
        )
    facts = DataFacts.of(splits, tried)
    space = SearchSpace.from_augmenter(tried, build_task(tried, facts).augmenter, facts.channels)
    is_new = folder.start(config, splits.hash)
    with quiet_optuna() as optuna:
        search = _Search(optuna, tried, space, folder, run, on_change)
        search.write_best(config, command)  # a kill may have come between a trial and this
        while len(search.records) < n_trials and not search.is_over(budget):
            try:
                search.run_next()
            except ArgumentError:  # wrong settings must not occupy the folder
                if is_new and not search.records:
                    folder.undo_start()
                raise
            search.write_best(config, command)
    return search


class _Search:
    """The trials so far, and how the next one is found.

    Optuna's study is created again for every trial, from our own records. What it draws depends
    only on the seed, the number of the trial and the trials before it, so that an interrupted
    trial is drawn the same way again.
    """

    def __init__(
        self,
        optuna: Any,
        config: TrainSettings,
        space: SearchSpace,
        folder: TuningFolder,
        run: RunTrial,
        on_change: OnTrials,
    ) -> None:
        self.optuna, self.config, self.space, self.folder = optuna, config, space, folder
        self.run, self.on_change = run, on_change
        self.records = [
            replace(record, point=space.completed(record.point)) for record in folder.read_trials()
        ]
        self.ranges = {
            name: optuna.distributions.FloatDistribution(low, high, log=True)
            for name, (low, high) in space.bounds.items()
        }
        for name, numbers in space.choices.items():
            self.ranges[name] = optuna.distributions.CategoricalDistribution(numbers)
        self.before = config.pretrain_epochs + config.phi.rest_epochs
        for record in self.records:
            self._check_point(record)

    def _check_point(self, record: TrialRecord) -> None:
        bounds, choices = self.space.bounds, self.space.choices
        if (
            record.point.keys() != self.ranges.keys()
            or not all(low <= record.point[name] <= high for name, (low, high) in bounds.items())
            or not all(record.point[name] in numbers for name, numbers in choices.items())
        ):
            raise self.folder.damage_error(
                f"the `point` of trial {record.number} is not in the space"
            )

    def _check_images(self, record: TrialRecord) -> None:
        known = {len(earlier.scores) for earlier in self.records if earlier.scores}
        if record.scores and known - {len(record.scores)}:
            raise self.folder.damage_error(
                f"it has scores of {known.pop()} validation images, and there are "
                f"{len(record.scores)}"
            )

    def is_over(self, budget: float | None) -> bool:
        """Whether the time is up; the first trial is always run."""
        spent = sum(record.seconds for record in self.records)
        return budget is not None and bool(self.records) and spent >= budget

    def settings_of(self, record: TrialRecord, config: TrainSettings) -> TrainSettings:
        """The settings of a trial, as it was run; those of the first are the ones given."""
        return config.override(record.changes)

    def run_next(self) -> None:
        """Run one more trial, and keep its record."""
        number, study = len(self.records), self._study()
        trial = study.ask(self.ranges)
        chosen = self.space.settings_at(self.config, trial.params) if number else self.config
        record = TrialRecord(
            number=number,
            state="running",
            point=dict(trial.params),
            ranges=self.space.ranges(trial.params) if number else self.space.own_ranges,
            changes=changed_settings(self.config, chosen),
        )
        record = self._run_trial(study, trial, record)
        self._check_images(record)
        self.records.append(record)
        self.folder.write_trials(self.records)
        self.on_change(self.records)

    def _study(self) -> "Study":
        """An Optuna study with the trials so far."""
        optuna, number, rungs = self.optuna, len(self.records), rung_epochs(self.config)
        seeds = np.random.SeedSequence([self.config.seed, number])
        study: Study = optuna.create_study(
            direction="maximize",
            sampler=optuna.samplers.TPESampler(
                seed=int(seeds.generate_state(1)[0]), n_startup_trials=N_RANDOM_TRIALS
            ),
            pruner=optuna.pruners.SuccessiveHalvingPruner(
                min_resource=rungs[0] - self.before if rungs else 1,
                reduction_factor=REDUCTION_FACTOR,
            ),
        )
        for record in self.records:
            study.add_trial(self._to_optuna(record))
        if number < len(self.space.points):
            study.enqueue_trial(self.space.points[number])
        return study

    def write_best(self, config: TrainSettings, command: str) -> None:
        """Write the best settings so far, if any trial is complete.

        Arguments:
            config: The settings that the search began with.
            command: What was typed.
        """
        if verdict := judge(self.records):
            found = verdict.describe(config.task)
            summary = f"{command}: best of {len(self.records)} trials; {found}"
            self.folder.write_tuned(self.settings_of(verdict.best, config), summary)

    def _run_trial(self, study: "Study", trial: "Trial", record: TrialRecord) -> TrialRecord:
        started = time.monotonic()
        rungs: list[tuple[int, float]] = []

        def report(epoch: int, score: float) -> bool:
            rungs.append((epoch, score))
            trial.report(score, epoch - self.before)
            self.on_change([*self.records, replace(record, rungs=tuple(rungs))])
            return trial.should_prune()

        self.on_change([*self.records, record])
        settings = self.settings_of(record, self.config)
        scores: Sequence[float] | None = None
        reason = ""
        try:
            scores = self.run(settings, self.folder.run_folder(record.number), report)
        except (Interrupted, DataError, WeightsFileError, OSError):  # not the settings' fault
            raise
        except Exception as error:
            if _is_user_error(error) and not record.number:
                raise
            reason = describe_error(error) or type(error).__name__
        state: TrialState = "failed" if reason else "pruned" if scores is None else "complete"
        frozen = study.tell(
            trial,
            fmean(scores) if scores else None,
            state=_optuna_state(self.optuna, state),
        )
        return replace(
            record,
            state=state,
            rungs=tuple(rungs),
            scores=tuple(scores or ()),
            seconds=time.monotonic() - started,
            memory=dict(frozen.system_attrs),
            reason=reason,
        )

    def _to_optuna(self, record: TrialRecord) -> Any:
        """A trial as Optuna stores it; the rungs of one that failed must not prune others."""
        failed = record.state == "failed"
        return self.optuna.trial.create_trial(
            state=_optuna_state(self.optuna, record.state),
            value=fmean(record.scores) if record.scores else None,
            params=record.point,
            distributions=self.ranges,
            intermediate_values={}
            if failed
            else {epoch - self.before: score for epoch, score in record.rungs},
            system_attrs={} if failed else record.memory,
        )


def _is_user_error(error: Exception) -> bool:
    """Whether the settings cannot work at all, as opposed to training that diverges."""
    return isinstance(error, InstaAugError) and not isinstance(error, NonFiniteError)


def _check(config: TrainSettings, n_trials: int) -> None:
    if n_trials < 1:
        raise ArgumentError(f"`trials` must be at least 1: got {n_trials}.")
    if config.method.name == "instaaug" and config.entropy.rule == "fixed":
        raise ArgumentError(
            "`entropy.rule` must hold the entropy in its band to tune it: got 'fixed'. Choose "
            "'pi'."
        )
    if config.trainer.devices * config.trainer.num_nodes > 1:
        raise ArgumentError(
            "`trainer.devices` and `trainer.num_nodes` must be 1 in tuning: got "
            f"{config.trainer.devices} and {config.trainer.num_nodes}. Train on several with the "
            "result."
        )
    before = config.pretrain_epochs + config.phi.rest_epochs
    if config.trainer.max_epochs <= before:
        raise ArgumentError(
            f"`trainer.max_epochs` must be more than the {before} in which φ does not learn: got "
            f"{config.trainer.max_epochs}."
        )


def _optuna_state(optuna: Any, state: TrialState) -> Any:
    names = {"complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}
    return optuna.trial.TrialState[names[state]]
