"""Figures of crops show the boxes of each photo, and methods side by side."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, StepPatch
from matplotlib.text import Text
from torch import Tensor

from instaaug import transforms as T
from instaaug.augmentation.observed import Observed
from instaaug.errors import ArgumentError, ShapeError
from instaaug.parameterizations import CropGrid
from instaaug.report.pictures.boxes import ProbabilityInk
from instaaug.report.pictures.crops import draw_crop_comparison, draw_crops
from instaaug.report.theme import save_figure
from tests.support.drawn import assert_words_are_readable
from tests.support.observations import looked_at, without_learning

BOXES = CropGrid([(1.0, 1), (0.5, 3), (0.4, 4)], max_outside=0.0).boxes
QUADRANTS = torch.tensor([[x, y, 1.0, 1.0] for y in (-0.5, 0.5) for x in (-0.5, 0.5)])

CORNERS = T.Crop(((0.5, 2), (1.0, 1)), max_outside=0.0)


def photos(n: int = 2, channels: int = 3, height: int = 16, width: int = 16) -> Tensor:
    random = torch.Generator().manual_seed(0)
    return torch.rand(n, channels, height, width, generator=random)


def choices(n: int = 2, k: int = len(BOXES)) -> Tensor:
    random = torch.Generator().manual_seed(0)
    return (2 * torch.randn(n, k, generator=random)).softmax(dim=1)


def drawn(n: int = 2, n_top: int = 4, **changes: Any) -> Figure:
    """Boxes at the size of the photo."""
    images = changes.pop("images", photos(n))
    height, width = images.shape[-2:]
    return draw_crops(images, choices(n), BOXES, size=(height, width), n_top=n_top, **changes)


def panels(figure: Figure, i: int, n_top: int) -> list[Any]:
    """Photo, centers, boxes, and the contents of photo i."""
    return figure.axes[i * (3 + n_top) : (i + 1) * (3 + n_top)]


@pytest.mark.parametrize(
    ("n", "n_top", "shape"),
    [(1, 1, (12, 20)), (4, 8, (20, 12))],
)
def test_every_photo_has_its_panels(n: int, n_top: int, shape: tuple[int, int]) -> None:
    titles = [f"photo {i}" for i in range(n)]
    images = photos(n, height=shape[0], width=shape[1])
    figure = drawn(n, n_top, images=images, titles=titles)
    assert len(figure.axes) == n * (3 + n_top) + 2  # and the two scales
    for i in range(n):
        _, centers, boxes, *contents = panels(figure, i, n_top)
        assert f"photo {i}" in [text.get_text() for text in figure.texts]
        assert len(centers.images) == 2
        assert len([p for p in boxes.patches if isinstance(p, Rectangle)]) == n_top
        assert len(boxes.texts) == n_top
        assert [c.texts[0].get_text() for c in contents] == [str(k + 1) for k in range(n_top)]
    headings = [text.get_text() for text in figure.texts[: 4 if n <= 3 else 8]]
    assert headings == ["photo", "centers of crops", "likeliest boxes", "what is in them"] * (
        1 if n <= 3 else 2
    )


@pytest.mark.parametrize(("n", "n_top"), [(1, 8), (12, 4)])
def test_nothing_leaves_the_canvas_and_no_panel_hides_another(n: int, n_top: int) -> None:
    figure = drawn(n, n_top, titles=["a name longer than any class of ImageNet has " * 9] * n)
    figure.draw_without_rendering()
    words = [t for t in figure.findobj(Text) if t.get_text()]
    for text in words:
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1
    places = [axes.get_window_extent() for axes in figure.axes]
    assert not [(a, b) for a, b in combinations(places, 2) if a.overlaps(b)]


def test_no_label_hides_another() -> None:
    figure = draw_crops(photos(3), choices(3), BOXES, size=(16, 16), n_top=6)
    figure.draw_without_rendering()
    for i in range(3):
        boxes = [text.get_window_extent() for text in panels(figure, i, 6)[2].texts]
        assert not [(a, b) for a, b in combinations(boxes, 2) if a.overlaps(b)]


def test_boxes_are_ranked_and_lie_where_they_are() -> None:
    probs = torch.tensor([[0.05, 0.7, 0.25, 0.0]])
    figure = draw_crops(photos(1, height=8, width=16), probs, QUADRANTS, size=(4, 8))
    axes = panels(figure, 0, 4)[2]
    assert [t.get_text() for t in axes.texts] == ["1 · 70%", "2 · 25%", "3 · 5.0%", "4 · <0.1%"]
    corners = [(p.get_xy(), p.get_width(), p.get_height()) for p in axes.patches]
    assert corners[:3] == [
        ((7.5, -0.5), 8, 4),  # upper right
        ((-0.5, 3.5), 8, 4),  # lower left
        ((-0.5, -0.5), 8, 4),  # upper left
    ]
    lightness = [np.dot(p.get_edgecolor()[:3], (0.299, 0.587, 0.114)) for p in axes.patches]
    assert lightness == sorted(lightness, reverse=True)  # in gray, too, the likeliest stands out


def test_contents_are_what_the_boxes_hold() -> None:
    image = photos(1)
    figure = draw_crops(image, torch.tensor([[0.1, 0.2, 0.3, 0.4]]), QUADRANTS, size=(8, 8))
    shown = [axes.images[0].get_array() for axes in panels(figure, 0, 4)[3:]]
    upper, lower = image[0].permute(1, 2, 0).numpy()[:8], image[0].permute(1, 2, 0).numpy()[8:]
    expected = [lower[:, 8:], lower[:, :8], upper[:, 8:], upper[:, :8]]
    for one, other in zip(shown, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_gray_photos_are_drawn_too() -> None:
    photo = panels(drawn(1, images=photos(1, channels=1)), 0, 4)[0]
    assert photo.images[0].get_array().shape == (16, 16, 3)


def test_figures_are_written_the_same_each_time(tmp_path: Path) -> None:
    files = [tmp_path / f"{i}.png" for i in (1, 2)]
    for file in files:
        save_figure(drawn(1), file, dpi=60)
    assert files[0].stat().st_size > 5_000
    assert files[0].read_bytes() == files[1].read_bytes()
    with pytest.raises(ArgumentError, match=r"`path` must end in \.png, \.svg or \.jpg: got"):
        save_figure(drawn(1), tmp_path / "figure.pdf")


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"images": torch.zeros(3, 8, 8)}, ShapeError, "`x` must be a batch of images"),
        ({"images": torch.zeros(13, 3, 8, 8)}, ShapeError, "at most 12 photos.*got 13 of 3"),
        ({"images": torch.zeros(2, 4, 8, 8)}, ShapeError, "1 or 3 channels: got 2 of 4"),
        ({"boxes": QUADRANTS[:, :3]}, ShapeError, r"`boxes` must be \(K, 4\).*got shape \(4, 3\)"),
        ({"boxes": QUADRANTS * 0}, ShapeError, "with positive sides"),
        ({"probs": torch.ones(2, 3) / 3}, ShapeError, r"\(2, 4\): got \(2, 3\)"),
        ({"probs": torch.zeros(2, 4)}, ArgumentError, "sum of 1 per photo: got a sum off by 1"),
        ({"probs": torch.tensor([[2.0, -1, 0, 0]] * 2)}, ArgumentError, "none negative"),
        ({"probs": torch.full((2, 4), torch.nan)}, ArgumentError, r"log_probs\.exp\(\)"),
        ({"titles": ["one"]}, ShapeError, "`titles` must be one line per photo, 2: got 1"),
        ({"n_top": 5}, ArgumentError, r"`n_top` must lie in \[1, 4\]: got 5 for 4 boxes"),
        ({"n_top": 0}, ArgumentError, "`n_top` must lie in"),
        ({"size": (0, 8)}, ArgumentError, r"`size` must be a height.*got \(0, 8\)"),
    ],
)
def test_bad_arguments_are_refused(
    changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    settings = {"images": photos(2), "probs": torch.ones(2, 4) / 4, "boxes": QUADRANTS}
    settings |= {"size": (8, 8), **changes}  # type: ignore[dict-item]
    with pytest.raises(error, match=words):
        draw_crops(**settings)  # type: ignore[arg-type]


def sharpened(observed: Observed, row: int, p: float) -> Observed:
    """All inputs choose one box with probability p; the drawn boxes are that one."""
    (factor,) = observed.factors
    assert factor.probs is not None
    assert factor.table is not None
    k = factor.probs.shape[1]
    probs = torch.full_like(factor.probs, (1 - p) / (k - 1))
    probs[:, row] = p
    theta = factor.table[row].expand_as(factor.theta)
    return replace(observed, factors=(replace(factor, probs=probs, theta=theta),))


def groups() -> dict[str, Observed]:
    seen = looked_at(CORNERS)
    return {"one for all": sharpened(seen, 0, 0.5), "InstaAug": sharpened(seen, 4, 0.9)}


def test_each_method_has_boxes_centers_and_sizes_of_each_photo() -> None:
    figure = draw_crop_comparison(groups(), titles=["a", "b"])
    assert len(figure.axes) == 2 * (1 + 2 * 3) + 2
    assert [text.get_text() for text in figure.texts][:6] == [
        "input", "one for all", "boxes drawn", "centers, bright: likely", "share above size",
        "InstaAug",
    ]  # fmt: skip
    assert_words_are_readable(figure)


def test_edges_are_colored_on_one_scale() -> None:
    figure = draw_crop_comparison(groups())
    ink = ProbabilityInk(0.9)
    for axes, p in ((figure.axes[1], 0.5), (figure.axes[4], 0.9)):
        assert {patch.get_edgecolor() for patch in axes.patches} == {ink.edge(p)}


def test_sizes_come_from_probabilities_or_else_from_what_was_drawn() -> None:
    known = groups()["InstaAug"]  # mostly the whole image, which is the last box
    figure = draw_crop_comparison({"known": known, "drawn": without_learning(known)})
    shares = []
    for axes in (figure.axes[3], figure.axes[6]):
        line = [p for p in axes.patches if isinstance(p, StepPatch)][1]
        shares.append(line.get_data()[0].tolist())
    np.testing.assert_allclose(shares[0], [1.0, 0.9], atol=1e-6)
    np.testing.assert_allclose(shares[1], [1.0])
    assert len(draw_crop_comparison({"drawn": without_learning(known)}).axes) == 2 * 4 + 1


def test_likelier_boxes_lie_on_top() -> None:
    seen = groups()["InstaAug"]
    (factor,) = seen.factors
    assert factor.table is not None
    theta = factor.table[[4, 0, 4, 1, 2, 3], None].expand(-1, 2, -1)
    figure = draw_crop_comparison({"x": replace(seen, factors=(replace(factor, theta=theta),))})
    widths = [patch.get_width() for patch in figure.axes[1].patches]  # type: ignore[attr-defined]
    assert widths == [8, 8, 8, 8, 16, 16]


def test_what_cannot_be_compared_is_refused() -> None:
    seen = looked_at(CORNERS)
    others = looked_at(CORNERS, images=photos(3))
    with pytest.raises(ArgumentError, match="of the same images: got different ones"):
        draw_crop_comparison({"a": seen, "b": others})
    other_pixel = seen.images.clone()
    other_pixel[0, 0, 0, 0] = (other_pixel[0, 0, 0, 0] + 2 / 255) % 1
    with pytest.raises(ArgumentError, match="of the same images: got different ones"):
        draw_crop_comparison({"a": seen, "b": replace(seen, images=other_pixel)})
    rounded = replace(seen, images=seen.images * (1 + 1e-6))  # normalized, and back
    assert draw_crop_comparison({"a": seen, "b": rounded}).axes
    with pytest.raises(ArgumentError, match="`groups` must hold 1 to 3 methods: got 0"):
        draw_crop_comparison({})
    with pytest.raises(ArgumentError, match="choose boxes: 'turn' has the factors rotation"):
        draw_crop_comparison({"turn": looked_at(T.Rotation())})
