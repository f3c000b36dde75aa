from pathlib import Path
from typing import Any

import pytest
import torch

from instaaug import InstaAug
from instaaug.augmentation import HeldOutLearner
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.methods import (
    METHODS,
    Augerino,
    AugerinoColor,
    MixUp,
    RandomAugmentation,
    find_method,
)
from instaaug.methods.mixing import MixingAugmenter
from instaaug.transforms import TRANSFORMS, Crop

MY_PACKAGE = '''
import torch
from instaaug.methods import SimpleAugmenter

class MyMethod(SimpleAugmenter):
    """Darkens every image."""

    def __init__(self, *, amount: float = 0.5) -> None:
        super().__init__()
        self.amount = amount

    def draw_theta(self, x, n_samples, generator):
        return torch.full((n_samples, len(x), 1), self.amount)

    def render(self, x, theta):
        return x * theta[:, :, None, None]

class Other:
    pass

instance = MyMethod()
'''


@pytest.fixture
def my_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_package.py").write_text(MY_PACKAGE)
    monkeypatch.chdir(tmp_path)  # the working folder is searched, as for a model


@pytest.mark.usefixtures("my_package")
def test_a_method_of_the_users_own_is_found_built_and_used() -> None:
    method = find_method("my_package:MyMethod")
    context = {"mean": (0.5,), "std": (0.2,), "num_classes": 3}
    aug = method.build(context, {"amount": 0.25})
    x = torch.ones(2, 3, 4, 4)
    batch = aug(x, n_samples=2, targets=torch.arange(2))
    assert torch.equal(batch.inputs, torch.full((4, 3, 4, 4), 0.25))
    assert aug.objective(torch.ones(4), batch).item() == 1
    with pytest.raises(UnknownNameError, match="no option of MyMethod called 'amuont'"):
        method.build(context, {"amuont": 1})


@pytest.mark.usefixtures("my_package")
@pytest.mark.parametrize(("name", "got"), [("Other", "Other"), ("instance", "a MyMethod")])
def test_what_is_no_augmenter_is_refused(name: str, got: str) -> None:
    words = f"`method` 'my_package:{name}' must be a subclass of Augmenter: got {got}"
    with pytest.raises(ArgumentError, match=words):
        find_method(f"my_package:{name}")


@pytest.mark.usefixtures("my_package")
def test_names_that_lead_nowhere_are_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"no method called 'mixpu'. Did you mean 'mixup'"):
        find_method("mixpu")
    with pytest.raises(ArgumentError, match="`method` 'nowhere:X' must name a module"):
        find_method("nowhere:X")
    with pytest.raises(ArgumentError, match="`method` 'my_package:X' must name a class"):
        find_method("my_package:X")


def test_every_method_knows_its_name() -> None:
    assert {method.method_name for method in METHODS.values()} == set(METHODS)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_what_a_method_declares_agrees_with_what_it_is(name: str) -> None:
    method = METHODS[name]
    assert method.needs_held_out == issubclass(method, HeldOutLearner)
    assert method.needs_labels <= ("contrastive" not in method.tasks)
    assert not (method.learns_from_training_loss and method.needs_held_out)
    if issubclass(method, MixingAugmenter):
        assert method.needs_labels
    assert method.needs_search == (name == "fast_autoaugment")


def test_options_win_over_the_context() -> None:
    context = {"transforms": [Crop()], "mean": (0.5,) * 3, "std": (0.2,) * 3}
    aug = RandomAugmentation.build(context, {"sizes": [0.5, 1], "mean": [0.25, 0.25, 0.25]})
    assert isinstance(aug, RandomAugmentation)
    assert aug.sizes == (0.5, 1.0)
    assert aug.transform.mean == (0.25,) * 3
    assert aug.transform.std == (0.2,) * 3


def test_options_are_checked() -> None:
    with pytest.raises(ArgumentError, match=r"`method.alpha` must be a number, .*: got 'x'"):
        MixUp.build({}, {"alpha": "x"})
    with pytest.raises(UnknownNameError, match="no option of mixup called 'beta'"):
        MixUp.build({}, {"beta": 1})
    with pytest.raises(UnknownNameError, match="no option of none called 'alpha'"):
        METHODS["none"].build({}, {"alpha": 1})


@pytest.mark.parametrize(
    ("name", "option"),
    [("augerino", "weight"), ("spatial_transformer", "width"), ("viewmaker", "width")],
)
def test_settings_of_instaaug_are_not_options_of_the_same_name(name: str, option: str) -> None:
    context = {"weight": -1.0, "width": -1.0, "network": "nothing"}  # each would be refused
    METHODS[name].build(context)
    with pytest.raises(ArgumentError, match=f"`{option}`"):
        METHODS[name].build(context, {option: -1.0})


@pytest.mark.parametrize(
    ("transforms", "kind"),
    [
        ("auto", Augerino),
        ("affine", Augerino),
        ([TRANSFORMS["affine"]()], Augerino),
        (["brightness", "contrast"], AugerinoColor),
    ],
)
def test_augerino_learns_affine_maps_or_colors(transforms: Any, kind: type) -> None:
    assert type(METHODS["augerino"].build({"transforms": transforms})) is kind


def test_the_color_variant_has_transforms_of_its_own() -> None:
    aug = METHODS["augerino_color"].build({"transforms": "auto"})
    assert isinstance(aug, AugerinoColor)
    assert list(aug.transform.spaces) == ["hsv_jitter"]


def test_augerino_refuses_other_transforms() -> None:
    with pytest.raises(ArgumentError, match=r"must be affine \(or auto\), uniform_crop.*got crop"):
        METHODS["augerino"].build({"transforms": [Crop()]})


def test_instaaug_counts_classes_only_if_it_learns_per_class() -> None:
    context = {"transforms": "rotation", "num_classes": 3}
    by_input, by_class = (
        METHODS["instaaug"].build(context | {"conditioning": c}) for c in ("input", "class")
    )
    assert isinstance(by_input, InstaAug)
    assert isinstance(by_class, InstaAug)
    assert by_input.settings.num_classes is None
    assert by_class.settings.num_classes == 3
