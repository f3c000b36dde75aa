"""Features of any network: what is read, what is pooled, and that nothing is changed."""

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.networks.backbone import Backbone, FeatureClassifier, pool_features

SHAPE = (3, 8, 8)


def make_classifier() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(6, 10),
    )  # fmt: skip


class Tokens(nn.Module):
    """Patches as tokens, with a token for the class or without."""

    def __init__(self, with_class: bool) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 5, 4, 4)
        if with_class:
            self.cls_token = nn.Parameter(torch.full((1, 1, 5), 7.0))

    @override
    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patch(x).flatten(2).movedim(1, 2)
        if hasattr(self, "cls_token"):
            tokens = torch.cat([self.cls_token.expand(len(x), -1, -1), tokens], dim=1)
        return tokens


def test_a_classifier_gives_what_its_last_layer_reads() -> None:
    model = make_classifier().eval()
    x = torch.rand(4, *SHAPE)
    backbone = Backbone(model, image_shape=SHAPE)
    torch.testing.assert_close(backbone(x), model[:5](x))
    torch.testing.assert_close(model[5](backbone(x)), model(x))


def test_the_output_is_taken_if_asked_for() -> None:
    model = make_classifier().eval()
    x = torch.rand(4, *SHAPE)
    torch.testing.assert_close(Backbone(model, image_shape=SHAPE, use_output=True)(x), model(x))


@pytest.mark.parametrize("with_class", [True, False])
def test_tokens_become_one_vector(with_class: bool) -> None:
    model, x = Tokens(with_class), torch.rand(4, *SHAPE)
    expected = model(x)[:, 0] if with_class else model(x).mean(dim=1)
    torch.testing.assert_close(Backbone(model, image_shape=SHAPE)(x), expected)


def test_maps_are_averaged() -> None:
    model, x = nn.Conv2d(3, 5, 3), torch.rand(4, *SHAPE)
    expected = model(x).mean(dim=(2, 3))
    torch.testing.assert_close(Backbone(model, image_shape=SHAPE)(x), expected)


def test_the_network_is_not_changed_and_its_tensors_are_shared() -> None:
    model = make_classifier().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random_state = torch.get_rng_state()
    backbone = Backbone(model, image_shape=SHAPE)
    classifier = FeatureClassifier(backbone, 3).train()
    classifier(torch.rand(4, *SHAPE))
    assert torch.equal(torch.get_rng_state()[:1], random_state[:1])
    assert isinstance(model[5], nn.Linear)
    assert all(part.training for part in model.modules())
    assert not any(part.training for part in backbone.model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    own = {p.data_ptr() for p in model.parameters()}
    assert {p.data_ptr() for p in backbone.parameters()} <= own


def test_a_layer_that_is_used_twice_is_not_the_last() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Linear(3, 3)

        @override
        def forward(self, x: Tensor) -> Tensor:
            return self.mix(self.mix(x.mean(dim=(2, 3))).relu())

    model, x = Twice(), torch.rand(4, *SHAPE)
    torch.testing.assert_close(Backbone(model, image_shape=SHAPE)(x), model(x))


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"`backbone` must return features \(B, E\), maps"):
        pool_features(torch.zeros(2, 3, 4, 5, 6))


def test_other_returns_are_refused() -> None:
    class Words(nn.Module):
        @override
        def forward(self, x: Tensor) -> str:
            return "features"

    with pytest.raises(ArgumentError, match="`backbone` must return features with one row per im"):
        Backbone(Words(), image_shape=SHAPE)
