"""A finished run of any kind, loaded and ready to be used."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.augmentation.at_test_time import Merging, TestTimeAugmentation
from instaaug.augmentation.plan import ResizedImage
from instaaug.augmentation.views import Select
from instaaug.data import LabeledImages
from instaaug.data.cache import OnProgress
from instaaug.errors import ArgumentError
from instaaug.frozen.table import all_views, can_tabulate
from instaaug.runs.build import load_task
from instaaug.runs.folder import Run
from instaaug.runs.frozen_model import drop_hashes, image_hashes
from instaaug.runs.settings import TrainSettings, TransferSettings
from instaaug.runs.training import load_splits, run_device
from instaaug.runs.transfer import load_frozen
from instaaug.runs.tta import FittedViews
from instaaug.runs.tta_evaluation import load_own_splits
from instaaug.tasks import AugmentedTask, make_predictor

__all__ = ["LoadedRun", "PixelPredictor", "load_run"]

PixelPredictor = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From 8-bit pixels to outputs, calibrated where the run can, and the views that each took."""


@dataclass(frozen=True)
class LoadedRun:
    """The model and the augmenter of a run, and how their inputs are prepared.

    Arguments:
        path: The run's folder.
        model: What predicts.
        augmenter: What makes views, or made those that the model has learned from.
        prepare: From 8-bit pixels to inputs.
        device: Where inputs must be.
        classes: Names; empty for a regression.
        n_targets: Numbers that it predicts; the number of classes in a classification.
        size: Side that image files are decoded to.
        channels: Of the images.
        mean: Per-channel mean of the inputs.
        std: Per-channel standard deviation.
        merging: How outputs for views become one.
        select: How views are chosen.
        n_views: How many views there can be; none for a method that is tested without.
        test_views: How many to look at: those that its result is from, or would be from.
        ranks_views: Whether φ was taught an order of views, which makes its entropy mean nothing.
        seed: Decides the draws.
        load_test_images: Loads the images that the run has not learned from.
        make_predictor: From the number of views, None for what the run was made for, and the
            certainty at which an image needs no further one, to a predictor.
        make_module: From the number of views, None for what the run was made for and 0 for the
            image alone, to a module from inputs to calibrated outputs.
        replace: Whether the same view may be drawn twice.
        ordered: Takes views in one order for all images, where these are used in its place.
    """

    path: Path
    model: nn.Module
    augmenter: Augmenter
    prepare: Callable[[Tensor], Tensor]
    device: str
    classes: tuple[str, ...]
    n_targets: int
    size: int
    channels: int
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    merging: Merging
    select: Select
    n_views: int | None
    test_views: int
    ranks_views: bool
    seed: int
    load_test_images: Callable[[OnProgress | None], LabeledImages]
    make_predictor: Callable[[int | None, float | None], PixelPredictor]
    make_module: Callable[[int | None], TestTimeAugmentation]
    replace: bool = False
    ordered: InstaAug | None = None


def load_run(path: str | Path) -> LoadedRun:
    """The run in a folder, whatever its kind.

    Raises:
        FileNotFoundError: If there is no run, or if it has not finished.
    """
    run = Run(path)
    settings = run.read_settings()
    if isinstance(settings, TrainSettings):
        return _load_trained(run, settings)
    return _load_fitted(run)


def _load_trained(run: Run, config: TrainSettings) -> LoadedRun:
    facts = run.read_facts()
    device = run_device(config)
    task = load_task(run).to(device)
    usual = _usual_views(run, config, task.augmenter)

    def load_test_images(on_decode: OnProgress | None) -> LabeledImages:
        splits = load_splits(config, on_decode)
        run.check_split(splits.hash)  # or training images might be among those of the test
        return _without_copies(splits.test, splits.train, run.path)

    return LoadedRun(
        path=run.path,
        model=task.predictor,
        augmenter=task.augmenter,
        prepare=task.normalize,
        device=device,
        classes=facts.classes,
        n_targets=facts.n_targets,
        size=facts.decode_size,
        channels=facts.channels,
        mean=facts.mean,
        std=facts.std,
        merging=(task.ordered or task.augmenter).merging,
        select=config.views.drawn,
        replace=config.views.replace,
        n_views=_most_views(task),
        test_views=usual or config.views.n_views,
        ranks_views=False,
        seed=config.seed,
        load_test_images=load_test_images,
        make_predictor=lambda n, certainty: _make_trained_predictor(
            task, config, usual if n is None and certainty is None else n, certainty
        ),
        make_module=lambda n: _wrap_trained(
            task, config, usual if n is None else n, facts.image_size
        ),
        ordered=task.ordered,
    )


def _most_views(task: AugmentedTask) -> int | None:
    """How many views there can be; None for any number."""
    if task.ordered is not None:
        return len(all_views(task.ordered))
    return None if task.augmenter.averages_views else 0


def _wrap_trained(
    task: AugmentedTask, config: TrainSettings, n_views: int, image_size: int
) -> TestTimeAugmentation:
    if not n_views:
        alone = ResizedImage(image_size, 1.0)
        return TestTimeAugmentation(task.augmenter, task.predictor, 1, whole=alone)
    return task.wrap_views(n_views, select=config.views.drawn, replace=config.views.replace)


def _usual_views(run: Run, config: TrainSettings, augmenter: Augmenter) -> int:
    """How many views a prediction takes unless it is said otherwise; 0 for the image alone.

    A classification with validation images takes views only where these say that they help.
    """
    asked = config.task == "classification" and config.data.validation_fraction > 0
    advised = run.read_validation().get("n_views", 1 if asked else config.views.n_views)
    if not augmenter.averages_views or advised == 1:
        return 0
    return config.views.n_views


def _make_trained_predictor(
    task: AugmentedTask, config: TrainSettings, n_views: int | None, certainty: float | None
) -> PixelPredictor:
    most = config.views.n_views if task.augmenter.averages_views else 0
    n = most if n_views is None or config.method.name == "none" else n_views
    if certainty is None:
        predict = make_predictor(
            task, n_samples=n, select=config.views.drawn, replace=config.views.replace,
            seed=config.seed,
        )  # fmt: skip

        def predict_all(pixels: Tensor) -> tuple[Tensor, Tensor]:
            return predict(pixels), torch.full((len(pixels),), max(n, 1))

        return predict_all
    if config.task == "regression" or not n:
        raise ArgumentError(
            "`certainty` needs a run that tells classes apart from several views: this one does "
            "not. Leave it out."
        )
    wrapped = task.wrap_views(
        n, select=config.views.drawn, replace=config.views.replace, certainty=certainty
    ).eval()
    generator = torch.Generator(task.mean.device).manual_seed(config.seed)

    @torch.no_grad()
    def predict_some(pixels: Tensor) -> tuple[Tensor, Tensor]:
        return wrapped.outputs_and_counts(task.normalize(pixels.to(task.mean.device)), generator)

    return predict_some


def _without_copies(test: LabeledImages, train: LabeledImages, path: Path) -> LabeledImages:
    """Test images without those that have a copy among the training images."""
    unseen = drop_hashes(test, image_hashes(train))
    if not len(unseen):
        raise ArgumentError(
            f"`runs` must have test images: all {len(test)} of {str(path)!r} have a copy among "
            "its training images. Remove the copies, and train again."
        )
    return unseen


def _load_fitted(run: Run) -> LoadedRun:
    fitted = load_frozen(run)
    facts, aug = fitted.facts, fitted.aug
    can_list = can_tabulate(aug)

    def load_test_images(on_decode: OnProgress | None) -> LabeledImages:
        images = load_own_splits(run, fitted, on_decode).test
        if not len(images):
            raise ArgumentError(
                f"`runs` must have test images: the fit in {str(run.path)!r} held none out. Fit "
                "again with --data.test_fraction 0.5."
            )
        return images

    def make_calibrated(n_views: int | None, certainty: float | None) -> PixelPredictor:
        n_most = n_views
        if n_views is None and certainty is not None:
            n_most = max(fitted.config.views.counts)
        elif n_views is not None:
            n_most = max(n_views, 1)  # the image comes first
        predict = fitted.predictor(n_most, certainty=certainty)

        def predict_calibrated(pixels: Tensor) -> tuple[Tensor, Tensor]:
            logits, counts = predict(fitted.model.prepare(pixels))
            return fitted.calibrate(logits, counts), counts

        return predict_calibrated

    return LoadedRun(
        path=run.path,
        model=fitted.model.module,
        augmenter=aug,
        prepare=fitted.model.prepare,
        device=str(next(aug.parameters()).device),
        classes=facts.classes,
        n_targets=facts.n_targets,
        size=facts.decode_size,
        channels=facts.channels,
        mean=fitted.model.mean,
        std=fitted.model.std,
        merging=replace(fitted.rule, output=fitted.model.output),
        select=aug.select,
        n_views=len(all_views(aug)) if can_list else None,
        test_views=_several(fitted),
        ranks_views=can_list and _is_taught_an_order(fitted),
        seed=fitted.config.seed,
        load_test_images=load_test_images,
        make_predictor=make_calibrated,
        make_module=fitted.module,
    )


def _several(fitted: FittedViews) -> int:
    """The views that the fit recommends, or all that it was fitted for if it recommends none."""
    usual = fitted.usual_views
    return usual if usual > 1 else max(fitted.config.views.counts)


def _is_taught_an_order(fitted: FittedViews) -> bool:
    config = fitted.config
    return isinstance(config, TransferSettings) or config.objective != "single"
