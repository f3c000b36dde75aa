"""Named variants of methods: the paper's ablations, and its sweeps over hand-set ranges."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["VARIANTS", "Variant"]


@dataclass(frozen=True)
class Variant:
    """Settings with a name; several, for a sweep.

    Arguments:
        sentence: What it is.
        members: By label, settings over those that all contenders share.
    """

    sentence: str
    members: Mapping[str, Mapping[str, Any]]


def _crops() -> dict[str, dict[str, Any]]:
    smallest = [tenths / 10 for tenths in range(3, 10)]
    return {
        f"random-crops-{s}": {"method": {"name": "random", "sizes": [s, 1.0]}} for s in smallest
    }


def _colors() -> dict[str, dict[str, Any]]:
    """One parameter at a time; hue is a share of the circle, so that 0.5 is all of it."""
    whole = {"hue": 0.5, "saturation": 1.0, "value": 1.0}
    nothing = dict.fromkeys(whole, 0.0)
    return {
        f"random-{name}-{round(share * most, 1)}": {
            "method": {"name": "random", "strength": {**nothing, name: share}},
            "transforms": "hsv_jitter",
        }
        for name, most in whole.items()
        for share in (0.2, 0.4, 0.6, 0.8, 1.0)
    }


def _one(
    name: str, sentence: str, settings: Mapping[str, Any], *, method: str = "instaaug"
) -> dict[str, Variant]:
    return {name: Variant(sentence, {name: {"method": method, **settings}})}


VARIANTS: Mapping[str, Variant] = {
    **_one(
        "instaaug-uniform",
        "InstaAug without LRP: place and size of a crop as independent intervals.",
        {"transforms": "uniform_crop"},
    ),
    **_one(
        "instaaug-shared",
        "InstaAug without the input: one learned distribution for all images.",
        {"phi.conditioning": "none"},
    ),
    **_one(
        "instaaug-class",
        "InstaAug with one learned distribution per class.",
        {"phi.conditioning": "class"},
    ),
    **_one(
        "instaaug-fixed",
        "InstaAug with a λ that stays where it is.",
        {"entropy.rule": "fixed"},
    ),
    **_one(
        "instaaug-separate",
        "InstaAug with φ trained in a pass of its own, as in the authors' code.",
        {"phi.step": "separate"},
    ),
    **_one(
        "augerino-color",
        "Augerino with ranges of hue, saturation and value.",
        {"transforms": "hsv_jitter"},
        method="augerino",
    ),
    "random-crops": Variant("Random crops; smallest sides from 0.3 to 0.9: seven runs.", _crops()),
    "random-colors": Variant(
        "Random hue, saturation or value, each from a fifth to all of its range: 15 runs.",
        _colors(),
    ),
}
"""By name; each is a sentence of `instaaug list methods`."""
