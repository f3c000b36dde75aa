"""Where the last map of a model is found, for many architectures."""

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.networks.frozen_features import LastMap, find_last_map
from tests.support.frozen_models import ARCHITECTURES, Pooled, Snapshot, Transformer, built

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


def test_a_model_that_returns_no_tensor_gets_a_helpful_error() -> None:
    class Many(nn.Module):
        @override
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"scores": x, "other": x}

    with pytest.raises(ArgumentError, match=r"must return a tensor: got dict\. Pick the tensor"):
        find_last_map(Many(), SHAPE)
