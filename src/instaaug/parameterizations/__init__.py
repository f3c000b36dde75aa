"""Parameterizations: raw network output to a distribution."""

from instaaug.parameterizations.crop_grid import CropGrid, GridLevel
from instaaug.parameterizations.families import (
    CategoricalFamily,
    ClosedFormFamily,
    Family,
    UniformFamily,
    equal_sizes,
    make_family,
    near_base,
)
from instaaug.parameterizations.invariance import (
    BoxScorer,
    ClassHead,
    Conditioning,
    Head,
    InvarianceModule,
    LocationHead,
    PooledHead,
    SharedHead,
)
from instaaug.parameterizations.latent import CouplingDecoder, LatentFamily
from instaaug.parameterizations.loose_boxes import LooseBoxes, base_measure
from instaaug.parameterizations.undoing import Undoing

__all__ = [
    "BoxScorer",
    "CategoricalFamily",
    "ClassHead",
    "ClosedFormFamily",
    "Conditioning",
    "CouplingDecoder",
    "CropGrid",
    "Family",
    "GridLevel",
    "Head",
    "InvarianceModule",
    "LatentFamily",
    "LocationHead",
    "LooseBoxes",
    "PooledHead",
    "SharedHead",
    "Undoing",
    "UniformFamily",
    "base_measure",
    "equal_sizes",
    "make_family",
    "near_base",
]
