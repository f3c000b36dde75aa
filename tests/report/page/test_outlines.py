"""What turned views show is framed as it lies in the image, in a real browser."""

import pytest

from tests.report.page.example_content import example_content, example_run
from tests.report.page.reader import Reader

TURNED = [0.0, -0.5, 0.5, 0.0, 0.0, 0.5, -0.5, 0.0]  # a square on its corner, in the middle
OUTSIDE = [-1.4, -1.0, 0.6, -1.0, 0.6, 1.0, -1.4, 1.0]


@pytest.mark.parametrize("factors", [("crop", "rotation"), ("rotation",)])
def test_outlines_take_the_place_of_boxes(reader: Reader, factors: tuple[str, ...]) -> None:
    content = example_content(2, runs=[example_run("turned", factors=factors)])
    for one in content["runs"][0]["inputs"]:
        one["outlines"] = [TURNED for _ in one["theta"]]
    content["runs"][0]["inputs"][0]["outlines"][1] = OUTSIDE
    reader.open(content, "#input=0&n=2")
    frames = reader.js(
        "[...document.querySelectorAll('.boxes:not(.gone) .box:not(.gone) .edge')]"
        ".map((edge) => edge.getAttribute('points').split(/[ ,]/).map(Number))"
    )
    expected = [[500 * (value + 1) for value in outline] for outline in (OUTSIDE, TURNED)]
    assert frames == [pytest.approx(outline) for outline in expected]
    left, _, width, _ = map(float, reader.js(
        "document.querySelector('.stage').getAttribute('viewBox')"
    ).split())  # fmt: skip
    assert left <= -199  # there is room for what lies outside
    assert width >= 1398
    reader.choose("#n", "1")
    assert reader.count(".boxes:not(.gone) .box:not(.gone)") == 1
    assert reader.complaints() == []
