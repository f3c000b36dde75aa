"""The page that follows a run, in a real browser."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.page.faults import faults
from tests.report.page.reader import Reader
from tests.support.live_servers import serving
from tests.support.run_folders import write_run

HEADER = "epoch,train/loss,train/entropy/crop,train/weight/crop,validation/top1\n"


HURRY = "const wait = setTimeout; window.setTimeout = (f, ms) => wait(f, ms / 20);"


@pytest.fixture(autouse=True)
def hurried(reader: Reader) -> Iterator[None]:
    """The page, which asks every two seconds, asks ten times in one."""
    added = reader.driver.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": HURRY}
    )
    yield
    reader.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


@pytest.fixture
def folder(reader: Reader, tmp_path: Path) -> Iterator[Path]:
    """A folder that is empty so far; the reader has its live page open."""
    path = tmp_path / "my run"
    with serving(path) as server:
        reader.visit(server.address)
        yield path
        reader.visit("about:blank")


def begin(folder: Path) -> None:
    write_run(folder, **{"trainer.max_epochs": 4})


def add_epochs(folder: Path, n: int) -> None:
    rows = [f"{i},{1 / (i + 1)},3.0,0.1,{0.5 + 0.1 * i}\n" for i in range(n)]
    (folder / "metrics.csv").write_text(HEADER + "".join(rows))


def says(reader: Reader, words: str) -> None:
    reader.wait("document.getElementById('top').textContent.includes(arguments[0])", words)


def test_the_page_follows_a_run_without_being_loaded_again(reader: Reader, folder: Path) -> None:
    reader.js("window.still = 'here'")
    says(reader, "There is no run in my run yet.")
    begin(folder)
    says(reader, "The first epoch is running.")
    for n in (1, 3):
        add_epochs(folder, n)
        says(reader, f"{n} of 4 epochs done.")
        assert reader.count(".panel") == 4
    assert reader.js("document.title") == "my run: training"
    reader.js("document.querySelector('.handle').focus()")
    assert reader.texts(".read-out")[0].startswith("epoch 3: training 0.33")
    add_epochs(folder, 4)
    reader.wait("document.querySelector('.read-out').textContent.startsWith('epoch 4')")
    results = {"test": {"plain": {"top1": 0.5, "n": 40.0}}, "validation": None}
    (folder / "results.json").write_text(json.dumps(results))
    says(reader, "writes the full report")
    assert reader.texts(".live-status") == ["Finished"]
    assert reader.texts(".live-advice code") == [f"instaaug report '{folder}'"]
    assert reader.js("window.still") == "here"


def test_samples_are_shown_when_they_are_there(reader: Reader, folder: Path) -> None:
    assert reader.js("document.querySelector('#samples').hidden") is True
    begin(folder)
    from PIL import Image

    Image.new("RGB", (32, 8)).save(folder / "samples.png")
    reader.wait("document.querySelector('.live-samples').naturalWidth === 32")
    Image.new("RGB", (48, 8)).save(folder / "samples.png")
    reader.wait("document.querySelector('.live-samples').naturalWidth === 48")


def test_a_killed_run_and_a_closed_server_are_told(reader: Reader, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    begin(folder)
    add_epochs(folder, 1)
    for file in folder.iterdir():
        os.utime(file, (1e9, 1e9))
    with serving(folder) as server:
        reader.visit(server.address)
        says(reader, "The last sign of life was ")
        assert reader.texts(".live-status") == ["Silent"]
        assert reader.count(".panel") == 4
    says(reader, "The server does not answer.")
    assert "1 of 4 epochs done" in reader.texts(".live-advice")[0]
    reader.visit("about:blank")
    reader.complaints()  # the browser says that nobody answered


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault(reader: Reader, folder: Path, width: int, scheme: str) -> None:
    reader.prefer(scheme)
    reader.resize(width, 900)
    assert faults(reader) == []
    begin(folder)
    add_epochs(folder, 2)
    says(reader, "2 of 4 epochs done.")
    assert faults(reader) == []
    (folder / "results.json").write_text('{"test": {"plain": {"top1": 0.5, "n": 40.0}}}')
    says(reader, "Finished")
    assert faults(reader) == []
    assert reader.js("document.documentElement.scrollWidth") <= width
    reader.resize(1280, 900)
