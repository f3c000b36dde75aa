"""A finished run of either kind, ready to be asked about single inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from instaaug.augmentation import Augmenter
from instaaug.augmentation.at_test_time import Merging
from instaaug.augmentation.views import Select
from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError
from instaaug.frozen.table import all_views, can_tabulate
from instaaug.report.records import kind_of
from instaaug.runs.frozen_data import image_hashes, without_hashes
from instaaug.runs.frozen_evaluation import own_splits
from instaaug.runs.frozen_run import FrozenRun
from instaaug.runs.inference import run_device
from instaaug.runs.run_directory import RunDirectory
from instaaug.runs.training import load_splits

__all__ = ["Subject", "find_subject"]

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Subject:
    """The model and the augmenter of a run, and how its images become what they take.

    Arguments:
        path: The run's folder.
        model: What predicts.
        augmenter: What makes views.
        prepared: From 8-bit pixels to inputs.
        device: Where inputs must be.
        classes: Names; empty for a regression.
        size: Side that image files are decoded to.
        channels: Of the images.
        mean: Per-channel mean of the inputs.
        std: Per-channel standard deviation.
        merging: How outputs for views become one.
        select: How views are chosen.
        n_views: How many views there can be; none for a method that is tested without.
        test_views: How many its result is from.
        ranks_views: Whether φ was taught an order of views, which makes its entropy mean nothing.
        seed: Decides the draws.
        test_images: Loads the images that the run has not learned from.
    """

    path: Path
    model: nn.Module
    augmenter: Augmenter
    prepared: Callable[[Tensor], Tensor]
    device: str
    classes: tuple[str, ...]
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
    test_images: Callable[[OnProgress | None], LabeledImages]


def find_subject(path: str | Path) -> Subject:
    """The run in a folder, whether ``instaaug train`` or ``instaaug tta fit`` made it."""
    return _trained(Path(path)) if kind_of(Path(path)) == "train" else _fitted(Path(path))


def _trained(path: Path) -> Subject:
    run = RunDirectory(path)
    config, facts = run.read_config(), run.read_facts()
    device = run_device(config)
    task = run.load_task().to(device)

    def test_images(on_decode: OnProgress | None) -> LabeledImages:
        splits = load_splits(config, on_decode)
        run.check_split(splits.hash)  # or training images might be among those of the test
        return _without_copies(splits.test, splits.train, path)

    return Subject(
        path=path,
        model=task.predictor,
        augmenter=task.augmenter,
        prepared=task.normalize,
        device=device,
        classes=facts.classes,
        size=facts.image_size,
        channels=facts.channels,
        mean=facts.mean,
        std=facts.std,
        merging=Merging(config.views.merge),
        select=config.views.select,
        n_views=None if task.augmenter.averages_views else 0,
        test_views=config.views.n_views,
        ranks_views=False,
        seed=config.seed,
        test_images=test_images,
    )


def _without_copies(test: LabeledImages, train: LabeledImages, path: Path) -> LabeledImages:
    """Test images that are not also among those of training, as copies are."""
    unseen = without_hashes(test, image_hashes(train))
    if not len(unseen):
        raise ArgumentError(
            f"`runs` must have test images: all {len(test)} of {str(path)!r} have a copy among "
            "its training images. Remove the copies, and train again."
        )
    return unseen


def _fitted(path: Path) -> Subject:
    run = FrozenRun(path)
    fitted = run.load()
    facts, aug = fitted.facts, fitted.aug
    can_list = can_tabulate(aug)

    def test_images(on_decode: OnProgress | None) -> LabeledImages:
        images = own_splits(run, fitted, on_decode).test
        if not len(images):
            raise ArgumentError(
                f"`runs` must have test images: the fit in {str(path)!r} held none out. Fit "
                "again with --test-fraction 0.5."
            )
        return images

    return Subject(
        path=path,
        model=fitted.model.module,
        augmenter=aug,
        prepared=fitted.model.prepared,
        device=str(next(aug.parameters()).device),
        classes=facts.classes,
        size=facts.side,
        channels=facts.channels,
        mean=fitted.model.mean,
        std=fitted.model.std,
        merging=Merging(output=fitted.model.output),
        select=aug.select,
        n_views=len(all_views(aug)) if can_list else None,
        test_views=max(fitted.config.views.counts),
        ranks_views=can_list and fitted.config.phi.objective != "single",
        seed=fitted.config.seed,
        test_images=test_images,
    )
