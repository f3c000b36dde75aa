"""What the page shows, as plain data: the contract between Python, which fills it, and the page.

Text is text, whatever is in it: nothing here is HTML. Probabilities are whole numbers out of
:data:`WHOLE`, which are short in JSON. Coordinates are those of the normalized frame: the image
spans [-1, 1] in x, to the right, and in y, downwards.
"""

from typing import Literal, NotRequired, TypedDict

__all__ = [
    "WHOLE",
    "ClassEntropy",
    "Curves",
    "Factor",
    "PageContent",
    "PageFigure",
    "PageInput",
    "PageRun",
    "PageWarning",
    "ParameterRange",
    "ResultRow",
    "RunInput",
]

WHOLE = 1_000_000  # what probabilities are parts of

Number = float | int | None
"""None stands where a number is not finite."""


class ParameterRange(TypedDict):
    """One scalar of θ; in the units that people use: degrees for angles, hue and rotation."""

    name: str
    low: float
    high: float
    identity: float
    period: Number  # of a circle, such as 360; None for a segment
    unit: str  # "°", "×", ""
    multiplicative: bool  # shown on a logarithmic axis


class Factor(TypedDict):
    """One part of θ, and what it may be."""

    name: str
    kind: Literal["boxes", "choices", "ranges"]
    max_entropy: float
    band: list[float] | None  # H_min and H_max in nats; None if nothing is learned
    boxes: list[list[float]]  # of "boxes": x, y, width, height; also the first is not the image
    choices: list[str]  # of "choices": what each does, in words
    parameters: list[ParameterRange]  # of "ranges"


class ResultRow(TypedDict):
    """A score; ``low`` and ``high`` bound its 95 % confidence interval."""

    name: str  # "the image", "10 augmented samples", "uniform grid, 10 views"
    value: float
    low: Number
    high: Number
    is_main: bool
    note: str  # such as "p = 0.002 against random"


class PageWarning(TypedDict):
    """Where learning went wrong, in words, and what to try."""

    title: str  # "Crops have collapsed"
    words: str  # what was seen, with numbers
    advice: str  # what to try
    level: Literal["serious", "hint"]


class Curves(TypedDict):
    """A row per epoch; None where there was no value."""

    epoch: list[float]
    loss: dict[str, list[Number]]  # by name: "training", "validation"
    score: dict[str, list[Number]]  # "validation top-1"
    entropy: dict[str, list[Number]]  # by factor
    weight: dict[str, list[Number]]  # λ by factor


class ClassEntropy(TypedDict):
    """Mean entropy of the inputs of a class, by factor."""

    name: str
    n: int
    entropy: list[Number]  # one per factor


class RunInput(TypedDict):
    """What a run makes of one input."""

    entropy: list[Number]  # one per factor
    loss: Number  # of the image as it is
    loss_merged: Number  # of the prediction from all views
    disagreement: Number  # share of views that vote otherwise; in a regression their deviation
    probs: list[list[int]]  # one list per factor; empty for ranges and for methods without any
    ranges: list[list[list[float]]]  # one list per factor: low and high of each parameter
    theta: list[list[list[float]]]  # [view][factor] → θ: a box, a choice [index], or parameters
    strip: str  # data URI: the first views, as the model sees them, side by side
    classes: list[int]  # the classes whose probability is in `merged`, likeliest first
    merged: list[list[float]]  # [n - 1] → their probabilities (of WHOLE) from the first n views
    outlines: NotRequired[list[list[float]]]  # [view] → x, y of the corners of what it shows
    plain: list[float]  # the same from the image as it is; in a regression its outputs


class PageFigure(TypedDict):
    """A picture that was drawn beforehand."""

    title: str
    image: str  # data URI
    words: str


class PageRun(TypedDict):
    """One run: a column of the page."""

    name: str
    headline: str  # "InstaAug, crop: 64.1 % from 20 samples"
    facts: list[list[str]]  # name and value: data, model, method, seed, epochs, ...
    command: str
    score_name: str  # "top-1 accuracy"
    higher_is_better: bool
    is_share: bool  # whether scores are to be shown in percent
    results: list[ResultRow]
    notes: list[str]  # what validation images and diagnostics say, a sentence each
    warnings: list[PageWarning]
    curves: Curves
    factors: list[Factor]
    class_entropy: list[ClassEntropy]
    n_strip: int  # views in each strip
    n_views: int  # views in `theta` and `merged`
    keeps_original: bool  # whether the first view is the image as it is
    same_views: bool  # whether views are the same boxes, in the same order, for all inputs
    inputs: list[RunInput]  # in the order of `PageContent.inputs`
    figures: NotRequired[list[PageFigure]]


class PageInput(TypedDict):
    """An input that all runs have been shown."""

    name: str
    target: int | list[float]  # class, or what is to be predicted
    image: str  # data URI


class PageContent(TypedDict):
    """All that the page shows."""

    title: str
    made: str  # "InstaAug 0.4, 16 November 2026"
    task: Literal["classification", "regression"]
    classes: list[str]
    inputs: list[PageInput]
    aspect: float  # width / height of the images
    n_test: int  # test images of which these inputs are a part
    pictures: NotRequired[str]  # how large they are here, and for the models
    is_tiny: NotRequired[bool]  # whether images are so small that their pixels should be visible
    runs: list[PageRun]
    figures: NotRequired[list[PageFigure]]  # that belong to no run alone
