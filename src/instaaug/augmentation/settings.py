"""Every choice that makes an augmenter, checked once, and ready for JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.functional.warp import Padding
from instaaug.objectives import Band, Baseline, Rule
from instaaug.parameterizations import Conditioning, CropGrid
from instaaug.transforms import TRANSFORMS, Composition, Transform, from_config

__all__ = ["Estimator", "Settings", "as_composition"]

Estimator = Literal["auto", "pathwise", "score", "exact"]
Bands = Band | Mapping[str, Band] | None

CHOICES: Mapping[str, tuple[str, ...]] = {
    "conditioning": ("input", "none", "class"),
    "estimator": ("auto", "pathwise", "score", "exact"),
    "baseline": ("none", "batch", "value", "rloo", "critic"),
    "padding": ("zeros", "border", "reflection"),
}


@dataclass(frozen=True)
class Settings:
    """The choices behind an :class:`~instaaug.InstaAug`, which documents them."""

    transform: Composition
    entropy: Bands = None
    diversity: Bands = None
    conditioning: Conditioning = "input"
    network: str = "pyramid"
    width: float = 1.0
    in_channels: int = 3
    n_classes: int | None = None
    grid: CropGrid | None = None
    estimator: Estimator = "auto"
    baseline: Baseline = "batch"
    rule: Rule = "pi"
    weight: float = 0.1
    padding: Padding = "zeros"

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise UnknownNameError(name, str(getattr(self, name)), known)
        if self.in_channels < 1:
            raise ArgumentError(f"`in_channels` must be at least 1: got {self.in_channels}.")
        if not 0 < self.width <= 64:
            raise ArgumentError(
                f"`width` must lie in (0, 64]: got {self.width}. 1 is the network as published."
            )
        self._check_normalization()

    def _check_normalization(self) -> None:
        mean, std = self.transform.mean, self.transform.std
        if mean is None or std is None:
            return
        if {len(mean), len(std)} != {self.in_channels}:
            raise ArgumentError(
                f"`mean` and `std` must have one number per channel, {self.in_channels} here: got "
                f"{len(mean)} and {len(std)}."
            )
        if not min(std) > 0:
            raise ArgumentError(f"`std` must be positive: got {std}.")

    def to_config(self) -> dict[str, Any]:
        """All choices as JSON knows them."""
        config = {f.name: getattr(self, f.name) for f in fields(self)}
        config["transform"] = self.transform.to_config()
        config["grid"] = None if self.grid is None else self.grid.to_config()
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Settings":
        """Read back what :meth:`to_config` wrote."""
        parts = config["transform"]
        transform = as_composition(
            [from_config(c) for c in parts["transforms"]], mean=parts["mean"], std=parts["std"]
        )
        rest = {key: value for key, value in config.items() if key not in ("transform", "grid")}
        for key in ("entropy", "diversity"):
            rest[key] = _band_tuples(rest[key])
        grid = None if config["grid"] is None else CropGrid.from_config(config["grid"])
        return replace(cls(transform=transform, grid=grid), **rest)


def as_composition(
    transforms: Transform | str | Sequence[Transform | str],
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Composition:
    """One or several transforms, given themselves or by name, as a composition."""
    if isinstance(transforms, Composition):
        if mean is None and std is None:
            mean, std = transforms.mean, transforms.std
        transforms = transforms.transforms
    if isinstance(transforms, Transform | str):
        transforms = [transforms]
    parts = tuple(TRANSFORMS[t]() if isinstance(t, str) else t for t in transforms)
    return Composition(
        parts,
        mean=None if mean is None else tuple(float(m) for m in mean),
        std=None if std is None else tuple(float(s) for s in std),
    )


def _band_tuples(band: Any) -> Any:
    if isinstance(band, Mapping):
        return {name: tuple(pair) for name, pair in band.items()}
    return None if band is None else tuple(band)
