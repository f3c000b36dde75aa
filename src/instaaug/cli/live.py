"""``instaaug report RUN --live``: a page that follows a run."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from instaaug.cli.terminal import print_words
from instaaug.errors import ArgumentError
from instaaug.report.live.server import LiveServer

__all__ = ["run_live"]


def run_live(runs: Sequence[Path], *, port: int) -> None:
    """Serve the page until Ctrl-C; print where it is."""
    if len(runs) != 1:
        raise ArgumentError(
            f"`runs` must name one folder with --live: got {len(runs)}. Open a page for each."
        )
    console = Console()
    with LiveServer(runs[0], port) as server:
        state = server.watcher.look()
        print_words(console, f"{state['words']} {state['advice']}")
        print_words(
            console,
            f"Open {server.address} on this machine to follow {runs[0]}; Ctrl-C ends the page, "
            "not the run.",
        )
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            print_words(console, "The page is closed; the run goes on without it.")
