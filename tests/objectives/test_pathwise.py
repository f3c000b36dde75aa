"""The pathwise gradient against closed forms.

Mean gradients may miss the closed form by five standard errors: probability 6e-7 per component.
"""

import torch
from torch import Tensor

from instaaug.objectives import score_risk
from instaaug.parameterizations import UniformFamily
from instaaug.spaces import Interval, Parameter

N_ROWS, N_DRAWS = 2000, 100
RAW = torch.tensor([0.3, -0.8, -1.1, 0.6])
FAMILY = UniformFamily(
    Interval((Parameter("a", -1.0, 2.0), Parameter("b", 0.5, 1.5, identity=1.0)))
)


def expected_loss(raw: Tensor) -> Tensor:
    """E[sin a + b²] for a and b uniform on the intervals that the formulas of the family give."""
    low_a, low_b = -raw[0].sigmoid(), 1 - 0.5 * raw[1].sigmoid()
    high_a, high_b = 2 * raw[2].sigmoid(), 1 + 0.5 * raw[3].sigmoid()
    sine = (low_a.cos() - high_a.cos()) / (high_a - low_a)
    return sine + (high_b**3 - low_b**3) / (3 * (high_b - low_b))


def smooth_loss(theta: Tensor) -> Tensor:
    return theta[..., 0].sin() + theta[..., 1].square()


def test_the_mean_gradient_is_that_of_the_expected_loss(generator: torch.Generator) -> None:
    raw = RAW.repeat(N_ROWS, 1).requires_grad_()
    losses = smooth_loss(FAMILY(raw).rsample((N_DRAWS,), generator=generator))
    (summed,) = torch.autograd.grad(score_risk(losses, [], baseline="none") * N_ROWS, raw)
    error = summed.std(dim=0) / N_ROWS**0.5
    truth = torch.func.grad(expected_loss)(RAW)
    assert error.max() < 0.02 * truth.abs().max()
    assert ((summed.mean(dim=0) - truth).abs() < 5 * error).all()


def test_the_gradient_along_evenly_spread_values_is_that_of_the_expected_loss() -> None:
    """No chance involved: the points of the unit cube that stand for its integral."""
    raw = RAW[None].clone().requires_grad_()
    losses = smooth_loss(FAMILY(raw).spread(20_000))
    (gradient,) = torch.autograd.grad(losses.mean(), raw)
    truth = torch.func.grad(expected_loss)(RAW)
    torch.testing.assert_close(gradient[0], truth, atol=1e-3, rtol=0)
