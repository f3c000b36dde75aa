"""Transforms τ: deterministic, batched, one row of θ per image."""

from instaaug.transforms.color import Brightness, ColorTransform, Contrast, HSVJitter
from instaaug.transforms.compose import Composition
from instaaug.transforms.crop import PAPER_LEVELS, Crop, UniformCrop
from instaaug.transforms.filters import Blur, Noise
from instaaug.transforms.geometric import (
    Affine,
    Flip,
    GeometricTransform,
    Perspective,
    Rotation,
    Scale,
    Shear,
    Translate,
)
from instaaug.transforms.local import LocalBlur, LocalColor, LocalMask, LocalNoise
from instaaug.transforms.transform import TRANSFORMS, Transform, from_config

__all__ = [
    "PAPER_LEVELS",
    "TRANSFORMS",
    "Affine",
    "Blur",
    "Brightness",
    "ColorTransform",
    "Composition",
    "Contrast",
    "Crop",
    "Flip",
    "GeometricTransform",
    "HSVJitter",
    "LocalBlur",
    "LocalColor",
    "LocalMask",
    "LocalNoise",
    "Noise",
    "Perspective",
    "Rotation",
    "Scale",
    "Shear",
    "Transform",
    "Translate",
    "UniformCrop",
    "from_config",
]
