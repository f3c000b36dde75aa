"""Co-Mixup against all labelings, and what its authors say of redundancy."""

from itertools import product

import pytest
import torch
from torch import Tensor, nn

from instaaug.errors import ArgumentError
from instaaug.methods import co_mixup
from instaaug.methods.co_mixup import CoMixup, JointMixing
from tests.support.models import labels


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def problem(k: int, n: int, *, groups: int = 8) -> tuple[Tensor, Tensor]:
    """What salient blocks of k inputs are worth, and inputs that are redundant with themselves."""
    saliency = torch.rand(groups, n, n, k, generator=seeded()) ** 3
    return -saliency / saliency.sum(dim=(1, 2), keepdim=True), torch.eye(k).repeat(groups, 1, 1)


def naive_energy(weights: Tensor, cost: Tensor, *, smoothness: float, redundancy: float) -> float:
    """Of the outputs of one group, in loops; each input is redundant with itself alone."""
    outputs, n = weights.shape[:2]
    total = 0.0
    for o, r, c in product(range(outputs), range(n), range(n)):
        total += float(weights[o, r, c] @ cost[r, c])
        for below in [(r + 1, c), (r, c + 1)]:
            if max(below) < n:
                gap = weights[o, r, c] - weights[o, *below]
                total += smoothness / 2 * float(gap @ gap)
    used = weights.sum(dim=(1, 2))
    for o, p in product(range(outputs), range(outputs)):
        total += redundancy * float(used[o] @ used[p]) * (o != p)
    return total


def test_an_output_is_the_best_next_to_the_others() -> None:
    """The one chosen last, of all that 2 × 2 blocks of 2 inputs can be; halves come later."""
    cost, relations = problem(2, 2)
    weight = {"smoothness": 0.08, "redundancy": 0.05}
    solver = JointMixing(**weight, n_sweeps=1)
    chosen = solver(cost, relations, generator=seeded())
    energy = solver.energy(chosen, cost, relations)
    for g in range(len(cost)):
        ours = naive_energy(chosen[g], cost[g], **weight)
        assert ours == pytest.approx(float(energy[g]), abs=1e-5)
        for places in product((0, 1), repeat=4):
            other = nn.functional.one_hot(torch.tensor(places).view(2, 2), 2).float()
            changed = torch.stack([chosen[g, 0], other])
            assert naive_energy(changed, cost[g], **weight) > ours - 1e-5


@pytest.mark.parametrize("redundancy", [0.0, 0.02, 0.2])
def test_the_energy_never_rises(redundancy: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(co_mixup, "_push_apart", lambda used: torch.zeros(used.shape))
    cost, relations = problem(6, 4)

    def energy(n_sweeps: int) -> Tensor:
        solver = JointMixing(smoothness=0.02, redundancy=redundancy, n_sweeps=n_sweeps)
        return solver.energy(solver(cost, relations, generator=seeded(1)), cost, relations)

    energies = torch.stack([energy(n) for n in range(1, 6)])
    assert (energies.diff(dim=0) < 1e-5).all()
    assert (energies[-1] < energies[0]).any()


def test_redundancy_lowers_the_reuse_of_inputs() -> None:
    cost, relations = problem(6, 4)
    cost[..., 0] -= 0.2  # the first input is the most salient everywhere

    def most_used(redundancy: float) -> Tensor:
        solver = JointMixing(smoothness=0.02, redundancy=redundancy)
        chosen = solver(cost, relations, generator=seeded(1))
        return chosen.sum(dim=(1, 2, 3)).amax(dim=1) / 16  # in images

    free, little, much = (most_used(redundancy) for redundancy in (0.0, 0.002, 0.06))
    assert (free > 4).all()
    assert (little < free).all()
    assert (much < little).all()
    assert (much < 1.5).all()


def test_what_is_below_the_threshold_costs_nothing() -> None:
    cost, relations = problem(4, 4)

    def chosen(redundancy: float) -> Tensor:
        solver = JointMixing(smoothness=0.02, redundancy=redundancy, threshold=64.0, n_sweeps=2)
        return solver(cost, relations, generator=seeded(1))

    assert torch.equal(chosen(0.0).sum(dim=1), chosen(1e-9).sum(dim=1))


def test_outputs_with_the_same_inputs_are_pushed_apart() -> None:
    used = torch.tensor([[[1, 1, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1]]]).bool()
    apart = co_mixup._push_apart(used)
    assert apart.tolist() == [[[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]]


def test_halves_are_of_inputs_that_are_used() -> None:
    halves, absent = co_mixup._half_labels(torch.tensor([[0.0, 9.0, 7.0, 0.0]]))
    (first,) = (h for h, missing in zip(halves[0], absent[0], strict=True) if not missing)
    assert first.tolist() == [0, 0.5, 0.5, 0]


class Colors(nn.Module):
    """A model of images with as many channels as there are images."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(n, 4, 3, padding=1), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x).relu().mean(dim=(2, 3)))


@pytest.mark.parametrize("n_samples", [1, 2])
@pytest.mark.parametrize(("n", "group"), [(6, 3), (7, 3), (2, 20), (4, 1)])
def test_shares_are_areas(n: int, group: int, n_samples: int) -> None:
    """Image i has channel i alone, so that the means of channels tell what is in a mixture."""
    torch.manual_seed(0)
    aug = CoMixup(group=group)
    aug.attach(Colors(n))
    x = torch.eye(n)[:, :, None, None].expand(-1, -1, 8, 8).contiguous()
    y = labels(n)
    batch = aug(x, n_samples, generator=seeded(), targets=y)
    assert batch.shares is not None
    assert batch.partner_targets is not None
    torch.testing.assert_close(batch.shares.sum(dim=0), torch.ones(n * n_samples))
    areas = batch.inputs.mean(dim=(2, 3))
    soft = torch.zeros(n * n_samples, 3)
    for row in range(len(soft)):
        soft[row, y[row % n]] += batch.shares[0, row]
        for share, target in zip(batch.shares[1:], batch.partner_targets, strict=True):
            soft[row, target[row]] += share[row]
    torch.testing.assert_close(soft, areas @ nn.functional.one_hot(y, 3).float())
    torch.testing.assert_close(batch.shares[0], areas[range(len(areas)), [*range(n)] * n_samples])


@pytest.mark.parametrize("name", ["group", "blocks", "n_sweeps"])
def test_a_number_below_one_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match=f"`{name}` must be at least 1: got 0"):
        CoMixup(**{name: 0})
