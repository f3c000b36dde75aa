"""Learned crops with timm's models, optimizers and schedules. SMOKE=1 takes two steps."""

import os

import timm
import torch
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from torch.nn import functional as F

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.data import RotatedSprites

n_steps = 2 if os.environ.get("SMOKE") else 60
torch.manual_seed(0)
data = RotatedSprites(512)
model = timm.create_model("resnet10t", num_classes=4)

aug = InstaAug(T.Crop(), diversity=(0.06, 0.10))
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
optimizer.add_param_group({"params": aug.parameters(), "lr": 1e-3, "weight_decay": 0.0})
scheduler, _ = create_scheduler_v2(optimizer, sched="cosine", num_epochs=n_steps, warmup_epochs=1)

for step in range(n_steps):
    chosen = torch.randint(len(data), (32,))
    batch = aug(data.images[chosen])
    losses = F.cross_entropy(model(batch.inputs), data.labels[chosen], reduction="none")
    aug.objective(losses, batch).backward()
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step(step + 1)

print(f"loss {losses.mean():.3f}, entropy {batch.entropy.mean():.2f} nats")
predictor = aug.wrap(model, n_samples=4).eval()
with torch.no_grad():
    print("logits of four views each:", tuple(predictor(data.images[:8]).shape))
