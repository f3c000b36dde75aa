"""What long work says on a terminal and without one."""

from io import StringIO

import pytest
from rich.console import Console

from instaaug.cli import terminal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock whose only entry is the time."""
    now = [0.0]
    monkeypatch.setattr(terminal, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_long_work_says_how_far_it_is(clock: list[float]) -> None:
    out = StringIO()
    with terminal.progress_bar(Console(file=out, width=80), "looking") as update:
        for second in range(1, 101):
            clock[0] = float(second)
            update(second, 100)
    assert out.getvalue().splitlines() == [
        "looking: 30%, about 70 s left",
        "looking: 60%, about 40 s left",
        "looking: 90%, about 10 s left",
    ]


def test_time_before_the_work_began_is_no_part_of_it(clock: list[float]) -> None:
    """Scores of a run are shown by a bar that was made before the run had learned."""
    out = StringIO()
    with terminal.progress_bar(Console(file=out, width=80), "scoring") as update:
        clock[0] = 500.0
        for done in range(10, 60, 10):  # the first update says what was done before, too
            update(done, 100)
            clock[0] += 20.0
    assert out.getvalue().splitlines() == [
        "scoring: 20%, about 2.7 min left",
        "scoring: 40%, about 2 min left",
    ]


def test_without_a_terminal_short_work_says_nothing(clock: list[float]) -> None:
    out = StringIO()
    with terminal.progress_bar(Console(file=out, width=80)) as update:
        for done in range(5):
            clock[0] += 1.0
            update(done, 4)
    assert not out.getvalue()


def test_a_terminal_has_a_bar(clock: list[float]) -> None:
    out = StringIO()
    with terminal.progress_bar(Console(file=out, force_terminal=True, width=80)) as update:
        update(1, 4)
        clock[0] += 100.0
        update(4, 4)
    assert "reading images" in out.getvalue()
    assert "left" not in out.getvalue()
