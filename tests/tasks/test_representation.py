"""Probes against scipy on the same objective, planted rules, and the choice of the decay."""

from math import exp, log
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp
from torch import Tensor
from torch.nn import functional as F

from instaaug.errors import ArgumentError, ShapeError
from instaaug.scores import ClassificationTally
from instaaug.tasks import representation
from instaaug.tasks.representation import FittedProbe, fit_probe, neighbor_scores

N_CLASSES = 4


def clouds(
    n: int = 90, d: int = 5, num_classes: int = 3, *, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Correlated features of overlapping classes, none of which is empty."""
    random = torch.Generator().manual_seed(seed)
    targets = torch.arange(n) % num_classes
    centers = torch.randn(num_classes, d, generator=random)
    mixing = torch.randn(d, d, generator=random)
    return (torch.randn(n, d, generator=random) + centers[targets]) @ mixing + 3, targets


def with_decay(decay: float, data: tuple[Tensor, Tensor], num_classes: int = 3) -> FittedProbe:
    return fit_probe(*data, num_classes=num_classes, decays=[decay])


def accuracy(fitted: FittedProbe, features: Tensor, targets: Tensor) -> float:
    return float((fitted.probe(features).argmax(dim=1) == targets).double().mean())


def naive_objective(flat: np.ndarray, z: np.ndarray, y: np.ndarray, decay: float) -> float:
    """The objective as the docstring states it."""
    table = flat.reshape(-1, z.shape[1] + 1)
    weights, bias = table[:, :-1], table[:, -1]
    logits = z @ weights.T + bias
    losses = logsumexp(logits, axis=1) - logits[np.arange(len(y)), y]
    return float(np.mean(losses) + decay / 2 * np.sum(weights**2))


def slopes(fitted: FittedProbe, features: Tensor, targets: Tensor) -> float:
    """The largest derivative of the objective at the probe, by autograd in double precision."""
    probe = fitted.probe.double()
    loss = F.cross_entropy(probe(features), targets)
    loss = loss + fitted.decay / 2 * probe.weight.square().sum()
    gradients = torch.autograd.grad(loss, [probe.weight, probe.bias])
    return max(float(gradient.abs().max()) for gradient in gradients)


# --- the minimum --------------------------------------------------------------------------------


@pytest.mark.parametrize("decay", [1.0, 0.03])
def test_the_minimum_is_that_of_scipy_on_the_naive_objective(decay: float) -> None:
    features, targets = clouds(40, 3)
    probe = with_decay(decay, (features, targets)).probe
    z = features.double().numpy()
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    found = minimize(
        naive_objective, np.zeros(12), (z, targets.numpy(), decay), options={"gtol": 1e-6}
    )
    table = torch.from_numpy(found.x).reshape(3, 4).float()
    torch.testing.assert_close(probe.weight.data, table[:, :-1], atol=1e-4, rtol=0)
    centered = table[:, -1] - table[:, -1].mean()  # the loss ignores a common offset
    torch.testing.assert_close(probe.bias.data, centered, atol=1e-4, rtol=0)


@pytest.mark.parametrize("decay", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("shape", [(90, 5), (30, 50)], ids=["tall", "wide"])
def test_the_objective_is_flat_at_the_probe(decay: float, shape: tuple[int, int]) -> None:
    data = clouds(*shape)
    assert slopes(with_decay(decay, data), *data) < 1e-5


def test_neither_chunks_nor_single_precision_move_the_minimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = clouds()
    expected = with_decay(1e-2, data).probe
    monkeypatch.setattr(representation, "ROWS_AT_ONCE", 7)
    chunked = with_decay(1e-2, data).probe
    torch.testing.assert_close(chunked.state_dict(), expected.state_dict(), atol=1e-6, rtol=1e-5)
    monkeypatch.setattr(representation, "MOST_IN_DOUBLE", 0)
    single = with_decay(1e-2, data)
    torch.testing.assert_close(single.probe.weight, expected.weight, atol=1e-3, rtol=0)
    assert slopes(single, *data) < 1e-4


def test_units_and_offsets_of_features_do_not_matter() -> None:
    features, targets = clouds()
    expected = with_decay(0.01, (features, targets)).probe(features)
    changed = features * torch.tensor([1e-3, 1.0, 50.0, 1e3, 1.0]) + 7
    logits = with_decay(0.01, (changed, targets)).probe(changed)
    torch.testing.assert_close(logits, expected, atol=1e-3, rtol=0)


def test_a_constant_feature_gets_no_weight() -> None:
    features, targets = clouds()
    features[:, 2] = 0.1
    probe = with_decay(0.01, (features, targets)).probe
    assert probe.weight[:, 2].abs().max() < 1e-6


def test_a_planted_linear_rule_is_recovered() -> None:
    random = torch.Generator().manual_seed(3)
    rule = torch.randn(4, 6, generator=random)
    features = torch.randn(1200, 6, generator=random)
    targets = (features @ rule.T).argmax(dim=1)
    fitted = fit_probe(features[:800], targets[:800], num_classes=4)
    assert accuracy(fitted, features[800:], targets[800:]) > 0.93
    assert fitted.decay < 1e-2  # there is nothing to be cautious of


# --- the decay ----------------------------------------------------------------------------------


def noisy(*, seed: int) -> tuple[Tensor, Tensor]:
    """Each of ten features is higher in a class of its own, 290 tell nothing."""
    random = torch.Generator().manual_seed(seed)
    targets = torch.arange(2000) % 10
    features = torch.randn(2000, 300, generator=random)
    features[torch.arange(2000), targets] += 2.0
    return features, targets


def test_the_decay_is_chosen_on_features_that_were_not_fitted() -> None:
    """The weak decay learns the noise by heart.

    With other seeds the strong one led by 3.4 standard deviations on the part set aside and by
    0.085 ± 0.009 on new inputs, so that a correct choice fails here with probability 1e-3 at most.
    """
    train, test = noisy(seed=0), noisy(seed=1)
    weak = with_decay(1e-5, train, 10)
    chosen = fit_probe(*train, num_classes=10, decays=[0.1, 1e-5], validation_fraction=0.4)
    assert accuracy(weak, *train) > accuracy(chosen, *train) + 0.1  # it would win on these
    assert chosen.decay == 0.1
    assert accuracy(chosen, *test) > accuracy(weak, *test) + 0.04


def test_validation_is_the_accuracy_of_a_probe_of_the_other_features() -> None:
    features, targets = clouds(120)
    fitted = fit_probe(features, targets, num_classes=3, seed=4, decays=[1.0, 0.01])
    held_out = representation._held_out_rows(targets, 0.2, 4)
    stays = torch.ones(120, dtype=torch.bool)
    stays[held_out] = False
    for decay, value in fitted.validation.items():
        other = with_decay(decay, (features[stays], targets[stays]))
        assert value == accuracy(other, features[held_out], targets[held_out])


def test_of_equally_good_decays_the_strongest_is_chosen_in_whatever_order() -> None:
    features = torch.cat([torch.full((20, 1), -1.0), torch.full((20, 1), 1.0)])
    targets = torch.arange(40) // 20
    fitted = fit_probe(features, targets, num_classes=2, decays=[1e-3, 0.1, 1e-2, 0.1])
    assert fitted.decay == 0.1
    assert fitted.validation == {0.1: 1.0, 1e-2: 1.0, 1e-3: 1.0}
    assert list(fitted.validation) == [0.1, 1e-2, 1e-3]


def test_the_same_seed_gives_the_same_bits() -> None:
    data = clouds()
    one, same = (fit_probe(*data, num_classes=3, seed=5, decays=[0.1, 0.01]) for _ in range(2))
    assert one.validation == same.validation
    for name, value in one.probe.state_dict().items():
        assert torch.equal(value, same.probe.state_dict()[name])


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=2, max_size=6),
    fraction=st.floats(0.05, 0.95),
    seed=st.integers(0, 99),
)
def test_each_class_gives_its_share_and_keeps_one(
    sizes: list[int], fraction: float, seed: int
) -> None:
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    held_out = representation._held_out_rows(labels, fraction, seed)
    assert len(held_out.unique()) == len(held_out)
    given = labels[held_out].bincount(minlength=len(sizes)).tolist()
    for size, count in zip(sizes, given, strict=True):
        assert abs(count - fraction * (size - 1)) < 2
        assert count <= size - 1
    assert (sum(given) > 0) == (max(sizes) > 1)
    assert torch.equal(held_out, representation._held_out_rows(labels, fraction, seed))


def test_seeds_set_different_features_aside() -> None:
    labels = torch.arange(100) % 2
    drawn = {
        tuple(sorted(representation._held_out_rows(labels, 0.2, seed).tolist()))
        for seed in range(5)
    }
    assert len(drawn) == 5


# --- few inputs, odd inputs ---------------------------------------------------------------------


def test_a_class_of_one_input_is_fitted() -> None:
    features, targets = clouds(31, num_classes=2)
    features[-1] += 100
    targets[-1] = 2
    fitted = fit_probe(features, targets, num_classes=3)
    assert int(fitted.probe(features[-1:]).argmax()) == 2


def test_with_one_input_per_class_the_strongest_decay_is_used() -> None:
    fitted = fit_probe(torch.eye(3), torch.arange(3), num_classes=3)
    assert (fitted.decay, fitted.validation) == (1.0, {})
    assert fitted.probe(torch.eye(3)).argmax(dim=1).tolist() == [0, 1, 2]


def test_a_class_without_inputs_is_never_predicted_and_leaves_the_others_as_they_are() -> None:
    features, targets = clouds(num_classes=2)
    expected = with_decay(0.1, (features, targets), 2).probe(features)
    logits = with_decay(0.1, (features, 3 * targets), 5).probe(features)  # classes 0 and 3
    torch.testing.assert_close(logits[:, [0, 3]], expected)
    assert logits[:, [1, 2, 4]].max() < logits[:, [0, 3]].max(dim=1).values.min() - 20
    assert torch.isfinite(logits).all()


def test_features_in_half_precision_with_gradient_and_narrow_targets_do() -> None:
    features, targets = clouds()
    half = features.half()
    expected = with_decay(0.1, (half.double(), targets)).probe
    found = with_decay(0.1, (half.requires_grad_(), targets.int())).probe
    torch.testing.assert_close(found.state_dict(), expected.state_dict(), atol=1e-5, rtol=1e-4)
    assert found.weight.requires_grad


# --- refusals -----------------------------------------------------------------------------------

FEATURES, TARGETS = torch.rand(4, 2), torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"features": torch.rand(4)}, ShapeError, r"`features` must be \(N, D\).*got \(4,\)"),
        ({"features": torch.rand(4, 0)}, ShapeError, r"not empty: got \(4, 0\)"),
        ({"features": torch.rand(4, 2, 3, 3)}, ShapeError, "Maps need flatten"),
        ({"targets": torch.zeros(3).long()}, ShapeError, "`targets` must be one class per row of"),
        ({"targets": torch.zeros(4)}, ShapeError, r"4 whole numbers: got torch.float32"),
        ({"targets": TARGETS + 1}, ArgumentError, r"in \[0, 1\].*got classes from 1 to 2"),
        ({"targets": TARGETS - 1}, ArgumentError, "got classes from -1 to 0"),
        ({"targets": 0 * TARGETS}, ArgumentError, "two classes or more: got class 0 alone"),
        ({"features": FEATURES / 0}, ArgumentError, "must be finite: got 8 NaN or infinite"),
        ({"features": FEATURES * torch.nan}, ArgumentError, "Look for the input, or the weights"),
        ({"seed": -1}, ArgumentError, "`seed` must not be negative: got -1"),
        ({"validation_fraction": 0.0}, ArgumentError, r"must lie in \(0, 1\): got 0.0"),
        ({"validation_fraction": 1.0}, ArgumentError, r"must lie in \(0, 1\): got 1.0"),
        ({"decays": []}, ArgumentError, r"at least one: got \[\]"),
        ({"decays": [0.1, 0.0]}, ArgumentError, "`decays` must be positive and finite"),
        ({"decays": [torch.inf]}, ArgumentError, r"got \[inf\]"),
    ],
)
def test_what_cannot_be_fitted_is_refused(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    given = {"features": FEATURES, "targets": TARGETS, "num_classes": 2, **arguments}
    with pytest.raises(error, match=words):
        fit_probe(**given)


def problem(n: int = 30, m: int = 11, d: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    bank = torch.randn(n, d, generator=random, dtype=torch.float64)
    targets = torch.randint(N_CLASSES, (n,), generator=random)
    return bank, targets, torch.randn(m, d, generator=random, dtype=torch.float64)


def naive_shares(
    bank: Tensor, targets: Tensor, queries: Tensor, k: int, temperature: float
) -> Tensor:
    table = []
    for query in queries:
        cosines = [float(query @ row / query.norm() / row.norm()) for row in bank]
        nearest = sorted(range(len(bank)), key=lambda i: -cosines[i])[:k]
        votes = [0.0] * N_CLASSES
        for i in nearest:
            votes[int(targets[i])] += exp(cosines[i] / temperature)
        table.append([vote / sum(votes) for vote in votes])
    return torch.tensor(table, dtype=torch.float64)


@pytest.mark.parametrize("k", [1, 7, 30, 1000])
@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_shares_are_those_of_a_double_loop(k: int, temperature: float) -> None:
    bank, targets, queries = problem()
    scores = neighbor_scores(
        bank, targets, queries, num_classes=N_CLASSES, k=k, temperature=temperature
    )
    expected = naive_shares(bank, targets, queries, k, temperature).clamp(min=1e-12).log()
    torch.testing.assert_close(scores, expected)


@pytest.mark.parametrize("most", [1, 95, 10_000])  # one query, three, all at once
def test_chunks_change_nothing(most: int) -> None:
    bank, targets, queries = problem()
    expected = neighbor_scores(bank, targets, queries, num_classes=N_CLASSES)
    found = neighbor_scores(bank, targets, queries, num_classes=N_CLASSES, most_similarities=most)
    torch.testing.assert_close(found, expected)


def test_lengths_of_features_do_not_matter() -> None:
    bank, targets, queries = problem()
    expected = neighbor_scores(bank, targets, queries, num_classes=N_CLASSES)
    lengths = torch.linspace(0.1, 50, len(bank), dtype=torch.float64)[:, None]
    found = neighbor_scores(bank * lengths, targets, 9 * queries, num_classes=N_CLASSES)
    torch.testing.assert_close(found, expected)


def test_at_a_low_temperature_the_nearest_decides_alone() -> None:
    bank, targets, queries = problem()
    one = neighbor_scores(bank, targets, queries, num_classes=N_CLASSES, k=1)
    cold = neighbor_scores(bank, targets, queries, num_classes=N_CLASSES, temperature=1e-5)
    torch.testing.assert_close(cold, one)
    assert torch.isfinite(cold).all()


def test_at_a_high_temperature_a_whole_bank_votes_by_class_frequency() -> None:
    bank, targets, queries = problem()
    scores = neighbor_scores(bank, targets, queries, num_classes=N_CLASSES, k=30, temperature=1e9)
    frequency = targets.bincount(minlength=N_CLASSES).double() / 30
    torch.testing.assert_close(scores.exp(), frequency.expand(11, -1))


def test_scores_can_be_counted_like_logits() -> None:
    bank, targets, queries = problem()
    scores = neighbor_scores(bank, targets, queries, num_classes=N_CLASSES, k=1)
    labels = scores.argmax(dim=1)
    labels[0] = (labels[0] + 1) % N_CLASSES  # a class without a vote
    tally = ClassificationTally()
    tally.add(scores, labels)
    found = tally.scores()
    assert found["top1"] == pytest.approx(10 / 11)
    assert found["nll"] == pytest.approx(-log(1e-12) / 11, rel=1e-5)


def test_half_precision_is_compared_in_single() -> None:
    bank, targets, queries = (t.half() if t.is_floating_point() else t for t in problem())
    found = neighbor_scores(bank, targets.int(), queries, num_classes=N_CLASSES)
    assert found.dtype == torch.float32
    expected = neighbor_scores(bank.float(), targets, queries.float(), num_classes=N_CLASSES)
    assert torch.equal(found, expected)


def test_features_that_are_all_zero_are_equally_far_from_everything() -> None:
    bank, targets, _ = problem()
    scores = neighbor_scores(bank, targets, torch.zeros(1, 5), num_classes=N_CLASSES, k=30)
    frequency = targets.bincount(minlength=N_CLASSES).double() / 30
    torch.testing.assert_close(scores.exp(), frequency[None])


def test_no_queries_have_no_scores() -> None:
    bank, targets, _ = problem()
    scores = neighbor_scores(bank, targets, torch.zeros(0, 5), num_classes=N_CLASSES)
    assert scores.shape == (0, N_CLASSES)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"bank": torch.rand(3)}, ShapeError, r"`bank` must be \(N, D\)"),
        ({"bank_targets": torch.zeros(2).long()}, ShapeError, "`bank_targets` must be one class"),
        ({"bank_targets": torch.tensor([0, 1, 2])}, ArgumentError, "got classes from 0 to 2"),
        ({"bank": torch.full((3, 2), torch.nan)}, ArgumentError, "`bank` must be finite: got 6"),
        ({"queries": torch.rand(1, 3)}, ShapeError, r"`queries` must be \(M, 2\).*got \(1, 3\)"),
        ({"queries": torch.rand(2)}, ShapeError, "Take both from the same encoder"),
        ({"queries": torch.full((1, 2), torch.inf)}, ArgumentError, "`queries` must be finite"),
        ({"k": 0}, ArgumentError, "`k` must be 1 or more: got 0"),
        ({"most_similarities": 0}, ArgumentError, "`most_similarities` must be 1 or more"),
        ({"temperature": 0.0}, ArgumentError, "`temperature` must be positive and finite: got 0"),
        ({"temperature": torch.nan}, ArgumentError, "got nan"),
    ],
)
def test_what_cannot_be_counted_is_refused(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    given = {
        "bank": torch.rand(3, 2), "bank_targets": torch.tensor([0, 1, 1]),
        "queries": torch.rand(1, 2), "num_classes": 2, **arguments,
    }  # fmt: skip
    with pytest.raises(error, match=words):
        neighbor_scores(**given)
