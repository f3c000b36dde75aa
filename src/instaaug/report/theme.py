"""One look for every figure: colors that differ in gray and for color-blind readers."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instaaug.errors import ArgumentError, InstaAugError
from instaaug.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "BLUE",
    "GREEN",
    "INK",
    "MUTED",
    "RED",
    "MissingPlottingError",
    "figure",
    "save_figure",
]

INK = "#1f2933"
MUTED = "#9aa5b1"
BLUE = "#0072b2"
GREEN = "#009e73"
RED = "#d55e00"

SCREEN = 110  # dots per inch in a notebook

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.edgecolor": MUTED,
    "savefig.dpi": 200,
    "savefig.facecolor": "white",
    "svg.hashsalt": "instaaug",
    "text.parse_math": False,  # a dollar in the name of a file is a dollar
}


class MissingPlottingError(InstaAugError, ImportError):
    """Matplotlib is needed for figures and is not installed."""


@contextmanager
def figure(width: float, height: float) -> Iterator["Figure"]:
    """A blank figure in the house style, of this size in inches; no window, no global state."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPlottingError(
            "Figures need matplotlib, which is not installed. Run: pip install 'instaaug[report]'"
        ) from error
    with rc_context(STYLE):
        yield _with_notebook_display(Figure)(figsize=(width, height), layout="constrained")


@cache
def _with_notebook_display(kind: type["Figure"]) -> type["Figure"]:
    """Figures that a notebook shows although pyplot, with its global state, was never imported."""
    from matplotlib import rc_context

    class Figure(kind):  # type: ignore[misc, valid-type]
        def _repr_png_(self) -> bytes:
            file = BytesIO()
            with rc_context(STYLE):
                self.savefig(file, format="png", dpi=SCREEN)
            return file.getvalue()

    return Figure


def save_figure(drawing: "Figure", path: str | Path, *, dpi: int = 200) -> None:
    """Write a figure as PNG, SVG or JPEG, by the ending of ``path``, whole or not at all.

    The same figure gives the same bytes. JPEG is for figures that hold photos: a tenth of the
    size.

    Arguments:
        drawing: The figure.
        path: Ends in ``.png``, ``.svg`` or ``.jpg``.
        dpi: Pixels per inch.
    """
    from matplotlib import rc_context

    path = Path(path)
    if path.suffix not in (".png", ".svg", ".jpg"):
        raise ArgumentError(f"`path` must end in .png, .svg or .jpg: got {str(path)!r}.")
    settings: dict[str, Any] = {"format": path.suffix.removeprefix("."), "dpi": dpi}
    if path.suffix == ".svg":
        settings["metadata"] = {"Date": None}
    with rc_context(STYLE):
        write_atomically(path, lambda file: drawing.savefig(file, **settings))
