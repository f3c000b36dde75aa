"""One HTML file that holds everything: data, pictures, scripts and styles."""

import json
import math
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from string import Template
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8
from torch import Tensor

from instaaug.errors import ArgumentError
from instaaug.report.page.content import PageContent

__all__ = [
    "TINY",
    "Encoding",
    "best_encoding",
    "data_uris",
    "live_html",
    "page_html",
    "side_by_side",
    "strict_json",
]

N_TRIED = 12
BASE64 = 4 / 3  # characters per byte

TINY = 48  # pixels: pictures of this height are stored without loss, and are small even so

Pixels = UInt8[Tensor, "_ _ _ _"] | Sequence[UInt8[Tensor, "_ _ _"]]
"""N pictures of h × w pixels, ``(N, h, w, C)``, or of a size each."""

ASSETS: Traversable = files("instaaug.report.page")
# Within JSON these can only stand in strings, where the escape means the same. Without them the
# text can neither end the element that holds it nor open another.
ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


class Encoding(NamedTuple):
    """How pictures are written.

    Arguments:
        scale: Of their sides, at most 1.
        quality: Of WebP, in percent.
    """

    scale: float = 1.0
    quality: int = 82


ENCODINGS = tuple(
    Encoding(scale, quality)
    for scale, quality in (
        (1.0, 88), (1.0, 80), (1.0, 70), (0.8, 75), (0.8, 65), (0.65, 70), (0.5, 70), (0.5, 50),
        (0.35, 50), (0.25, 40), (0.18, 35), (0.12, 30),
    )
)  # fmt: skip


def best_encoding(groups: Sequence[Pixels], most_bytes: float) -> Encoding:
    """The best encoding with which all pictures fit into ``most_bytes``.

    The size is estimated from a dozen pictures of each group.
    """
    for encoding in ENCODINGS:
        if sum(_expected_size(group, encoding) for group in groups) <= most_bytes:
            return encoding
    return ENCODINGS[-1]


def _expected_size(pictures: Pixels, encoding: Encoding) -> float:
    if not len(pictures) or not pictures[0].numel():
        return 0.0
    chosen = np.linspace(0, len(pictures) - 1, min(N_TRIED, len(pictures))).astype(int)
    sizes = [len(_webp(pictures[int(i)], encoding)) for i in chosen]
    return BASE64 * float(np.mean(sizes)) * len(pictures)


def data_uris(pictures: Pixels, encoding: Encoding) -> Iterator[str]:
    """Each picture as a data URI."""
    for picture in pictures:
        text = b64encode(_webp(picture, encoding)).decode("ascii")
        yield f"data:image/webp;base64,{text}"


def side_by_side(views: UInt8[Tensor, "m n h w c"]) -> UInt8[Tensor, "n h mw c"]:
    """The m views of each input as one wide picture."""
    return views.permute(1, 2, 0, 3, 4).flatten(2, 3)


def _webp(picture: UInt8[Tensor, "h w c"], encoding: Encoding) -> bytes:
    from PIL import Image

    image = Image.fromarray(
        picture.numpy().squeeze(-1) if picture.shape[-1] == 1 else picture.numpy()
    )
    is_tiny = encoding.scale == 1 and image.height <= TINY
    if encoding.scale < 1:
        size = tuple(max(1, round(side * encoding.scale)) for side in image.size)
        image = image.resize((size[0], size[1]), Image.Resampling.LANCZOS)
    file = BytesIO()
    image.save(file, format="webp", quality=encoding.quality, method=4, lossless=is_tiny)
    return file.getvalue()


def page_html(content: PageContent) -> str:
    """The whole page as HTML: no server, no network, nothing beside the file.

    Whatever is in the content's texts is shown as text. It travels as JSON, from which the page
    is built node by node, and the content security policy lets the browser run and load nothing
    else.

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
    _check_content(content)
    style = _asset_text("style", ".css")
    script = f'(() => {{\n"use strict";\n{_asset_text("script", ".js")}start();\n}})();'
    policy = f"img-src data:; {_policy(script, style)}"
    skeleton = Template(ASSETS.joinpath("page.html").read_text("utf-8"))
    return skeleton.substitute(
        policy=policy, style=style, script=script, content=strict_json(content)
    )


def live_html() -> str:
    """A page that follows a run: it asks its own server for ``state`` and ``samples.png``.

    It is built of the same scripts and styles as the report, under the same policy, but that it
    may ask its own server.

    Example:
        >>> "connect-src 'self'" in live_html()
        True
    """
    style = _asset_text("style", ".css") + _asset_text("live", ".css")
    script = _asset_text("script", ".js") + _asset_text("live", ".js")
    script = f'(() => {{\n"use strict";\n{script}watch();\n}})();'
    policy = f"img-src 'self' data:; connect-src 'self'; {_policy(script, style)}"
    skeleton = Template(ASSETS.joinpath("live", "live.html").read_text("utf-8"))
    return skeleton.substitute(policy=policy, style=style, script=script)


def _policy(script: str, style: str) -> str:
    """What a browser may do with a page whose script and style these are: nothing else."""
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _check_content(content: PageContent) -> None:
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


def strict_json(content: Any) -> str:
    """JSON that can stand within HTML, with null for numbers that are not finite."""
    try:
        text = _dump(content)
    except ValueError:  # rare, and to look for it in millions of numbers takes time
        text = _dump(_without_infinities(content))
    return text.translate(ESCAPES)


def _dump(content: Any) -> str:
    return json.dumps(content, allow_nan=False, separators=(",", ":"))


def _without_infinities(value: Any) -> Any:
    """The value with None in place of infinities and NaN, which JSON lacks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_infinities(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinities(inner) for inner in value]
    return value
