"""Features of a frozen model: what they are, what they cost, and that the model is not touched."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.networks import FrozenFeatures
from tests.support.frozen_models import ARCHITECTURES, Counting, Pooled, Snapshot, built
from tests.support.models import images

X = images(3, height=32, width=32)
LOCAL_LOGIT_OF_THE_TOP_CLASS = 6  # its number among the evidence
AVERAGED = ["functional ReLU", "in-place ReLU", "module ReLU", "in-place module", "no activation",
            "one ReLU for all", "convolution last", "class map", "no class token",
            "channels last"]  # fmt: skip


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_look_returns_what_the_model_returns_and_maps_for_phi(name: str) -> None:
    model = built(name)
    features = FrozenFeatures(model, size=32, width=7)
    seen, returned = features.look(X)
    expected = model(X)
    if isinstance(expected, Tensor):
        assert torch.equal(returned, expected)
    else:
        assert type(returned) is type(expected)
    (maps,) = features(X)
    assert maps.shape == (3, 7, *features.place.shape)
    torch.testing.assert_close(maps, features.mix(seen))
    assert not seen.requires_grad


@pytest.mark.parametrize("name", AVERAGED)
def test_what_the_places_say_averages_to_what_the_model_says(name: str) -> None:
    """True only of the very map that the model pools, with or without its ReLU."""
    seen, logits = FrozenFeatures(built(name), size=32).look(X)
    local = seen[:, LOCAL_LOGIT_OF_THE_TOP_CLASS].mean(dim=(1, 2))
    torch.testing.assert_close(local, logits.amax(dim=1), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["functional ReLU", "dict", "class token", "flattened"])
def test_a_look_leaves_a_model_in_training_mode_as_it_was(name: str) -> None:
    model = built(name).train()
    features = FrozenFeatures(model, size=32)
    before = Snapshot(model)
    seen, _ = features.look(X)
    features.train()(X)
    assert Snapshot(model) == before
    torch.testing.assert_close(seen, FrozenFeatures(built(name), size=32).look(X)[0])


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_look_leaves_no_trace(error: type[BaseException]) -> None:
    class Fragile(Pooled):
        broken = False

        @override
        def forward(self, x: Tensor) -> Tensor:
            result = super().forward(x)
            if self.broken:
                raise error("in the middle")
            return result

    model = Fragile()
    features = FrozenFeatures(model, size=32)
    before = Snapshot(model)
    model.broken = True
    with pytest.raises(error, match="in the middle"):
        features.look(X)
    assert Snapshot(model) == before


def test_the_model_is_borrowed() -> None:
    model = built("functional ReLU")
    features = FrozenFeatures(model, size=32)
    assert sorted(features.state_dict()) == ["mean", "mix.bias", "mix.weight", "std"]
    features.double().train().requires_grad_(requires_grad=False)
    assert not model.training
    assert all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters())
    assert features(X)[0].dtype == torch.float64


def test_gradients_flow_through_what_is_returned_and_not_through_what_is_seen() -> None:
    model = built("functional ReLU")
    features = FrozenFeatures(model, size=32)
    x = X.clone().requires_grad_()
    _, returned = features.look(x)
    (got,) = torch.autograd.grad(returned.sum(), x)
    (expected,) = torch.autograd.grad(model(x).sum(), x)
    torch.testing.assert_close(got, expected)
    features(x)[0].sum().backward()
    assert all(p.grad is None for p in model.parameters())
    assert x.grad is None
    assert features.mix.weight.grad is not None


@pytest.mark.parametrize("how", ["torch.compile", "in place"])
def test_a_compiled_model_is_read_like_any_other(how: str) -> None:
    torch.compiler.reset()
    expected, logits = FrozenFeatures(built("functional ReLU"), size=32).look(X)
    model = built("functional ReLU")
    if how == "in place":
        model.compile(backend="eager")
    compiled: Any = model if how == "in place" else torch.compile(model, backend="eager")
    with torch.no_grad():
        compiled(X)  # from now on a hook would not be heard
    features = FrozenFeatures(compiled, size=32)
    seen, returned = features.look(X)
    torch.testing.assert_close(seen, expected)
    torch.testing.assert_close(returned, logits)
    assert features.reads(model)
    assert features.reads(compiled)
    assert not features.reads(built("functional ReLU"))
    assert not features.reads(None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_model_is_asked_in_its_own_precision(dtype: torch.dtype) -> None:
    model = built("functional ReLU").to(dtype)
    seen, returned = FrozenFeatures(model, size=32).look(X)
    assert seen.dtype == torch.float32
    assert torch.equal(returned, model(X.to(dtype)))
    exact, _ = FrozenFeatures(built("functional ReLU"), size=32).look(X)
    assert float((seen - exact).abs().max()) < (0.5 if dtype == torch.bfloat16 else 1e-4)


def test_a_gray_image_will_do() -> None:
    features = FrozenFeatures(Pooled(channels=1).eval(), size=(32, 64), in_channels=1)
    assert features(images(2, 1, 32, 64))[0].shape == (2, 16, 8, 16)


def test_nested_and_shared_parts_are_found_by_one_of_their_names() -> None:
    inner = built("module ReLU")
    model = nn.Sequential(nn.ModuleDict({"a": inner, "b": inner})["a"], nn.Identity())
    features = FrozenFeatures(model, size=32)
    assert torch.equal(features.look(X)[1], inner(X))


@pytest.mark.parametrize(("chunk_size", "largest"), [(None, 32), (5, 5), (100, 40)])
def test_no_more_than_a_chunk_is_looked_at_at_once(chunk_size: int | None, largest: int) -> None:
    model = Counting()
    features = FrozenFeatures(model, size=32)
    x = images(40, height=32, width=32)
    model.n_seen = model.largest = 0
    parts = [seen for seen, _ in features.look_in_chunks(x, chunk_size=chunk_size)]
    assert (model.n_seen, model.largest) == (40, largest)
    torch.testing.assert_close(torch.cat(parts), features.look(x)[0], atol=1e-4, rtol=1e-4)


def test_standardized_channels_have_mean_0_and_spread_1() -> None:
    features = FrozenFeatures(built("functional ReLU"), size=32)
    seen, _ = features.look(images(40, height=32, width=32))
    features.standardize(seen)
    values = ((seen - features.mean) / features.std).movedim(1, 0).flatten(1)
    torch.testing.assert_close(values.mean(dim=1), torch.zeros(12), atol=0.01, rtol=0)
    spread = torch.ones(12)
    spread[5] = 0.0  # of five classes, the five likeliest are always all
    torch.testing.assert_close(values.std(dim=1), spread, atol=0.01, rtol=0)


def test_a_channel_that_never_moved_does_not_explode_when_it_does() -> None:
    features = FrozenFeatures(built("flattened"), size=32)
    seen = features.look(X)[0]
    seen[:, 0] = 0.0  # as a ReLU that is dead for all training images
    features.standardize(seen)
    seen[:, 0] = 0.5
    standardized = (seen - features.mean) / features.std
    assert float(standardized[:, 0].abs().max()) == 0.5
