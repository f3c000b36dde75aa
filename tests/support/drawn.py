"""What a figure shows, for tests that look at it."""

from collections.abc import Iterator
from itertools import chain, combinations
from typing import Any

from matplotlib.collections import LineCollection, PathCollection
from matplotlib.text import Text

__all__ = ["assert_words_are_readable", "dots_of", "segments_of", "words_of"]


def words_of(figure: Any) -> list[Any]:
    """Every text with words that is drawn, wherever it stands."""
    figure.draw_without_rendering()
    keys = chain.from_iterable([*key.get_texts(), key.get_title()] for key in figure.legends)
    found = chain(figure.texts, keys, *map(_words_of_axes, figure.axes))
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def dots_of(axes: Any) -> list[Any]:
    """Every collection of markers."""
    return [drawn for drawn in axes.collections if isinstance(drawn, PathCollection)]


def segments_of(axes: Any) -> list[Any]:
    """Both ends of every bar and whisker, as nested lists."""
    bars: list[Any] = [drawn for drawn in axes.collections if isinstance(drawn, LineCollection)]
    return [segment.tolist() for bar in bars for segment in bar.get_segments()]


def assert_words_are_readable(figure: Any) -> None:
    """No text hides another or leaves the canvas."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in words_of(figure)]
    assert boxes
    hidden = [(a, b) for (a, x), (b, y) in combinations(boxes, 2) if x.overlaps(y)]
    assert not hidden
    for words, box in boxes:
        inside = box.x0 >= -1 and box.y0 >= -1
        inside &= box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
        assert inside, words


def _words_of_axes(axes: Any) -> Iterator[Any]:
    yield from (child for child in axes.get_children() if isinstance(child, Text))  # titles too
    for axis in (axes.xaxis, axes.yaxis):
        yield axis.label
        low, high = sorted(axis.get_view_interval())
        for tick in axis.get_major_ticks():
            if low <= tick.get_loc() <= high:  # matplotlib keeps others, but does not draw them
                yield tick.label1
