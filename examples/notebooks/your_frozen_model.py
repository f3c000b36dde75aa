# %% [markdown]
# # Your frozen model
#
# You have a model that is trained already, and some labeled images. Nothing of the model may
# change: it is certified, or large, or not yours. `fit_tta` learns which views of an image such a
# model should look at, how their outputs are to be merged, and how many are worth their price.
#
# The model of this notebook was trained on close-ups of a robot and a cactus, upright and
# upside-down. The images that it is asked about are wider: the figure is small, and anywhere.

# %%
import torch
from matplotlib import pyplot as plt
from torch import Tensor
from torch.nn import functional as F

import instaaug
from instaaug import InstaAug, fit_tta
from instaaug.data import draw_sprites
from instaaug.methods import RandomResizedCrop
from instaaug.networks import SmallCNN

torch.manual_seed(0)
names = ("robot up", "robot down", "cactus up", "cactus down")


def draw_scenes(n: int, side: int) -> tuple[Tensor, Tensor]:
    """Pictures of a landscape with one figure somewhere, and which figure that is."""
    upright = draw_sprites(32)
    figures = torch.stack([upright, upright.flip(2)], dim=1).flatten(0, 1)
    labels, scenes = torch.arange(n) % 4, 0.3 * torch.rand(n, 3, 1, 1).expand(-1, -1, side, side)
    scenes = scenes + 0.05 * torch.rand(n, 3, side, side)
    for scene, label in zip(scenes, labels, strict=True):
        top, left = torch.randint(side - 32, (2,)).tolist()
        place, drawn = scene[:, top : top + 32, left : left + 32], figures[label]
        place.copy_(torch.where(drawn.sum(dim=0) > 0, drawn, place))
    return scenes, labels


# %% quick: n_steps, n_images, fit_steps = 3, 24, 5
n_steps, n_images, fit_steps = 300, 300, 200

# %% [markdown]
# ## A model that is trained already
#
# Yours comes from a file. This one learns close-ups, shrunk to 32 pixels, within seconds; from
# here on it is frozen.

# %%
model = SmallCNN(4)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for _ in range(n_steps):
    x, y = draw_scenes(64, side=44)
    F.cross_entropy(model(F.interpolate(x, 32, mode="area")), y).backward()
    optimizer.step()
    optimizer.zero_grad()
model = model.eval().requires_grad_(False)

images, labels = draw_scenes(n_images, side=72)
test_images, test_labels = draw_scenes(2 * n_images, side=72)
shown, axes = plt.subplots(1, 6, figsize=(9, 1.8))
for image, label, panel in zip(images, labels, axes, strict=False):
    panel.imshow(image.permute(1, 2, 0))
    panel.set_title(names[int(label)], fontsize=8)
    panel.axis("off")


# %% [markdown]
# Images have 72 pixels a side, the model takes 32. Shrunk to that, a figure has 14 pixels, half of
# what the model knows:


# %%
def accuracy(predictor: torch.nn.Module, x: Tensor = test_images) -> str:
    with torch.no_grad():
        right = (predictor(x).argmax(dim=1) == test_labels).float().mean()
    return f"{right:.1%}"


print("the whole image:", accuracy(model, F.interpolate(test_images, 32, mode="area")))

# %% [markdown]
# ## Fit
#
# One call. The model sees 30 boxes of each labeled image once; from its outputs φ learns which
# boxes to look at, image by image, and cross-validation says what that is worth. The images
# should be ones that the model was not trained on.

# %%
aug = fit_tta(model, (images, labels), size=32, steps=fit_steps)
print(aug)

# %% [markdown]
# ## What does it look at?
#
# The first view is always the whole image; the others are chosen for the image. What is shown are
# the probabilities of boxes, and the views in their order.

# %%
instaaug.plot(aug, test_images[:4], n_samples=6)

# %% [markdown]
# ## What is it worth?
#
# The rival is what everybody does: random crops, averaged. `wrap` makes a predictor of the model
# and the augmenter; it takes the same images as before.

# %%
crops = RandomResizedCrop(smallest=0.1, largest=0.5, size=32)
print("views   random crops   learned views")
for n in (2, 4, 10):
    rival, ours = crops.wrap(model, n_samples=n), aug.wrap(model, n_samples=n)
    print(f"{n:5}   {accuracy(rival.eval()):>12}   {accuracy(ours.eval()):>13}")

# %% [markdown]
# More is not better: among ten boxes of an image are some without the figure, and the model, which
# was never asked what is nothing, answers for them as well.
#
# Views cost a pass through the model each. `mean_views` spends them where they help: images whose
# answer is clear get few, the others more.

# %%
thrifty = aug.wrap(model, n_samples=10, mean_views=3.0).eval()
print("3 views on average:", accuracy(thrifty))
print("as recommended:    ", accuracy(aug.wrap(model).eval()))

# %% [markdown]
# Without any number, `aug.wrap(model)` does what cross-validation recommends, which may be one
# larger image, or the image alone, where views do not help. Believe it: on photos, a larger image
# is often the better buy, and the guide on frozen models has the numbers.
#
# ## Keep it
#
# The file holds φ, the order of views and the rule of merging. It needs the model and nothing
# else.

# %%
aug.save("views.safetensors")
again = InstaAug.load("views.safetensors", model=model)
print("loaded again:", accuracy(again.wrap(model, n_samples=4).eval()))

# %% [markdown]
# On the command line all of this is `instaaug tta fit MODEL FOLDER`, then `instaaug predict` and
# `instaaug report`. For photos of your own classes on a pre-trained backbone, there is `instaaug
# transfer FOLDER`.
