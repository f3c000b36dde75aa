"""The studies look at runs of the command line."""

from tests.cli.conftest import elsewhere, instaaug, shop

__all__ = ["elsewhere", "instaaug", "shop"]
