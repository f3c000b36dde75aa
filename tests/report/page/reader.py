"""Somebody who looks at a page in a browser."""

from pathlib import Path
from typing import Any

from instaaug.report.page.build import page_html
from instaaug.report.page.content import PageContent

__all__ = ["Reader"]

PATIENCE = 20.0  # seconds; the machine may be busy


class Reader:
    """Somebody who looks at a page: opens, points, types, and reads what is there.

    Arguments:
        driver: Selenium's driver of the browser.
        folder: Where pages are put.
    """

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver = driver
        self.folder = folder
        self.resize(1280, 900)

    def open(self, content: PageContent, address: str = "") -> None:
        """Open the page of a content afresh, and wait until it is ready."""
        path = self.folder / "index.html"
        path.write_text(page_html(content), encoding="utf-8")
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get(path.as_uri() + address)
        self.wait("performance.getEntriesByName('ready').length > 0")

    def visit(self, address: str) -> None:
        """Open an address."""
        self.driver.get_log("browser")
        self.driver.get(address)

    def js(self, code: str, *arguments: Any) -> Any:
        """The value of an expression of JavaScript."""
        return self.driver.execute_script(f"return ({code})", *arguments)

    def wait(self, condition: str, *arguments: Any) -> None:
        """Wait until an expression of JavaScript is true."""
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.driver, PATIENCE, poll_frequency=0.02)
        waiting.until(lambda _: self.js(condition, *arguments), condition)

    def click(self, selector: str, index: int = 0) -> None:
        """Click as a mouse does, at the middle of an element."""
        self.driver.find_elements("css selector", selector)[index].click()

    def press(self, *keys: str) -> None:
        """Press keys, by the names that selenium gives them, where the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        for key in keys:
            ActionChains(self.driver, duration=0).send_keys(getattr(Keys, key)).perform()

    def choose(self, selector: str, value: str) -> None:
        """Set a control and tell the page, as the browser would."""
        self.driver.execute_script(
            "const box = document.querySelector(arguments[0]); box.value = arguments[1];"
            "box.dispatchEvent(new Event('input', {bubbles: true}));"
            "box.dispatchEvent(new Event('change', {bubbles: true}));",
            selector,
            value,
        )

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements, whole, also where the layout shortens them.

        Halves of surrogate pairs, which cannot be sent, become U+FFFD.
        """
        found: list[str] = self.js(
            "[...document.querySelectorAll(arguments[0])]"
            ".map((element) => element.textContent.toWellFormed())",
            selector,
        )
        return found

    def count(self, selector: str) -> int:
        """How many elements there are."""
        return int(self.js("document.querySelectorAll(arguments[0]).length", selector))

    def resize(self, width: int, height: int) -> None:
        """Make the window this large; below 600 pixels it is a phone."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """Let the system prefer "light" or "dark", and that nothing glides."""
        preferred = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in preferred.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def complaints(self) -> list[str]:
        """What the console has said since the page was opened."""
        return [entry["message"] for entry in self.driver.get_log("browser")]
