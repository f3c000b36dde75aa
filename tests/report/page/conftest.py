"""A real browser, without a window, that opens pages from disk."""

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # otherwise later: the library must not be imported before its types are checked
    from tests.report.page.reader import Reader

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's chromium; one for all tests."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None or find_spec("selenium") is None:
        pytest.skip("needs chromium, chromedriver (apt install chromium-driver) and selenium")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    yield started
    started.quit()


@pytest.fixture
def reader(browser: Any, tmp_path: Path) -> Iterator["Reader"]:
    """A reader with a window of the usual size; the console must stay silent."""
    from tests.report.page.reader import Reader

    one = Reader(browser, tmp_path)
    one.prefer("light")
    yield one
    assert one.complaints() == []
