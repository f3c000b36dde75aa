"""Learned crops in a plain training loop. SMOKE=1 takes two steps instead of a hundred."""

import os

import torch
from torch.nn import functional as F

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.data import RotatedSprites
from instaaug.networks import SmallCNN

n_steps = 2 if os.environ.get("SMOKE") else 100
torch.manual_seed(0)
data = RotatedSprites(512)
model = SmallCNN(4)

aug = InstaAug(T.Crop(), diversity=(0.06, 0.10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
optimizer.add_param_group({"params": aug.parameters(), "lr": 3e-3})

for step in range(n_steps):
    chosen = torch.randint(len(data), (64,))
    batch = aug(data.images[chosen])
    losses = F.cross_entropy(model(batch.inputs), data.labels[chosen], reduction="none")
    aug.objective(losses, batch).backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 20 == 0:
        print(f"step {step:3}  loss {losses.mean():.3f}  entropy {batch.entropy.mean():.2f} nats")

predictor = aug.eval().wrap(model.eval(), n_samples=10)
with torch.no_grad():
    right = (predictor(data.images).argmax(dim=1) == data.labels).float().mean()
print(f"{right:.1%} of the training images are right, seen through ten learned crops each")
