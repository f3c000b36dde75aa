"""The frozen model of a run, and the images that views are fitted to."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError, DataError
from instaaug.runs.frozen_model import (
    FrozenModel,
    ModelSource,
    build_model,
    choose_sizes,
    drop_hashes,
    find_channels,
    find_class_names,
    find_model,
    image_hashes,
    load_images,
    split_by_hash,
)
from instaaug.runs.settings import TtaSettings
from tests.support.picture_files import class_folders
from tests.support.picture_folders import gray_levels
from tests.support.spots import COLORS, Spotter

SPOTS = "tests.support.spots"
UNKNOWN = find_model(f"{SPOTS}:spotter")
SMALL = replace(UNKNOWN, size=20)


def settings(values: Mapping[str, Any] | None = None) -> TtaSettings:
    return TtaSettings.from_mapping(
        {"model": f"{SPOTS}:spotter", "data": "photos"}, {} if values is None else values
    )


def build(function: str = "spotter", num_classes: int = 3, **values: Any) -> FrozenModel:
    """A model of ``tests.support.spots``, with settings of the section ``model``."""
    config = settings({"model": {"name": f"{SPOTS}:{function}", **values}})
    return build_model(find_model(config.model.name), config, num_classes)


def labeled(n: int, seed: int = 0) -> LabeledImages:
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (n, 4, 4, 3), dtype=np.uint8)
    return LabeledImages(pixels, torch.arange(n) % 2, classes=("a", "b"))


# A function


@pytest.mark.parametrize(("function", "n"), [("spotter", 3), ("spotter_for", 5)])
def test_a_function_is_told_the_number_of_classes_if_it_asks(function: str, n: int) -> None:
    model = build(function, 5)
    assert not model.module.training
    assert model.module(torch.zeros(1, 3, 8, 8)).shape == (1, n)


def test_a_function_with_defaults_is_called_without_an_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "optional_model.py").write_text(
        "from torch import nn\n"
        "def make(pretrained=True, *rest, **others):\n"
        "    assert pretrained is True\n"
        "    return nn.Identity()\n"
    )
    monkeypatch.chdir(tmp_path)
    assert isinstance(find_model("optional_model:make").make(7), nn.Identity)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module:make", "must name a module that Python can import"),
        (f"{SPOTS}:no_such_function", "has no 'no_such_function'"),
        ("resnet18", "must be a module:function .* got 'resnet18', and there is no such folder"),
        ("timm:resnet18", "needs timm, which is not installed"),
        ("A" * 5000, "must be a module:function .* got 'AAA"),
    ],
    ids=lambda words: words[:20],
)
def test_what_cannot_be_found_is_told_before_anything_is_read(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ArgumentError, match=f"`model`.*{words}"):
        find_model(name)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("without_weights", r"cannot load its weights: .*nowhere\.pt"),
        ("no_model", "must return an nn.Module: got str"),
    ],
)
def test_what_cannot_be_built_is_told(function: str, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        build(function)


# timm


def test_a_model_of_timm_knows_its_size_and_normalization(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def create_model(name: str, **options: Any) -> nn.Module:
        asked.append((name, options))
        model = Spotter()
        model.pretrained_cfg = {  # type: ignore[assignment]
            "input_size": (3, 240, 240), "mean": [0.1, 0.2, 0.3], "std": [1.0, 2.0, 3.0],
        }  # fmt: skip
        return model

    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create_model))
    source = find_model("timm:tiny")
    assert asked == [("tiny", {"pretrained": True})]
    assert (source.size, source.channels) == (240, 3)
    assert (source.mean, source.std) == ((0.1, 0.2, 0.3), (1.0, 2.0, 3.0))
    plain = build_model(source, TtaSettings.from_mapping({"model": "timm:tiny", "data": "d"}), 3)
    typed = build_model(
        source,
        TtaSettings.from_mapping(
            {"model": "timm:tiny", "data": "d", "model.mean": [0.0], "model.std": [1.0]}
        ),
        3,
    )
    assert (plain.mean, typed.mean) == ((0.1, 0.2, 0.3), (0.0, 0.0, 0.0))


# Normalization


def test_images_are_as_they_are_unless_told() -> None:
    pixels = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    assert build().prepare(pixels).flatten().tolist() == pytest.approx([0.0, 0.2, 1.0])
    model = build(mean="imagenet")
    wanted = (torch.tensor([0.0, 0.2, 1.0]) - torch.tensor(model.mean)) / torch.tensor(model.std)
    assert torch.allclose(model.prepare(pixels).flatten(), wanted)
    assert model.std == (0.229, 0.224, 0.225)
    assert build(mean=0.5, std=[0.5, 0.5, 0.25]).std == (0.5, 0.5, 0.25)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mean": 0.5}, "`model.mean` and `model.std` must be given both"),
        ({"mean": [0.5, 0.5], "std": 1}, "`model.mean` must be one number, 3, one per channel"),
        ({"mean": "image", "std": 1}, "`model.mean` must be like imagenet or .*: got 'image'"),
        ({"mean": 0, "std": 0}, "`model.std` must be above 0: got"),
    ],
)
def test_a_normalization_that_makes_no_sense_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        build(**given)


def test_channels_are_typed_or_three() -> None:
    source = find_model(f"{SPOTS}:spotter")
    assert find_channels(source, settings()) == 3
    assert find_channels(source, settings({"model.channels": 1})) == 1


# Outputs


@pytest.mark.parametrize(("function", "output"), [("as_dict", "scores"), ("as_pair", "1")])
def test_an_output_is_picked_by_key_or_number(function: str, output: str) -> None:
    build(function, output=output).check_outputs(16, COLORS)


@pytest.mark.parametrize(
    ("function", "output", "words"),
    [
        (
            "as_dict",
            None,
            "must return logits: got a dict with scores, loss; .* --model.output KEY",
        ),
        (
            "as_pair",
            None,
            "must return logits: got a tuple of 2; choose one by --model.output NUMBER",
        ),
        (
            "as_dict",
            "logits",
            "`model.output` must be found .* got 'logits', but a dict with scores",
        ),
        ("as_pair", "7", "got '7', but a tuple of 2"),
        ("as_pair", "first", "got 'first', but a tuple of 2"),
        ("spotter", "logits", "got 'logits', but it returns a tensor; leave --model.output out"),
        ("four_outputs", None, "has 4 outputs, but there are 3 classes: blue, .* --model.classes"),
    ],
)
def test_an_output_that_does_not_fit_is_explained(
    function: str, output: str | None, words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        build(function, output=output).check_outputs(16, COLORS)


def test_an_image_that_the_model_cannot_take_is_explained() -> None:
    build("of_pixels").check_outputs(16, COLORS)
    with pytest.raises(
        ArgumentError, match=r"cannot take an image of 3 × 20 × 20: .* --model.image_size"
    ):
        build("of_pixels").check_outputs(20, COLORS)


def test_a_model_of_maps_is_refused() -> None:
    model = FrozenModel(nn.Conv2d(3, 3, 1).eval(), channels=3)
    with pytest.raises(ArgumentError, match=r"a logit per class, \(N, C\): got shape \(1, 3, 8,"):
        model.check_outputs(8, COLORS)


# Sizes


@pytest.mark.parametrize(
    ("source", "given", "wanted"),
    [
        (UNKNOWN, {}, (64, 70)),  # the nearest usual size, and no more pixels than there are
        (SMALL, {}, (20, 40)),
        (SMALL, {"model.image_size": 50}, (50, 70)),
        (SMALL, {"model.image_size": 90}, (90, 90)),
        (SMALL, {"data.decode_size": 32}, (20, 32)),
    ],
)
def test_files_are_decoded_to_twice_the_size_but_not_enlarged(
    tmp_path: Path, source: ModelSource, given: dict[str, int], wanted: tuple[int, int]
) -> None:
    folder = class_folders(tmp_path / "photos", {"a": 2, "b": 3}, size=(110, 70))
    assert choose_sizes(settings({"data": str(folder), **given}), source) == wanted


def test_arrays_and_named_sets_are_as_they_are_and_tables_name_files() -> None:
    assert choose_sizes(settings({"data": "sprites"}), SMALL) == (20, None)
    assert choose_sizes(settings({"data": "a.npz"}), UNKNOWN) == (None, None)
    assert choose_sizes(settings({"data": "t.csv"}), SMALL) == (20, 40)


def test_arrays_are_loaded_whole(tmp_path: Path) -> None:
    gray_levels(tmp_path / "a.npz", n=21)
    images = load_images(
        settings({"data": str(tmp_path / "a.npz")}), UNKNOWN, side=None, channels=3
    )
    assert (len(images), images.image_shape) == (21, (3, 16, 16))


def test_of_data_in_parts_the_test_part_is_taken(tmp_path: Path) -> None:
    class_folders(tmp_path / "train", {"a": 3, "b": 3})
    class_folders(tmp_path / "test", {"a": 1, "b": 1})
    assert len(load_images(settings({"data": str(tmp_path)}), UNKNOWN, side=16, channels=3)) == 2


# Classes


def test_classes_come_from_a_file_the_model_or_the_data(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("b\n\n ünï \na\n")
    typed = settings({"model.classes": str(tmp_path / "names.txt")})
    images, known = labeled(4), replace(UNKNOWN, classes=("b", "a"))
    assert find_class_names(typed, known, images.classes) == (
        "b",
        "ünï",
        "a",
    )
    assert find_class_names(settings(), known, images.classes) == ("b", "a")
    assert find_class_names(settings(), UNKNOWN, images.classes) == ("a", "b")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"a\nb\na\n", "'a' more than once"), (b"\n", "nothing"), (b"\xff\xfe", "not UTF-8")],
)
def test_a_file_of_classes_that_is_none_is_refused(
    tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "names.txt").write_bytes(content)
    with pytest.raises(ArgumentError, match=f"`model.classes` must be a .*{words}"):
        find_class_names(
            settings({"model.classes": str(tmp_path / "names.txt")}), UNKNOWN, ("a", "b")
        )


# The split


def test_pixels_decide_the_side_wherever_an_image_stands() -> None:
    images = labeled(40)
    splits = split_by_hash(images, settings())
    assert (len(splits.train), len(splits.test)) == (20, 20)
    shuffled = images.subset(np.random.default_rng(1).permutation(40))
    again = split_by_hash(shuffled, settings())
    assert set(image_hashes(again.test)) == set(image_hashes(splits.test))
    assert set(image_hashes(splits.train)) | set(image_hashes(splits.test)) == set(
        image_hashes(images)
    )


def test_the_seed_chooses_the_split() -> None:
    images = labeled(40)
    tests = [split_by_hash(images, settings({"seed": seed})).test for seed in (0, 1)]
    assert set(image_hashes(tests[0])) != set(image_hashes(tests[1]))


def test_an_image_that_is_there_twice_is_on_one_side() -> None:
    images = labeled(30)
    doubled = images.subset(list(range(30)) * 3)
    splits = split_by_hash(doubled, settings())
    assert not set(image_hashes(splits.train)) & set(image_hashes(splits.test))
    assert not len(drop_hashes(doubled, image_hashes(images)))


def test_all_may_be_learned_from_and_a_limit_takes_some_of_all() -> None:
    splits = split_by_hash(labeled(40), settings({"data.test_fraction": 0.0, "data.limit": 10}))
    assert (len(splits.train), len(splits.test)) == (10, 0)
    assert splits.train.rows is not None
    assert (splits.train.rows[0], splits.train.rows[-1]) == (0, 39)


@pytest.mark.parametrize(
    ("n", "fraction", "words"),
    [(4, 0.1, "got 4, 0 of them held out"), (3, 0.6, "got 3, 2 of them")],
)
def test_too_few_images_for_a_side_are_an_error(n: int, fraction: float, words: str) -> None:
    with pytest.raises(DataError, match=f"`data` must have .* both sides of the split: {words}"):
        split_by_hash(labeled(n), settings({"data.test_fraction": fraction}))
