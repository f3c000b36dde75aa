"""Data sets; none of them knows of augmentation."""

from instaaug.data.labeled import LabeledImages
from instaaug.data.lights import LIGHTS, relight, relit_set
from instaaug.data.load import load_data
from instaaug.data.named import DATASETS
from instaaug.data.splits import DataSplits
from instaaug.data.sprites import RotatedSprites, draw_sprites, load_mario_iggy
from instaaug.data.statistics import channel_statistics

__all__ = [
    "DATASETS",
    "LIGHTS",
    "DataSplits",
    "LabeledImages",
    "RotatedSprites",
    "channel_statistics",
    "draw_sprites",
    "load_data",
    "load_mario_iggy",
    "relight",
    "relit_set",
]
