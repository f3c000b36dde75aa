"""Training loops on Lightning: any model, any augmenter; with classes, numbers, or no labels."""

from instaaug.scores import ClassificationTally, RegressionTally, Tally
from instaaug.tasks.callbacks import (
    Checkpoints,
    Interrupted,
    MetricsTable,
    RichProgress,
    SamplePictures,
    WholeCheckpointIO,
)
from instaaug.tasks.contrastive import ContrastiveTask
from instaaug.tasks.evaluation import (
    correlate_losses,
    evaluate,
    evaluate_groups,
    make_predictor,
    summarize_augmenter,
)
from instaaug.tasks.loader import BatchLoader
from instaaug.tasks.optimization import Optimization
from instaaug.tasks.supervised import RegressionTask, SupervisedTask
from instaaug.tasks.task import AugmentedTask

__all__ = [
    "AugmentedTask",
    "BatchLoader",
    "Checkpoints",
    "ClassificationTally",
    "ContrastiveTask",
    "Interrupted",
    "MetricsTable",
    "Optimization",
    "RegressionTally",
    "RegressionTask",
    "RichProgress",
    "SamplePictures",
    "SupervisedTask",
    "Tally",
    "WholeCheckpointIO",
    "correlate_losses",
    "evaluate",
    "evaluate_groups",
    "make_predictor",
    "summarize_augmenter",
]
