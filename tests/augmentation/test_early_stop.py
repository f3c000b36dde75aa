"""Fewer views where they are not needed, against a simulation one input at a time."""

from math import ceil
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug import InstaAug, TestTimeAugmentation
from instaaug import transforms as T
from instaaug.augmentation.at_test_time import Budget, Merge
from instaaug.errors import ArgumentError, ShapeError
from tests.support.models import images
from tests.support.operators import Counter
from tests.support.shifted import Shifted, loose_classifier

RULES = pytest.mark.parametrize("merge", get_args(Merge))
CHUNKS = pytest.mark.parametrize("chunk_size", [5, None])
N, BATCH = 6, 14


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def weights() -> Tensor:
    return torch.rand(N, BATCH, generator=torch.Generator().manual_seed(7))


def prefix(tta: TestTimeAugmentation, outputs: Tensor, weight: Tensor) -> Tensor:
    """What the first of the views say together: (k, C) and (k,) to (C,)."""
    if tta.merging.merge == "probability":
        powers = outputs.softmax(dim=1).mean(dim=0) ** (1 / tta.merging.temperature)
        return (powers / powers.sum()).log()
    if tta.merging.merge == "confidence":
        weight = torch.stack([(o.softmax(0) * o.log_softmax(0)).sum().exp() for o in outputs])
    if tta.merging.merge in ("weighted", "confidence"):
        outputs = outputs * (weight / weight.sum() * len(weight))[:, None]
    return outputs.mean(dim=0) / tta.merging.temperature


def simulated(tta: TestTimeAugmentation, x: Tensor) -> tuple[Tensor, list[int]]:
    """Merged outputs and views of each input, by the rules as they are written down."""
    theta = tta.samples(x, seeded())
    outputs = torch.stack([tta.model(x + t[..., None, None]) for t in theta]).detach()
    merged = [
        [prefix(tta, outputs[:k, i], weights()[:k, i]) for k in range(1, N + 1)]
        for i in range(len(x))
    ]
    top = [[float(m.softmax(dim=0).max()) for m in row] for row in merged]
    n_views = [1] * len(x)
    while True:
        going = [i for i, k in enumerate(n_views) if k < N]
        if tta.budget.certainty is not None:
            going = [i for i in going if top[i][n_views[i] - 1] < tta.budget.certainty]
        if tta.budget.mean_views is not None:
            left = int(tta.budget.mean_views * len(x)) - sum(n_views)
            going = sorted(going, key=lambda i: top[i][n_views[i] - 1])[: ceil(left / 2)]
        if not going:
            chosen = [row[k - 1] for row, k in zip(merged, n_views, strict=True)]
            return torch.stack(chosen), n_views
        for i in going:
            n_views[i] += 1


# --- against the simulation ---------------------------------------------------------------------


@CHUNKS
@RULES
@pytest.mark.parametrize(
    "budget",
    [
        {"certainty": 0.55},
        {"certainty": 0.75, "temperature": 0.6},
        {"mean_views": 1.5},
        {"mean_views": 3.0},
        {"certainty": 0.6, "mean_views": 2.5},
    ],
    ids=str,
)
def test_outputs_and_counts_are_those_of_the_simulation(
    merge: Merge, chunk_size: int | None, budget: dict[str, Any]
) -> None:
    x, aug = images(BATCH), Shifted(weights())
    tta = aug.wrap(loose_classifier(), N, merge=merge, chunk_size=chunk_size, **budget)
    outputs, n_views = tta.outputs_and_counts(x, seeded())
    expected, counts = simulated(tta, x)
    assert n_views.tolist() == counts
    assert len(set(counts)) > 1  # or nothing was tested
    torch.testing.assert_close(outputs, expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(tta(x, seeded()), outputs)


@RULES
@pytest.mark.parametrize("reads_model", [False, True])
def test_where_nothing_is_certain_all_views_are_merged(merge: Merge, reads_model: bool) -> None:
    x, aug = images(BATCH), Shifted(weights(), reads_model=reads_model)
    plain = aug.wrap(loose_classifier(), N, merge=merge)
    expected, all_views = plain.outputs_and_counts(x, seeded())
    assert all_views.tolist() == [N] * BATCH
    for budget in ({"certainty": 1.0}, {"mean_views": float(N)}, {"mean_views": 100.0}):
        tta = aug.wrap(loose_classifier(), N, merge=merge, **budget)  # type: ignore[arg-type]
        outputs, n_views = tta.outputs_and_counts(x, seeded())
        assert n_views.tolist() == [N] * BATCH
        torch.testing.assert_close(outputs, expected, atol=1e-5, rtol=1e-5)


# --- certainty ----------------------------------------------------------------------------------


def test_each_input_stops_at_its_first_certain_view() -> None:
    x = images(BATCH)
    tta = Shifted().wrap(loose_classifier(), N, certainty=0.55)
    _, n_views = tta.outputs_and_counts(x, seeded())
    outputs = torch.stack([tta.model(x + t[..., None, None]) for t in tta.samples(x, seeded())])
    outputs = outputs.detach()
    for i, k in enumerate(n_views.tolist()):
        tops = [float(outputs[:j, i].mean(dim=0).softmax(dim=0).max()) for j in range(1, k + 1)]
        assert all(top < 0.55 for top in tops[:-1])
        assert tops[-1] >= 0.55 or k == N


def test_a_view_each_is_enough_where_all_is_certain() -> None:
    tta = Shifted().wrap(loose_classifier(), N, certainty=1e-3)
    outputs, n_views = tta.outputs_and_counts(images(BATCH), seeded())
    assert n_views.tolist() == [1] * BATCH
    first = images(BATCH) + tta.samples(images(BATCH), seeded())[0][..., None, None]
    torch.testing.assert_close(outputs, tta.model(first))


def test_an_input_is_judged_alone() -> None:
    """The others in the batch change nothing, as long as views are not rationed."""
    aug, x = InstaAug(T.Crop(levels=((1.0, 1), (0.5, 4)))), images(6)
    tta = aug.wrap(loose_classifier(), 8, select="top", certainty=0.6)
    outputs, n_views = tta.outputs_and_counts(x)
    assert len(n_views.unique()) > 1
    for i in range(6):
        alone, count = tta.outputs_and_counts(x[i : i + 1])
        assert int(count) == int(n_views[i])
        torch.testing.assert_close(alone[0], outputs[i], atol=1e-5, rtol=1e-5)


def test_what_is_not_a_number_gets_no_further_view() -> None:
    class Broken(nn.Module):
        @override
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1)[:, :2] * torch.nan

    tta = Shifted().wrap(Broken(), N, certainty=0.9)
    assert tta.outputs_and_counts(images(3))[1].tolist() == [1, 1, 1]


# --- a ration of views --------------------------------------------------------------------------


@pytest.mark.parametrize("mean_views", [1.0, 1.13, 2.57, 6.0, 40.0])
@pytest.mark.parametrize("batch", [1, 7, 100])
def test_where_nothing_is_certain_the_ration_is_spent_to_the_last(
    batch: int, mean_views: float
) -> None:
    tta = Shifted().wrap(loose_classifier(), N, mean_views=mean_views)
    _, n_views = tta.outputs_and_counts(images(batch, height=2, width=2))
    assert n_views.sum() == min(N * batch, int(round(mean_views * 100) * batch / 100))
    assert int(n_views.min()) >= 1
    assert int(n_views.max()) <= N


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("certainty", "mean_views"), [(0.5, 1.5), (0.6, 3.0), (0.75, 4.5)])
def test_the_ration_is_left_unspent_only_where_all_is_certain(
    seed: int, certainty: float, mean_views: float
) -> None:
    x, batch = images(30, seed=seed), 30
    tta = Shifted().wrap(loose_classifier(), N, certainty=certainty, mean_views=mean_views)
    outputs, n_views = tta.outputs_and_counts(x, seeded())
    certain = outputs.softmax(dim=1).amax(dim=1) >= certainty
    assert n_views.sum() <= mean_views * batch
    assert n_views.sum() == mean_views * batch or (certain | (n_views == N)).all()


def test_the_least_certain_get_what_is_left() -> None:
    """Nine views for eight inputs: one gets a second."""
    x = images(8)
    tta = Shifted().wrap(loose_classifier(), N, mean_views=1.125)
    _, n_views = tta.outputs_and_counts(x, seeded())
    first = tta.model(x + tta.samples(x, seeded())[0][..., None, None])
    least = int(first.softmax(dim=1).amax(dim=1).argmin())
    assert n_views.tolist() == [2 if i == least else 1 for i in range(8)]


# --- what it costs ------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [{"certainty": 0.6}, {"mean_views": 2.5}], ids=str)
@pytest.mark.parametrize(("chunk_size", "largest"), [(1, 1), (5, 5), (None, 32)])
def test_the_model_sees_the_counted_views_and_no_more_than_a_chunk(
    budget: dict[str, Any], chunk_size: int | None, largest: int
) -> None:
    rows: list[int] = []
    model = loose_classifier()
    model.register_forward_hook(lambda _m, inputs, _out: rows.append(len(inputs[0])))
    tta = Shifted().wrap(model, N, chunk_size=chunk_size, **budget)
    _, n_views = tta.outputs_and_counts(images(40), seeded())
    assert sum(rows) == n_views.sum() < N * 40
    assert max(rows) == largest


def operators(batch: int, **budget: Any) -> int:
    """How many a call takes if a chunk holds everything."""
    tta = Shifted().wrap(loose_classifier(), N, chunk_size=1000, **budget)
    with torch.no_grad(), Counter() as counter:
        tta(images(batch, height=2, width=2))
    return counter.total


@pytest.mark.parametrize("budget", [{}, {"certainty": 1.0}], ids=str)
def test_the_work_does_not_loop_over_images(budget: dict[str, Any]) -> None:
    assert operators(10, **budget) == operators(60, **budget)


def test_twice_the_images_need_one_round_more_to_share_out_the_views() -> None:
    few, more, many = (operators(batch, mean_views=2.0) for batch in (30, 60, 120))
    assert 0 < more - few == many - more


def test_gradients_reach_the_model_through_all_rounds() -> None:
    model = loose_classifier()
    x, aug = images(BATCH), Shifted(weights())
    rounds, plain = (
        torch.autograd.grad(
            aug.wrap(model, N, merge="weighted", certainty=c)(x, seeded()).square().sum(),
            list(model.parameters()),
        )
        for c in (1.0, None)
    )
    torch.testing.assert_close(rounds, plain, atol=1e-4, rtol=1e-4)


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [{"certainty": 0.9}, {"mean_views": 2.0}], ids=str)
@pytest.mark.parametrize("shape", [(-1,), (-1, 1), (-1, 3, 4)])
def test_outputs_without_classes_are_refused(
    budget: dict[str, Any], shape: tuple[int, ...]
) -> None:
    class Other(nn.Module):
        @override
        def forward(self, x: Tensor) -> Tensor:
            width = 12 if len(shape) == 3 else 1
            return x.flatten(1)[:, :width].reshape(shape)

    message = (
        r"logit per class, \(N, C\) with C ≥ 2, for `certainty` and `mean_views`: got \(3.*out"
    )
    with pytest.raises(ShapeError, match=message):
        Shifted().wrap(Other(), N, **budget)(images(3))


@pytest.mark.parametrize("certainty", [0.0, -0.5, 1.01, 95.0, float("nan")])
def test_a_certainty_that_is_no_probability_is_refused(certainty: float) -> None:
    with pytest.raises(ArgumentError, match=r"`certainty` must be a probability in \(0, 1\]: got"):
        Budget(certainty=certainty)


@pytest.mark.parametrize("mean_views", [0.0, 0.9, -3.0, float("nan"), float("inf")])
def test_less_than_a_view_each_is_refused(mean_views: float) -> None:
    with pytest.raises(ArgumentError, match=r"`mean_views` must be at least 1, for every .*: got"):
        Budget(mean_views=mean_views)
