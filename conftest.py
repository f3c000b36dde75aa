"""Names that every executed example may use, and what makes the suite quick."""

import gc
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from tests.support.quick_checks import check_quickly

collect_ignore = [] if find_spec("transformers") else ["src/instaaug/adapters/transformers.py"]


def pytest_configure() -> None:
    """Search for no garbage among modules and tests, which stay: it took a fifth of collection."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From now on, search among what tests make, and not after every few hundred objects."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def _torch_in_examples(doctest_namespace: dict[str, Any]) -> Iterator[None]:
    doctest_namespace["torch"] = torch
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


check_quickly()  # before anything of ours is imported
