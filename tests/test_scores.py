"""Scores against loops over rows, closed forms, and another library."""

from math import exp, isnan, log, sqrt

import numpy as np
import pytest
import torch
from torch import Tensor
from torchmetrics.functional.classification import (
    multiclass_accuracy,
    multiclass_calibration_error,
)

from instaaug.scores import ClassificationTally, RegressionTally, Tally

N_BINS = 15


def outcomes(n: int = 200, num_classes: int = 8, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits of all degrees of confidence, right more often than not."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(num_classes, (n,), generator=random)
    logits = torch.randn(n, num_classes, generator=random) * 2
    logits[torch.arange(n), labels] += 2.5
    return logits, labels


def measurements(n: int = 50, d: int = 1, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    targets = torch.randn(n, d, generator=random) * 3 + 1
    return targets + torch.randn(n, d, generator=random), targets


def naive_scores(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """One row at a time, in Python's own numbers."""
    top1 = top5 = nll = 0.0
    bins: dict[int, list[tuple[float, bool]]] = {}
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        weights = [exp(v) for v in row]
        probs = [w / sum(weights) for w in weights]
        ranking = sorted(range(len(row)), key=lambda k: -row[k])
        top1 += ranking[0] == label
        top5 += label in ranking[:5]
        nll -= log(probs[label])
        place = next(b for b in range(N_BINS) if max(probs) <= (b + 1) / N_BINS)
        bins.setdefault(place, []).append((max(probs), ranking[0] == label))
    n = len(labels)
    gaps = [
        len(rows) / n * abs(np.mean([c for c, _ in rows]) - np.mean([r for _, r in rows]))
        for rows in bins.values()
    ]
    return {"top1": top1 / n, "top5": top5 / n, "nll": nll / n, "ece": float(sum(gaps)), "n": n}


def scores_of(tally: Tally, outputs: Tensor, targets: Tensor) -> dict[str, float]:
    tally.add(outputs, targets)
    return tally.scores()


# --- classification -----------------------------------------------------------------------------


@pytest.mark.parametrize("num_classes", [6, 8, 40])
def test_scores_are_those_of_a_loop_over_rows(num_classes: int) -> None:
    logits, labels = outcomes(num_classes=num_classes)
    assert scores_of(ClassificationTally(), logits, labels) == pytest.approx(
        naive_scores(logits, labels), abs=1e-6
    )


def test_scores_are_those_of_torchmetrics() -> None:
    logits, labels = outcomes(num_classes=8)
    scores = scores_of(ClassificationTally(), logits, labels)
    settings = {"num_classes": 8, "average": "micro"}
    ece = multiclass_calibration_error(logits, labels, num_classes=8, n_bins=N_BINS)
    assert scores["ece"] == pytest.approx(float(ece), abs=1e-6)
    for k in (1, 5):
        accuracy = multiclass_accuracy(logits, labels, top_k=k, **settings)  # type: ignore[arg-type]
        assert scores[f"top{k}"] == pytest.approx(float(accuracy))


@pytest.mark.parametrize("num_classes", [2, 10])
def test_a_model_that_knows_nothing_scores_the_logarithm_of_the_classes(num_classes: int) -> None:
    labels = torch.arange(20) % num_classes
    scores = scores_of(ClassificationTally(), torch.zeros(20, num_classes), labels)
    assert scores["nll"] == pytest.approx(log(num_classes))
    assert scores["ece"] == pytest.approx(abs(scores["top1"] - 1 / num_classes), abs=1e-6)


@pytest.mark.parametrize(("shift", "top1"), [(0, 1.0), (1, 0.0)])
def test_certainty_is_calibrated_if_right_and_not_if_wrong(shift: int, top1: float) -> None:
    labels = torch.arange(12) % 3
    logits = 100 * torch.eye(3)[(labels + shift) % 3]
    scores = scores_of(ClassificationTally(), logits, labels)
    expected = {"top1": top1, "nll": 100 * (1 - top1), "ece": 1 - top1, "n": 12}
    assert scores == pytest.approx(expected)


@pytest.mark.parametrize(("num_classes", "told"), [(2, False), (5, False), (6, True)])
def test_top5_is_told_only_where_it_can_be_missed(num_classes: int, *, told: bool) -> None:
    scores = scores_of(ClassificationTally(), *outcomes(num_classes=num_classes))
    assert ("top5" in scores) == told


@pytest.mark.parametrize("place", [0, 1])
def test_a_nan_is_not_hidden(place: int) -> None:
    logits, labels = torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])
    logits[2, place] = torch.nan
    scores = scores_of(ClassificationTally(), logits, labels)
    assert isnan(scores["nll"])
    assert isnan(scores["ece"])


# --- regression ---------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 3])
def test_errors_are_those_of_a_loop_over_rows(d: int) -> None:
    outputs, targets = measurements(d=d)
    scores = scores_of(RegressionTally(), outputs, targets)
    errors = [
        o - t
        for row in zip(outputs.tolist(), targets.tolist(), strict=True)
        for o, t in zip(*row, strict=True)
    ]
    assert scores["rmse"] == pytest.approx(sqrt(sum(e * e for e in errors) / len(errors)))
    assert scores["mae"] == pytest.approx(sum(abs(e) for e in errors) / len(errors))
    variance = targets.double().var(correction=0).item()
    assert scores["r2"] == pytest.approx(1 - scores["rmse"] ** 2 / variance)
    assert scores["n"] == 50


@pytest.mark.parametrize("unit", [1e-7, 1.0, 1e5])
@pytest.mark.parametrize(("kind", "r2"), [("perfect", 1.0), ("mean", 0.0), ("opposite", -3.0)])
def test_the_explained_variance_does_not_depend_on_the_unit(
    kind: str, r2: float, unit: float
) -> None:
    """Guessing the negative of centered targets doubles every error: 1 - 2² = -3."""
    targets = torch.arange(-10, 11, dtype=torch.float64) * unit
    outputs = {"perfect": targets, "mean": 0 * targets, "opposite": -targets}[kind]
    assert scores_of(RegressionTally(), outputs, targets)["r2"] == pytest.approx(r2, abs=1e-9)


@pytest.mark.parametrize(("output", "r2"), [(5.0, 1.0), (6.0, 0.0)])
def test_of_targets_that_are_all_the_same_nothing_is_explained(output: float, r2: float) -> None:
    scores = scores_of(RegressionTally(), torch.full((7,), output), torch.full((7,), 5.0))
    assert scores["r2"] == r2


@pytest.mark.parametrize("shape", [(6,), (6, 1)])
def test_a_column_and_a_row_of_outputs_are_the_same(shape: tuple[int, ...]) -> None:
    targets = torch.arange(6.0)
    assert scores_of(RegressionTally(), (targets + 1).reshape(shape), targets)["mae"] == 1.0


def test_a_nan_among_the_outputs_is_not_hidden() -> None:
    scores = scores_of(RegressionTally(), torch.tensor([1.0, torch.nan]), torch.tensor([1.0, 2.0]))
    assert all(isnan(scores[name]) for name in ("rmse", "mae", "r2"))


# --- both ---------------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize(
    ("tally", "data"),
    [(ClassificationTally, outcomes()), (RegressionTally, measurements(d=2))],
    ids=["classification", "regression"],
)


@BOTH
@pytest.mark.parametrize("piece", [1, 7, 49])
def test_counting_in_pieces_is_counting_at_once(
    tally: type[Tally], data: tuple[Tensor, Tensor], piece: int
) -> None:
    pieces, at_once = tally(), tally()  # type: ignore[call-arg]
    at_once.add(*data)
    for outputs, targets in zip(data[0].split(piece), data[1].split(piece), strict=True):
        pieces.add(outputs, targets)
    assert pieces.scores() == pytest.approx(at_once.scores(), abs=1e-6)


@BOTH
def test_a_batch_without_images_changes_nothing(
    tally: type[Tally], data: tuple[Tensor, Tensor]
) -> None:
    counted = tally()  # type: ignore[call-arg]
    counted.add(*data)
    before = counted.scores()
    counted.add(data[0][:0], data[1][:0])
    assert counted.scores() == before


@BOTH
def test_a_reset_forgets_everything(tally: type[Tally], data: tuple[Tensor, Tensor]) -> None:
    again = tally()  # type: ignore[call-arg]
    again.add(data[0] + 1, data[1].flip(0))
    again.reset()
    assert again.scores()["n"] == 0
    fresh = tally()  # type: ignore[call-arg]
    assert scores_of(again, *data) == scores_of(fresh, *data)


@BOTH
def test_outputs_keep_no_graph_alive(tally: type[Tally], data: tuple[Tensor, Tensor]) -> None:
    counted = tally()  # type: ignore[call-arg]
    counted.add(data[0].clone().requires_grad_(), data[1])
    assert not counted.sums.requires_grad
