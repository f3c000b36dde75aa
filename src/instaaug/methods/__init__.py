"""The other methods, all augmenters: whatever trains or tests InstaAug trains and tests them."""

from instaaug.methods.auto_augment import AutoAugment
from instaaug.methods.fixed_views import FixedViews
from instaaug.methods.learned_loss import LearnedLoss
from instaaug.methods.none import NoAugmentation
from instaaug.methods.rand_augment import RandAugment
from instaaug.methods.random import RandomAugmentation
from instaaug.methods.trivial_augment import TrivialAugment

__all__ = [
    "AutoAugment",
    "FixedViews",
    "LearnedLoss",
    "NoAugmentation",
    "RandAugment",
    "RandomAugmentation",
    "TrivialAugment",
]
