"""The entropy band: a weight λ per factor that keeps the mean entropy between two bounds."""

from collections.abc import Callable, Collection, Mapping, Sequence
from math import exp, inf, isfinite, log
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.functional.processes import mean_over_processes

__all__ = ["Band", "EntropyBand", "Rule", "band_limits"]

Band = tuple[float, float]
Bands = Band | Mapping[str, Band] | None
Rule = Literal["pi", "multiplicative", "fixed"]
TOLERANCE = 1e-6


class EntropyBand(nn.Module):
    r"""A controller that holds the mean entropy of every factor within its band.

    With the signed violation :math:`e = (H_{\min} - \bar H)_+ - (\bar H - H_{\max})_+`, in nats:

    - ``"pi"``: :math:`\lambda = I + K_p e` with :math:`I \leftarrow \mathrm{clip}(I + K_i e,\,
      0,\, I_{\max})`. The proportional part reacts at once, and may push λ below zero above the
      band; the slow integral removes what is left.
    - ``"multiplicative"``, the paper's: λ times or divided by a factor; always positive.
    - ``"fixed"``, for ablations: λ never changes.

    State lives in buffers, so that it is saved with the weights. When ``torch.distributed`` is
    initialized, the entropy is averaged over all processes first, so that all agree on λ.

    Arguments:
        limits: (H_min, H_max) of each factor in nats.
        rule: How λ moves.
        weight: λ at the start.
        proportional: :math:`K_p`, per nat.
        integral: :math:`K_i`, per nat and update.
        max_weight: :math:`I_{\max}`.
        factor: What the multiplicative rule multiplies by, once per update.

    Example:
        >>> band = EntropyBand([(3.0, 3.5)], weight=0.1)
        >>> band.update(torch.tensor([3.2]))  # inside, λ stays
        tensor([0.1000])
        >>> band.update(torch.tensor([2.0]))[0] > 1.0  # one nat below
        tensor(True)
    """

    low: Tensor
    high: Tensor
    weight: Tensor
    memory: Tensor

    def __init__(
        self,
        limits: Sequence[Band],
        *,
        rule: Rule = "pi",
        weight: float = 0.1,
        proportional: float = 1.0,
        integral: float = 0.002,
        max_weight: float = 10.0,
        factor: float = 1.01,
    ) -> None:
        super().__init__()
        if rule not in ("pi", "multiplicative", "fixed"):
            raise UnknownNameError("rule", rule, ("pi", "multiplicative", "fixed"))
        largest = inf if rule == "fixed" else max_weight
        if not 0 <= weight <= largest or (rule == "multiplicative" and weight == 0):
            raise ArgumentError(
                f"`weight` must lie in [0, {largest:g}], and not be 0 for the multiplicative "
                f"rule: got {weight}. A small start such as 0.1 suits most problems."
            )
        if not 1 <= factor < inf:
            raise ArgumentError(f"`factor` must be finite and at least 1: got {factor}.")
        for band in limits:
            _check_order(band, "limits")
        self.rule: Rule = rule
        self.proportional, self.integral = proportional, integral
        self.max_weight, self.factor = max_weight, factor
        low, high = ([band[end] for band in limits] for end in (0, 1))
        # The limits are settings, not state: loading a state must not undo what the user gave.
        self.register_buffer("low", torch.tensor(low, dtype=torch.float32), persistent=False)
        self.register_buffer("high", torch.tensor(high, dtype=torch.float32), persistent=False)
        self.register_buffer("weight", torch.full((len(limits),), weight))
        self.register_buffer("memory", torch.full((len(limits),), weight))

    @override
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "EntropyBand":
        """Move devices, but keep float32: in half precision the slow integral would not move."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in self.named_buffers():
            setattr(self, name, buffer.float())
        return self

    def violation(self, entropy: Float[Tensor, " f"]) -> Float[Tensor, " f"]:
        """How far below (positive) or above (negative) its band each entropy lies, in nats."""
        return (self.low - entropy).clamp(min=0) - (entropy - self.high).clamp(min=0)

    @torch.no_grad()
    def update(self, entropy: Float[Tensor, " f"]) -> Float[Tensor, " f"]:
        """Move λ after seeing the mean entropy of a training batch; returns the new λ."""
        error = self.violation(mean_over_processes(entropy.detach().to(self.weight)))
        if self.rule == "pi":
            self.memory.add_(self.integral * error).clamp_(0.0, self.max_weight)
            self.weight.copy_(self.memory + self.proportional * error)
        elif self.rule == "multiplicative":
            self.weight.mul_(self.factor ** error.sign()).clamp_(1e-8, self.max_weight)
        return self.weight.clone()


def band_limits(
    max_entropies: Mapping[str, float],
    defaults: Mapping[str, Band],
    *,
    finite: Collection[str] = (),
    entropy: Bands = None,
    diversity: Bands = None,
) -> dict[str, Band]:
    r"""The band of each factor in nats, however it was given.

    Diversity is the effective share of the transform space, :math:`\exp(H - H_{\text{largest}})`
    in (0, 1]; it means the same on another grid, image size or range of angles.

    Arguments:
        max_entropies: The largest entropy of each factor, by name.
        defaults: A diversity for each factor that is given neither. Where there are so few
            choices that one alone is a larger share, a quarter to a half of the largest entropy.
        finite: Names of the factors that choose from a table: their entropy is never below zero.
        entropy: Bands in nats: one for all factors, or by name.
        diversity: Bands as diversity: one for all factors, or by name.

    Example:
        >>> band_limits({"crop": 5.77}, {"crop": (0.06, 0.1)}, entropy=(3.0, 3.5))
        {'crop': (3.0, 3.5)}
    """
    in_nats = _by_name("entropy", entropy, max_entropies)
    as_share = _by_name("diversity", diversity, max_entropies)
    if (isinstance(entropy, tuple | list) and as_share) or _both_name(entropy, diversity):
        raise ArgumentError(
            "`entropy` and `diversity` say the same thing twice: got both. "
            "Give one of them, or both as mappings from different factor names."
        )
    limits: dict[str, Band] = {}
    for name, largest in max_entropies.items():
        smallest = 0.0 if name in finite else -inf
        if name in in_nats:
            limits[name] = _check_entropy(name, in_nats[name], smallest, largest)
        elif smallest == largest:  # a single choice: nothing to hold
            limits[name] = 0.0, 0.0
        elif name in as_share:
            limits[name] = _from_diversity(name, as_share[name], smallest, largest)
        else:
            low, high = (largest + log(share) for share in defaults[name])
            few = low < smallest
            limits[name] = (largest / 4, largest / 2) if few else (low, high)
    return limits


def _by_name(argument: str, band: Bands, names: Mapping[str, float]) -> dict[str, Band]:
    if band is None:
        return {}
    bands = dict(band) if isinstance(band, Mapping) else dict.fromkeys(names, band)
    for name, pair in bands.items():
        if name not in names:
            raise UnknownNameError("factor", name, names)
        _check_order(pair, argument)
    return bands


def _both_name(entropy: Bands, diversity: Bands) -> bool:
    if not (isinstance(entropy, Mapping) and isinstance(diversity, Mapping)):
        return False
    return not entropy.keys().isdisjoint(diversity)


def _check_order(band: object, argument: str) -> None:
    if not isinstance(band, tuple | list) or len(band) != 2 or not band[0] <= band[1]:
        raise ArgumentError(
            f"`{argument}` must be two numbers (low, high) with low ≤ high: got {band}. "
            "Name factors with a mapping, such as {'crop': (3.0, 3.5)}."
        )


def _from_diversity(name: str, band: Band, smallest: float, largest: float) -> Band:
    low, high = band
    if not 0 < low <= high <= 1:
        raise ArgumentError(
            f"`diversity` must be two shares with 0 < low ≤ high ≤ 1: got {band} for {name!r}. "
            "(0.06, 0.10) means the effect of 6 to 10 % of all choices."
        )
    if largest + log(high) < smallest - TOLERANCE:
        raise ArgumentError(
            f"`diversity` cannot be reached: got at most {high:g} for {name!r}, where a single "
            f"choice is a share of {exp(-largest):.3g}. Raise the band, or give one per factor."
        )
    return max(largest + log(low), smallest), max(largest + log(high), smallest)


def _check_entropy(name: str, band: Band, smallest: float, largest: float) -> Band:
    low, high = band
    if not (isfinite(low) and isfinite(high)):
        raise ArgumentError(f"`entropy` must be two finite numbers: got {band} for {name!r}.")
    if high > largest + TOLERANCE:
        raise ArgumentError(
            f"`entropy` cannot be reached: got H_max = {high:g} nats for {name!r}, whose entropy "
            f"is at most {largest:.2f} (the effect of {exp(min(largest, 700)):.4g} equal "
            "choices). Lower the band, or widen what the transform may do."
        )
    if high < smallest:
        raise ArgumentError(
            f"`entropy` cannot be reached: got H_max = {high:g} nats for {name!r}, a choice from "
            "a table, whose entropy is never below 0. Raise the band."
        )
    return max(float(low), smallest), float(high)
