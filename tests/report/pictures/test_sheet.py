"""On a sheet, things stand where they are put, in inches, and words keep to their room."""

import pytest

from instaaug.report.pictures.sheet import inset, sheet, size_in_inches


def test_panels_stand_where_they_are_put() -> None:
    with sheet(8.0, 4.0) as page:
        axes = page.panel(1.0, 0.5, 2.0, 1.0)
    box = axes.get_window_extent()
    dpi = page.canvas.dpi
    assert (box.x0 / dpi, 4 - box.y1 / dpi) == pytest.approx((1.0, 0.5))
    assert size_in_inches(axes) == pytest.approx((2.0, 1.0))


def test_an_inset_moves_each_edge_by_its_own_amount() -> None:
    with sheet(8.0, 4.0) as page:
        axes = page.panel(1.0, 0.5, 2.0, 1.0)
        inset(axes, left=0.3, right=0.1, top=0.2, bottom=0.05)
    box = axes.get_window_extent()
    dpi = page.canvas.dpi
    edges = (box.x0 / dpi, box.x1 / dpi, 4 - box.y1 / dpi, 4 - box.y0 / dpi)
    assert edges == pytest.approx((1.3, 2.9, 0.7, 1.45))


@pytest.mark.parametrize("words", ["W" * 400, "i" * 400, "several words " * 30])
def test_long_words_are_cut_to_their_room(words: str) -> None:
    with sheet(8.0, 4.0) as page:
        text = page.write(1.0, 1.0, words, room=2.0)
    width = text.get_window_extent().width / page.canvas.dpi
    assert 1.7 < width <= 2.0
    assert text.get_text().endswith("…")


def test_short_words_stay_and_dollars_are_no_mathematics() -> None:
    with sheet(8.0, 4.0) as page:
        text = page.write(1.0, 1.0, "$5 or $_6", room=2.0)
        page.canvas.draw_without_rendering()
    assert text.get_text() == "$5 or $_6"
    assert not text.get_parse_math()
