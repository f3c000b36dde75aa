"""What axe objects to."""

from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import pytest

from tests.report.page.reader import Reader

__all__ = ["faults"]


def faults(reader: Reader) -> list[Any]:
    """Rule, severity and first place of what axe objects to."""
    if find_spec("axe_core_python") is None:
        pytest.skip("needs axe-core-python")
    reader.driver.execute_script(
        files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    )
    found = reader.driver.execute_async_script(
        "const done = arguments[arguments.length - 1]; axe.run().then((r) => done(r.violations))"
    )
    return [(fault["id"], fault["impact"], fault["nodes"][0]["html"]) for fault in found]
