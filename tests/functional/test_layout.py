"""What goes in with its channels last comes out with its channels last."""

import pytest
import torch

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.shapes import match_layout

LAST = torch.channels_last
KINDS: dict[str, list[T.Transform]] = {
    "crop": [T.Crop()],
    "rotation": [T.Rotation()],
    "color": [T.HSVJitter()],
    "local": [T.LocalNoise(levels=((0.5, 4),))],
    "all": [T.Crop(), T.Rotation(), T.HSVJitter(), T.Brightness()],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_samples", [1, 3])
@pytest.mark.parametrize("last", [True, False], ids=["last", "planes"])
def test_views_are_in_the_memory_order_of_the_images(
    kind: str, n_samples: int, last: bool
) -> None:
    x = torch.rand(2, 3, 16, 16)
    order = LAST if last else torch.contiguous_format
    views = InstaAug(KINDS[kind])(x.contiguous(memory_format=order), n_samples).inputs
    assert views.is_contiguous(memory_format=order)


def test_views_at_test_time_are_in_the_memory_order_of_the_images() -> None:
    orders = []

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            orders.append(x.is_contiguous(memory_format=LAST))
            return x.mean(dim=(2, 3))

    predictor = InstaAug([T.Crop(), T.HSVJitter()]).wrap(Model(), 6, chunk_size=4).eval()
    predictor(torch.rand(2, 3, 16, 16).contiguous(memory_format=LAST))
    assert orders == [True] * 3


def test_what_is_in_order_already_is_not_copied() -> None:
    x = torch.rand(2, 3, 4, 4)
    assert match_layout(x, x) is x
    last = x.contiguous(memory_format=LAST)
    assert match_layout(last, last) is last


def test_a_single_channel_counts_as_planes() -> None:
    x = torch.rand(2, 1, 4, 4).contiguous(memory_format=LAST)
    assert match_layout(x, torch.rand(2, 1, 4, 4)).is_contiguous()
