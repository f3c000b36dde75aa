"""How often to mix training images: as far as the model knows them better than unseen ones."""

from collections.abc import Mapping, Sequence
from statistics import mean

import numpy as np

__all__ = ["FEWEST", "KNOWN", "KNOWN_UNSEEN", "MIXED", "describe_mixing", "mixes", "mixing_share"]

KNOWN, KNOWN_UNSEEN, MIXED = "known/seen", "known/unseen", "mixed"
"""What steps report: mean probability of the right class, and whether images were mixed."""

TOLERATED = 0.05  # difference in that probability: a model that is far from overfitting has it
PER_GAP = 5.0  # share of the steps, for a difference that is larger by one
MOST = 0.5  # of the steps: the model has to meet images as they are, too
FEWEST = 50  # unseen images: fewer cannot tell a tenth of the steps from half of them
N_EPOCHS = 5  # that the difference is averaged over: few images are asked in each

LEAST = 0.005  # of all steps, to speak of

Row = Mapping[str, float | int]


def mixing_share(history: Sequence[Row]) -> float:
    r"""Share of the steps in which images are to be mixed, from what earlier epochs reported.

    .. math:: \min\bigl(\tfrac12,\; 5\,(p - p' - \tfrac1{20})_+\bigr)

    with the mean probabilities :math:`p` and :math:`p'` of the right class for views of training
    images and of images that the model does not learn from. What regularizes costs a model that
    has not the time to overfit, and helps one that has; the difference tells which it is. It
    shrinks as images are mixed, so that the share settles by itself. Training images are met as
    in training, others as at test time, and by views of random boxes.

    Arguments:
        history: A row per epoch.

    References:
        | Training Generative Adversarial Networks with Limited Data (Karras et al., 2020)
        | CutMix: Regularization Strategy to Train Strong Classifiers with Localizable Features
        | (Yun et al., 2019)

    Example:
        >>> rows = [
        ...     {"train/known/seen": p, "train/known/unseen": 0.40} for p in (0.44, 0.49, 0.80)
        ... ]
        >>> [round(mixing_share([row]), 2) for row in rows]
        [0.0, 0.2, 0.5]
    """
    names = f"train/{KNOWN}", f"train/{KNOWN_UNSEEN}"
    gaps = [row[names[0]] - row[names[1]] for row in history if all(n in row for n in names)]
    return _bounded(mean(gaps[-N_EPOCHS:])) if gaps else 0.0


def _bounded(gap: float) -> float:
    return min(max(PER_GAP * (gap - TOLERATED), 0.0), MOST)


def mixes(share: float, *, seed: int, step: int) -> bool:
    """Whether images are mixed in a step; all processes agree.

    Arguments:
        share: Of the steps in which they are.
        seed: Of the run.
        step: Number of the step.
    """
    return share > 0 and np.random.default_rng([seed, step]).random() < share


def describe_mixing(history: Sequence[Row]) -> str:
    """A sentence on how often images were mixed; empty if they never were.

    Example:
        >>> describe_mixing([{"train/mixed": 0.0}, {"train/mixed": 0.5}])
        'Images were mixed in 25% of the steps, in 50% at the end: the model knew them too well.'
    """
    shares = [row.get(f"train/{MIXED}", 0.0) for row in history]
    if not shares or mean(shares) < LEAST:
        return ""
    return (
        f"Images were mixed in {mean(shares):.0%} of the steps, in {shares[-1]:.0%} at the end: "
        "the model knew them too well."
    )
