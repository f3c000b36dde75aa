"""φ for a frozen model as the settings ask for it, and temperatures that it cannot flatter."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from instaaug.augmentation import InstaAug
from instaaug.data import LabeledImages
from instaaug.frozen import FrozenViews, ViewTable, fit_temperature, fit_tta, tabulate
from instaaug.frozen.table import all_views, can_tabulate
from instaaug.networks import FrozenFeatures
from instaaug.runs.build import build_transforms
from instaaug.runs.frozen_model import FrozenModel
from instaaug.runs.frozen_scores import Logits, merged_outputs, tabulated_outputs
from instaaug.runs.settings import TtaSettings

__all__ = ["fit_views", "honest_temperatures"]

OnProgress = Callable[[int, int], None]


def fit_views(
    config: TtaSettings,
    model: FrozenModel,
    images: LabeledImages,
    *,
    size: int,
    folder: Path | None = None,
    table: ViewTable | None = None,
    steps: int | None = None,
    on_table: OnProgress | None = None,
) -> InstaAug:
    """Fit φ.

    Arguments:
        config: The settings.
        model: The model that stays as it is.
        images: To learn from.
        size: Side of what the model sees.
        folder: Where to keep what the model says of every view.
        table: What it has said, if it was asked before.
        steps: Of the optimizer; those of the settings by default.
        on_table: Called with the number of images whose views the model has seen, and of all.
    """
    return fit_tta(
        model.module,
        images,
        build_transforms(config.transforms, config.crop.grid, max_outside=0.0),
        n_samples=config.views.counts,
        objective=None if config.phi.objective == "auto" else config.phi.objective,
        features=config.phi.features,
        size=size,
        mean=model.mean,
        std=model.std,
        output=model.output,
        steps=config.phi.steps if steps is None else steps,
        seed=config.seed,
        folder=folder,
        table=table,
        on_progress=on_table,
    )


def honest_temperatures(
    config: TtaSettings,
    model: FrozenModel,
    images: LabeledImages,
    aug: InstaAug,
    *,
    size: int,
    counts: Sequence[int],
    folder: Path,
) -> dict[int, float]:
    """The temperature of each number of views, from the images that φ has learned from.

    φ knows the classes of these images: the views that it chooses for them make the model look
    surer than it is. So half of the images get the views of a φ that has learned from the other
    half, and the other way round. The model is not asked again. Ranges, which have few parameters
    and no table, are taken as they are.

    Arguments:
        config: The settings.
        model: The model.
        images: Those that φ has learned from.
        aug: With φ.
        size: Side of what the model sees.
        counts: Numbers of views.
        folder: Where the table is.
    """
    if not can_tabulate(aug):
        pictures = model.pictures(images)
        merged = merged_outputs(aug, model, pictures, counts, select=aug.select)
        return {n: fit_temperature(logits, images.targets) for n, logits in merged.items()}
    table = _table(model, images, aug, folder)
    generator = torch.Generator().manual_seed(config.seed)
    order = torch.randperm(len(images), generator=generator)
    halves = [half.sort().values for half in order.tensor_split(2)]
    parts: list[dict[int, Logits]] = []
    for learned, judged in (halves, halves[::-1]):
        other = fit_views(
            config, model, images.subset(learned.numpy()), size=size, table=table.subset(learned),
            steps=max(1, config.phi.steps // 2),  # as many rounds through half as many images
        )  # fmt: skip
        pictures = model.pictures(images.subset(judged.numpy()))
        parts.append(tabulated_outputs(other, table.subset(judged), pictures, counts))
    targets = images.targets[torch.cat(halves[::-1])]
    return {n: fit_temperature(torch.cat([p[n] for p in parts]), targets) for n in counts}


def _table(model: FrozenModel, images: LabeledImages, aug: InstaAug, folder: Path) -> ViewTable:
    """What the model said when φ was fitted."""
    network = aug.phi.network
    views = FrozenViews(
        model.module,
        aug.transform,
        all_views(aug),
        network if isinstance(network, FrozenFeatures) else None,
        model.output,
        aug.settings.padding_mode,
    )
    return tabulate(views, model.pictures(images), folder=folder)
