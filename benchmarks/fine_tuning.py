"""Does learned augmentation help to fine-tune a pre-trained network? Lite0 on 81 groceries.

Needs INSTAAUG_DATA, a folder with ``groceries-81``. All is one ``instaaug compare`` of three
seeds, about eighty minutes of one core, which goes on where it stopped.
"""

import os
import subprocess
from pathlib import Path

from torch import nn

from benchmarks.compared import method_rows, run_rows
from benchmarks.imagenet import load_lite
from benchmarks.record import save

__all__ = ["main", "make_lite0"]

ROOT = Path(__file__).parents[1]
CONFIGS = Path("configs") / "fine_tuning"
RUNS = Path("runs") / "fine_tuning"
SEEDS = 3


def make_lite0(num_classes: int) -> nn.Module:
    """EfficientNet-Lite0 with its weights of ImageNet and a new last layer."""
    net = load_lite(0)
    net.set_submodule("_fc", nn.Linear(net.get_submodule("_fc").in_features, num_classes))
    network: nn.Module = net.train()
    return network


def main() -> None:
    """Run what is missing, print the table, write the file."""
    if "INSTAAUG_DATA" not in os.environ and not (ROOT / RUNS).exists():
        print("fine_tuning is skipped: INSTAAUG_DATA names no folder with 'groceries-81'.")
        return
    data = Path(os.environ.get("INSTAAUG_DATA", "")) / "groceries-81"
    options = (
        "--config", str(CONFIGS / "compare.yaml"), "--methods", str(CONFIGS / "contenders.yaml"),
        "--seeds", str(SEEDS), "--reference", "random", "--out", str(RUNS),
    )  # fmt: skip
    command = ("instaaug", "compare", str(data), *options)
    subprocess.run(command, check=True, cwd=ROOT)  # noqa: S603
    findings = {
        "command": " ".join(("instaaug", "compare", "groceries-81", *options)),
        "methods": method_rows(ROOT / RUNS, reference="random"),
        "runs": run_rows(ROOT / RUNS),
    }
    save("fine_tuning", {}, findings=findings, seeds=SEEDS)


if __name__ == "__main__":
    main()
