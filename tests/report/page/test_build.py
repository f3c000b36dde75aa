"""The page holds all it needs, and nothing in its texts can break out of it."""

import json
import re
from base64 import b64decode, b64encode
from copy import deepcopy
from hashlib import sha256
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import instaaug.report.page.build as build
from instaaug.errors import ArgumentError
from instaaug.report.page.build import (
    ENCODINGS,
    Encoding,
    best_encoding,
    data_uris,
    live_html,
    page_html,
    side_by_side,
)
from tests.report.page.example_content import example_content, example_run
from tests.report.page.hostile_texts import HOSTILE, hostile_content

FOLDER = Path(build.__file__).parent
ASSETS = sorted([*FOLDER.glob("script/*.js"), *FOLDER.glob("style/*.css"), FOLDER / "page.html",
                 *FOLDER.glob("live/*.*")])  # fmt: skip
EVERY_ASSET = pytest.mark.parametrize("path", ASSETS, ids=lambda path: path.name)

GENERATOR = torch.Generator().manual_seed(0)
PHOTOS = torch.nn.functional.interpolate(
    torch.rand(30, 3, 8, 8, generator=GENERATOR), (64, 48), mode="bicubic"
).clamp(0, 1)
PICTURES = (PHOTOS * 255).byte().permute(0, 2, 3, 1)


class Blocks(HTMLParser):
    """The elements of a page with their attributes, and what is inside of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.inside: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem is not None:
            self.inside.append(data)


def content_of(page: str) -> Any:
    """What the page would read."""
    return json.loads(re.findall(r'id="content">(.*?)</script>', page, re.DOTALL)[0])


def test_the_content_arrives_as_it_was() -> None:
    content = example_content(3)
    before = deepcopy(content)
    page = page_html(content)
    assert content_of(page) == before
    assert content == before
    assert page == page_html(content)


def test_hostile_texts_arrive_as_they_were_and_add_no_element() -> None:
    quiet = Blocks(page_html(example_content(3)))
    page = page_html(hostile_content())
    found = Blocks(page)
    assert content_of(page) == hostile_content()
    assert found.tags == quiet.tags
    assert page.encode("utf-8")  # also with halves of surrogate pairs among the names


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_the_content_holds_nothing_that_html_would_read(text: str) -> None:
    content = example_content(0, runs=[])
    content["title"] = text
    page = page_html(content)
    inside = re.findall(r'id="content">(.*?)</script>', page, re.DOTALL)[0]
    assert not set(inside) & set("<>&\u2028\u2029")
    assert json.loads(inside)["title"] == text


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_missing(bad: float) -> None:
    content = example_content(1)
    content["runs"][0]["inputs"][0]["loss"] = bad
    content["runs"][0]["curves"]["loss"]["training"][0] = bad
    page = page_html(content)
    back = content_of(page)
    assert back["runs"][0]["inputs"][0]["loss"] is None
    assert back["runs"][0]["curves"]["loss"]["training"][0] is None
    assert back["runs"][0]["inputs"][0]["merged"] == content["runs"][0]["inputs"][0]["merged"]


def test_the_policy_names_the_blocks_and_nothing_else() -> None:
    page = page_html(example_content(1))
    blocks = Blocks(page)
    policy = next(a["content"] for a in blocks.attributes if "http-equiv" in a) or ""
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    style, _, script = blocks.inside
    for name, block in (("style-src", style), ("script-src", script)):
        digest = b64encode(sha256(block.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    assert blocks.tags.count("script") == 2
    assert blocks.tags.count("style") == 1


def test_nothing_is_loaded_and_no_attribute_carries_code() -> None:
    blocks = Blocks(page_html(example_content(0, runs=[])))
    names = {name for attributes in blocks.attributes for name in attributes}
    assert not names & {"src", "style", "srcset", "action"}
    assert not [name for name in names if name.startswith("on")]
    links = [a["href"] for a in blocks.attributes if "href" in a]
    assert links == ["data:,", "#inputs"]


@EVERY_ASSET
def test_markup_never_comes_from_text(path: Path) -> None:
    text = path.read_text("utf-8")
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc"
    ways += r"|createContextualFragment|DOMParser|setTimeout\(\s*[\"'`]|javascript:|@import|url\("
    assert not re.findall(ways, text)
    places = set(re.findall(r"https?://[^\"'\s]*", text))
    assert places <= {"http://www.w3.org/2000/svg"}


@EVERY_ASSET
def test_assets_are_small_and_say_what_they_are(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) <= 350
    assert max(map(len, lines)) <= 99 or path.suffix == ".html"
    assert lines[0].startswith(("// ", "/* ", "<!doctype html>"))


def test_every_asset_is_in_the_page() -> None:
    page = page_html(example_content(0, runs=[]))
    for path in ASSETS:
        if path.suffix != ".html":
            where = live_html() if path.parent.name == "live" else page
            assert path.read_text("utf-8") in where, path.name
    assert len(page) < 200_000


def test_runs_must_cover_the_inputs() -> None:
    content = example_content(3, runs=[example_run("short")])
    content["runs"][0]["inputs"].pop()
    with pytest.raises(ArgumentError, match="got 2 for 3 `inputs` in the run 'short'"):
        page_html(content)


@pytest.mark.parametrize("where", ["image", "strip", "figure of a run", "figure"])
def test_images_must_be_in_the_page(where: str) -> None:
    content = example_content(1)
    address = "https://example.org/a.png"
    if where == "image":
        content["inputs"][0]["image"] = address
    elif where == "strip":
        content["runs"][0]["inputs"][0]["strip"] = address
    elif where == "figure":
        content["figures"] = [{"title": "", "image": address, "words": ""}]
    else:
        content["runs"][0]["figures"] = [{"title": "", "image": address, "words": ""}]
    with pytest.raises(ArgumentError, match=r"`image` must be a data URI .* got 'https://example"):
        page_html(content)


def decoded(uri: str) -> np.ndarray:
    kind, text = uri.split(",", 1)
    assert kind == "data:image/webp;base64"
    return np.asarray(Image.open(BytesIO(b64decode(text, validate=True))))


def test_a_picture_comes_back_nearly_as_it_was() -> None:
    uris = list(data_uris(PICTURES, Encoding(quality=95)))
    assert len(uris) == 30
    off = np.abs(decoded(uris[7]).astype(float) - PICTURES[7].numpy())
    assert off.mean() < 4
    assert np.abs(decoded(uris[8]).astype(float) - PICTURES[7].numpy()).mean() > 20


def test_tiny_pictures_lose_nothing() -> None:
    (uri,) = data_uris(PICTURES[:1, :32, :32], Encoding(quality=30))
    assert np.array_equal(decoded(uri), PICTURES[0, :32, :32].numpy())


def test_gray_pictures_are_welcome() -> None:
    (uri,) = data_uris(PICTURES[:1, ..., :1].contiguous(), Encoding())
    assert decoded(uri).shape[:2] == (64, 48)


def test_a_scale_makes_them_smaller() -> None:
    (uri,) = data_uris(PICTURES[:1], Encoding(scale=0.5))
    assert decoded(uri).shape == (32, 24, 3)


@pytest.mark.parametrize("most", [1e6, 4e4, 2e4])
def test_all_of_them_keep_to_the_size(most: float) -> None:
    strips = side_by_side(PICTURES.unflatten(0, (3, 10)))
    encoding = best_encoding([PICTURES, strips], most)
    total = sum(len(uri) for group in (PICTURES, strips) for uri in data_uris(group, encoding))
    assert total <= 1.1 * most  # by a sample of them
    better = [e for e in ENCODINGS if ENCODINGS.index(e) < ENCODINGS.index(encoding)]
    if better:  # no better one would have done
        larger = sum(len(uri) for g in (PICTURES, strips) for uri in data_uris(g, better[-1]))
        assert larger > 0.9 * most


def test_the_least_is_the_least() -> None:
    assert best_encoding([PICTURES], 1.0) == ENCODINGS[-1]
    assert best_encoding([PICTURES[:0]], 1.0) == ENCODINGS[0]


def test_views_stand_side_by_side_in_their_order() -> None:
    views = torch.arange(3, dtype=torch.uint8).view(3, 1, 1, 1, 1).expand(3, 2, 4, 5, 3)
    wide = side_by_side(views)
    assert wide.shape == (2, 4, 15, 3)
    assert wide[1, 0, :, 0].tolist() == [0] * 5 + [1] * 5 + [2] * 5
