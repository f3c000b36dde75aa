"""Boxes belong to their images, follow the square that is cut out, and are told if wrong."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from typing_extensions import override

from instaaug import InstaAug
from instaaug.augmentation.at_test_time import Merging
from instaaug.data import LabeledImages, load_data
from instaaug.data.decode import decode_image
from instaaug.distributions import CategoricalTheta, Joint
from instaaug.errors import ArgumentError, DataError
from instaaug.functional.boxes import box_iou
from instaaug.methods import NoAugmentation
from instaaug.runs.loaded import LoadedRun
from instaaug.transforms import Crop, Rotation
from paper.objects.boxes import in_the_square, object_boxes, read_boxes
from paper.objects.findings import find_objects
from paper.objects.search import _normalize_boxes, crop_probabilities
from tests.support.picture_files import save_rotated

HEADER = "path,left,top,right,bottom\n"
LEVELS = ((1.0, 1), (0.6, 3), (0.4, 5))


def table(path: Path, *rows: str, header: str = HEADER) -> Path:
    path.write_text(header + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def pictures(root: Path, shape: tuple[int, int] = (16, 16), n: int = 4) -> Path:
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
        for i in range(n):
            pixels = np.full((*shape, 3), 10 * i + (100 if name == "a" else 0), np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i}.png")
    return root


def test_paths_may_start_at_the_table_or_at_the_data(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "data")
    images = load_data(folder, test_fraction=0.0, validation_fraction=0.0).train
    config = {"data.source": str(folder)}
    (tmp_path / "elsewhere").mkdir()
    for file, row in (
        (tmp_path / "boxes.csv", "data/a/2.png"),
        (tmp_path / "elsewhere" / "boxes.csv", "a/2.png"),
        (tmp_path / "elsewhere" / "whole.csv", str(folder / "a" / "2.png")),
    ):
        found = object_boxes(images, config, table(file, f"{row},0.1,0.2,0.5,1"))
        ((number, box),) = found.items()
        assert images.name(number).endswith("a/2.png")
        assert box == pytest.approx((0.1, 0.2, 0.5, 1.0))


def test_images_without_files_have_numbers(tmp_path: Path) -> None:
    images = LabeledImages(np.zeros((5, 8, 8, 3), np.uint8), torch.zeros(5).long())
    file = table(tmp_path / "boxes.csv", "image 4,0,0,0.5,0.5")
    assert object_boxes(images.subset([2, 4]), {"data.source": "x.npz"}, file) == {
        1: (0, 0, 0.5, 0.5)
    }


@pytest.mark.parametrize("shape", [(40, 80), (80, 40), (33, 50), (40, 40)])
def test_boxes_follow_the_square_that_is_decoded(tmp_path: Path, shape: tuple[int, int]) -> None:
    height, width = shape
    left, top, right, bottom = width // 2 - 8, height // 2 - 4, width // 2 + 12, height // 2 + 10
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[top:bottom, left:right] = 255
    check_white(tmp_path / "photo.png", pixels, (left, top, right, bottom))


def test_boxes_are_of_the_picture_as_a_viewer_shows_it(tmp_path: Path) -> None:
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[8:20, 30:60] = 255
    file = save_rotated(tmp_path / "turned.png", Image.fromarray(pixels), 6)
    shown = np.rot90(pixels, -1)
    rows, columns = (np.flatnonzero(shown.any(axis=(a, 2))) for a in (1, 0))
    box = (columns[0] / 40, rows[0] / 80, (columns[-1] + 1) / 40, (rows[-1] + 1) / 80)
    check_square(file, tuple(map(float, box)), (80, 40))


def check_white(file: Path, pixels: np.ndarray, edges: tuple[int, int, int, int]) -> None:
    Image.fromarray(pixels).save(file)
    height, width = pixels.shape[:2]
    box = tuple(e / length for e, length in zip(edges, 2 * (width, height), strict=True))
    check_square(file, box, (height, width))


def check_square(file: Path, box: Any, shape: tuple[int, int]) -> None:
    """What is white in the decoded square is in the box, to a pixel."""
    square = in_the_square(box, shape)
    assert square is not None
    size = 40
    white = decode_image(file, size=size, channels=1)[..., 0] > 127
    rows, columns = (np.flatnonzero(white.any(axis=a)) for a in (1, 0))
    seen = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
    assert [size * end for end in square] == pytest.approx(seen, abs=1.01)


def test_an_object_that_was_cut_off_is_none(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "data", (20, 60))
    images = load_data(folder, test_fraction=0.0, validation_fraction=0.0).train
    rows = ("a/0.png,0,0,0.2,1", "a/1.png,0.5,0.5,1,1")
    found = object_boxes(
        images, {"data.source": str(folder)}, table(tmp_path / "boxes.csv", *rows)
    )
    (box,) = found.values()
    assert box == pytest.approx((0.5, 0.5, 1.0, 1.0))


def tiny_imagenet(root: Path) -> Path:
    """The layout, with one class and two validation images."""
    (root / "train" / "n1" / "images").mkdir(parents=True)
    (root / "val").mkdir()
    (root / "wnids.txt").write_text("n1\n")
    (root / "train" / "n1" / "n1_boxes.txt").write_text("n1_0.JPEG\t0\t0\t31\t63\n")
    rows = "val_0.JPEG\tn1\t0\t16\t63\t47\nval_1.JPEG\tn1\t5\t5\t5\t5\n"
    (root / "val" / "val_annotations.txt").write_text(rows)
    return root


@pytest.mark.parametrize("how", ["root", "data", "environment"])
def test_tiny_imagenet_brings_its_boxes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    root = tiny_imagenet(tmp_path / "tiny-imagenet")
    names = ["val/images/val_1.JPEG", "val/images/val_0.JPEG", "train/n1/images/n1_0.JPEG"]
    images = LabeledImages(np.zeros((3, 8, 8, 3), np.uint8), torch.zeros(3).long(), names=names)
    configs: dict[str, dict[str, Any]] = {
        "root": {"data.source": "tiny-imagenet", "data.root": str(root)},
        "data": {"data.source": str(root), "data.root": None},
        "environment": {"data.source": "tiny-imagenet", "data.root": None},
    }
    if how == "environment":
        monkeypatch.setenv("INSTAAUG_DATA", str(tmp_path))
    assert object_boxes(images, configs[how]) == {
        0: (5 / 64, 5 / 64, 6 / 64, 6 / 64),  # one pixel: the last belongs to the object
        1: (0.0, 0.25, 1.0, 0.75),
        2: (0.0, 0.0, 0.5, 1.0),
    }


def test_other_data_need_a_file() -> None:
    images = LabeledImages(np.zeros((1, 8, 8, 3), np.uint8), torch.zeros(1).long())
    with pytest.raises(ArgumentError, match=r"`boxes` must be a CSV file.*'pets' brings no boxes"):
        object_boxes(images, {"data.source": "pets"})


def test_boxes_of_other_images_are_told(tmp_path: Path) -> None:
    images = LabeledImages(np.zeros((1, 8, 8, 3), np.uint8), torch.zeros(1).long())
    file = table(tmp_path / "boxes.csv", "other.png,0,0,1,1")
    with pytest.raises(DataError, match=r"none of \d does. Paths are such as 'image 0'"):
        object_boxes(images, {"data.source": "pets"}, file)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (("x,0,0,1.5,1",), r"row 2 .* has 0, 0, 1.5, 1. Divide pixels"),
        (("x,0,0,1,1", "y,0.5,0,0.5,1"), "left < right .*row 3"),
        (("x,0,0,1",), "row 2 .* None"),
        (("x,0,nan,1,1",), "row 2 .* nan"),
        (("x,0,a,1,1",), "0 ≤ top < bottom ≤ 1"),
        ((",0,0,1,1",), "must name an image: row 2"),
        (("x,0,0,1,1", "x,0,0,1,1"), "one box: row 3 .* the second of 'x'"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, rows: tuple[str, ...], words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_boxes(table(tmp_path / "boxes.csv", *rows))


def test_a_wrong_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lacks top, right\. Name them"):
        read_boxes(table(tmp_path / "boxes.csv", header="path,left,bottom\n"))
    (tmp_path / "latin.csv").write_bytes(HEADER.encode() + b"\xe9.png,0,0,1,1\n")
    with pytest.raises(DataError, match="must be text in UTF-8: byte 27"):
        read_boxes(tmp_path / "latin.csv")
    with pytest.raises(FileNotFoundError):
        read_boxes(tmp_path / "gone.csv")


def test_columns_may_be_in_any_order_and_case(tmp_path: Path) -> None:
    header = "Bottom, label,Right,TOP,left ,Path\n"
    boxes = read_boxes(table(tmp_path / "boxes.csv", "0.9,cat,0.8,0.2,0.1,x.png", header=header))
    assert boxes["x.png"] == (0.1, 0.2, 0.8, 0.9)


class Seeing(InstaAug):
    """Puts all mass on the box that overlaps the bright pixels most."""

    @override
    def distribution(
        self, x: Tensor, targets: Tensor | None = None, *, shrunk: bool = False
    ) -> Joint:
        factor = super().distribution(x, targets, shrunk=shrunk)["crop"]
        assert isinstance(factor, CategoricalTheta)
        objects = torch.stack([_bright(image) for image in x])
        n, k = len(x), len(factor.table)
        pairs = objects[:, None].expand(n, k, 4), factor.table.expand(n, k, 4)
        logits = 1e4 * box_iou(*pairs)
        return Joint({"crop": CategoricalTheta(logits, factor.table)})


def _bright(image: Tensor) -> Tensor:
    """Center and extent of what is bright, in the normalized frame."""
    mask = image.amax(dim=0) > 0.5
    ends = [(mask.any(dim=d).nonzero().flatten()) for d in (0, 1)]
    low, high = (torch.stack([e[i] + float(i != 0) for e in ends]) / len(mask) for i in (0, -1))
    return torch.cat([low + high - 1, 2 * (high - low)])


def bright_squares(n: int) -> tuple[LabeledImages, list[tuple[float, float, float, float]]]:
    random = np.random.default_rng(0)
    pixels = np.zeros((n, 20, 20, 3), np.uint8)
    boxes = []
    for i in range(n):
        side = int(random.integers(5, 19))
        left, top = random.integers(0, 21 - side, 2)
        pixels[i, top : top + side, left : left + side] = 255
        x, y, extent = left / 20, top / 20, side / 20
        boxes.append((float(x), float(y), float(x + extent), float(y + extent)))
    return LabeledImages(pixels, torch.zeros(n).long(), classes=("square",)), boxes


def loaded_run(augmenter: Any) -> LoadedRun:
    return LoadedRun(
        path=Path("run"), model=nn.Identity(), augmenter=augmenter, prepare=lambda x: x / 255,
        device="cpu", classes=("square",), n_targets=1, size=20, channels=3, mean=None, std=None,
        merging=Merging(), select="sample", n_views=None, test_views=2, ranks_views=False, seed=0,
        load_test_images=lambda _: bright_squares(1)[0], make_predictor=Mock(),
        make_module=Mock(),
    )  # fmt: skip


def test_an_augmenter_that_sees_the_object_gets_credit() -> None:
    images, boxes = bright_squares(70)
    aug = Seeing(Crop(levels=LEVELS, max_outside=0.0))
    probs, grid = crop_probabilities(loaded_run(aug), images)
    found = find_objects(probs, grid, _normalize_boxes(boxes))
    assert found.mean("iou", "learned") > 0.6
    gain = found.gain("iou", "average")
    assert gain.interval[0] > 0.1
    assert found.size_correlation.value is not None
    assert found.size_correlation.value > 0.8


@pytest.mark.parametrize("conditioning", ["none", "class"])
def test_one_that_does_not_look_gets_none(conditioning: Any) -> None:
    images, boxes = bright_squares(9)
    aug = InstaAug(Crop(levels=LEVELS), conditioning=conditioning, num_classes=1)
    probs, grid = crop_probabilities(loaded_run(aug), images)
    assert probs.shape == (9, 1 + 9 + 25)
    gain = find_objects(probs, grid, _normalize_boxes(boxes)).gain("iou", "average")
    assert (gain.mean, gain.p_value) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("augmenter", "words"),
    [
        (NoAugmentation(), "the augmenter in 'run' is NoAugmentation"),
        (InstaAug(Rotation()), "'run' has the factors rotation"),
        (InstaAug(Crop(levels=LEVELS, jitter=True)), "those in 'run' move"),
    ],
)
def test_runs_without_crops_to_choose_are_refused(augmenter: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        crop_probabilities(loaded_run(augmenter), bright_squares(3)[0])
