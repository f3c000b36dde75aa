"""Textures under simulated lights: the laptop's stand-in for RawFooT.

Two data sources for ``instaaug.data.load_data``. They need INSTAAUG_DATA, a folder with
``kth-tips-128``: photos of eleven materials. Neighboring photos show the same sample, so that
training, validation and test have blocks of neighbors; the split is the same for all seeds.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from instaaug.data import DataSplits, LabeledImages, load_data
from instaaug.data.rawfoot import ALL_LIGHTS, D45, choose_lights
from paper.comparing import data_folder
from paper.lights import relit_set

__all__ = ["load_lit", "load_validation"]

SIZE = 32
PHOTOS = "kth-tips-128"
TEST_LIGHTS = 4  # lights that each test photo is seen under


def load_lit(
    train_lights: str | int | Sequence[int] = D45,
    n_train_lights: int | None = None,
    seed: int = 0,
) -> DataSplits:
    """Training photos under a few simulated lights, test photos under all 46.

    Arguments:
        train_lights: Numbers of the lights to train under, or text such as ``"1-4,7"``.
        n_train_lights: How many of these are trained under, drawn by the seed; all if None.
        seed: Decides the lights, and which training photo is seen under which of them.
    """
    lights = choose_lights(train_lights, n_train_lights, seed=seed)
    return _light_photos(data_folder(PHOTOS), tuple(lights), seed)


def load_validation() -> LabeledImages:
    """Validation photos under all 46 lights, to choose settings by."""
    photos = _load_photos(data_folder(PHOTOS)).validation
    assert photos is not None  # noqa: S101
    return relit_set(photos, ALL_LIGHTS, per_image=TEST_LIGHTS)


@lru_cache(maxsize=4)  # many runs of one process have the same images
def _light_photos(folder: Path, lights: tuple[int, ...], seed: int) -> DataSplits:
    photos = _load_photos(folder)
    assert photos.validation is not None  # noqa: S101
    return DataSplits(
        train=relit_set(photos.train, lights, per_image=1, seed=seed),
        validation=relit_set(photos.validation, lights, per_image=1, seed=seed),
        test=relit_set(photos.test, ALL_LIGHTS, per_image=TEST_LIGHTS),
        name=f"{PHOTOS} under simulated lights",
    )


@lru_cache(maxsize=1)
def _load_photos(folder: Path) -> DataSplits:
    return load_data(folder, size=SIZE, split="block", validation_fraction=0.15)
