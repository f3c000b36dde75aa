# %% [markdown]
# # Which augmentation is best on my data?
#
# There are 23 methods in this library, and papers enough that say which is best, on other data
# than yours. `instaaug compare` trains the same model on the same images with each method that
# you name, several times, and ends with a table and a sentence on what can be told apart.
#
# This notebook calls the command line; `!instaaug …` in a cell does the same.

# %%
import csv
import subprocess
import sys
from pathlib import Path

from matplotlib import pyplot as plt


def instaaug(command: str) -> None:
    """Run a command of InstaAug and print what it says."""
    words = [sys.executable, "-m", "instaaug", *command.split()]
    print(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


# %% quick: settings = "--data.image_size 16 --data.train_fraction 0.02 --trainer.max_epochs 1"
settings = "--data.image_size 16 --data.train_fraction 0.02 --data.batch_size 10"
settings += " --trainer.max_epochs 40"

# %% [markdown]
# ## The data
#
# A folder with one folder per class is all that is needed; its path takes the place of `sprites`.
# The sprites are built in: a robot and a cactus, upright and upside-down, turned by at most 45°.
# We take 40 of the 2,000, so that all of this ends within a minute or two.
#
# ## One command
#
# Three methods: nothing, turns by any angle, and turns whose range is learned for each image; the
# names of others are in `instaaug list methods`. Three seeds each; a seed decides splits, first
# weights and draws, and is the same for all methods. `--budget 10m` would choose the number of
# epochs for you.

# %%
instaaug(f"compare sprites --methods none,random,instaaug --seeds 3 {settings} --out runs/which")

# %% [markdown]
# Read the table from the right: `p` says how often a difference like this one would arise between
# methods that do not differ, `Holm` corrects it for the number of rows, and `step` is what a
# training step costs. With three seeds only large differences can be told apart.
#
# Here turns by any angle do harm, for they turn "up" into "down", and learned ones do none.
# Nothing is gained either: pictures as easy as these leave nothing to gain, and the last sentence
# says so instead of naming a winner. Read it first.
#
# ## Every run by itself
#
# `runs.csv` has one line per run. Points that overlap are methods that you cannot rank yet.

# %%
with Path("runs/which/runs.csv").open() as file:
    rows = list(csv.DictReader(file))
labels = sorted({row["method"] for row in rows})
scores = [[100 * float(row["score"]) for row in rows if row["method"] == name] for name in labels]
figure, panel = plt.subplots(figsize=(6, 2.4))
for place, points in enumerate(scores):
    panel.plot(points, [place] * len(points), "o", alpha=0.6)
panel.set(yticks=range(len(labels)), yticklabels=labels, xlabel="accuracy on test images in %")
panel.grid(axis="x", alpha=0.3)

# %% [markdown]
# ## Not sure yet?
#
# More seeds go on where this stopped: the same command with `--seeds 6` trains three more of each,
# and keeps the others. A method may have settings of its own, `--methods "[none, {method: mixup,
# method.alpha: 0.2}]"`; `--tune 8` lets each method choose its settings on validation images with
# the same number of trials.
#
# ## What was learned?
#
# Every run is an ordinary one, in a folder of its own: it can be looked at, evaluated, used.

# %%
instaaug("evaluate runs/which/instaaug/seed_0")
plt.figure(figsize=(9, 5))
plt.imshow(plt.imread("runs/which/instaaug/seed_0/samples.png"))
_ = plt.axis("off")

# %% [markdown]
# `runs/which/report/index.html` has all of it as one page, with a column per method. Method cards
# say what each method does, what it costs, and when to take another.
