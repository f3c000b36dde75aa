"""Exhibits of colors, through all of their code: the paper's scale on a tiny RawFooT."""

from pathlib import Path
from typing import Any

import pytest
import torch

from instaaug.errors import ArgumentError
from paper import colors
from paper.catalog import find_exhibit
from paper.exhibits import Findings, MissingData, Plan
from paper.textures import load_lit, load_validation
from tests.support.data_layouts import draw_picture, make_rawfoot

SHRUNK = (
    *("--data.image_size", "16", "--data.batch_size", "8"),
    *("--data.options", "{train_patches: 8, test_patches: 1}"),
    *("--model.width", "0.03", "--phi.width", "0.03"),
    *("--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--views.n_views", "2"),
)
FEW = ("random-hsv-0.0-0.0-0.0", "random-hsv-0.1-0.2-0.4", "random-hsv-0.5-1.0-1.0")


def make_textures(root: Path) -> None:
    """Two materials of 20 photos, in the layout of KTH-TIPS."""
    generator = torch.Generator().manual_seed(0)
    for kind in ("cork", "wool"):
        for i in range(20):
            draw_picture(root / "kth-tips-128" / kind / f"{i:02}.png", 64, generator)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INSTAAUG_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(colors, "SWEEP", {name: colors.SWEEP[name] for name in FEW})
    return tmp_path / "data"


def measure(name: str, out: Path, scale: Any, *overrides: str, seeds: int = 1) -> Findings:
    folder = out / name / scale
    folder.mkdir(parents=True, exist_ok=True)
    return find_exhibit(name).measure(Plan(scale, seeds, folder, overrides))


@pytest.mark.slow
def test_the_tables_of_the_paper_run_at_its_scale(data: Path, tmp_path: Path) -> None:
    make_rawfoot(data / "rawfoot", torch.Generator().manual_seed(0))
    third = measure("table3", tmp_path, "paper", *SHRUNK)
    assert len(third.rows) == 11
    runs = tmp_path / "colors" / "paper"
    assert len(list(runs.glob("d45/*/seed_0/results.json"))) == 6
    fourth = measure("table4", tmp_path, "paper", *SHRUNK)
    assert fourth.columns == ("1 light", "2 lights", "4 lights", "8 lights")
    assert all(score is not None for row in fourth.rows for score in row.ours)
    before = {file: file.stat().st_mtime_ns for file in runs.rglob("results.json")}
    scatter = measure("figure7", tmp_path, "paper", *SHRUNK)
    assert scatter.pictures[0].is_file()
    assert "of the 216" in scatter.notes[-1].lower()
    assert measure("figure-color", tmp_path, "paper", *SHRUNK).pictures[0].is_file()
    after = {file: file.stat().st_mtime_ns for file in runs.rglob("results.json")}
    assert before.items() <= after.items()  # nothing was trained twice
    assert len(after) == len(before) + len(FEW)


@pytest.mark.slow
def test_random_colors_are_chosen_on_validation_photos(data: Path, tmp_path: Path) -> None:
    make_textures(data)
    short = ("--trainer.max_epochs", "1", "--views.n_views", "2")
    runs = colors.ColorRuns(Plan("laptop", 2, tmp_path / "table3" / "laptop", short))
    assert runs.random.label in FEW
    known = {
        file.parent.name: file.read_text()
        for file in (tmp_path / "colors" / "laptop" / "sweep").glob("*/validation.json")
    }
    assert set(known) == set(FEW)
    assert runs.score("random", views=True).runs == 2
    (tmp_path / "colors" / "laptop" / "sweep" / FEW[0] / "processor.json").unlink()
    assert len(runs.sweep()) == 3  # as if it had been killed at its very end
    longer = ("--trainer.max_epochs", "2", "--views.n_views", "2")
    with pytest.raises(ArgumentError, match="must have been made with the settings"):
        colors.ColorRuns(Plan("laptop", 2, tmp_path / "table3" / "laptop", longer)).sweep()
    assert "best of 216" in runs.describe_choice()[0]


def test_training_and_test_photos_of_textures_differ(data: Path) -> None:
    make_textures(data)
    splits = load_lit("1-46", n_train_lights=4, seed=3)
    assert splits.validation is not None
    names = [
        {part.name(i).split(" under ")[0] for i in range(len(part))}
        for part in (splits.train, splits.validation, splits.test, load_validation())
    ]
    assert names[1] == names[3]
    assert not names[0] & names[1]
    assert not names[0] & names[2]
    assert not names[1] & names[2]
    used = {splits.train.name(i).split(" under ")[1] for i in range(len(splits.train))}
    assert len(used) == 4
    groups = {name: len(own) for name, own in splits.test.group_indices().items()}
    assert sum(groups.values()) == 4 * len(names[2])


def test_lacking_photos_are_said(data: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="'rawfoot'"):
        measure("table3", tmp_path, "paper")
