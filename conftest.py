"""Names that every executed example may use, and a garbage collector that leaves tests alone."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch


def pytest_configure() -> None:
    """Search for no garbage among modules and tests, which stay: it took a fifth of collection."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From now on, search among what tests make."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _torch_in_examples(doctest_namespace: dict[str, Any]) -> Iterator[None]:
    doctest_namespace["torch"] = torch
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
