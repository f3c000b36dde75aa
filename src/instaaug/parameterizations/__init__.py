"""Parameterizations: raw network output to a distribution."""

from instaaug.parameterizations.crop_grid import CropGrid, GridLevel
from instaaug.parameterizations.families import (
    CategoricalFamily,
    Family,
    UniformFamily,
    make_family,
)
from instaaug.parameterizations.invariance import (
    ClassHead,
    Conditioning,
    Head,
    InvarianceModule,
    LocationHead,
    PooledHead,
    SharedHead,
)

__all__ = [
    "CategoricalFamily",
    "ClassHead",
    "Conditioning",
    "CropGrid",
    "Family",
    "GridLevel",
    "Head",
    "InvarianceModule",
    "LocationHead",
    "PooledHead",
    "SharedHead",
    "UniformFamily",
    "make_family",
]
