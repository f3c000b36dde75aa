"""Whether learned crops overlap the object more than chance does, in numbers and in words."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from jaxtyping import Float
from torch import Tensor

from instaaug.errors import ArgumentError, ShapeError
from instaaug.report.pictures.boxes import box_sides
from instaaug.report.tables import format_p_value
from instaaug.stats import PairedTTest, RankCorrelation, paired_t_test, spearman
from paper.objects.overlap import (
    MEASURES,
    Overlaps,
    average_places,
    best_places,
    box_sizes,
    overlaps,
    overlaps_anywhere,
    size_probs,
    uniform_places,
)

__all__ = [
    "COMPARED",
    "PLACES",
    "Findings",
    "describe_correlation",
    "describe_findings",
    "describe_gain",
    "find_objects",
    "write_number",
]

PLACES: Mapping[str, str] = {
    "learned": "learned for the image",
    "average": "as for the average image",
    "grid": "any of the grid",
    "anywhere": "anywhere in the image",
    "best": "the best of the grid",
}
"""Where crops may lie, their sizes being the same, in words."""

COMPARED = ("average", "grid", "anywhere")
"""Places that learned ones are tested against; the best are better by definition."""

FEWEST = 3
INTERVALS = (
    "95 %: Student's for paired differences over images, with the p-value of the paired t-test; "
    "the percentiles of the bootstrap (2000 resamples of images) for Spearman's correlation."
)
ROUNDING = 1e-3  # by which probabilities may miss the sum of 1

LEVEL = 0.05  # of a test
DECIMALS = 4


@dataclass(frozen=True)
class Findings:
    """Objects, and the crops of their images.

    Arguments:
        object_side: √ of the share of the image that the object takes, per image.
        crop_side: Expected side of the crop, as a share of that of the image.
        expected: Expected overlaps of every image, by where crops lie: see ``PLACES``.
    """

    object_side: Float[Tensor, " n"]
    crop_side: Float[Tensor, " n"]
    expected: Mapping[str, Overlaps]

    @property
    def n_images(self) -> int:
        """How many images these are."""
        return len(self.object_side)

    def mean(self, measure: str, place: str) -> float:
        """A measure of crops at these places, over all images."""
        return float(self._values(measure, place).mean())

    def gain(self, measure: str, place: str) -> PairedTTest:
        """How much larger the measure is at learned places: a paired t-test over images."""
        learned, other = (self._values(measure, p).tolist() for p in ("learned", place))
        return paired_t_test(learned, other)

    @cached_property
    def size_correlation(self) -> RankCorrelation:
        """Whether larger objects get larger crops."""
        return spearman(self.object_side, self.crop_side)

    def to_json(self) -> dict[str, Any]:
        """All numbers over images."""
        return {
            "n_images": self.n_images,
            "overlap": {
                m: {p: self.mean(m, p) for p in PLACES}
                | {"gain_over": {p: _test_to_json(self.gain(m, p)) for p in COMPARED}}
                for m in MEASURES
            },
            "size": {
                "mean_object_side": float(self.object_side.mean()),
                "mean_crop_side": float(self.crop_side.mean()),
                "std_crop_side": float(self.crop_side.std()),
                "spearman": asdict(self.size_correlation),
            },
            "intervals": INTERVALS,
        }

    def _values(self, measure: str, place: str) -> Tensor:
        return dict(self.expected[place].items())[measure]


def find_objects(
    probs: Float[Tensor, "n k"], boxes: Float[Tensor, "n_boxes 4"], objects: Float[Tensor, "m 4"]
) -> Findings:
    """Compare the crops of every image with crops of the same sizes at other places.

    All expectations are exact: nothing is drawn.

    Arguments:
        probs: Probability of each box, a row per image.
        boxes: Center x, center y, width and height, in the frame in which the whole image is
            (0, 0, 2, 2).
        objects: The box around the object of each image, in the same frame.

    Example:
        >>> halves = torch.tensor([[-0.5, 0.0, 1.0, 2.0], [0.5, 0.0, 1.0, 2.0]])
        >>> probs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
        >>> found = find_objects(probs, halves, halves.repeat(2, 1))
        >>> found.mean("iou", "learned"), found.mean("iou", "average")
        (1.0, 0.5)
    """
    _check(probs, boxes, objects)
    probs, boxes, objects = (v.detach().cpu().double() for v in (probs, boxes, objects))
    probs = probs / probs.sum(dim=1, keepdim=True)  # φ computes in single precision
    sizes, members = box_sizes(boxes)
    pairs = overlaps(objects, boxes)
    return Findings(
        object_side=box_sides(objects),
        crop_side=probs @ box_sides(boxes),
        expected={
            "learned": pairs.mean_over(probs),
            "average": pairs.mean_over(average_places(probs, members)),
            "grid": pairs.mean_over(uniform_places(probs, members)),
            "anywhere": overlaps_anywhere(objects, sizes).mean_over(size_probs(probs, members)),
            "best": pairs.mean_over(best_places(probs, members, pairs.iou)),
        },
    )


def _test_to_json(test: PairedTTest) -> dict[str, Any]:
    return {"mean": test.mean, "interval": test.interval, "p_value": test.p_value}


def _check(probs: Tensor, boxes: Tensor, objects: Tensor) -> None:
    if probs.shape != (len(objects), len(boxes)) or len(objects) < FEWEST:
        raise ShapeError(
            f"`probs` must have a row per object, {FEWEST} or more, and a column per box: got "
            f"{tuple(probs.shape)} for {len(objects)} objects and {len(boxes)} boxes."
        )
    off = float((probs.sum(dim=1) - 1).abs().max())
    if not off <= ROUNDING or bool((probs < 0).any()):
        raise ArgumentError(
            "`probs` must be probabilities, none negative, with a sum of 1 per image: got a sum "
            f"off by {off:.3g}. Give log-probabilities as log_probs.exp()."
        )
    if not bool((objects[:, 2:] > 0).all()):
        row = int((objects[:, 2:] <= 0).any(dim=1).nonzero()[0])
        raise ArgumentError(
            f"`objects` must have positive sides: row {row} has {objects[row, 2:].tolist()}."
        )


def write_number(value: float, *, decimals: int = DECIMALS, signed: bool = False) -> str:
    """A write_number with a real minus, and a plus if its sign matters.

    Example:
        >>> (
        ...     write_number(-0.25),
        ...     write_number(0.5, decimals=1, signed=True),
        ...     write_number(-0.00001, signed=True),
        ... )
        ('−0.2500', '+0.5', '0.0000')
    """
    text = f"{value:+.{decimals}f}" if signed else f"{value:.{decimals}f}"
    return (text.lstrip("+-") if float(text) == 0 else text).replace("-", "−")


def describe_gain(gain: PairedTTest) -> str:
    """A difference with its p-value: what stands beside a row of a chart."""
    return f"{write_number(gain.mean, signed=True)}, {_write_p(gain.p_value)}"


def describe_correlation(found: RankCorrelation) -> str:
    """Spearman's ρ with its interval."""
    if found.value is None or found.interval is None:
        return "all crops have the same expected size"
    value, low, high = (write_number(v, decimals=3) for v in (found.value, *found.interval))
    return f"Spearman’s ρ = {value} ({low} to {high})"


def describe_findings(found: Findings) -> str:
    """Whether learned crops overlap objects more than chance, and follow their size."""
    mean = {place: write_number(found.mean("iou", place)) for place in found.expected}
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
        f"{write_number(found.mean('iou', 'average'))}: looking at the image"
    )
    low, high = (write_number(end, signed=True) for end in gain.interval)
    mean, p = write_number(gain.mean, signed=True), _write_p(gain.p_value)
    known = f"{mean} (95 % interval {low} to {high}, {p})"
    if gain.p_value >= LEVEL:
        return f"{words} makes no difference beyond chance, {known}."
    room = found.mean("iou", "best") - found.mean("iou", "average")
    if gain.mean < 0:
        return f"{words} is worse than that, {known}."
    return f"{words} gains {known}, {_share(gain.mean, room)} of what the best places would."


def _size_words(found: Findings) -> str:
    side = write_number(float(found.crop_side.mean()), decimals=3)
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
        f"{words}: {describe_correlation(correlation)}. The expected side of a crop is {side} of "
        f"the image’s, with a standard deviation of {float(found.crop_side.std()):.2g} between "
        "images."
    )


def _write_p(value: float) -> str:
    words = format_p_value(value)
    return f"p {words[0]} {words[1:]}" if words.startswith("<") else f"p = {words}"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}".replace("%", " %") if whole > 0 else "all"
