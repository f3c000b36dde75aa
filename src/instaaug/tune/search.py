"""Find the entropy band and φ's learning rate by training with many of them, most only briefly."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from instaaug.augmentation import InstaAug
from instaaug.compare.lone_run import sentence_of
from instaaug.errors import ArgumentError, DataError, InstaAugError, NonFiniteError
from instaaug.methods.fast_auto_augment import import_optuna, quiet_optuna
from instaaug.runs.build import build_task
from instaaug.runs.folder import DataFacts
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import OnProgress, load_splits
from instaaug.tasks import Interrupted
from instaaug.tune.folder import TuningFolder
from instaaug.tune.space import SearchSpace
from instaaug.tune.trial import RunTrial, run_trial, rungs_of
from instaaug.tune.trial_record import State, TrialRecord
from instaaug.tune.verdict import Verdict, judge

if TYPE_CHECKING:
    from optuna import Study, Trial

__all__ = ["Tuned", "held_out", "tune"]

N_RANDOM = 6  # trials before the sampler trusts what it has seen
HALVING = 2
DEFAULT_VALIDATION = 0.1
OnChange = Callable[[Sequence[TrialRecord]], None]


@dataclass(frozen=True)
class Tuned:
    """What a search came to.

    Arguments:
        config: The settings to train with.
        records: Every trial.
        verdict: Which one is best, and whether by more than chance, for the seed they had.
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
    on_change: OnChange | None = None,
    on_decode: OnProgress | None = None,
) -> Tuned:
    """Search by successive halving, on validation images; the test images are never scored.

    The first trial are the settings as they are, so that nothing is returned that was not seen to
    beat them. All trials have the same seed and the same images. A search that was interrupted,
    in whatever way, goes on when it is called again, and ends as if it had not been. A trial that
    fails is noted as such, and the search goes on, unless the settings or files are at fault.

    Arguments:
        config: The settings to begin with; their ``validation_fraction`` of 0 becomes 0.1 in the
            trials, but stays 0 in what is returned.
        out: The folder of the search, new or to go on with.
        n_trials: How many to run in all.
        budget: Seconds of all trials together after which none begins any more.
        command: What was typed, for the first line of ``tuned.yaml``.
        run: Trains and scores one trial.
        on_change: Called with all trials whenever one has begun, was compared, or has ended.
        on_decode: Called with the number of files decoded and of all files.
    """
    import_optuna()  # or nothing is worth beginning
    config = config.with_full_paths()
    _check(config, n_trials)
    folder, tried = TuningFolder(out), held_out(config)
    splits = load_splits(tried, on_decode)
    task = build_task(tried, DataFacts.of(splits))
    assert isinstance(task.augmenter, InstaAug)  # noqa: S101  # by its method
    space = SearchSpace.around(tried, task.augmenter)
    is_new = folder.start(config, splits.hash)
    with quiet_optuna() as optuna:
        search = _Search(optuna, tried, space, folder, run, on_change or _ignore)
        while len(search.records) < n_trials and not search.is_over(budget):
            try:
                search.run_next()
            except ArgumentError:  # a slip in the settings shall not take the folder
                if is_new and not search.records:
                    folder.withdraw()
                raise
            if verdict := judge(search.records):
                found = verdict.words(config.task)
                words = f"{command}: best of {len(search.records)} trials; {found}"
                folder.write_tuned(search.settings_of(verdict.best, config), words)
    verdict = judge(search.records)
    if verdict is None:
        raise InstaAugError(
            f"All {len(search.records)} trials failed, the last one so: "
            f"{search.records[-1].reason} If numbers became NaN, lower `learning_rate`, or bound "
            "the gradient by `clip`."
        )
    return Tuned(search.settings_of(verdict.best, config), tuple(search.records), verdict)


def held_out(config: TrainSettings) -> TrainSettings:
    """The settings of the trials: they need validation images."""
    if config.data.validation_fraction:
        return config
    return config.override({"data.validation_fraction": DEFAULT_VALIDATION})


class _Search:
    """The trials so far, and how the next one is found.

    Optuna's study is made anew for every trial, from our own records. What is drawn depends on the
    seed, the number of the trial and the trials before alone: an interrupted trial, asked for
    again, is the same.
    """

    def __init__(
        self,
        optuna: Any,
        config: TrainSettings,
        space: SearchSpace,
        folder: TuningFolder,
        run: RunTrial,
        on_change: OnChange,
    ) -> None:
        self.optuna, self.config, self.space, self.folder = optuna, config, space, folder
        self.run, self.on_change = run, on_change
        self.records = folder.read_trials()
        self.ranges = {
            name: optuna.distributions.FloatDistribution(low, high, log=True)
            for name, (low, high) in space.bounds.items()
        }
        self.before = config.pretrain_epochs + config.phi.rest_epochs
        for record in self.records:
            self._check_point(record)

    def _check_point(self, record: TrialRecord) -> None:
        bounds = self.space.bounds
        if record.point.keys() != bounds.keys() or not all(
            low <= record.point[name] <= high for name, (low, high) in bounds.items()
        ):
            raise self.folder.damaged(f"the `point` of trial {record.number} is not in the space")

    def _check_images(self, record: TrialRecord) -> None:
        known = {len(earlier.scores) for earlier in self.records if earlier.scores}
        if record.scores and known - {len(record.scores)}:
            raise self.folder.damaged(
                f"it has scores of {known.pop()} validation images, and there are "
                f"{len(record.scores)}"
            )

    def is_over(self, budget: float | None) -> bool:
        """Whether the time is up; the first trial is always run."""
        spent = sum(record.seconds for record in self.records)
        return budget is not None and bool(self.records) and spent >= budget

    def settings_of(self, record: TrialRecord, config: TrainSettings) -> TrainSettings:
        """The settings of a trial; those of the first are the ones given."""
        return self.space.settings_at(config, record.point) if record.number else config

    def run_next(self) -> None:
        """Run one more trial, and keep what it came to."""
        number, study = len(self.records), self._study()
        trial = study.ask(self.ranges)
        chosen = self.space.settings_at(self.config, trial.params)
        record = TrialRecord(
            number=number,
            state="running",
            point=dict(trial.params),
            bands=self.space.bands(trial.params) if number else self.space.own_bands,
            phi_learning_rate=chosen.phi.learning_rate,
        )
        record = self._finished(study, trial, record)
        self._check_images(record)
        self.records.append(record)
        self.folder.write_trials(self.records)
        self.on_change(self.records)

    def _study(self) -> "Study":
        """A study that knows the trials so far, and no others."""
        optuna, number, rungs = self.optuna, len(self.records), rungs_of(self.config)
        words = np.random.SeedSequence([self.config.seed, number])
        study: Study = optuna.create_study(
            direction="maximize",
            sampler=optuna.samplers.TPESampler(
                seed=int(words.generate_state(1)[0]), n_startup_trials=N_RANDOM
            ),
            pruner=optuna.pruners.SuccessiveHalvingPruner(
                min_resource=rungs[0] - self.before if rungs else 1, reduction_factor=HALVING
            ),
        )
        for record in self.records:
            study.add_trial(self._frozen(record))
        if not self.records:
            study.enqueue_trial(self.space.start)
        return study

    def _finished(self, study: "Study", trial: "Trial", record: TrialRecord) -> TrialRecord:
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
        except (Interrupted, DataError, OSError):  # the settings of the trial have no part in it
            raise
        except Exception as error:
            if _is_slip(error) and not record.number:
                raise
            reason = sentence_of(error) or type(error).__name__
        state: State = "failed" if reason else "pruned" if scores is None else "complete"
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

    def _frozen(self, record: TrialRecord) -> Any:
        """A trial as Optuna keeps it; one that failed shall not outdo others by how it began."""
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


def _is_slip(error: Exception) -> bool:
    """Whether the settings cannot work at all, rather than having led to a failure."""
    return isinstance(error, InstaAugError) and not isinstance(error, NonFiniteError)


def _ignore(_: Sequence[TrialRecord]) -> None:
    """Nobody wants to know."""


def _check(config: TrainSettings, n_trials: int) -> None:
    if n_trials < 1:
        raise ArgumentError(f"`trials` must be at least 1: got {n_trials}.")
    if config.method.name != "instaaug":
        raise ArgumentError(
            f'`method` must be "instaaug", which has a band to tune: got {config.method.name!r}.'
        )
    if config.task == "contrastive":
        raise ArgumentError(
            "`task` must have labels, by which validation images score a band: got 'contrastive'. "
            "Compare a few bands with `instaaug compare`."
        )
    if config.entropy.rule == "fixed":
        raise ArgumentError(
            '`rule` must hold the entropy in its band to tune it: got "fixed". Choose "pi".'
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
            f"`epochs` must be more than the {before} in which φ does not learn: got "
            f"{config.trainer.max_epochs}."
        )


def _optuna_state(optuna: Any, state: State) -> Any:
    names = {"complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}
    return optuna.trial.TrialState[names[state]]
