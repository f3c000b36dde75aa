"""The heart: augmenters draw transforms, apply them, and learn from per-input losses."""

from instaaug.augmentation.at_test_time import TestTimeAugmentation
from instaaug.augmentation.augmenter import (
    AugmentedBatch,
    Augmenter,
    HeldOutBatch,
    HeldOutLearner,
    LossesOf,
)
from instaaug.augmentation.instaaug import InstaAug

__all__ = [
    "AugmentedBatch",
    "Augmenter",
    "HeldOutBatch",
    "HeldOutLearner",
    "InstaAug",
    "LossesOf",
    "TestTimeAugmentation",
]
