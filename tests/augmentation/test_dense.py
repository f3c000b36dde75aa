"""Maps of views, brought back onto the input and merged pixel by pixel."""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug import InstaAug, TestTimeAugmentation
from instaaug import transforms as T
from instaaug.augmentation.at_test_time import Merge
from instaaug.augmentation.dense import view_coverage, warp_back
from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.affine import box_matrix, inverse, rotation_matrix
from instaaug.functional.boxes import coverage
from instaaug.methods import AutoAugment, FixedViews, MixUp, NoAugmentation
from tests.support.models import images

WHOLE = (0.0, 0.0, 2.0, 2.0)
BOXES = [WHOLE, (-0.3, 0.2, 1.1, 0.9), (0.4, -0.1, 0.7, 1.3), (0.25, 0.25, 1.5, 1.5)]
MERGES = pytest.mark.parametrize("merge", ["logit", "probability", "weighted", "confidence"])
CROP = T.Crop(levels=((1.0, 1), (0.6, 2)), max_outside=0.0)


class Convolution(nn.Module):
    """A map of three classes, of which a pixel depends on its neighbors; half as large."""

    def __init__(self, stride: int = 2) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer = nn.Conv2d(3, 3, 3, stride=stride, padding=1)

    @override
    def forward(self, x: Tensor) -> Tensor:
        return 4 * self.layer(x)


def smooth_images(batch: int = 2, height: int = 32, width: int = 32) -> Tensor:
    """Images whose bilinear interpolation is nearly exact: a ramp and a slow wave."""
    y = torch.linspace(-1, 1, height)[:, None].expand(height, width)
    x = torch.linspace(-1, 1, width)[None].expand(height, width)
    image = torch.stack([x, y, 0.2 * (x + 2 * y).sin()])
    return torch.stack([image * (1 + i) for i in range(batch)])


def wrap(boxes: Sequence[tuple[float, ...]] = BOXES, **options: object) -> TestTimeAugmentation:
    views = FixedViews(boxes, [i % 2 == 1 for i in range(len(boxes))], padding_mode="border")
    model = options.pop("model", None) or Convolution()
    return views.wrap(model, len(boxes), select="top", dense=True, **options).eval()  # type: ignore[arg-type]


# --- the way back --------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width"), [(32, 32), (24, 40), (33, 20)])
def test_a_view_of_an_image_comes_back_as_the_image_inside_of_its_box(
    height: int, width: int
) -> None:
    x = smooth_images(1, height, width)
    theta = torch.tensor([[-0.3, 0.2, 1.1, 0.9]])
    crop = T.Composition((T.Crop(),), size=(48, 64))
    view = crop.apply(x, theta, padding_mode="border")
    back, covered = warp_back(view, crop.matrix(theta), size=(height, width))
    inside = (covered > 0.999).expand_as(x)
    assert inside.any()
    assert not inside.all()
    torch.testing.assert_close(back[inside], x[inside], atol=1e-3, rtol=0)


@pytest.mark.parametrize("size", [16, 32])
def test_a_mirrored_map_comes_back_to_the_last_bit(size: int) -> None:
    x = images(2, height=size, width=size)
    theta = torch.tensor([[-1.0, 1.0], [1.0, -1.0]])
    back, covered = warp_back(T.Flip().apply(x, theta), T.Flip().matrix(theta), size=(size, size))
    assert torch.equal(back, x)
    assert torch.equal(covered, torch.ones(2, 1, size, size))


@pytest.mark.parametrize(
    ("transform", "theta"),
    [
        (T.Rotation(), [[0.4]]),
        (T.Shear(), [[0.2, -0.1]]),
        (T.Translate(), [[0.1, -0.2]]),
        (T.Perspective(), [[0.2, -0.1]]),
        (T.Affine(), [[0.1, 0.0, 0.3, 0.1, 0.1, 0.0]]),
        (T.Composition((T.Rotation(), T.Crop(), T.Flip())), [[0.3, 0, 0, 1.4, 1.4, -1, 1]]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, T.Transform) else "",
)
def test_every_geometry_has_its_way_back(transform: T.Transform, theta: list[list[float]]) -> None:
    x = smooth_images(1, 48, 64)
    rows = torch.tensor(theta)
    view = transform.apply(x, rows, padding_mode="border")
    matrix = transform.matrix(rows, aspect=64 / 48)
    back, covered = warp_back(view, matrix, size=(48, 64))
    outside = F.pad((covered < 0.999).float(), (2, 2, 2, 2), value=1.0)
    inside = F.max_pool2d(outside, 5, stride=1) == 0  # interpolation needs a pixel's neighbors
    assert inside.float().mean() > 0.2
    torch.testing.assert_close(
        back[inside.expand_as(x)], x[inside.expand_as(x)], atol=5e-3, rtol=0
    )


@pytest.mark.parametrize("box", [(-0.31, 0.17, 1.13, 0.5), (0.0, 0.0, 0.05, 0.02), (0.9, 0, 1, 1)])
def test_the_coverage_of_a_box_is_its_share_of_each_pixel(box: tuple[float, ...]) -> None:
    rows = torch.tensor([box], dtype=torch.float64)
    ours = view_coverage(inverse(box_matrix(rows)), size=(7, 10))
    torch.testing.assert_close(ours, coverage(rows, height=7, width=10), atol=1e-9, rtol=0)


def test_the_coverage_of_a_turned_square_is_its_area() -> None:
    turned = rotation_matrix(torch.tensor([math.pi / 4]))
    shrunk = turned * torch.tensor([0.5, 0.5, 1.0])  # a square of half the side, on its tip
    share = view_coverage(inverse(shrunk), size=(200, 200)).mean()
    assert share == pytest.approx(0.25, abs=2e-3)


# --- merging -------------------------------------------------------------------------------------


def naive(tta: TestTimeAugmentation, x: Tensor, merge: Merge) -> Tensor:
    """One view and one pixel weight at a time; the weights of fixed views are equal."""
    numerator = denominator = torch.zeros(())
    for theta in tta.samples(x):
        view = tta.augmenter.render(x, theta)
        matrix = tta.augmenter.matrix(theta, aspect=x.shape[-1] / x.shape[-2])
        grid = F.affine_grid(
            torch.linalg.inv(matrix)[:, :2], [len(x), 1, *x.shape[-2:]], align_corners=False
        )
        maps = F.grid_sample(tta.model(view), grid, padding_mode="border", align_corners=False)
        weight = view_coverage(torch.linalg.inv(matrix), size=(x.shape[-2], x.shape[-1]))
        if merge == "confidence":
            probs = maps.softmax(dim=1)
            weight = weight * (-0.7 * torch.special.entr(probs).sum(dim=1, keepdim=True)).exp()
        value = maps.softmax(dim=1) if merge == "probability" else maps
        numerator, denominator = numerator + weight * value, denominator + weight
    mean = numerator / denominator
    return mean.log() if merge == "probability" else mean


@MERGES
@pytest.mark.parametrize("chunk_size", [1, 5, None])
def test_the_merged_map_is_that_of_a_naive_loop(merge: Merge, chunk_size: int | None) -> None:
    x = images(3, height=20, width=28)
    tta = wrap(merge=merge, sharpness=0.7, chunk_size=chunk_size)
    merged = tta(x)
    assert merged.shape == (3, 3, 20, 28)
    torch.testing.assert_close(merged, naive(tta, x, merge), atol=1e-5, rtol=1e-5)


@MERGES
def test_a_pixel_that_one_view_covers_has_its_value(merge: Merge) -> None:
    x = images(1, height=16, width=16)
    left = (-0.5, 0.0, 1.0, 2.0)
    alone, both = wrap([WHOLE], merge=merge)(x), wrap([WHOLE, left], merge=merge)(x)
    torch.testing.assert_close(both[..., 8:], alone[..., 8:])
    assert not torch.allclose(both[..., :8], alone[..., :8], atol=1e-3)


def test_the_temperature_divides_the_merged_map() -> None:
    x = images(1)
    torch.testing.assert_close(wrap(temperature=2.0)(x), wrap()(x) / 2)
    torch.testing.assert_close(
        wrap(temperature=2.0, merge="probability")(x),
        (wrap(merge="probability")(x) / 2).log_softmax(dim=1),
    )


def test_views_may_be_of_another_size_than_the_input() -> None:
    views = FixedViews(BOXES, size=(12, 20), padding_mode="border")
    x = smooth_images(2, 32, 48)
    merged = views.wrap(nn.Identity(), len(BOXES), select="top", dense=True)(x)
    assert merged.shape == x.shape
    torch.testing.assert_close(merged[..., 4:-4, 4:-4], x[..., 4:-4, 4:-4], atol=0.05, rtol=0)


def test_a_learned_distribution_brings_its_maps_back() -> None:
    x = smooth_images(2, 32, 32)
    torch.manual_seed(0)
    aug = InstaAug([CROP, T.Rotation(0.3), T.Flip()], keep_original=True, padding_mode="border")
    merged = aug.wrap(nn.Identity(), 5, dense=True).eval()(x, torch.Generator().manual_seed(0))
    torch.testing.assert_close(merged[..., 4:-4, 4:-4], x[..., 4:-4, 4:-4], atol=0.05, rtol=0)


def test_doing_nothing_changes_nothing() -> None:
    x = images(2)
    assert torch.equal(NoAugmentation().wrap(nn.Identity(), 1, dense=True)(x), x)


def test_the_gradient_reaches_the_model_and_the_image() -> None:
    x = images(2).requires_grad_()
    tta = wrap()
    tta(x).square().mean().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in tta.model.parameters())


def test_gradients_are_those_of_finite_differences() -> None:
    x = images(1, height=6, width=5).double()
    tta = wrap(model=Convolution(1).double(), merge="confidence")
    assert torch.autograd.gradcheck(tta, (x.requires_grad_(),), fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_model_in_half_precision_is_merged_in_full(dtype: torch.dtype) -> None:
    x = images(1)
    merged = wrap(model=Convolution().to(dtype))(x)
    assert merged.dtype == torch.float32
    torch.testing.assert_close(merged, wrap()(x), atol=0.05, rtol=0.05)


def test_double_precision_stays() -> None:
    assert wrap(model=Convolution().double())(images(1).double()).dtype == torch.float64


# --- what cannot work ----------------------------------------------------------------------------


@MERGES
def test_a_pixel_without_a_view_is_an_error(merge: Merge) -> None:
    with pytest.raises(ArgumentError, match=r"got none on 50\.0% of the pixels, in 2 of 2 inputs"):
        wrap([(-0.5, 0.0, 1.0, 2.0)], merge=merge)(images(2))


def test_a_model_without_maps_is_an_error() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 2))
    with pytest.raises(ShapeError, match=r"`model` must return a map per input.*got \(4, 2\)"):
        wrap(model=model)(images(1))


@pytest.mark.parametrize("aug", [AutoAugment(), MixUp()], ids=lambda a: type(a).__name__)
def test_views_without_a_matrix_are_refused(aug: AutoAugment | MixUp) -> None:
    with pytest.raises(ArgumentError, match=f"matrix.*got those of {type(aug).__name__}"):
        aug.wrap(nn.Identity(), 2, dense=True)(images(2))


def test_there_is_no_early_stop_for_maps() -> None:
    with pytest.raises(ArgumentError, match=r"left out with dense=True.*got 0\.9 and None"):
        wrap(certainty=0.9)
