"""Temperatures against a brute-force search, closed forms, and symmetries."""

from math import log, log10

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from instaaug.errors import ArgumentError, NonFiniteError, ShapeError
from instaaug.frozen.calibration import HIGHEST, LOWEST, calibration_table, fit_temperature


def outcomes(
    n: int = 300, num_classes: int = 5, *, sharpness: float = 1.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Labels drawn from a softmax whose logits are then multiplied by ``sharpness``."""
    random = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, num_classes, generator=random, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=random)[:, 0]
    return logits * sharpness, labels


def best_on_a_grid(logits: Tensor, labels: Tensor) -> float:
    """The best of 2,000 temperatures, equally spaced in their logarithm."""
    temperatures = torch.logspace(log10(LOWEST), log10(HIGHEST), 2000, dtype=torch.float64)
    losses = [F.cross_entropy(logits / t, labels) for t in temperatures]
    return float(temperatures[torch.stack(losses).argmin()])


@pytest.mark.parametrize("sharpness", [0.2, 1.0, 4.0])
def test_the_temperature_is_the_best_of_a_fine_grid(sharpness: float) -> None:
    logits, labels = outcomes(sharpness=sharpness)
    found = fit_temperature(logits, labels)
    assert found == pytest.approx(best_on_a_grid(logits, labels), rel=0.002)  # half a grid step


@pytest.mark.parametrize("seed", range(3))
def test_the_slope_is_zero_at_the_temperature(seed: int) -> None:
    logits, labels = outcomes(seed=seed, sharpness=2.0)
    temperature = torch.tensor(fit_temperature(logits, labels), dtype=torch.float64)
    inverse = (1 / temperature).requires_grad_()
    (slope,) = torch.autograd.grad(F.cross_entropy(logits * inverse, labels), inverse)
    assert abs(float(slope)) < 1e-8


@pytest.mark.parametrize("scale", [3.0, 0.5])
def test_scaled_logits_scale_the_temperature(scale: float) -> None:
    logits, labels = outcomes()
    expected = scale * fit_temperature(logits, labels)
    assert fit_temperature(scale * logits, labels) == pytest.approx(expected, rel=1e-8)


def test_neither_offsets_nor_the_order_of_rows_matter() -> None:
    logits, labels = outcomes()
    expected = fit_temperature(logits, labels)
    offset = 100 * torch.linspace(-1, 1, len(logits), dtype=torch.float64)[:, None]
    assert fit_temperature(logits + offset, labels) == pytest.approx(expected, rel=1e-8)
    assert fit_temperature(logits.flip(0), labels.flip(0)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("right", "expected"), [(0.75, 4 / log(3)), (0.6, 4 / log(1.5))])
def test_two_classes_have_a_closed_form(right: float, expected: float) -> None:
    """Confidence equals accuracy: σ(4 / T) = share of right ones."""
    labels = (torch.arange(20) >= 20 * right).long()
    logits = torch.tensor([[4.0, 0.0]]).repeat(20, 1)
    assert fit_temperature(logits, labels) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    ("logits", "label", "expected"),
    [
        ([3.0, 0.0, 1.0], 0, LOWEST),
        ([3.0, 0.0, 1.0], 1, HIGHEST),
        ([1e4, 0.0, 1.0], 0, 1.0),
        ([1e4, 0.0, 1.0], 1, HIGHEST),
        ([1e-6, 0.0, 0.0], 0, LOWEST),
        ([2.0, 2.0, 2.0], 1, 1.0),
    ],
)
def test_what_has_no_best_temperature_stays_in_bounds(
    logits: list[float], label: int, expected: float
) -> None:
    """All right, all wrong, both with certainty, nearly nothing said, nothing said."""
    rows = torch.tensor([logits]).repeat(7, 1)
    assert fit_temperature(rows, torch.full((7,), label)) == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_precisions_and_many_rows_give_the_same(dtype: torch.dtype) -> None:
    logits, labels = outcomes(5000, 3)  # more than are read at once
    rounded = logits.to(dtype)
    expected = fit_temperature(rounded.double(), labels)
    assert fit_temperature(rounded, labels.int()) == pytest.approx(expected, rel=1e-9)


def test_the_table_tells_scores_before_and_after() -> None:
    logits, labels = outcomes(4000, sharpness=3.0)
    table = calibration_table(logits, labels, 3.0)
    for when, divisor in (("before", 1), ("after", 3)):
        nll = float(F.cross_entropy(logits / divisor, labels))
        assert table[when]["nll"] == pytest.approx(nll, rel=1e-5)
    assert table["before"]["ece"] > 0.15
    assert table["after"]["ece"] < 0.04  # five times the standard error of 4,000 labels


def test_bad_arguments_are_refused() -> None:
    logits, labels = torch.zeros(4, 3), torch.zeros(4, dtype=torch.long)
    with pytest.raises(ShapeError, match=r"`logits` must be \(N, C\).*got \(4,\)"):
        fit_temperature(logits[:, 0], labels)
    with pytest.raises(ShapeError, match=r"at least one row and two classes: got \(4, 1\)"):
        fit_temperature(logits[:, :1], labels)
    with pytest.raises(ShapeError, match=r"`targets` must be one class per row.*\(3,\)"):
        fit_temperature(logits, labels[:3])
    with pytest.raises(ShapeError, match=r"4 whole numbers: got torch\.float32"):
        fit_temperature(logits, labels.float())
    with pytest.raises(ArgumentError, match=r"`targets` must lie in \[0, 2\].*from 0 to 3"):
        fit_temperature(logits, torch.arange(4))
    with pytest.raises(NonFiniteError, match="`logits` must be finite: got 3 NaN"):
        fit_temperature(torch.tensor([[float("nan")] * 3] + [[0.0] * 3] * 3), labels)
    with pytest.raises(ArgumentError, match="`temperature` must be positive and finite: got 0"):
        calibration_table(logits, labels, 0.0)
