"""How a comparison goes, while it goes: a table that moves, or a line per run that ends."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from instaaug.cli.terminal import print_words
from instaaug.compare.comparing import OnChange
from instaaug.compare.standings import Standing
from instaaug.report.records import Score

__all__ = ["shown_standings", "standings_table"]

ENDED = ("done", "failed")


@contextmanager
def shown_standings(console: Console, n_epochs: int) -> Iterator[OnChange]:
    """What is to be called when anything changes."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda runs: live.update(standings_table(runs, n_epochs), refresh=True)


class _Lines:
    """A line for every run that ends, from now on."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.known: set[tuple[str, int]] | None = None

    def __call__(self, runs: Sequence[Standing]) -> None:
        ended = {(s.label, s.seed): s for s in runs if s.status in ENDED}
        if self.known is None:
            self.known = set(ended)
            if ended:
                print_words(self.console, f"{len(ended)} of {len(runs)} runs have ended before.")
            return
        for key, run in ended.items():
            if key in self.known:
                continue
            self.known.add(key)
            outcome = f"failed: {run.sentence}" if run.score is None else _number(run.score)
            words = f"{len(self.known)}/{len(runs)} {run.label}, seed {run.seed}: {outcome}"
            print_words(self.console, words)


def standings_table(runs: Sequence[Standing], n_epochs: int) -> Table:
    """Every contender, the best so far first, with what its runs are at."""
    table = Table(box=None, title=f"{_n_ended(runs)} of {len(runs)} runs", title_justify="left")
    table.add_column("method", overflow="fold")
    table.add_column("so far", justify="right", no_wrap=True)
    table.add_column("runs")
    labels = list(dict.fromkeys(run.label for run in runs))
    grouped = {label: [run for run in runs if run.label == label] for label in labels}
    for label in sorted(labels, key=lambda label: _place(grouped[label])):
        scores = [run.score for run in grouped[label] if run.score is not None]
        table.add_row(Text(label), _mean(scores), _work(grouped[label], n_epochs))
    return table


def _n_ended(runs: Sequence[Standing]) -> int:
    return sum(run.status in ENDED for run in runs)


def _place(runs: Sequence[Standing]) -> float:
    scores = [run.score for run in runs if run.score is not None]
    if not scores:
        return float("inf")
    mean = fmean(score.value for score in scores)
    return -mean if scores[0].measure == "top1" else mean


def _mean(scores: Sequence[Score]) -> str:
    if not scores:
        return ""
    mean = fmean(score.value for score in scores)
    return f"{mean:.1%}" if scores[0].measure == "top1" else f"{mean:.4g}"


def _number(score: Score) -> str:
    return (
        f"{score.value:.2%}" if score.measure == "top1" else f"{score.measure} {score.value:.4g}"
    )


def _work(runs: Sequence[Standing], n_epochs: int) -> Text:
    words = []
    if n_done := sum(run.status == "done" for run in runs):
        words.append(Text(f"{n_done} done", style="green"))
    words += [
        Text(f"seed {run.seed}: epoch {min(run.epoch + 1, n_epochs)}/{n_epochs}", style="cyan")
        for run in runs
        if run.status == "running"
    ]
    words += [
        Text(f"seed {run.seed} failed: {run.sentence}", style="red")
        for run in runs
        if run.status == "failed"
    ]
    if n_waiting := sum(run.status in ("waiting", "stopped") for run in runs):
        words.append(Text(f"{n_waiting} to do", style="dim"))
    return Text(", ").join(words)
