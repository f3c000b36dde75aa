"""Nothing is asked of a network unless somebody asks for it."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support.command_line import QUICK, CommandLine
from tests.support.picture_folders import plain_folder

FOUR_LINES = """
import socket

def refuse(*_, **__):
    raise RuntimeError("a connection was asked for")

for name in ("connect", "connect_ex", "bind", "sendto", "sendmsg"):
    setattr(socket.socket, name, refuse)
socket.getaddrinfo = refuse

import torch
import instaaug.cli
from instaaug import InstaAug, transforms as T
from instaaug.networks import SmallCNN

model, aug = SmallCNN(3), InstaAug(T.Crop(), diversity=(0.06, 0.10))
batch = aug(torch.rand(2, 3, 32, 32))
losses = model(batch.inputs).square().mean(dim=1)
aug.objective(losses, batch).backward()
try:
    socket.create_connection(("127.0.0.1", 9))
except RuntimeError:
    print("guarded")
"""


def test_the_four_lines_need_no_network() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FOUR_LINES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "guarded\n"


def test_training_predicting_and_reporting_need_no_network(
    instaaug: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    def refuse(*arguments: Any, **_: Any) -> NoReturn:
        asked.append(arguments)
        raise OSError("There is no network in this test.")

    for name in ("connect", "connect_ex", "bind", "sendto", "sendmsg"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    run, pets = tmp_path / "run", plain_folder(tmp_path / "pets")
    assert instaaug("train", pets, "--out", run, *QUICK).code == 0
    assert instaaug("predict", run, pets).code == 0
    assert instaaug("report", run, "--inputs", 1, "--views", 1).code == 0
    assert asked == []
    with pytest.raises(OSError, match="no network in this test"):
        socket.create_connection(("127.0.0.1", 9))
