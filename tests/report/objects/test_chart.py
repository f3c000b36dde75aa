"""The chart shows every image, the means of groups, and intervals where they belong."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from instaaug.parameterizations import CropGrid
from instaaug.report.objects.chart import binned_means, draw_objects
from instaaug.report.objects.findings import COMPARED, PLACES, Findings, find_objects
from instaaug.report.objects.overlap import MEASURES
from tests.support.drawn import assert_words_are_readable, dots_of, words_of

BOXES = CropGrid([(1.0, 1), (0.5, 3)], max_outside=0.0).boxes


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
