"""Labels of blocks against all labelings and against maximum flow; blocks against slices."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

from instaaug.errors import ShapeError
from instaaug.functional.blocks import choose_labels, grid_energy, join_blocks, split_blocks

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Problem = tuple[Tensor, Tensor, Tensor, Tensor]


def problem(
    rows: int, columns: int, n_labels: int, *, n_grids: int = 1, smoothness: float = 0.3
) -> Problem:
    """Random costs, borders of random weights, labels that disagree by their distance."""
    random = torch.Generator().manual_seed(0)
    unary = torch.rand(n_grids, rows, columns, n_labels, generator=random)
    down = smoothness * torch.rand(n_grids, rows - 1, columns, generator=random)
    right = smoothness * torch.rand(n_grids, rows, columns - 1, generator=random)
    level = torch.linspace(0, 1, n_labels)
    return unary, down, right, (level[:, None] - level).square().expand(n_grids, -1, -1)


def least_energy(given: Problem) -> Tensor:
    """The least energy of all labelings."""
    n_grids, rows, columns, n_labels = given[0].shape
    labelings = torch.tensor(list(product(range(n_labels), repeat=rows * columns)))
    labelings = labelings.view(-1, rows, columns)
    n = len(labelings)
    best = []
    for i in range(n_grids):
        unary, down, right, differ = (p[i].expand(n, *p.shape[1:]) for p in given)
        best.append(grid_energy(unary, down, right, differ, labelings).min())
    return torch.stack(best)


def solve(given: Problem, n_sweeps: int = 2) -> Tensor:
    return choose_labels(*given, start=given[0].argmin(dim=-1), n_sweeps=n_sweeps)


def test_the_energy_is_that_of_a_loop() -> None:
    given = problem(3, 4, 3)
    labels = torch.randint(3, (1, 3, 4), generator=torch.Generator().manual_seed(1))
    unary, down, right, disagreement = (part[0] for part in given)
    total = 0.0
    for r, c in product(range(3), range(4)):
        label = labels[0, r, c]
        total += float(unary[r, c, label])
        if r < 2:
            total += float(down[r, c] * disagreement[label, labels[0, r + 1, c]])
        if c < 3:
            total += float(right[r, c] * disagreement[label, labels[0, r, c + 1]])
    assert float(grid_energy(*given, labels)) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize(("rows", "columns", "n_labels"), [(1, 6, 3), (6, 1, 3), (1, 5, 4)])
def test_a_single_row_or_column_is_labeled_best(rows: int, columns: int, n_labels: int) -> None:
    given = problem(rows, columns, n_labels, n_grids=5, smoothness=3.0)
    torch.testing.assert_close(grid_energy(*given, solve(given, 1)), least_energy(given))


@pytest.mark.parametrize(("side", "most"), [(2, 0.0), (3, 0.002)])
def test_labels_are_the_best_of_all_or_nearly(side: int, most: float) -> None:
    given = problem(side, side, 3, n_grids=20)
    best = least_energy(given)
    gap = grid_energy(*given, solve(given)) / best - 1
    assert gap.min() > -1e-5
    assert gap.mean() <= most + 1e-6


def test_two_labels_are_nearly_those_of_a_minimum_cut() -> None:
    """Maximum flow tells the least energy of two labels exactly, in whole numbers."""
    side, unit = 8, 10**6
    given = problem(side, side, 2, n_grids=6)
    energy = grid_energy(*given, solve(given))
    for i in range(6):
        unary, down, right, _ = ((unit * part[i]).round().long().numpy() for part in given)
        least = minimum_cut(unary, down, right) / unit
        assert least - 1e-3 < float(energy[i]) < 1.02 * least


def minimum_cut(unary: Numbers, down: Numbers, right: Numbers) -> int:
    """The least energy of labels 0 and 1 that disagree by 1."""
    side = len(unary)
    node = np.arange(side**2).reshape(side, side)
    source, sink = side**2, side**2 + 1
    edges = [(source, b, unary.reshape(-1, 2)[b, 1]) for b in range(side**2)]
    edges += [(b, sink, unary.reshape(-1, 2)[b, 0]) for b in range(side**2)]
    borders = [(node[:-1], node[1:], down), (node[:, :-1], node[:, 1:], right)]
    for first, second, weight in borders:
        for a, b, c in zip(first.flat, second.flat, weight.flat, strict=True):
            edges += [(int(a), int(b), c), (int(b), int(a), c)]
    start, end, capacity = (np.array(part, dtype=np.int32) for part in zip(*edges, strict=True))
    graph = coo_array((capacity, (start, end)), shape=(side**2 + 2,) * 2).tocsr()
    return int(maximum_flow(graph, source, sink).flow_value)


def test_no_sweep_raises_the_energy() -> None:
    given = problem(6, 5, 4, n_grids=20, smoothness=2.0)
    labels = torch.randint(4, (20, 6, 5), generator=torch.Generator().manual_seed(1))
    energy = grid_energy(*given, labels)
    for _ in range(4):
        labels = choose_labels(*given, start=labels, n_sweeps=1)
        after = grid_energy(*given, labels)
        assert (after <= energy + 1e-5).all()
        energy = after


def test_blocks_are_slices() -> None:
    x = torch.rand(2, 3, 8, 12, generator=torch.Generator().manual_seed(0))
    blocks = split_blocks(x, 4)
    assert torch.equal(blocks[1, 4 * 2 + 1].view(3, 2, 3), x[1, :, 4:6, 3:6])
    assert torch.equal(join_blocks(blocks, x.shape[1:]), x)


def test_a_side_that_blocks_do_not_divide_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"sides that 4 blocks divide: got 8 × 10 pixels"):
        split_blocks(torch.zeros(1, 1, 8, 10), 4)
