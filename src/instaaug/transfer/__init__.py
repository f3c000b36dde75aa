"""Frozen backbones: a classifier of your own classes, its head and its views learned together."""

from instaaug.transfer.fit import Transfer, fit_transfer
from instaaug.transfer.folds import similar_folds
from instaaug.transfer.learning import BoxFeatures, LearnedHead, learn_head

__all__ = [
    "BoxFeatures",
    "LearnedHead",
    "Transfer",
    "fit_transfer",
    "learn_head",
    "similar_folds",
]
