"""The other methods, all augmenters: whatever trains or tests InstaAug trains and tests them."""

from instaaug.methods.ada_augment import AdaAugment
from instaaug.methods.ada_crops import AdaCrops
from instaaug.methods.augerino import Augerino
from instaaug.methods.augerino_color import AugerinoColor
from instaaug.methods.auto_augment import AutoAugment
from instaaug.methods.cutmix import CutMix
from instaaug.methods.fast_auto_augment import FastAutoAugment
from instaaug.methods.fixed_views import FixedViews
from instaaug.methods.learned_loss import LearnedLoss
from instaaug.methods.meta_augment import MetaAugment
from instaaug.methods.mixup import MixUp
from instaaug.methods.none import NoAugmentation
from instaaug.methods.rand_augment import RandAugment
from instaaug.methods.random import RandomAugmentation
from instaaug.methods.spatial_transformer import SpatialTransformer
from instaaug.methods.trivial_augment import TrivialAugment

__all__ = [
    "AdaAugment",
    "AdaCrops",
    "Augerino",
    "AugerinoColor",
    "AutoAugment",
    "CutMix",
    "FastAutoAugment",
    "FixedViews",
    "LearnedLoss",
    "MetaAugment",
    "MixUp",
    "NoAugmentation",
    "RandAugment",
    "RandomAugmentation",
    "SpatialTransformer",
    "TrivialAugment",
]
