# %% [markdown]
# # Your loop
#
# You have images, a model and a training loop. This notebook adds augmentation that is learned
# for every single image, in four lines, and looks at what it has learned.
#
# The pictures are a robot and a cactus, upright or upside-down, each turned by at most 45° to
# either side: four classes. How far may such a picture be turned further? Until "up" becomes
# "down", and how far that is depends on the picture. One range for all of them is too wide for
# some and too narrow for others.

# %% quick: test = RotatedSprites(40)
import torch
from matplotlib import pyplot as plt
from torch.nn import functional as F

import instaaug
from instaaug import Augmenter, InstaAug
from instaaug import transforms as T
from instaaug.data import RotatedSprites
from instaaug.methods import RandomAugmentation
from instaaug.networks import SmallCNN

torch.manual_seed(0)
train, test = RotatedSprites(48), RotatedSprites(1000, max_angle=1.4)  # 45° and 80°

figure, axes = plt.subplots(1, 8, figsize=(10, 1.6))
for image, label, panel in zip(train.images, train.labels, axes, strict=False):
    panel.imshow(image.permute(1, 2, 0))
    panel.set_title(train.classes[int(label)], fontsize=8)
    panel.axis("off")

# %% [markdown]
# There are 48 images to learn from, twelve of each class, turned by at most 45°. Those of the test
# are turned by up to 80°, as pictures of tomorrow are never quite like those of today. Nothing
# about angles is told to anyone: all that there is are images and labels.
#
# ## The loop that you have

# %% quick: n_steps = 3
n_steps, batch_size = 600, 48


# %%
def accuracy(predictor: torch.nn.Module) -> float:
    with torch.no_grad():
        return (predictor(test.images).argmax(dim=1) == test.labels).float().mean().item()


torch.manual_seed(0)
plain = SmallCNN(4)
optimizer = torch.optim.Adam(plain.parameters(), lr=1e-3)
for _ in range(n_steps):
    chosen = torch.randint(len(train), (batch_size,))
    F.cross_entropy(plain(train.images[chosen]), train.labels[chosen]).backward()
    optimizer.step()
    optimizer.zero_grad()

print(f"without augmentation: {accuracy(plain.eval()):.1%} of 1,000 other images")

# %% [markdown]
# ## Four lines more
#
# 1. An augmenter: what may happen to an image. `InstaAug` has a small network φ that reads the
#    image and says from which range its angle may be drawn.
# 2. Its parameters go to the optimizer.
# 3. `aug(x)` draws an angle for every image and turns it.
# 4. `aug.objective` makes of one loss per image what is minimized. It trains the model and φ in
#    one pass, and pays for entropy, so that ranges do not shrink to nothing. How much it pays, λ,
#    follows by itself.


# %%
def train_with(aug: Augmenter) -> tuple[torch.nn.Module, list[float]]:
    """A model that was trained with an augmenter, and the entropy of its angles in every step."""
    torch.manual_seed(0)
    model, entropies = SmallCNN(4), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    if isinstance(aug, InstaAug):
        optimizer.add_param_group({"params": aug.parameters(), "lr": 3e-3})
    for _ in range(n_steps):
        chosen = torch.randint(len(train), (batch_size,))
        batch = aug(train.images[chosen])
        losses = F.cross_entropy(model(batch.inputs), train.labels[chosen], reduction="none")
        aug.objective(losses, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        entropies.append(batch.entropy.sum(dim=1).mean().item())
    return model, entropies


aug = InstaAug(T.Rotation())
model, entropies = train_with(aug)
print(aug)

# %% [markdown]
# The entropy is that of the angle: log 2π = 1.84 nats for the whole circle. It should settle
# within the band that is printed above.

# %%
figure, panel = plt.subplots(figsize=(7, 2.2))
panel.plot(entropies)
panel.set(xlabel="step", ylabel="entropy in nats")
panel.grid(alpha=0.3)

# %% [markdown]
# ## What it has learned
#
# For a few test images, the range that φ gives each of them, and some draws. Images that are
# turned to the left already may be turned further to the right, and the other way round.

# %%
instaaug.plot(aug.eval(), test.images[:4], n_samples=6)

# %% [markdown]
# For these pictures the truth is known: `safe_intervals` has the widest range of each image that
# keeps its class. What is the overlap, as a share of all that either range covers?

# %%
with torch.no_grad():
    draws = aug.draw(test.images, n_samples=200)[..., 0]
low, high = draws.amin(dim=0), draws.amax(dim=0)
safe_low, safe_high = test.safe_intervals.unbind(dim=1)
shared = (torch.minimum(high, safe_high) - torch.maximum(low, safe_low)).clamp(min=0)
overlap = shared / (torch.maximum(high, safe_high) - torch.minimum(low, safe_low))
print(f"overlap with what is safe: {overlap.mean():.0%} on average, {overlap.min():.0%} at least")

# %% [markdown]
# ## Does it help?
#
# Compare with what is simpler: no augmentation, and random turns, of which somebody has to say how
# far. All methods have the same interface, so that the loop stays as it is. `aug.wrap(model)`
# predicts from several views of each image.

# %%
half = RandomAugmentation(T.Rotation(), strength=0.5)
whole = RandomAugmentation(T.Rotation(), strength=1.0)
print(f"without augmentation           {accuracy(plain.eval()):.1%}")
print(f"random, up to 90° either way   {accuracy(train_with(half)[0].eval()):.1%}")
print(f"random, up to 180° either way  {accuracy(train_with(whole)[0].eval()):.1%}")
print(f"learned, from the image        {accuracy(model.eval()):.1%}")
print(f"learned, from ten views        {accuracy(aug.wrap(model, n_samples=10).eval()):.1%}")

# %% [markdown]
# Random turns help where somebody guessed well, and harm where not; here the learned ranges do
# better than either, and nobody had to guess. Ten views do not: φ has never seen pictures that
# are turned by more than 45°, and is less certain of them than the model is. `instaaug train`
# therefore asks validation images before predictions use views.
#
# One run with one seed tells little: take the numbers for an example of how to measure, and ask
# your own data. On photos, random ranges that were swept by hand are hard to beat. `instaaug
# compare` trains all of this with several seeds and says what can be told apart; see the notebook
# [Which augmentation is best on my data?](which_augmentation.ipynb)
#
# ## Keep it
#
# A weights file holds numbers and settings, no code.

# %%
aug.save("aug.safetensors")
again = InstaAug.load("aug.safetensors")
x = test.images[:4]
torch.equal(aug.draw(x, 1, select="top"), again.draw(x, 1, select="top"))
