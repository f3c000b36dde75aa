"""Finite choices as bars of probability."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from instaaug.report.pictures.dials import PALE
from instaaug.report.theme import BLUE, INK, MUTED
from instaaug.report.units import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_choices"]

MOST_BARS = 5
THICKNESS = 0.34
LEAST_ROOM = 3  # bars of few choices are as thick as those of three


def draw_choices(
    axes: "Axes", names: Sequence[str], probs: Sequence[float], *, learned: bool = True
) -> None:
    """A bar per choice, its name above and its probability at the end.

    Of many choices, the likeliest are shown, and the sum of the others.

    Arguments:
        axes: Where to draw.
        names: What each choice does.
        probs: Of each choice.
        learned: Whether these are probabilities, or shares of what was drawn.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().add_subplot()
        >>> draw_choices(axes, ["as it is", "mirrored"], [0.75, 0.25])
        >>> [text.get_text() for text in axes.texts]
        ['as it is', '75%', 'mirrored', '25%']
    """
    rows = list(zip(names, probs, strict=True))
    if len(rows) > MOST_BARS:
        rows.sort(key=lambda row: -row[1])
        rest = rows[MOST_BARS - 1 :]
        words = f"{len(rest)} others"
        rows = [*rows[: MOST_BARS - 1], (words, sum(p for _, p in rest))]
    above = max(LEAST_ROOM - len(rows), 0) / 2
    color = BLUE if learned else MUTED
    axes.set(xlim=(0, 1), ylim=(len(rows) + above, -above))
    for y, (name, p) in enumerate(rows):
        axes.text(0.02, y + 0.25, name, fontsize=7, color=INK, va="center", parse_math=False)
        axes.text(0.98, y + 0.25, percent(p), fontsize=7, color=INK, va="center", ha="right")
        axes.barh(y + 0.65, 0.96, height=THICKNESS, left=0.02, color=PALE)
        axes.barh(y + 0.65, 0.96 * p, height=THICKNESS, left=0.02, color=color)
