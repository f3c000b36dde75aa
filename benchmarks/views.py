"""What do 1, 4, 10 and 50 views cost, of small and of large images?

PreActResNet-18; at 224 pixels with the stem of stride 4 that such images are given. Where a turn
would take minutes, the batch is smaller.
"""

import torch

from benchmarks.record import Tables, save
from instaaug.networks import PreActResNet18
from instaaug.speed.questions import views_against_passes

__all__ = ["main"]

BATCHES = {
    64: {1: 32, 4: 32, 10: 16, 50: 8},
    224: {1: 8, 4: 8, 10: 4, 50: 2},
}
STEM_STRIDE = {64: 2, 224: 4}


def main() -> Tables:
    torch.manual_seed(0)
    tables: Tables = {}
    for side, batches in BATCHES.items():
        model = PreActResNet18(200, stem_stride=STEM_STRIDE[side]).eval()
        for n, batch in batches.items():
            title = f"test time, {side} px, batch {batch}"
            x = torch.rand(batch, 3, side, side)
            tables[title] = tables.get(title, []) + views_against_passes(model, x, n)
    save("views", tables, seed=0, stem_stride={str(k): v for k, v in STEM_STRIDE.items()})
    return tables
