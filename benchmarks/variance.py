"""How noisy is each gradient estimator? Total variance of the gradient with respect to the logits.

A frozen problem with K boxes and many inputs, whose losses differ between inputs much more than
between boxes, as they do in training. The variance of one draw per input is estimated from many;
no times are taken here.
"""

import torch

from benchmarks.record import save
from instaaug.objectives import ScoreFactor, score_risk
from instaaug.objectives.estimators import Baseline

__all__ = ["main", "total_variance"]

INPUTS, BOXES, DRAWS = 64, 30, 2000


def total_variance(baseline: Baseline, *, n_samples: int, seed: int = 0) -> float:
    """Summed variance over all logits, per forward pass: n samples cost n and count n."""
    g = torch.Generator().manual_seed(seed)
    hardness = torch.rand(INPUTS, 1, generator=g) * 3
    table = hardness + 0.3 * torch.randn(INPUTS, BOXES, generator=g)
    logits = torch.randn(INPUTS, BOXES, generator=g, requires_grad=True)
    value = hardness[:, 0] + 0.1 * torch.randn(INPUTS, generator=g)
    critic = table + 0.1 * torch.randn(INPUTS, BOXES, generator=g)
    gradients = []
    for _ in range(DRAWS):
        log_probs = logits.log_softmax(dim=-1)
        index = torch.multinomial(log_probs.exp().detach(), n_samples, True, generator=g).T
        factor = ScoreFactor(log_probs, index, critic)
        losses = table.gather(1, index.T).T
        risk = score_risk(losses, [factor], baseline=baseline, value=value)
        (gradient,) = torch.autograd.grad(risk, logits)
        gradients.append(gradient)
    return float(torch.stack(gradients).var(dim=0).sum()) * n_samples


def main() -> dict[str, float]:
    cases: dict[str, tuple[Baseline, int]] = {
        "none": ("none", 1), "batch": ("batch", 1), "value": ("value", 1),
        "rloo, n = 2": ("rloo", 2), "rloo, n = 4": ("rloo", 4), "critic": ("critic", 1),
    }  # fmt: skip
    variances = {name: total_variance(b, n_samples=n) for name, (b, n) in cases.items()}
    print(f"\nvariance of the gradient per forward pass, {INPUTS} inputs, {BOXES} boxes")
    for name, variance in variances.items():
        print(f"  {name:14} {variance:.3e}   {variance / variances['none']:6.3f} of none")
    settings = {"inputs": INPUTS, "boxes": BOXES, "draws": DRAWS, "seed": 0}
    save("variance", {}, findings={"variances": variances}, **settings)
    return variances
