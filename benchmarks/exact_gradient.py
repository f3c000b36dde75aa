"""How many steps does the exact gradient save, on the table of a frozen model?

One distribution over the 30 boxes for all photos, the paper's objective with a fixed λ, on what
EfficientNet-Lite0 says of every box: the optimum is known, p ∝ exp(-mean loss / λ). Both
estimators get the same optimizer and the best of the same learning rates.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.frozen import table
from benchmarks.record import save
from instaaug.frozen import ViewTable
from instaaug.objectives import ScoreFactor, exact_risk, score_risk

__all__ = ["main"]

WEIGHT = 0.2
RATES = (0.3, 0.1, 0.03, 0.01, 0.003)
BATCH = 256
MOST_STEPS = 20_000
NEAR = (1e-2, 1e-3)


def main() -> None:
    torch.manual_seed(0)
    tables = [table(source, 128)[0] for source in ("nips", "validation")]
    losses = torch.cat(
        [losses_of(one, i) for one in tables for i in torch.arange(len(one)).split(256)]
    )
    best = (-losses.mean(dim=0) / WEIGHT).log_softmax(dim=0)
    findings: dict[str, object] = {"entropy of the optimum": float(-(best.exp() * best).sum())}
    for name in ("exact", "none", "batch"):
        runs = {rate: steps_to_optimum(losses, best, name, rate) for rate in RATES}
        for near in NEAR:
            steps = {rate: reached[near] for rate, (reached, _) in runs.items()}
            rate = min(steps, key=lambda r: steps[r])
            findings[f"{name}: steps until within {near} nat of the optimum"] = (
                steps[rate] if math.isfinite(steps[rate]) else f"more than {MOST_STEPS}"
            )
            findings[f"{name}: learning rate for {near}"] = rate
        findings[f"{name}: closest in the end"] = min(closest for _, closest in runs.values())
    print(findings)
    save("exact_gradient", {}, findings=findings, seed=0, weight=WEIGHT, batch=BATCH, rates=RATES)


def losses_of(outputs_of_boxes: ViewTable, index: Tensor) -> Tensor:
    outputs = outputs_of_boxes.outputs_of(index)
    targets = outputs_of_boxes.targets[index].repeat_interleave(outputs.shape[1])
    losses = F.cross_entropy(outputs.flatten(0, 1), targets, reduction="none")
    return losses.view(outputs.shape[:2])


def steps_to_optimum(
    losses: Tensor, best: Tensor, name: str, rate: float
) -> tuple[dict[float, float], float]:
    """Steps until the objective is near its optimum and stays so for 100 steps; closest mean."""
    logits = torch.zeros(losses.shape[1], requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=rate)
    mean = losses.mean(dim=0)
    optimum = objective(best, mean)
    gaps = []
    for _ in range(MOST_STEPS if name != "exact" else 2_000):
        rows = torch.randint(len(losses), (BATCH,))
        log_probs = logits.log_softmax(dim=0)
        if name == "exact":
            risk = exact_risk(losses[rows].T, log_probs.expand(BATCH, -1))
        else:
            index = torch.multinomial(log_probs.detach().exp(), BATCH, replacement=True)[None]
            drawn = losses[rows].gather(1, index.T).T
            factor = ScoreFactor(log_probs.expand(BATCH, -1), index)
            risk = score_risk(drawn, (factor,), baseline=name)  # type: ignore[arg-type]
        entropy = -(log_probs.exp() * log_probs).sum()
        optimizer.zero_grad()
        (risk - WEIGHT * entropy).backward()
        optimizer.step()
        with torch.no_grad():
            gaps.append(float(objective(logits.log_softmax(dim=0), mean) - optimum))
    window = 100
    smooth = torch.tensor(gaps).unfold(0, window, 1).mean(dim=1)
    reached = {}
    for near in NEAR:
        below = (smooth < near).nonzero().flatten()
        reached[near] = float(below[0]) + 1 if len(below) else math.inf
    return reached, float(smooth.min())


def objective(log_probs: Tensor, mean: Tensor) -> Tensor:
    return (log_probs.exp() * (mean + WEIGHT * log_probs)).sum()
