"""Learn, for every single input, which augmentations are safe."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from instaaug import (
        data,
        distributions,
        frozen,
        methods,
        networks,
        objectives,
        parameterizations,
        spaces,
        transfer,
        transforms,
    )
    from instaaug.augmentation import AugmentedBatch, Augmenter, InstaAug, TestTimeAugmentation
    from instaaug.errors import InstaAugError, InstaAugWarning
    from instaaug.frozen import fit_tta
    from instaaug.objectives import EntropyBand
    from instaaug.parameterizations import CropGrid, InvarianceModule
    from instaaug.report.pictures.inputs import plot
    from instaaug.transfer import fit_transfer

__all__ = [
    "AugmentedBatch",
    "Augmenter",
    "CropGrid",
    "EntropyBand",
    "InstaAug",
    "InstaAugError",
    "InstaAugWarning",
    "InvarianceModule",
    "TestTimeAugmentation",
    "__version__",
    "data",
    "distributions",
    "fit_transfer",
    "fit_tta",
    "frozen",
    "methods",
    "networks",
    "objectives",
    "parameterizations",
    "plot",
    "spaces",
    "transfer",
    "transforms",
]

__version__ = "0.1.0"

_HOMES = {
    "AugmentedBatch": "instaaug.augmentation",
    "Augmenter": "instaaug.augmentation",
    "CropGrid": "instaaug.parameterizations",
    "EntropyBand": "instaaug.objectives",
    "InstaAug": "instaaug.augmentation",
    "InstaAugError": "instaaug.errors",
    "InstaAugWarning": "instaaug.errors",
    "InvarianceModule": "instaaug.parameterizations",
    "TestTimeAugmentation": "instaaug.augmentation",
    "fit_transfer": "instaaug.transfer",
    "fit_tta": "instaaug.frozen",
    "plot": "instaaug.report.pictures.inputs",
}
_MODULES = (
    "data",
    "distributions",
    "frozen",
    "methods",
    "networks",
    "objectives",
    "parameterizations",
    "spaces",
    "transfer",
    "transforms",
)


def __getattr__(name: str) -> Any:
    """Import on first use, so that the command line starts without torch."""
    if name in _MODULES:
        return importlib.import_module(f"instaaug.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'instaaug' has no attribute {name!r}")
