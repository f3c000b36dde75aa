"""One trial of tuning: a run that is scored on validation images, and may be cut short."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from typing_extensions import override

from instaaug.errors import DataError, NonFiniteError
from instaaug.files import write_text
from instaaug.runs.folder import Run
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import resume, train
from instaaug.tasks import AugmentedTask, BatchLoader, RegressionTask, make_predictor
from instaaug.tasks.callbacks import AfterTask
from instaaug.tune.trial_record import is_rung

__all__ = ["Report", "RunTrial", "run_trial", "rungs_of"]

Report = Callable[[int, float], bool]
"""Receives the number of epochs done and the score; says whether the trial shall end."""

RunTrial = Callable[[TrainSettings, Path, Report], Sequence[float] | None]
"""Returns the score of each validation image, or None for a trial that was cut short."""

FIRST_SHARE = 8  # the first look is after an eighth of the epochs


def rungs_of(config: TrainSettings) -> list[int]:
    """Epochs after which trials are compared: an eighth of those with φ, then twice as many, ...

    The last epoch is none of them: who has come so far is done.

    Example:
        >>> rungs_of(TrainSettings())  # of 20 epochs
        [3, 6, 12]
        >>> rungs_of(TrainSettings().override({"trainer.max_epochs": 9, "pretrain_epochs": 5}))
        [6, 7]
    """
    before = config.pretrain_epochs + config.phi.rest_epochs
    n_learning = config.trainer.max_epochs - before
    step = max(1, -(-n_learning // FIRST_SHARE))
    rungs = []
    while step < n_learning:
        rungs.append(before + step)
        step *= 2
    return rungs


def run_trial(config: TrainSettings, folder: Path, report: Report) -> Sequence[float] | None:
    """Train, or go on where a trial was interrupted, and score every validation image.

    Scores are those of the prediction that the run would make in the end, with test-time
    augmentation: 1 or 0 for right or wrong; in a regression, 1 less the squared error in units of
    the variance, whose mean is R². The test images are not scored: the trial ends before.

    Arguments:
        config: Every setting; it must hold out validation images.
        folder: Receives the run.
        report: Told the mean score after the epochs of :func:`rungs_of`.
    """
    run = Run(folder)
    looks = _Looks(config, folder / "rungs.json", report)
    try:
        if run.config_file.is_file():
            looks.replay(saved=run.checkpoint.is_file())
            resume(folder, callbacks=[looks])
        else:
            train(config, folder, callbacks=[looks])
    except _TrialEndedError as end:
        run.checkpoint.unlink(missing_ok=True)
        return end.scores
    raise AssertionError("The last epoch ends a trial.")


class _TrialEndedError(Exception):
    """All is known of a trial; its run shall not go on to the test images."""

    def __init__(self, scores: Sequence[float] | None) -> None:
        super().__init__()
        self.scores = scores


class _Looks(AfterTask):
    """Scores the validation images after certain epochs, and ends the run when all is known."""

    def __init__(self, config: TrainSettings, file: Path, report: Report) -> None:
        self.config, self.file, self.report = config, file, report
        self.rungs = rungs_of(config)
        self.seen: dict[int, float] = {}

    def replay(self, *, saved: bool) -> None:
        """Report again what was seen before an interruption.

        Arguments:
            saved: Whether the run goes on from a checkpoint; else it sees everything again.
        """
        if saved and self.file.is_file():
            self.seen = self._read_seen()
        for epoch, score in self.seen.items():
            if self.report(epoch, score):
                raise _TrialEndedError(None)

    def _read_seen(self) -> dict[int, float]:
        try:
            rows = json.loads(self.file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            rows = None
        is_whole = isinstance(rows, list) and all(is_rung(row) for row in rows)
        if not is_whole or not {epoch for epoch, _ in rows} <= set(self.rungs):
            raise DataError(
                f"{str(self.file)!r} must be as the trial wrote it, pairs of epochs and scores. "
                f"Restore it, or remove {str(self.file.parent)!r}, and the trial begins anew."
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
        scores = _image_scores(pl_module, loader, self.config)
        if is_last:
            raise _TrialEndedError(scores)
        self.seen[epoch] = sum(scores) / len(scores)
        write_text(self.file, json.dumps(list(self.seen.items())))
        if self.report(epoch, self.seen[epoch]):
            raise _TrialEndedError(None)


def _image_scores(task: AugmentedTask, loader: BatchLoader, config: TrainSettings) -> list[float]:
    """How good the prediction of each image is; 1 is best."""
    training = task.training
    predict = make_predictor(
        task, n_samples=config.views.n_views, merge=config.views.merge, select=config.views.select,
        seed=config.seed,
    )  # fmt: skip
    batches = BatchLoader(loader.data, loader.batch_size)  # apart from the trainer's own place
    pairs = [(predict(x).detach().cpu(), targets.cpu()) for x, targets in batches]
    task.train(training)
    outputs, targets = (torch.cat(column) for column in zip(*pairs, strict=True))
    if not outputs.isfinite().all():
        raise NonFiniteError("Predictions became NaN or infinite. Lower `learning_rate`.")
    if isinstance(task, RegressionTask):
        return _explained(outputs, targets)
    return [float(right) for right in outputs.argmax(dim=1) == targets]


def _explained(outputs: Tensor, targets: Tensor) -> list[float]:
    y = targets.double().reshape(len(targets), -1)
    squared = (outputs.double().reshape(y.shape) - y).square().mean(dim=1)
    variance = (y - y.mean()).square().mean()
    return [float(s) for s in 1 - squared / (variance if variance > 0 else 1.0)]
