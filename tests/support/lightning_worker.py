"""One of two processes in which Lightning trains a module with the callback."""

import sys
from pathlib import Path

import torch
from lightning.pytorch import Trainer
from safetensors.torch import save_file

from instaaug.adapters.lightning import InstaAugCallback
from instaaug.augmentation import InstaAug
from instaaug.transforms import Crop
from tests.adapters.test_lightning import Plain, loader

__all__: list[str] = []

if __name__ == "__main__":
    torch.seed()  # every process begins with another φ
    aug = InstaAug(Crop(levels=((1.0, 1), (0.5, 2))))
    started = {f"started.{name}": p.detach().clone() for name, p in aug.named_parameters()}
    trainer = Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, logger=False,
        enable_checkpointing=False, enable_progress_bar=False,
        callbacks=[InstaAugCallback(aug)],
    )  # fmt: skip
    trainer.fit(Plain(), loader())
    folder = Path(sys.argv[1])
    save_file({**aug.state_dict(), **started}, folder / f"{trainer.global_rank}.safetensors")
