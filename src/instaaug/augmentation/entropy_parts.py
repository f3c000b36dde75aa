"""The parts of the entropy that have a band of their own: sides, parameters, factors, or all."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from math import exp, log
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.distributions import Joint, UniformBox
from instaaug.objectives import Band, band_limits
from instaaug.parameterizations import Family, UniformFamily
from instaaug.spaces import Space

__all__ = ["EntropyParts", "Per"]

Per = Literal["side", "parameter", "factor", "total"]
Bands = Band | Mapping[str, Band] | None
TOTAL = "total"
SIDES = ("below", "above")


class _Node(NamedTuple):
    """Something that a band can be given for.

    Arguments:
        name: ``hsv_jitter``, ``hsv_jitter.value`` or ``hsv_jitter.value.below``.
        largest: The most that its entropy can be, in nats.
        n_learned: Number of learned parameters that add up to it.
    """

    name: str
    largest: float
    n_learned: int = 1


_Part = tuple[_Node, ...]  # itself, and what it is a part of; the last one is the factor


class EntropyParts:
    r"""Splits the entropy of θ into the parts that are each held in a band.

    - ``"side"``: below and above the identity of every learned parameter, each the logarithm of
      its width, so that no side of a range can vanish while another makes up for it.
    - ``"parameter"``: every learned parameter of a range.
    - ``"factor"``: every factor, the sum over its parameters.
    - ``"total"``: the sum over all factors, as the InstaAug paper has it.

    Choices and boxes are one part in any case but the last. A band of a factor is a band of all
    of its parts: each must cover the same share :math:`s` of its room, :math:`s = \exp((H -
    H_{\text{largest}}) / n)` for :math:`n` learned parameters, so that the factor itself is in
    its band if they are. Parts can be named, too: ``hsv_jitter.value.below``, or
    ``hsv_jitter.value`` for both sides.

    Arguments:
        families: The family of distributions of each factor, by name.
        spaces: What each factor may be, by name.
        per: What has a band of its own.
        entropy: Bands in nats: one for all factors, or by name of a factor or part.
        diversity: Bands as shares of the largest effect, in the same way.
        defaults: Diversity of factors that are given neither, by name; those of their spaces by
            default.

    Attributes:
        limits: The band of each factor in nats; what its parts add up to.
        part_limits: The band of each part in nats.

    Example:
        >>> from instaaug.parameterizations import make_family
        >>> from instaaug.transforms import Rotation
        >>> spaces = {"rotation": Rotation(max_angle=2.0).spaces["angle"]}
        >>> families = {"rotation": make_family(spaces["rotation"])}
        >>> parts = EntropyParts(families, spaces, diversity=(0.5, 1.0))
        >>> {name: round(low, 3) for name, (low, _) in parts.part_limits.items()}  # log 1
        {'rotation.angle.below': 0.0, 'rotation.angle.above': 0.0}
    """

    def __init__(
        self,
        families: Mapping[str, Family],
        spaces: Mapping[str, Space],
        *,
        per: Per = "side",
        entropy: Bands = None,
        diversity: Bands = None,
        defaults: Mapping[str, Band] | None = None,
    ) -> None:
        self.families, self.per = dict(families), per
        self.parts = [part for name in families for part in self._split(name)]
        given = [_by_name(bands, families) for bands in (entropy, diversity)]
        whole = per == "total" and not any(isinstance(b, Mapping) for b in (entropy, diversity))
        nodes = {node.name: node for part in self.parts for node in part}
        limits = band_limits(
            {name: node.largest for name, node in nodes.items()},
            {name: _default(spaces.get(name)) for name in nodes} | dict(defaults or {}),
            finite=[name for name, family in families.items() if family.is_finite],
            entropy=None if whole else given[0],
            diversity=None if whole else given[1],
        )
        named = {name for bands in given for name in bands or ()}
        self.part_limits = {part[0].name: _limits_of(part, limits, named) for part in self.parts}
        self.limits = {name: self._add_up(name, limits[name], named) for name in families}
        if per == "total":
            self._hold_total(entropy if whole else None, diversity if whole else None)

    @property
    def are_finer(self) -> bool:
        """Whether the parts are others than the factors."""
        return self.names != tuple(self.families)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts."""
        return tuple(self.part_limits)

    def entropies(self, joint: Joint) -> Float[Tensor, "*batch parts"]:
        """Entropy of each part in nats."""
        if self.per == "total":
            return joint.entropy()[..., None]
        if self.per == "factor":
            return joint.entropies()
        columns = []
        for name, family in self.families.items():
            factor = joint[name]
            if isinstance(family, UniformFamily) and isinstance(factor, UniformBox):
                columns.append(family.widths(factor, per_side=self.per == "side").log())
            else:
                columns.append(factor.entropy()[..., None])
        return torch.cat(columns, dim=-1)

    def _split(self, name: str) -> list[_Part]:
        family = self.families[name]
        if not isinstance(family, UniformFamily):
            return [(_Node(name, family.max_entropy),)]
        factor = _Node(name, family.max_entropy, max(family.n_learned, 1))
        if self.per in ("factor", "total"):
            return [(factor,)]
        parts: list[_Part] = []
        for parameter in family.learned_parameters:
            whole = _Node(f"{name}.{parameter.name}", log(parameter.width))
            sides = [
                _Node(f"{whole.name}.{side}", log(room))
                for side, room in zip(SIDES, parameter.rooms, strict=True)
                if room
            ]
            part = (whole, factor)
            parts += [(side, *part) for side in sides] if self.per == "side" else [part]
        return parts

    def _add_up(self, name: str, band: Band, named: AbstractSet[str]) -> Band:
        """The band of a factor, as its parts have it if some of them were named."""
        own = [part for part in self.parts if part[-1].name == name and len(part) > 1]
        if named.isdisjoint(node.name for part in own for node in part[:-1]):
            return band
        widths: dict[str, list[float]] = {}
        for part in own:
            low, high = map(exp, self.part_limits[part[0].name])
            total = widths.setdefault(part[-2].name, [0.0, 0.0])
            widths[part[-2].name] = [total[0] + low, total[1] + high]
        fixed = own[0][-1].largest - sum(node.largest for node in {part[-2] for part in own})
        low, high = (fixed + sum(log(pair[end]) for pair in widths.values()) for end in (0, 1))
        return low, high

    def _hold_total(self, entropy: Bands, diversity: Bands) -> None:
        """One band for the sum; those of the factors then say no more than where to start."""
        low, high = (sum(band[end] for band in self.limits.values()) for end in (0, 1))
        if entropy is not None or diversity is not None:
            largest = sum(family.max_entropy for family in self.families.values())
            (wanted,) = band_limits(
                {TOTAL: largest}, {}, finite=self._smallest_total(), entropy=entropy,
                diversity=diversity,
            ).values()  # fmt: skip
            ends = [self._share_out(end) for end in wanted]
            self.limits = {name: (ends[0][name], ends[1][name]) for name in self.families}
            low, high = wanted
        self.part_limits = {TOTAL: (low, high)}

    def _smallest_total(self) -> tuple[str, ...]:
        """The sum is never below zero where all factors are finite."""
        return (TOTAL,) if all(f.is_finite for f in self.families.values()) else ()

    def _share_out(self, total: float) -> dict[str, float]:
        """An entropy for each factor, near the middle of its default band, that add up."""
        middle = {name: sum(band) / 2 for name, band in self.limits.items()}
        missing = total - sum(middle.values())
        rooms = {
            name: family.max_entropy - middle[name]
            if missing > 0
            else middle[name]
            if family.is_finite
            else -missing
            for name, family in self.families.items()
        }
        share = missing / max(sum(rooms.values()), 1e-9)
        return {name: middle[name] + share * room for name, room in rooms.items()}


def _by_name(bands: Bands, factors: Mapping[str, Family]) -> dict[str, Band] | None:
    """Bands by name; one for all is one for each factor."""
    if bands is None:
        return None
    return dict(bands) if isinstance(bands, Mapping) else dict.fromkeys(factors, bands)


def _default(space: Space | None) -> Band:
    """The diversity of a factor that is given none; its parts take theirs from it."""
    return (1.0, 1.0) if space is None else space.default_diversity


def _limits_of(part: _Part, limits: Mapping[str, Band], named: AbstractSet[str]) -> Band:
    """The band of a part: its own, or what the band of the whole that was named means for it."""
    owner = next((node for node in part if node.name in named), part[-1])
    if owner is part[0]:
        return limits[owner.name]
    low, high = (
        part[0].largest + (end - owner.largest) / owner.n_learned for end in limits[owner.name]
    )
    return low, high
