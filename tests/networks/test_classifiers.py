"""Models by name, from timm, from a function of the user's own."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.networks import MODELS, PreActResNet18, SmallCNN, make_model


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("in_channels", [1, 3])
@pytest.mark.parametrize("image_size", [16, 64])
def test_every_model_gives_one_row_of_outputs_per_image(
    name: str, in_channels: int, image_size: int
) -> None:
    model = make_model(name, 5, in_channels=in_channels, image_size=image_size, width=0.25)
    assert model(torch.zeros(2, in_channels, image_size, image_size)).shape == (2, 5)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_sentence(name: str) -> None:
    assert (MODELS[name].__doc__ or "").split("\n")[0].endswith(".")


@pytest.mark.parametrize(
    ("image_size", "kind"), [(16, SmallCNN), (32, SmallCNN), (33, PreActResNet18)]
)
def test_the_automatic_choice_depends_on_the_image(image_size: int, kind: type) -> None:
    assert type(make_model("auto", 2, image_size=image_size, width=0.25)) is kind


@pytest.mark.parametrize(
    ("image_size", "stem_stride", "stride"), [(32, 0, 1), (63, 0, 1), (64, 0, 2), (64, 1, 1)]
)
def test_the_stem_strides_for_large_images_unless_told(
    image_size: int, stem_stride: int, stride: int
) -> None:
    model = make_model(
        "preact_resnet18", 2, image_size=image_size, width=0.25, stem_stride=stem_stride
    )
    first = next(module for module in model.modules() if isinstance(module, nn.Conv2d))
    assert first.stride == (stride, stride)


@pytest.mark.parametrize("name", ["small_cnn", "preact_resnet18"])
def test_the_width_multiplies_the_channels(name: str) -> None:
    widths = []
    for width in (0.5, 1.0):
        model = make_model(name, 2, width=width)
        first = next(module for module in model.modules() if isinstance(module, nn.Conv2d))
        widths.append(first.out_channels)
    assert widths[1] == 2 * widths[0]


@pytest.mark.parametrize("name", ["small_cnn", "preact_resnet18"])
def test_a_width_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match=r"`width` must .*: got 0\.0\."):
        make_model(name, 2, width=0.0)


@pytest.mark.parametrize("name", ["resnet18", "", ":make"])
def test_an_unknown_model_lists_what_is_known(name: str) -> None:
    known = r"Known: auto, module:function, preact_resnet18, small_cnn, timm:NAME\."
    with pytest.raises(UnknownNameError, match=f"There is no model called '{name}'.*{known}"):
        make_model(name, 2)


# timm, which is not needed


def test_timm_that_is_not_installed_is_told_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ArgumentError, match=r"'timm:resnet18' needs timm, .* `pip install timm`"):
        make_model("timm:resnet18", 2)


def fake_timm(name: str, *, num_classes: int, in_chans: int) -> Any:
    if name == "unknown":
        raise RuntimeError("Unknown model (unknown)")
    return "no module" if name == "text" else nn.Conv2d(in_chans, num_classes, 1)


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("timm")
    monkeypatch.setattr(module, "create_model", fake_timm, raising=False)
    monkeypatch.setitem(sys.modules, "timm", module)


@pytest.mark.usefixtures("timm")
def test_timm_is_told_the_outputs_and_the_channels() -> None:
    model = make_model("timm:resnet18", 7, in_channels=1)
    assert isinstance(model, nn.Conv2d)
    assert (model.in_channels, model.out_channels) == (1, 7)


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unknown", r"'timm:unknown' cannot be built: Unknown model \(unknown\)"),
        ("text", "'timm:text' must return an nn.Module: got str"),
    ],
)
def test_what_timm_refuses_is_passed_on(name: str, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        make_model(f"timm:{name}", 7)


@pytest.mark.parametrize("name", ["auto", "tests.support.tiny_training:linear_8"])
def test_weights_are_published_for_models_of_timm_only(name: str) -> None:
    with pytest.raises(ArgumentError, match=r"`model.pretrained` is for timm:NAME"):
        make_model(name, 2, pretrained=True)


# A function of one's own

SOURCE = """
from torch import nn

here = __file__

def make(n):
    from own_layers import head
    return head(n)

def fail(n):
    raise ValueError("my own mistake")

text = str
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "own_model.py").write_text(SOURCE)
    (tmp_path / "own_layers.py").write_text(
        "from torch.nn import Linear\ndef head(n): return Linear(2, n)\n"
    )
    (tmp_path / "json.py").write_text("raise RuntimeError('this is not the real json')\n")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("own_model", "own_layers"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("folder")
def test_a_function_in_the_working_folder_is_called_with_the_number_of_outputs() -> None:
    before = list(sys.path)
    model = make_model("own_model:make", 6)
    assert isinstance(model, nn.Linear)
    assert model.out_features == 6
    assert sys.path == before


@pytest.mark.usefixtures("folder")
def test_a_file_in_the_working_folder_hides_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "json")
    with pytest.raises(ArgumentError, match=r"'json:dumps' must return an nn\.Module: got str"):
        make_model("json:dumps", 6)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own_model:none", "must name a function: the module 'own_model' has no 'none'"),
        ("own_model:", "must name a function: the module 'own_model' has no ''"),
        ("own_model:here", "is called with one argument, the number of outputs: 'str' object is"),
        ("own_model:text", "must return an nn.Module: got str"),
        ("no_model:make", "must name a module that Python can import: No module named 'no_model'"),
        ("..own_model:make", "must name a module that Python can import: "),
        ("own_model.py:make", "must name a module that Python can import: "),
        ("os:system", "is called with one argument, the number of outputs: "),
    ],
)
def test_what_cannot_make_a_model_is_refused(name: str, words: str) -> None:
    with pytest.raises(ArgumentError, match=f"`model` '{name}' {words}"):
        make_model(name, 6)


@pytest.mark.usefixtures("folder")
def test_a_mistake_in_the_function_is_its_own() -> None:
    with pytest.raises(ValueError, match="my own mistake"):
        make_model("own_model:fail", 6)
