"""What was found of crops and objects, in plain sentences."""

from instaaug.report.compared.digits import p_in_digits
from instaaug.report.objects.findings import Findings
from instaaug.stats import PairedTTest, RankCorrelation

__all__ = ["correlation_words", "gain_words", "in_words", "number"]

LEVEL = 0.05  # of a test
DECIMALS = 4


def number(value: float, *, decimals: int = DECIMALS, signed: bool = False) -> str:
    """A number with a real minus, and a plus if its sign matters.

    Example:
        >>> number(-0.25), number(0.5, decimals=1, signed=True), number(-0.00001, signed=True)
        ('−0.2500', '+0.5', '0.0000')
    """
    text = f"{value:+.{decimals}f}" if signed else f"{value:.{decimals}f}"
    return (text.lstrip("+-") if float(text) == 0 else text).replace("-", "−")


def gain_words(gain: PairedTTest) -> str:
    """A difference with its p-value: what stands beside a row of a chart."""
    return f"{number(gain.mean, signed=True)}, {_p(gain.p_value)}"


def correlation_words(found: RankCorrelation) -> str:
    """Spearman's ρ with its interval."""
    if found.value is None or found.interval is None:
        return "all crops have the same expected size"
    value, low, high = (number(v, decimals=3) for v in (found.value, *found.interval))
    return f"Spearman’s ρ = {value} ({low} to {high})"


def in_words(found: Findings) -> str:
    """Whether learned crops overlap objects more than chance, and follow their size."""
    mean = {place: number(found.mean("iou", place)) for place in found.expected}
    return " ".join(
        [
            f"On {found.n_images:,} test images, the learned crops overlap the object with an "
            f"expected IoU of {mean['learned']}.",
            _average_words(found),
            f"Crops of these sizes have {mean['grid']} at any place of the grid, "
            f"{mean['anywhere']} anywhere in the image, and {mean['best']} at the grid’s best "
            "places.",
            _size_words(found),
        ]
    )


def _average_words(found: Findings) -> str:
    gain = found.gain("iou", "average")
    if gain.mean == 0 and gain.p_value == 1:
        return (
            "Crops of the same sizes at the places of the average image overlap exactly as much: "
            "places do not depend on the image."
        )
    words = (
        "Crops of the same sizes at the places of the average image have "
        f"{number(found.mean('iou', 'average'))}: looking at the image"
    )
    low, high = (number(end, signed=True) for end in gain.interval)
    known = f"{number(gain.mean, signed=True)} (95 % interval {low} to {high}, {_p(gain.p_value)})"
    if gain.p_value >= LEVEL:
        return f"{words} makes no difference beyond chance, {known}."
    room = found.mean("iou", "best") - found.mean("iou", "average")
    if gain.mean < 0:
        return f"{words} is worse than that, {known}."
    return f"{words} gains {known}, {_share(gain.mean, room)} of what the best places would."


def _size_words(found: Findings) -> str:
    side = number(float(found.crop_side.mean()), decimals=3)
    correlation = found.size_correlation
    if correlation.value is None or correlation.interval is None:
        return f"All images get crops of the same expected side, {side} of the image’s."
    low, high = (round(end, 3) for end in correlation.interval)  # as they are written
    if low > 0:
        words = "Larger objects get larger crops"
    elif high < 0:
        words = "Larger objects get smaller crops"
    else:
        words = "The size of the crops does not follow that of the objects"
    return (
        f"{words}: {correlation_words(correlation)}. The expected side of a crop is {side} of the "
        f"image’s, with a standard deviation of {float(found.crop_side.std()):.2g} between images."
    )


def _p(value: float) -> str:
    words = p_in_digits(value)
    return f"p {words[0]} {words[1:]}" if words.startswith("<") else f"p = {words}"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}".replace("%", " %") if whole > 0 else "all"
