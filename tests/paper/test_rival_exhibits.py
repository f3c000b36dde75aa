"""Table 2, Figure 5, the decomposition and the regression, shrunk, through all of their code."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from paper import decomposition, regression, rotations, table2, turned_photos
from paper.decomposition import World, measure_terms
from paper.exhibits import SCALES, Findings, MissingData, Plan, Scale
from tests.support.spots import Spotter, spot_folder

TINY = World(n_train=8, n_steps=2, batch_size=8, n_draws=4)


def plan_in(folder: Path, scale: Scale = "laptop", *overrides: str) -> Plan:
    return Plan(scale, 2, folder, overrides)


def scores_of(found: Findings, name: str) -> list[float | None]:
    (row,) = [row for row in found.rows if row.name == name]
    return [None if score is None else score.mean for score in row.ours]


# --- the decomposition --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", decomposition.TITLES)
def test_the_terms_add_up_to_the_generalization_error(kind: Any) -> None:
    terms = measure_terms(kind, 0.5, 0, TINY)
    gap = terms.training_risk - terms.true_risk
    assert terms.label + terms.coverage + terms.noise == pytest.approx(gap, abs=1e-5)


def test_labels_are_lost_to_large_rotations_alone() -> None:
    """Term A is that of the formula: half of the labels change on the circle."""
    world = World(n_train=60, certainty=1e4, n_steps=0, n_draws=30)
    small, large = (measure_terms("random", entropy, 0, world) for entropy in (-6.0, 1.838))
    assert abs(small.label) < 0.01
    assert abs(small.noise) < 1e-6  # labels are certain
    assert abs(large.coverage) < 0.02  # all of the circle is covered


def test_probabilities_are_those_of_the_world() -> None:
    truth = World(certainty=2.0).probabilities(torch.tensor([0, 1]), torch.tensor([0.0, torch.pi]))
    up = float(torch.sigmoid(torch.tensor(2.0)))
    torch.testing.assert_close(
        truth, torch.tensor([[up, 1 - up, 0.0, 0.0], [0.0, 0.0, 1 - up, up]])
    )


@pytest.mark.slow  # draws
def test_the_figure_shows_both_kinds_and_is_not_computed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decomposition, "ENTROPIES", (0.0, 1.0))
    shrunk = ("--n_train", "8", "--n_steps", "1", "--n_draws", "2")
    found = decomposition.measure(plan_in(tmp_path, "laptop", *shrunk))
    assert len(found.rows) == 4
    assert found.pictures[0].is_file()
    monkeypatch.setattr(decomposition, "measure_terms", None)
    assert decomposition.measure(plan_in(tmp_path, "laptop", *shrunk)).rows == found.rows


# --- Figure 5 -----------------------------------------------------------------------------------


@pytest.mark.slow  # draws
@pytest.mark.parametrize("scale", SCALES)
def test_figure_5_has_augerino_as_the_rival(
    scale: Scale, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INSTAAUG_DATA", raising=False)
    shrunk = ("--n_train", "32", "--n_test", "32", "--n_steps", "1", "--batch_size", "8")
    found = rotations.measure(plan_in(tmp_path, scale, *shrunk))
    assert [row.name for row in found.rows] == ["Augerino", "InstaAug without input", "InstaAug"]
    assert found.pictures[0].is_file()
    monkeypatch.setattr(rotations, "learn_rotations", None)
    assert rotations.measure(plan_in(tmp_path, scale, *shrunk)).rows == found.rows


# --- the regression -----------------------------------------------------------------------------


@pytest.fixture
def _groceries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    parts = [(part, n, kind) for part, n in (("train", 8), ("test", 2)) for kind in "ab"]
    for part, n, kind in parts:
        folder = tmp_path / "data" / turned_photos.PHOTOS / part / kind
        folder.mkdir(parents=True)
        for i in range(n):
            pixels = generator.integers(0, 256, (40, 48, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{i}.png")
    monkeypatch.setenv("INSTAAUG_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    turned_photos.load_turned.cache_clear()


@pytest.mark.usefixtures("_groceries")
def test_photos_are_turned_by_their_target_and_seen_through_a_disc() -> None:
    splits = turned_photos.load_turned(size=16)
    angles = torch.cat([splits.train.targets, splits.test.targets])
    assert float(angles.abs().max()) <= torch.pi / 4
    corner = torch.stack([splits.test[i][0] for i in range(4)])[:, :, :2, :2]
    assert not corner.any()


@pytest.mark.slow
@pytest.mark.usefixtures("_groceries")
@pytest.mark.parametrize("scale", SCALES)
def test_the_regression_runs_with_both_losses(scale: Scale, tmp_path: Path) -> None:
    shrunk = (
        *("--trainer.max_epochs", "1", "--pretrain_epochs", "0", "--data.batch_size", "8"),
        *("--data.options", "{size: 16}", "--model.width", "0.1", "--views.n_views", "2"),
    )
    found = regression.measure(plan_in(tmp_path / "out", scale, *shrunk))
    assert len(found.rows) == len(regression.LINES)
    assert "wider than 0.0°" not in found.notes[0]  # the learned ranges are found
    assert all(score and score.mean > 0 for row in found.rows for score in row.ours)
    before = sorted((tmp_path / "out").rglob("results.json"))
    stamps = [file.stat().st_mtime_ns for file in before]
    regression.measure(plan_in(tmp_path / "out", scale, *shrunk))
    assert stamps == [file.stat().st_mtime_ns for file in before]


# --- Table 2 ------------------------------------------------------------------------------------


class TimmModel(Spotter):
    """What timm would give: it knows its own size and normalization."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.pretrained_cfg = {
            "input_size": (3, size, size),
            "mean": (0.1, 0.1, 0.1),
            "std": (0.5, 0.5, 0.5),
        }


@pytest.fixture
def _timm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def create_model(name: str, *, pretrained: bool) -> nn.Module:
        assert pretrained
        return TimmModel(24 if name.startswith("xcit") else 16)

    timm = ModuleType("timm")
    timm.create_model = create_model  # type: ignore[attr-defined]
    timm.__spec__ = sys.__spec__
    monkeypatch.setitem(sys.modules, "timm", timm)
    for part, n in (("train", 8), ("val", 5)):
        spot_folder(tmp_path / "data" / "imagenet" / part, n)
    monkeypatch.setenv("INSTAAUG_DATA", str(tmp_path / "data"))


@pytest.mark.slow
@pytest.mark.usefixtures("_timm")
def test_table_2_goes_through_all_of_its_code_at_the_papers_scale(tmp_path: Path) -> None:
    shrunk = (
        *("--crop.grid", "[[1, 1], [0.5, 2], [0.4, 3]]", "--phi.steps", "2"),
        *("--model.image_size", "16", "--data.decode_size", "32", "--entropy", "[1.0, 1.5]"),
        *("--phi.objective", "single", "--data.cache_dir", str(tmp_path / "cache")),
    )
    plan = Plan("paper", 1, tmp_path / "out", shrunk)
    found = table2.measure(plan)
    assert found.columns == ("ResNet50", "ResNet18", "XCiT")
    assert [row.name for row in found.rows[:2]] == ["No aug, n = 1", "Random crop, n = 4"]
    assert all(score is not None for row in found.rows for score in row.ours)
    assert scores_of(found, "InstaAug, n = 4")[0] == pytest.approx(
        scores_of(found, "InstaAug, n = 4")[1]  # the same model, but in name
    )
    assert table2.measure(plan).rows == found.rows


def test_table_2_says_which_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table2, "find_spec", lambda _: None)
    with pytest.raises(MissingData, match=r"the package timm is not installed: pip install timm"):
        table2.find_setting("paper")
    with pytest.raises(MissingData, match=r"efficientnet_lite_pytorch is not installed"):
        table2.find_setting("laptop")
