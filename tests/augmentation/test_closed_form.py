"""The closed form: losses of all choices are predicted, and the best distribution follows."""

from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.errors import ArgumentError
from instaaug.objectives import ScoreFactor, closed_form_risk
from instaaug.parameterizations import (
    CategoricalFamily,
    ClosedFormFamily,
    CropGrid,
    equal_sizes,
)
from instaaug.parameterizations.invariance import box_means

N_INPUTS, N_CHOICES = 4, 6
FEW = T.Crop(levels=((0.5, 2), (1.0, 1)), max_outside=0.0)


def make_family(
    band: tuple[float, float],
    log_base: Tensor | None = None,
    weight: float = 1.0,
    is_relative: bool = False,
) -> ClosedFormFamily:
    rows = CategoricalFamily(torch.eye(N_CHOICES), torch.zeros(N_CHOICES))
    base = torch.zeros(N_CHOICES) if log_base is None else log_base
    return ClosedFormFamily(rows, base, band=band, weight=weight, is_relative=is_relative)


def mean_entropy(family: ClosedFormFamily, losses: Tensor, weight: Tensor | None = None) -> float:
    return float(family(losses, weight).entropy().mean())


# --- what is predicted --------------------------------------------------------------------------


@pytest.mark.parametrize("baseline", ["value", "rloo"])
def test_predictions_converge_to_the_losses(baseline: Any) -> None:
    """Every choice of every input is drawn, so that the optimum is known."""
    losses = torch.rand(N_INPUTS, N_CHOICES, dtype=torch.float64) * 3
    value = torch.zeros(N_INPUTS, dtype=torch.float64, requires_grad=True)
    raw = torch.zeros_like(losses, requires_grad=True)
    every = torch.arange(N_CHOICES)[:, None].expand(N_CHOICES, N_INPUTS)
    optimizer = torch.optim.LBFGS([value, raw], max_iter=300, line_search_fn="strong_wolfe")

    def risk() -> Tensor:
        optimizer.zero_grad()
        centered = raw - raw.mean(dim=1, keepdim=True)
        factor = ScoreFactor(torch.zeros_like(raw), every, centered)
        found = closed_form_risk(losses.T, [factor], baseline=baseline, value=value)
        found.backward()
        return found

    for _ in range(20):
        optimizer.step(risk)
    predicted = value[:, None] + raw - raw.mean(dim=1, keepdim=True)
    torch.testing.assert_close(predicted.detach(), losses, atol=1e-4, rtol=0)


def test_draws_from_any_distribution_have_the_same_minimizer() -> None:
    """Choices are drawn unevenly, three quarters of them the first; A is found all the same."""
    truth = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64)
    index = torch.tensor([[0], [0], [0], [0], [0], [0], [1], [2], [3], [4], [5], [0]])
    raw = torch.zeros(1, N_CHOICES, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([raw], max_iter=200, line_search_fn="strong_wolfe")

    def risk() -> Tensor:
        optimizer.zero_grad()
        factor = ScoreFactor(torch.zeros(1, N_CHOICES), index, raw - raw.mean())
        found = closed_form_risk(truth[index], [factor], baseline="rloo")
        found.backward()
        return found

    optimizer.step(risk)
    found = (raw - raw.mean()).detach()[0]
    torch.testing.assert_close(found, truth - truth.mean(), atol=1e-4, rtol=0)


def test_the_model_gets_the_gradient_of_the_mean_loss_alone() -> None:
    aug = InstaAug(FEW, estimator="closed_form", in_channels=1)
    scale = torch.tensor(2.0, requires_grad=True)
    batch = aug(torch.rand(8, 1, 16, 16), n_samples=2)
    aug.objective(scale * batch.inputs.mean(dim=(1, 2, 3)), batch).backward()
    assert scale.grad is not None
    torch.testing.assert_close(scale.grad, batch.inputs.mean())


def test_a_difficulty_common_to_all_choices_does_not_disturb_those_of_one_input() -> None:
    """With two samples, what an input's losses have in common is no error of A."""
    index = torch.tensor([[0, 1], [2, 3]])
    raw = torch.zeros(2, N_CHOICES, requires_grad=True)
    factor = ScoreFactor(torch.zeros(2, N_CHOICES), index, raw)
    losses = torch.tensor([[5.0, 90.0], [5.0, 90.0]])
    closed_form_risk(losses, [factor], baseline="rloo", value=torch.zeros(2)).backward()
    torch.testing.assert_close(raw.grad, torch.zeros(2, N_CHOICES))


# --- the best distribution ----------------------------------------------------------------------


def test_the_distribution_minimizes_loss_minus_weighted_entropy() -> None:
    losses = torch.rand(N_CHOICES, dtype=torch.float64) * 2
    weight = 0.4

    def risk(logits: np.ndarray) -> float:
        log_p = torch.log_softmax(torch.from_numpy(logits), dim=-1)
        return float((log_p.exp() * (losses + weight * log_p)).sum())

    numeric = torch.from_numpy(minimize(risk, np.zeros(N_CHOICES), tol=1e-12).x).softmax(dim=-1)
    ours = make_family((0.1, 1.0), weight=weight)(losses[None])
    torch.testing.assert_close(ours.probs[0], numeric, atol=1e-4, rtol=0)


def test_the_distribution_is_the_best_of_the_asked_entropy() -> None:
    """Two inputs that share one budget of entropy: a numeric optimizer finds the same."""
    losses = torch.tensor([[0.0, 0.3, 0.9, 1.0, 2.0, 2.5], [1.0, 1.1, 1.0, 1.2, 1.3, 1.1]])
    family = make_family((1.3, 1.3))
    for _ in range(60):
        weight = family.solve(losses)
    table = losses.double().numpy()

    def spread(p: np.ndarray) -> float:
        return float(-(p * np.log(p)).sum() / 2 - 1.3)

    def sums(p: np.ndarray) -> np.ndarray:
        return p.reshape(2, -1).sum(axis=1) - 1

    found = minimize(
        lambda p: float((p * table.ravel()).sum()),
        np.full(2 * N_CHOICES, 1 / N_CHOICES),
        method="SLSQP",
        bounds=[(1e-9, 1)] * (2 * N_CHOICES),
        constraints=[{"type": "ineq", "fun": spread}, {"type": "eq", "fun": sums}],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    ours = family(losses, weight)
    assert float(ours.entropy().mean()) == pytest.approx(1.3, abs=0.005)
    best = torch.from_numpy(found.x.reshape(2, -1)).float()
    torch.testing.assert_close(ours.probs, best, atol=0.01, rtol=0)


def test_within_the_band_the_weight_rests() -> None:
    losses = torch.rand(N_INPUTS, N_CHOICES)
    family = make_family((0.1, 1.79), weight=0.5)
    assert float(family.solve(losses)) == pytest.approx(0.5, rel=1e-6)
    assert float(family.weight) == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize("weight", [1e-3, 1e3])
def test_any_start_ends_in_the_band(weight: float) -> None:
    losses = torch.rand(N_INPUTS, N_CHOICES)
    family = make_family((0.9, 1.0), weight=weight)
    for _ in range(150):
        found = family.solve(losses)
    assert 0.89 < mean_entropy(family, losses, found) < 1.01
    assert 0.89 < mean_entropy(family, losses) < 1.01  # with the one that is kept


def test_a_single_batch_is_brought_into_the_band() -> None:
    losses = torch.rand(N_INPUTS, N_CHOICES)
    family = make_family((0.9, 1.0), weight=1e3)
    assert 0.89 < mean_entropy(family, losses, family.solve(losses)) < 1.01


def test_differences_that_are_small_beside_the_spread_of_losses_are_no_preference() -> None:
    predicted = 1e-3 * torch.rand(N_INPUTS, N_CHOICES)
    family = make_family((0.9, 1.0))
    family.observe(10 * torch.rand(1, 1000))
    assert mean_entropy(family, predicted, family.solve(predicted)) > 1.79  # of log 6
    family.observe(torch.zeros(1, 10))
    assert float(family.spread) == pytest.approx(
        0.9 * 2.89, rel=0.05
    )  # 10 / √12, then a tenth less


@pytest.mark.parametrize(("share", "nats"), [(1.0, 0.5), (0.1, 0.5), (0.03, 0.045), (0.01, 0.005)])
def test_preferences_grow_with_what_is_predicted_of_the_losses(share: float, nats: float) -> None:
    """Half a nat is used up where a tenth of the spread is known, and little where less is.

    To second order, choices that differ by a standard deviation of s λ are s²/2 nats away.
    """
    generator = torch.Generator().manual_seed(0)
    losses = torch.randn(1, 1000, generator=generator)
    predicted = share * torch.randn(N_INPUTS, N_CHOICES, generator=generator)
    band = (log(N_CHOICES) - 0.55, log(N_CHOICES) - 0.45)
    family = make_family(band, is_relative=True)
    for _ in range(100):
        family.observe(losses)
        weight = family.solve(predicted)
    assert log(N_CHOICES) - mean_entropy(family, predicted, weight) == pytest.approx(nats, rel=0.3)


def test_without_knowledge_all_sizes_are_equally_likely() -> None:
    grid = CropGrid([(0.25, 4), (0.5, 2), (1.0, 1)])
    probs = equal_sizes(grid).exp()
    sums = torch.stack([part.sum() for part in probs.split([16, 4, 1])])
    torch.testing.assert_close(sums, torch.full((3,), 1 / 3))
    aug = InstaAug(T.Crop(levels=((0.25, 4), (0.5, 2), (1.0, 1))), estimator="closed_form").eval()
    drawn = aug.distribution(torch.rand(2, 3, 16, 16)).finite()["crop"]
    torch.testing.assert_close(drawn.logits.exp(), probs.expand(2, -1), atol=1e-5, rtol=0)


def test_sizes_can_be_held_uniform_so_that_only_places_are_learned() -> None:
    crop = T.Crop(levels=((0.25, 4), (0.5, 2), (1.0, 1)), max_outside=0.0)
    aug = InstaAug(crop, estimator="closed_form", sizes="uniform", entropy=(1.6, 1.7))
    for p in aug.phi.heads.parameters():
        nn.init.normal_(p)
    for _ in range(40):
        drawn = aug(torch.rand(4, 3, 16, 16)).score_factors[0].log_probs
    sums = torch.stack([part.exp().sum(dim=1) for part in drawn.split([16, 4, 1], dim=1)])
    torch.testing.assert_close(sums, torch.full((3, 4), 1 / 3))
    entropy = float(-(drawn.exp() * drawn).sum(dim=1).mean())
    assert entropy == pytest.approx(1.65, abs=0.06)
    places = drawn[:, :16] - drawn[:, :16].logsumexp(dim=1, keepdim=True)
    assert float(places.exp().max()) > 2 / 16


# --- all of it ----------------------------------------------------------------------------------


def bright_quadrants(n: int) -> tuple[Tensor, Tensor]:
    """Gray images with one bright quadrant, and its number among the four boxes of a side."""
    which = torch.randint(4, (n,))
    x = torch.rand(n, 1, 16, 16) * 0.2
    for i, q in enumerate(which.tolist()):
        row, column = divmod(q, 2)
        x[i, :, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] += 0.8
    return x, which


@pytest.mark.parametrize("n_samples", [1, 2])
def test_boxes_of_low_loss_become_likely_for_inputs_never_seen(n_samples: int) -> None:
    """The loss is the darkness of a crop, and something of the input's own."""
    aug = InstaAug(FEW, estimator="closed_form", in_channels=1, entropy=(0.7, 0.8))
    optimizer = torch.optim.Adam(aug.parameters(), 1e-2)
    for _ in range(80):
        x, _ = bright_quadrants(32)
        batch = aug(x, n_samples=n_samples)
        own = 0.5 * torch.rand(32).repeat(n_samples)
        losses = 1 - batch.inputs.mean(dim=(1, 2, 3)) + own
        optimizer.zero_grad()
        aug.objective(losses, batch).backward()
        optimizer.step()
    x, which = bright_quadrants(200)
    drawn = aug.eval().distribution(x).finite()["crop"]
    assert float(drawn.logits[:, :4].argmax(dim=1).eq(which).float().mean()) > 0.9
    assert 0.55 < float(drawn.entropy().mean()) < 0.95


@pytest.mark.parametrize("conditioning", ["none", "class"])
def test_choices_can_be_learned_for_all_inputs_or_for_a_class(conditioning: Any) -> None:
    num_classes = 2 if conditioning == "class" else None
    aug = InstaAug(
        FEW, estimator="closed_form", in_channels=1, entropy=(0.7, 0.8),
        conditioning=conditioning, num_classes=num_classes,
    )  # fmt: skip
    optimizer = torch.optim.Adam(aug.parameters(), 0.1)
    truth, targets = torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0]), torch.zeros(16, dtype=torch.long)
    for _ in range(60):
        batch = aug(torch.rand(16, 1, 8, 8), targets=targets)
        losses = truth[batch.score_factors[0].index] + torch.rand(16)
        optimizer.zero_grad()
        aug.objective(losses.flatten(), batch).backward()
        optimizer.step()
    drawn = aug.distribution(torch.rand(1, 1, 8, 8), targets[:1]).finite()["crop"]
    assert int(drawn.logits[0].argmax()) == 2


def test_ranges_in_the_same_composition_keep_their_pathwise_gradient() -> None:
    aug = InstaAug([FEW, T.Rotation(), T.Flip()], estimator="closed_form", in_channels=1)
    batch = aug(torch.rand(4, 1, 16, 16), n_samples=2)
    weights = torch.rand(batch.inputs.shape)
    aug.objective((batch.inputs * weights).mean(dim=(1, 2, 3)), batch).backward()
    heads = dict(zip(aug.phi.names, aug.phi.heads, strict=True))
    for name in ("crop", "rotation", "flip"):
        slopes = [p.grad for p in heads[name].parameters() if p.grad is not None]
        assert any(float(slope.abs().sum()) > 0 for slope in slopes), name


def test_the_weight_moves_in_training_alone_and_is_saved(tmp_path: Path) -> None:
    aug = InstaAug(FEW, estimator="closed_form", in_channels=1, entropy=(0.5, 0.6))
    for p in aug.phi.heads.parameters():
        nn.init.normal_(p)
    x = torch.rand(4, 1, 16, 16)
    before = aug.weight.clone()
    aug.eval()(x)
    assert torch.equal(aug.weight, before)
    aug.train()(x)
    assert not torch.equal(aug.weight, before)
    aug.save(tmp_path / "aug.safetensors")
    again = InstaAug.load(tmp_path / "aug.safetensors")
    assert torch.equal(again.weight, aug.weight)
    for one in (aug.eval(), again.eval()):
        assert torch.equal(one.distribution(x).entropy(), aug.distribution(x).entropy())


def test_the_mean_over_boxes_is_that_of_their_places() -> None:
    grid = CropGrid([(0.5, 2), (1.0, 1)], max_outside=0.0)
    field = torch.rand(8, 8)
    direct = [
        field[:4, :4], field[:4, 4:], field[4:, :4], field[4:, 4:], field,
    ]  # fmt: skip
    ours = box_means(grid.boxes, 8) @ field.flatten()
    torch.testing.assert_close(ours, torch.stack([part.mean() for part in direct]))


def test_it_says_what_it_is() -> None:
    assert "closed form" in repr(InstaAug("crop", estimator="closed_form"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"transforms": "rotation"}, "needs a choice from a table"),
        ({"transforms": "crop", "baseline": "critic"}, "is for the score function"),
        ({"transforms": "crop", "entropy": (5.0, 5.5)}, "cannot be reached by the closed form"),
        (
            {"transforms": "crop", "entropy": (0.5, 0.6), "sizes": "uniform"},
            "the least that it may have is 1.1",
        ),
    ],
)
def test_what_the_closed_form_cannot_do(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        InstaAug(**settings, estimator="closed_form")


def test_sizes_are_held_by_the_closed_form_alone() -> None:
    with pytest.raises(ArgumentError, match="belongs to the closed form"):
        InstaAug("crop", sizes="uniform")
