"""Boxes and views are pressed together, and the gallery is one stop of the tab key."""

from tests.report.page.example_content import example_content
from tests.report.page.reader import Reader

CONTENT = example_content(6)


def test_a_click_on_a_box_presses_its_view(reader: Reader) -> None:
    reader.open(CONTENT, "#input=2&n=8")
    pressed = (
        "[...document.querySelectorAll('.view')].map((v) => v.getAttribute('aria-pressed'))"
        ".indexOf('true')"
    )
    on_the_last = (
        "document.querySelector('.boxes .box:last-child').dispatchEvent(new Event('click'))"
    )
    assert reader.js(pressed) == -1
    reader.js(on_the_last)  # drawn last, on top: the first view
    assert reader.js(pressed) == 0
    reader.js(on_the_last)
    assert reader.js(pressed) == -1


def test_arrows_leave_one_stop_wherever_they_start(reader: Reader) -> None:
    reader.open(CONTENT)
    reader.js("document.querySelectorAll('.card')[3].focus()")
    reader.press("ARROW_RIGHT")
    stops = "[...document.querySelectorAll('.card')].map((c) => c.getAttribute('tabindex'))"
    assert reader.js(stops) == ["-1", "-1", "-1", "-1", "0", "-1"]
    assert (
        reader.js("[...document.querySelectorAll('.card')].indexOf(document.activeElement)") == 4
    )
