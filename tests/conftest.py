"""Shared fixtures; imports torch but not instaaug, which the shape checker must see first."""

from pathlib import Path

import pytest
import torch


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data beside the project; tests that need it skip where it is absent."""
    path = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not path.is_dir():
        pytest.skip("the real data are not here: ../shared/data is absent")
    return path
