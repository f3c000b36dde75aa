"""Families: how raw network numbers become a distribution over one space."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import exp, inf, log

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from instaaug.distributions import (
    CategoricalTheta,
    JitteredBoxes,
    RandomBoxes,
    ThetaDistribution,
    UniformBox,
)
from instaaug.errors import ArgumentError
from instaaug.functional.processes import mean_over_processes
from instaaug.parameterizations.crop_grid import CropGrid
from instaaug.shapes import at_least_float32
from instaaug.spaces import Choices, Interval, Space

__all__ = [
    "BoxFamily",
    "CategoricalFamily",
    "ClosedFormFamily",
    "Family",
    "UniformFamily",
    "equal_sizes",
    "make_family",
    "near_base",
]

Raw = Float[Tensor, "batch n_raw"]

SMALLEST_SHARE = 1e-6  # of the room on either side; narrower boxes have no finite entropy left
RANDOM_SIDES = (0.25, 1.0)  # of random crops, as in RandomAugmentation
NEAR, NEAR_SHARES = (0.6, 0.4), (0.5, 0.33)  # of a base measure: nats, shares of its entropy
GOLDEN = (5**0.5 - 1) / 2  # multiples of it, modulo 1, are spread evenly, however many
LEAST_LOGIT = -30.0  # a row that starts lower would never come back
LEAST_SHARE = 0.02  # of the spread of losses: differences predicted below it are noise
EARNED_SHARE = 0.1  # of the spread, to be predicted before all that may be given away is
N_HALVINGS = 14  # of the range of log λ: λ is found to 0.2 %
PULL = 0.1  # of a batch on what is kept of all
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e4


class Family(nn.Module, ABC):
    """A parametric family: ``forward(raw)`` gives one distribution per row.

    Whatever the raw numbers are, the distribution is admissible and contains or nearly reaches
    the identity.
    """

    n_raw: int
    max_entropy: float
    is_finite: bool

    @abstractmethod
    @override
    def forward(self, raw: Raw) -> ThetaDistribution: ...

    @abstractmethod
    def raw_at(self, entropy: float) -> Float[Tensor, " n_raw"]:
        """Raw numbers of a member with this entropy, from which learning starts."""

    def without_class(
        self, table: Float[Tensor, "classes n_raw"], batch: int
    ) -> ThetaDistribution:
        """The distribution of inputs whose class is unknown, where raw numbers are per class.

        Here, the member at the mean over classes.
        """
        return self(table.mean(dim=0).expand(batch, -1))

    def average_raw(self, raw: Raw) -> Float[Tensor, " n_raw"]:
        """Raw numbers of one member that stands for all rows; here, their mean."""
        return raw.mean(dim=0)


class UniformFamily(Family):
    r"""A uniform distribution on intervals that always contain the identity.

    For a parameter with admissible range :math:`[a, b]` and identity :math:`e`, two raw numbers
    give

    .. math:: \theta_{\min} = e - (e - a)\,\sigma(r_1), \qquad \theta_{\max} = e + (b -
    e)\,\sigma(r_2),

    with no symmetry between the two sides, on the axis of the parameter: the logarithm if it is a
    factor. A parameter that is not learned keeps all of its range. Where what happened to an input
    is undone, e is what undoes it, and ranges may leave [a, b] by as much.
    σ is held above 1e-6: an interval that rounding had closed would have an infinite gradient.

    Example:
        >>> from instaaug.spaces import Parameter
        >>> half = UniformFamily(Interval((Parameter("angle", -2.0, 2.0),)))
        >>> half(torch.zeros(1, 2)).high - half(torch.zeros(1, 2)).low
        tensor([[2.]])
    """

    is_finite = False

    def __init__(self, space: Interval) -> None:
        super().__init__()
        parameters = space.parameters
        self.n_raw = 2 * len(parameters)
        self.learned_parameters = tuple(p for p in parameters if p.learned)
        self.n_learned = len(self.learned_parameters)
        self.max_entropy = space.max_entropy
        columns = {
            "identity": [p.coordinate(p.identity) for p in parameters],
            "room_below": [p.rooms[0] for p in parameters],
            "room_above": [p.rooms[1] for p in parameters],
            "period": [p.period or inf for p in parameters],
        }
        for name, values in columns.items():
            self.register_buffer(name, torch.tensor(values), persistent=False)
        learned = torch.tensor([p.learned for p in parameters])
        self.register_buffer("learned", learned, persistent=False)
        factors = torch.tensor([p.multiplicative for p in parameters])
        self.register_buffer("factors", factors if factors.any() else None, persistent=False)
        indices = {
            "columns": [i for i, p in enumerate(parameters) if p.learned],
            "sides": [
                2 * i + side
                for i, p in enumerate(parameters)
                for side, room in enumerate(p.rooms)
                if p.learned and room
            ],
        }
        for name, index in indices.items():
            self.register_buffer(name, torch.tensor(index, dtype=torch.long), persistent=False)

    identity: Tensor
    room_below: Tensor
    room_above: Tensor
    period: Tensor
    learned: Tensor
    factors: Tensor | None
    columns: Tensor
    sides: Tensor

    @override
    def forward(self, raw: Raw, shift: Float[Tensor, "batch d"] | None = None) -> UniformBox:
        """The ranges of each input.

        Arguments:
            raw: Two numbers per parameter.
            shift: How far from doing nothing, on the axis of each parameter, ranges lie.
        """
        sigmoid = at_least_float32(raw).unflatten(-1, (2, -1)).sigmoid()
        floor = (SMALLEST_SHARE - sigmoid.detach()).clamp(min=0)  # keeps the gradient of σ
        shares = torch.where(self.learned, sigmoid + floor, 1.0)
        below, above = shares.unbind(-2)
        origin = self.identity if shift is None else self.identity + shift
        low = origin - self.room_below * below
        high = origin + self.room_above * above
        period = self.period.to(low.dtype)
        return UniformBox(
            low, high, period, self.factors,
            validate_args=False, origin=None if shift is None else origin,
        )  # fmt: skip

    def widths(self, box: UniformBox, *, per_side: bool) -> Float[Tensor, "*batch n"]:
        """Width of every learned range, on its axis; or of its sides, those that have room."""
        if not per_side:
            return (box.high - box.low).index_select(-1, self.columns)
        origin = self.identity if box.origin is None else box.origin
        sides = torch.stack([origin - box.low, box.high - origin], dim=-1)
        return sides.flatten(-2).index_select(-1, self.sides).clamp(min=1e-30)

    @override
    def raw_at(self, entropy: float) -> Float[Tensor, " n_raw"]:
        share = exp((entropy - self.max_entropy) / self.n_learned)
        share = min(max(share, 1e-4), 1 - 1e-4)
        return torch.full((self.n_raw,), log(share / (1 - share)))


class CategoricalFamily(Family):
    """A categorical distribution over a table of θ; raw numbers are logits.

    Arguments:
        table: The rows to choose from.
        preference: Of each row, at the start; larger is likelier.
        jitter: Cells and limits of the centers, where boxes may move.
    """

    is_finite = True

    def __init__(
        self,
        table: Float[Tensor, "k d"],
        preference: Float[Tensor, " k"],
        jitter: tuple[Float[Tensor, "k 2"], Float[Tensor, "k 2"]] | None = None,
    ) -> None:
        super().__init__()
        self.n_raw = len(table)
        self.max_entropy = log(len(table))
        cells, limits = jitter if jitter is not None else (None, None)
        self.register_buffer("table", table, persistent=False)
        self.register_buffer("cells", cells, persistent=False)
        self.register_buffer("center_limits", limits, persistent=False)
        self.preference = preference.double()

    table: Tensor
    cells: Tensor | None
    center_limits: Tensor | None

    @override
    def forward(self, raw: Raw) -> CategoricalTheta | JitteredBoxes:
        raw = at_least_float32(raw)
        table = self.table.to(raw.dtype)
        if self.cells is not None and self.center_limits is not None:
            jitter = (self.cells.to(raw.dtype), self.center_limits.to(raw.dtype))
            return JitteredBoxes(raw, table, *jitter, validate_args=False)
        return CategoricalTheta(raw, table, validate_args=False)

    @override
    def raw_at(self, entropy: float) -> Float[Tensor, " n_raw"]:
        """Logits that favor the preferred rows as far as the entropy allows."""
        low, high = 0.0, 1e5
        for _ in range(100):
            lean = (low + high) / 2
            logits = torch.log_softmax(lean * self.preference, dim=-1)
            if float(-(logits.exp() * logits).sum()) > entropy:
                low = lean
            else:
                high = lean
        logits = torch.log_softmax(low * self.preference, dim=-1).clamp(min=LEAST_LOGIT).float()
        return logits - logits.mean()

    @override
    def without_class(
        self, table: Float[Tensor, "classes n_raw"], batch: int
    ) -> ThetaDistribution:
        """Every row of the table with the same probability."""
        return self(torch.zeros_like(table[0]).expand(batch, -1))

    @override
    def average_raw(self, raw: Raw) -> Float[Tensor, " n_raw"]:
        """The logarithm of the mean distribution."""
        return raw.log_softmax(dim=1).logsumexp(dim=0) - log(len(raw))


class BoxFamily(CategoricalFamily):
    """A categorical distribution over boxes, which may move within their cells.

    Arguments:
        grid: The boxes.
        jitter: Whether they move.
        changes_inside: Whether small boxes are those that change little.
    """

    def __init__(
        self, grid: CropGrid, *, jitter: bool = False, changes_inside: bool = False
    ) -> None:
        prefer = _small_then_scattered if changes_inside else _large_then_central
        preference = prefer(grid.boxes)
        super().__init__(
            grid.boxes, preference, (grid.cells, grid.center_limits) if jitter else None
        )
        self.changes_inside = changes_inside

    @override
    def without_class(
        self, table: Float[Tensor, "classes n_raw"], batch: int
    ) -> ThetaDistribution:
        """Random crops, as in the paper; most boxes of a grid are small and cross the edges.

        What changes inside of a box changes inside of any with the same probability.
        """
        if self.changes_inside:
            return super().without_class(table, batch)
        like = at_least_float32(table.detach()).new_zeros(batch)
        return RandomBoxes.between(*RANDOM_SIDES, like)


class ClosedFormFamily(Family):
    r"""The best distribution over a table for predicted losses; nothing but these is learned.

    Raw numbers are losses :math:`\ell_k` of the rows. With base measure b, the minimizer of
    :math:`\sum_k p_k \ell_k + \lambda\,\mathrm{KL}(p \,\|\, b)` is

    .. math:: p_k \propto b_k \exp(-\ell_k / \lambda),

    and so does not change if a constant is added to all losses of an input. λ is not learned but
    solved for: :meth:`solve` moves it as far as the mean entropy of a batch is out of the band.
    A moving average is kept in a buffer, which is what evaluation uses. λ is at least 2 % of the
    spread of the losses seen (:meth:`observe`): smaller differences are not worth a preference,
    and the entropy may then lie above the band. Where the band is relative to the base measure, λ
    is at least a tenth of the spread: predictions that explain a share ρ of its standard deviation
    then lead at most :math:`50\,\rho^2` nats away from the base, and little if φ knows little.

    Arguments:
        family: Makes the distribution from logits.
        log_base: Logarithm of the base measure; that of all rows of one size of box, say, adds up
            to the same for each size.
        band: Least and largest mean entropy in nats.
        is_relative: Whether :math:`H(b) - \mathrm{KL}(p \,\|\, b)` is held in the band in place of
            the entropy. It is the same if b is uniform. Otherwise it never rises with the
            preferences, as the entropy does where these lead to a size with many boxes.
        weight: λ at the start.
        groups: Lengths of consecutive parts of the table, each of which keeps the probability
            that the base measure gives it, such as the boxes of one size: a loss then matters
            within its part alone. One part by default.

    Example:
        >>> rows = CategoricalFamily(torch.eye(2), torch.zeros(2))
        >>> best = ClosedFormFamily(rows, torch.zeros(2), band=(0.5, 0.6), weight=1.0)
        >>> best(torch.tensor([[0.0, 3.0]])).probs  # 1 : exp(-3)
        tensor([[0.9526, 0.0474]])
        >>> weight = best.solve(torch.tensor([[0.0, 3.0]]))
        >>> round(float(best(torch.tensor([[0.0, 3.0]]), weight).entropy()), 2)
        0.5
    """

    is_finite = True
    log_base: Tensor
    weight: Tensor
    spread: Tensor

    def __init__(
        self,
        family: CategoricalFamily,
        log_base: Float[Tensor, " k"],
        *,
        band: tuple[float, float],
        weight: float,
        is_relative: bool = False,
        groups: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.family, self.band, self.is_relative = family, band, is_relative
        self.groups = [family.n_raw] if groups is None else list(groups)
        self.n_raw, self.max_entropy = family.n_raw, family.max_entropy
        log_base = torch.log_softmax(log_base, dim=-1)
        self.register_buffer("log_base", log_base, persistent=False)
        self.register_buffer("weight", torch.tensor(min(max(weight, LEAST_WEIGHT), MOST_WEIGHT)))
        self.register_buffer("spread", torch.tensor(0.0))
        shares = torch.stack([p.exp().sum() for p in log_base.split(self.groups)])
        least, most = float(_entropies(shares.log())), float(_entropies(log_base))
        if band[0] > most + 1e-4 or band[1] < least - 1e-4:
            raise ArgumentError(
                f"`entropy` cannot be reached by the closed form: got {band[0]:.3g} to "
                f"{band[1]:.3g} nats. What it draws where nothing is known has an entropy of "
                f"{most:.3g}; the least that it may have is {least:.3g}. "
                'Change the band, or choose estimator="score".'
            )

    @override
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "ClosedFormFamily":
        """Move devices, but keep what moves slowly in float32."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.weight, self.spread = self.weight.float(), self.spread.float()
        return self

    def centered(self, raw: Raw) -> Raw:
        """The losses less their mean over the base measure: what is gained or lost by a row."""
        raw = at_least_float32(raw)
        return raw - (raw * self.log_base.exp().to(raw.dtype)).sum(dim=-1, keepdim=True)

    @override
    def forward(
        self, raw: Raw, weight: Float[Tensor, ""] | None = None
    ) -> CategoricalTheta | JitteredBoxes:
        """The best distribution of each input; it carries no gradient.

        Arguments:
            raw: Predicted losses.
            weight: λ; the one that is kept by default.
        """
        with torch.no_grad():
            return self.family(self._logits(raw, self.weight if weight is None else weight))

    def _logits(self, raw: Raw, weight: Float[Tensor, ""]) -> Raw:
        centered = self.centered(raw)
        base = self.log_base.to(centered.dtype)
        logits = base - centered / weight.to(centered.dtype)
        if len(self.groups) == 1:
            return logits
        parts = zip(logits.split(self.groups, dim=-1), base.split(self.groups), strict=True)
        return torch.cat([torch.log_softmax(p, dim=-1) + b.logsumexp(0) for p, b in parts], dim=-1)

    @torch.no_grad()
    def observe(self, losses: Float[Tensor, "n batch"]) -> None:
        """Keep the standard deviation of losses, over all processes."""
        seen = mean_over_processes(losses.detach().float().var(unbiased=False)).sqrt()
        pull = torch.where(self.spread == 0, 1.0, PULL)
        self.spread.copy_(torch.lerp(self.spread, seen, pull))

    @torch.no_grad()
    def solve(self, raw: Raw) -> Float[Tensor, ""]:
        """λ with which the mean entropy of a batch is within the band; moves the one that is kept.

        Processes agree on the mean of log λ.
        """
        share = EARNED_SHARE if self.is_relative else LEAST_SHARE
        least = (share * self.spread).clamp(LEAST_WEIGHT, MOST_WEIGHT).log()
        kept = self.weight.log().maximum(least)
        entropy = self._mean_entropy(raw, kept)
        target = entropy.clamp(*self.band)
        low, high = least, torch.full_like(least, log(MOST_WEIGHT))
        for _ in range(N_HALVINGS):
            middle = (low + high) / 2
            is_below = self._mean_entropy(raw, middle) < target
            low, high = torch.where(is_below, middle, low), torch.where(is_below, high, middle)
        found = torch.where(entropy == target, kept, (low + high) / 2)
        found = mean_over_processes(found)
        self.weight.copy_(torch.lerp(kept, found, PULL).exp())
        return found.exp()

    @override
    def average_raw(self, raw: Raw) -> Float[Tensor, " n_raw"]:
        """Losses whose best distribution is the mean distribution."""
        mean = self.family.average_raw(self._logits(raw, self.weight))
        return self.weight * (self.log_base - mean)

    def _mean_entropy(self, raw: Raw, log_weight: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """What is held in the band."""
        logits = self._logits(raw, log_weight.exp())
        if not self.is_relative:
            return _entropies(logits).mean()
        log_probs = torch.log_softmax(logits, dim=-1)
        base = self.log_base.to(log_probs.dtype)
        divergence = (log_probs.exp() * (log_probs - base)).sum(dim=-1)
        return _entropies(base) - divergence.mean()

    @property
    def base_entropy(self) -> float:
        """The entropy where nothing is known."""
        return float(_entropies(self.log_base))

    @override
    def raw_at(self, entropy: float) -> Float[Tensor, " n_raw"]:
        """No row is better than another: the base measure, whatever the entropy."""
        return torch.zeros(self.n_raw)

    @override
    def without_class(
        self, table: Float[Tensor, "classes n_raw"], batch: int
    ) -> ThetaDistribution:
        return self.family.without_class(table, batch)


def make_family(space: Space, grid: CropGrid | None = None) -> Family:
    """The family that belongs to a space; a space of boxes needs its ``grid``."""
    if isinstance(space, Interval):
        return UniformFamily(space)
    if isinstance(space, Choices):
        table = torch.tensor(space.rows)
        preference = torch.zeros(len(table))
        preference[0] = 1.0
        return CategoricalFamily(table, preference)
    grid = grid or CropGrid.of(space)
    return BoxFamily(grid, jitter=space.jitter, changes_inside=space.changes_inside)


def near_base(log_base: Float[Tensor, " k"]) -> tuple[float, float]:
    """The diversity, as a share, of what differs from a base measure by about half a nat.

    Where its entropy is small, a third to a half of that is given away.

    Example:
        >>> low, high = near_base(torch.zeros(100))
        >>> round(low, 2), round(high, 2)
        (0.55, 0.67)
    """
    entropy = float(_entropies(log_base))
    gaps = (min(gap, share * entropy) for gap, share in zip(NEAR, NEAR_SHARES, strict=True))
    low, high = (exp(entropy - gap) / len(log_base) for gap in gaps)
    return low, high


def equal_sizes(grid: CropGrid) -> Float[Tensor, " k"]:
    """Logarithm of a measure over boxes under which all sizes are equally likely."""
    counts = [rows * columns for rows, columns in (level.shape for level in grid.levels)]
    return torch.cat([torch.full((n,), -log(n * len(counts))) for n in counts])


def _entropies(logits: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch"]:
    log_probs = torch.log_softmax(logits, dim=-1)
    return -(log_probs.exp() * log_probs).sum(dim=-1)


def _large_then_central(boxes: Float[Tensor, "k 4"]) -> Float[Tensor, " k"]:
    """Prefer large boxes and, very slightly, central ones.

    No two boxes are equally preferred, or a grid of one size could not start below log K.
    """
    rank = boxes[:, :2].norm(dim=-1).argsort(stable=True).argsort().double()
    return boxes[:, 2].double() - 1e-3 * rank.log1p()


def _small_then_scattered(boxes: Float[Tensor, "k 4"]) -> Float[Tensor, " k"]:
    """Prefer small boxes and, very slightly, some that lie all over the image."""
    rank = (GOLDEN * torch.arange(len(boxes)).double() % 1).argsort().argsort().double()
    return -boxes[:, 2].double() - 1e-3 * rank.log1p()
