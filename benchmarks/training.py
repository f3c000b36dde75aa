"""What is learned augmentation worth in training from few photos? With an oracle's crops beside.

20 classes of Tiny-ImageNet with 100 photos each, views of 32 pixels cut from 64, a narrow
PreActResNet-18, 50 epochs: without augmentation the model overfits. Needs INSTAAUG_DATA, a folder
with the original files in ``tiny-imagenet`` or ``tiny-imagenet-30``.
"""

from dataclasses import replace

import numpy as np

from benchmarks.oracle import load_photos
from instaaug.data import DataSplits

__all__ = ["photos"]

N_CLASSES = 20
N_VALIDATION = 50  # of each class
N_TEST = 150  # of each class, the same for every seed


def photos(seed: int, n_images: int = 100) -> DataSplits:
    """Photos of the first classes: the last ones for the test, others drawn by the seed.

    Arguments:
        seed: Draws training and validation images.
        n_images: Training images of each class.
    """
    train = load_photos().train
    generator = np.random.default_rng([19, seed])
    parts: list[list[np.ndarray]] = [[], [], []]
    for label in range(N_CLASSES):
        rows = np.flatnonzero(train.targets.numpy() == label)
        pool, test = generator.permutation(rows[:-N_TEST]), rows[-N_TEST:]
        taken = (pool[:n_images], pool[n_images : n_images + N_VALIDATION], test)
        for part, some in zip(parts, taken, strict=True):
            part.append(np.sort(some))
    few, validation, test = (train.subset(np.concatenate(part)) for part in parts)
    classes = train.classes[:N_CLASSES]
    return DataSplits(
        *(replace(part, classes=classes) for part in (few, validation, test)), name="photos"
    )
