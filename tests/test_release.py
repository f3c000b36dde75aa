"""The version is the same wherever it is written, and the changelog has a dated section for it."""

import re
from pathlib import Path

import yaml

import instaaug

ROOT = Path(__file__).parents[1]


def test_the_citation_has_the_version_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == instaaug.__version__


def test_the_newest_release_of_the_changelog_is_dated_and_is_this_version() -> None:
    headings = re.findall(r"^## \[(.+?)\](.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    version, date = headings[1]
    assert version == instaaug.__version__
    assert re.fullmatch(r" - \d{4}-\d{2}-\d{2}", date)


def test_the_citation_is_as_old_as_the_release() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{citation['version']}] - {citation['date-released']}" in changes
