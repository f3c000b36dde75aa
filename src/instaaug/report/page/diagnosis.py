"""Where learning went wrong, in words, and what to try."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp, isfinite, sqrt
from typing import Any

import torch

from instaaug.augmentation.observed import ObservedFactor
from instaaug.augmentation.range_edges import learned_ranges
from instaaug.functional.probability import mutual_information
from instaaug.report.page.content import PageWarning
from instaaug.report.units import humanize, unit_of
from instaaug.spaces import Interval

__all__ = ["diagnose"]

NARROW = 0.01  # of a range: as good as nothing
WIDE = 0.98  # of a range, or of all choices: as good as everything
SLACK = 0.05  # nats by which the entropy may miss its band
LEAST_INFORMATION = 0.01  # of the entropy that there can be: less says nothing about the input
SPREAD = 0.02  # of the learned width: ranges of inputs that differ less are alike
FEW = 30  # test images

TRAIN_ADVICE = (
    "Train longer or with a higher --phi.learning_rate; let φ compare views of the same image "
    "(--n_samples 2 --phi.baseline rloo); give φ more capacity (--phi.width 2)."
)
EDGE_ADVICE = (
    "φ may have moved too fast: lower --phi.learning_rate, hold each side in a band of its own "
    "(--entropy.per side), or lower the upper end of the band (--entropy.diversity). If every "
    "value is harmless, the edge is right."
)
FIT_ADVICE = "Fit with more images, more --phi.steps, or --phi.features model."

History = Sequence[Mapping[str, float]]
Band = tuple[float, float]


def diagnose(
    factors: Sequence[ObservedFactor],
    *,
    history: History = (),
    scores: Mapping[str, Any] | None = None,
    reads_input: bool = True,
    is_fit: bool = False,
) -> list[PageWarning]:
    """All that looks wrong, the most serious first.

    Arguments:
        factors: What was learned for some inputs. A factor without a band is not expected to have
            any entropy.
        history: A row per epoch, as in ``metrics.csv``.
        scores: ``plain`` and ``augmented`` scores on the test images, as in ``results.json``.
        reads_input: Whether φ was meant to tell inputs apart.
        is_fit: Whether this is ``instaaug tta fit``, which has other settings than training.

    Example:
        >>> diagnose([], history=[{"epoch": 0.0, "train/loss": float("nan")}])[0]["title"]
        'The loss was not a number'
    """
    knows_views = not _ends_on_whole_images(history)
    found = [*_losses(history), *_scores(scores or {}, knows_views=knows_views)]
    for factor in factors:
        found += _entropy(factor, history)
        found += _edges(factor)
        if reads_input and knows_views:
            found += _ignored_input_warnings(factor, is_fit=is_fit)
    return sorted(found, key=lambda warning: warning["level"] != "serious")


def _ends_on_whole_images(history: History) -> bool:
    """Whether the model has met views once, and no more in the end, so that they may be worse."""
    met = [
        any(name.startswith("train/entropy/") and row[name] is not None for name in row)
        for row in history
    ]
    return any(met) and not met[-1]


def _entropy(factor: ObservedFactor, history: History) -> Iterator[PageWarning]:
    if factor.entropy is None or factor.band is None or factor.max_entropy is None:
        return
    mean = float(factor.entropy.mean())
    if _is_collapsed(factor, mean):
        yield _collapse(factor, mean, factor.band)
    elif _is_saturated(factor, mean):
        yield _saturation(factor, mean, factor.band)
    values = [row.get(f"train/entropy/{factor.name}") for row in history]
    epochs = [value for value in values if value is not None and isfinite(value)]
    low, high = factor.band
    if epochs and not any(low - SLACK <= value <= high + SLACK for value in epochs):
        yield _band_warning(factor, epochs, factor.band)


def _edges(factor: ObservedFactor) -> Iterator[PageWarning]:
    """A warning on the sides of a learned range that have drifted to an edge."""
    if factor.entropy is None or factor.low is None or factor.high is None:
        return
    if not isinstance(factor.space, Interval) or _is_saturated(
        factor, float(factor.entropy.mean())
    ):
        return  # all sides are at their edges: that is said already
    ranges = learned_ranges(factor.space, factor.low, factor.high, factor.origin)
    sentences = [sentence for r in ranges for sentence in r.edges()]
    if sentences:
        yield {
            "title": f"{humanize(factor.name)}: at the edge of its range",
            "words": " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences),
            "advice": EDGE_ADVICE,
            "level": "hint",
        }


def _collapse(factor: ObservedFactor, mean: float, band: Band) -> PageWarning:
    words = f"The mean entropy is {mean:.2f} nats: {_extent(factor, mean)}."
    title = f"{humanize(factor.name)}: collapsed"
    if mean >= band[0] - SLACK:
        return {
            "title": title,
            "words": f"{words} The band allows that.",
            "advice": "If this transform should be harmless, raise the lower end of its band "
            "(--entropy.diversity or --entropy) or λ at the start (--entropy.weight). If it "
            "is harmful here, this is what was to be found.",
            "level": "hint",
        }
    return {
        "title": title,
        "words": f"{words} The band is {_nats(band)}.",
        "advice": "Raise λ at the start (--entropy.weight), or give it more steps to find its "
        "way: more epochs, or a lower --phi.learning_rate.",
        "level": "serious",
    }


def _saturation(factor: ObservedFactor, mean: float, band: Band) -> PageWarning:
    meant = mean <= band[1] + SLACK
    return {
        "title": f"{humanize(factor.name)}: saturated",
        "words": f"The mean entropy is {mean:.2f} of {factor.max_entropy:.2f} nats: nearly "
        "everything is allowed for every input. "
        + ("The band allows that." if meant else f"The band is {_nats(band)}."),
        "advice": "Lower the upper end of the band (--entropy.diversity or --entropy) or "
        "--entropy.weight; or offer a wider range of transforms: these may all be harmless.",
        "level": "hint" if meant else "serious",
    }


def _band_warning(factor: ObservedFactor, epochs: Sequence[float], band: Band) -> PageWarning:
    above = epochs[-1] > band[1]
    return {
        "title": f"{humanize(factor.name)}: the band was never reached",
        "words": f"In none of {len(epochs)} epochs was the entropy in {_nats(band)}; it ended "
        f"{'above' if above else 'below'} it, at {epochs[-1]:.2f}.",
        "advice": "Train longer, raise --phi.learning_rate, or begin with a "
        f"{'smaller' if above else 'larger'} λ (--entropy.weight). A fixed λ (--entropy.rule "
        "fixed) knows no band.",
        "level": "serious",
    }


def _nats(band: Band) -> str:
    return f"[{band[0]:.2f}, {band[1]:.2f}] nats"


def _is_collapsed(factor: ObservedFactor, entropy: float) -> bool:
    if factor.table is not None:
        return exp(entropy) < 1 + min(0.5, 0.05 * (len(factor.table) - 1))
    return _relative_width(factor, entropy) < NARROW


def _is_saturated(factor: ObservedFactor, entropy: float) -> bool:
    if factor.table is not None:
        return exp(entropy - (factor.max_entropy or 0.0)) > WIDE
    return _relative_width(factor, entropy) > WIDE


def _relative_width(factor: ObservedFactor, entropy: float) -> float:
    """The geometric mean over the learned parameters of a range."""
    assert isinstance(factor.space, Interval)  # noqa: S101  # what has no table
    n_learned = max(1, sum(p.learned for p in factor.space.parameters))
    return exp((entropy - (factor.max_entropy or 0.0)) / n_learned)


def _extent(factor: ObservedFactor, entropy: float) -> str:
    if factor.table is not None:
        return f"as if {exp(entropy):.1f} of {len(factor.table)} choices were left"
    return f"{_relative_width(factor, entropy):.1%} of each range is left"


def _ignored_input_warnings(factor: ObservedFactor, *, is_fit: bool) -> Iterator[PageWarning]:
    """A warning if φ gives all inputs nearly the same distribution."""
    if len(factor.theta[0]) < 2 or factor.max_entropy is None:
        return
    if factor.probs is not None:
        information = float(mutual_information(factor.probs))
        if information >= LEAST_INFORMATION * factor.max_entropy:
            return
        seen = f"the mutual information between input and choice is {information:.3f} nats"
    elif isinstance(factor.space, Interval) and factor.low is not None:
        seen = _describe_equal_ranges(factor, factor.space)
        if not seen:
            return
    else:
        return
    yield {
        "title": f"{humanize(factor.name)}: φ ignores its input",
        "words": f"All inputs get nearly the same distribution: {seen}.",
        "advice": (FIT_ADVICE if is_fit else TRAIN_ADVICE)
        + " If inputs do not differ in what is safe for them, one distribution for all is right.",
        "level": "hint",
    }


def _describe_equal_ranges(factor: ObservedFactor, space: Interval) -> str:
    """How little the ranges of inputs differ; nothing if those of some parameter do."""
    assert factor.low is not None  # noqa: S101  # both ends or none
    assert factor.high is not None  # noqa: S101
    width = (factor.high - factor.low).mean(dim=0)
    ends = torch.stack([factor.low, factor.high])
    spread = ends.std(dim=1, correction=0).mean(dim=0)
    differences = []
    for i, parameter in enumerate(space.parameters):
        if not parameter.learned:
            continue
        if spread[i] >= SPREAD * width[i]:
            return ""
        unit = replace(unit_of(parameter), signed=False)
        differences.append(
            f"the ends of {humanize(parameter.name)} differ by {unit.write(float(spread[i]))}, "
            f"its width is {unit.write(float(width[i]))}"
        )
    return "; ".join(differences)


def _losses(history: History) -> Iterator[PageWarning]:
    losses = [row.get("train/loss", 0.0) for row in history]
    bad = [epoch for epoch, loss in enumerate(losses, start=1) if not isfinite(loss)]
    if bad:
        yield {
            "title": "The loss was not a number",
            "words": f"The training loss of epoch {bad[0]} is not finite.",
            "advice": "Lower --optimizer.learning_rate, or bound the gradient with "
            "--trainer.gradient_clip_val 1.",
            "level": "serious",
        }


def _scores(scores: Mapping[str, Any], *, knows_views: bool) -> Iterator[PageWarning]:
    plain, augmented = scores.get("plain") or {}, scores.get("augmented") or {}
    if "top1" not in plain or not plain.get("n"):
        return
    n, accuracy = plain["n"], plain["top1"]
    if n < FEW:
        yield {
            "title": "Few test images",
            "words": f"There are {n:.0f}: the interval of the accuracy is wide.",
            "advice": "Raise --data.test_fraction, or evaluate other images: instaaug evaluate "
            "RUN DATA.",
            "level": "hint",
        }
    fewer = accuracy - augmented.get("top1", accuracy)
    shares = (accuracy, accuracy - fewer)
    if knows_views and fewer > 2 * sqrt(sum(share * (1 - share) for share in shares) / n):
        yield {
            "title": "Views make predictions worse",
            "words": f"The accuracy is {accuracy:.1%} from the image and "
            f"{augmented['top1']:.1%} from {augmented.get('n_samples', 'several')} views.",
            "advice": "The model has not learned from views like these, or they are too strong: "
            "train longer, or lower the band (--entropy.diversity), or the --method.strength of "
            "random ones.",
            "level": "hint",
        }
