"""The page in a real browser: it loads, is fast, can be used by everybody, and is not fooled."""

import pytest

from instaaug.report.page.content import PageContent
from tests.report.page.example_content import example_content, example_run
from tests.report.page.faults import faults
from tests.report.page.hostile_texts import HOSTILE, hostile_content
from tests.report.page.reader import Reader

ALL_FACTORS = ("crop", "rotation", "color", "flip")
NARROW = 360  # of the smallest phones


def three_runs(n_inputs: int = 6) -> PageContent:
    runs = [
        example_run("everything", factors=ALL_FACTORS, warn=True),
        example_run("random crops", factors=("crop",), learned=False, n_views=10),
        example_run("nothing", factors=(), learned=False, n_views=0),
    ]
    return example_content(n_inputs, runs=runs)


def unusual() -> PageContent:
    """Wide images, boxes that reach out of them, the image among the views, a figure."""
    run = example_run("wide", n_epochs=1)
    content = example_content(2, runs=[run])
    content["aspect"] = 2.5
    run["keeps_original"] = True
    run["factors"][0]["boxes"][0] = [0.8, -0.8, 1.0, 1.0]
    run["results"][0] |= {"low": None, "high": None}
    run["results"][1] |= {"low": 0.641, "high": 0.641}
    run["figures"] = [{"title": "A", "image": content["inputs"][0]["image"], "words": "b"}]
    return content


CASES = {
    "one run": example_content(),
    "three runs": three_runs(),
    "regression": example_content(
        4, task="regression", classes=[], runs=[example_run(factors=("rotation",))]
    ),
    "one input, no views, no curves, no names of classes": example_content(
        1, classes=[], runs=[example_run(factors=(), n_views=0, n_epochs=0)]
    ),
    "unusual": unusual(),
    "no inputs": example_content(0),
    "no runs": example_content(2, runs=[]),
}
EVERY_CASE = pytest.mark.parametrize("content", CASES.values(), ids=CASES.keys())


@EVERY_CASE
def test_every_page_loads_and_every_input_opens(reader: Reader, content: PageContent) -> None:
    reader.open(content)
    assert reader.js("document.title") == content["title"]
    assert reader.count(".card") == len(content["inputs"])
    for i in range(min(2, len(content["inputs"]))):
        reader.click(".card", i)
        reader.wait("document.querySelector('dialog').open")
        assert reader.count(".column") == max(1, len(content["runs"]))
        if max([run["n_views"] for run in content["runs"]], default=0):
            reader.choose("#n", "3")
        else:
            assert reader.count("#n") == 0
        reader.press("ESCAPE")
        reader.wait("!document.querySelector('dialog').open && location.hash === ''")
    assert reader.complaints() == []


def test_views_in_one_order_for_all_say_so(reader: Reader) -> None:
    content = example_content(1)
    for same in (False, True):
        content["runs"][0]["same_views"] = same
        reader.open(content)
        reader.click(".card", 0)
        reader.wait("document.querySelector('dialog').open")
        reader.js("document.querySelector('.view').dispatchEvent(new Event('pointerleave'))")
        captions = " ".join(reader.texts(".caption"))
        label = reader.js("document.querySelectorAll('.view')[1].getAttribute('aria-label')")
        assert ("The same boxes, in this order, for every input." in captions) == same
        assert ("No box is drawn twice." in captions) != same
        assert ("probability" in label) != same


def test_the_summary_says_what_the_runs_say(reader: Reader) -> None:
    content = three_runs()
    reader.open(content)
    assert reader.texts(".headline") == [run["headline"] for run in content["runs"]]
    shown = reader.texts(".dots tbody tr:not(.group)")
    rows = [row for run in content["runs"] for row in run["results"]]
    assert len(shown) == len(rows)
    for text, row in zip(shown, rows, strict=True):
        assert row["name"] in text
        assert f"{100 * row['value']:.1f}\u202f%" in text
    assert len(set(reader.texts(".dots .main-row th"))) == len(content["runs"])
    assert reader.texts(".notes li") == [note for run in content["runs"] for note in run["notes"]]
    for warning in content["runs"][0]["warnings"]:
        found = next(t for t in reader.texts(".warning") if warning["title"] in t)
        assert warning["words"] in found
        assert warning["advice"] in found
        assert warning["level"] in found.lower()
    assert reader.texts(".facts-table .differs th") == ["method", "factors"]


def test_a_legend_says_what_the_marks_mean(reader: Reader) -> None:
    reader.open(example_content())
    assert reader.texts(".badge-legend li") == [
        "wrong", "corrected by the views", "spoilt by the views", "no mark: right"
    ]  # fmt: skip
    reader.open(example_content(1), "#input=0")
    assert "Frames are what the views show" in reader.texts(".stage-legend")[0]
    without = example_content(1, runs=[example_run(factors=(), n_views=0)])
    reader.open(without)
    assert reader.texts(".badge-legend li") == ["wrong", "no mark: right"]


def test_an_axis_that_does_not_begin_at_zero_says_so_and_has_no_bars(reader: Reader) -> None:
    content = example_content()
    reader.open(content)
    begin = reader.texts(".dots caption")[0].split("The axis begins at ")[1]
    assert begin.endswith("\u202f%, not at zero.")
    assert "The large dot is what counts." in reader.texts(".dots caption")[0]
    assert reader.count(".bars .bar") == 0
    values = [float(t.replace("\u2212", "-")) for t in reader.texts(".bars tbody .bar-value")]
    places = reader.js("[...document.querySelectorAll('.bars .dot')].map((d) => d.offsetLeft)")
    assert values == sorted(values, reverse=True)
    assert places == sorted(places, reverse=True)
    assert places[0] - places[-1] > 100  # differences can be seen
    assert reader.count(".bars tfoot .tick") > 1


def test_scores_are_rounded_as_on_the_console(reader: Reader) -> None:
    content = example_content(1)
    content["runs"][0]["results"][0]["value"] = 0.9125
    reader.open(content)
    assert f"{91.25:.1f}\u202f%" in reader.texts(".dots .value")[0]


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 1920])
def test_no_name_of_usual_length_is_cut(reader: Reader, width: int) -> None:
    names = ["Staatliches Bauhaus in Weimar, main building, north-east side", "b", "c", "d"]
    content = example_content(4, classes=names)
    content["runs"][0]["name"] = "sprites-instaaug-with-a-long-name-2"
    reader.resize(width, 900)
    for address in ("", "#input=0"):
        reader.open(content, address)
        cut = reader.js(
            "[...document.querySelectorAll('bdi, p, h1, h2, h3, h4, th, td, dt, dd, code, .card')]"
            ".filter((e) => e.checkVisibility() && !e.closest('.sr') && e.clientWidth &&"
            " (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 2) &&"
            " getComputedStyle(e).overflow === 'hidden').map((e) => e.outerHTML)"
        )
        assert cut == []
        assert reader.js("document.documentElement.scrollWidth") <= width
    assert names[0] in "".join(reader.texts(".plot-legend li, .plot text"))
    reader.resize(1280, 900)


def test_figures_say_whose_they_are(reader: Reader) -> None:
    content = three_runs(1)
    image = content["inputs"][0]["image"]
    content["figures"] = [{"title": "All", "image": image, "words": "Every run."}]
    content["runs"][1]["figures"] = [{"title": "One", "image": image, "words": "A run."}]
    reader.open(content)
    assert reader.texts("figcaption") == ["AllEvery run.", "random cropsOneA run."]
    assert reader.js("document.querySelector('figure img').alt") == "All. Every run."


def test_dots_stand_where_the_scores_are(reader: Reader) -> None:
    content = three_runs()
    reader.open(content)
    places = reader.js("[...document.querySelectorAll('.dots .dot')].map((d) => d.offsetLeft)")
    values = [row["value"] for run in content["runs"] for row in run["results"]]
    order = sorted(range(len(values)), key=lambda k: values[k])
    assert sorted(range(len(values)), key=lambda k: places[k] + 1e-3 * values[k]) == order


def test_curves_are_read_with_keys_and_all_follow(reader: Reader) -> None:
    content = example_content(1)
    reader.open(content)
    curves = content["runs"][0]["curves"]
    assert reader.count(".panel") == 2 + 2 * len(content["runs"][0]["factors"])
    assert reader.count(".plot .band") == len(content["runs"][0]["factors"])
    reader.js("document.querySelector('.handle').focus()")
    reader.press("HOME", "ARROW_RIGHT")
    read = reader.texts(".read-out")
    assert read[0].startswith("epoch 1: training ")
    assert f"training {curves['loss']['training'][1]:.2f}" in read[0]
    assert all(text.startswith("epoch 1: ") for text in read)
    reader.press("ARROW_RIGHT")  # where validation has no value
    assert "validation" not in reader.texts(".read-out")[0]
    assert reader.js("document.activeElement.getAttribute('aria-valuenow')") == "2"


def test_curves_are_also_a_table(reader: Reader) -> None:
    content = example_content(1)
    reader.open(content)
    reader.click(".panels + .as-table summary")
    reader.wait("document.querySelector('.numbers') !== null")
    assert reader.count(".numbers tbody tr") == len(content["runs"][0]["curves"]["epoch"])


def test_a_click_on_a_class_shows_its_inputs(reader: Reader) -> None:
    reader.open(example_content(12))
    chosen = reader.texts(".class-button .name")[2]
    reader.click(".class-button", 2)
    reader.wait("document.querySelectorAll('.card').length === 2")
    assert set(reader.texts(".card-class")) == {chosen}


def test_many_classes_are_shown_from_both_ends(reader: Reader) -> None:
    names = [f"class {k}" for k in range(200)]
    content = example_content(200, classes=names, side=16)
    reader.open(content)
    means = {row["name"]: row["entropy"][0] or 0.0 for row in content["runs"][0]["class_entropy"]}
    ordered = sorted(names, key=lambda name: -means[name])
    assert reader.texts(".class-button .name") == ordered[:8] + ordered[-8:]
    reader.click("#classes .quiet")
    assert reader.texts(".class-button .name") == ordered


def test_a_page_of_500_inputs_is_ready_at_once(reader: Reader) -> None:
    runs = [example_run("large", n_strip=10, n_views=30)]
    content = example_content(50, side=96, runs=runs)
    content["inputs"] *= 10
    runs[0]["inputs"] *= 10
    reader.open(content)
    size = (reader.folder / "index.html").stat().st_size
    assert 10e6 < size < 15e6
    assert reader.js("performance.getEntriesByName('ready')[0].startTime") < 6000  # 300 if idle
    assert reader.count(".card") == 500
    reader.js("document.querySelector('#inputs').scrollIntoView()")
    reader.wait("document.querySelector('.thumb img[src]') !== null")
    assert reader.count(".thumb img[src]") < 200  # the others when they come into sight


@pytest.mark.parametrize(
    ("width", "scheme", "address"),
    [
        (1280, "light", ""),
        (1280, "dark", "#input=1"),
        (390, "light", "#input=1"),
        (390, "dark", ""),
    ],
)
def test_axe_finds_no_fault(reader: Reader, width: int, scheme: str, address: str) -> None:
    reader.prefer(scheme)
    reader.resize(width, 900)
    reader.open(three_runs(), address)
    assert faults(reader) == []
    reader.resize(1280, 900)


def test_axe_would_find_a_fault(reader: Reader) -> None:
    reader.open(example_content(1))
    reader.js("document.querySelector('#search').closest('label').replaceWith(arguments[0])", "x")
    reader.js("document.querySelector('main').append(document.createElement('button'))")
    assert [fault[0] for fault in faults(reader)] == ["button-name"]


@pytest.mark.parametrize("width", [1280, NARROW])
def test_hostile_texts_are_texts(reader: Reader, width: int) -> None:
    content = hostile_content()
    reader.resize(width, 800)
    reader.open(content)
    reader.click(".card", 0)
    reader.wait("document.querySelector('dialog').open")
    shown = "\n".join(reader.texts("header, main, dialog"))
    for text in HOSTILE:
        assert well_formed(text) in shown, text
    assert reader.js("document.title.length") > 0
    assert reader.js("window.hacked") is None
    assert reader.count("main script, main img[src=x], dialog script, iframe") == 0
    assert reader.js("document.documentElement.scrollWidth") <= width
    columns = reader.js("(({scrollWidth, clientWidth}) => scrollWidth - clientWidth)"
                        "(document.querySelector('.columns'))")  # fmt: skip
    assert columns <= 0
    reader.resize(1280, 900)


def well_formed(text: str) -> str:
    """The same with U+FFFD for halves of surrogate pairs."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_the_browser_refuses_what_the_page_did_not_bring(reader: Reader) -> None:
    reader.open(example_content(1))
    refused = reader.driver.execute_script(
        "const done = []; for (const act of [() => { document.body.innerHTML = '<b>x</b>'; },"
        "() => { document.createElement('script').textContent = 'window.hacked = 1'; },"
        "() => document.body.setAttribute('onclick', 'window.hacked = 1')])"
        "{ try { act(); done.push('did it'); } catch (e) { done.push(e.name); } } return done;"
    )
    assert refused == ["TypeError"] * 3
    reader.driver.execute_script(
        "window.refused = []; document.addEventListener('securitypolicyviolation', "
        "(event) => refused.push(event.effectiveDirective));"
        "new Image().src = 'https://example.org/x.png';"
        "fetch('https://example.org').catch(() => 0);"
    )
    reader.wait("['img-src', 'connect-src'].every((rule) => refused.includes(rule))")
    assert reader.complaints() != []  # as it should be, and read here so that it is expected


def test_the_colors_follow_the_system_and_the_button(reader: Reader) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    reader.open(example_content(1))
    light = reader.js(paper)
    reader.prefer("dark")
    dark = reader.js(paper)
    assert light != dark
    reader.click("#theme")
    assert reader.js("document.querySelector('#theme').textContent") == "Colors: Light"
    assert reader.js(paper) == light
    reader.click("#theme")
    reader.prefer("light")
    assert reader.js(paper) == dark
    reader.click("#theme")
    assert reader.js(paper) == light


def test_nothing_is_wider_than_a_phone_or_too_small_to_touch(reader: Reader) -> None:
    reader.resize(NARROW, 740)
    for address in ("", "#input=1&n=5"):
        reader.open(three_runs(), address)
        assert reader.js("document.documentElement.scrollWidth") <= NARROW
        small = reader.js(
            "[...document.querySelectorAll('button, select, input, summary, nav a')]"
            ".filter((e) => e.checkVisibility()).map((e) => [e, e.getBoundingClientRect()])"
            ".filter(([, r]) => r.width && r.height < 40).map(([e]) => e.outerHTML)"
        )
        assert small == []
    reader.resize(1280, 900)
