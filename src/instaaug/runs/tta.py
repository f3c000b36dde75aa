"""Fit views for a frozen model, keep them, and load them again."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.augmentation.at_test_time import Merging, TestTimeAugmentation
from instaaug.augmentation.stopping import StopRule
from instaaug.augmentation.views import without_row
from instaaug.data import LabeledImages
from instaaug.data.cache import OnProgress
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.distributions import CategoricalTheta
from instaaug.errors import ArgumentError, DataError
from instaaug.frozen import (
    FrozenViews,
    ViewTable,
    average_policy,
    fit_temperature,
    fit_tta,
    tabulate,
)
from instaaug.frozen.streaming import OnPlan, plan_table
from instaaug.frozen.table import all_views, can_tabulate
from instaaug.networks import FrozenFeatures
from instaaug.networks.model_interface import device_of
from instaaug.report.pictures.crops import draw_crops
from instaaug.report.pictures.samples import describe_prediction
from instaaug.report.theme import MissingPlottingError, save_figure
from instaaug.runs.folder import DataFacts, Run
from instaaug.runs.frozen_model import (
    FitInputs,
    FrozenModel,
    ModelSource,
    build_model,
    choose_sizes,
    find_channels,
    find_class_names,
    find_model,
    image_hashes,
    load_images,
    renumber_classes,
    split_by_hash,
)
from instaaug.runs.settings import FrozenSettings, TtaSettings
from instaaug.runs.view_scores import (
    MEAN,
    CostCounter,
    Logits,
    batch_counter,
    merge_outputs,
    merge_tabulated_outputs,
    resized_outputs,
    score,
)
from instaaug.transforms import Crop, make_transforms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "FittedViews",
    "ViewPredictor",
    "fit_frozen",
    "fit_temperatures",
    "fit_views",
    "load_fitted",
    "model_hash",
    "score_rows",
    "write_crops",
]

BATCH_SIZE = 32
DPI = 120  # of the figure of crops: photos need no more
N_PHOTOS = 12
N_TOP = 4

ViewPredictor = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From images to logits before any temperature, and the number of views of each."""
CROPS_CAPTION = (
    "The first view is the whole image; the boxes are views after it, which complement it. "
    "Numbers rank them, the color of a frame is its probability. Above each photo: its class, "
    "and the class that is predicted from as many views as the fit advises."
)


@dataclass(frozen=True)
class FittedViews:
    """A frozen model, the augmenter that was fitted for it, and temperatures.

    Arguments:
        config: The settings of the fit.
        facts: What it found.
        source: Where the model comes from.
        model: The model.
        aug: The augmenter.
        temperatures: By the number of views, from the images of the fit; none say nothing.
        elsewhere: Makes the views in place of ``aug``, where ``model`` is not the one that was
            fitted for.
    """

    config: FrozenSettings
    facts: DataFacts
    source: ModelSource
    model: FrozenModel
    aug: InstaAug
    temperatures: Mapping[int, float]
    elsewhere: Augmenter | None = None

    @property
    def usual_views(self) -> int:
        """How many views a prediction takes unless it is said otherwise."""
        plan = self.aug.plan
        return (plan.shape.n_views if plan is not None else 0) or max(self.config.views.counts)

    @property
    def augmenter(self) -> Augmenter:
        """What makes the views."""
        return self.aug if self.elsewhere is None else self.elsewhere

    @property
    def rule(self) -> Merging:
        """How outputs of views are merged."""
        return self.aug.merging

    def predictor(
        self,
        n_views: int | None = None,
        *,
        certainty: float | None = None,
        mean_views: float | None = None,
    ) -> ViewPredictor:
        """A function from images as the model takes them to logits, and the views they took.

        No temperature divides the logits; but certainty is judged with the largest one of so many
        views or fewer, so that an image is not done too soon.

        Arguments:
            n_views: Views per image, at most; what the fit recommends by default, which may be one
                larger image.
            certainty: Probability of the top class at which an image needs no further view.
            mean_views: Views per image on average.
        """
        larger = n_views is None and self.elsewhere is None and self.aug.whole is not None
        n_views = self.usual_views if n_views is None else n_views
        few = [n for n in self.temperatures if n <= n_views] or [n_views]
        cautious = max(self.temperature(n) for n in few)
        wrapped = self.augmenter.wrap(
            self.model.module,
            None if larger else n_views,
            output=self.model.output,
            temperature=cautious,
            certainty=certainty,
            mean_views=mean_views,
        ).eval()

        @torch.no_grad()
        def predict(x: Tensor) -> tuple[Tensor, Tensor]:
            logits, counts = wrapped.outputs_and_counts(x.to(next(self.aug.parameters()).device))
            return logits.cpu() * cautious, counts.cpu()

        return predict

    def module(self, n_views: int | None = None) -> TestTimeAugmentation:
        """A module from images as the model takes them to calibrated logits.

        Arguments:
            n_views: Views per image; what the fit recommends by default, which may be one larger
                image; 0 or 1 for the image alone.
        """
        larger = n_views is None and self.aug.whole is not None
        n = self.usual_views if n_views is None else max(n_views, 1)
        return self.augmenter.wrap(
            self.model.module,
            None if larger else n,
            output=self.model.output,
            temperature=self.temperature(1 if larger else n),
        )

    def calibrate(self, logits: Tensor, counts: Tensor) -> Tensor:
        """Logits divided by the temperature of the number of views that each image took."""
        divisors = [self.temperature(count) for count in counts.tolist()]
        return logits / logits.new_tensor(divisors)[:, None]

    def temperature(self, n_views: float | int) -> float:
        """The temperature of a number of views, or of the nearest number that has one; else 1."""
        if not self.temperatures:
            return 1.0
        if n_views in self.temperatures:
            return self.temperatures[int(n_views)]
        known = [n for n in self.temperatures if n]  # 0 is a preview
        return self.temperatures[min(known, key=lambda n: abs(log(n / max(n_views, 1))))]


def load_fitted(run: Run) -> FittedViews:
    """The frozen model of a run, and the augmenter that was fitted for it.

    Raises:
        FileNotFoundError: If the fit has not finished.
        ArgumentError: If the model is another one now.
    """
    config = run.read_tta_settings()
    if not run.results_file.is_file() or not run.augmenter_file.is_file():
        lost = "results.json" if run.augmenter_file.is_file() else "aug.safetensors"
        raise FileNotFoundError(
            f"The fit in {str(run.path)!r} has not finished: there is no {lost}. The same "
            "`instaaug tta fit` again goes on with it."
        )
    facts = run.read_facts()
    source = find_model(config.model.name)
    model = build_model(source, config, len(facts.classes))
    network = None
    if config.phi.features == "model" and config.phi.network is None:
        network = FrozenFeatures(
            model.module, size=facts.image_size, in_channels=facts.channels, output=model.output
        )
    aug = InstaAug.load(run.augmenter_file, network=network).eval()
    aug = aug.to(next((p.device for p in model.module.parameters()), "cpu"))
    if (now := model_hash(model.module, aug)) != facts.model_hash:
        raise ArgumentError(
            f"`model` must be the one that φ was fitted for: {config.model.name!r} had the hash "
            f"{facts.model_hash}, now it has {now}. Does it load its weights? If it was "
            "trained further, fit again."
        )
    found = run.read_results().get("temperatures")
    if found is None:
        raise DataError(
            f"{str(run.results_file)!r} must be as the run wrote it: it has no temperatures. "
            "Restore it, or fit again."
        )
    temperatures = {int(n): float(temperature) for n, temperature in found.items()}
    return FittedViews(config, facts, source, model, aug, temperatures)


def model_hash(module: nn.Module, aug: InstaAug) -> str:
    """Sixteen hex digits that change with the model's state."""
    return FrozenViews(module, aug.transform, aug.transform.identity()).fingerprint[:16]


def fit_views(
    config: TtaSettings,
    model: FrozenModel,
    images: LabeledImages,
    *,
    size: int,
    folder: Path | None = None,
    table: ViewTable | None = None,
    steps: int | None = None,
    rule: Merging | None = None,
    on_plan: OnPlan | None = None,
    on_table: OnProgress | None = None,
) -> InstaAug:
    """Fit φ with the settings of a run.

    Arguments:
        config: The settings.
        model: The model that stays as it is.
        images: To learn from.
        size: Side of what the model sees.
        folder: Where to keep the model's outputs for every view.
        table: These outputs, if they were computed before.
        steps: Of the optimizer; those of the settings by default.
        rule: How views are merged; what the settings say by default.
        on_plan: Called with what the table will hold, if it cannot hold all images.
        on_table: Called with the number of images whose views the model has seen, and of all.
    """
    return fit_tta(
        model.module,
        images,
        make_transforms(config.transforms, levels=config.crop.grid, max_outside=0.0),
        n_samples=config.views.counts,
        objective=config.objective,
        entropy=config.entropy,
        merge=config.views.merge if rule is None else rule.merge,  # type: ignore[arg-type]
        sharpness=config.views.sharpness if rule is None else rule.sharpness,
        sizes=config.views.sizes,
        features=config.phi.network or config.phi.features,
        size=size,
        mean=model.mean,
        std=model.std,
        output=model.output,
        steps=config.phi.steps if steps is None else steps,
        seed=config.seed,
        folder=folder,
        table=table,
        max_table_bytes=_table_bytes(config),
        passes=config.phi.passes,
        on_plan=on_plan,
        on_progress=on_table,
    )


def fit_temperatures(
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
    half, and the other way round. The model is not asked again; where images were streamed, those
    in the table are taken. Ranges, which have few parameters and no table, are taken as they are.

    Arguments:
        config: The settings.
        model: The model.
        images: Those that φ has learned from.
        aug: With φ.
        size: Side of what the model sees.
        counts: Numbers of views.
        folder: Where the table is.
    """
    rule = aug.merging
    if not can_tabulate(aug):
        inputs = model.normalize(images)
        merged = merge_outputs(aug, model, inputs, counts, select=aug.select, rule=rule)
        return {n: fit_temperature(logits, images.targets) for n, logits in merged.items()}
    views = _frozen_views(model, aug)
    images = _tabulated(config, model, images, views)
    table = tabulate(views, model.normalize(images), folder=folder)
    generator = torch.Generator().manual_seed(config.seed)
    order = torch.randperm(len(images), generator=generator)
    halves = [half.sort().values for half in order.tensor_split(2)]
    parts: list[dict[int, Logits]] = []
    for learned, judged in (halves, halves[::-1]):
        other = fit_views(
            config, model, images.subset(learned.numpy()), size=size, table=table.subset(learned),
            steps=max(1, config.phi.steps // 2),  # as many rounds through half as many images
            rule=rule,
        )  # fmt: skip
        inputs = model.normalize(images.subset(judged.numpy()))
        parts.append(merge_tabulated_outputs(other, table.subset(judged), inputs, counts, rule))
    targets = images.targets[torch.cat(halves[::-1])]
    return {n: fit_temperature(torch.cat([p[n] for p in parts]), targets) for n in counts}


def _table_bytes(config: TtaSettings) -> int:
    return int(config.data.max_table_gb * 1e9)


def _tabulated(
    config: TtaSettings, model: FrozenModel, images: LabeledImages, views: FrozenViews
) -> LabeledImages:
    """The images in the table of a fit: all, or those that there was room for."""
    plan = plan_table(
        views, model.normalize(images), max_bytes=_table_bytes(config), seed=config.seed
    )
    return images if plan is None else images.subset(plan.rows.numpy())


def _frozen_views(model: FrozenModel, aug: InstaAug) -> FrozenViews:
    """The model and the views that φ was fitted to."""
    network = aug.phi.network
    return FrozenViews(
        model.module,
        aug.transform,
        all_views(aug),
        network if isinstance(network, FrozenFeatures) else None,
        model.output,
        aug.settings.padding_mode,
    )


def fit_frozen(
    config: TtaSettings,
    out: str | Path,
    *,
    on_decode: OnProgress | None = None,
    on_plan: OnPlan | None = None,
    on_table: OnProgress | None = None,
    on_score: OnProgress | None = None,
) -> dict[str, Any]:
    """Fit views; the folder ``out`` receives everything. Returns the results.

    A fit that was interrupted goes on where it stopped, and a finished one is not repeated.

    Arguments:
        config: Every setting.
        out: A new folder, or that of the same fit.
        on_decode: Called with the number of files decoded and of all files.
        on_plan: Called with what the table of the model's outputs will hold, if it cannot hold
            all images.
        on_table: Called with the number of images of which the model has seen every view, and of
            all images.
        on_score: Called with the number of held-out images that were predicted, and of all.
    """
    run, config = Run(out), config.with_full_paths()
    with run.fitting(config) as elapsed:
        if run.results_file.is_file():
            return run.read_results()
        found = _prepare(config, on_decode)
        aug = fit_views(
            config, found.model, found.splits.train, size=found.size, folder=run.table,
            on_plan=on_plan, on_table=on_table,
        )  # fmt: skip
        results = _finish(run, config, found, aug, on_score)
        run.write_results(results, seconds=elapsed())
    return results


def _prepare(config: TtaSettings, on_decode: OnProgress | None) -> FitInputs:
    if config.threads:
        torch.set_num_threads(config.threads)
    source = find_model(config.model.name)
    size, side = choose_sizes(config, source)
    channels = find_channels(source, config)
    images = load_images(config, source, side=side, channels=channels, on_decode=on_decode)
    size = images.image_shape[1] if size is None else size
    images = renumber_classes(images, find_class_names(config, source, images.classes))
    model = build_model(source, config, len(images.classes))
    model.check_outputs(size, images.classes)
    return FitInputs(source, model, split_by_hash(images, config), size)


def _finish(
    run: Run,
    config: TtaSettings,
    found: FitInputs,
    aug: InstaAug,
    on_score: OnProgress | None,
) -> dict[str, Any]:
    """Write φ and all that follows from it; return the results."""
    fit, held_out = found.splits.train, found.splits.test
    facts = DataFacts(
        image_size=found.size,
        channels=found.model.channels,
        classes=fit.classes,
        n_targets=len(fit.classes),
        mean=found.model.mean,
        std=found.model.std,
        split_hash=found.splits.hash,
        decode_size=fit.image_shape[1],
        model_hash=model_hash(found.model.module, aug),
    )
    run.write_facts(facts, image_hashes(fit))
    aug.save(run.augmenter_file)
    counts = (1, *config.views.counts)
    validation = aug.validation
    temperatures = (
        fit_temperatures(
            config, found.model, fit, aug, size=found.size, counts=counts, folder=run.table
        )
        if validation is None
        else validation.temperatures
    )
    fitted = FittedViews(config, facts, found.source, found.model, aug, temperatures)
    _write_policy(run, config, fitted, fit)
    write_crops(run, fitted, held_out if len(held_out) else fit)
    rows = score_rows(fitted, fit, held_out, on_score)
    return {
        "model": config.model.name,
        "data": config.data.source,
        "seed": config.seed,
        "n_fit": len(fit),
        "n_test": len(held_out),
        "n_views": len(all_views(aug)) if can_tabulate(aug) else None,
        "classes_from": "data"
        if config.model.classes is None and not found.source.classes
        else "model",
        "merge": aug.merge,
        "sharpness": aug.sharpness,
        "temperatures": {str(n): temperature for n, temperature in temperatures.items()},
        "validation": None if validation is None else validation.to_dict(),
        "skipped": list(fit.skipped),
        "split_hash": facts.split_hash,
        "rows": rows,
    }


def score_rows(
    fitted: FittedViews,
    fit: LabeledImages,
    held_out: LabeledImages,
    on_score: OnProgress | None,
) -> list[dict[str, Any]]:
    """Scores of each number of views on held-out images; without any, costs and temperatures.

    Arguments:
        fitted: The model and its views.
        fit: The images that it was fitted to.
        held_out: Others, or none.
        on_score: Called with the number of images that were predicted, and of all.
    """
    aug, model = fitted.aug, fitted.model
    counts = (1, *fitted.config.views.counts)
    example = model.normalize(fit).first(1).to(device_of(aug))
    counter = CostCounter(model, example, fitted.facts.image_size)
    costs = {n: counter.cost(aug, float(n), select=aug.select) for n in counts}
    if not len(held_out):
        return [
            {"views": n, "cost": costs[n], "temperature": fitted.temperature(n)} for n in counts
        ]
    merged = merge_outputs(
        aug,
        model,
        model.normalize(held_out),
        range(1, max(counts) + 1) if aug.stop_rule else counts,
        select=aug.select,
        rule=fitted.rule,
        on_batch=batch_counter(on_score, len(held_out)),
    )
    rows = [
        score(
            "the image" if n == 1 else f"{n} views", float(n), merged[n], held_out.targets,
            temperature=fitted.temperature(n), cost=costs[n],
            rule=fitted.rule if n > 1 else MEAN,
        ).to_dict() for n in counts
    ]  # fmt: skip
    if (whole := aug.whole) is not None:
        logits = resized_outputs(aug, model, model.normalize(held_out), whole)
        rows.append(
            score(
                f"the image at {whole.size} px", 1.0, logits, held_out.targets,
                temperature=fitted.temperature(1), cost=counter.cost_of_size(whole.size),
                rule=MEAN,
            ).to_dict()
        )  # fmt: skip
    if aug.stop_rule is not None:
        stages = [merged[n] for n in sorted(merged)]
        if aug.preview is not None:
            first = resized_outputs(aug, model, model.normalize(held_out), aug.preview)
            stages = [first, *stages]
        rows += _rows_with_stop(aug.stop_rule, stages, held_out.targets, counter, fitted)
    return rows


def _rows_with_stop(
    stop: StopRule,
    stages: Sequence[Logits],
    targets: Tensor,
    counter: CostCounter,
    fitted: FittedViews,
) -> list[dict[str, Any]]:
    """Scores of the learned stop, with each number of views as its budget."""
    rows = []
    for budget in fitted.config.views.counts:
        last = stop.last_stages(stages, price=stop.price_for(budget))
        counts = last + (1 if fitted.aug.preview is None else 0)
        logits = torch.stack(list(stages))[last, torch.arange(len(last))]
        rows.append(
            score(
                f"{budget} views on average", float(counts.double().mean()),
                fitted.calibrate(logits, counts), targets, temperature=1.0,
                cost=counter.cost_of_counts(fitted.aug, counts), rule=fitted.rule,
            ).to_dict()
        )  # fmt: skip
    return rows


def _write_policy(
    run: Run, config: TtaSettings, fitted: FittedViews, images: LabeledImages
) -> None:
    """The best views on average over the images in the table, where views can be listed."""
    if can_tabulate(fitted.aug):
        views = _frozen_views(fitted.model, fitted.aug)
        images = _tabulated(config, fitted.model, images, views)
        n = min(max(config.views.counts), len(all_views(fitted.aug)))
        batches = (x for x, _ in fitted.model.normalize(images).batches(BATCH_SIZE))
        average_policy(fitted.aug, batches, n).save(run.policy_file)


def write_crops(run: Run, fitted: FittedViews, images: LabeledImages) -> None:
    """What φ chooses, where it chooses crops and figures can be drawn."""
    with suppress(MissingPlottingError):
        drawing = crops_figure(fitted, images)
        if drawing is not None:
            save_figure(drawing, run.crops_file, dpi=DPI)


@torch.no_grad()
def crops_figure(fitted: FittedViews, images: LabeledImages) -> "Figure | None":
    """The crops most probable under φ for a dozen images; None if it chooses no crops.

    The image itself, which is always the first view, is not among them.
    """
    chosen = evenly_spaced_indices(len(images), N_PHOTOS)
    pixels, targets = images.__getitems__(chosen)
    device = next(fitted.aug.parameters()).device
    joint = fitted.aug.distribution(fitted.model.prepare(pixels).to(device))
    crop = joint.factors.get(Crop.name)
    if not isinstance(crop, CategoricalTheta):
        return None
    if len(joint.factors) == 1:
        others = fitted.aug.other_choices(joint)
    else:
        others = without_row(crop, crop.table.new_tensor([Crop.identity_box]))
    if not len(others.table):
        return None
    probs = others.logits.softmax(dim=-1).expand(len(pixels), -1)
    return draw_crops(
        pixels.float() / 255,
        probs,
        others.table,
        size=(fitted.facts.image_size, fitted.facts.image_size),
        titles=_titles_of_crops(fitted, images, pixels, targets),
        n_top=min(N_TOP, len(others.table)),
        caption=CROPS_CAPTION,
    )


def _titles_of_crops(
    fitted: FittedViews, images: LabeledImages, pixels: Tensor, targets: Tensor
) -> list[str]:
    """The class of each image, and what the fit predicts as ``instaaug predict`` does."""
    logits, counts = fitted.predictor()(fitted.model.prepare(pixels))
    probs = fitted.calibrate(logits, counts).softmax(dim=-1).max(dim=-1)
    classes = fitted.facts.classes
    return [
        describe_prediction(images.classes[int(target)], classes[int(index)], float(p))
        for target, index, p in zip(targets, probs.indices, probs.values, strict=True)
    ]
