"""Bad input: one test per message, as users see it (without the shape checker of the tests)."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.errors import ArgumentError, InstaAugError, NonFiniteError, ShapeError
from tests.support.models import images, labels
from tests.support.unhooked import unhooked

CROP = T.Crop(levels=((1.0, 1), (0.5, 2)))


@pytest.fixture(autouse=True)
def _as_users_run_it() -> Iterator[None]:
    with unhooked():
        yield


# --- images -------------------------------------------------------------------------------------


def with_value(value: float) -> Tensor:
    x = images()
    x[1, 2, 3, 4] = value
    return x


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        pytest.param(
            torch.zeros(3, 16, 16),
            ShapeError,
            r"`x` must be a batch of images \(B, C, H, W\): got shape \(3, 16, 16\).*unsqueeze",
            id="three_axes",
        ),
        pytest.param(
            torch.zeros(2, 3, 16, 16, dtype=torch.uint8),
            ShapeError,
            r"`x` must be floating point: got torch\.uint8\. Convert .*x\.float\(\) / 255",
            id="bytes",
        ),
        pytest.param(
            torch.zeros(0, 3, 16, 16),
            ShapeError,
            r"at least one image .*got shape \(0, 3, 16, 16\)\. Skip empty batches",
            id="empty_batch",
        ),
        pytest.param(
            torch.zeros(2, 3, 0, 16),
            ShapeError,
            r"at least one pixel: got shape \(2, 3, 0, 16\)",
            id="no_pixels",
        ),
        pytest.param(
            torch.zeros(2, 1, 16, 16),
            ShapeError,
            r"`x` must have 3 channels: got 1 .*in_channels=1",
            id="wrong_channels",
        ),
        pytest.param(
            with_value(torch.nan),
            NonFiniteError,
            r"`x` must be finite: got 1 NaN or infinite values of 3072\. Look for",
            id="nan",
        ),
        pytest.param(
            with_value(torch.inf),
            NonFiniteError,
            r"`x` must be finite: got 1 NaN or infinite values",
            id="infinity",
        ),
        pytest.param(
            torch.full((2, 3, 4, 4), -torch.inf),
            NonFiniteError,
            r"`x` must be finite: got 96 NaN or infinite values of 96",
            id="all_infinite",
        ),
    ],
)
@pytest.mark.parametrize("call", ["forward", "distribution"])
def test_images_that_cannot_be_augmented(
    call: str, x: Tensor, error: type[InstaAugError], message: str
) -> None:
    with pytest.raises(error, match=message):
        getattr(InstaAug(CROP), call)(x)


def test_colors_need_three_channels() -> None:
    with pytest.raises(ShapeError, match=r"`x` must be RGB for hsv_jitter: got 1 channels\. Use"):
        InstaAug("hsv_jitter", in_channels=1)(images(channels=1))


# --- the call -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_samples", [0, -2])
def test_no_samples(n_samples: int) -> None:
    with pytest.raises(ArgumentError, match=rf"`n_samples` must be at least 1: got {n_samples}\."):
        InstaAug(CROP)(images(), n_samples=n_samples)


@pytest.mark.parametrize("n", [3, 5])
def test_targets_of_the_wrong_length(n: int) -> None:
    message = rf"`targets` must have one entry per input: got {n} for 4 inputs\."
    with pytest.raises(ShapeError, match=message):
        InstaAug(CROP)(images(), targets=labels(n))


def test_several_samples_of_the_exact_estimator() -> None:
    with pytest.raises(ArgumentError, match=r'left at 1 with estimator="exact".*got 2\.'):
        InstaAug(CROP, estimator="exact")(images(), n_samples=2)


def test_no_targets_where_the_class_decides() -> None:
    message = r'`targets` must be given in training with conditioning="class": got None\. Call aug'
    with pytest.raises(ArgumentError, match=message):
        InstaAug(CROP, conditioning="class", num_classes=3)(images())


@pytest.mark.parametrize(
    ("targets", "got"), [([0, 1, 2, 3], "from 0 to 3"), ([-1, 0, 1, 2], "from -1 to 2")]
)
def test_labels_out_of_range_where_the_class_decides(targets: list[int], got: str) -> None:
    """Minus one would silently mean the last class."""
    aug = InstaAug(CROP, conditioning="class", num_classes=3)
    with pytest.raises(
        ArgumentError, match=rf"`targets` must lie in \[0, 2\].*labels {got}\. Drop"
    ):
        aug(images(), targets=torch.tensor(targets))


@pytest.mark.parametrize("targets", [torch.rand(4), torch.zeros(4, 3, dtype=torch.long)])
def test_targets_that_are_no_labels_where_the_class_decides(targets: Tensor) -> None:
    aug = InstaAug(CROP, conditioning="class", num_classes=3)
    with pytest.raises(ShapeError, match="`targets` must be one whole number per input"):
        aug(images(), targets=targets)


# --- losses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "error", "message"),
    [
        pytest.param(
            torch.tensor(1.0),
            ShapeError,
            r'shape \(8,\): got a scalar\. Use reduction="none"\.',
            id="scalar",
        ),
        pytest.param(
            torch.ones(4),
            ShapeError,
            r"one loss per augmented input, shape \(8,\): got shape \(4,\)\..*batch\.targets does",
            id="one_per_input_but_two_samples",
        ),
        pytest.param(
            torch.ones(8, 10),
            ShapeError,
            r"got shape \(8, 10\)\. Average over all other axes first",
            id="one_per_class",
        ),
        pytest.param(
            torch.ones(4, 2), ShapeError, r"got shape \(4, 2\)", id="by_input_instead_of_by_sample"
        ),
        pytest.param(torch.ones(0), ShapeError, r"got shape \(0,\)", id="empty"),
        pytest.param(
            torch.tensor([1.0] * 7 + [torch.nan]),
            NonFiniteError,
            r"`losses` must be finite: got 1 NaN or infinite values of 8\. Lower the learning",
            id="nan",
        ),
        pytest.param(
            torch.tensor([torch.inf, -torch.inf] + [1.0] * 6),
            NonFiniteError,
            r"`losses` must be finite: got 2 NaN or infinite values of 8",
            id="infinities_that_cancel",
        ),
    ],
)
def test_losses_that_cannot_be_learned_from(
    losses: Tensor, error: type[InstaAugError], message: str
) -> None:
    aug = InstaAug(CROP)
    batch = aug(images(), n_samples=2)
    before = aug.band.weight.clone()
    with pytest.raises(error, match=message):
        aug.objective(losses, batch)
    assert torch.equal(aug.band.weight, before)  # a step that failed leaves no trace


def test_rloo_with_one_sample() -> None:
    aug = InstaAug(CROP, baseline="rloo")
    with pytest.raises(
        ArgumentError, match=r'at least 2 for baseline="rloo": got 1\. Call aug\(x'
    ):
        aug.objective(torch.ones(4), aug(images()))
