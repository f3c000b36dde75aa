"""The input of a model's last linear layer is read as it is, and the model stays as it was."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.networks import PreActResNet18, SmallCNN
from instaaug.networks.encoders import PenultimateFeatures, backbone_parameters
from tests.support.frozen_models import ARCHITECTURES, Pooled, Snapshot, built

WITHOUT_HEAD = ("class map", "convolution last")
READABLE = [name for name in ARCHITECTURES if name not in (*WITHOUT_HEAD, "two heads")]


def noise(n: int = 4, seed: int = 1) -> Tensor:
    return torch.rand(n, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


def logits_of(returned: object) -> Tensor:
    if isinstance(returned, dict):
        returned = returned["logits"]
    found = returned[0] if isinstance(returned, tuple) else returned
    assert isinstance(found, Tensor)
    return found


@pytest.mark.parametrize("name", READABLE)
def test_the_head_makes_the_logits_of_the_features(name: str) -> None:
    model, x = built(name), noise()
    features = PenultimateFeatures(model)
    found = features(x)
    assert found.shape == (4, features.n_features)
    logits = logits_of(model(x))
    torch.testing.assert_close(features.head(found).view_as(logits), logits)


def test_features_are_those_of_a_plain_computation() -> None:
    model, x = SmallCNN(5), noise()
    expected = F.adaptive_avg_pool2d(model.features(x), 4).flatten(1)
    assert torch.equal(PenultimateFeatures(model)(x), expected.detach())


@pytest.mark.parametrize("gradient", [False, True])
def test_a_model_in_training_is_left_as_it_was(gradient: bool) -> None:
    model, x = built("functional ReLU").train(), noise()
    model.get_submodule("norm").eval()
    before, state = Snapshot(model), torch.get_rng_state()
    found = PenultimateFeatures(model)(x, gradient=gradient)
    assert Snapshot(model) == before
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(found, PenultimateFeatures(copy.deepcopy(model).eval())(x))


class TwoClassifiers(nn.Module):
    """As a distilled transformer of timm has them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.body = (nn.Linear(4, n) for n in (2, 2, 4))

    def get_classifier(self) -> tuple[nn.Module, nn.Module]:
        return self.first, self.second


@pytest.mark.parametrize(
    ("model", "slow"),
    [
        (TwoClassifiers(), ["body.weight", "body.bias"]),
        (nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), ["0.weight", "0.bias"]),
    ],
)
def test_the_backbone_is_all_but_what_makes_the_outputs(model: nn.Module, slow: list[str]) -> None:
    found = {id(p) for p in backbone_parameters(model)}
    assert [name for name, p in model.named_parameters() if id(p) in found] == slow


def test_an_interrupted_reading_leaves_no_trace() -> None:
    class Failing(Pooled):
        @override
        def forward(self, x: Tensor) -> Tensor:
            super().forward(x)
            raise KeyboardInterrupt

    model = Failing().train()
    model.stem.eval()
    before = Snapshot(model)
    with pytest.raises(KeyboardInterrupt):
        PenultimateFeatures(model)(noise())
    assert Snapshot(model) == before


def test_gradient_is_there_when_asked_for_and_only_then() -> None:
    model, x = built("functional ReLU"), noise().requires_grad_()
    features = PenultimateFeatures(model)
    assert not features(x).requires_grad
    with torch.no_grad():  # what is asked for is given
        found = features(x, gradient=True)
    found.sum().backward()
    assert x.grad is not None
    assert float(x.grad.abs().sum()) > 0
    conv = model.get_submodule("conv")
    assert isinstance(conv, nn.Conv2d)
    assert conv.weight.grad is not None
    assert features.head.weight.grad is None


def test_a_compiled_model_is_read_like_the_one_inside() -> None:
    model, x = PreActResNet18(3, width=0.0625), noise()
    compiled = torch.compile(model, backend="eager")
    assert isinstance(compiled, nn.Module)
    assert torch.equal(PenultimateFeatures(compiled)(x), PenultimateFeatures(model)(x))


def test_logits_are_picked_from_what_the_model_returns() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = SmallCNN(3)

        @override
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"answer": self.model(x)}

    with pytest.raises(ArgumentError, match="pick them with output="):
        PenultimateFeatures(Odd())(noise())
    assert PenultimateFeatures(Odd(), output=lambda o: o["answer"])(noise()).shape == (4, 1024)


@pytest.mark.parametrize("name", WITHOUT_HEAD)
def test_a_model_without_a_linear_layer_is_refused_at_once(name: str) -> None:
    with pytest.raises(ArgumentError, match=r"final nn\.Linear: got no linear layer in Seq"):
        PenultimateFeatures(built(name))


def test_a_lazy_layer_is_refused_until_it_has_seen_an_input() -> None:
    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(5))
    with pytest.raises(ArgumentError, match="got one that has not seen an input yet"):
        PenultimateFeatures(model)
    model(noise())
    assert PenultimateFeatures(model).n_features == 3072


@pytest.mark.parametrize("last", ["nothing", "softmax", "layer"])
def test_a_model_whose_logits_come_from_elsewhere_is_refused(last: str) -> None:
    class Elsewhere(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.flat = SmallCNN(5), nn.Flatten()
            self.other = nn.Linear(5, 5)

        @override
        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            if last == "nothing":
                return x
            return self.other(x).softmax(dim=1) if last == "softmax" else self.other(x) + x

    with pytest.raises(ArgumentError, match=r"has Linear\(in_features=5, .* returned something"):
        PenultimateFeatures(Elsewhere())(noise())


def test_two_heads_are_no_final_layer() -> None:
    with pytest.raises(ArgumentError, match="TwoHeads has Linear"):
        PenultimateFeatures(built("two heads"))(noise())
