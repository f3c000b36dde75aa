"""Augmenters in folders and on the Hub, without a network."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from instaaug import InstaAug
from instaaug.augmentation.hub import MissingHubError
from instaaug.errors import WeightsFileError
from instaaug.transforms import Crop
from tests.support.models import OwnNetwork, images
from tests.support.tiny_training import parameters_of


def augmenter(**settings: Any) -> InstaAug:
    torch.manual_seed(0)
    return InstaAug(Crop(levels=((1.0, 1), (0.5, 2))), **settings)


def test_a_folder_has_all_and_needs_no_other_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # importing it raises
    aug = augmenter()
    aug.band.weight.fill_(0.25)
    aug.save_pretrained(tmp_path / "new" / "folder")
    again = InstaAug.from_pretrained(tmp_path / "new" / "folder")
    assert {p.name for p in (tmp_path / "new" / "folder").iterdir()} == {
        "README.md", "aug.safetensors",
    }  # fmt: skip
    assert parameters_of(again).equal(parameters_of(aug))
    assert float(again.weight) == 0.25
    x = images()
    both = (a.eval().distribution(x).entropies() for a in (aug, again))
    assert torch.equal(*both)


def test_a_page_that_is_there_is_kept(tmp_path: Path) -> None:
    aug = augmenter()
    aug.save_pretrained(tmp_path)
    assert "entropy in" in (tmp_path / "README.md").read_text()
    (tmp_path / "README.md").write_text("my own words")
    aug.save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "my own words"


def test_a_network_of_ones_own_is_given_again(tmp_path: Path) -> None:
    aug = augmenter(network=OwnNetwork())
    aug.save_pretrained(tmp_path)
    again = InstaAug.from_pretrained(tmp_path, network=OwnNetwork())
    assert parameters_of(again).equal(parameters_of(aug))


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    torch.save({}, tmp_path / "aug.safetensors")
    with pytest.raises(WeightsFileError, match="is a pickle, which can run any code"):
        InstaAug.from_pretrained(tmp_path)


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (lambda: InstaAug.from_pretrained("user/x"), lambda: augmenter().push_to_hub("x")):
        with pytest.raises(MissingHubError, match=r"pip install 'instaaug\[hub\]'"):
            call()


def test_a_repository_gets_the_files_of_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls, at least: there is no Hub to talk to here."""
    seen: dict[str, Any] = {}

    class Api:
        def create_repo(self, repo_id: str, **options: Any) -> Any:
            seen["made"] = options
            return SimpleNamespace(repo_id=f"user/{repo_id}")

        def upload_folder(self, *, repo_id: str, folder_path: Path, commit_message: str) -> None:
            seen["files"] = sorted(p.name for p in folder_path.iterdir())
            seen["again"] = InstaAug.from_pretrained(folder_path)
            seen["repo"] = repo_id, commit_message

    fake = ModuleType("huggingface_hub")
    fake.HfApi = Api  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    aug = augmenter()
    assert "user/flowers" in aug.push_to_hub("flowers", private=True)
    assert seen["made"] == {"private": True, "exist_ok": True}
    assert seen["files"] == ["README.md", "aug.safetensors"]
    assert seen["repo"] == ("user/flowers", "Add augmenter")
    assert parameters_of(seen["again"]).equal(parameters_of(aug))


# --- with huggingface_hub itself, where it is installed -----------------------------------------


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its cache, in which nothing is; and no network."""
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)  # it reads HF_HUB_OFFLINE=1 once
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def test_a_repository_that_was_fetched_is_read_without_a_network(offline: Path) -> None:
    aug = augmenter()
    commit, home = "0" * 40, offline / "models--user--flowers"
    aug.save_pretrained(home / "snapshots" / commit)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(commit)
    again = InstaAug.from_pretrained("user/flowers")
    assert parameters_of(again).equal(parameters_of(aug))
    same = InstaAug.from_pretrained("user/flowers", revision=commit)
    assert parameters_of(same).equal(parameters_of(aug))


@pytest.mark.parametrize("name", ["user/unknown", "no such/repository/at all"])
def test_a_repository_that_cannot_be_reached_is_one_sentence(name: str, offline: Path) -> None:
    with pytest.raises(WeightsFileError, match=f"`name` must be a folder, or .* got '{name}' "):
        InstaAug.from_pretrained(name)
