"""Files that are not what InstaAug.save wrote: each is refused in a clear sentence."""

import pickle
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation import weights_file
from instaaug.errors import ArgumentError, InstaAugError, WeightsFileError
from instaaug.networks import make_network
from tests.support.models import OwnNetwork
from tests.support.unhooked import unhooked

CROP = T.Crop(levels=((1.0, 1), (0.5, 2)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "aug.safetensors"


@pytest.fixture(autouse=True)
def _as_users_run_it() -> Iterator[None]:
    with unhooked():
        yield


# --- files that are something else --------------------------------------------------------------


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no weights file '.*aug\.safetensors'"):
        InstaAug.load(path)


def test_a_directory_is_no_weights_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="There is no weights file"):
        InstaAug.load(tmp_path)


@pytest.mark.parametrize("keep", [0, 4, 8, 100, 5000, -1])
def test_a_truncated_file_is_refused(keep: int, path: Path) -> None:
    InstaAug(CROP).save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(WeightsFileError, match=r"no readable safetensors file .*cut short"):
        InstaAug.load(path)


@pytest.mark.parametrize("data", [b"hello, world" * 10, b"\xff" * 64, b"\x89PNG\r\n\x1a\n" * 4])
def test_a_file_of_another_kind_is_refused(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    with pytest.raises(WeightsFileError, match="no readable safetensors file"):
        InstaAug.load(path)


@pytest.mark.parametrize("metadata", [None, {}, {"author": "somebody"}])
def test_foreign_safetensors_are_refused(metadata: dict[str, str] | None, path: Path) -> None:
    save_file({"weight": torch.ones(2)}, path, metadata)
    with pytest.raises(
        WeightsFileError, match=r"not written by InstaAug\.save: its format is None"
    ):
        InstaAug.load(path)


def test_another_version_of_the_format_is_refused(path: Path) -> None:
    save_file({"weight": torch.ones(2)}, path, {"format": "instaaug/2", "settings": "{}"})
    with pytest.raises(WeightsFileError, match=r"'instaaug/2', this version reads 'instaaug/1'"):
        InstaAug.load(path)


class Bomb:
    """Would touch a file if it were ever unpickled."""

    def __init__(self, fuse: Path) -> None:
        self.fuse = fuse

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.fuse,)


@pytest.mark.parametrize("kind", ["zip", "legacy", *range(2, 6)])
def test_a_pickle_is_refused_and_never_opened(kind: str | int, path: Path, tmp_path: Path) -> None:
    fuse = tmp_path / "exploded"
    if isinstance(kind, int):
        path.write_bytes(pickle.dumps(Bomb(fuse), protocol=kind))
    else:
        torch.save({"weight": Bomb(fuse)}, path, _use_new_zipfile_serialization=kind == "zip")
    with pytest.raises(WeightsFileError, match=r"is a pickle, which can run any code .*call save"):
        InstaAug.load(path)
    assert not fuse.exists()


# --- settings that make no augmenter ------------------------------------------------------------


def tampered(path: Path, aug: InstaAug, **changes: Any) -> Path:
    """Save ``aug`` with other settings beside its tensors."""
    weights_file.write(path, aug.state_dict(), {**aug.settings.to_config(), **changes})
    return path


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "3", "{}", '{"transform": 1}', "[" * 100_000, '{"transform": {}}'],
    ids=lambda text: text[:20],
)
def test_broken_settings_are_refused(text: str, path: Path) -> None:
    aug = InstaAug("rotation")
    save_file(aug.state_dict(), path, {"format": weights_file.FORMAT, "settings": text})
    with pytest.raises(WeightsFileError, match="holds settings that make no augmenter"):
        InstaAug.load(path)


def transform_named(name: str, **fields: Any) -> dict[str, Any]:
    return {"transforms": [{"name": name, **fields}], "mean": None, "std": None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transform": transform_named("rotate")}, r"no transform called 'rotate'\. .*'rotation'"),
        ({"transform": transform_named("rotation", speed=3)}, "speed"),
        ({"transform": transform_named("rotation", max_angle=-1.0)}, "`low` must be below `high`"),
        ({"transform": transform_named("crop", levels=[])}, "`levels` must hold at least one box"),
        ({"transform": transform_named("crop", levels=[[0.5, 2.5]])}, "whole number n ≥ 1: got"),
        ({"network": "pyramids"}, r"no network called 'pyramids'\. Did you mean 'pyramid'"),
        ({"conditioning": "inputs"}, r"no conditioning called 'inputs'"),
        ({"rule": "pid"}, r"no rule called 'pid'"),
        ({"width": "wide"}, "not supported between"),
        ({"width": -1.0}, r"`width` must lie in \(0, 64\]"),
        ({"in_channels": "3"}, "not supported between"),
        ({"in_channels": 3.5}, "."),
        ({"entropy": [9.0, 9.5]}, "`entropy` cannot be reached"),
        ({"entropy": 3.0}, "."),
        ({"diversity": [0.1, 0.2, 0.3]}, "`diversity` must be two numbers"),
        ({"weight": -1.0}, r"`weight` must lie in \[0, 10\]"),
        ({"grid": {"levels": [{"width": 1}], "max_outside": 1.0}}, "."),
        ({"colour": "red"}, "colour"),
        ({"num_classes": 3.5, "conditioning": "class"}, "."),
    ],
)
def test_settings_that_make_no_augmenter_are_refused(
    changes: dict[str, Any], message: str, path: Path
) -> None:
    tampered(path, InstaAug(CROP), **changes)
    with pytest.raises(WeightsFileError, match=message):
        InstaAug.load(path)


def test_an_own_network_must_be_given(path: Path) -> None:
    InstaAug(CROP, network=OwnNetwork()).save(path)
    with pytest.raises(
        ArgumentError, match=r"`model` must be given.*`network` where.*load\(path, model=\.\.\.\)"
    ):
        InstaAug.load(path)


def test_another_network_is_refused(path: Path) -> None:
    InstaAug(CROP, network=OwnNetwork()).save(path)
    with pytest.raises(WeightsFileError, match=r"does not fit its own settings: missing phi\.net"):
        InstaAug.load(path, network=make_network("pyramid", in_channels=3, width=1.0))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda s: s.pop("band.weight"), r"does not fit its own settings: missing band\.weight\."),
        (lambda s: s.update(extra=torch.ones(1)), r"settings: surplus extra\. Load it with the"),
        (
            lambda s: s.update({"band.weight": torch.ones(3)}),
            r"band\.weight is \(3,\) instead of \(2,\)",
        ),
        (lambda s: [s.pop(k) for k in list(s) if ".bias" in k], "and more"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(edit: Any, message: str, path: Path) -> None:
    aug = InstaAug("rotation")
    state = dict(aug.state_dict())
    edit(state)
    weights_file.write(path, state, aug.settings.to_config())
    with pytest.raises(WeightsFileError, match=message):
        InstaAug.load(path)


# --- hostile settings ---------------------------------------------------------------------------


@contextmanager
def at_most(megabytes: int) -> Iterator[None]:
    """Cap what may still be allocated, so that a failure costs a test and not the machine."""
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (megabytes << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def axis(n: int) -> list[float]:
    return [i / n for i in range(n)]


@pytest.mark.parametrize(
    "changes",
    [
        {"transform": transform_named("crop", levels=[[0.5, 100_000]])},
        {"transform": transform_named("crop", levels=[[0.5, 10**4000]])},
        {"transform": transform_named("local_mask", levels=[[0.5, 1e300]])},
        {"network": "preact_resnet18", "width": 64.0},
        {"in_channels": 10**9},
        {"in_channels": 10**30},
        {"conditioning": "class", "num_classes": 10**12},
        {
            "grid": {
                "levels": [
                    {
                        "width": 1.0,
                        "height": 1.0,
                        "xs": axis(20_000),
                        "ys": axis(20_000),
                        "cell": [0.1, 0.1],
                        "layer": None,
                    }
                ],
                "max_outside": 1.0,
            }
        },
    ],
    ids=["boxes", "integer", "float", "width", "channels", "overflow", "classes", "grid"],
)
def test_a_few_bytes_cannot_fill_the_memory(changes: dict[str, Any], path: Path) -> None:
    tampered(path, InstaAug(CROP), **changes)
    # Not just any error: running into the limit would be one as well.
    refusal = "ask for more numbers than|whole number n|Overflow when unpacking"
    with at_most(200), pytest.raises(WeightsFileError, match=refusal):
        InstaAug.load(path)


def test_a_huge_table_of_classes_is_refused_for_intervals_too(path: Path) -> None:
    aug = InstaAug("rotation", conditioning="class", num_classes=2)
    refusal = "ask for more numbers than the 8 that it holds"
    with at_most(200), pytest.raises(WeightsFileError, match=refusal):
        InstaAug.load(tampered(path, aug, num_classes=10**9))


@pytest.mark.parametrize("name", ["weight", "factor", "sharpness", "calibration"])
@pytest.mark.parametrize("value", [None, "1", {}, [1.0]])
def test_numbers_that_are_none_are_refused(name: str, value: Any, path: Path) -> None:
    with pytest.raises(WeightsFileError, match=f"`{name}` must be a number: got"):
        InstaAug.load(tampered(path, InstaAug("rotation"), **{name: value}))


@pytest.mark.parametrize("num_classes", [[0, 1], "many", 2.5, {"a": 1}])
def test_classes_that_are_no_count_are_refused(num_classes: Any, path: Path) -> None:
    aug = InstaAug("rotation", conditioning="class", num_classes=2)
    with pytest.raises(WeightsFileError, match="holds settings that make no augmenter"):
        InstaAug.load(tampered(path, aug, num_classes=num_classes))


def test_every_refusal_is_an_error_of_this_library(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(InstaAugError):
        InstaAug.load(path)
    with pytest.raises(ValueError, match="safetensors"):
        InstaAug.load(path)
