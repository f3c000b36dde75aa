"""Every method has a card that says what the class says, and a place in the site."""

import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

from instaaug.methods import METHODS
from instaaug.runs.settings import TrainSettings
from instaaug.settings import setting_infos
from tests.support.site_scripts import load_site_script

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/methods"
MOST_BYTES, MOST_BYTES_OF_ALL = 150_000, 1_500_000


@pytest.fixture(scope="module")
def cards() -> ModuleType:
    return load_site_script("method_cards")


def test_the_cards_say_what_methods_and_results_say(cards: ModuleType) -> None:
    for path, page in cards.render_all().items():
        assert path.read_text() == page, f"{path.name}: run `python docs/.site/method_cards.py`"


def test_there_is_a_card_and_a_small_picture_of_each_method_and_of_nothing_else() -> None:
    pictures = list(FOLDER.glob("*.jpg"))
    for found in (pictures, FOLDER.glob("*.md")):
        assert {path.stem for path in found} == {*METHODS}
    sizes = [path.stat().st_size for path in pictures]
    assert max(sizes) < MOST_BYTES
    assert sum(sizes) < MOST_BYTES_OF_ALL


@pytest.mark.parametrize("name", METHODS)
def test_every_argument_is_described_with_a_setting_that_exists(
    name: str, cards: ModuleType
) -> None:
    method, page = METHODS[name], (FOLDER / f"{name}.md").read_text()
    known = {info.name for info in setting_infos(TrainSettings)}
    for argument in inspect.signature(method).parameters:
        assert f"`{argument}`" in page
        setting = cards.setting_of(method, argument)
        assert not setting or setting in known or setting == f"method.{argument}"


def test_the_site_and_the_table_of_methods_lead_to_every_card() -> None:
    in_nav = re.findall(r"- docs/methods/(\w+)\.md\n", (ROOT / "mkdocs.yml").read_text())
    assert sorted(in_nav) == [*METHODS]
    linked = re.findall(r"\]\(methods/(\w+)\.md\)", (ROOT / "docs/compare.md").read_text())
    assert sorted(linked) == [*METHODS]
