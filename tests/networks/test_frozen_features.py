"""Features of a frozen model: where they are found, what they say, what they cost."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.networks import FrozenFeatures
from instaaug.networks.frozen_features import N_EVIDENCE, LastMap, class_evidence, find_last_map
from tests.support.frozen_models import (
    ARCHITECTURES,
    Counting,
    Pooled,
    Snapshot,
    Transformer,
    built,
)
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
    seen, returned = features.features_and_outputs(X)
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
    seen, logits = FrozenFeatures(built(name), size=32).features_and_outputs(X)
    local = seen[:, LOCAL_LOGIT_OF_THE_TOP_CLASS].mean(dim=(1, 2))
    torch.testing.assert_close(local, logits.amax(dim=1), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["functional ReLU", "dict", "class token", "flattened"])
def test_a_look_leaves_a_model_in_training_mode_as_it_was(name: str) -> None:
    model = built(name).train()
    features = FrozenFeatures(model, size=32)
    before = Snapshot(model)
    seen, _ = features.features_and_outputs(X)
    features.train()(X)
    assert Snapshot(model) == before
    torch.testing.assert_close(
        seen, FrozenFeatures(built(name), size=32).features_and_outputs(X)[0]
    )


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
        features.features_and_outputs(X)
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
    _, returned = features.features_and_outputs(x)
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
    expected, logits = FrozenFeatures(built("functional ReLU"), size=32).features_and_outputs(X)
    model = built("functional ReLU")
    if how == "in place":
        model.compile(backend="eager")
    compiled: Any = model if how == "in place" else torch.compile(model, backend="eager")
    with torch.no_grad():
        compiled(X)  # from now on a hook would not be heard
    features = FrozenFeatures(compiled, size=32)
    seen, returned = features.features_and_outputs(X)
    torch.testing.assert_close(seen, expected)
    torch.testing.assert_close(returned, logits)
    assert features.reads(model)
    assert features.reads(compiled)
    assert not features.reads(built("functional ReLU"))
    assert not features.reads(None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_model_is_asked_in_its_own_precision(dtype: torch.dtype) -> None:
    model = built("functional ReLU").to(dtype)
    seen, returned = FrozenFeatures(model, size=32).features_and_outputs(X)
    assert seen.dtype == torch.float32
    assert torch.equal(returned, model(X.to(dtype)))
    exact, _ = FrozenFeatures(built("functional ReLU"), size=32).features_and_outputs(X)
    assert float((seen - exact).abs().max()) < (0.5 if dtype == torch.bfloat16 else 1e-4)


def test_a_gray_image_will_do() -> None:
    features = FrozenFeatures(Pooled(channels=1).eval(), size=(32, 64), in_channels=1)
    assert features(images(2, 1, 32, 64))[0].shape == (2, 16, 8, 16)


def test_nested_and_shared_parts_are_found_by_one_of_their_names() -> None:
    inner = built("module ReLU")
    model = nn.Sequential(nn.ModuleDict({"a": inner, "b": inner})["a"], nn.Identity())
    features = FrozenFeatures(model, size=32)
    assert torch.equal(features.features_and_outputs(X)[1], inner(X))


@pytest.mark.parametrize(("chunk_size", "largest"), [(None, 32), (5, 5), (100, 40)])
def test_no_more_than_a_chunk_is_looked_at_at_once(chunk_size: int | None, largest: int) -> None:
    model = Counting()
    features = FrozenFeatures(model, size=32)
    x = images(40, height=32, width=32)
    model.n_seen = model.largest = 0
    parts = [seen for seen, _ in features.features_in_chunks(x, chunk_size=chunk_size)]
    assert (model.n_seen, model.largest) == (40, largest)
    torch.testing.assert_close(
        torch.cat(parts), features.features_and_outputs(x)[0], atol=1e-4, rtol=1e-4
    )


def test_standardized_channels_have_mean_0_and_spread_1() -> None:
    features = FrozenFeatures(built("functional ReLU"), size=32)
    seen, _ = features.features_and_outputs(images(40, height=32, width=32))
    features.standardize(seen)
    values = ((seen - features.mean) / features.std).movedim(1, 0).flatten(1)
    torch.testing.assert_close(values.mean(dim=1), torch.zeros(12), atol=0.01, rtol=0)
    spread = torch.ones(12)
    spread[5] = 0.0  # of five classes, the five likeliest are always all
    torch.testing.assert_close(values.std(dim=1), spread, atol=0.01, rtol=0)


def test_a_channel_that_never_moved_does_not_explode_when_it_does() -> None:
    features = FrozenFeatures(built("flattened"), size=32)
    seen = features.features_and_outputs(X)[0]
    seen[:, 0] = 0.0  # as a ReLU that is dead for all training images
    features.standardize(seen)
    seen[:, 0] = 0.5
    standardized = (seen - features.mean) / features.std
    assert float(standardized[:, 0].abs().max()) == 0.5


def naive(features: Tensor, logits: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One image, one place at a time, from the definition."""
    result = torch.empty(len(features), N_EVIDENCE, *features.shape[2:], dtype=features.dtype)
    for b, whole_image in enumerate(logits):
        order = whole_image.argsort(descending=True)[:16]
        second = min(1, len(order) - 1)
        whole = whole_image[order].softmax(dim=0)
        about_whole = [whole[0].log(), (whole * whole.log()).sum()]
        about_whole.append(whole_image[order[0]] - whole_image[order[second]])
        for i in range(features.shape[2]):
            for j in range(features.shape[3]):
                h = features[b, :, i, j]
                here = (weight @ h + bias)[order]
                local = here.softmax(dim=0)
                numbers = [
                    here.max(), local.max().log(), (local * local.log()).sum(), local[0].log(),
                    (local * whole).sum().log(), local[:5].sum().log(), here[0], here[second],
                    h.square().sum().sqrt(),
                ]  # fmt: skip
                result[b, :, i, j] = torch.stack([*numbers, *about_whole])
    return result


@pytest.mark.parametrize("num_classes", [1, 2, 5, 40])
def test_the_evidence_is_what_a_loop_over_places_finds(num_classes: int) -> None:
    torch.manual_seed(0)
    features = torch.randn(2, 6, 3, 2)
    weight, bias = torch.randn(num_classes, 6), torch.randn(num_classes)
    logits = features.mean(dim=(2, 3)) @ weight.T + bias
    found = class_evidence(features, logits, weight, bias)
    torch.testing.assert_close(found, naive(features, logits, weight, bias), atol=1e-5, rtol=1e-4)
    without = class_evidence(features, logits, weight, None)
    torch.testing.assert_close(
        without, naive(features, logits, weight, 0 * bias), atol=1e-5, rtol=1e-4
    )


def test_a_map_of_classes_needs_no_layer() -> None:
    torch.manual_seed(0)
    features = torch.randn(2, 30, 3, 2)
    logits = features.mean(dim=(2, 3))
    expected = naive(features, logits, torch.eye(30), torch.zeros(30))
    found = class_evidence(features, logits, None, None)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_the_names_of_classes_do_not_matter() -> None:
    """Whoever renames the classes finds the same evidence: φ may be used for other classes."""
    torch.manual_seed(0)
    features, weight, bias = torch.randn(2, 6, 3, 2), torch.randn(20, 6), torch.randn(20)
    logits, order = features.mean(dim=(2, 3)) @ weight.T + bias, torch.randperm(20)
    torch.testing.assert_close(
        class_evidence(features, logits, weight, bias),
        class_evidence(features, logits[:, order], weight[order], bias[order]),
    )


def test_extreme_logits_stay_finite() -> None:
    features, weight = 1e4 * torch.randn(2, 6, 3, 2), 1e2 * torch.randn(20, 6)
    logits = features.mean(dim=(2, 3)) @ weight.T
    assert torch.isfinite(class_evidence(features, logits, weight, None)).all()


SHAPE = (3, 32, 32)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_last_map_is_found(name: str) -> None:
    assert find_last_map(built(name), SHAPE).description == ARCHITECTURES[name][1]


@pytest.mark.parametrize("name", ["functional ReLU", "class token", "flattened"])
def test_looking_for_it_leaves_no_trace(name: str) -> None:
    model = built(name).train()
    model.get_submodule("head" if name != "flattened" else "1").eval()
    before, state = Snapshot(model), torch.get_rng_state()
    find_last_map(model, SHAPE)
    assert Snapshot(model) == before
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_search_leaves_no_trace(error: type[BaseException]) -> None:
    class Failing(nn.Module):
        @override
        def forward(self, x: Tensor) -> Tensor:
            raise error("in the middle")

    model = nn.Sequential(Pooled(), Failing())
    before = Snapshot(model)
    with pytest.raises((ArgumentError, KeyboardInterrupt), match="in the middle"):
        find_last_map(model, SHAPE)
    assert Snapshot(model) == before


@pytest.mark.parametrize(
    ("height", "width", "class_token", "shape"),
    [(32, 32, True, (4, 4)), (32, 64, True, (4, 8)), (48, 16, False, (6, 2))],
)
def test_patches_lie_on_a_rectangle(
    height: int, width: int, class_token: bool, shape: tuple[int, int]
) -> None:
    """A patch that shines lights up its own place of the map, not another's."""
    model = Transformer(class_token=class_token).eval()
    place = find_last_map(model, (3, height, width))
    assert place.shape == shape
    assert place.skipped == int(class_token)
    tokens = torch.arange(place.skipped + shape[0] * shape[1])[None, :, None].float()
    expected = torch.arange(shape[0] * shape[1]).view(shape) + place.skipped
    torch.testing.assert_close(place.as_map(tokens)[0, 0], expected.float())


def test_a_larger_image_has_more_patches() -> None:
    place = LastMap("norm", 10, (4, 8), skipped=1)
    assert place.as_map(torch.zeros(2, 1 + 8 * 16, 10)).shape == (2, 10, 8, 16)


def test_channels_that_come_last_are_put_in_front() -> None:
    out = torch.rand(2, 3, 5, 7)
    place = LastMap("norm", 7, (3, 5), channels_last=True)
    torch.testing.assert_close(place.as_map(out)[1, 6, 2, 4], out[1, 2, 4, 6])


def test_a_model_without_a_map_gets_a_helpful_error() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 5), nn.ReLU(), nn.Linear(5, 5))
    with pytest.raises(ArgumentError, match=r'found none.*its 4 modules.*features="pyramid"'):
        find_last_map(model, SHAPE)


def test_a_model_that_takes_another_size_gets_a_helpful_error() -> None:
    with pytest.raises(ArgumentError, match=r"take images of shape \(3, 40, 40\).*size="):
        find_last_map(built("flattened"), (3, 40, 40))


def test_images_whose_channels_come_last_get_the_call_that_mends_them() -> None:
    with pytest.raises(ArgumentError, match=r"channels come last: call images.permute\(0, 3, 1"):
        find_last_map(built("flattened"), (40, 40, 3))


def test_a_model_that_returns_no_tensor_gets_a_helpful_error() -> None:
    class Many(nn.Module):
        @override
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"scores": x, "other": x}

    with pytest.raises(ArgumentError, match=r"must return a tensor: got dict\. Pick the tensor"):
        find_last_map(Many(), SHAPE)
