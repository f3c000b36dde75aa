"""One look for every figure: colors that differ in gray and for color-blind readers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from instaaug.errors import InstaAugError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BLUE", "GREEN", "INK", "MUTED", "RED", "MissingPlottingError", "figure"]

INK = "#1f2933"
MUTED = "#9aa5b1"
BLUE = "#0072b2"
GREEN = "#009e73"
RED = "#d55e00"

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
        yield Figure(figsize=(width, height), layout="constrained")
