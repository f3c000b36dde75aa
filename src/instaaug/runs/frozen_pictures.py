"""What a fitted augmenter chooses, and what choosing gains, as figures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from instaaug.augmentation.views import without_row
from instaaug.data import LabeledImages
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.distributions import CategoricalTheta
from instaaug.report.charts.cost_curve import draw_cost_curve
from instaaug.report.pictures.crops import draw_crops
from instaaug.runs.frozen_run import FittedViews
from instaaug.runs.frozen_scores import MethodScore
from instaaug.transforms import Crop

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["crops_figure", "curve_figure"]

N_PHOTOS = 12
N_TOP = 4


@torch.no_grad()
def crops_figure(fitted: FittedViews, images: LabeledImages) -> "Figure | None":
    """For a dozen images the crops that φ likes best; None if it chooses no crops.

    The image itself, which is always the first view, is not among them.
    """
    chosen = evenly_spaced_indices(len(images), N_PHOTOS)
    pixels, targets = images.__getitems__(chosen)
    device = next(fitted.aug.parameters()).device
    joint = fitted.aug.distribution(fitted.model.prepared(pixels).to(device))
    crop = joint.factors.get(Crop.name)
    if not isinstance(crop, CategoricalTheta):
        return None
    others = without_row(crop, crop.table.new_tensor([Crop.identity_box]))
    if not len(others.table):
        return None
    probs = others.logits.softmax(dim=-1).expand(len(pixels), -1)
    return draw_crops(
        pixels.float() / 255,
        probs,
        others.table,
        size=(fitted.facts.size, fitted.facts.size),
        titles=[images.classes[int(target)] for target in targets],
        n_top=min(N_TOP, len(others.table)),
    )


def curve_figure(learned: Sequence[MethodScore], others: Sequence[MethodScore]) -> "Figure":
    """Accuracy against views per image, a line per method; learned ones with 95 % intervals."""
    curves: dict[str, list[tuple[float, ...]]] = {}
    for row in [*learned, *others]:
        names = ("accuracy", "low", "high") if row in learned else ("accuracy",)
        point = (row.views, *(100 * row.numbers[name] for name in names))
        curves.setdefault(row.name, []).append(point)
    return draw_cost_curve(curves)
