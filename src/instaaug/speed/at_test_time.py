"""What does test-time augmentation cost?"""

import torch
from torch import Tensor, nn

from instaaug.augmentation import InstaAug
from instaaug.networks import PreActResNet18
from instaaug.speed.timing import ROUNDS, Row, Tables, compare
from instaaug.transforms import Crop

__all__ = ["BUDGET", "main", "views_against_passes"]

BATCH, SIDE, N_VIEWS = 32, 64, 10
BUDGET = 1.02


def views_against_passes(
    model: nn.Module, x: Tensor, n: int, *, budget: float | None = BUDGET, rounds: int = ROUNDS
) -> list[Row]:
    """``n`` learned crops of each image, against ``n`` plain passes over the images."""
    predictor = InstaAug(Crop()).wrap(model, n).eval()

    def passes() -> None:
        for _ in range(n):
            model(x)

    name, reference = f"TTA, n = {n}", f"{n} plain forward pass{'es' if n > 1 else ''}"
    with torch.no_grad():
        return compare(
            {reference: passes, name: lambda: predictor(x)},
            reference=reference,
            budgets={} if budget is None else {name: budget},
            rounds=rounds,
        )


def main(rounds: int = ROUNDS) -> Tables:
    """Ten views at 64 pixels."""
    torch.manual_seed(0)
    model = PreActResNet18(200, stem_stride=2).eval()
    x = torch.rand(BATCH, 3, SIDE, SIDE)
    return {f"test time, {SIDE} px": views_against_passes(model, x, N_VIEWS, rounds=rounds)}
