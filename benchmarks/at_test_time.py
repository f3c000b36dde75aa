"""What does test-time augmentation cost?"""

import torch

from benchmarks.record import Row, compare, save
from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.networks import PreActResNet18

__all__ = ["main"]

BATCH, SIDE = 32, 64


def main() -> dict[str, list[Row]]:
    torch.manual_seed(0)
    model = PreActResNet18(200, stem_stride=2).eval()
    aug = InstaAug(T.Crop()).eval()
    x = torch.rand(BATCH, 3, SIDE, SIDE)
    tables = {}
    for n in (4, 10):
        predictor = aug.wrap(model, n)

        def plain(n: int = n) -> None:
            for _ in range(n):
                model(x)

        with torch.no_grad():
            contenders = {
                f"{n} plain forward passes": plain,
                f"TTA, n = {n}": lambda predictor=predictor: predictor(x),
            }
            tables[f"test time, n = {n}"] = compare(
                contenders,
                reference=f"{n} plain forward passes",
                budgets={f"TTA, n = {n}": 1.02},
            )
    save("at_test_time", tables, seed=0, batch=BATCH, side=SIDE, stem_stride=2)
    return tables
