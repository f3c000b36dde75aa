"""The chart shows every image and its intervals; the sheet, objects and crops in place."""

from itertools import combinations
from typing import Any

import pytest
import torch
from matplotlib.patches import Rectangle
from torch import Generator, Tensor

from instaaug.errors import ShapeError
from instaaug.functional.affine import box_matrix
from instaaug.functional.warp import warp
from instaaug.parameterizations import CropGrid
from paper.objects.findings import COMPARED, PLACES, Findings, find_objects
from paper.objects.overlap import MEASURES
from paper.objects.pictures import (
    binned_means,
    draw_object_crops,
    draw_objects,
    evenly_sized,
    pixel_probability,
)
from tests.support.drawn import assert_words_are_readable, dots_of, words_of

BOXES = CropGrid([(1.0, 1), (0.5, 3)], max_outside=0.0).boxes

OBJECT = torch.tensor([-0.5, 0.25, 0.5, 1.0])  # columns 2 to 5 of 16, rows 6 to 13


def found(n: int, *, sharpness: float = 2.0) -> Findings:
    random = Generator().manual_seed(0)
    side = 0.2 + 1.6 * torch.rand(n, 1, generator=random)
    place = (2 * torch.rand(n, 2, generator=random) - 1) * (1 - side / 2)
    logits = sharpness * torch.randn(n, len(BOXES), generator=random)
    return find_objects(logits.softmax(dim=1), BOXES, torch.cat([place, side, side], dim=1))


def test_every_image_is_a_dot_at_its_sizes() -> None:
    findings = found(40)
    dots = dots_of(draw_objects(findings).axes[0])[0]
    expected = torch.stack([findings.object_side, findings.crop_side], dim=1)
    torch.testing.assert_close(torch.tensor(dots.get_offsets().tolist()).double(), expected)


def test_means_of_groups_are_drawn_with_their_errors() -> None:
    findings = found(40)
    axes = draw_objects(findings).axes[0]
    bins = binned_means(findings.object_side, findings.crop_side, 10)
    assert len(bins) == 8  # of five images each
    (container,) = axes.containers
    line: Any = container[0]
    assert line.get_xdata().tolist() == pytest.approx([x for x, _, _ in bins])
    assert line.get_ydata().tolist() == pytest.approx([y for _, y, _ in bins])
    (bars,) = container[2]
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    for (low, high), (_, mean, error) in zip(ends, bins, strict=True):
        assert (low + high) / 2 == pytest.approx(mean)
        assert (high - low) / 2 == pytest.approx(1.96 * error)


def test_groups_are_of_similar_size() -> None:
    x = torch.tensor([3.0, 1.0, 2.0, 0.0] * 5)
    assert [(a, b) for a, b, _ in binned_means(x, -x, 4)] == [
        (0.0, 0.0), (1.0, -1.0), (2.0, -2.0), (3.0, -3.0)
    ]  # fmt: skip
    assert len(binned_means(x[:3], x[:3], 4)) == 1


def test_overlaps_stand_in_their_rows_with_the_interval_of_the_difference() -> None:
    findings = found(40)
    panels: list[Any] = draw_objects(findings).axes[1:]
    for axes, measure in zip(panels, MEASURES, strict=True):
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert labels == [PLACES[place] for place in ("learned", *COMPARED)]
        assert axes.get_xlabel() == MEASURES[measure]
        places = [dot.get_offsets()[0].tolist() for dot in dots_of(axes)]
        means = [findings.mean(measure, place) for place in ("learned", *COMPARED)]
        assert places == [[pytest.approx(mean), y] for y, mean in enumerate(means)]
        guide, *bars = axes.lines
        assert set(guide.get_xdata()) == {means[0]}
        for place, bar in zip(COMPARED, bars, strict=True):
            interval = findings.gain(measure, place).interval
            assert interval is not None
            ends = [means[0] - end for end in interval]
            assert sorted(bar.get_xdata()) == pytest.approx(sorted(ends))
            low, high = axes.get_xlim()
            assert low < min(ends) <= max(ends) < high
        low, high = axes.get_ylim()
        assert low > high  # the learned row is on top


def test_the_numbers_are_written() -> None:
    findings = found(40)
    words = [text.get_text() for text in words_of(draw_objects(findings))]
    assert f"{findings.mean('covered', 'grid'):.4f}" in words
    value = findings.size_correlation.value
    assert value is not None
    (line,) = [text for text in words if text.startswith("Spearman")]
    assert f"{abs(value):.3f}" in line


@pytest.mark.parametrize(("n", "sharpness"), [(3, 2.0), (400, 0.0), (400, 40.0)])
def test_no_word_hides_another(n: int, sharpness: float) -> None:
    assert_words_are_readable(draw_objects(found(n, sharpness=sharpness)))


def test_a_difference_that_does_not_matter_does_not_fill_the_axes() -> None:
    figure = draw_objects(found(30, sharpness=0.0))
    low, high = figure.axes[0].get_ylim()
    assert high - low >= 0.1
    for axes in figure.axes[1:]:
        low, high = axes.get_xlim()
        assert high - low >= 0.02


def test_equal_overlaps_can_be_drawn() -> None:
    """Whole images only: all places are one."""
    whole = torch.tensor([[0.0, 0.0, 2.0, 2.0]])
    objects: Tensor = whole.repeat(4, 1)
    findings = find_objects(torch.ones(4, 1), whole, objects)
    assert_words_are_readable(draw_objects(findings))


def drawn(n: int = 2, *, size: int = 16, **changes: Any) -> Any:
    random = Generator().manual_seed(0)
    probs = torch.randn(n, len(BOXES), generator=random).softmax(dim=1)
    images = torch.rand(n, 3, size, size, generator=random)
    average = changes.pop("average", probs.mean(dim=0))
    return draw_object_crops(images, probs, BOXES, OBJECT.expand(n, 4), average, **changes), probs


def outlines(axes: Any) -> list[tuple[float, ...]]:
    patches = [p for p in axes.patches if isinstance(p, Rectangle)]
    return [(*p.get_xy(), p.get_width(), p.get_height()) for p in patches]


def test_the_object_is_outlined_in_every_panel() -> None:
    figure, _ = drawn()
    for axes in figure.axes[:6]:
        *crops, dark, bright = outlines(axes)
        assert dark == bright == (1.5, 5.5, 4.0, 8.0)  # pixel 2 begins at 1.5
        assert axes.patches[-1].get_linestyle() != axes.patches[-2].get_linestyle()
        assert len(crops) in (0, 3)


def test_the_likeliest_crops_are_outlined() -> None:
    figure, probs = drawn()
    for i in range(2):
        crops = outlines(figure.axes[3 * i])[:3]
        for (left, top, width, height), k in zip(crops, probs[i].topk(3).indices, strict=True):
            x, y, w, h = (8 * value for value in BOXES[k].tolist())
            assert (left, top) == pytest.approx((8 + x - w / 2 - 0.5, 8 + y - h / 2 - 0.5))
            assert (width, height) == pytest.approx((w, h))


def test_maps_are_of_where_crops_look() -> None:
    average = torch.full((len(BOXES),), 1 / len(BOXES))
    figure, probs = drawn(average=average)
    seen = pixel_probability(probs, BOXES, height=16, width=16)
    usual = pixel_probability(average[None], BOXES, height=16, width=16)[0]
    for i in range(2):
        where, more = (axes.images[-1] for axes in figure.axes[3 * i + 1 : 3 * i + 3])
        torch.testing.assert_close(torch.from_numpy(where.get_array().data), seen[i])
        torch.testing.assert_close(torch.from_numpy(more.get_array().data), seen[i] - usual)
        assert where.get_clim() == (0.0, 1.0)
        low, high = more.get_clim()
        assert low == -high
        assert high >= float((seen - usual).abs().max())


def test_where_crops_look_is_what_they_show() -> None:
    """A single white pixel is in the crop, or not; beyond the edge half of it is left, at most."""
    random = Generator().manual_seed(1)
    probs = torch.randn(1, len(BOXES), generator=random).softmax(dim=1)
    seen = pixel_probability(probs, BOXES, height=8, width=8)[0]
    for row, column in ((0, 0), (3, 4), (7, 2)):
        pixel = torch.zeros(len(BOXES), 1, 8, 8)
        pixel[:, :, row, column] = 1.0
        shown = warp(pixel, box_matrix(BOXES), size=(64, 64)).amax(dim=(1, 2, 3)) > 0.75
        assert float(seen[row, column]) == pytest.approx(float(probs[0, shown].sum()), abs=1e-5)


def test_the_scale_of_differences_has_its_nought_in_the_middle() -> None:
    figure, _ = drawn()
    labels = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert labels[1] == "0"
    assert labels[0].removeprefix("−") == labels[2].removeprefix("+")


@pytest.mark.parametrize("n", [1, 4, 12])
def test_words_are_readable_and_panels_apart(n: int) -> None:
    figure, _ = drawn(n, titles=["a class with a name that is as long as it can be " * 5] * n)
    assert_words_are_readable(figure)
    places = [axes.get_window_extent() for axes in figure.axes]
    assert not [(a, b) for a, b in combinations(places, 2) if a.overlaps(b)]
    assert "none was picked by eye" in figure.texts[-1].get_text()


def test_sides_are_evenly_spaced_and_images_differ() -> None:
    sides = torch.tensor([0.5, 0.1, 0.9, 0.1, 0.31, 0.72, 0.5])
    assert evenly_sized(sides, 5) == [1, 4, 0, 5, 2]
    assert sorted(evenly_sized(torch.full((4,), 0.3), 3)) == [0, 1, 2]
    assert len(evenly_sized(sides, 20)) == 7
    assert evenly_sized(sides, 1) == [1]


def gray(n: int) -> Tensor:
    return torch.rand(n, 1, 16, 16)


def test_what_does_not_fit_is_told() -> None:
    probs = torch.full((13, len(BOXES)), 1 / len(BOXES))
    with pytest.raises(ShapeError, match="the same 1 to 12 rows: got 13, 13 and 13"):
        draw_object_crops(gray(13), probs, BOXES, OBJECT.expand(13, 4), probs[0])
