"""All exhibits, in the paper's order."""

from importlib import import_module

from instaaug.errors import UnknownNameError
from paper.exhibits import Exhibit

__all__ = ["MODULES", "find_exhibit", "list_exhibits"]

MODULES = (
    "rotations", "table1", "table2", "colors", "table5", "crop_pictures", "entropy_sweeps",
    "times", "decomposition", "regression",
)  # fmt: skip
"""Modules of this package; each has ``EXHIBITS``."""


def list_exhibits() -> list[Exhibit]:
    """Every exhibit."""
    return [e for name in MODULES for e in import_module(f"paper.{name}").EXHIBITS]


def find_exhibit(name: str) -> Exhibit:
    """The exhibit with this name.

    Raises:
        UnknownNameError: If there is none.
    """
    known = {exhibit.name: exhibit for exhibit in list_exhibits()}
    if name not in known:
        raise UnknownNameError("exhibit", name, [*known, "all", "list", "page"])
    return known[name]
