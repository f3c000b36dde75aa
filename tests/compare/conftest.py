"""Every test starts in an empty folder; the sprites are few."""

from tests.runs.conftest import elsewhere

__all__ = ["elsewhere"]
