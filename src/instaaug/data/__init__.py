"""Data sets; none of them knows of augmentation."""

from instaaug.data.adapters import from_dataset
from instaaug.data.labeled import LabeledImages, channel_statistics
from instaaug.data.load import load_data
from instaaug.data.named import DATASETS
from instaaug.data.splits import DataSplits
from instaaug.data.sprites import RotatedSprites, draw_sprites, load_mario_iggy

__all__ = [
    "DATASETS",
    "DataSplits",
    "LabeledImages",
    "RotatedSprites",
    "channel_statistics",
    "draw_sprites",
    "from_dataset",
    "load_data",
    "load_mario_iggy",
]
