"""Votes of neighbors against a naive double loop, and limits that are known."""

from math import exp, log
from typing import Any

import pytest
import torch
from torch import Tensor

from instaaug.errors import ArgumentError, ShapeError
from instaaug.scores import ClassificationTally
from instaaug.tasks.representation import neighbor_scores

N_CLASSES = 4


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
