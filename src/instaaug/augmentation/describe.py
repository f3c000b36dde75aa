"""An augmenter in words."""

from collections.abc import Mapping

from instaaug.augmentation.settings import Settings
from instaaug.objectives import Band, EntropyBand
from instaaug.parameterizations import InvarianceModule
from instaaug.spaces import Choices, Interval, Space

__all__ = ["describe"]

CONDITIONS = {
    "input": "learns per input",
    "none": "learns one for all",
    "class": "learns per class",
}


def describe(
    settings: Settings, phi: InvarianceModule, band: EntropyBand, limits: Mapping[str, Band]
) -> str:
    """One line per factor, and one on how they are learned."""
    lines = []
    spaces = settings.transform.spaces
    for i, (name, family) in enumerate(zip(phi.names, phi.families, strict=True)):
        low, high = limits[name]
        what = phi.grids[name].story if name in phi.grids else _extent(spaces[name])
        lines.append(
            f"{name}: {what}, entropy in [{low:.2f}, {high:.2f}] of {family.max_entropy:.2f} "
            f"nats, λ = {float(band.weight[i]):.3g}"
        )
    how = CONDITIONS[settings.conditioning]
    if phi.network is not None:
        count = sum(p.numel() for p in phi.parameters())
        how += f" with {settings.network} ({count:,} parameters)"
    kinds = {family.is_finite for family in phi.families}
    exact = settings.estimator == "exact"
    score = "exact gradient" if exact else f"score function with {settings.baseline} baseline"
    gradients = [score] * (True in kinds) + ["pathwise gradient"] * (False in kinds)
    lines.append(f"{how}, {' and '.join(gradients)}, λ by the {band.rule} rule")
    return "\n".join(lines)


def _extent(space: Space) -> str:
    if isinstance(space, Interval):
        return ", ".join(f"{p.name} in [{p.low:.3g}, {p.high:.3g}]" for p in space.parameters)
    return f"{len(space.rows)} choices" if isinstance(space, Choices) else ""
