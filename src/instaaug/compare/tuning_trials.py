"""The trials of a search: how one is trained and scored, and the folder that keeps them all."""

import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from math import sqrt
from pathlib import Path
from reprlib import repr  # noqa: A004  # a damaged file may hold a value of any length
from statistics import fmean
from sys import float_info
from typing import Any, Literal

import torch
import yaml
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from typing_extensions import override

from instaaug.compare.state import check_same_settings
from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError, DataError, NonFiniteError
from instaaug.files import write_text
from instaaug.runs.folder import Run, remove_files
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import resume, train
from instaaug.stats import wilson_interval
from instaaug.tasks import (
    AugmentedTask,
    BatchLoader,
    ContrastiveTask,
    RegressionTask,
    make_predictor,
)
from instaaug.tasks.callbacks import AfterTask
from instaaug.tasks.representation import Representation, collect_features
from instaaug.yaml_files import read_yaml

__all__ = [
    "ReportScore",
    "RunTrial",
    "TrialRecord",
    "TrialState",
    "TuningFolder",
    "parse_trials",
    "run_trial",
    "rung_epochs",
]

TrialState = Literal["running", "complete", "pruned", "failed"]
ENDED = ("complete", "pruned", "failed")
ONE_SIGMA = 0.6827
PRUNER_PREFIX = "completed_rung_"  # of what Optuna's pruner remembers as numbers
SPLIT_HASH = "split_hash"
FIRST_RUNG_SHARE = 8  # the first comparison is after an eighth of the epochs

ReportScore = Callable[[int, float], bool]
"""Receives the number of epochs done and the score; returns whether the trial should end."""

RunTrial = Callable[[TrainSettings, Path, ReportScore], Sequence[float] | None]
"""Returns the score of each validation image, or None for a trial that was cut short."""


@dataclass(frozen=True)
class TrialRecord:
    """The settings and the result of one trial, a row of ``trials.json``.

    Arguments:
        number: From 0, which is the trial of the unchanged settings.
        state: Pruned trials were cut short; failed ones ended with a NaN or another error.
        point: Its point in the search space.
        ranges: Entropy bands as diversity, or the ranges of random transforms; none for random
            transforms among learned ones.
        changes: The settings that differ from the unchanged ones.
        rungs: Pairs (epochs, mean score), one for each comparison with other trials.
        scores: The score of each validation image, 1 is best; empty unless complete.
        seconds: How long it took.
        memory: What Optuna's pruner must remember.
        reason: Why it failed.
    """

    number: int
    state: TrialState
    point: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    changes: dict[str, Any]
    rungs: tuple[tuple[int, float], ...] = ()
    scores: tuple[float, ...] = ()
    seconds: float = 0.0
    memory: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    @property
    def score(self) -> float | None:
        """The mean over the validation images; for a trial cut short, the last one seen."""
        if self.scores:
            return fmean(self.scores)
        return self.rungs[-1][1] if self.rungs else None

    @property
    def error(self) -> float:
        """The standard error of the score; for an accuracy, the binomial one.

        Where all images are right, or none, that would be 0: there it is half of Wilson's
        interval.
        """
        n, mean = len(self.scores), fmean(self.scores)
        if set(self.scores) in ({0.0}, {1.0}):
            low, high = wilson_interval(round(n * mean), n, confidence=ONE_SIGMA)
            return (high - low) / 2
        return sqrt(fmean((score - mean) ** 2 for score in self.scores) / n)


def parse_trials(text: str) -> list[TrialRecord]:
    """The finished trials in the text of ``trials.json``, in order.

    Raises:
        ValueError: If the text is damaged.

    Example:
        >>> parse_trials('[{"number": 0}]')
        Traceback (most recent call last):
        ...
        ValueError: trial 0 has no `state`
    """
    try:
        rows = json.loads(text)
    except RecursionError:
        raise ValueError("it is too deep") from None
    if not isinstance(rows, list):
        raise ValueError(f"it is no list of trials but {repr(rows)}")
    records = [_parse_record(row, number) for number, row in enumerate(rows)]
    if len(lengths := {len(r.scores) for r in records if r.state == "complete"}) > 1:
        raise ValueError(f"its trials have scores of {sorted(lengths)} images, not of the same")
    return records


def _parse_record(row: Any, number: int) -> TrialRecord:
    where = f"trial {number}"
    if not isinstance(row, dict):
        raise ValueError(f"{where} is {repr(row)}")
    names = [item.name for item in fields(TrialRecord)]
    if absent := [name for name in names if name not in row]:
        raise ValueError(f"{where} has no `{absent[0]}`")
    if unknown := [name for name in row if name not in names]:
        raise ValueError(f"{where} has {repr(unknown[0])}, which is not known")
    good = {
        "number": type(row["number"]) is int and row["number"] == number,
        "state": row["state"] in ENDED,
        "point": _holds(row["point"], lambda _, value: _is_number(value)),
        "ranges": _holds(row["ranges"], lambda _, ends: _is_pair(ends) and _are_numbers(ends)),
        "changes": isinstance(row["changes"], dict),
        "rungs": isinstance(row["rungs"], list) and all(map(is_rung, row["rungs"])),
        "scores": _are_numbers(row["scores"])
        and bool(row["scores"]) == (row["state"] == "complete"),
        "seconds": _is_number(row["seconds"]) and row["seconds"] >= 0,
        "memory": _holds(row["memory"], _is_memory),
        "reason": isinstance(row["reason"], str),
    }
    if wrong := [name for name, is_good in good.items() if not is_good]:
        raise ValueError(f"the `{wrong[0]}` of {where} is {repr(row[wrong[0]])}")
    return TrialRecord(
        **{
            **row,
            "ranges": {name: (low, high) for name, (low, high) in row["ranges"].items()},
            "rungs": tuple((epoch, score) for epoch, score in row["rungs"]),
            "scores": tuple(float(score) for score in row["scores"]),
        }
    )


def is_rung(row: Any) -> bool:
    """Whether a value read from JSON is a number of epochs with the score after them.

    Example:
        >>> is_rung([2, 0.5]), is_rung([2.5, 0.5]), is_rung([2, float("nan")]), is_rung(2)
        (True, False, False, False)
    """
    return _is_pair(row) and type(row[0]) is int and row[0] > 0 and _is_number(row[1])


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= float_info.max


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_number, values))


def _holds(values: Any, is_good: Callable[[str, Any], bool]) -> bool:
    return isinstance(values, dict) and all(is_good(*item) for item in values.items())


def _is_memory(name: str, value: Any) -> bool:
    return not name.startswith(PRUNER_PREFIX) or _is_number(value)


class TuningFolder:
    """The files of a search.

    ``tuning.yaml`` the settings it was started with; ``trials.json`` a line per finished trial;
    ``trials/`` a run each; ``tuned.yaml`` the best settings so far; ``tuning.png`` and
    ``tuning.svg`` the curve.

    Arguments:
        path: The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.settings_file = self.path / "tuning.yaml"
        self.trials_file = self.path / "trials.json"
        self.tuned_file = self.path / "tuned.yaml"
        self.figures = [self.path / "tuning.png", self.path / "tuning.svg"]

    def start(self, config: TrainSettings, split_hash: str) -> bool:
        """Begin a search, or go on with one of the same settings and images.

        Returns:
            Whether it is new.
        """
        if not self.settings_file.is_file():
            write_text(
                self.settings_file, _to_yaml({**config.to_mapping(), SPLIT_HASH: split_hash})
            )
            return True
        there, known_hash = self._read_start()
        check_same_settings(there, config, owner=f"the search in {str(self.path)!r}")
        if known_hash != split_hash:
            raise ArgumentError(
                f"`data` must be the same images as in the search in {str(self.path)!r}: got "
                "others. Choose another folder."
            )
        return False

    def has_settings(self, config: TrainSettings) -> bool:
        """Whether it holds a search with these settings, up to those without an effect."""
        if not self.settings_file.is_file():
            return False
        try:
            check_same_settings(self.read_settings(), config.with_full_paths(), owner="it")
        except ArgumentError:
            return False
        return True

    def read_settings(self) -> TrainSettings:
        """The settings it was started with."""
        return self._read_start()[0]

    def _read_start(self) -> tuple[TrainSettings, Any]:
        """The settings it was started with, and the hash of the images."""
        content = read_yaml(self.settings_file)
        known_hash = content.pop(SPLIT_HASH, None)
        return TrainSettings.from_mapping(content, source=str(self.settings_file)), known_hash

    @classmethod
    def find(cls, candidates: Iterable[Path], config: TrainSettings) -> "TuningFolder":
        """The first folder that is new or holds a search with the same settings."""
        folders = map(cls, candidates)
        return next(f for f in folders if not f.path.exists() or f.has_settings(config))

    def undo_start(self) -> None:
        """Remove what `start` wrote, for a search whose first trial could not begin."""
        runs = self.run_folder(0).parent
        if runs.is_dir() and not any(runs.iterdir()):
            runs.rmdir()
        remove_files([self.settings_file])

    def run_folder(self, number: int) -> Path:
        """Where a trial trains."""
        return self.path / "trials" / f"{number:03d}"

    def read_trials(self) -> list[TrialRecord]:
        """The finished trials, in order."""
        if not self.trials_file.is_file():
            return []
        try:
            return parse_trials(self.trials_file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise self.damage_error(str(error)) from None

    def damage_error(self, reason: str) -> DataError:
        """The error for a damaged ``trials.json``."""
        return DataError(
            f"{str(self.trials_file)!r} must be as the search wrote it: {reason}. Restore it, or "
            "begin a search in another folder."
        )

    def write_trials(self, records: Sequence[TrialRecord]) -> None:
        """Write the finished trials, a line each."""
        lines = ",\n".join(json.dumps(vars(record)) for record in records)
        write_text(self.trials_file, f"[\n{lines}\n]\n")

    def write_tuned(self, config: TrainSettings, summary: str) -> None:
        """Write the best settings for ``instaaug train``, below a comment on their origin."""
        comment = f"# {' '.join(summary.split())}\n"
        write_text(self.tuned_file, comment + _to_yaml(config.to_mapping()))

    def training_command(self, config: TrainSettings) -> str:
        """The command that trains with the settings that were found."""
        source, file = config.data.source, str(self.tuned_file)
        return shlex.join(["instaaug", "train", source, "--config", file])


def _to_yaml(values: dict[str, Any]) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def rung_epochs(config: TrainSettings) -> list[int]:
    """Epochs after which trials are compared: an eighth of those with φ, then twice as many, ...

    The last epoch is not among them: a trial that gets there is complete.

    Example:
        >>> rung_epochs(TrainSettings())  # of 20 epochs
        [3, 6, 12]
        >>> rung_epochs(TrainSettings().override({"trainer.max_epochs": 9, "pretrain_epochs": 5}))
        [6, 7]
    """
    before = config.pretrain_epochs + config.phi.rest_epochs
    n_learning = config.trainer.max_epochs - before
    step = max(1, -(-n_learning // FIRST_RUNG_SHARE))
    rungs = []
    while step < n_learning:
        rungs.append(before + step)
        step *= 2
    return rungs


def run_trial(config: TrainSettings, folder: Path, report: ReportScore) -> Sequence[float] | None:
    """Train, or go on where a trial was interrupted, and score every validation image.

    Scores are those of predictions with test-time augmentation, as at the end of a run: 1 or 0 for
    right or wrong; in a regression, 1 less the squared error in units of the variance, whose mean
    is R²; in contrastive learning, those of a linear probe on the images as they are. The test
    images are not scored: the trial ends before.

    Arguments:
        config: Every setting; it must hold out validation images.
        folder: Receives the run.
        report: Called with the mean score after the epochs of :func:`rung_epochs`.
    """
    run = Run(folder)
    scorer = _ScoreRungs(config, folder / "rungs.json", report)
    try:
        if run.config_file.is_file():
            scorer.replay(saved=run.checkpoint.is_file())
            resume(folder, callbacks=[scorer])
        else:
            train(config, folder, callbacks=[scorer])
    except _TrialEndedError as end:
        run.checkpoint.unlink(missing_ok=True)
        return end.scores
    raise AssertionError("The last epoch ends a trial.")


class _TrialEndedError(Exception):
    """A trial has its scores, or was cut short; its run must not go on to the test images."""

    def __init__(self, scores: Sequence[float] | None) -> None:
        super().__init__()
        self.scores = scores


class _ScoreRungs(AfterTask):
    """Scores the validation images at every rung, and ends the run after the last epoch."""

    def __init__(self, config: TrainSettings, file: Path, report: ReportScore) -> None:
        self.config, self.file, self.report = config, file, report
        self.rungs = rung_epochs(config)
        self.seen: dict[int, float] = {}

    def replay(self, *, saved: bool) -> None:
        """Report again the scores from before an interruption.

        Arguments:
            saved: Whether the run goes on from a checkpoint, rather than from the beginning.
        """
        if saved and self.file.is_file():
            self.seen = self._read_scores()
        for epoch, score in self.seen.items():
            if self.report(epoch, score):
                raise _TrialEndedError(None)

    def _read_scores(self) -> dict[int, float]:
        try:
            rows = json.loads(self.file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            rows = None
        is_whole = isinstance(rows, list) and all(is_rung(row) for row in rows)
        if not is_whole or not {epoch for epoch, _ in rows} <= set(self.rungs):
            raise DataError(
                f"{str(self.file)!r} must be as the trial wrote it, pairs of epochs and scores. "
                f"Restore it, or remove {str(self.file.parent)!r}, and the trial starts again."
            )
        return {epoch: float(score) for epoch, score in rows}

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, AugmentedTask)  # noqa: S101  # made for our tasks
        epoch = trainer.current_epoch + 1
        is_last = epoch == self.config.trainer.max_epochs
        if epoch in self.seen or not (is_last or epoch in self.rungs):
            return
        loader = trainer.val_dataloaders
        assert isinstance(loader, BatchLoader)  # noqa: S101  # the settings hold images out
        if isinstance(pl_module, ContrastiveTask):
            learned = trainer.train_dataloader
            assert isinstance(learned, BatchLoader)  # noqa: S101  # our own
            scores = _probe_scores(pl_module, learned.data, loader.data, self.config)
        else:
            scores = _image_scores(pl_module, loader, self.config)
        if is_last:
            raise _TrialEndedError(scores)
        self.seen[epoch] = sum(scores) / len(scores)
        write_text(self.file, json.dumps(list(self.seen.items())))
        if self.report(epoch, self.seen[epoch]):
            raise _TrialEndedError(None)


def _image_scores(task: AugmentedTask, loader: BatchLoader, config: TrainSettings) -> list[float]:
    """The score of the prediction for each image; 1 is best.

    From views, unless the model has gone over to whole images.
    """
    training = task.training
    n_views = 0 if task.sees_whole_images else config.views.n_views
    predict = make_predictor(
        task, n_samples=n_views, select=config.views.drawn,
        replace=config.views.replace, seed=config.seed,
    )  # fmt: skip
    batches = BatchLoader(
        loader.data, loader.batch_size
    )  # leaves the trainer's own position alone
    pairs = [(predict(x).detach().cpu(), targets.cpu()) for x, targets in batches]
    task.train(training)
    outputs, targets = (torch.cat(column) for column in zip(*pairs, strict=True))
    if not outputs.isfinite().all():
        raise NonFiniteError(
            "Predictions became NaN or infinite. Lower `optimizer.learning_rate`."
        )
    if isinstance(task, RegressionTask):
        return _explained_variance(outputs, targets)
    return [float(right) for right in outputs.argmax(dim=1) == targets]


def _probe_scores(
    task: ContrastiveTask, train: LabeledImages, held_out: LabeledImages, config: TrainSettings
) -> list[float]:
    """1 for each image that a linear probe, fitted to the training images, gets right."""
    training = task.training
    encode = make_predictor(task, model=task.model.encoder)
    (features, targets), (others, right) = (
        collect_features(encode, BatchLoader(images, config.data.batch_size))
        for images in (train, held_out)
    )
    task.train(training)
    if not (features.isfinite().all() and others.isfinite().all()):
        raise NonFiniteError("Features became NaN or infinite. Lower `optimizer.learning_rate`.")
    fitted = Representation.fit(
        features, targets, num_classes=len(train.classes), seed=config.seed
    )
    return [float(is_right) for is_right in fitted.probe(others).argmax(dim=1) == right]


def _explained_variance(outputs: Tensor, targets: Tensor) -> list[float]:
    y = targets.double().reshape(len(targets), -1)
    squared = (outputs.double().reshape(y.shape) - y).square().mean(dim=1)
    variance = (y - y.mean()).square().mean()
    return [float(s) for s in 1 - squared / (variance if variance > 0 else 1.0)]
