"""Weights on disk: what is saved comes back, all of it or none."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from instaaug import CropGrid, InstaAug
from instaaug import transforms as T
from instaaug.networks import make_network
from instaaug.transforms import TRANSFORMS
from tests.support.models import OwnNetwork, images, labels
from tests.support.unhooked import unhooked

CROP = T.Crop(levels=((1.0, 1), (0.5, 2)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "aug.safetensors"


def pyramid_grid() -> CropGrid:
    network = make_network("pyramid", in_channels=3, width=1.0)
    return CropGrid.from_receptive_fields(network, (64, 48), layers=(1, 2))


SETTINGS: dict[str, dict[str, Any]] = {
    "several": {"transforms": [CROP, "rotation", "flip", "hsv_jitter"]},
    "limits": {"transforms": [T.Crop(((0.5, 3),), max_outside=0.2), T.Rotation(1.0)]},
    "jitter": {"transforms": T.Crop(levels=((0.5, 3),), jitter=True)},
    "shared": {"transforms": [CROP, "rotation"], "conditioning": "none"},
    "per_class": {"transforms": [CROP, "scale"], "conditioning": "class", "num_classes": 3},
    "value": {"transforms": CROP, "baseline": "value"},
    "critic": {"transforms": ["local_blur", CROP], "baseline": "critic"},
    "exact": {"transforms": CROP, "estimator": "exact"},
    "resnet": {"transforms": CROP, "network": "preact_resnet18", "width": 0.0625},
    "wide": {"transforms": CROP, "width": 1.5},
    "grid": {"transforms": "crop", "grid": pyramid_grid(), "network": "pyramid"},
    "nats": {"transforms": CROP, "entropy": (0.5, 0.7)},
    "bands": {
        "transforms": [CROP, "rotation"],
        "entropy": {"crop": (0.5, 0.7)},
        "diversity": {"rotation": (0.3, 0.4)},
    },
    "normalized": {"transforms": "hsv_jitter", "mean": [0.5] * 3, "std": [0.25] * 3},
    "rule": {"transforms": CROP, "rule": "multiplicative", "weight": 0.02},
    "padding_mode": {"transforms": "rotation", "padding_mode": "reflection"},
    "gray": {"transforms": [CROP, "brightness"], "in_channels": 1},
    **{name: {"transforms": name} for name in sorted(TRANSFORMS)},
}


def augmented(aug: InstaAug) -> Tensor:
    x = images(3, aug.settings.in_channels)
    return aug.eval()(x, 2, torch.Generator().manual_seed(5), labels(3)).inputs


# --- there and back -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
def test_what_was_saved_does_the_same_to_the_last_bit(name: str, path: Path) -> None:
    aug = InstaAug(**SETTINGS[name])
    with torch.no_grad():
        for parameter in aug.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    aug.band.weight.fill_(0.75)
    aug.band.memory.fill_(0.5)
    aug.save(path)
    again = InstaAug.load(path)
    assert torch.equal(augmented(again), augmented(aug))
    assert repr(again) == repr(aug)
    assert again.settings.to_config() == aug.settings.to_config()
    assert again.state_dict().keys() == aug.state_dict().keys()
    assert all(torch.equal(t, again.state_dict()[n]) for n, t in aug.state_dict().items())


def test_the_weight_goes_on_from_where_it_was(path: Path) -> None:
    aug = InstaAug(CROP, entropy=(0.1, 0.2))
    aug.band.low.fill_(1.3)
    aug.band.high.fill_(1.4)
    batch = aug(images(4))
    aug.objective(torch.ones(4), batch)
    aug.save(path)
    again = InstaAug.load(path)
    again.band.low.copy_(aug.band.low)
    again.band.high.copy_(aug.band.high)
    assert torch.equal(again.band.weight, aug.band.weight)
    aug.objective(torch.ones(4), batch)
    again.objective(torch.ones(4), batch)
    assert torch.equal(again.band.weight, aug.band.weight)


def test_a_network_of_the_users_own_comes_back_with_it(path: Path) -> None:
    aug = InstaAug([CROP, "rotation"], network=OwnNetwork())
    aug.save(path)
    again = InstaAug.load(path, network=OwnNetwork())
    assert torch.equal(augmented(again), augmented(aug))


def test_an_own_network_that_nobody_reads_need_not_come_back(path: Path) -> None:
    InstaAug(CROP, network=OwnNetwork(), conditioning="none").save(path)
    assert InstaAug.load(path).phi.network is None


def test_paths_may_be_strings(path: Path) -> None:
    InstaAug(CROP).save(str(path))
    assert isinstance(InstaAug.load(str(path)), InstaAug)


def test_numbers_may_come_from_other_libraries(path: Path) -> None:
    half = torch.full((3,), 0.5)
    with unhooked():
        InstaAug("brightness", mean=half.numpy(), std=list(half)).save(path)  # type: ignore[arg-type]
    assert InstaAug.load(path).transform.mean == (0.5, 0.5, 0.5)


def test_the_settings_can_be_read_without_this_library(path: Path) -> None:
    InstaAug(T.Rotation(1.5)).save(path)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    assert metadata["format"] == "instaaug/1"
    (rotation,) = json.loads(metadata["settings"])["transform"]["transforms"]
    assert rotation == {"name": "rotation", "max_angle": 1.5}


@pytest.mark.parametrize("length", [1152, 1408, 1664])
def test_a_header_whose_length_looks_like_a_pickle_is_read(length: int, path: Path) -> None:
    """The first bytes of a safetensors file are its header's length: 1152 is 80 04 00 00 ..."""
    aug = InstaAug("rotation", conditioning="none")
    aug.save(path)
    data = path.read_bytes()
    header = int.from_bytes(data[:8], "little")
    name = '{"__metadata__":{'
    room = length - header - len('"filler":"",')
    assert room >= 0
    text = data[8 : 8 + header].decode().replace(name, f'{name}"filler":"{"." * room}",')
    path.write_bytes(length.to_bytes(8, "little") + text.encode() + data[8 + header :])
    assert torch.equal(augmented(InstaAug.load(path)), augmented(aug))


# --- all or nothing -----------------------------------------------------------------------------


@pytest.mark.parametrize(("owner", "failing"), [(os, "fsync"), (Path, "replace")])
def test_a_failing_write_leaves_the_old_file_and_no_crumbs(
    owner: object, failing: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    InstaAug("rotation").save(path)
    before = path.read_bytes()

    def full_disk(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(owner, failing, full_disk)
    with pytest.raises(OSError, match="There is no room left for"):
        InstaAug("crop").save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_saving_leaves_one_file(path: Path) -> None:
    InstaAug("rotation").save(path)
    assert list(path.parent.iterdir()) == [path]


def test_saving_copies_no_gradient_and_changes_nothing(path: Path) -> None:
    aug = InstaAug(CROP)
    before = {name: tensor.clone() for name, tensor in aug.state_dict().items()}
    aug.save(path)
    assert all(torch.equal(tensor, before[name]) for name, tensor in aug.state_dict().items())
