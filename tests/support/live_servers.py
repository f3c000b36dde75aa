"""Live servers that answer while a test asks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from instaaug.report.live.server import LiveServer

__all__ = ["serving"]


@contextmanager
def serving(folder: Path) -> Iterator[LiveServer]:
    """A server for a run, on a free port, in a thread of its own."""
    with LiveServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
