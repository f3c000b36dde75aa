"""One order of views for all images: learned for a trained model, or spread over the image."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.augmentation.plan import PlanShape
from instaaug.augmentation.worth import Gain
from instaaug.data import LabeledImages
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.frozen.calibration import fit_temperature
from instaaug.frozen.fit import DEFAULT_CROPS, fit_tta
from instaaug.frozen.table import all_views
from instaaug.tasks.evaluation import Predictor
from instaaug.tasks.loader import BatchLoader
from instaaug.tasks.supervised import SupervisedTask
from instaaug.transforms import Composition, Crop

__all__ = [
    "ViewOrder",
    "can_order",
    "count_images",
    "learn_order",
    "makes_crops_alone",
    "spread_views",
]

N_BOXES = sum(places**2 for _, places in DEFAULT_CROPS.levels)
FEWEST = 100  # images that an order can be learned from
MOST_IMAGES = 1000
PASSES_PER_STEP = 3  # a forward and a backward pass, in forward passes
SHARE = 0.1  # of the passes of training that learning an order may take
SPREAD_SIDES = (0.6, 0.8, 0.4)  # of boxes, where no labels say which are best


@dataclass(frozen=True, eq=False)
class ViewOrder:
    """An order of views, and what it is worth on the images it was learned from.

    Arguments:
        augmenter: Takes views in this order.
        n_images: How many images it was learned from; all of its scores are cross-validated.
        n_views: How many views to use; 1 if they do not make the true classes more likely than
            the image alone does.
        gain: What the views that were asked for add to the accuracy of the image alone.
        accuracy: With as many views as were asked for.
        nll: Their mean negative log-likelihood, at the best temperature.
        drawn_accuracy: With as many views that the method has drawn.
        drawn_nll: Their mean negative log-likelihood, at the best temperature.
    """

    augmenter: InstaAug
    n_images: int
    n_views: int
    gain: Gain
    accuracy: float
    nll: float
    drawn_accuracy: float
    drawn_nll: float

    @property
    def is_better(self) -> bool:
        """Whether these views make the true classes more likely than drawn ones do."""
        return self.nll < self.drawn_nll

    def to_dict(self) -> dict[str, Any]:
        """Scores, ready for JSON."""
        names = ("n_images", "accuracy", "nll", "drawn_accuracy", "drawn_nll", "is_better")
        return {name: getattr(self, name) for name in names}


def makes_crops_alone(augmenter: Augmenter) -> bool:
    """Whether all that an augmenter does is to crop, so that boxes can take the place of draws."""
    transform = getattr(augmenter, "transform", None)
    if isinstance(transform, Composition):
        return all(type(one) is Crop for one in transform.transforms)
    return type(transform) is Crop  # windows of signals are crops, too, but of another kind


def can_order(n_views: int) -> bool:
    """Whether there are enough boxes for so many views, and anything to order."""
    return 1 < n_views <= N_BOXES


def count_images(n_known: int, *, n_train: int, n_epochs: int) -> int:
    """How many images to learn an order from; 0 if they are too few.

    Every box of every image takes a pass of the model. Together these may take no more than
    ``SHARE`` of the time of training.

    Arguments:
        n_known: Images that the model has not learned from.
        n_train: Images that it has learned from.
        n_epochs: How often.

    Example:
        >>> count_images(5000, n_train=50_000, n_epochs=100)
        1000
        >>> count_images(400, n_train=2000, n_epochs=10)
        200
        >>> count_images(60, n_train=2000, n_epochs=10)
        0
    """
    paid = int(SHARE * PASSES_PER_STEP * n_train * n_epochs / N_BOXES)
    found = min(n_known, MOST_IMAGES, paid)
    return found if found >= FEWEST else 0


def learn_order(
    task: SupervisedTask,
    images: LabeledImages,
    predict_drawn: Predictor,
    *,
    n_images: int,
    n_views: int,
    size: int,
    batch_size: int,
    merge: Literal["logit", "confidence", "auto"] = "auto",
    seed: int,
) -> ViewOrder:
    """Order the boxes of ``DEFAULT_CROPS`` for all images, and compare that with drawn views.

    The greedy order is all that is asked for: where nothing depends on the image, further steps of
    the fit have not changed it.

    Arguments:
        task: With the trained model.
        images: From which the model has not learned.
        predict_drawn: Predicts from as many views that the method draws.
        n_images: How many to take, from all over the images.
        n_views: How many views predictions will take.
        size: Side in pixels of what the model sees.
        batch_size: Images at a time.
        merge: How outputs for views become one; as in :func:`~instaaug.frozen.fit_tta`.
        seed: Decides the folds.
    """
    chosen = images.subset(evenly_spaced_indices(len(images), n_images))
    aug = fit_tta(
        task.predictor, chosen, DEFAULT_CROPS, n_samples=n_views, features="none", size=size,
        mean=task.mean.flatten().tolist(), std=task.std.flatten().tolist(), sizes=(), steps=1,
        merge=merge, seed=seed,
    )  # fmt: skip
    found = aug.validation
    assert found is not None  # noqa: S101  # there are images enough
    alone, views = (
        next(row for row in found.rows if row.name == name)
        for name in ("the image alone", "learned views")
    )
    outputs, targets = _predict_all(predict_drawn, BatchLoader(chosen, batch_size))
    return ViewOrder(
        augmenter=aug,
        n_images=len(chosen),
        n_views=n_views if views.nll < alone.nll else 1,
        gain=found.gains[n_views],
        accuracy=views.accuracy,
        nll=views.nll,
        drawn_accuracy=float((outputs.argmax(dim=1) == targets).double().mean()),
        drawn_nll=float(F.cross_entropy(outputs / fit_temperature(outputs, targets), targets)),
    )


def spread_views(
    *, size: int, channels: int, mean: Sequence[float], std: Sequence[float]
) -> InstaAug:
    """The whole image, then boxes all over it, the same for all images; nothing is learned.

    Of each size, every box is as far as can be from those before it, and the first in the middle.

    Arguments:
        size: Side in pixels of what the model sees.
        channels: Of the images.
        mean: What images were normalized with.
        std: What images were normalized with.
    """
    aug = InstaAug(
        DEFAULT_CROPS, conditioning="none", in_channels=channels, mean=mean, std=std, size=size,
        keep_original=True, select="top",
    )  # fmt: skip
    boxes = all_views(aug)[1:]
    sides = boxes[:, 2] / 2
    order = [
        k
        for side in SPREAD_SIDES
        for k in _farthest_first(boxes, torch.nonzero((sides - side).abs() < 1e-3).flatten())
    ]
    aug.set_plan(PlanShape(len(boxes))).set_order(order)
    return aug.eval()


def _farthest_first(boxes: Tensor, rows: Tensor) -> list[int]:
    """Some rows, from the most central on, each as far as can be from those before it."""
    centers = boxes[rows, :2]
    apart = torch.cdist(centers, centers)
    order = [int(centers.norm(dim=1).argmin())]
    while len(order) < len(rows):
        nearest = apart[:, order].amin(dim=1)
        nearest[order] = -1.0
        order.append(int(nearest.argmax()))
    return [int(rows[k]) for k in order]


def _predict_all(predict: Predictor, batches: BatchLoader) -> tuple[Tensor, Tensor]:
    pairs = [(predict(x).float().cpu(), targets.long()) for x, targets in batches]
    outputs, targets = zip(*pairs, strict=True)
    return torch.cat(outputs), torch.cat(targets)
