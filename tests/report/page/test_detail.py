"""One input in a browser: what is drawn is what was learned, and the slider moves all of it."""

import math
from typing import Any

import pytest

from instaaug.report.page.content import WHOLE, PageContent
from tests.report.page.example_content import BOXES, example_content, example_run
from tests.report.page.reader import Reader

FACTORS = ("crop", "rotation", "color", "flip")
CONTENT = example_content(
    6,
    runs=[
        example_run("everything", factors=FACTORS),
        example_run("random crops", factors=("crop",), learned=False, n_views=10),
        example_run("nothing", factors=(), learned=False, n_views=0),
    ],
)
SINGLE = example_content(6, runs=[example_run("alone", factors=FACTORS)])
IS_OPEN = "document.querySelector('dialog').open"
IS_SHUT = f"!{IS_OPEN} && location.hash === ''"
FIRST = ".column:first-child"


def entropy_order(content: PageContent) -> list[int]:
    entropies = [one["entropy"][0] or 0.0 for one in content["runs"][0]["inputs"]]
    return sorted(range(len(entropies)), key=lambda i: -entropies[i])


def title(reader: Reader) -> str:
    return reader.texts("#detail-name")[0]


def visible(reader: Reader, selector: str) -> int:
    """How many elements are displayed; `checkVisibility` says yes to parts of SVG that are not."""
    shows = "(e) => e === null || (getComputedStyle(e).display !== 'none' && f(e.parentElement))"
    found = "[...document.querySelectorAll(arguments[0])].filter(f).length"
    return int(reader.js(f"(() => {{ const f = {shows}; return {found}; }})()", selector))


@pytest.mark.parametrize("way", ["click", "ENTER", "SPACE"])
def test_an_input_opens_and_gives_the_focus_back(reader: Reader, way: str) -> None:
    reader.open(SINGLE)
    second = entropy_order(SINGLE)[1]
    if way == "click":
        reader.click(".card", 1)
    else:
        reader.js("document.querySelector('.card').focus()")
        reader.press("ARROW_RIGHT", way)
    reader.wait(IS_OPEN)
    assert title(reader) == SINGLE["inputs"][second]["name"]
    assert reader.js("location.hash") == f"#input={second}&n=8"
    reader.press("ESCAPE")
    reader.wait(IS_SHUT)
    assert reader.js("document.activeElement.title") == SINGLE["inputs"][second]["name"]


def test_arrows_and_buttons_follow_the_order_of_the_gallery(reader: Reader) -> None:
    reader.open(SINGLE)
    names = [SINGLE["inputs"][i]["name"] for i in entropy_order(SINGLE)]
    reader.click(".card", 0)
    reader.wait(IS_OPEN)
    seen = [title(reader)]
    for _ in range(2):
        reader.press("ARROW_RIGHT")
        seen.append(title(reader))
    reader.click("#next")
    seen.append(title(reader))
    assert seen == names[:4]
    reader.press("ARROW_LEFT")
    reader.click("#previous")
    assert title(reader) == names[1]
    reader.js("document.querySelector('#n').focus()")
    reader.press("ARROW_RIGHT")  # belongs to the slider
    assert title(reader) == names[1]
    assert reader.js("document.querySelector('#n').value") == "9"
    reader.press("ESCAPE")
    reader.wait(IS_SHUT)
    assert reader.js("document.activeElement.title") == names[1]


def test_links_lead_to_an_input_and_back_closes_it(reader: Reader) -> None:
    reader.open(SINGLE, "#input=4&n=3")
    reader.wait(IS_OPEN)
    assert title(reader) == SINGLE["inputs"][4]["name"]
    assert reader.js("document.querySelector('#n').value") == "3"
    reader.choose("#n", "7")
    reader.wait("location.hash === '#input=4&n=7'")
    reader.driver.refresh()
    reader.wait(f"performance.getEntriesByName('ready').length > 0 && {IS_OPEN}")
    assert reader.js("document.querySelector('#n').value") == "7"
    reader.press("ESCAPE")
    reader.wait(IS_SHUT)
    reader.click(".card", 2)
    reader.wait(IS_OPEN)
    reader.driver.back()
    reader.wait(IS_SHUT)
    reader.driver.forward()
    reader.wait(IS_OPEN)
    assert title(reader) == SINGLE["inputs"][entropy_order(SINGLE)[2]]["name"]


@pytest.mark.parametrize(
    "address", ["#input=99", "#input=-1", "#input=1e0", "#input=x&n=3", "#n=3"]
)
def test_links_that_lead_nowhere_leave_the_page_as_it_is(reader: Reader, address: str) -> None:
    reader.open(SINGLE, address)
    assert not reader.js(IS_OPEN)


@pytest.mark.parametrize("n", [1, 5, 20])
def test_the_slider_moves_everything(reader: Reader, n: int) -> None:
    reader.open(CONTENT, "#input=2&n=8")
    reader.choose("#n", str(n))
    own = [min(n, run["n_views"]) for run in CONTENT["runs"]]
    for column, views in enumerate(own, start=1):
        place = f".column:nth-child({column})"
        assert visible(reader, f"{place} .box:not(.dashed)") == views
        n_strip = CONTENT["runs"][column - 1]["n_strip"]
        assert reader.count(f"{place} .view:not(.dim)") == min(views, n_strip)
        assert visible(reader, f"{place} .dial:first-child .sample") in (views * 2, 0)
        words = reader.texts(f"{place} .prediction")[0]
        assert words.startswith(f"From {views} view" if views else "From the image alone")
        assert prediction_words(column - 1, 2, views) in words
    assert reader.texts(".n-words") == [f"{n} of 20"]


def prediction_words(run: int, i: int, n: int) -> str:
    one = CONTENT["runs"][run]["inputs"][i]
    values = one["merged"][n - 1] if n else one["plain"]
    best = values.index(max(values))
    percent = math.floor(100 * values[best] / WHOLE + 0.5)
    return f"{CONTENT['classes'][one['classes'][best]]}{percent}\u202f%"


def test_the_slider_changes_the_picture(reader: Reader) -> None:
    reader.open(SINGLE, "#input=1&n=2")
    stage = reader.driver.find_element("css selector", ".stage-box")
    before = stage.screenshot_as_png
    assert stage.screenshot_as_png == before
    reader.choose("#n", "12")
    assert stage.screenshot_as_png != before


def test_boxes_lie_where_they_were_drawn(reader: Reader) -> None:
    reader.open(CONTENT, "#input=3&n=20")
    drawn = [theta[0] for theta in CONTENT["runs"][0]["inputs"][3]["theta"]]
    rects = rectangles(reader, f"{FIRST} .boxes:not(.gone) .edge")
    expected = [[500 * (x - w / 2 + 1), 500 * (y - h / 2 + 1), 500 * w, 500 * h]
                for x, y, w, h in reversed(drawn)]  # fmt: skip
    assert rects == [pytest.approx(row, abs=0.1) for row in expected]


def rectangles(reader: Reader, selector: str) -> list[list[float]]:
    found: list[list[float]] = reader.js(
        "[...document.querySelectorAll(arguments[0])].map((r) => "
        "['x', 'y', 'width', 'height'].map((name) => Number(r.getAttribute(name))))",
        selector,
    )
    return found


def test_the_likeliest_boxes_can_be_drawn_instead(reader: Reader) -> None:
    reader.open(CONTENT, "#input=3&n=3")
    reader.choose("#boxes", "likeliest")
    probs = CONTENT["runs"][0]["inputs"][3]["probs"][0]
    top = sorted(range(len(probs)), key=lambda k: -probs[k])[:3]
    titles = reader.texts(f"{FIRST} .boxes:not(.gone) .box:not(.gone) title")
    assert len(titles) == 3
    assert titles[-1].startswith("No. 1: ")  # drawn last, on top
    widths = [
        rect[2] for rect in rectangles(reader, f"{FIRST} .boxes:not(.gone) .box:not(.gone) .edge")
    ]
    assert widths == [pytest.approx(500 * BOXES[k][2]) for k in reversed(top)]


def test_the_heat_map_has_a_panel_per_size_and_a_cell_per_box(reader: Reader) -> None:
    reader.open(CONTENT, "#input=0")
    probs = CONTENT["runs"][0]["inputs"][0]["probs"][0]
    sizes = sorted({box[2] for box in BOXES}, reverse=True)
    assert reader.count(f"{FIRST} .gray-panel") == len(sizes)
    cells = rectangles(reader, f"{FIRST} .gray-panel rect")
    assert len(cells) == len(BOXES)
    words = reader.texts(f"{FIRST} .size-words")
    for size, text in zip(sizes, words, strict=True):
        total = sum(p for p, box in zip(probs, BOXES, strict=True) if box[2] == size) / WHOLE
        digits = 1 if 0 < total < 0.0995 else 0
        assert text.startswith(f"{50 * size:.0f}\u202f%")
        assert total < 0.001 or text.endswith(f"{100 * total:.{digits}f}\u202f%")
    opacity = reader.js(
        "[...document.querySelectorAll(arguments[0])]"
        ".map((cell) => Number(cell.getAttribute('fill-opacity')))",
        f"{FIRST} .gray-panel rect",
    )
    assert opacity[probs.index(max(probs))] == max(opacity)  # largest sizes first, as in BOXES


def test_crops_without_probabilities_are_shown_as_dots(reader: Reader) -> None:
    reader.open(CONTENT, "#input=0&n=4")
    assert visible(reader, ".column:nth-child(2) .center") == 4


def test_dials_and_tracks_show_the_learned_ranges(reader: Reader) -> None:
    reader.open(SINGLE, "#input=2")
    one = SINGLE["runs"][0]["inputs"][2]
    low, high = one["ranges"][1][0]
    shown = reader.texts(".with-dial strong")[0].replace("\u2212", "-")
    assert shown == f"{round(low)}° to {round(high)}°"
    numbers = reader.js(
        "document.querySelector('.dial .learned').getAttribute('d')"
        ".match(/-?[\\d.]+/g).map(Number)"
    )
    start, end = numbers[:2], numbers[-2:]
    for degrees, (x, y) in ((low, start), (high, end)):  # counterclockwise from the top
        a = math.radians(degrees)
        assert (x - 74, 74 - y) == (
            pytest.approx(-48 * math.sin(a), abs=0.02),
            pytest.approx(48 * math.cos(a), abs=0.02),
        )
    low, high = one["ranges"][2][1]  # of the saturation, from 0.5 to 1.5
    left, width = reader.js(
        "['left', 'width'].map((k) => parseFloat("
        "document.querySelector('.range-track .learned').style[k]))"
    )
    assert left == pytest.approx(100 * (low - 0.5), abs=0.01)
    assert left + width == pytest.approx(100 * (high - 0.5), abs=0.01)
    assert reader.count(".hue") > 30


def test_choices_are_counted(reader: Reader) -> None:
    reader.open(SINGLE, "#input=2&n=6")
    one = SINGLE["runs"][0]["inputs"][2]
    mirrored = sum(theta[3] == [1] for theta in one["theta"][:6])
    assert f"{mirrored} of 6 views" in reader.texts(".choices tbody tr")[1]
    assert f"{100 * one['probs'][3][1] / WHOLE:.0f}\u202f%" in reader.texts(".choices tbody tr")[1]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_lines_follow_the_averages(reader: Reader, task: str) -> None:
    content = example_content(2, task=task, runs=[example_run(n_views=12)])
    reader.open(content, "#input=1&n=12")
    reader.wait("document.querySelector('.columns .plot .line') !== null")
    merged = content["runs"][0]["inputs"][1]["merged"]
    heights = reader.js(
        "[...document.querySelectorAll('.columns .plot .line')].map((line) => "
        "line.getAttribute('d').split(/[ML]/).slice(1).map((p) => Number(p.split(' ')[1])))"
    )
    assert len(heights) == len(merged[0])
    columns = [[row[c] for row in merged] for c in range(len(merged[0]))]
    owners = [[c for c, values in enumerate(columns) if is_straight(h, values)] for h in heights]
    assert {c for (c,) in owners} == set(range(len(columns)))
    assert reader.count(".columns .level-line") == (task == "regression")
    labels = reader.texts(".columns .end-label")
    assert any("target" in text for text in labels) or any("(true)" in text for text in labels)


def is_straight(heights: list[float], values: list[float]) -> bool:
    """Whether heights are the values on some scale that points upwards."""
    low, high = values.index(min(values)), values.index(max(values))
    if heights[low] < heights[high]:
        return False
    slope = (heights[high] - heights[low]) / (values[high] - values[low])
    return all(
        abs(h - heights[low] - slope * (v - values[low])) < 0.2
        for h, v in zip(heights, values, strict=True)
    )


def test_a_view_and_its_box_light_up_together(reader: Reader) -> None:
    reader.open(SINGLE, "#input=2&n=8")
    hot = "[...document.querySelectorAll('.box.hot .tag text')].map((t) => t.textContent)"
    reader.js("document.querySelectorAll('.view')[3].focus()")
    assert reader.js(hot) == ["4"]
    assert reader.texts(".caption")[0].startswith("View 4: crop of ")
    assert reader.count(".dial .sample.hot") == 2
    reader.js("document.querySelectorAll('.view')[3].blur()")
    assert reader.js(hot) == []
    reader.js("document.querySelector('.boxes .box:last-child').dispatchEvent(new PointerEvent("
              "'pointerenter'))")  # fmt: skip
    assert reader.count(".view.hot") == 1
    assert reader.js("document.querySelector('.view').classList.contains('hot')")


def test_a_click_keeps_a_view_lit_until_the_next(reader: Reader) -> None:
    reader.open(SINGLE, "#input=2&n=8")
    lit = "[...document.querySelectorAll('.view')].findIndex((v) => v.matches('.hot'))"
    reader.click(".view", 2)
    reader.js("document.activeElement.blur()")
    assert reader.js(lit) == 2
    assert reader.count(".view[aria-pressed=true]") == 1
    reader.click(".view", 2)
    reader.js("document.activeElement.blur()")
    assert reader.js(lit) == -1
    assert reader.count(".view[aria-pressed=true]") == 0


def test_views_are_cut_from_the_strip(reader: Reader) -> None:
    reader.open(SINGLE, "#input=2&n=8")
    reader.wait("[...document.querySelectorAll('.view img')].every((i) => i.complete)")
    places: list[Any] = reader.js(
        "[...document.querySelectorAll('.view-image')].map((v) => [v.clientWidth, v.clientHeight,"
        "v.firstChild.offsetLeft, v.firstChild.offsetWidth])"
    )
    assert len(places) == 8
    for k, (width, height, left, whole) in enumerate(places):
        assert width == pytest.approx(height, abs=1)
        assert left == pytest.approx(-k * width, abs=k + 1)
        assert whole == pytest.approx(8 * width, abs=8)


def test_play_adds_the_views_one_by_one(reader: Reader) -> None:
    reader.open(SINGLE, "#input=2&n=17")
    reader.click("#play")
    reader.wait("document.querySelector('#n').value === '20'")
    reader.wait("document.querySelector('#play').title.startsWith('Add')")


@pytest.mark.parametrize(("width", "beside"), [(1280, True), (390, False)])
def test_runs_stand_side_by_side_where_there_is_room(
    reader: Reader, width: int, beside: bool
) -> None:
    reader.resize(width, 900)
    reader.open(CONTENT, "#input=1")
    columns = reader.js(
        "[...document.querySelectorAll('.column')].map((c) => c.getBoundingClientRect())"
        ".map((r) => [r.left, r.top, r.right])"
    )
    assert len({column[1] for column in columns}) == (1 if beside else 3)
    assert len({column[0] for column in columns}) == (3 if beside else 1)
    assert all(column[2] <= width for column in columns)
    stages = reader.js(
        "[...document.querySelectorAll('.stage')].map((s) => s.getBoundingClientRect().top)"
    )
    assert len(set(stages)) == (1 if beside else 3)
    reader.resize(1280, 900)


def test_what_changes_is_spoken(reader: Reader) -> None:
    reader.open(SINGLE, "#input=2&n=3")
    reader.choose("#n", "9")
    reader.wait(
        "document.querySelector('dialog .sr[role=status]').textContent.startsWith('From 9')"
    )
