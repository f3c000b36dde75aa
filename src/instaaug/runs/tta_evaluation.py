"""Score fitted views and, for comparison, baselines that do not learn."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.augmentation.at_test_time import Budget
from instaaug.augmentation.views import Select
from instaaug.data import DataSplits, LabeledImages
from instaaug.data.cache import OnProgress
from instaaug.errors import ArgumentError, DataError, UnknownNameError
from instaaug.frozen import fit_temperature
from instaaug.methods import AutoAugment, FixedViews, RandAugment, RandomAugmentation
from instaaug.parameterizations import CropGrid
from instaaug.report.charts.cost_curve import draw_cost_curve
from instaaug.report.theme import MissingPlottingError, save_figure
from instaaug.runs.folder import Run
from instaaug.runs.frozen_model import drop_hashes, load_images, renumber_classes, split_by_hash
from instaaug.runs.settings import TtaSettings
from instaaug.runs.tta import FittedViews, load_fitted
from instaaug.runs.view_scores import (
    Logits,
    MethodScore,
    OnBatch,
    batch_counter,
    merge_outputs,
    score,
)
from instaaug.stats import mcnemar_test
from instaaug.transforms import Crop

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "BASELINES",
    "Baseline",
    "EarlyStop",
    "ViewComparison",
    "evaluate_fit",
    "find_baselines",
    "load_own_splits",
]

SMALLEST = 0.28  # side of a random crop: 8 % of the area, as in Inception's training


@dataclass(frozen=True)
class Baseline:
    """A method that does not learn.

    Arguments:
        name: For people.
        augmenter: Makes its views.
        n_views: How many it has; None for as many as one wants.
        select: How they are chosen.
        least: Fewest views that make it another method than the image alone.
    """

    name: str
    augmenter: Augmenter
    n_views: int | None = None
    select: Select = "sample"
    least: int = 1

    def counts(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """Numbers of views to try, none above the largest wanted.

        Example:
            >>> Baseline("flips", FixedViews.flips(), 2).counts([1, 4, 10])
            (2,)
            >>> Baseline("ten crop", FixedViews.ten_crop(), 10).counts([1, 4])
            ()
        """
        if self.n_views is None:
            return tuple(count for count in wanted if count >= self.least)
        return (self.n_views,) if self.n_views <= max(wanted) else ()


def find_baselines(words: str, fitted: FittedViews) -> list[Baseline]:
    """The baselines that were asked for; the image alone is always among them.

    Arguments:
        words: Names with commas, ``"all"`` or ``"none"``.
        fitted: Says how the model wants its images.
    """
    names = [word.strip() for word in words.split(",") if word.strip()]
    if names == ["all"]:
        names = list(BASELINES)
    elif names == ["none"]:
        names = []
    for name in names:
        if name not in BASELINES:
            raise UnknownNameError("baseline", name, [*BASELINES, "all", "none"])
    chosen = dict.fromkeys(["image", *names])
    return [BASELINES[name](fitted) for name in chosen]


def image(fitted: FittedViews) -> Baseline:
    """The whole image alone."""
    whole = FixedViews.center_crop(1.0, size=fitted.facts.image_size)
    return Baseline("the image alone", whole, 1, "top")


def center(fitted: FittedViews) -> Baseline:
    """The middle of the image, 7/8 of each side."""
    return Baseline("center crop", FixedViews.center_crop(size=fitted.facts.image_size), 1, "top")


def flips(fitted: FittedViews) -> Baseline:
    """The image and its mirror image."""
    return Baseline(
        "image and mirror image", FixedViews.flips(size=fitted.facts.image_size), 2, "top"
    )


def five_crop(fitted: FittedViews) -> Baseline:
    """Four corners and the middle, 7/8 of each side."""
    return Baseline("five crop", FixedViews.five_crop(size=fitted.facts.image_size), 5, "top")


def ten_crop(fitted: FittedViews) -> Baseline:
    """The same five, and those of the mirror image."""
    return Baseline("ten crop", FixedViews.ten_crop(size=fitted.facts.image_size), 10, "top")


def random(fitted: FittedViews) -> Baseline:
    """Boxes of any place, with a side from 0.28 of the image's on."""
    crops = RandomAugmentation(Crop(), sizes=(SMALLEST, 1.0), size=fitted.facts.image_size)
    return Baseline("random crops", crops)


def grid(fitted: FittedViews) -> Baseline:
    """The boxes that φ chooses from, drawn uniformly without replacement."""
    boxes = CropGrid(fitted.config.crop.grid, max_outside=0.0)
    return Baseline("uniform grid", FixedViews.grid(boxes, size=fitted.facts.image_size))


def image_and_grid(fitted: FittedViews) -> Baseline:
    """The image itself, which φ has too, then the other boxes uniformly without replacement."""
    aug = InstaAug(
        Crop(fitted.config.crop.grid, max_outside=0.0),
        conditioning="none",
        in_channels=fitted.facts.channels,
        size=fitted.facts.image_size,
        keep_original=True,
    )
    for parameter in aug.phi.parameters():
        parameter.data.zero_()  # all boxes are equally probable
    return Baseline("image, then uniform grid", aug.eval(), least=2)


def auto_augment(fitted: FittedViews) -> Baseline:
    """AutoAugment's policy for ImageNet."""
    model, size = fitted.model, fitted.facts.image_size
    return Baseline("AutoAugment", AutoAugment(mean=model.mean, std=model.std, size=size))


def rand_augment(fitted: FittedViews) -> Baseline:
    """RandAugment with its usual strength."""
    model, size = fitted.model, fitted.facts.image_size
    return Baseline("RandAugment", RandAugment(mean=model.mean, std=model.std, size=size))


BASELINES: Mapping[str, Callable[[FittedViews], Baseline]] = {
    "image": image,
    "center": center,
    "flips": flips,
    "five_crop": five_crop,
    "ten_crop": ten_crop,
    "random": random,
    "grid": grid,
    "image_and_grid": image_and_grid,
    "auto_augment": auto_augment,
    "rand_augment": rand_augment,
}
"""From a name on the command line to the function that makes the method."""


AT_ONCE = 64
OURS = "learned views"


@dataclass(frozen=True)
class EarlyStop:
    """When an image needs no further view; one of the two.

    Arguments:
        certainty: Probability of the top class that is enough.
        mean_views: Views per image, on average over 64 images.
    """

    certainty: float | None = None
    mean_views: float | None = None

    def __post_init__(self) -> None:
        Budget(self.certainty, self.mean_views)  # raises before anything is predicted

    @property
    def name(self) -> str:
        """Its name in tables."""
        if self.certainty is not None:
            return f"{OURS} until {self.certainty:g} certain"
        return f"{OURS}, {self.mean_views:g} on average"


@dataclass(frozen=True)
class ViewComparison:
    """Learned views against the best of the others that see no more views.

    Arguments:
        name: Of the learned row.
        views: How many views it has, on average.
        best: The best baseline with at most as many.
        best_views: How many that has.
        difference: In accuracy.
        only_learned: Images that only the learned views get right.
        only_best: Images that only the baseline gets right.
        p_value: Of McNemar's exact test.
    """

    name: str
    views: float
    best: str
    best_views: float
    difference: float
    only_learned: int
    only_best: int
    p_value: float


def evaluate_fit(
    run: Run,
    *,
    data: str | None = None,
    counts: Sequence[int] = (1, 4, 10),
    baselines: str = "all",
    stops: Sequence[EarlyStop] = (),
    calibrate: bool = False,
    on_decode: OnProgress | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Scores of a fit and of other methods; its folder receives ``eval.json`` and a figure.

    Arguments:
        run: The fit.
        data: Other images, of which those that φ has learned from are left out; by default the
            images that were held out.
        counts: Numbers of views.
        baselines: Names with commas, ``"all"`` or ``"none"``.
        stops: Rules to stop early, each with the largest number of views as its limit.
        calibrate: Whether to fit a temperature for every row, on the images of the fit; this asks
            the model as often again.
        on_decode: Called with the number of files decoded and of all files.
        on_progress: Called with the number of images predicted, over all methods, and of all.
    """
    fitted = load_fitted(run)
    if fitted.config.threads:
        torch.set_num_threads(fitted.config.threads)
    others = find_baselines(baselines, fitted)
    fit, images, n_left_out = _images(run, fitted, data, calibrate, on_decode)
    total = (1 + len(stops) + len(others)) * len(images)
    total += 0 if fit is None else len(others) * len(fit)
    scorer = _Scorer(fitted, images, fit, tuple(counts), batch_counter(on_progress, total))
    learned = [*scorer.score_learned(), *(scorer.score_stopped(stop) for stop in stops)]
    rows = [row for other in others for row in scorer.score_method(other)]
    comparisons = [_compare_with_best(row, rows) for row in learned]
    results = {
        "data": fitted.config.data.source if data is None else data,
        "n": len(images),
        "n_left_out": n_left_out,
        "rows": [row.to_dict() for row in [*learned, *rows]],
        "comparisons": [vars(comparison) for comparison in comparisons],
    }
    run.write_json(run.scores_file, results)
    with suppress(MissingPlottingError):
        save_figure(curve_figure(learned, rows), run.curve_file)
    return results


@dataclass(frozen=True)
class _Scorer:
    """Scores one method after the other on the same images."""

    fitted: FittedViews
    images: LabeledImages
    fit: LabeledImages | None
    counts: tuple[int, ...]
    on_batch: OnBatch

    def score_learned(self) -> Iterator[MethodScore]:
        """Learned views, for every number of them."""
        aug = self.fitted.aug
        return self.score_method(Baseline(OURS, aug, select=aug.select, least=2))

    def score_method(self, method: Baseline) -> Iterator[MethodScore]:
        """A method, for every number of views that it can have."""
        counts = method.counts(self.counts)
        if not counts:
            self.on_batch(len(self.images) + (0 if self.fit is None else len(self.fit)))
            return
        merged = self._merge(method, self.images, counts)
        temperatures = self._temperatures(method, counts)
        for count, logits in merged.items():
            temperature = temperatures.get(count)
            yield score(
                method.name, float(count), logits, self.images.targets, temperature=temperature
            )

    def score_stopped(self, stop: EarlyStop) -> MethodScore:
        """Learned views, with early stopping."""
        logits, views = self._predict_until_certain(stop)
        temperature = None if self.fit is None else self.fitted.temperature(views)
        return score(stop.name, views, logits, self.images.targets, temperature=temperature)

    def _temperatures(self, method: Baseline, counts: Sequence[int]) -> dict[int, float]:
        if self.fit is None:
            return {}
        if method.augmenter is self.fitted.aug:
            return {count: self.fitted.temperature(count) for count in counts}
        merged = self._merge(method, self.fit, counts)
        return {count: fit_temperature(merged[count], self.fit.targets) for count in counts}

    def _merge(
        self, method: Baseline, images: LabeledImages, counts: Sequence[int]
    ) -> dict[int, Logits]:
        augmenter = method.augmenter.to(next(self.fitted.aug.parameters()).device)
        return merge_outputs(
            augmenter, self.fitted.model, self.fitted.model.normalize(images), counts,
            select=method.select, rule=self.fitted.rule, seed=self.fitted.config.seed,
            on_batch=self.on_batch,
        )  # fmt: skip

    def _predict_until_certain(self, stop: EarlyStop) -> tuple[Logits, float]:
        """Logits, and how many views they took on average."""
        predict = self.fitted.predictor(
            max(self.counts), certainty=stop.certainty, mean_views=stop.mean_views
        )
        parts, views = [], []
        for x, _ in self.fitted.model.normalize(self.images).batches(AT_ONCE):
            logits, counts = predict(x)
            parts.append(logits)
            views.append(counts)
            self.on_batch(len(x))
        return torch.cat(parts), float(torch.cat(views).double().mean())


def _images(
    run: Run,
    fitted: FittedViews,
    data: str | None,
    calibrate: bool,
    on_decode: OnProgress | None,
) -> tuple[LabeledImages | None, LabeledImages, int]:
    """Images to calibrate with, images to score, and how many were left out of these."""
    splits = None
    if data is None or calibrate:
        splits = load_own_splits(run, fitted, on_decode)
    fit = splits.train if splits is not None and calibrate else None
    if data is None:
        assert splits is not None  # noqa: S101  # loaded above
        images = splits.test
        if not len(images):
            raise ArgumentError(
                "`data` must be given: the fit held no image out. Name images that φ has not "
                "learned from."
            )
        return fit, images, 0
    every = _load_images(fitted.config.override({"data": data}), fitted, on_decode)
    images = drop_hashes(every, run.read_fit_images())
    if not len(images):
        raise DataError(
            f"`data` must hold images that φ has not learned from: all {len(every)} of {data!r} "
            "are images of the fit. Name others, or none for those that were held out."
        )
    return fit, images, len(every) - len(images)


def load_own_splits(run: Run, fitted: FittedViews, on_decode: OnProgress | None) -> DataSplits:
    """The images of the fit and those held out from it; raise if they are others now."""
    splits = split_by_hash(_load_images(fitted.config, fitted, on_decode), fitted.config)
    run.check_split(splits.hash)
    return splits


def _load_images(
    config: TtaSettings, fitted: FittedViews, on_decode: OnProgress | None
) -> LabeledImages:
    facts = fitted.facts
    images = load_images(
        config, fitted.source, side=facts.decode_size, channels=facts.channels, on_decode=on_decode
    )
    return renumber_classes(images, facts.classes)


def _compare_with_best(row: MethodScore, others: Sequence[MethodScore]) -> ViewComparison:
    rivals = [other for other in others if other.views <= row.views]
    best = max(rivals, key=lambda other: other.numbers["accuracy"])
    found = mcnemar_test(row.right, best.right)
    return ViewComparison(
        name=row.name,
        views=row.views,
        best=best.name,
        best_views=best.views,
        difference=found.difference,
        only_learned=found.only_first,
        only_best=found.only_second,
        p_value=found.p_value,
    )


def curve_figure(learned: Sequence[MethodScore], others: Sequence[MethodScore]) -> "Figure":
    """Accuracy against views per image, a line per method; learned ones with 95 % intervals."""
    curves: dict[str, list[tuple[float, ...]]] = {}
    for row in [*learned, *others]:
        names = ("accuracy", "low", "high") if row in learned else ("accuracy",)
        point = (row.views, *(100 * row.numbers[name] for name in names))
        curves.setdefault(row.name, []).append(point)
    return draw_cost_curve(curves)
