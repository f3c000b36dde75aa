"""Tables of few images; imports nothing of instaaug, which the shape checker must see first."""

import pytest


@pytest.fixture
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few images make several batches."""
    from tests.support.frozen_tables import AT_ONCE

    monkeypatch.setattr("instaaug.frozen.table.AT_ONCE", AT_ONCE)
