"""Shared fixtures; imports torch but not instaaug, which the shape checker must see first."""

from pathlib import Path

import pytest
import torch
from hypothesis import settings

# The same examples in every run: what fails can be repeated, and nothing fails by chance.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")


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
