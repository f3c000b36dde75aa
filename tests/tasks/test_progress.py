"""The line that says how far a run is."""

import io
import re
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset
from typing_extensions import override

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.errors import NonFiniteError
from instaaug.tasks import BatchLoader, RichProgress
from tests.support.tiny_training import fit, labeled_halves, supervised

DATA = labeled_halves(32)


def console(*, terminal: bool, width: int = 160) -> Console:
    return Console(file=io.StringIO(), record=True, force_terminal=terminal, width=width)


def rotation() -> InstaAug:
    torch.manual_seed(0)
    return InstaAug(T.Rotation())


@pytest.mark.parametrize("terminal", [True, False])
def test_every_epoch_leaves_a_line_with_its_numbers(*, terminal: bool) -> None:
    screen, task = console(terminal=terminal), supervised(rotation())
    progress = RichProgress(screen)
    fit(task, BatchLoader(DATA, 8, seed=0), BatchLoader(DATA, 8), epochs=2, callbacks=[progress])
    lines = [line for line in screen.export_text().splitlines() if "val nll" in line]
    assert len(lines) == 2
    for i, (line, row) in enumerate(zip(lines, task.history, strict=True), 1):
        assert f"{i}/2" in line
        assert f"loss {row['train/loss']:.3f}" in line
        assert f"entropy rotation {row['train/entropy/rotation']:.3f}" in line
        for side in ("rotation.angle.below", "rotation.angle.above"):
            assert f"λ {side} {row[f'train/weight/{side}']:.3f}" in line
        assert f"val top1 {row['validation/top1']:.1%}" in line
        assert "ece" not in line


def drawn(screen: Console) -> str:
    """All that went to the terminal, also what was overwritten."""
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_a_terminal_shows_a_bar_over_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instaaug.tasks.callbacks.SECONDS_BETWEEN", 0.0)
    screen, progress = console(terminal=True), None
    progress = RichProgress(screen)
    fit(supervised(rotation()), BatchLoader(DATA, 8, seed=0), epochs=2, callbacks=[progress])
    text = drawn(screen)
    assert "/8" in text
    assert "left" in text


@pytest.mark.parametrize("width", [80, 160])
def test_the_time_left_is_shown_whatever_the_width(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instaaug.tasks.callbacks.SECONDS_BETWEEN", 0.0)
    screen = console(terminal=True, width=width)
    aug = InstaAug([T.Rotation(), T.HSVJitter()])
    fit(supervised(aug), BatchLoader(DATA, 8, seed=0), epochs=2, callbacks=[RichProgress(screen)])
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn(screen))
    bars = [line for line in re.split(r"[\r\n]+", plain) if "left  step" in line]
    assert bars
    assert all(len(line.rstrip()) <= width for line in bars)
    assert all(re.search(r"(\d:\d\d:\d\d|-:--:--) left  step \d/8", line) for line in bars)
    assert all(re.search(r"━ +\S+ left", line) for line in bars)
    assert any("loss" in line for line in bars)
    assert any("λ" in line for line in bars) == (width > 80)


def test_anything_but_a_terminal_gets_lines_only() -> None:
    screen = console(terminal=False)
    fit(supervised(), BatchLoader(DATA, 8, seed=0), epochs=2, callbacks=[RichProgress(screen)])
    assert [line[:13] for line in drawn(screen).splitlines()] == ["epoch     1/2", "epoch     2/2"]


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """Nobody knows how long."""

    def __iter__(self):  # type: ignore[no-untyped-def]  # noqa: ANN204
        yield from (DATA[i] for i in range(len(DATA)))


def test_a_run_of_unknown_length_is_shown_as_well() -> None:
    screen = console(terminal=True)
    fit(supervised(), DataLoader(Stream(), 8), callbacks=[RichProgress(screen)])
    assert "loss" in screen.export_text()


class Fails(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(2))

    @override
    def forward(self, x: Tensor) -> Tensor:
        return self.gain.expand(len(x), 2) * torch.nan


def test_the_bar_is_gone_when_a_run_fails() -> None:
    """A bar that lives on would hide the cursor and draw over the error."""
    screen = console(terminal=True)
    task = supervised(model=Fails())
    with pytest.raises(NonFiniteError, match="in step 0"):
        fit(task, BatchLoader(DATA, 8, seed=0), callbacks=[RichProgress(screen)])
    assert drawn(screen).rindex("\x1b[?25h") > drawn(screen).rindex("\x1b[?25l")  # cursor is back


@pytest.mark.parametrize(
    ("seconds_a_step", "said"), [(10.0, "About 70 s for 7 more steps."), (1.0, "")]
)
def test_long_training_says_how_long_it_will_take(
    monkeypatch: pytest.MonkeyPatch, seconds_a_step: float, said: str
) -> None:
    """The first step is not counted; the clock is that of the callback alone."""
    now = [0.0]

    def tick() -> float:
        now[0] += seconds_a_step
        return now[0]

    monkeypatch.setattr("instaaug.tasks.callbacks.time", SimpleNamespace(monotonic=tick))
    monkeypatch.setattr("instaaug.tasks.callbacks.FIRST_STEPS", 4)
    screen = console(terminal=False)
    loader = BatchLoader(DATA, 8, seed=0)
    fit(supervised(rotation()), loader, epochs=3, callbacks=[RichProgress(screen)])
    lines = [line for line in screen.export_text().splitlines() if line.startswith("About")]
    assert lines == ([said] if said else [])
