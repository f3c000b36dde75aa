"""Every run starts in an empty folder; the sprites are few."""

from pathlib import Path

import pytest

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
