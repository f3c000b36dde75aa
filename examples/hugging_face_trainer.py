"""Learned rotations in Hugging Face's Trainer, from a data set of theirs. SMOKE=1 is short."""

import os
from typing import Any

import numpy as np
import torch
from datasets import ClassLabel, Dataset, Features, Image
from transformers import ResNetConfig, ResNetForImageClassification, TrainingArguments

from instaaug import InstaAug, fit_tta
from instaaug import transforms as T
from instaaug.adapters.transformers import InstaAugTrainer
from instaaug.data import RotatedSprites

n_images, n_epochs = (32, 1) if os.environ.get("SMOKE") else (512, 4)
torch.manual_seed(0)
sprites = RotatedSprites(n_images)
pixels = sprites.images.mul(255).byte().permute(0, 2, 3, 1).numpy()
features = Features({"image": Image(), "label": ClassLabel(num_classes=4)})
data = Dataset.from_dict({"image": list(pixels), "label": sprites.labels.tolist()}, features)


def prepare(rows: dict[str, list[Any]]) -> dict[str, Any]:
    """Pixels as the model takes them; a processor of a pre-trained model would do this."""
    images = torch.from_numpy(np.stack([np.asarray(image) for image in rows["image"]]))
    return {"pixel_values": images.permute(0, 3, 1, 2) / 255, "labels": rows["label"]}


config = ResNetConfig(embedding_size=16, hidden_sizes=[32, 64], depths=[1, 1], num_labels=4)
model = ResNetForImageClassification(config)
arguments = TrainingArguments(
    "trained", num_train_epochs=n_epochs, per_device_train_batch_size=16, learning_rate=3e-3,
    use_cpu=True, report_to=[], logging_steps=2, remove_unused_columns=False, disable_tqdm=True,
)  # fmt: skip

aug = InstaAug(T.Rotation())
trainer = InstaAugTrainer(
    model=model, args=arguments, train_dataset=data.with_transform(prepare), aug=aug
)
trainer.train()  # the checkpoints have φ and λ, too
print(aug)

predictor = aug.wrap(model, n_samples=4).eval()  # takes the logits out of what the model returns
with torch.no_grad():
    print("logits of four views each:", tuple(predictor(sprites.images[:8]).shape))

views = fit_tta(model.eval(), data, size=32, steps=10)  # views for the trained model, frozen
print(views)
