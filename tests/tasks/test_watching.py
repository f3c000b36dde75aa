"""Tables and pictures of a run."""

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-untyped]
    EventAccumulator,
)

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.methods import NoAugmentation, RandomAugmentation
from instaaug.tasks import BatchLoader, MetricsTable, SamplePictures, SupervisedTask
from instaaug.tasks.callbacks import GAP, sample_sheet
from tests.support.tiny_training import SIDE, fit, labeled_halves, supervised

DATA = labeled_halves(32)
PIXELS = DATA.__getitems__(range(3))[0]
CROP = T.Crop(levels=((1.0, 1), (0.5, 2)))


def several() -> InstaAug:
    torch.manual_seed(0)
    return InstaAug([CROP, T.Rotation(), T.HSVJitter()], mean=(0.4,), std=(0.3,))


def trained(
    folder: Path, augmenter: Any, *, pictures: SamplePictures | None = None, epochs: int = 2
) -> tuple[SupervisedTask, EventAccumulator]:
    """A run with a TensorBoard, and what can be read from it."""
    task = supervised(augmenter, mean=(0.4,), std=(0.3,))
    logger = TensorBoardLogger(folder, name="", version="board")
    fit(
        task,
        BatchLoader(DATA, 16, seed=0),
        BatchLoader(DATA, 16),
        epochs=epochs,
        callbacks=[pictures or SamplePictures(PIXELS, n_samples=4)],
        logger=logger,
        log_every_n_steps=1,
    )
    everything = {"scalars": 0, "images": 0, "histograms": 0}
    board = EventAccumulator(str(folder / "board"), size_guidance=everything)
    board.Reload()
    return task, board


# --- the table ----------------------------------------------------------------------------------


def test_the_table_has_the_rows_of_the_history(tmp_path: Path) -> None:
    task = supervised(several())
    fit(
        task,
        BatchLoader(DATA, 16, seed=0),
        BatchLoader(DATA, 16),
        epochs=3,
        callbacks=[MetricsTable(tmp_path / "metrics.csv")],
    )
    with (tmp_path / "metrics.csv").open(newline="") as file:
        rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    assert rows == task.history
    assert [row["epoch"] for row in rows] == [0, 1, 2]


def test_columns_that_begin_later_are_empty_before(tmp_path: Path) -> None:
    """Entropies are known from the second epoch on if the first has no augmentation."""
    task = supervised(several(), pretrain_epochs=1)
    path = tmp_path / "metrics.csv"
    fit(task, BatchLoader(DATA, 16, seed=0), epochs=2, callbacks=[MetricsTable(path)])
    with path.open(newline="") as file:
        entropies = [row["train/entropy/crop"] for row in csv.DictReader(file)]
    assert entropies[0] == ""
    assert float(entropies[1]) == task.history[1]["train/entropy/crop"]


# --- sheets of samples --------------------------------------------------------------------------


@pytest.mark.parametrize("n_samples", [1, 5])
@pytest.mark.parametrize(
    "augmenter", [several(), RandomAugmentation("rotation"), NoAugmentation()]
)
def test_a_sheet_shows_each_image_and_then_its_samples(augmenter: Any, n_samples: int) -> None:
    task = supervised(augmenter, mean=(0.4,), std=(0.3,))
    sheet = sample_sheet(task, PIXELS, n_samples)
    cell = SIDE + 2 * GAP
    assert sheet.shape == (3, 3 * cell, (n_samples + 1) * cell + 4 * GAP)
    rows = sheet.unflatten(1, (3, cell))[:, :, GAP:-GAP].transpose(0, 1)
    torch.testing.assert_close(rows[..., GAP : GAP + SIDE], PIXELS / 255, atol=1e-6, rtol=0)
    generator = torch.Generator().manual_seed(0)
    x = task.normalize(PIXELS)
    task.augmenter.eval()
    theta = task.augmenter.draw(x, n_samples, replace=True, generator=generator)
    with torch.no_grad():
        last = task.augmenter.render(x, theta[-1]) * 0.3 + 0.4
    torch.testing.assert_close(rows[..., -GAP - SIDE : -GAP], last.clamp(0, 1), atol=1e-5, rtol=0)


def test_a_sheet_is_white_between_the_images() -> None:
    black = torch.zeros(2, 3, SIDE, SIDE, dtype=torch.uint8)
    sheet = sample_sheet(supervised(), black, 3)
    assert (sheet == 0).sum() == 2 * 4 * 3 * SIDE * SIDE
    assert set(sheet.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("training", [True, False])
def test_a_sheet_leaves_the_augmenter_in_its_mode(*, training: bool) -> None:
    task = supervised(several())
    task.train(training)
    sample_sheet(task, PIXELS, 2)
    assert task.augmenter.training == training
    assert task.model.training == training


# --- TensorBoard --------------------------------------------------------------------------------


def test_the_board_has_pictures_widths_and_box_sides_of_every_epoch(tmp_path: Path) -> None:
    task, board = trained(tmp_path, several())
    assert [event.step for event in board.Images("samples")] == [2, 4]
    picture = board.Images("samples")[-1]
    assert [3, picture.height, picture.width] == list(sample_sheet(task, PIXELS, 4).shape)
    names = set(board.Tags()["scalars"])
    assert {"width/rotation/0", "width/hsv_jitter/0", "train/loss"} <= names
    assert [event.step for event in board.Histograms("box side/crop")] == [2, 4]
    sides = board.Histograms("box side/crop")[-1].histogram_value
    assert (sides.min, sides.max, sides.num) == (0.5, 1.0, 64 * 3)
    assert isinstance(task.augmenter, InstaAug)
    with torch.no_grad():
        factor = task.augmenter.distribution(task.normalize(PIXELS)).factors["rotation"]
    width = (factor.high - factor.low).mean()  # type: ignore[attr-defined]
    assert board.Scalars("width/rotation/0")[-1].value == pytest.approx(float(width), rel=1e-5)


def test_the_curves_of_the_board_are_those_of_the_history(tmp_path: Path) -> None:
    task, board = trained(tmp_path, several())
    losses = [event.value for event in board.Scalars("train/loss")]
    means = [sum(losses[:2]) / 2, sum(losses[2:]) / 2]
    assert means == pytest.approx([row["train/loss"] for row in task.history], rel=1e-5)
    scores = [event.value for event in board.Scalars("validation/nll")]
    assert scores == pytest.approx([row["validation/nll"] for row in task.history], rel=1e-5)


def test_pictures_can_be_made_less_often(tmp_path: Path) -> None:
    pictures = SamplePictures(PIXELS, n_samples=1, every=2)
    _, board = trained(tmp_path, NoAugmentation(), pictures=pictures, epochs=4)
    assert [event.step for event in board.Images("samples")] == [4, 8]


def test_per_class_distributions_have_no_curve_per_input(tmp_path: Path) -> None:
    torch.manual_seed(0)
    aug = InstaAug(T.Rotation(), conditioning="class", num_classes=2)
    _, board = trained(tmp_path, aug)
    assert not [name for name in board.Tags()["scalars"] if name.startswith("width/")]
    assert len(board.Images("samples")) == 2
