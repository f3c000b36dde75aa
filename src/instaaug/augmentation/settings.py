"""The settings of an InstaAug: checked once, saved as JSON."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, Literal, get_args

from instaaug.augmentation.entropy_parts import Per
from instaaug.augmentation.plan import PlanShape
from instaaug.augmentation.views import Merge, Select
from instaaug.errors import ArgumentError, InstaAugWarning, UnknownNameError
from instaaug.functional.warp import PaddingMode
from instaaug.objectives import Band, Baseline, Rule
from instaaug.parameterizations import Conditioning, CropGrid
from instaaug.spaces import Boxes, Interval, Space
from instaaug.transforms import (
    TRANSFORMS,
    Composition,
    GeometricTransform,
    Transform,
    from_config,
)

__all__ = ["Estimator", "InstaAugSettings", "Ranges", "Sizes", "as_composition", "auto_baseline"]

Estimator = Literal["auto", "pathwise", "score", "exact", "closed_form"]
Sizes = Literal["learned", "uniform"]
Ranges = Literal["uniform", "latent"]
Bands = Band | Mapping[str, Band] | None

CHOICES: Mapping[str, Any] = {
    "conditioning": Conditioning,
    "estimator": Estimator,
    "baseline": Baseline,
    "sizes": Sizes,
    "ranges": Ranges,
    "per": Per,
    "padding_mode": PaddingMode,
    "select": Select,
    "merge": Merge,
}


@dataclass(frozen=True)
class InstaAugSettings:
    """The choices behind an :class:`~instaaug.InstaAug`, which documents them."""

    transform: Composition
    entropy: Bands = None
    diversity: Bands = None
    per: Per = "side"
    conditioning: Conditioning = "input"
    network: str = "glance"
    width: float = 1.0
    in_channels: int = 3
    num_classes: int | None = None
    grid: CropGrid | None = None
    estimator: Estimator = "auto"
    baseline: Baseline = "batch"
    sizes: Sizes = "learned"
    ranges: Ranges = "uniform"
    rule: Rule = "pi"
    weight: float = 0.1
    factor: float = 1.01
    padding_mode: PaddingMode = "zeros"
    loose: bool = False
    undo: float = 0.0
    keep_original: bool = False
    select: Select = "sample"
    merge: Merge = "logit"
    sharpness: float = 1.0
    calibration: float = 1.0
    plan: PlanShape | None = None

    def __post_init__(self) -> None:
        for name, literal in CHOICES.items():
            if getattr(self, name) not in get_args(literal):
                raise UnknownNameError(name, str(getattr(self, name)), get_args(literal))
        for name in ("loose", "keep_original"):
            if not isinstance(value := getattr(self, name), bool):
                raise ArgumentError(f"`{name}` must be True or False: got {value!r}.")
        if self.in_channels < 1:
            raise ArgumentError(f"`in_channels` must be at least 1: got {self.in_channels}.")
        if not 0 < self.width <= 64:
            raise ArgumentError(
                f"`width` must lie in (0, 64]: got {self.width}. 1 is the network as published."
            )
        for name in ("entropy", "diversity"):
            object.__setattr__(self, name, _plain_band(getattr(self, name)))
        self._check_numbers()
        self._check_normalization()
        self._check_boxes()
        self._check_undo()

    def _check_numbers(self) -> None:
        for name in ("weight", "factor", "undo", "sharpness", "calibration"):
            if not isinstance(value := getattr(self, name), Real):
                raise ArgumentError(f"`{name}` must be a number: got {value!r}.")

    def _check_undo(self) -> None:
        if self.undo and (self.conditioning == "class" or self.ranges == "latent"):
            raise ArgumentError(
                "`undo` needs ranges with two ends, which do not depend on the class: got "
                f'ranges="{self.ranges}" and conditioning="{self.conditioning}". Choose '
                '"uniform" and "input", or leave it out.'
            )

    def _check_boxes(self) -> None:
        if self.sizes == "uniform" and self.estimator != "closed_form":
            raise ArgumentError(
                '`sizes="uniform"` belongs to the closed form: got '
                f'estimator="{self.estimator}". Choose estimator="closed_form".'
            )
        has_boxes = [
            any(isinstance(s, Boxes) for s in t.spaces.values()) for t in self.transform.transforms
        ]
        if self.grid is not None and not any(has_boxes):
            raise ArgumentError(
                "`grid` is of no use: no transform chooses a box. Add a Crop, or leave it out."
            )
        moved = False
        for transform, boxed in zip(self.transform.transforms, has_boxes, strict=True):
            if boxed and moved:
                warnings.warn(
                    f"φ chooses the box of {transform.name} on the input, but a geometric "
                    "transform comes before it and moves what lies there. Put transforms with "
                    "boxes first.",
                    InstaAugWarning,
                    stacklevel=4,
                )
            moved = moved or isinstance(transform, GeometricTransform)

    def given_grid(self, space: Space) -> CropGrid | None:
        """The grid that takes the place of a space's own levels, if it does.

        It belongs to crops and, only where nothing is cropped, to local transforms.
        """
        if not isinstance(space, Boxes):
            return None
        boxes = [s for s in self.transform.spaces.values() if isinstance(s, Boxes)]
        any_crops = not all(s.changes_inside for s in boxes)
        return None if space.changes_inside and any_crops else self.grid

    def _check_normalization(self) -> None:
        mean, std = self.transform.mean, self.transform.std
        if mean is None or std is None:
            return
        if not {len(mean), len(std)} <= {1, self.in_channels}:
            raise ArgumentError(
                f"`mean` and `std` must have one number per channel, {self.in_channels} here, or "
                f"one for all: got {len(mean)} and {len(std)}."
            )

    def to_config(self) -> dict[str, Any]:
        """All settings as values that JSON can hold."""
        config = {f.name: getattr(self, f.name) for f in fields(self)}
        config["transform"] = self.transform.to_config()
        config["grid"] = None if self.grid is None else self.grid.to_config()
        config["plan"] = None if self.plan is None else self.plan.to_config()
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "InstaAugSettings":
        """Read back what :meth:`to_config` wrote."""
        parts = config["transform"]
        transform = as_composition(
            [from_config(c) for c in parts["transforms"]],
            mean=parts["mean"],
            std=parts["std"],
            size=parts.get("size"),  # files of version 0.1 have none
        )
        rest = {
            key: value for key, value in config.items() if key not in ("transform", "grid", "plan")
        }
        rest |= {key: _plain_band(rest[key]) for key in ("entropy", "diversity")}
        grid = None if config["grid"] is None else CropGrid.from_config(config["grid"])
        plan = PlanShape.from_config(config.get("plan"))
        return cls(transform=transform, grid=grid, plan=plan, **rest)


def auto_baseline(
    transform: Composition, conditioning: Conditioning, estimator: Estimator
) -> Baseline:
    """``"value"`` where φ reads the input and finite factors are sampled, else ``"batch"``.

    The closed form compares samples of the same input, where there are several.
    """
    if estimator == "closed_form" and conditioning == "input":
        return "rloo"
    any_finite = any(not isinstance(space, Interval) for space in transform.spaces.values())
    return "value" if any_finite and conditioning == "input" and estimator != "exact" else "batch"


def as_composition(
    transforms: Transform | str | Sequence[Transform | str],
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    size: int | Sequence[int] | None = None,
) -> Composition:
    """One or several transforms, given themselves or by name, as a composition."""
    if isinstance(transforms, Composition):
        if mean is None and std is None:
            mean, std = transforms.mean, transforms.std
        size = transforms.size if size is None else size
        transforms = transforms.transforms
    if isinstance(transforms, Transform | str | type):
        transforms = [transforms]
    parts = tuple(TRANSFORMS[t]() if isinstance(t, str) else t for t in transforms)
    for part in parts:
        if not isinstance(part, Transform):
            raise ArgumentError(
                f"`transforms` must be transforms or their names: got {part!r}. "
                "A class needs brackets: Crop()."
            )
    return Composition(
        parts,
        mean=None if mean is None else tuple(float(m) for m in mean),
        std=None if std is None else tuple(float(s) for s in std),
        size=_height_and_width(size),
    )


def _height_and_width(size: Any) -> Any:
    """A pair from a side or a pair; the composition checks its values."""
    if size is None:
        return None
    return tuple(size) if isinstance(size, Sequence) else (size, size)


def _plain_band(band: Any) -> Any:
    """Bands as tuples of Python numbers, whatever library or file they come from."""
    if isinstance(band, Mapping):
        return {name: _plain_band(pair) for name, pair in band.items()}
    return tuple(float(end) for end in band) if isinstance(band, list | tuple) else band
