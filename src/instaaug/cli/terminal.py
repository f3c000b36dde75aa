"""Progress bars, plain text for the terminal, and folders for new runs."""

import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

__all__ = ["STOPPED", "folders", "print_words", "progress_bar", "quote_path"]

STOPPED = 130  # a shell's exit code for a program that Ctrl-C ended
OnProgress = Callable[[int, int], None]


@contextmanager
def progress_bar(console: Console, words: str = "reading images") -> Iterator[OnProgress]:
    """A progress bar that appears with the first update and disappears when all is done."""
    bar = Progress(console=console, transient=True, disable=not console.is_terminal)
    line = None

    def update(done: int, total: int) -> None:
        nonlocal line
        if line is None:
            bar.start()
            line = bar.add_task(words, total=total)
        bar.update(line, completed=done, total=total)
        if done == total:
            bar.stop()

    try:
        yield update
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
