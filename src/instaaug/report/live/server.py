"""A server for this machine alone: one page, the state of one run, its picture of samples."""

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.report.live.state import RunWatcher
from instaaug.report.page.build import live_html, strict_json

__all__ = ["LiveServer"]

HOST = "127.0.0.1"
MOST_PICTURE_BYTES = 1 << 24
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class LiveServer(ThreadingHTTPServer):
    """Serves a page that follows a run, on 127.0.0.1 only.

    A request must name this machine as its host: pages of other hosts, whose names may lead here,
    learn nothing.

    Arguments:
        folder: Of the run, which may be empty so far.
        port: A free one if 0.

    Raises:
        ArgumentError: If the port is in use, or not for everybody.

    Example:
        >>> with LiveServer("runs/mine") as server:
        ...     server.address.startswith("http://127.0.0.1:")
        True
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, folder: str | Path, port: int = 0) -> None:
        self.watcher = RunWatcher(folder)
        self.page = live_html().encode()
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise ArgumentError(
                f"`port` must be free: got {port} ({error}). Leave --port out to take any that is."
            ) from None

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/"

    @property
    def hosts(self) -> set[str]:
        """How requests may name this server."""
        return {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """The type and the bytes of what is at a path; None if nothing is."""
        where = path.partition("?")[0]
        if where == "/":
            return "text/html; charset=utf-8", self.page
        if where == "/state":
            return "application/json", strict_json(self.watcher.look()).encode()
        if where == "/samples.png":
            return _read_picture(self.watcher.samples_file)
        return None


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and nothing else."""

    server: LiveServer
    server_version = "InstaAug"
    sys_version = ""

    def do_GET(self) -> None:  # the name that http.server looks for
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            text = f"This page is for {self.server.address} alone.\n".encode()
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain; charset=utf-8", text)
            return
        found = self.server.answer(self.path)
        if found is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"There is no such.\n")
            return
        self._send(HTTPStatus.OK, *found)

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the page asks every other second."""


def _read_picture(file: Path) -> tuple[str, bytes] | None:
    try:
        if file.stat().st_size > MOST_PICTURE_BYTES:
            return None
        return "image/png", file.read_bytes()
    except OSError:
        return None
