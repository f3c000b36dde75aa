"""What views are worth on images that nothing was learned from: choices by likelihood, words."""

from collections.abc import Mapping
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from instaaug.stats import Interval, bootstrap_interval

__all__ = [
    "DEPENDENCES",
    "Gain",
    "accuracy_gain",
    "choose_by_loss",
    "describe_dependence",
    "describe_gains",
    "describe_verdict",
    "gain_from_dict",
    "gain_to_dict",
    "is_surely_lower",
]

DEPENDENCES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How much views may depend on the input: not at all, or up to as much as was learned."""

Gain = tuple[float, Interval]
"""A difference in accuracy, and its 95 % interval."""

Losses = Float[Tensor, " images"]


def is_surely_lower(losses: Losses, reference: Losses) -> bool:
    """Whether paired losses are lower on average by more than a standard error.

    Example:
        >>> ones = torch.ones(4)
        >>> is_surely_lower(ones - 0.1, ones), is_surely_lower(torch.tensor([0.0, 2, 1, 1]), ones)
        (True, False)
    """
    gained = reference - losses
    return float(gained.mean()) > float(gained.std()) / len(gained) ** 0.5


def choose_by_loss(losses: Mapping[float, Losses]) -> float:
    """The number with the lowest mean loss, if that is surely lower than the loss at 0; else 0.

    Example:
        >>> choose_by_loss({0.0: torch.ones(4), 0.5: torch.ones(4) / 2, 1.0: torch.ones(4) / 3})
        1.0
    """
    best = min(losses, key=lambda number: float(losses[number].mean()))
    return best if best and is_surely_lower(losses[best], losses[0.0]) else 0.0


def accuracy_gain(right: Bool[Tensor, " images"], reference: Bool[Tensor, " images"]) -> Gain:
    """Difference in accuracy with its 95 % interval, from pairs."""
    pairs = (right.double() - reference.double()).numpy()
    return float(pairs.mean()), bootstrap_interval(lambda rows: rows.mean(axis=1), pairs)


def describe_dependence(
    dependence: float, worth: Mapping[int, Gain], nats: float | None = None
) -> str:
    """A sentence on what depending on the input was worth.

    Arguments:
        dependence: What was chosen.
        worth: By the number of views, against the same views for all.
        nats: What it added to the log-likelihood, if that is to be said.

    Example:
        >>> describe_dependence(0.5, {10: (0.012, (0.002, 0.021))})
        'Depending on the image, 10 views are worth +1.2 points (95 % interval +0.2 to +2.1)
        against the same views for all.'
    """
    if not dependence:
        return "Views that depend on the image were not better than the same views for all."
    n, (difference, (low, high)) = max(worth.items(), key=lambda item: item[1][0])
    likelihood = "" if nats is None else f" and {nats:+.3f} nats of likelihood"
    return (
        f"Depending on the image, {n} views are worth {100 * difference:+.1f} points "
        f"({_interval(low, high)}){likelihood} against the same views for all."
    )


def describe_verdict(chosen: int | str, gain: Gain, *, seen_on: str) -> str:
    """A sentence on whether to use views, and how many.

    Arguments:
        chosen: A number of views, of which 1 is the image alone, or another choice in words.
        gain: What these add to the accuracy of the image alone.
        seen_on: How that was found out.
    """
    if chosen == 1:
        return (
            f"Do not use views here: {seen_on}, none of the numbers tried is better than the "
            "image alone."
        )
    difference, (low, high) = gain
    use = chosen if isinstance(chosen, str) else f"{chosen} views"
    return (
        f"Use {use}: {100 * difference:+.1f} points of accuracy against the image alone "
        f"({_interval(low, high)}), {seen_on}."
    )


def describe_gains(gains: Mapping[str, Gain], *, what: str, n_images: int) -> str:
    """A sentence on what was learned against all that is free.

    Arguments:
        gains: By name of what is free, the accuracy that was added to it.
        what: What was learned.
        n_images: How many it was judged on.

    Example:
        >>> describe_gains({"none": (0.1, (0.05, 0.15))}, what="10 views", n_images=400)
        'On 400 images that were left out, 10 views have +10.0 points of accuracy (95 % interval
        +5.0 to +15.0) against none.'
    """
    parts = [
        f"{100 * difference:+.1f} points{' of accuracy' * (i == 0)} ({_interval(low, high)}) "
        f"against {name}"
        for i, (name, (difference, (low, high))) in enumerate(gains.items())
    ]
    return f"On {n_images:,} images that were left out, {what} have {' and '.join(parts)}."


def gain_to_dict(gain: Gain) -> dict[str, Any]:
    """Ready for JSON."""
    difference, (low, high) = gain
    return {"difference": difference, "low": low, "high": high}


def gain_from_dict(known: Mapping[str, Any]) -> Gain:
    """Read back what :func:`gain_to_dict` gave."""
    return known["difference"], (known["low"], known["high"])


def _interval(low: float, high: float) -> str:
    return f"95 % interval {100 * low:+.1f} to {100 * high:+.1f}"
