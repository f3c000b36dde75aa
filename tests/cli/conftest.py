"""Every command runs in an empty folder, and knows nothing of the machine."""

from pathlib import Path

import pytest

from tests.support.command_line import QUICK, QUICK_FIT, SPOTTER, CommandLine, run_quietly
from tests.support.picture_folders import plain_folder
from tests.support.spots import spot_folder


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSTAAUG_CACHE", str(tmp_path / ".cache"))
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("INSTAAUG_OUT", "INSTAAUG_DATA", "LOCAL_RANK", "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def instaaug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the images ``pets`` and the run ``run`` that was trained on them."""
    folder = tmp_path_factory.mktemp("shop")
    plain_folder(folder / "pets")
    run_quietly(folder, "train", folder / "pets", "--out", folder / "run", *QUICK)
    return folder


@pytest.fixture(scope="session")
def contrast(shop: Path) -> Path:
    """The folder of a contrastive run on the same images."""
    task = ("--task", "contrastive", "--contrastive.hidden", 8)
    run_quietly(shop, "train", shop / "pets", "--out", shop / "contrast", *task, *QUICK)
    return shop / "contrast"


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the images ``spots`` and the fit ``fit`` to half of them."""
    folder = tmp_path_factory.mktemp("tta")
    spot_folder(folder / "spots", 24)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("instaaug.runs.tta.N_PHOTOS", 2)
        command = ("tta", "fit", SPOTTER, folder / "spots", "--out", folder / "fit", *QUICK_FIT)
        (folder / "printed.txt").write_text(run_quietly(folder, *command))
    return folder
