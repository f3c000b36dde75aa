"""What θ may be: the admissible set of each part of a transform's parameters.

A transform names its spaces; a parameterization turns each into a family of distributions. Neither
needs to know the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, log

from instaaug.errors import ArgumentError

__all__ = ["Boxes", "Choices", "Interval", "Level", "Parameter", "Space"]

Level = tuple[float, int]
"""A level of boxes: of one ``size`` (fraction of the image side) at ``n`` × ``n`` places."""


@dataclass(frozen=True)
class Parameter:
    """One scalar of θ: its admissible range, and the value that changes nothing.

    Arguments:
        name: What the scalar is called.
        low: Smallest admissible value.
        high: Largest admissible value.
        identity: The value at which the transform does nothing; inside ``[low, high]``.
        period: The circumference, where values that far apart mean the same (angles, hue).
        learned: Whether φ learns the range. A seed, for instance, is drawn from all of ``[low,
            high]``.
        multiplicative: Whether it is a factor, whose axis is the logarithm: ranges are learned,
            measured and drawn from there, so that a half is as far from 1 as 2 is.

    Example:
        >>> Parameter("angle", -3.0, 3.0).width
        6.0
        >>> factor = Parameter("factor", 0.25, 4.0, identity=1.0, multiplicative=True)
        >>> factor.ends_at(0.5, 0.5)  # half of the way to either end
        (0.5, 2.0)
    """

    name: str
    low: float
    high: float
    identity: float = 0.0
    period: float | None = None
    learned: bool = True
    multiplicative: bool = False

    def __post_init__(self) -> None:
        if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
            raise ArgumentError(
                f"`low` must be below `high` and both finite: got {self.low} and {self.high} for "
                f"{self.name!r}. Leave a parameter out by giving it no range at all."
            )
        if not self.low <= self.identity <= self.high:
            raise ArgumentError(
                f"`identity` must lie in [{self.low}, {self.high}]: got {self.identity} for "
                f"{self.name!r}. Widen the range so that doing nothing stays possible."
            )
        if self.multiplicative and self.low <= 0:
            raise ArgumentError(
                f"`low` must be above 0 for a factor: got {self.low} for {self.name!r}. Its axis "
                "is the logarithm."
            )
        if self.period is not None and self.width > self.period * (1 + 1e-9):
            raise ArgumentError(
                f"The range of {self.name!r} may cover its circle once: got a width of "
                f"{self.width:.4g} for a period of {self.period:.4g}. Narrow `low` and `high`."
            )

    @property
    def width(self) -> float:
        """Length of the admissible range on its axis."""
        return self.coordinate(self.high) - self.coordinate(self.low)

    @property
    def rooms(self) -> tuple[float, float]:
        """Length of the admissible range below and above the identity, on its axis."""
        low, identity, high = map(self.coordinate, (self.low, self.identity, self.high))
        return identity - low, high - identity

    def coordinate(self, value: float) -> float:
        """Where a value lies on the axis: its logarithm if it is a factor."""
        return log(value) if self.multiplicative else value

    def ends_at(self, below: float, above: float) -> tuple[float, float]:
        """The range that covers these shares of the rooms below and above the identity."""
        identity, (room_below, room_above) = self.coordinate(self.identity), self.rooms
        ends = identity - below * room_below, identity + above * room_above
        low, high = map(exp, ends) if self.multiplicative else ends
        return low, high


@dataclass(frozen=True)
class Interval:
    """Scalars, each with a range of its own: what a uniform distribution is learned on."""

    parameters: tuple[Parameter, ...]
    default_relative_widths: tuple[float, float] = (0.25, 0.75)

    @property
    def size(self) -> int:
        """Number of columns of θ."""
        return len(self.parameters)

    @property
    def max_entropy(self) -> float:
        """Entropy in nats of the uniform distribution on the whole space."""
        return sum(log(p.width) for p in self.parameters)

    @property
    def default_diversity(self) -> tuple[float, float]:
        """A band that lets each learned parameter cover a middling share of its range."""
        n_learned = sum(p.learned for p in self.parameters)
        low, high = self.default_relative_widths
        return low**n_learned, high**n_learned


@dataclass(frozen=True)
class Boxes:
    """A finite set of boxes in levels: the space of crops and local transforms.

    Arguments:
        levels: Pairs (size, n): ``n`` × ``n`` boxes of that fraction of the image side.
        jitter: Whether a box moves uniformly within its cell.
        max_outside: Share of a box, per axis, that may lie outside of the image.
        changes_inside: Whether the image changes inside of the box and stays outside, so that a
            small box changes little. A crop keeps what is inside: its large boxes change little.
        whole_height: Whether every box is as high as the image, and a level has its size as width
            and ``n`` places in a row.
    """

    levels: tuple[Level, ...]
    jitter: bool = False
    max_outside: float = 1.0
    default_diversity: tuple[float, float] = (0.06, 0.10)
    size: int = 4
    changes_inside: bool = False
    whole_height: bool = False

    def __post_init__(self) -> None:
        check_levels(self.levels)
        if not 0.0 <= self.max_outside <= 1.0:
            raise ArgumentError(
                f"`max_outside` must be a share in [0, 1]: got {self.max_outside}. "
                "0 keeps every box inside of the image."
            )


@dataclass(frozen=True)
class Choices:
    """A finite table of θ, one row per choice, the first of which does nothing."""

    rows: tuple[tuple[float, ...], ...]
    default_diversity: tuple[float, float] = (0.6, 0.99)

    @property
    def size(self) -> int:
        """Number of columns of θ."""
        return len(self.rows[0])


Space = Interval | Boxes | Choices


def check_levels(levels: Sequence[Level]) -> None:
    """Raise unless there is a box, and every level has a size in (0, 1] and n of at least 1."""
    if not levels:
        raise ArgumentError("`levels` must hold at least one box: got none. Try ((1.0, 1),).")
    for size, n in levels:
        whole: object = n
        if not 0.0 < size <= 1.0 or not isinstance(whole, int) or whole < 1:
            raise ArgumentError(
                f"`levels` must be pairs of a size in (0, 1] and a whole number n ≥ 1: "
                f"got ({size}, {n}). (0.5, 4) means 4 × 4 boxes of half the image side."
            )
