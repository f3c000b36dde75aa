"""The gallery, in a browser, sorts and filters as the content says, by mouse and by keys."""

from collections.abc import Callable

import pytest

from instaaug.report.page.content import PageContent, RunInput
from tests.report.page.example_content import CLASSES, example_content, example_run
from tests.report.page.reader import Reader

CONTENT = example_content(
    18, runs=[example_run(), example_run("random crops", factors=("crop",), learned=False)]
)
NAMES = [one["name"] for one in CONTENT["inputs"]]


def shown(reader: Reader) -> list[int]:
    """Indices of the inputs on display, in order."""
    return [NAMES.index(title) for title in reader.js(
        "[...document.querySelectorAll('.card')].map((card) => card.title)"
    )]  # fmt: skip


def ordered(key: Callable[[int], object], *, descending: bool) -> list[int]:
    return sorted(range(len(NAMES)), key=key, reverse=descending)  # type: ignore[arg-type]


def of(i: int, run: int = 0) -> RunInput:
    return CONTENT["runs"][run]["inputs"][i]


def predicted(i: int, run: int = 0) -> tuple[int, int]:
    """The class from all views, and from the image alone."""
    one = of(i, run)
    merged, plain = one["merged"][-1], one["plain"]
    return one["classes"][merged.index(max(merged))], one["classes"][plain.index(max(plain))]


@pytest.fixture
def gallery(reader: Reader) -> Reader:
    reader.open(CONTENT)
    return reader


def test_the_freest_inputs_come_first(gallery: Reader) -> None:
    by_entropy = ordered(lambda i: of(i)["entropy"][0], descending=True)
    assert shown(gallery) == by_entropy
    values = gallery.texts(".card-value")
    assert values == [f"{of(i)['entropy'][0]:.2f} nats" for i in by_entropy]


@pytest.mark.parametrize(
    ("sort", "key"),
    [
        ("entropy rotation", lambda i: of(i)["entropy"][1]),
        ("loss", lambda i: of(i)["loss"]),
        ("merged", lambda i: of(i)["loss_merged"]),
        ("gain", lambda i: (of(i)["loss"] or 0) - (of(i)["loss_merged"] or 0)),
        ("disagreement", lambda i: of(i)["disagreement"]),
    ],
)
def test_numbers_sort_both_ways(gallery: Reader, sort: str, key: Callable[[int], object]) -> None:
    gallery.choose("#sort", sort)
    assert shown(gallery) == ordered(key, descending=True)
    gallery.click("#direction")
    assert shown(gallery) == ordered(key, descending=False)


def test_classes_names_and_places_sort_from_the_first(gallery: Reader) -> None:
    gallery.choose("#sort", "class")
    names = gallery.texts(".card-class")
    assert names == sorted(names)
    assert gallery.texts("#direction") == ["A TO Z"]
    gallery.choose("#sort", "name")
    assert shown(gallery) == ordered(lambda i: NAMES[i], descending=False)
    gallery.choose("#sort", "order")
    assert shown(gallery) == list(range(len(NAMES)))


def test_a_run_without_that_order_gets_one_of_its_own(gallery: Reader) -> None:
    assert gallery.js("document.querySelector('#sort').value").startswith("entropy")
    gallery.choose("#sort", "entropy rotation")
    gallery.choose("#by-run", "1")
    order = gallery.js("document.querySelector('#sort').value")
    assert order != "entropy rotation"
    assert gallery.complaints() == []
    values = gallery.texts(".card-value")
    gallery.choose("#sort", order)
    assert gallery.texts(".card-value") == values


def test_the_run_decides_on_order_and_badges(gallery: Reader) -> None:
    gallery.choose("#sort", "loss")
    gallery.choose("#by-run", "1")
    assert shown(gallery) == ordered(lambda i: of(i, 1)["loss"], descending=True)
    assert "entropy rotation" not in gallery.js(
        "[...document.querySelector('#sort').options].map((o) => o.value)"
    )
    right = [predicted(i, 1)[0] == CONTENT["inputs"][i]["target"] for i in shown(gallery)]
    badges = gallery.js(
        "[...document.querySelectorAll('.card .badge')]"
        ".map((b) => b.classList.contains('wrong') || b.classList.contains('spoilt'))"
    )
    assert badges == [not is_right for is_right in right]


@pytest.mark.parametrize(
    ("outcome", "kinds"),
    [
        ("wrong", {(False, False), (False, True)}),
        ("right", {(True, False), (True, True)}),
        ("fixed", {(True, False)}),
        ("spoilt", {(False, True)}),
    ],
)
def test_outcomes_filter(gallery: Reader, outcome: str, kinds: set[tuple[bool, bool]]) -> None:
    gallery.choose("#show", outcome)
    targets = [one["target"] for one in CONTENT["inputs"]]
    wanted = {
        i
        for i, target in enumerate(targets)
        if tuple(guess == target for guess in predicted(i)) in kinds
    }
    assert set(shown(gallery)) == wanted
    assert gallery.texts(".count") == [f"{len(wanted)} of 18 inputs"]


def test_classes_and_words_filter_together(gallery: Reader) -> None:
    zebra = CLASSES.index("zebra")
    gallery.choose("#class", str(zebra))
    assert {CONTENT["inputs"][i]["target"] for i in shown(gallery)} == {zebra}
    gallery.choose("#search", "00008")
    assert shown(gallery) == [8]
    gallery.choose("#class", "")
    gallery.choose("#search", "PENGUIN")
    assert len(shown(gallery)) == 3
    gallery.choose("#search", "no such thing")
    assert gallery.texts(".count") == ["0 of 18 inputs"]
    gallery.click(".empty button")
    assert len(shown(gallery)) == 18


def test_arrows_move_through_the_grid(gallery: Reader) -> None:
    gallery.js("document.querySelector('.card').focus()")
    titles = gallery.js("[...document.querySelectorAll('.card')].map((card) => card.title)")
    focus = "document.activeElement.title"
    tops = gallery.js(
        "[...document.querySelectorAll('.card')].map((c) => c.getBoundingClientRect().top)"
    )
    columns = tops.count(tops[0])
    assert 1 < columns < len(NAMES)
    gallery.press("ARROW_RIGHT", "ARROW_DOWN")
    assert gallery.js(focus) == titles[1 + columns]
    gallery.press("ARROW_UP", "ARROW_LEFT")
    assert gallery.js(focus) == titles[0]
    gallery.press("END")
    assert gallery.js(focus) == titles[-1]
    assert gallery.count(".card[tabindex='0']") == 1


def test_pictures_are_loaded_and_are_those_of_the_inputs(gallery: Reader) -> None:
    gallery.js("document.querySelector('#inputs').scrollIntoView()")
    gallery.wait("[...document.querySelectorAll('.thumb img')].every((i) => i.naturalWidth)")
    sources = gallery.js("[...document.querySelectorAll('.thumb img')].map((i) => i.src)")
    assert sources == [CONTENT["inputs"][i]["image"] for i in shown(gallery)]


def test_paper_shows_every_picture(gallery: Reader) -> None:
    assert gallery.count(".thumb img[src]") < len(NAMES)
    gallery.js("window.dispatchEvent(new Event('beforeprint'))")
    assert gallery.count(".thumb img[src]") == len(NAMES)


def test_missing_numbers_come_last(reader: Reader) -> None:
    content: PageContent = example_content(4)
    content["runs"][0]["inputs"][2]["loss"] = None
    reader.open(content)
    for _ in range(2):
        reader.choose("#sort", "loss")
        reader.click("#direction")
        assert reader.texts(".card-value")[-1] == "–"
