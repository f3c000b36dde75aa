"""The paper's scale goes through all of its code, shrunk: few steps, few images, thin networks."""

from pathlib import Path

import pytest
import torch

from paper.__main__ import main
from paper.layout import from_json
from tests.support.data_layouts import make_tiny_imagenet

pytestmark = pytest.mark.slow

SHRUNK = (
    *("--model.width", "0.03", "--phi.width", "0.03", "--data.batch_size", "8"),
    *("--views.n_views", "2", "--trainer.max_epochs", "2", "--trainer.accelerator", "cpu"),
    *("--data.validation_fraction", "0.25"),
)
CROPS = ("--pretrain_epochs", "1", "--data.held_out_fraction", "0.2")
CONTRAST = (
    *("--phi.rest_epochs", "0", "--contrastive.hidden", "8", "--optimizer.warmup_steps", "1"),
)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tiny_imagenet(tmp_path / "data" / "tiny-imagenet", torch.Generator().manual_seed(0))
    monkeypatch.setenv("INSTAAUG_DATA", str(tmp_path / "data"))


def measured(name: str, folder: Path, *options: str) -> list[str]:
    """The rows with a number of ours, once the exhibit is measured."""
    out = folder / "out"
    main([name, "--scale", "paper", "--seeds", "1", "--out", str(out), *options])
    file = out / name / "paper" / "table.json"
    found, _ = from_json(file.read_text(encoding="utf-8"), file.parent)
    assert all(picture.is_file() for picture in found.pictures)
    return [row.name for row in found.rows if row.ours[0] is not None]


def test_table1_and_its_figure(tmp_path: Path) -> None:
    rows = measured("table1", tmp_path, *SHRUNK, *CROPS)
    assert {"No augmentation", "Random crop", "AdaAug", "InstaAug", "Co-Mixup"} <= set(rows)
    measured("figure6", tmp_path)
    assert (tmp_path / "out" / "figure6" / "paper" / "table1_crops.png").is_file()


def test_table5_and_its_figure(tmp_path: Path) -> None:
    rows = measured("table5", tmp_path, *SHRUNK, *CONTRAST)
    assert rows[:4] == ["Un-Mix", "Random crop", "InstaAug without input", "InstaAug"]
    measured("figure8", tmp_path)
    assert (tmp_path / "out" / "figure8" / "paper" / "table5_crops.png").is_file()


def test_windows_of_entropy(tmp_path: Path) -> None:
    assert len(measured("windows", tmp_path, *SHRUNK, *CROPS)) == 15


def test_fixed_weights(tmp_path: Path) -> None:
    assert len(measured("weights", tmp_path, *SHRUNK, *CROPS)) == 10


def test_times(tmp_path: Path) -> None:
    rows = measured("times", tmp_path, "--model.width", "0.03", "--data.batch_size", "8")
    assert "InstaAug, the paper's φ" in rows
