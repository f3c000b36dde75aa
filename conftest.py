"""Names that every executed example may use."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch


@pytest.fixture(autouse=True)
def _torch_in_examples(doctest_namespace: dict[str, Any]) -> Iterator[None]:
    doctest_namespace["torch"] = torch
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
