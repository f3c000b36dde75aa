"""Numbers as people write them: θ in degrees, factors, percent and words, durations."""

from dataclasses import dataclass
from math import ceil, isclose, log10, pi

from instaaug.spaces import Choices, Parameter

__all__ = ["Unit", "choice_names", "humanize", "percent", "unit_of"]

RADIANS = ("angle", "turn")  # what an angle is called, circular or not
FEW_DEGREES = 20.0  # a range that is wider is written in whole degrees
MOST_DECIMALS, MOST_DIGITS = 4, 7
MIRRORED = {
    (1.0, 1.0): "as it is",
    (-1.0, 1.0): "mirrored",
    (1.0, -1.0): "upside down",
    (-1.0, -1.0): "both",
}


@dataclass(frozen=True)
class Unit:
    """How a number is written.

    Arguments:
        scale: What the number is multiplied with.
        sign: What stands before or after it: ``"°"``, ``"×"`` or nothing.
        signed: Whether a plus is written before positive numbers.
        step: The difference that still matters, in the unit.
    """

    scale: float = 1.0
    sign: str = ""
    signed: bool = False
    step: float = 0.01

    def write(self, value: float) -> str:
        """The number with its unit.

        Example:
            >>> Unit(sign="×").write(0.5), Unit(360.0, "°", signed=True, step=1.0).write(-0.25)
            ('×0.5', '−90°')
        """
        scaled = value * self.scale
        decimals = max(0, ceil(-log10(self.step)))
        text = f"{scaled:.{decimals}f}"
        if decimals > MOST_DECIMALS or len(text) > MOST_DIGITS:
            text = f"{scaled:.2g}" if abs(scaled) >= self.step else "0"
        elif decimals:
            text = text.rstrip("0").rstrip(".")
        number = "0" if float(text) == 0 else text.replace("-", "−")
        plus = "+" if self.signed and float(text) > 0 else ""
        return f"×{number}" if self.sign == "×" else f"{plus}{number}{self.sign}"


def unit_of(parameter: Parameter) -> Unit:
    """The unit in which a parameter is shown.

    Angles and hues are written in degrees, and so is what is called a turn; factors, whose
    identity is 1, with "×"; all else as it is. Differences below a hundredth of the admissible
    range are not written.

    Example:
        >>> unit_of(Parameter("hue", -0.5, 0.5, period=1.0)).write(0.5)
        '+180°'
    """
    signed = parameter.identity == 0 and parameter.low < 0
    scale, sign = 1.0, ""
    if parameter.period is not None:
        scale, sign = 360 / parameter.period, "°"
    elif parameter.name in RADIANS:
        scale, sign = 180 / pi, "°"
    elif isclose(parameter.identity, 1.0):
        sign = "×"
    width = scale * (parameter.high - parameter.low)
    step = 1.0 if sign == "°" and width > FEW_DEGREES else max(width / 100, 1e-300)
    return Unit(scale, sign, signed, step)


def choice_names(choices: Choices) -> list[str]:
    """What each choice does, in words; flips are recognized by their signs.

    Example:
        >>> choice_names(Choices(((1.0, 1.0), (-1.0, 1.0))))
        ['as it is', 'mirrored']
    """
    if all(row in MIRRORED for row in choices.rows):
        return [MIRRORED[row[0], row[1]] for row in choices.rows]
    others = [f"choice {i + 1}" for i in range(1, len(choices.rows))]
    return ["as it is", *others]


def percent(p: float) -> str:
    """A probability, with as many digits as are significant.

    Example:
        >>> percent(0.0004), percent(0.052), percent(0.25)
        ('<0.1%', '5.2%', '25%')
    """
    if p < 0.001:
        return "<0.1%"
    return f"{100 * p:.1f}%" if p < 0.0995 else f"{100 * p:.0f}%"


def humanize(name: str) -> str:
    """A name from code as words.

    Example:
        >>> humanize("local_blur.box")
        'local blur box'
    """
    return name.replace("_", " ").replace(".", " ")
