"""What MODEL may be, and what it is told where it cannot be used."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from instaaug.errors import ArgumentError
from instaaug.runs.frozen import FrozenModel, build_model, find_channels, find_model
from instaaug.runs.settings import TtaSettings
from tests.support.spots import COLORS, Spotter

SPOTS = "tests.support.spots"


def settings(function: str = "spotter", **others: Any) -> TtaSettings:
    return TtaSettings.from_mapping({"model": f"{SPOTS}:{function}", "data": "spots", **others})


def built(function: str = "spotter", num_classes: int = 3, **others: Any) -> FrozenModel:
    config = settings(function, **others)
    return build_model(find_model(config.model), config, num_classes)


# A function


@pytest.mark.parametrize(("function", "n"), [("spotter", 3), ("spotter_for", 5)])
def test_a_function_is_told_the_number_of_classes_if_it_asks(function: str, n: int) -> None:
    model = built(function, 5)
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
    ],
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
        built(function)


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
    assert built().prepared(pixels).flatten().tolist() == pytest.approx([0.0, 0.2, 1.0])
    model = built(mean="imagenet")
    wanted = (torch.tensor([0.0, 0.2, 1.0]) - torch.tensor(model.mean)) / torch.tensor(model.std)
    assert torch.allclose(model.prepared(pixels).flatten(), wanted)
    assert model.std == (0.229, 0.224, 0.225)
    assert built(mean="0.5", std="0.5,0.5,0.25").std == (0.5, 0.5, 0.25)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mean": "0.5"}, "`mean` and `std` must be given both"),
        ({"mean": "0.5,0.5", "std": "1"}, "`mean` must be one number, 3, one per channel"),
        ({"mean": "image", "std": "1"}, "`mean` must be one number.*: got 'image'"),
        ({"mean": "0", "std": "0"}, "`std` must be above 0: got 0"),
    ],
)
def test_a_normalization_that_makes_no_sense_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        built(**given)


def test_channels_are_typed_or_three() -> None:
    source = find_model(f"{SPOTS}:spotter")
    assert find_channels(source, settings()) == 3
    assert find_channels(source, settings(channels=1)) == 1


# Outputs


@pytest.mark.parametrize(("function", "output"), [("as_dict", "scores"), ("as_pair", "1")])
def test_an_output_is_picked_by_key_or_number(function: str, output: str) -> None:
    built(function, output=output).check_outputs(16, COLORS)


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
        ("as_dict", "logits", "`output` must be found .* got 'logits', but a dict with scores"),
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
        built(function, output=output).check_outputs(16, COLORS)


def test_an_image_that_the_model_cannot_take_is_explained() -> None:
    built("of_pixels").check_outputs(16, COLORS)
    with pytest.raises(
        ArgumentError, match=r"cannot take an image of 3 × 20 × 20: .* --model.image_size"
    ):
        built("of_pixels").check_outputs(20, COLORS)


def test_a_model_of_maps_is_refused() -> None:
    model = FrozenModel(nn.Conv2d(3, 3, 1).eval(), channels=3)
    with pytest.raises(ArgumentError, match=r"a logit per class, \(N, C\): got shape \(1, 3, 8,"):
        model.check_outputs(8, COLORS)
