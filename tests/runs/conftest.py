"""Every run starts in an empty folder; the sprites are few."""

from pathlib import Path

import pytest

from instaaug.data import LabeledImages
from instaaug.runs.tta import FittedViews
from tests.support.fitted_views import fit_spots, load_spots

N_TRAIN, N_TEST = 48, 16


def few_sprites(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("instaaug.data.sprites.N_TRAIN", N_TRAIN)
    patch.setattr("instaaug.data.sprites.N_TEST", N_TEST)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSTAAUG_CACHE", str(tmp_path / ".cache"))
    few_sprites(monkeypatch)
    for name in ("INSTAAUG_DATA", "LOCAL_RANK", "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def spots(tmp_path_factory: pytest.TempPathFactory) -> LabeledImages:
    return load_spots(tmp_path_factory.mktemp("spots"))


@pytest.fixture(scope="session")
def fitted(spots: LabeledImages) -> FittedViews:
    return fit_spots(spots)
