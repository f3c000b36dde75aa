"""Score fitted views, and ways to choose views that learn nothing, on the same images."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from instaaug.augmentation.at_test_time import Budget, Merging
from instaaug.data import DataSplits, LabeledImages
from instaaug.data.cache import OnProgress
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.errors import ArgumentError, DataError, InstaAugError
from instaaug.frozen import fit_temperature
from instaaug.networks.model_interface import device_of
from instaaug.report.charts.cost_curve import draw_cost_curve
from instaaug.report.theme import MissingPlottingError, save_figure
from instaaug.runs.baselines import Baseline, find_baselines
from instaaug.runs.folder import Run
from instaaug.runs.frozen_model import drop_hashes, load_images, renumber_classes, split_by_hash
from instaaug.runs.other_model import use_other_model
from instaaug.runs.settings import FrozenSettings, OtherModelSettings, TransferSettings
from instaaug.runs.transfer import load_frozen, own_splits
from instaaug.runs.tta import FittedViews
from instaaug.runs.view_scores import (
    MEAN,
    CostCounter,
    Logits,
    MethodScore,
    OnBatch,
    batch_counter,
    merge_by_rules,
    score,
)
from instaaug.stats import mcnemar_test

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EarlyStop", "ViewComparison", "evaluate_fit", "load_own_splits"]

AT_ONCE = 64
MOST_TO_CHOOSE = 500
"""Images of the fit, at most, on which the rule of a baseline is chosen."""
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
    """Learned views against the best of the others that cost no more.

    Arguments:
        name: Of the learned row.
        views: How many views it has, on average.
        best: The best baseline that costs at most as much.
        best_views: How many views that has.
        best_merge: How these are merged.
        difference: In accuracy.
        only_learned: Images that only the learned views get right.
        only_best: Images that only the baseline gets right.
        p_value: Of McNemar's exact test.
    """

    name: str
    views: float
    best: str
    best_views: float
    best_merge: str
    difference: float
    only_learned: int
    only_best: int
    p_value: float


def evaluate_fit(
    run: Run,
    *,
    data: str | None = None,
    model: OtherModelSettings | str | None = None,
    counts: Sequence[int] = (1, 4, 10),
    baselines: str = "all",
    stops: Sequence[EarlyStop] = (),
    calibrate: bool = False,
    on_decode: OnProgress | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Scores of a fit and of other methods; its folder receives ``eval.json`` and a figure.

    A baseline is merged by the rule of the run or by the plain mean, whichever explains up to 500
    images of the fit better; where these are not at hand, or the model has learned from them, as
    the head of `instaaug transfer` has, by the rule of the run.

    Arguments:
        run: The fit.
        data: Other images, of which those that φ has learned from are left out; by default the
            images that were held out.
        model: Another model to predict with, from the views that were fitted for the run's own;
            its settings, or its name alone. The scores have a file of their own.
        counts: Numbers of views.
        baselines: Names with commas, ``"all"`` or ``"none"``.
        stops: Rules to stop early, each with the largest number of views as its limit.
        calibrate: Whether to fit a temperature for every row, on the images of the fit; this asks
            the model as often again.
        on_decode: Called with the number of files decoded and of all files.
        on_progress: Called with the number of images predicted, over all methods, and of all.
    """
    fitted = load_frozen(run)
    knows_fit = model is None and isinstance(fitted.config, TransferSettings)
    if calibrate and knows_fit:
        raise ArgumentError(
            "`calibrate` must be left out for a run of `instaaug transfer`, whose head knows the "
            "images of the fit: temperatures from these would be too low. Those of learned views "
            "come from heads that had not seen the image, and are in its results.json."
        )
    if fitted.config.threads:
        torch.set_num_threads(fitted.config.threads)
    if model is not None:
        model = OtherModelSettings(name=model) if isinstance(model, str) else model
        fitted = use_other_model(fitted, model)
    others = find_baselines(baselines, fitted)
    fit, images, n_left_out = _Images(run, fitted, on_decode).load(
        data,
        calibrate=calibrate,
        needs_choice=len(others) > 1 and fitted.rule != MEAN and not knows_fit,
    )
    learned_on_fit = calibrate and not fitted.temperatures
    total = (1 + len(stops) + len(others)) * len(images)
    total += 0 if fit is None else (len(others) + learned_on_fit) * len(fit)
    scorer = _Scorer(
        fitted, images, fit, tuple(counts), calibrate, batch_counter(on_progress, total)
    )
    learned = [*scorer.score_learned(), *(scorer.score_stopped(stop) for stop in stops)]
    rows = [row for other in others for row in scorer.score_method(other)]
    comparisons = [_compare_with_best(row, rows) for row in learned]
    results = {
        "data": fitted.config.data.source if data is None else data,
        "model": fitted.config.model.name if model is None else model.name,
        "n": len(images),
        "n_left_out": n_left_out,
        "rows": [row.to_dict() for row in [*learned, *rows]],
        "comparisons": [vars(comparison) for comparison in comparisons],
    }
    name = None if model is None else model.name
    run.write_json(run.scores_file_of(name), results)
    with suppress(MissingPlottingError):
        save_figure(curve_figure(learned, rows), run.curve_file_of(name))
    return results


@dataclass(frozen=True)
class _Scorer:
    """Scores one method after the other on the same images.

    Arguments:
        fitted: The model, and the views that were learned.
        images: To score on.
        fit: Images of the fit, to choose rules and fit temperatures on; None for neither.
        counts: Numbers of views.
        calibrate: Whether to fit temperatures.
        on_batch: Called with the number of images of each batch.
    """

    fitted: FittedViews
    images: LabeledImages
    fit: LabeledImages | None
    counts: tuple[int, ...]
    calibrate: bool
    on_batch: OnBatch

    @cached_property
    def costs(self) -> CostCounter:
        """Counts what a method costs."""
        model = self.fitted.model
        image = model.normalize(self.images).first(1).to(device_of(model.module))
        return CostCounter(model, image, self.fitted.facts.image_size)

    def score_learned(self) -> Iterator[MethodScore]:
        """Learned views, for every number of them."""
        views = self.fitted.augmenter
        return self.score_method(Baseline(OURS, views, select=views.select, least=2))

    def score_method(self, method: Baseline) -> Iterator[MethodScore]:
        """A method, for every number of views that it can have."""
        counts = method.counts(self.counts)
        is_ours = method.augmenter is self.fitted.augmenter
        judges = self.fit if not is_ours or not self.fitted.temperatures else None
        if not counts:
            self.on_batch(len(self.images) + (0 if judges is None else len(judges)))
            return
        own = self.fitted.rule
        rules = [own] if is_ours or own == MEAN else [own, MEAN]
        merged = self._merge(method, self.images, counts, rules)
        known = None if judges is None else self._merge(method, judges, counts, rules)
        for count in counts:
            chosen = len(rules) - 1 if count == 1 else self._choose(known, count)
            yield score(
                method.name,
                float(count),
                merged[chosen][count],
                self.images.targets,
                temperature=self._temperature(known, chosen, count),
                rule=rules[chosen] if count > 1 else MEAN,
                cost=self.costs.cost(method.augmenter, float(count), select=method.select),
            )

    def score_stopped(self, stop: EarlyStop) -> MethodScore:
        """Learned views, with early stopping."""
        logits, views = self._predict_until_certain(stop)
        calibrated = self.calibrate and self.fitted.temperatures
        return score(
            stop.name,
            views,
            logits,
            self.images.targets,
            temperature=self.fitted.temperature(views) if calibrated else None,
            rule=self.fitted.rule,
            cost=self.costs.cost(
                self.fitted.augmenter, views, select=self.fitted.augmenter.select
            ),
        )

    def _choose(self, known: Sequence[dict[int, Logits]] | None, count: int) -> int:
        """The rule that explains the images of the fit best, after the temperature it needs.

        The first, that of the run, if there are no such images.
        """
        if known is None:
            return 0
        losses = [self._loss(merged[count]) for merged in known]
        return losses.index(min(losses))

    def _loss(self, logits: Logits) -> float:
        assert self.fit is not None  # noqa: S101  # what is known of it was merged
        temperature = fit_temperature(logits, self.fit.targets)
        return float(F.cross_entropy(logits / temperature, self.fit.targets.long()))

    def _temperature(
        self, known: Sequence[dict[int, Logits]] | None, chosen: int, count: int
    ) -> float | None:
        if not self.calibrate:
            return None
        if known is None or self.fit is None:
            return self.fitted.temperature(count)
        return fit_temperature(known[chosen][count], self.fit.targets)

    def _merge(
        self,
        method: Baseline,
        images: LabeledImages,
        counts: Sequence[int],
        rules: Sequence[Merging],
    ) -> list[dict[int, Logits]]:
        augmenter = method.augmenter.to(device_of(self.fitted.model.module))
        return merge_by_rules(
            augmenter, self.fitted.model, self.fitted.model.normalize(images), counts, rules,
            select=method.select, share=method.share, seed=self.fitted.config.seed,
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


@dataclass(frozen=True)
class _Images:
    """The images of a run, and others."""

    run: Run
    fitted: FittedViews
    on_decode: OnProgress | None

    def load(
        self, data: str | None, *, calibrate: bool, needs_choice: bool
    ) -> tuple[LabeledImages | None, LabeledImages, int]:
        """Images of the fit if they are needed, images to score, and how many were left out."""
        splits: DataSplits | None = None
        if data is None or calibrate:
            splits = load_own_splits(self.run, self.fitted, self.on_decode)
        elif needs_choice:
            splits = self._splits_if_any()
        fit = None
        if splits is not None and calibrate:
            fit = splits.train
        elif splits is not None and needs_choice:
            fit = splits.train.subset(evenly_spaced_indices(len(splits.train), MOST_TO_CHOOSE))
        if data is None:
            assert splits is not None  # noqa: S101  # loaded above
            return fit, self._held_out(splits), 0
        others, n_left_out = self._others(data)
        return fit, others, n_left_out

    def _splits_if_any(self) -> DataSplits | None:
        """The images of the fit, unless they were moved or changed since."""
        try:
            return load_own_splits(self.run, self.fitted, self.on_decode)
        except (InstaAugError, OSError):
            return None

    def _held_out(self, splits: DataSplits) -> LabeledImages:
        if not len(splits.test):
            raise ArgumentError(
                "`data` must be given: the fit held no image out. Name images that φ has not "
                "learned from."
            )
        return splits.test

    def _others(self, data: str) -> tuple[LabeledImages, int]:
        config = self.fitted.config.override({"data": data})
        every = _load_images(config, self.fitted, self.on_decode)
        images = drop_hashes(every, self.run.read_fit_images())
        if not len(images):
            raise DataError(
                f"`data` must hold images that φ has not learned from: all {len(every)} of "
                f"{data!r} are images of the fit. Name others, or none for those that were held "
                "out."
            )
        return images, len(every) - len(images)


def load_own_splits(run: Run, fitted: FittedViews, on_decode: OnProgress | None) -> DataSplits:
    """The images of the fit and those held out from it; raise if they are others now."""
    if isinstance(fitted.config, TransferSettings):
        splits = own_splits(fitted, on_decode)
    else:
        splits = split_by_hash(_load_images(fitted.config, fitted, on_decode), fitted.config)
    run.check_split(splits.hash)
    return splits


def _load_images(
    config: FrozenSettings, fitted: FittedViews, on_decode: OnProgress | None
) -> LabeledImages:
    facts = fitted.facts
    images = load_images(
        config, fitted.source, side=facts.decode_size, channels=facts.channels, on_decode=on_decode
    )
    return renumber_classes(images, facts.classes)


def _compare_with_best(row: MethodScore, others: Sequence[MethodScore]) -> ViewComparison:
    rivals = [other for other in others if _cost(other) <= _cost(row)]
    best = max(rivals, key=lambda other: other.numbers["accuracy"])
    found = mcnemar_test(row.right, best.right)
    return ViewComparison(
        name=row.name,
        views=row.views,
        best=best.name,
        best_views=best.views,
        best_merge=best.rule.merge,
        difference=found.difference,
        only_learned=found.only_first,
        only_best=found.only_second,
        p_value=found.p_value,
    )


def _cost(row: MethodScore) -> float:
    return row.views if row.cost is None else row.cost


def curve_figure(learned: Sequence[MethodScore], others: Sequence[MethodScore]) -> "Figure":
    """Accuracy against views per image, a line per method; learned ones with 95 % intervals."""
    curves: dict[str, list[tuple[float, ...]]] = {}
    for row in [*learned, *others]:
        names = ("accuracy", "low", "high") if row in learned else ("accuracy",)
        point = (row.views, *(100 * row.numbers[name] for name in names))
        curves.setdefault(row.name, []).append(point)
    return draw_cost_curve(curves)
