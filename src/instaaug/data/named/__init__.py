"""Data sets that have a name: a reader for each, and where to find their files."""

import instaaug.data.named.turned_sprites  # noqa: F401 registers its sets
from instaaug.data.named.catalog import DATASETS, NamedSet
from instaaug.data.named.idx import read_idx
from instaaug.data.named.rawfoot import load_rawfoot
from instaaug.data.named.recognition import looks_like
from instaaug.data.named.tiny_imagenet import tiny_imagenet_boxes

__all__ = [
    "DATASETS",
    "NamedSet",
    "load_rawfoot",
    "looks_like",
    "read_idx",
    "tiny_imagenet_boxes",
]
