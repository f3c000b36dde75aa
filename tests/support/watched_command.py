"""The ``instaaug`` command with a witness in every process; run with ``python -m``."""

import json
import os
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from typing_extensions import override

import instaaug.cli.train
from instaaug import InstaAug
from instaaug.cli import main
from instaaug.tasks import AugmentedTask

__all__ = ["WITNESS", "Witness"]

WITNESS = "WITNESS_FOLDER"


class Witness(Callback):
    """Notes λ and what was logged in each step; each process writes a file of its own."""

    def __init__(self, console: Console) -> None:
        console.print("A witness takes the place of the progress bar.")
        self.steps: list[dict[str, object]] = []

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: list[object],
        batch_idx: int,
    ) -> None:  # fmt: skip
        assert isinstance(pl_module, AugmentedTask)
        assert isinstance(pl_module.augmenter, InstaAug)
        x = batch[0]
        self.steps.append(
            {
                "weight": pl_module.augmenter.weight.tolist(),
                "logged": {name: float(value) for name, value in pl_module.latest.items()},
                "parameter": float(next(pl_module.model.parameters()).flatten()[0]),
                "n_images": len(x),  # type: ignore[arg-type]
            }
        )

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        file = Path(os.environ[WITNESS]) / f"{trainer.global_rank}.json"
        file.write_text(json.dumps(self.steps))


if __name__ == "__main__":
    setattr(instaaug.cli.train, "RichProgress", Witness)  # noqa: B010  # not its to export
    main()
