"""The server of the live page: for this machine, and for one run."""

import json
import re
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from instaaug.errors import ArgumentError
from instaaug.report.live.server import LiveServer
from tests.support.live_servers import serving
from tests.support.run_folders import write_run

HEADER = "epoch,train/loss\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    with serving(tmp_path / "mine") as one:
        yield one


def ask(
    server: LiveServer, path: str, *, host: str | None = None, method: str = "GET"
) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    headers = {} if host is None else {"Host": host}
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_the_state_follows_the_folder(server: LiveServer) -> None:
    assert json.loads(ask(server, "/state")[1])["status"] == "waiting"
    folder = write_run(server.watcher.folder, **{"trainer.max_epochs": 3})
    assert json.loads(ask(server, "/state")[1])["status"] == "running"
    for n in (1, 2):
        rows = "".join(f"{i},nan\n" if i else "0,1.5\n" for i in range(n))
        (folder / "metrics.csv").write_text(HEADER + rows)
        curves = json.loads(ask(server, "/state")[1])["curves"]
        assert curves["loss"]["training"] == [1.5, None][:n]


def test_the_picture_is_served_when_there_is_one(server: LiveServer) -> None:
    assert ask(server, "/samples.png")[0].status == 404
    server.watcher.folder.mkdir()
    server.watcher.samples_file.write_bytes(b"png")
    answer, body = ask(server, "/samples.png?1")
    assert (answer.status, answer.headers["Content-Type"], body) == (200, "image/png", b"png")
    assert json.loads(ask(server, "/state")[1])["samples"]


@pytest.mark.parametrize("path", ["/config.yaml", "/../secret", "/state/", "state"])
def test_nothing_else_is_served(server: LiveServer, path: str) -> None:
    server.watcher.folder.mkdir()
    (server.watcher.folder / "config.yaml").touch()
    assert ask(server, path)[0].status == 404


@pytest.mark.parametrize("host", ["example.org", "example.org:{port}", "127.0.0.1", ""])
def test_other_hosts_are_refused(server: LiveServer, host: str) -> None:
    answer, body = ask(server, "/state", host=host.format(port=server.server_port))
    assert answer.status == 421
    assert body.decode() == f"This page is for {server.address} alone.\n"


def test_this_machine_may_be_called_localhost(server: LiveServer) -> None:
    assert ask(server, "/", host=f"LocalHost:{server.server_port}")[0].status == 200
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(server: LiveServer, method: str) -> None:
    assert ask(server, "/state", method=method)[0].status == 501


def test_the_page_may_ask_its_own_server_and_nobody_else(server: LiveServer) -> None:
    answer, body = ask(server, "/")
    page = body.decode()
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    policy = re.search(r'Policy" content="([^"]*)"', page)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'self'"
    assert rules["img-src"] == "'self' data:"
    assert "unsafe" not in policy[1]
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_a_port_that_is_taken_is_told(server: LiveServer, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=f"`port` must be free: got {server.server_port} "):
        LiveServer(tmp_path, server.server_port)
