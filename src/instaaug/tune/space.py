"""What tuning may change, and how far: the entropy band of each factor, φ's learning rate."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, inf, log, sqrt

from instaaug.augmentation import InstaAug
from instaaug.runs.settings import TrainSettings
from instaaug.spaces import Boxes, Space

__all__ = ["Bounds", "SearchSpace"]

Bounds = tuple[float, float]

RATE = "phi.learning_rate"
RATES: Bounds = (1e-5, 1e-2)
# The paper: any part of [2, 4] nats works, of at most log 321 for its 321 crops.
ADVICE: Bounds = (exp(2 - log(321)), exp(4 - log(321)))
FEW_SHARES = (0.1, 0.7)  # of the largest entropy, where there are few choices
NARROWEST = 0.1  # nats


@dataclass(frozen=True)
class SearchSpace:
    """Bounds of all that is searched, each on a log scale, and the point to start from.

    A band is searched by its ``center``, the geometric mean of its ends as diversity, and by its
    ``width`` in nats, the logarithm of their ratio; both ends are held within the bounds of the
    center. Diversity means the same on another grid or range of angles.

    Arguments:
        bounds: Of every number that is searched, by name.
        start: The settings as they are, as such numbers.
        own_bands: The bands of the settings as they are.
    """

    bounds: dict[str, Bounds]
    start: dict[str, float]
    own_bands: dict[str, Bounds]

    @classmethod
    def around(cls, config: TrainSettings, augmenter: InstaAug) -> "SearchSpace":
        """The space for an augmenter that was built from the settings; it contains these.

        Arguments:
            config: The settings to begin with.
            augmenter: Knows the bands that they stand for.
        """
        bounds, start, own_bands = {}, {}, {}
        for name, family in zip(augmenter.phi.names, augmenter.phi.families, strict=True):
            largest = float(family.max_entropy)  # type: ignore[arg-type]
            is_finite = name in augmenter.finite
            if is_finite and not largest:
                continue  # a single choice: there is no band
            low, high = (exp(end - largest) for end in augmenter.limits[name])
            usual = _usual_bounds(augmenter.transform.spaces[name], largest if is_finite else inf)
            lowest, highest = min(low, usual[0]), max(high, usual[1])
            bounds[f"{name}/center"] = lowest, highest
            bounds[f"{name}/width"] = NARROWEST, max(log(highest / lowest), 2 * NARROWEST)
            start[f"{name}/center"] = sqrt(low * high)
            start[f"{name}/width"] = log(high / low)
            own_bands[name] = low, high
        rate = config.phi.learning_rate
        bounds[RATE], start[RATE] = (min(RATES[0], rate), max(RATES[1], rate)), rate
        held = {name: min(max(start[name], low), high) for name, (low, high) in bounds.items()}
        return cls(bounds, held, own_bands)

    def bands(self, point: Mapping[str, float]) -> dict[str, Bounds]:
        """The band of each factor as diversity, in a few digits."""
        bands = {}
        for name in self.own_bands:
            lowest, highest = self.bounds[f"{name}/center"]
            center, half = point[f"{name}/center"], exp(point[f"{name}/width"] / 2)
            low, high = max(center / half, lowest), min(center * half, highest)
            bands[name] = _rounded(low), min(_rounded(high), 1.0)
        return bands

    def settings_at(self, config: TrainSettings, point: Mapping[str, float]) -> TrainSettings:
        """The settings with the numbers of a point in the place of their own.

        Arguments:
            config: All other settings.
            point: A value for every name of ``bounds``.
        """
        bands = self.bands(point)
        only = next(iter(bands.values())) if len(bands) == 1 else bands or None
        changes = {"entropy.diversity": only, "phi.learning_rate": _rounded(point[RATE])}
        return config.override({"entropy.band": None} | changes)


def _usual_bounds(space: Space, largest: float) -> Bounds:
    """Where a band may lie: the paper's advice for boxes, else generously around the default."""
    low, high = space.default_diversity
    low, high = ADVICE if isinstance(space, Boxes) else (low**2, sqrt(high))
    if exp(-largest) < low:
        return low, high
    return exp((FEW_SHARES[0] - 1) * largest), max(high, exp((FEW_SHARES[1] - 1) * largest))


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
