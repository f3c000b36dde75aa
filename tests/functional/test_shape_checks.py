"""The checks at the door: images and finite numbers, with their words."""

import pytest
import torch
from torch import Tensor

from instaaug.errors import NonFiniteError, ShapeError
from instaaug.shapes import check_finite, check_images


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (
            torch.zeros(3, 8, 8),
            r"`x` must be a batch of images \(B, C, H, W\): got shape \(3, 8, 8\)\. "
            r"A single image needs x\.unsqueeze\(0\)\.",
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
    ],
    ids=["three axes", "integers", "empty", "gray"],
)
def test_what_is_no_batch_of_images_is_refused(x: Tensor, words: str) -> None:
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
