"""What a newcomer is likely to get wrong, and what normalized or half-precision users need."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from instaaug import CropGrid, InstaAug
from instaaug import transforms as T
from instaaug.errors import ArgumentError, InstaAugWarning
from instaaug.networks import PreActResNet18
from tests.support.unhooked import unhooked

GRAY = {"in_channels": 1, "mean": (0.5,), "std": (0.25,)}


@pytest.mark.parametrize("transforms", [T.Crop, [T.Crop]], ids=["alone", "in a list"])
def test_a_class_instead_of_a_transform_is_named(transforms: Any) -> None:
    with unhooked(), pytest.raises(ArgumentError, match=r"A class needs brackets: Crop\(\)"):
        InstaAug(transforms)


def test_a_grid_that_nothing_uses_is_refused() -> None:
    with pytest.raises(ArgumentError, match="`grid` is of no use: no transform chooses a box"):
        InstaAug(T.Rotation(), grid=CropGrid([(1.0, 1)]))


@pytest.mark.parametrize("late", [T.Crop(), T.LocalMask()], ids=["crop", "local"])
def test_boxes_behind_geometry_are_warned_of(late: T.Transform) -> None:
    with pytest.warns(InstaAugWarning, match="Put transforms with boxes first"):
        InstaAug([T.Rotation(), late])


def test_normalized_images_under_color_transforms_are_warned_of() -> None:
    with pytest.warns(
        InstaAugWarning, match=r"need images in \[0, 1\].*give InstaAug their mean="
    ):
        InstaAug(T.HSVJitter())(torch.randn(2, 3, 16, 16) * 2)


@pytest.mark.parametrize("transform", [T.Crop(), T.Rotation()], ids=["crop", "rotation"])
def test_normalized_images_under_geometry_are_fine(transform: T.Transform) -> None:
    InstaAug(transform)(torch.randn(2, 3, 16, 16) * 2)


def test_normalized_gray_images_survive_saving_and_loading(tmp_path: Path) -> None:
    aug = InstaAug(T.Brightness(), **GRAY)  # type: ignore[arg-type]
    aug.save(tmp_path / "aug.safetensors")
    assert InstaAug.load(tmp_path / "aug.safetensors").settings == aug.settings


def test_one_mean_serves_all_channels() -> None:
    one, three = (InstaAug(T.Brightness(), mean=(0.5,) * n, std=(0.2,) * n) for n in (1, 3))
    x, theta = torch.randn(4, 3, 8, 8) * 0.2, torch.full((4, 1), 1.3)
    assert torch.equal(one.transform.apply(x, theta), three.transform.apply(x, theta))


def test_bands_from_other_libraries_can_be_saved(tmp_path: Path) -> None:
    with unhooked():
        aug = InstaAug(T.Crop(), entropy=(np.float32(3), np.float32(3.5)))  # type: ignore[arg-type]
    aug.save(tmp_path / "aug.safetensors")
    assert aug.settings.entropy == (3.0, 3.5)


def test_a_network_with_tied_weights_can_be_saved(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 8, 3, stride=4)
            self.again = self.first

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [self.again(x)]

    InstaAug(T.Rotation(), network=Tied()).save(tmp_path / "aug.safetensors")
    InstaAug.load(tmp_path / "aug.safetensors", network=Tied())


def test_a_model_with_batch_norm_in_training_mode_is_warned_of() -> None:
    aug, model = InstaAug(T.Crop()), PreActResNet18(3, width=0.125)
    predictor = aug.wrap(model, 2)
    with pytest.warns(
        InstaAugWarning, match=r"BatchNorm learns from test data.*predictor\.eval\(\)"
    ):
        predictor(torch.rand(2, 3, 32, 32))
    predictor.eval()(torch.rand(2, 3, 32, 32))


def test_small_whole_numbers_of_any_kind_are_labels() -> None:
    aug = InstaAug(T.Crop(), conditioning="class", num_classes=4)
    labels = torch.tensor([0, 3, 1, 1])
    x = torch.rand(4, 3, 16, 16)
    wide, narrow = (aug.distribution(x, y).entropies() for y in (labels, labels.to(torch.uint8)))
    assert torch.equal(wide, narrow)


@pytest.mark.parametrize("half", [nn.Module.bfloat16, nn.Module.half], ids=["bfloat16", "float16"])
def test_half_precision_weights_still_give_exact_boxes(
    half: Callable[[nn.Module], nn.Module],
) -> None:
    aug = half(InstaAug(T.Crop(jitter=True), network="pyramid"))
    assert isinstance(aug, InstaAug)
    x = torch.rand(4, 3, 32, 32, dtype=next(aug.parameters()).dtype)
    crops = aug.distribution(x)["crop"]
    sample = torch.cat(
        [torch.arange(321.0)[:, None, None].expand(321, 4, 1), torch.zeros(321, 4, 2)], -1
    )
    boxes = crops.theta(sample)
    assert boxes.dtype == torch.float32
    assert len(boxes[:, 0].unique(dim=0)) == 321


def test_geometry_and_blur_keep_their_precision_under_autocast() -> None:
    x = torch.rand(2, 3, 37, 37)
    both = T.Composition((T.Rotation(), T.Crop()))
    theta = torch.tensor([[0.3, 0.1, 0.2, 1.5, 1.5]]).repeat(2, 1)
    plain = both.matrix(theta)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(both.matrix(theta), plain)
        assert torch.equal(T.Blur().apply(x, T.Blur().identity(2)), x)


def test_noise_before_color_is_clipped_so_that_colors_mean_something() -> None:
    x = torch.rand(2, 3, 16, 16)
    noisy = T.Noise(0.5).apply(x, torch.tensor([[0.5, 0.1]] * 2))
    both = T.Composition((T.Noise(0.5), T.HSVJitter()))
    out = both.apply(x, torch.tensor([[0.5, 0.1, 0.0, 1.0, 1.0]] * 2))
    torch.testing.assert_close(out, noisy.clamp(0, 1))


def test_padding_reaches_every_part_of_a_composition() -> None:
    seen = []

    class Spy(T.Transform):
        name = "spy"
        spaces = T.Rotation().spaces

        def apply(self, x: Any, _: Any, *, padding_mode: Any = "zeros") -> Any:
            seen.append(padding_mode)
            return x

    T.Composition((Spy(),)).apply(torch.rand(1, 3, 8, 8), torch.zeros(1, 1), padding_mode="border")
    assert seen == ["border"]
