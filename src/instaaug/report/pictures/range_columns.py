"""Columns on scalars and choices: dials, segments, bars."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from instaaug.augmentation.observed import ObservedFactor
from instaaug.report.pictures.choice_bars import draw_choices
from instaaug.report.pictures.columns import Column
from instaaug.report.pictures.dials import Span, draw_dial
from instaaug.report.pictures.segments import Segment, draw_segments
from instaaug.report.units import choice_names, spoken
from instaaug.spaces import Choices, Interval, Parameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Scalar", "choice_column", "dial_column", "scalars", "segment_columns"]

MOST_DOTS = 24
MOST_SEGMENTS = 4  # in one panel
LEAST_ROOM = 3  # the panel is divided into as many parts at least
SEGMENTS, BARS = 1.65, 1.2  # widths, in heights of a panel


@dataclass(frozen=True)
class Scalar:
    """One scalar of θ, for all inputs.

    Arguments:
        label: What to call it.
        parameter: Where it may lie.
        low: Lower end of the range of each input; None where there is no range.
        high: Upper end.
        drawn: What was drawn, a column per input.
    """

    label: str
    parameter: Parameter
    low: Float[Tensor, " batch"] | None
    high: Float[Tensor, " batch"] | None
    drawn: Float[Tensor, "n batch"]

    def span(self, i: int) -> Span | None:
        """The range of an input."""
        if self.low is None or self.high is None:
            return None
        return float(self.low[i]), float(self.high[i])

    def values(self, i: int) -> list[float]:
        """What was drawn for an input, as much of it as can be told apart."""
        return self.drawn[:MOST_DOTS, i].tolist()

    @property
    def is_circular(self) -> bool:
        """Whether it is drawn as a dial."""
        return self.parameter.period is not None


def scalars(factor: ObservedFactor, *, alone: bool = True) -> list[Scalar]:
    """The scalars of a factor on intervals; what is never learned, a seed, is left out.

    Arguments:
        factor: The factor; one of another kind has no scalars.
        alone: Whether the factor's name stands nearby, so that labels need not say it.
    """
    if not isinstance(factor.space, Interval):
        return []
    learned = [(d, p) for d, p in enumerate(factor.space.parameters) if p.learned]
    found = []
    for d, parameter in learned:
        label = parameter.name if alone else factor.name
        if not alone and len(learned) > 1:
            label = f"{factor.name} {parameter.name}"
        low, high = (None if ends is None else ends[:, d] for ends in (factor.low, factor.high))
        found.append(Scalar(spoken(label), parameter, low, high, factor.theta[..., d]))
    return found


def dial_column(scalar: Scalar) -> Column:
    """A circular scalar."""

    def draw(axes: "Axes", i: int) -> None:
        draw_dial(axes, scalar.parameter, scalar.span(i), scalar.values(i))

    return Column(scalar.label, 1.0, draw)


def segment_columns(found: Sequence[Scalar]) -> Iterator[Column]:
    """Scalars with ends, as many to a panel as fit."""
    if not found:
        return
    n_columns = -(-len(found) // MOST_SEGMENTS)
    n_each = -(-len(found) // n_columns)
    for start in range(0, len(found), n_each):
        part = found[start : start + n_each]
        yield Column("", SEGMENTS, partial(_draw_segments, part, max(n_each, LEAST_ROOM)))


def _draw_segments(found: Sequence[Scalar], room_for: int, axes: "Axes", i: int) -> None:
    segments = [Segment(s.label, s.parameter, s.span(i), s.values(i)) for s in found]
    draw_segments(axes, segments, room_for=room_for)


def choice_column(factor: ObservedFactor, choices: Choices) -> Column:
    """The probabilities of choices, or how often each was drawn."""
    names = choice_names(choices)
    probs = factor.probs
    if probs is None:
        rows = factor.theta.new_tensor(choices.rows)
        probs = (factor.theta[..., None, :] == rows).all(dim=-1).float().mean(dim=0)

    def draw(axes: "Axes", i: int) -> None:
        draw_choices(axes, names, probs[i].tolist(), learned=factor.probs is not None)

    return Column("drawn" if factor.probs is None else "probability", BARS, draw)
