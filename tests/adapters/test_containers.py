"""Containers of torchvision and kornia follow the pixels they belong to."""

import subprocess
import sys
from math import pi
from typing import Any

import pytest
import torch
from torch import Tensor

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.adapters.containers import follow
from instaaug.errors import ArgumentError

HEIGHT, WIDTH = 24, 36
SPOT = (7, 20)  # row and column of a bright pixel
CASES = {
    "flip": (T.Flip(), [[-1.0, 1.0]]),
    "turn": (T.Rotation(), [[0.4]]),
    "crop": (T.Crop(), [[0.1, -0.2, 1.2, 1.4]]),
    "both": (T.Composition((T.Rotation(), T.Crop())), [[-0.3, 0.1, 0.0, 1.6, 1.6]]),
    "smaller": (T.Composition((T.Crop(),), size=(12, 18)), [[0.0, 0.0, 1.5, 1.5]]),
}


def spot() -> Tensor:
    """An image with one bright patch of 3 × 3 pixels."""
    x = torch.zeros(1, 3, HEIGHT, WIDTH)
    row, column = SPOT
    x[..., row - 1 : row + 2, column - 1 : column + 2] = 1.0
    return x


def center(image: Tensor) -> Tensor:
    """The center of mass (x, y) in pixels, the first of which is at (0, 0)."""
    mass = image.reshape(-1, *image.shape[-2:]).sum(dim=0)
    y, x = (torch.arange(n, dtype=mass.dtype) for n in mass.shape)
    return torch.stack([(mass * x).sum(), (mass * y[:, None]).sum()]) / mass.sum()


@pytest.fixture(scope="module")
def tv() -> Any:
    return pytest.importorskip(
        "torchvision.tv_tensors",
        reason="torchvision is not installed, or its compiled part does not load",
        exc_type=(ImportError, RuntimeError),  # type: ignore[arg-type]  # for except
    )


@pytest.fixture(scope="module")
def kornia() -> Any:
    return pytest.importorskip("kornia.geometry", reason="kornia is not installed")


# torchvision


@pytest.mark.parametrize("name", CASES)
def test_everything_of_torchvision_lands_where_the_pixels_do(name: str, tv: Any) -> None:
    transform, rows = CASES[name]
    theta, image = torch.tensor(rows), spot()
    moved = transform.apply(image, theta)
    row, column = SPOT
    edges = [column - 1.0, row - 1.0, column + 2.0, row + 2.0]
    canvas = {"canvas_size": (HEIGHT, WIDTH)}
    target = {
        "image": tv.Image(image[0]),
        "mask": tv.Mask((image[0, 0] > 0).to(torch.uint8)),
        "boxes": tv.BoundingBoxes([edges], format="XYXY", **canvas),
        "points": tv.KeyPoints([[float(column), float(row)]], **canvas),
        "label": torch.tensor(3),
        "name": "spot",
    }
    found = follow(transform, target, theta)
    assert [type(part) for part in found.values()] == [type(part) for part in target.values()]
    assert torch.equal(found["image"].as_subclass(Tensor), moved[0])
    assert (found["label"], found["name"]) == (3, "spot")
    size = tuple(moved.shape[-2:])
    assert found["boxes"].canvas_size == found["points"].canvas_size == size
    assert found["mask"].dtype == torch.uint8
    assert found["mask"].shape == size
    where = center(moved)
    torch.testing.assert_close(found["points"].as_subclass(Tensor)[0], where, atol=0.1, rtol=0)
    mass = center(found["mask"].as_subclass(Tensor).float())
    torch.testing.assert_close(mass, where, atol=0.6, rtol=0)
    x0, y0, x1, y1 = found["boxes"].as_subclass(Tensor)[0]
    torch.testing.assert_close(torch.stack([x0 + x1, y0 + y1]) / 2 - 0.5, where, atol=0.1, rtol=0)
    lit = (moved[0, 0] > 0.5).nonzero()
    assert (lit[:, 0] >= y0 - 1).all()
    assert (lit[:, 1] + 1 <= x1 + 1).all()


@pytest.mark.parametrize("form", ["XYXY", "XYWH", "CXCYWH"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_boxes_are_mirrored_as_torchvision_does(form: str, dtype: torch.dtype, tv: Any) -> None:
    mirror = pytest.importorskip("torchvision.transforms.v2.functional").horizontal_flip
    numbers = [[4, 6, 20, 18], [10, 8, 12, 14]]
    boxes = tv.BoundingBoxes(
        torch.tensor(numbers, dtype=dtype), format=form, canvas_size=(HEIGHT, WIDTH)
    )
    found, expected = follow(T.Flip(), boxes, torch.tensor([[-1.0, 1.0]])), mirror(boxes)
    assert found.format == expected.format
    assert torch.equal(found.as_subclass(Tensor), expected.as_subclass(Tensor))


def test_points_are_mirrored_as_torchvision_does(tv: Any) -> None:
    mirror = pytest.importorskip("torchvision.transforms.v2.functional").horizontal_flip
    points = tv.KeyPoints(torch.rand(2, 3, 2) * 20, canvas_size=(HEIGHT, WIDTH))
    found = follow(T.Flip(), points, torch.tensor([[-1.0, 1.0]]))
    assert found.shape == points.shape
    torch.testing.assert_close(found.as_subclass(Tensor), mirror(points).as_subclass(Tensor))


def test_targets_of_a_detector_follow_a_batch_with_several_samples(tv: Any) -> None:
    aug = InstaAug(T.Rotation(pi / 4))
    batch = aug(torch.rand(2, 3, HEIGHT, WIDTH), 3)
    targets = [
        {
            "boxes": tv.BoundingBoxes(
                torch.rand(n, 4) + 1, format="CXCYWH", canvas_size=(HEIGHT, WIDTH)
            ),
            "labels": torch.arange(n),
        }
        for n in (1, 4)
    ]
    found = follow(aug.transform, targets, batch.theta)
    assert [len(each["labels"]) for each in found] == [1, 4, 1, 4, 1, 4]
    alone = follow(aug.transform, targets[1], batch.theta[2, 1:])
    assert torch.equal(found[5]["boxes"], alone["boxes"])


def test_masks_may_have_an_axis_for_the_images(tv: Any) -> None:
    masks = tv.Mask(torch.rand(2, 1, HEIGHT, WIDTH).round())
    theta = torch.tensor([[1.0, 1.0], [-1.0, 1.0]])
    found = follow(T.Flip(), masks, theta)
    expected = torch.stack([masks[0], masks[1].flip(2)])
    assert torch.equal(found.as_subclass(Tensor), expected.as_subclass(Tensor))


def test_what_cannot_follow_is_refused(tv: Any) -> None:
    theta = torch.tensor([[-1.0, 1.0]])
    turned = tv.BoundingBoxes([[4.0, 4.0, 2.0, 2.0, 30.0]], format="XYWHR", canvas_size=(9, 9))
    with pytest.raises(ArgumentError, match=r"upright boxes, XYXY, XYWH, CXCYWH: got .* XYWHR"):
        follow(T.Flip(), turned, theta)
    with pytest.raises(ArgumentError, match=r"cannot follow: got Video"):
        follow(T.Flip(), tv.Video(torch.zeros(2, 3, 8, 8)), theta)
    boxes = tv.BoundingBoxes([[4.0, 4.0, 5.0, 5.0]], format="XYXY", canvas_size=(9, 9))
    with pytest.raises(ArgumentError, match=r"as `theta` has rows: got 1 for 2. Give a list"):
        follow(T.Flip(), boxes, theta.repeat(2, 1))


# kornia


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_batch", [False, True])
def test_everything_of_kornia_lands_where_the_pixels_do(
    name: str, is_batch: bool, kornia: Any
) -> None:
    transform, rows = CASES[name]
    theta = torch.tensor(rows)
    where = center(transform.apply(spot(), theta))
    row, column = SPOT
    points = torch.tensor([[float(column), float(row)]])
    corners = torch.tensor([[column - 1.0, row - 1.0, column + 2.0, row + 2.0]])
    if is_batch:
        points, corners = points[None], corners[None]
    target = {
        "points": kornia.keypoints.Keypoints(points),
        "boxes": kornia.boxes.Boxes.from_tensor(corners, mode="xyxy"),
    }
    found = follow(transform, target, theta, image_size=(HEIGHT, WIDTH))
    assert [type(part) for part in found.values()] == [type(part) for part in target.values()]
    assert found["points"].data.shape == points.shape
    torch.testing.assert_close(found["points"].data.flatten(), where, atol=0.1, rtol=0)
    middle = found["boxes"].data.reshape(4, 2).mean(dim=0)
    torch.testing.assert_close(middle, where, atol=0.1, rtol=0)


def test_a_mirror_is_kornias(kornia: Any) -> None:
    import kornia.augmentation as K

    points = kornia.keypoints.Keypoints(torch.rand(2, 5, 2) * 20)
    images = torch.rand(2, 3, HEIGHT, WIDTH)
    mirror = K.AugmentationSequential(
        K.RandomHorizontalFlip(p=1.0), data_keys=["input", "keypoints"]
    )
    expected: Any = mirror(images, points)
    theta = torch.tensor([[-1.0, 1.0]]).repeat(2, 1)
    found = follow(T.Flip(), points, theta, image_size=(HEIGHT, WIDTH))
    torch.testing.assert_close(found.data, expected[1].data)


def test_kornia_has_to_be_told_the_size(kornia: Any) -> None:
    points = kornia.keypoints.Keypoints(torch.rand(5, 2))
    with pytest.raises(ArgumentError, match=r"`image_size` must be given for kornia's Keypoints"):
        follow(T.Flip(), points, torch.tensor([[-1.0, 1.0]]))


# Neither


def test_a_list_has_an_entry_for_each_image() -> None:
    with pytest.raises(ArgumentError, match=r"an entry for each of 2 images: got 3"):
        follow(T.Flip(), [1, 2, 3], torch.ones(2, 2))


def test_what_does_not_say_where_pixels_go_is_refused() -> None:
    class Silent(T.Flip):
        tells_matrix = False

    with pytest.raises(ArgumentError, match=r"must say where every pixel goes: flip does not"):
        follow(Silent(), None, torch.ones(1, 2))


def test_neither_library_is_imported() -> None:
    code = (
        "import sys, torch\n"
        "from instaaug import transforms as T\n"
        "from instaaug.adapters.containers import follow\n"
        "assert follow(T.Flip(), [{'label': 3}], torch.ones(1, 2)) == [{'label': 3}]\n"
        "sys.exit('torchvision' in sys.modules or 'kornia' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603
