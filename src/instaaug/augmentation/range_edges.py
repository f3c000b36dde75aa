"""What became of the two sides of a learned range: mean ends, and sides that reached an edge."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from instaaug.spaces import Interval, Parameter

__all__ = ["LearnedRange", "learned_ranges"]

FULL = 0.95  # of the room on a side: as good as all of it
VANISHED = 0.1  # of the room: hardly anything, where the other side has a lot
A_LOT = 0.5


@dataclass(frozen=True)
class LearnedRange:
    """The learned range of one parameter, over some inputs.

    Arguments:
        parameter: Which one.
        low: Mean lower end.
        high: Mean upper end.
        low_spread: Standard deviation of the lower end over inputs.
        high_spread: Standard deviation of the upper end.
        shares: Mean share of the room below and above the identity that it covers; None where
            there is no room.
    """

    parameter: Parameter
    low: float
    high: float
    low_spread: float
    high_spread: float
    shares: tuple[float | None, float | None]

    def edges(self) -> list[str]:
        """A sentence on each side that has drifted to an edge; nothing if all is well."""
        below, above = self.shares
        found = []
        for share, other, side, end in (
            (below, above, "below", self.parameter.low),
            (above, below, "above", self.parameter.high),
        ):
            if share is not None and share > FULL:
                found.append(
                    f"{self.parameter.name} has drifted to the edge of its range, {end:.3g}: it "
                    f"covers {share:.0%} of the room {side} {self.parameter.identity:g}."
                )
            elif share is not None and share < VANISHED and other is not None and other > A_LOT:
                found.append(
                    f"{self.parameter.name} has become one-sided: it covers {share:.0%} of the "
                    f"room {side} {self.parameter.identity:g} and {other:.0%} of that on the "
                    "other side."
                )
        return found


def learned_ranges(
    space: Interval,
    low: Float[Tensor, "batch d"],
    high: Float[Tensor, "batch d"],
    origin: Float[Tensor, "batch d"] | None = None,
) -> list[LearnedRange]:
    """The ranges of all learned parameters of a factor.

    Arguments:
        space: What the parameters may be.
        low: Lower ends of every input.
        high: Upper ends.
        origin: What ranges lie around; where nothing happens if absent.

    Example:
        >>> from instaaug.transforms import Brightness
        >>> space = Brightness().spaces["factor"]
        >>> (only,) = learned_ranges(space, torch.tensor([[0.99]]), torch.tensor([[1.9]]))
        >>> only.edges()
        ['factor has become one-sided: it covers 1% of the room below 1 and 93% of that on the
        other side.']
    """
    return [
        _learned_range(parameter, low[:, i], high[:, i], None if origin is None else origin[:, i])
        for i, parameter in enumerate(space.parameters)
        if parameter.learned
    ]


def _learned_range(
    parameter: Parameter,
    low: Float[Tensor, " batch"],
    high: Float[Tensor, " batch"],
    origin: Float[Tensor, " batch"] | None,
) -> LearnedRange:
    def axis(values: Tensor) -> Tensor:
        return values.log() if parameter.multiplicative else values

    middle = parameter.coordinate(parameter.identity) if origin is None else axis(origin)
    widths = float((middle - axis(low)).mean()), float((axis(high) - middle).mean())
    below, above = (
        width / room if room else None for width, room in zip(widths, parameter.rooms, strict=True)
    )
    return LearnedRange(
        parameter,
        float(low.mean()),
        float(high.mean()),
        float(low.std(correction=0)),
        float(high.std(correction=0)),
        (below, above),
    )
