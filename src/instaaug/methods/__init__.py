"""InstaAug's registry of methods, and the methods it is compared with; all are augmenters."""

from instaaug.methods.ada_augment import AdaAugment, AdaCrops
from instaaug.methods.augerino import Augerino, AugerinoColor, AugerinoCrop
from instaaug.methods.auto_augment import AutoAugment
from instaaug.methods.co_mixup import CoMixup
from instaaug.methods.distortions import Distortions
from instaaug.methods.fast_auto_augment import FastAutoAugment
from instaaug.methods.fixed_views import FixedViews
from instaaug.methods.learned_loss import LearnedLoss
from instaaug.methods.meta_augment import MetaAugment
from instaaug.methods.mixing import CutMix, MixUp
from instaaug.methods.mixmo import MixMo
from instaaug.methods.puzzle_mix import PuzzleMix
from instaaug.methods.rand_augment import RandAugment
from instaaug.methods.random import RandomAugmentation
from instaaug.methods.random_resized_crop import RandomResizedCrop
from instaaug.methods.registry import METHODS, find_method
from instaaug.methods.saliency_grafting import SaliencyGrafting
from instaaug.methods.simple import NoAugmentation, SimpleAugmenter
from instaaug.methods.spatial_transformer import SpatialTransformer
from instaaug.methods.trivial_augment import TrivialAugment
from instaaug.methods.un_mix import UnMix
from instaaug.methods.viewmaker import Viewmaker

__all__ = [
    "METHODS",
    "AdaAugment",
    "AdaCrops",
    "Augerino",
    "AugerinoColor",
    "AugerinoCrop",
    "AutoAugment",
    "CoMixup",
    "CutMix",
    "Distortions",
    "FastAutoAugment",
    "FixedViews",
    "LearnedLoss",
    "MetaAugment",
    "MixMo",
    "MixUp",
    "NoAugmentation",
    "PuzzleMix",
    "RandAugment",
    "RandomAugmentation",
    "RandomResizedCrop",
    "SaliencyGrafting",
    "SimpleAugmenter",
    "SpatialTransformer",
    "TrivialAugment",
    "UnMix",
    "Viewmaker",
    "find_method",
]
