"""Progress bars, plain text for the terminal, and folders for new runs."""

import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import monotonic

from rich.console import Console
from rich.progress import Progress

from instaaug.durations import format_duration

__all__ = [
    "STOPPED",
    "describe_skipped",
    "folders",
    "print_words",
    "progress_bar",
    "quote_path",
]

STOPPED = 130  # a shell's exit code for a program that Ctrl-C ended
QUIET_SECONDS = 30.0
OnProgress = Callable[[int, int], None]


@contextmanager
def progress_bar(console: Console, words: str = "reading images") -> Iterator[OnProgress]:
    """A progress bar that appears with the first update and disappears when all is done.

    Where there is no terminal, what takes long says now and then how far it is.
    """
    bar = Progress(console=console, transient=True, disable=not console.is_terminal)
    line = None
    first: tuple[float, int] | None = None  # when it was, and what was done by then
    last = monotonic()

    def show(done: int, total: int) -> None:
        nonlocal line
        if line is None:
            bar.start()
            line = bar.add_task(words, total=total)
        bar.update(line, completed=done, total=total)
        if done == total:
            bar.stop()

    def say(done: int, total: int) -> None:
        nonlocal first, last
        now = monotonic()
        first = first or (now, done)
        if now - last < QUIET_SECONDS or not first[1] < done < total:
            return
        last = now
        left = format_duration((now - first[0]) * (total - done) / (done - first[1]))
        print_words(console, f"{words}: {done / total:.0%}, about {left} left")

    try:
        yield show if console.is_terminal else say
    finally:
        bar.stop()


def folders(data: str, kind: str) -> Iterator[Path]:
    """Folders for a run on ``data``, the plain name first, then with numbers, without end."""
    path = Path(data)
    name = path.resolve().name if path.is_dir() else path.stem
    stem = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "data"
    base = Path("runs") / f"{stem}-{kind}"
    yield base
    yield from (base.with_name(f"{base.name}-{number}") for number in count(2))


def quote_path(folder: Path) -> str:
    """A folder as a shell understands it, whatever is in its name."""
    return shlex.quote(str(folder))


def print_words(console: Console, words: str) -> None:
    """Print text without markup: the name of a folder may contain brackets."""
    console.print(words, markup=False, highlight=False, soft_wrap=True)


def describe_skipped(n: int) -> str:
    """A sentence on images that were left out; their names are in the results.

    Example:
        >>> describe_skipped(1)
        '1 image could not be read and was left out: `skipped` in results.json names it.'
    """
    if n == 1:
        return "1 image could not be read and was left out: `skipped` in results.json names it."
    return f"{n} images could not be read and were left out: `skipped` in results.json names them."
