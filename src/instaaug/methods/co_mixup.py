"""Co-Mixup: as many mixtures as inputs, salient and different from one another."""

from itertools import combinations

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from torch.nn import functional as F
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.functional.blocks import choose_labels, join_blocks, split_blocks
from instaaug.methods.mixing import Mixture
from instaaug.methods.registry import METHODS
from instaaug.methods.saliency import (
    SaliencyMixer,
    check_labels,
    gradient_saliency,
    normalize_saliency,
)
from instaaug.shapes import Images

__all__ = ["CoMixup", "JointMixing"]

Costs = Float[Tensor, "groups n n inputs"]
Weights = Float[Tensor, "groups outputs n n inputs"]
Relations = Float[Tensor, "groups inputs inputs"]

PRIOR_SHAPE = 2.0  # of the Dirichlet law
HALF_GAIN = 5e-4  # for a block that is half one input and half another
PEAK_POOLED = 8  # pixels that are averaged before the most salient place is looked for
ALMOST_NOTHING = 1e-8
NEVER = 1e6  # the cost of a label that does not exist


@METHODS.register("comixup")
class CoMixup(SaliencyMixer):
    r"""Makes of every 20 inputs 20 mixtures of several of them, all at once.

    Every block of a mixture comes from one input of the group, or half from each of two. The
    choice minimizes the saliency that is lost, the disagreement of neighboring blocks, and the
    redundancy of mixtures that use the same inputs (:class:`JointMixing`). An input counts with
    its share of the area. As mixtures are made together, the one in place i need not have
    anything of input i.

    θ is a draw of Gamma(2) for each input, its weight in the prior: normalized they have a
    Dirichlet law. One more pass finds the saliency. As in the source, the loss of the plain
    images, which that pass has at hand, is learned as well.

    Arguments:
        group: Inputs that are mixed with one another.
        blocks: Blocks a side.
        smoothness: Of the labels of neighboring blocks, β.
        redundancy: Cost of what several mixtures have in common, γ.
        threshold: How often an input must be used by others, in images, before that costs
            anything, τ.
        prior: Of the weights of inputs, η.
        compatibility: How much a large distance of salient places counts as redundancy, ω.
        n_sweeps: How often every mixture is chosen anew.
        clean: Weight of the loss of the plain images.
        size: Output side; the input's own by default.

    References:
        | Co-Mixup: Saliency Guided Joint Mixup with Supermodular Diversity (Kim et al., 2021)
        | https://arxiv.org/abs/2102.03065

    Example:
        >>> from instaaug.networks import SmallCNN
        >>> aug = CoMixup(group=3)
        >>> aug.attach(SmallCNN(3))
        >>> batch = aug(torch.rand(6, 3, 16, 16), targets=torch.arange(6) % 3)
        >>> batch.inputs.shape, batch.partner_targets.shape, batch.shares.shape
        (torch.Size([6, 3, 16, 16]), torch.Size([2, 6]), torch.Size([3, 6]))
    """

    tasks = frozenset({"classification"})

    def __init__(
        self,
        *,
        group: int = 20,
        blocks: int = 4,
        smoothness: float = 0.32,
        redundancy: float = 1.0,
        threshold: float = 0.83,
        prior: float = 0.05,
        compatibility: float = 0.001,
        n_sweeps: int = 4,
        clean: float = 1.0,
        size: int | None = None,
    ) -> None:
        super().__init__(size=size)
        least = {"group": (group, 1), "blocks": (blocks, 1), "n_sweeps": (n_sweeps, 1)}
        for name, (value, bound) in least.items():
            if value < bound:
                raise ArgumentError(f"`{name}` must be at least {bound}: got {value}.")
        self.group, self.blocks = group, blocks
        self.prior, self.compatibility, self.clean = prior, compatibility, clean
        n_blocks = blocks**2
        self.solver = JointMixing(
            smoothness=smoothness / n_blocks, redundancy=redundancy / n_blocks,
            threshold=threshold * n_blocks, n_sweeps=n_sweeps,
        )  # fmt: skip

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        shape = torch.full((n_samples, len(x), 1), PRIOR_SHAPE, device=x.device)
        # What torch.distributions draws from, and the only way to give it a generator.
        return torch._standard_gamma(shape, generator=generator)  # noqa: SLF001

    @override
    def mix_batch(
        self,
        x: Images,
        theta: Float[Tensor, "n batch d"],
        targets: Tensor | None,
        generator: Generator | None,
    ) -> Mixture:
        maps, added_loss = gradient_saliency(
            self.model, x, check_labels(targets), clean=self.clean
        )
        whole = len(x) // self.group * self.group
        ends = [(0, whole, self.group), (whole, len(x), len(x) - whole)]
        parts = [
            self._mix_groups(x[a:b], maps[a:b], theta[:, a:b], size, first=a, generator=generator)
            for a, b, size in ends
            if a < b
        ]
        most = max(len(part.partners) for part in parts)
        inputs = torch.cat([part.inputs.unflatten(0, (len(theta), -1)) for part in parts], dim=1)
        return Mixture(
            inputs.flatten(0, 1),
            _side_by_side([part.partners for part in parts], most, len(theta)),
            _side_by_side([part.shares for part in parts], most + 1, len(theta)),
            added_loss,
        )

    def _mix_groups(
        self,
        x: Images,
        maps: Float[Tensor, "batch height width"],
        theta: Float[Tensor, "n batch d"],
        size: int,
        *,
        first: int,
        generator: Generator | None,
    ) -> Mixture:
        """Mixtures of inputs that are a number of groups of the same size."""
        n = self.blocks
        saliency = normalize_saliency(F.adaptive_avg_pool2d(maps[:, None], n)[:, 0])
        relations = self._relations(maps, size)
        weight = theta.unflatten(1, (-1, size)).flatten(0, 1)[..., 0]  # (samples · groups, size)
        weight = weight / weight.sum(dim=1, keepdim=True)
        cost = -saliency.unflatten(0, (-1, size)).movedim(1, -1).repeat(len(theta), 1, 1, 1)
        cost = cost - self.prior / n**2 * (weight[:, None, None] + ALMOST_NOTHING).log()
        chosen = self.solver(cost, relations.repeat(len(theta), 1, 1), generator=generator)
        pieces = split_blocks(x, n).unflatten(0, (-1, size)).repeat(len(theta), 1, 1, 1)
        mixed = torch.einsum("gobi, gibv -> gobv", chosen.flatten(2, 3).to(x.dtype), pieces)
        area = chosen.mean(dim=(2, 3))  # by output and input
        place = torch.arange(size, device=x.device)
        turned = (place + place[:, None]) % size  # row j: the j-th input after each place
        shares = area.gather(2, turned.T.expand(len(area), -1, -1))
        start = first + size * torch.arange(len(x) // size, device=x.device)
        partners = (start[:, None, None] + turned.T).flatten(0, 1).repeat(len(theta), 1)
        return Mixture(
            join_blocks(mixed.flatten(0, 1), x.shape[1:]), partners.T[1:],
            shares.flatten(0, 1).T,
        )  # fmt: skip

    def _relations(self, maps: Float[Tensor, "batch height width"], size: int) -> Relations:
        """How much the use of one input counts as redundancy with the use of another."""
        pooled = F.avg_pool2d(maps[:, None], min(PEAK_POOLED, *maps.shape[1:]))[:, 0]
        peak = pooled.flatten(1).argmax(dim=1)
        where = torch.stack([peak // pooled.shape[-1], peak % pooled.shape[-1]], dim=-1).float()
        where = where.unflatten(0, (-1, size))
        distance = (where[:, :, None] - where[:, None]).abs().sum(dim=-1)
        total = distance.sum(dim=(1, 2), keepdim=True).clamp(min=ALMOST_NOTHING)
        own = torch.eye(size, device=maps.device)
        return (1 - self.compatibility) * own + self.compatibility * size * distance / total

    @override
    def extra_repr(self) -> str:
        return f"groups of {self.group}, {self.blocks} blocks a side"


def _side_by_side(parts: list[Tensor], n_rows: int, n_samples: int) -> Tensor:
    """Rows of groups of several sizes, those of the smaller ones filled up with zeros."""
    filled = [F.pad(part, (0, 0, 0, n_rows - len(part))) for part in parts]
    return torch.cat([f.unflatten(1, (n_samples, -1)) for f in filled], dim=2).flatten(1)


class JointMixing:
    r"""Chooses the inputs that several mixtures consist of, one mixture after the other.

    With :math:`z_{ob}` the weights of the inputs in block b of output o, of which one is 1 or two
    are 1/2, and :math:`u_o = \sum_b z_{ob}`, the energy is

    .. math:: \sum_{o,b} c_b \cdot z_{ob}
              + \tfrac\beta2 \sum_{o,\,b \sim b'} |z_{ob} - z_{ob'}|^2
              + \gamma \sum_{o \ne p} u_o \cdot A\,u_p

    where an input that the others use less than τ blocks costs nothing in the last sum. Halves
    are allowed from the second sweep on, between the three inputs that an output uses most. Before
    the last sweep, outputs that consist of the same inputs are pushed apart. If τ is 0 the energy
    never rises from one sweep to the next.

    Arguments:
        smoothness: β.
        redundancy: γ.
        threshold: τ.
        n_sweeps: How often every output is chosen anew.
    """

    def __init__(
        self,
        *,
        smoothness: float,
        redundancy: float,
        threshold: float = 0.0,
        n_sweeps: int = 4,
    ) -> None:
        self.smoothness, self.redundancy = smoothness, redundancy
        self.threshold, self.n_sweeps = threshold, n_sweeps

    def __call__(
        self, cost: Costs, relations: Relations, *, generator: Generator | None = None
    ) -> Weights:
        """The weights of the inputs in every block of every output.

        Arguments:
            cost: c, of every input in every block.
            relations: A.
            generator: Source of randomness, for the first weights.
        """
        groups, n, _, k = cost.shape
        labels = torch.randint(k, (groups, k, n, n), generator=generator, device=cost.device)
        chosen = F.one_hot(labels, k).to(cost)
        apart = torch.zeros_like(relations)
        for sweep in range(self.n_sweeps):
            for output in range(k):
                used = chosen[:, output].sum(dim=(1, 2))
                others = chosen.sum(dim=(1, 2, 3)) - used
                pressure = (relations @ others[..., None])[..., 0]
                pressure = torch.where(pressure > self.threshold, 2 * pressure, 0.0)
                penalty = self.redundancy * (pressure + apart[:, output])
                chosen[:, output] = self._choose(
                    cost + penalty[:, None, None], chosen[:, output], used, halves=sweep > 0
                )
            if sweep == self.n_sweeps - 2:
                apart = _push_apart(chosen.sum(dim=(2, 3)) > 0)
        return chosen

    def _choose(
        self, cost: Costs, now: Costs, used: Float[Tensor, "groups inputs"], *, halves: bool
    ) -> Costs:
        """Better weights of one output in each group, or those that it has."""
        groups, n, _, k = cost.shape
        labels = torch.eye(k, device=cost.device).expand(groups, -1, -1)
        extra = torch.zeros(groups, k, device=cost.device)
        if halves and k > 1:
            pairs, missing = _half_labels(used)
            labels = torch.cat([labels, pairs], dim=1)
            extra = torch.cat([extra, NEVER * missing - HALF_GAIN], dim=1)
        unary = torch.einsum("gxyi, gli -> gxyl", cost, labels) + extra[:, None, None]
        square = labels.square().sum(dim=-1)
        disagreement = (square[:, :, None] + square[:, None]) / 2 - labels @ labels.mT
        weight = self.smoothness * cost.new_ones(groups, n, max(n - 1, 0))
        best = choose_labels(
            unary, weight.mT, weight, disagreement, start=unary.argmin(dim=-1), n_sweeps=1
        )
        index = best.flatten(1)[..., None].expand(-1, -1, k)
        found = labels.gather(1, index).unflatten(1, (n, n))
        is_better = self._energy(cost, found) < self._energy(cost, now)
        return torch.where(is_better[:, None, None, None], found, now)

    def _energy(self, cost: Costs, weights: Costs) -> Float[Tensor, " groups"]:
        """What one output of each group costs."""
        below = (weights[:, 1:] - weights[:, :-1]).square().sum(dim=(1, 2, 3))
        beside = (weights[:, :, 1:] - weights[:, :, :-1]).square().sum(dim=(1, 2, 3))
        n_halves = (weights == 0.5).sum(dim=(1, 2, 3)) / 2
        own = (cost * weights).sum(dim=(1, 2, 3)) - HALF_GAIN * n_halves
        return own + self.smoothness / 2 * (below + beside)

    def energy(
        self, weights: Weights, cost: Costs, relations: Relations
    ) -> Float[Tensor, " groups"]:
        """The energy of all outputs of each group, with τ = 0."""
        single = sum(self._energy(cost, weights[:, o]) for o in range(weights.shape[1]))
        used = weights.sum(dim=(2, 3))
        common = used @ relations @ used.mT
        own = common.diagonal(dim1=1, dim2=2).sum(dim=-1)
        return single + self.redundancy * (common.sum(dim=(1, 2)) - own)


def _half_labels(
    used: Float[Tensor, "groups inputs"],
) -> tuple[Float[Tensor, "groups pairs inputs"], Float[Tensor, "groups pairs"]]:
    """The pairs of the three inputs that are used most, and whether one of a pair is not used."""
    most = used.topk(min(3, used.shape[1]), dim=1)
    one_hot = F.one_hot(most.indices, used.shape[1]).to(used)
    missing = (most.values == 0).to(used)
    pairs = list(combinations(range(most.indices.shape[1]), 2))
    halves = torch.stack([(one_hot[:, a] + one_hot[:, b]) / 2 for a, b in pairs], dim=1)
    absent = torch.stack([missing[:, a].maximum(missing[:, b]) for a, b in pairs], dim=1)
    return halves, absent


def _push_apart(used: Tensor) -> Float[Tensor, "groups outputs inputs"]:
    """A cost for the first input of one output, and for the second of another that is alike."""
    alike = (used[:, :, None] == used[:, None]).all(dim=-1) & (used.sum(dim=-1) > 1)[:, :, None]
    later = alike.triu(1)
    number = used.cumsum(dim=-1)
    first, second = (used & (number == i) for i in (1, 2))
    return (first & later.any(dim=2)[..., None]).float() + (
        second & later.any(dim=1)[..., None]
    ).float()
