"""What the page on other libraries shows of an example is in that example, line by line."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "integrations.md").read_text()
BLOCKS = re.findall(r"^```py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
EXAMPLES = "\n".join(path.read_text() for path in sorted((ROOT / "examples").glob("*.py")))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda text: text.split("(")[0])
def test_what_is_shown_is_run(block: str) -> None:
    assert block in EXAMPLES


def test_there_is_something_shown() -> None:
    assert len(BLOCKS) == 2
