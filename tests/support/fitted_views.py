"""Views fitted to images of colored spots, in a moment."""

from pathlib import Path
from typing import Any

from instaaug.data import LabeledImages
from instaaug.runs.folder import DataFacts
from instaaug.runs.frozen_model import build_model, find_model, load_images
from instaaug.runs.settings import TtaSettings
from instaaug.runs.tta import FittedViews, fit_views
from tests.support.spots import COLORS, spot_folder

__all__ = ["fit_spots", "load_spots"]

SPOTTER = "tests.support.spots:spotter"


def load_spots(folder: Path) -> LabeledImages:
    """Sixty images of three classes."""
    data = {"source": str(spot_folder(folder / "spots", 20)), "cache_dir": str(folder / "cache")}
    config = TtaSettings.from_mapping({"model": SPOTTER, "data": data})
    return load_images(config, find_model(SPOTTER), side=32, channels=3)


def fit_spots(images: LabeledImages, **settings: Any) -> FittedViews:
    """Four quarters and the whole, chosen for a model that knows the color of a spot."""
    few = {"crop.grid": [[1, 1], [0.5, 2]], "views": [2, 4], "phi.steps": 30}
    config = TtaSettings.from_mapping({"model": SPOTTER, "data": "spots", **few, **settings})
    source = find_model(SPOTTER)
    model = build_model(source, config, len(COLORS))
    aug = fit_views(config, model, images, size=16)
    facts = DataFacts(16, 3, COLORS, len(COLORS), None, None, "", decode_size=32)
    return FittedViews(config, facts, source, model, aug, {1: 1.0, 4: 2.0})
