"""What a search may change in the settings of a method, and where it begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log, sqrt
from typing import Any

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.errors import ArgumentError
from instaaug.methods import RandomAugmentation, RandomResizedCrop
from instaaug.parameterizations import CropGrid, base_measure
from instaaug.runs.build import (
    another_light,
    are_loose,
    may_be_mirrored,
    phi_rate,
    settle_phi,
)
from instaaug.runs.settings import TrainSettings
from instaaug.spaces import Boxes, Interval, Level, Space
from instaaug.transforms import Composition

__all__ = ["Bounds", "SearchSpace", "changed_settings", "describe_choice", "describe_settings"]

Bounds = tuple[float, float]
Ranges = dict[str, Bounds]

LEARNER, UNDONE, LIT, MIRRORED, WHOLE = "learner", "undone", "lit", "mirrored", "whole"
SWITCHES = (LIT, MIRRORED, WHOLE)
RANDOM = ("random", MIRRORED)  # learners that learn nothing
UNDO = 0.5  # share of each range, where it is a candidate
WHOLE_SHARE = 0.3  # of the epochs, the last ones
RATE = "phi.learning_rate"
SMALLEST, STRENGTH, AREA = "smallest", "strength", "area"
RATE_BOUNDS: Bounds = (1e-5, 1e-2)
SIDE_BOUNDS: Bounds = (0.25, 0.9)
AREA_BOUNDS: Bounds = (0.08, 0.9)
STRENGTH_BOUNDS: Bounds = (0.1, 1.0)
# From 2 of log 321 nats, the least that the paper advises, to nearly all boxes: small grids, and
# models that overfit, need more than the 4 nats that the paper ends at.
BOX_BOUNDS: Bounds = (exp(2 - log(321)), 0.8)
FEW_CHOICES_SHARES = (0.1, 0.7)  # of the largest entropy, where there are few choices
REACHABLE_SHARES = (0.1, 0.98)  # of the entropies that a grid can have
MIN_WIDTH = 0.1  # nats


@dataclass(frozen=True)
class SearchSpace:
    """Numbers within bounds, each on a log scale, who chooses the transforms, and the light.

    A band is searched by its ``center``, the geometric mean of its ends as diversity, and by its
    ``width`` in nats, the logarithm of their ratio; both ends are clipped to the bounds of the
    center. Unlike entropy, diversity is comparable between grids and ranges of angles. The
    smallest side of crops is that of random ones, and that of the levels of a grid that are kept.

    Where φ learns, one distribution for all inputs and random transforms are candidates as well:
    where learning is not worth it, the search returns what is. For colors, so is a φ that undoes
    what happened to its inputs. Where nothing else changes them, so are another light
    (``data.vary``) and mirror images (``data.flip``), which help on some images and harm on
    others. A φ that looks for usefulness tries mirror images by itself, and whole images in the
    last epochs; a search of random transforms themselves tries both, too.

    Arguments:
        bounds: Lowest and highest value of every number, by name.
        start: The numbers of the settings to begin with; 0 for ``lit``, ``mirrored`` and ``whole``
            where these are candidates, which stand for 1.
        learners: Who may choose transforms: ``"input"``, ``"none"``, ``"class"``, as
            ``phi.conditioning`` names them, ``"undone"``, per input with ``phi.undo``,
            ``"random"``, or ``"mirrored"``, random with mirror images; those of the settings
            first.
        own_ranges: The bands or ranges of the settings to begin with.
        n_channels: Of images, by which another light is chosen.
    """

    bounds: dict[str, Bounds]
    start: dict[str, float]
    learners: tuple[str, ...] = ()
    own_ranges: Ranges = field(default_factory=dict)
    n_channels: int = 3

    @classmethod
    def from_augmenter(
        cls, config: TrainSettings, augmenter: Augmenter, n_channels: int = 3
    ) -> "SearchSpace":
        """The space around some settings, given the augmenter that was built from them.

        Arguments:
            config: The settings to begin with.
            augmenter: Has the bands and ranges that they stand for.
            n_channels: Of images.

        Raises:
            ArgumentError: If the method has nothing that could be searched.
        """
        if isinstance(augmenter, InstaAug):
            space = _learned_space(config, augmenter)
        elif type(augmenter) is RandomAugmentation:
            space = _random_space(augmenter)
        elif type(augmenter) is RandomResizedCrop:
            own = augmenter.smallest, augmenter.largest
            start, bounds = _within({AREA: own[0]}, {AREA: AREA_BOUNDS})
            space = cls(bounds, start, own_ranges={AREA: own})
        else:
            raise ArgumentError(
                "`method` must be instaaug, random or random_resized_crop, which have something "
                f"to tune: got {config.method.name!r}."
            )
        is_random = not space.learners
        more = {
            LIT: _may_be_lit(config, augmenter),
            MIRRORED: is_random and may_be_mirrored(config),
            WHOLE: is_random and config.task != "contrastive" and not config.finetune_epochs,
        }
        start = {**space.start, **{name: 0.0 for name, is_open in more.items() if is_open}}
        return replace(space, start=start, n_channels=n_channels)

    @staticmethod
    def is_for(method: type[Augmenter]) -> bool:
        """Whether there is something to search in the settings of a method."""
        return method in (InstaAug, RandomAugmentation, RandomResizedCrop)

    @property
    def points(self) -> list[dict[str, float]]:
        """Where the search begins: the settings, other learners, another light, mirror images.

        What is new comes last, so that searches of earlier versions go on where they stopped.
        """
        own = [i for i, name in enumerate(self.learners) if i and name != MIRRORED]
        mirrored = [i for i, name in enumerate(self.learners) if name == MIRRORED]
        switched = {n: [{**self.start, n: 1.0}] if n in self.start else [] for n in SWITCHES}
        first, last = (
            [{**self.start, LEARNER: float(i)} for i in some] for some in (own, mirrored)
        )
        return [self.start, *first, *switched[LIT], *last, *switched[MIRRORED], *switched[WHOLE]]

    @property
    def choices(self) -> dict[str, tuple[int, ...]]:
        """By name, what is chosen from a few, numbered."""
        few = {LEARNER: len(self.learners), **dict.fromkeys(SWITCHES, 2)}
        return {name: tuple(range(n)) for name, n in few.items() if name in self.start}

    def completed(self, point: Mapping[str, Any]) -> dict[str, float]:
        """A point, with 0 for what was no candidate when it was tried."""
        numbers = {name: float(value) for name, value in point.items()}
        return {name: 0.0 for name in SWITCHES if name in self.start} | numbers

    def learner(self, point: Mapping[str, float]) -> str | None:
        """Who chooses transforms at a point; None where nothing is learned anyway."""
        return self.learners[int(point[LEARNER])] if self.learners else None

    def ranges(self, point: Mapping[str, float]) -> Ranges:
        """Bands as diversity, or ranges of random transforms, rounded to four digits."""
        if self.learner(point) in RANDOM:
            return {}
        if AREA in point:
            return {AREA: (_round(point[AREA]), self.own_ranges[AREA][1])}
        if not self.learners:
            return {
                name: (_round(point[name]), 1.0 if name == SMALLEST else _round(point[name]))
                for name in self.bounds
            }
        bands = {}
        for name in self.own_ranges:
            lowest, highest = self.bounds[f"{name}/center"]
            center, half = point[f"{name}/center"], exp(point[f"{name}/width"] / 2)
            low, high = max(center / half, lowest), min(center * half, highest)
            bands[name] = _round(low), min(_round(high), 1.0)
        return bands

    def settings_at(self, config: TrainSettings, point: Mapping[str, float]) -> TrainSettings:
        """The settings with what a point stands for; the numbers at the start change nothing.

        Arguments:
            config: All other settings.
            point: A value for every name of ``bounds``, and the number of a learner.
        """
        config = self._switched(config, point)
        learner = self.learner(point)
        if learner == MIRRORED:
            config = config.override({"data.flip": True})
        if learner in RANDOM:
            method = {"name": "random", **_random_options(point)}
            return config.override({"method": method, "phi.step": "joint"})
        if learner == UNDONE:
            config = config.override({"phi.undo": UNDO})
        elif learner not in (None, config.phi.conditioning):
            config = config.override({"phi.conditioning": learner, "phi.baseline": "auto"})
        if all(point[name] == self.start[name] for name in self.bounds):
            return config
        return self._with_numbers(config, point)

    def _switched(self, config: TrainSettings, point: Mapping[str, float]) -> TrainSettings:
        n_epochs = max(round(WHOLE_SHARE * config.trainer.max_epochs), 1)
        changes: dict[str, dict[str, Any]] = {
            LIT: {"data.vary": another_light(self.n_channels)},
            MIRRORED: {"data.flip": True},
            WHOLE: {"finetune_epochs": n_epochs},
        }
        for own in (changes[name] for name in SWITCHES if point.get(name)):
            config = config.override(own)
        return config

    def _with_numbers(self, config: TrainSettings, point: Mapping[str, float]) -> TrainSettings:
        if AREA in point:
            return config.override({"method.smallest": _round(point[AREA])})
        if not self.learners:
            own = _random_options(point)
            return config.override({f"method.{name}": value for name, value in own.items()})
        changes: dict[str, Any] = {"phi.learning_rate": _round(point[RATE])}
        if SMALLEST in point and config.crop.grid != "receptive":
            changes["crop.grid"] = _kept_levels(config.crop.grid, point[SMALLEST])
        config = config.override(changes)
        bands = {name: _possible(config, name, band) for name, band in self.ranges(point).items()}
        only = next(iter(bands.values())) if len(bands) == 1 else bands or None
        return config.override({"entropy.band": None, "entropy.diversity": only})


def _learned_space(config: TrainSettings, augmenter: InstaAug) -> SearchSpace:
    bounds: dict[str, Bounds] = {}
    start: dict[str, float] = {}
    own: Ranges = {}
    spaces = augmenter.transform.spaces
    for name, family in zip(augmenter.phi.names, augmenter.phi.families, strict=True):
        largest = float(family.max_entropy)  # type: ignore[arg-type]
        is_finite = name in augmenter.finite
        if is_finite and not largest:
            continue  # a single choice: there is no band
        low, high = (exp(end - largest) for end in augmenter.limits[name])
        usual = _usual_bounds(spaces[name], largest if is_finite else inf)
        lowest, highest = min(low, usual[0]), max(high, usual[1])
        bounds[f"{name}/center"] = lowest, highest
        bounds[f"{name}/width"] = MIN_WIDTH, max(log(highest / lowest), 2 * MIN_WIDTH)
        start[f"{name}/center"] = sqrt(low * high)
        start[f"{name}/width"] = log(high / low)
        own[name] = low, high
    rate = phi_rate(config)
    bounds[RATE], start[RATE] = (min(RATE_BOUNDS[0], rate), max(RATE_BOUNDS[1], rate)), rate
    if any(isinstance(space, Boxes) for space in spaces.values()) and len(config.crop.grid) > 1:
        start[SMALLEST], bounds[SMALLEST] = _smallest_side(config), SIDE_BOUNDS
    if any(isinstance(space, Interval) for space in spaces.values()):
        start[STRENGTH], bounds[STRENGTH] = sqrt(STRENGTH_BOUNDS[0]), STRENGTH_BOUNDS
    conditioning = config.phi.conditioning
    others = ["none"] if conditioning == "input" else []
    if others and augmenter.undoing is None and _any_colors(augmenter):
        others.append(UNDONE)
    own_random = RANDOM if may_be_mirrored(config) else RANDOM[:1]
    learners = (conditioning, *others, *own_random)
    start, bounds = _within(start, bounds)
    return SearchSpace(bounds, {**start, LEARNER: 0.0}, learners, own)


def _may_be_lit(config: TrainSettings, augmenter: Augmenter) -> bool:
    """Whether another light is a candidate: for photos with classes, whose colors stay as is."""
    parts = getattr(augmenter, "transform", None)
    known = parts.transforms if isinstance(parts, Composition) else ()
    return (
        config.task == "classification"
        and not config.data.vary
        and not any(part.needs_unit_range for part in known)
    )


def _any_colors(augmenter: InstaAug) -> bool:
    """Whether there are colors to undo, and ranges to lie elsewhere."""
    parts = augmenter.transform.transforms
    is_plain = augmenter.settings.ranges == "uniform"
    return is_plain and sum(t.is_reversible for t in parts) == 1


def _random_space(augmenter: RandomAugmentation) -> SearchSpace:
    """Sides of crops, and one strength of all ranges unless each has its own."""
    start: dict[str, float] = {}
    bounds: dict[str, Bounds] = {}
    spaces = augmenter.transform.spaces
    if any(isinstance(space, Boxes) for space in spaces.values()):
        start[SMALLEST], bounds[SMALLEST] = augmenter.sizes[0], SIDE_BOUNDS
    learned = [
        strength
        for name, space in spaces.items()
        if isinstance(space, Interval)
        for parameter, strength in zip(space.parameters, augmenter.strength[name], strict=True)
        if parameter.learned
    ]
    if learned and len(set(learned)) == 1 and learned[0] > 0:
        start[STRENGTH], bounds[STRENGTH] = learned[0], STRENGTH_BOUNDS
    if not start:
        raise ArgumentError(
            "`transforms` must have crops, or ranges of one strength, to tune random ones: got "
            f"{', '.join(spaces)}."
        )
    start, bounds = _within(start, bounds)
    own = {name: (value, 1.0 if name == SMALLEST else value) for name, value in start.items()}
    return SearchSpace(bounds, start, own_ranges=own)


def _within(
    start: Mapping[str, float], bounds: Mapping[str, Bounds]
) -> tuple[dict[str, float], dict[str, Bounds]]:
    """The start and bounds that hold it: a share is at most 1, all else is moved."""
    wide = {
        name: (min(low, start[name]), max(high, start[name]))
        if name in (SMALLEST, STRENGTH, AREA, RATE)
        else (low, high)
        for name, (low, high) in bounds.items()
    }
    return {name: min(max(start[name], low), high) for name, (low, high) in wide.items()}, wide


def _random_options(point: Mapping[str, float]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if SMALLEST in point:
        options["sizes"] = [_round(point[SMALLEST]), 1.0]
    if STRENGTH in point:
        options["strength"] = _round(point[STRENGTH])
    return options


def _smallest_side(config: TrainSettings) -> float:
    if config.crop.grid == "receptive":
        return sqrt(SIDE_BOUNDS[0] * SIDE_BOUNDS[1])  # of random crops alone
    return min(side for side, _ in config.crop.grid)


def _kept_levels(levels: Sequence[Level], smallest: float) -> list[Level]:
    """The levels of boxes that are large enough, and at least two of all."""
    sides = sorted(side for side, _ in levels)
    return [level for level in levels if level[0] >= min(_round(smallest), sides[-2])]


def _possible(config: TrainSettings, name: str, band: Bounds) -> Bounds:
    """The band, moved to where the boxes that are left, and the estimator, can have it."""
    if not name.startswith("crop") or config.crop.grid == "receptive":
        return band
    grid = CropGrid(config.crop.grid, max_outside=config.crop.max_outside)
    least, most = 0.0, grid.max_entropy
    if settle_phi(config).estimator == "closed_form":  # at most that of its base measure
        base = base_measure(grid, loose=are_loose(config))
        most = float(-(base.exp() * base).sum())
        least = log(len(grid.levels)) if config.phi.sizes == "uniform" else 0.0
    lowest, highest = (
        exp(least + share * (most - least) - grid.max_entropy) for share in REACHABLE_SHARES
    )
    low, high = (_round(min(max(end, lowest), highest)) for end in band)
    return low, high


def _usual_bounds(space: Space, largest: float) -> Bounds:
    """Where a band may lie: nearly anywhere for boxes, else widely around the default."""
    low, high = space.default_diversity
    low, high = BOX_BOUNDS if isinstance(space, Boxes) else (low**2, sqrt(high))
    if exp(-largest) < low:
        return low, high
    return exp((FEW_CHOICES_SHARES[0] - 1) * largest), max(
        high, exp((FEW_CHOICES_SHARES[1] - 1) * largest)
    )


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def changed_settings(before: TrainSettings, after: TrainSettings) -> dict[str, Any]:
    """By full name, the settings that differ, as they are after.

    Example:
        >>> before = TrainSettings()
        >>> changed_settings(before, before.override({"method": "random", "method.strength": 0.5}))
        {'method.name': 'random', 'method.strength': 0.5}
    """
    old, new = before.flatten(), after.flatten()
    return {name: value for name, value in new.items() if name not in old or old[name] != value}


def describe_settings(settings: Mapping[str, Any]) -> str:
    """Settings with their values, as they would be typed.

    Example:
        >>> describe_settings({"method.name": "random", "method.sizes": [0.5, 1.0]})
        'method random, method.sizes [0.5, 1]'
    """
    named = {n.removesuffix(".name"): value for n, value in settings.items() if value is not None}
    return ", ".join(f"{name} {_describe_value(value)}" for name, value in named.items())


def describe_choice(before: TrainSettings, after: TrainSettings) -> str:
    """What a search has chosen, in a sentence; it says so where learning was not worth it."""
    changes = changed_settings(before, after)
    if not changes:
        return "The settings stay as they are."
    sentence = f"Chosen: {describe_settings(changes)}."
    if before.method.name == "instaaug" and after.method.name == "random":
        return f"{sentence} Random transforms did best: what φ learned was not worth it here."
    if before.phi.conditioning == "input" and after.phi.conditioning == "none":
        sentence += " One distribution for all did best: to depend on the input was not worth it."
    return sentence


def _describe_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_describe_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_describe_value, value)) + "]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
