"""One HTML file that holds all it needs: data, drawing and looks."""

import json
import math
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template
from typing import Any

from instaaug.errors import ArgumentError
from instaaug.report.page.content import PageContent

__all__ = ["page_html"]

ASSETS: Traversable = files("instaaug.report.page")
# Within JSON these can only stand in strings, where the escape means the same. Without them the
# text can neither end the element that holds it nor open another.
ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def page_html(content: PageContent) -> str:
    """The whole page as HTML: no server, no network, nothing beside the file.

    Whatever is in the content's texts is shown as text. It travels as JSON, from which the page
    is built node by node, and the browser is told to run and to load nothing but what was put in
    here.

    Arguments:
        content: What the page shows. Numbers that are not finite are shown as missing.

    Raises:
        ArgumentError: If a run does not cover the inputs, or an image is not a data URI.

    Example:
        >>> page = page_html(
        ...     {
        ...         "title": "</script>",
        ...         "made": "",
        ...         "task": "classification",
        ...         "classes": [],
        ...         "inputs": [],
        ...         "aspect": 1.0,
        ...         "n_test": 0,
        ...         "runs": [],
        ...     }
        ... )
        >>> page.count("</script>"), "http://" in page.replace("http://www.w3.org/2000/svg", "")
        (2, False)
    """
    _check(content)
    style = _asset_text("style", ".css")
    script = f'(() => {{\n"use strict";\n{_asset_text("script", ".js")}start();\n}})();'
    policy = (
        f"default-src 'none'; img-src data:; script-src {_hash(script)}; "
        f"style-src {_hash(style)}; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    skeleton = Template(ASSETS.joinpath("page.html").read_text("utf-8"))
    return skeleton.substitute(
        policy=policy, style=style, script=script, content=_strict_json(content)
    )


def _check(content: PageContent) -> None:
    n = len(content["inputs"])
    images = [one["image"] for one in content["inputs"]]
    images += [figure["image"] for figure in content.get("figures", [])]
    for run in content["runs"]:
        if len(run["inputs"]) != n:
            raise ArgumentError(
                f"Every run must cover the inputs of the page: got {len(run['inputs'])} for "
                f"{n} `inputs` in the run {run['name']!r}. Show all runs the same inputs."
            )
        images += [one["strip"] for one in run["inputs"] if one["strip"]]
        images += [figure["image"] for figure in run.get("figures", [])]
    for image in images:
        if not image.startswith("data:image/"):
            raise ArgumentError(
                f"`image` must be a data URI (data:image/...): got {image[:40]!r}. The page may "
                "not load anything from elsewhere; put the bytes into it."
            )


def _asset_text(folder: str, ending: str) -> str:
    """The files of a folder, one after the other by name.

    A file only declares things, so that the order does not matter.
    """
    parts = (part for part in ASSETS.joinpath(folder).iterdir() if part.name.endswith(ending))
    return "".join(part.read_text("utf-8") for part in sorted(parts, key=lambda part: part.name))


def _hash(text: str) -> str:
    """How a content security policy names an inline block."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _strict_json(content: PageContent) -> str:
    try:
        text = _dumped(content)
    except ValueError:  # rare, and to look for it in millions of numbers takes time
        text = _dumped(_finite(content))
    return text.translate(ESCAPES)


def _dumped(content: Any) -> str:
    return json.dumps(content, allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    """The same with None for what JSON has no word for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
