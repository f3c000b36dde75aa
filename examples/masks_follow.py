"""Masks, boxes and keypoints follow the geometry; a prediction can be brought back."""

import torch

from instaaug import transforms as T
from instaaug.data import draw_sprites

tau = T.Composition((T.Rotation(), T.Crop(), T.HSVJitter()))
x = draw_sprites()[:1]
mask = (x.amax(dim=1, keepdim=True) > 0).float()
theta = torch.tensor([[0.6, 0.1, 0.0, 1.6, 1.6, 0.3, 1.0, 0.9]])
print("θ has the columns", ", ".join(tau.columns))

augmented = tau.apply(x, theta)
followed = tau.apply_mask(mask, theta)
head = torch.tensor([[[0.0, -0.9]]])
print("the head moves from", head.tolist(), "to", tau.apply_keypoints(head, theta).tolist())
print("its box becomes", tau.apply_boxes(torch.tensor([[[0.0, 0.0, 1.5, 2.0]]]), theta).tolist())

# what a model would predict on the augmented image, brought back onto the input
predicted = (augmented.amax(dim=1, keepdim=True) > 0.02).float()
back = tau.invert(predicted, theta) > 0.5
overlap = (back & (mask > 0)).sum() / (mask > 0).sum()
print(f"{overlap:.0%} of the sprite is found again")
