"""φ may look for views that help with images that are kept from the model."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError
from instaaug.tasks import BatchLoader, Optimization
from instaaug.tasks.cross_fit import CrossFit
from tests.support.tiny_training import EachStep, fit, parameters_of, supervised

SIDE, N_IMAGES, N_KEPT = 8, 400, 200
UPPER_LEFT, LOWER_RIGHT = 0, 3
FEW = T.Crop(levels=((0.5, 2), (1.0, 1)), max_outside=0.0)


def shortcut_images() -> tuple[LabeledImages, CrossFit]:
    """Red in the upper left tells most labels; green in the lower right tells all but in the fold.

    So the lower right has the lowest loss in training, and is useless to images of the fold. After
    an epoch the model knows all training images by heart, and no view is of use any more.
    """
    generator = np.random.default_rng(0)
    labels = generator.integers(2, size=N_IMAGES)
    signal = np.where(generator.random(N_IMAGES) < 0.85, labels, 1 - labels)
    mark = labels.copy()
    mark[:N_KEPT] = generator.integers(2, size=N_KEPT)
    pixels = np.full((N_IMAGES, SIDE, SIDE, 3), 128, dtype=np.uint8)
    half = SIDE // 2
    pixels[:, :half, :half, 0] = 255 * signal[:, None, None]
    pixels[:, half:, half:, 1] = 255 * mark[:, None, None]
    data = LabeledImages(pixels, torch.from_numpy(labels), classes=("a", "b"))
    return data, CrossFit(data, (np.arange(N_KEPT),), end=1)


def learn(cross_fit: CrossFit, data: LabeledImages, **settings: Any) -> tuple[InstaAug, EachStep]:
    torch.manual_seed(0)
    aug = InstaAug(FEW, estimator="closed_form", mean=(0.5,) * 3, std=(0.5,) * 3)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE**2, 2))
    task = supervised(
        aug, model=model, mean=(0.5,) * 3, std=(0.5,) * 3, cross_fit=cross_fit,
        optimization=Optimization("sgd", 0.01), phi_optimization=Optimization("adam", 0.01),
        **settings,
    )  # fmt: skip
    note = EachStep(lambda _: parameters_of(aug))
    loader = BatchLoader(data, 50, seed=0, left_out=cross_fit.rows)
    fit(task, loader, epochs=2, callbacks=[note])
    return aug.eval(), note


def test_phi_avoids_what_helps_with_known_images_alone() -> None:
    data, cross_fit = shortcut_images()
    aug, note = learn(cross_fit, data, phi_goal="usefulness")
    x, _ = next(iter(BatchLoader(data, N_IMAGES)))
    shares = aug.distribution((x / 255 - 0.5) / 0.5).finite()["crop"].logits.exp().mean(dim=0)
    assert int(shares[:4].argmax()) == UPPER_LEFT
    assert float(shares[UPPER_LEFT]) > 1.5 * float(shares[LOWER_RIGHT])
    n_learning = 8 * cross_fit.end  # then the model gets all images
    assert not torch.equal(note.seen[0], note.seen[n_learning - 1])
    assert all(torch.equal(state, note.seen[-1]) for state in note.seen[n_learning:])


def test_it_needs_images_that_are_kept_from_the_model() -> None:
    aug = InstaAug(FEW, estimator="closed_form")
    with pytest.raises(ArgumentError, match="kept from the model"):
        supervised(aug, phi_goal="usefulness")


@pytest.mark.parametrize(
    ("transform", "settings", "message"),
    [
        (FEW, {"estimator": "score"}, "closed form"),
        (T.HSVJitter(), {}, "chooses from a table"),
    ],
)
def test_it_needs_choices_in_closed_form(
    transform: T.Transform, settings: dict[str, Any], message: str
) -> None:
    _, cross_fit = shortcut_images()
    aug = InstaAug(transform, **settings)
    with pytest.raises(ArgumentError, match=message):
        supervised(aug, phi_goal="usefulness", cross_fit=cross_fit)
