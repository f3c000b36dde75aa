"""Feature maps of the model that is being trained, for φ."""

from pathlib import Path

import pytest
import torch
from torch import nn

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.errors import ArgumentError
from instaaug.networks import ModelMaps, PreActResNet18
from tests.support.tiny_training import classifier

CROP = T.Crop(levels=((0.5, 2), (1.0, 1)))


def small() -> nn.Module:
    torch.manual_seed(0)
    return PreActResNet18(3, width=0.125)


def attached(model: nn.Module) -> InstaAug:
    torch.manual_seed(1)
    aug = InstaAug(CROP, network="model", estimator="closed_form")
    aug.attach(model)
    return aug


def test_the_coarsest_useful_maps_are_read_without_a_gradient_for_the_model() -> None:
    model = small().train()
    maps = ModelMaps(3, width=0.5)
    maps.attach(model)
    found = maps(torch.rand(2, 3, 64, 64))
    assert [tuple(m.shape) for m in found] == [(2, 16, 8, 8), (2, 16, 4, 4)]
    sum(m.sum() for m in found).backward()
    assert all(p.grad is None for p in model.parameters())
    assert any(p.grad is not None for p in maps.parameters())
    assert model.training
    assert all(
        m.num_batches_tracked == 0 for m in model.modules() if isinstance(m, nn.BatchNorm2d)
    )


def test_the_model_is_no_part_of_the_augmenter() -> None:
    model = small()
    own = {id(p) for p in attached(model).parameters()}
    assert own.isdisjoint(id(p) for p in model.parameters())


def test_another_model_is_seen_at_once() -> None:
    model = small()
    aug, x = attached(model).eval(), torch.rand(2, 3, 32, 32)
    nn.init.normal_(aug.phi.heads[0].score.weight)  # type: ignore[arg-type, union-attr]
    before = aug.distribution(x).finite()["crop"].logits
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(-1.5)
    assert not torch.equal(aug.distribution(x).finite()["crop"].logits, before)


def test_a_saved_augmenter_goes_on_with_its_model(tmp_path: Path) -> None:
    model = small()
    aug, x = attached(model).eval(), torch.rand(2, 3, 32, 32)
    nn.init.normal_(aug.phi.heads[0].score.weight)  # type: ignore[arg-type, union-attr]
    aug.save(tmp_path / "aug.safetensors")
    again = InstaAug.load(tmp_path / "aug.safetensors").eval()
    with pytest.raises(ArgumentError, match="attach"):
        again.distribution(x)
    again.attach(model)
    assert torch.equal(
        again.distribution(x).finite()["crop"].logits, aug.distribution(x).finite()["crop"].logits
    )


def test_a_model_without_maps_is_refused() -> None:
    with pytest.raises(ArgumentError, match="feature maps of several sizes"):
        attached(classifier(side=32))
