"""Checks of images and finite numbers, with their words; the memory order is kept."""

from typing import Any

import numpy as np
import pytest
import torch

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.errors import NonFiniteError, ShapeError
from instaaug.shapes import check_finite, check_images, match_layout

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


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (
            torch.zeros(3, 8, 8),
            r"`x` must be a batch of images \(B, C, H, W\): got shape \(3, 8, 8\)\. "
            r"A single image needs x\.unsqueeze\(0\), a batch of signals x\[:, :, None\]\.",
        ),
        (
            torch.zeros(1, 3, 8, 8, dtype=torch.uint8),
            r"`x` must be floating point: got torch\.uint8\. Convert 8-bit images with",
        ),
        (
            torch.zeros(0, 3, 8, 8),
            r"`x` must hold at least one image of at least one pixel: got shape \(0, 3, 8, 8\)\. "
            r"Skip empty batches\.",
        ),
        (
            torch.zeros(1, 1, 8, 8),
            r"`x` must have 3 channels: got 1 \(shape \(1, 1, 8, 8\)\)\. "
            r"Build the augmenter with in_channels=1\.",
        ),
        (
            torch.zeros(2, 8, 9, 3),
            r"`x` must be \(B, C, H, W\) with 3 channels: got shape \(2, 8, 9, 3\), whose "
            r"channels come last\. Call x\.permute\(0, 3, 1, 2\) first\.",
        ),
        (torch.zeros(2, 8, 9, 1), r"with 3 channels: got shape \(2, 8, 9, 1\), whose .* last"),
        (
            torch.zeros(2, 8, 9, 3, dtype=torch.uint8),
            r"Convert 8-bit images with x\.permute\(0, 3, 1, 2\)\.float\(\) / 255",
        ),
        (np.zeros((2, 3, 8, 8)), r"must be a tensor .* got ndarray\. .* torch\.from_numpy\(x\)"),
        ([torch.zeros(3, 8, 8)], r"must be a tensor .* got list\. .* torch\.stack\(x\)"),
    ],
    ids=[
        *("three axes", "integers", "empty", "gray", "channels last", "gray last"),
        *("integers last", "array", "list"),
    ],
)
def test_what_is_no_batch_of_images_is_refused(x: Any, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        check_images(x, channels=3)


@pytest.mark.parametrize("channels", [None, 5])
def test_images_of_any_size_pass(channels: int | None) -> None:
    check_images(torch.zeros(2, 5, 1, 7), channels=channels)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_none_is_counted(bad: float) -> None:
    value = torch.zeros(3, 4)
    value[1, 2] = value[0, 0] = bad
    words = r"`losses` must be finite: got 2 NaN or infinite values of 12\. Look twice\."
    with pytest.raises(NonFiniteError, match=words):
        check_finite(value, name="losses", advice="Look twice.")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_numbers_pass_even_where_their_sum_would_overflow(dtype: torch.dtype) -> None:
    check_finite(torch.full((9,), torch.finfo(dtype).max, dtype=dtype), name="x", advice="")
