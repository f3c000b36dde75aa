"""Frozen models: learn test-time augmentation for any pre-trained network."""

from instaaug.frozen.calibration import fit_temperature
from instaaug.frozen.cost import count_multiply_adds
from instaaug.frozen.export import export_phi
from instaaug.frozen.export_predictor import export_predictor
from instaaug.frozen.fit import DEFAULT_CROPS, fit_tta
from instaaug.frozen.images import NormalizedImages
from instaaug.frozen.policy import StaticPolicy, average_policy
from instaaug.frozen.table import FrozenViews, ViewTable, tabulate

__all__ = [
    "DEFAULT_CROPS",
    "FrozenViews",
    "NormalizedImages",
    "StaticPolicy",
    "ViewTable",
    "average_policy",
    "count_multiply_adds",
    "export_phi",
    "export_predictor",
    "fit_temperature",
    "fit_tta",
    "tabulate",
]
