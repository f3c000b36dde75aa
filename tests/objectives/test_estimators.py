"""Score-function estimators against enumeration.

Statistical tests compare the mean of M independent gradients with the enumerated one, component
by component, and allow five standard errors: an unbiased estimator fails with probability 6e-7
per component, below 2e-5 per test. Seeds are fixed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import grad, vmap

from instaaug.errors import ArgumentError
from instaaug.objectives import Baseline, ScoreFactor, exact_risk, score_risk
from instaaug.objectives.estimators import leave_one_out

N_INPUTS, N_DRAWS = 3, 100_000
Critic = Literal["absent", "wrong", "informed", "perfect"]
Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Problem:
    """Arbitrary losses of every input and every combination of choices, (B, K) or (B, K1, K2)."""

    losses: Tensor
    logits: Tensors

    @classmethod
    def with_choices(cls, *n_choices: int) -> "Problem":
        random = torch.Generator().manual_seed(1)
        logits = [torch.randn(N_INPUTS, k, generator=random) for k in n_choices]
        # Some inputs are harder than others: what a baseline can take away.
        level = torch.tensor([1.0, 2.0, 4.0]).view(-1, *[1] * len(n_choices))
        noise = torch.randn(N_INPUTS, *n_choices, generator=random)
        return cls(level + noise, tuple(logits))

    def risk(self, logits: Tensors) -> Tensor:
        """The expected loss, summed over everything that can happen."""
        joint = torch.ones(N_INPUTS)
        for part in logits:
            joint = joint[..., None] * part.softmax(-1).view(N_INPUTS, *[1] * (joint.ndim - 1), -1)
        return (joint * self.losses).flatten(1).sum(dim=1).mean()

    def gradient(self) -> Tensors:
        return grad(self.risk)(self.logits)

    def expected_given(self, factor: int) -> Tensor:
        """E[loss | choice of one factor], (B, K): the best that a critic can say."""
        value = self.losses
        for other in reversed(range(len(self.logits))):
            if other != factor:
                shape = [N_INPUTS] + [1] * len(self.logits)
                shape[1 + other] = -1
                value = (value * self.logits[other].softmax(-1).view(shape)).sum(1 + other)
                value = value.unsqueeze(1 + other)
        return value.flatten(1)

    def expected(self) -> Tensor:
        return (self.expected_given(0) * self.logits[0].softmax(-1)).sum(-1)

    def draw(self, n_samples: int, seed: int = 0) -> list[Tensor]:
        """Indices (M, n, B) of each factor."""
        random = torch.Generator().manual_seed(seed)
        size = (N_DRAWS, n_samples, N_INPUTS)
        return [
            torch.multinomial(
                part.softmax(-1), N_DRAWS * n_samples, replacement=True, generator=random
            ).T.view(size)
            for part in self.logits
        ]

    def losses_at(self, index: Sequence[Tensor]) -> Tensor:
        rows = torch.arange(N_INPUTS).expand_as(index[0])
        return self.losses[(rows, *index)]

    def critics(self, kind: Critic) -> list[Tensor | None]:
        if kind == "absent":
            return [None] * len(self.logits)
        best = [self.expected_given(i) for i in range(len(self.logits))]
        if kind == "wrong":
            return [-q.flip(-1) for q in best]
        return [q if kind == "perfect" else q + 0.3 * q.cos() for q in best]


ONE, TWO = Problem.with_choices(4), Problem.with_choices(3, 4)
PROBLEMS = pytest.mark.parametrize(
    "problem", [pytest.param(ONE, id="one_factor"), pytest.param(TWO, id="two_factors")]
)


def gradients(
    problem: Problem,
    baseline: Baseline,
    n_samples: int,
    *,
    critic: Critic = "absent",
    value: Tensor | None = None,
) -> Tensor:
    """One estimate per draw of a whole batch, all factors side by side: (M, B * sum of K)."""
    critics = problem.critics(critic)

    def risk(logits: Tensors, index: list[Tensor], losses: Tensor) -> Tensor:
        factors = [
            ScoreFactor(part.log_softmax(-1), drawn, q)
            for part, drawn, q in zip(logits, index, critics, strict=True)
        ]
        return score_risk(losses, factors, baseline=baseline, value=value)

    index = problem.draw(n_samples)
    per_draw: Callable[..., Tensors] = vmap(grad(risk), in_dims=(None, 0, 0))
    estimates = per_draw(problem.logits, index, problem.losses_at(index))
    return torch.cat([g.flatten(1) for g in estimates], dim=1)


def enumerated(problem: Problem) -> Tensor:
    return torch.cat([g.flatten() for g in problem.gradient()])


def distance_in_standard_errors(estimates: Tensor, truth: Tensor) -> float:
    error = estimates.std(dim=0) / len(estimates) ** 0.5
    assert error.max() < 0.1 * truth.abs().max()  # otherwise the test could not see anything
    return float(((estimates.mean(dim=0) - truth).abs() / (error + 1e-7)).max())


@PROBLEMS
@pytest.mark.parametrize(
    ("baseline", "n_samples", "critic"),
    [
        ("none", 1, "absent"),
        ("none", 4, "absent"),
        ("batch", 1, "absent"),
        ("batch", 4, "absent"),
        ("value", 1, "absent"),
        ("value", 2, "absent"),
        ("rloo", 2, "absent"),
        ("rloo", 4, "absent"),
        ("critic", 1, "wrong"),
        ("critic", 2, "wrong"),
        ("critic", 1, "informed"),
    ],
)
def test_the_mean_gradient_is_the_enumerated_one(
    problem: Problem, baseline: Baseline, n_samples: int, critic: Critic
) -> None:
    value = torch.tensor([5.0, -1.0, 0.5]) if baseline == "value" else None  # far from the truth
    estimates = gradients(problem, baseline, n_samples, critic=critic, value=value)
    assert distance_in_standard_errors(estimates, enumerated(problem)) < 5


def test_the_comparison_would_notice_a_baseline_that_looks_at_its_own_loss() -> None:
    index = ONE.draw(2)

    def risk(logits: Tensor, drawn: Tensor, losses: Tensor) -> Tensor:
        log_prob = ScoreFactor(logits.log_softmax(-1), drawn).at_draws(logits.log_softmax(-1))
        return ((losses - losses.mean(dim=0)) * log_prob).mean()

    estimates = vmap(grad(risk), in_dims=(None, 0, 0))(
        ONE.logits[0], index[0], ONE.losses_at(index)
    )
    assert distance_in_standard_errors(estimates.flatten(1), enumerated(ONE)) > 20


@PROBLEMS
@pytest.mark.parametrize(
    ("baseline", "n_samples", "critic", "share"),
    [
        ("value", 1, "absent", 0.5),
        ("rloo", 2, "absent", 0.7),
        ("rloo", 4, "absent", 0.7),
        ("batch", 4, "absent", 0.7),
        ("critic", 1, "informed", 0.5),
    ],
)
def test_a_good_baseline_has_much_less_variance_than_none(
    problem: Problem, baseline: Baseline, n_samples: int, critic: Critic, share: float
) -> None:
    value = problem.expected() if baseline == "value" else None
    with_baseline = gradients(problem, baseline, n_samples, critic=critic, value=value)
    without = gradients(problem, "none", n_samples)
    # Variances of 100,000 draws are known to within a percent, far inside of the margin.
    assert with_baseline.var(dim=0).sum() < share * without.var(dim=0).sum()


def test_a_perfect_critic_gives_the_exact_gradient_at_every_draw() -> None:
    estimates = gradients(ONE, "critic", 1, critic="perfect")
    torch.testing.assert_close(
        estimates, enumerated(ONE).expand_as(estimates), atol=1e-6, rtol=1e-5
    )


def test_the_exact_risk_is_the_enumerated_one_and_so_is_its_gradient() -> None:
    def risk(logits: Tensor) -> Tensor:
        return exact_risk(ONE.losses.T, logits.log_softmax(-1))

    (logits,) = ONE.logits
    assert abs(float(risk(logits) - ONE.risk(ONE.logits))) < 1e-6
    torch.testing.assert_close(grad(risk)(logits), ONE.gradient()[0], atol=1e-6, rtol=0)


def test_the_gradient_in_closed_form_is_the_enumerated_one() -> None:
    """∂J/∂logit = p (loss - expected loss) / B: what the enumeration itself is checked by."""
    by_hand = ONE.logits[0].softmax(-1) * (ONE.losses - ONE.expected()[:, None]) / N_INPUTS
    torch.testing.assert_close(ONE.gradient()[0], by_hand, atol=1e-6, rtol=0)


@pytest.mark.parametrize("baseline", ["none", "batch", "value", "rloo", "critic"])
def test_the_model_gets_the_gradient_of_the_mean_loss(baseline: Baseline) -> None:
    losses = torch.arange(6.0).view(2, 3).requires_grad_()
    log_probs = torch.zeros(3, 4).log_softmax(-1)
    critic = torch.rand(3, 4) if baseline == "critic" else None
    factor = ScoreFactor(log_probs, torch.zeros(2, 3, dtype=torch.long), critic)
    risk = score_risk(losses, [factor], baseline=baseline, value=torch.ones(3))
    (gradient,) = torch.autograd.grad(risk, losses)
    torch.testing.assert_close(gradient, torch.full((2, 3), 1 / 6))


def test_without_a_finite_factor_the_risk_is_the_mean_loss() -> None:
    assert score_risk(torch.tensor([[1.0, 3.0]]), [], baseline="rloo") == 2.0


def test_the_value_is_fitted_by_its_squared_error_alone() -> None:
    losses = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    value = torch.tensor([0.0, 1.0], requires_grad=True)
    log_probs = torch.randn(2, 3).log_softmax(-1)
    factor = ScoreFactor(log_probs, torch.tensor([[0, 1], [2, 2]]))
    risk = score_risk(losses, [factor], baseline="value", value=value)
    (gradient,) = torch.autograd.grad(risk, value)
    torch.testing.assert_close(gradient, (value.detach() - losses.mean(dim=0)) * 2 / 2)


def test_the_critic_is_fitted_by_its_squared_error_at_the_choice_that_was_drawn() -> None:
    losses = torch.tensor([[1.0, 2.0]])
    critic = torch.tensor([[0.5, 0.0, 0.0], [0.0, 0.0, 7.0]], requires_grad=True)
    factor = ScoreFactor(torch.randn(2, 3).log_softmax(-1), torch.tensor([[0, 2]]), critic)
    risk = score_risk(losses, [factor], baseline="critic")
    (gradient,) = torch.autograd.grad(risk, critic)
    torch.testing.assert_close(gradient, torch.tensor([[-0.5, 0.0, 0.0], [0.0, 0.0, 5.0]]))


@settings(max_examples=20, deadline=None)
@given(values=st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=8))
def test_leave_one_out_is_the_mean_of_all_others(values: list[float]) -> None:
    naive = [
        sum(v for j, v in enumerate(values) if j != i) / (len(values) - 1)
        for i in range(len(values))
    ]
    result = leave_one_out(torch.tensor(values, dtype=torch.float64), dim=0)
    torch.testing.assert_close(result, torch.tensor(naive, dtype=torch.float64))


def test_leave_one_out_goes_along_the_given_axis() -> None:
    table = torch.tensor([[1.0, 10.0], [3.0, 30.0]])
    torch.testing.assert_close(leave_one_out(table, dim=0), table.flip(0))
    torch.testing.assert_close(leave_one_out(table, dim=1), table.flip(1))


def test_a_single_loss_has_no_others_to_learn_from() -> None:
    assert leave_one_out(torch.tensor([[7.0]]), dim=0) == 0.0


def test_rloo_refuses_a_single_sample() -> None:
    factor = ScoreFactor(torch.zeros(2, 3).log_softmax(-1), torch.zeros(1, 2, dtype=torch.long))
    with pytest.raises(ArgumentError, match=r'`n_samples` must be at least 2 .*"rloo": got 1'):
        score_risk(torch.ones(1, 2), [factor], baseline="rloo")
