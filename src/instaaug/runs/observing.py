"""Observe runs on single inputs: learned distributions, and the model's outputs for views."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import torch
from jaxtyping import Float, UInt8
from torch import Generator, Tensor
from torch.nn import functional as F

from instaaug.augmentation import InstaAug
from instaaug.augmentation.at_test_time import Merging
from instaaug.augmentation.observed import Observed, ObservedFactor, observe
from instaaug.augmentation.views import Views
from instaaug.data import LabeledImages
from instaaug.data.cache import OnProgress
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.errors import ArgumentError
from instaaug.networks.model_interface import as_input_of
from instaaug.report.page.runs import Observations, join_observations
from instaaug.runs.frozen_model import image_hashes
from instaaug.runs.loaded import LoadedRun
from instaaug.shapes import check_finite

__all__ = ["PICTURE", "find_shared_inputs", "observe_images", "observe_run"]

BATCH_SIZE = 32
PICTURE = 512  # largest side of an input on the page, in pixels
STRIP = 72  # of a view


@torch.no_grad()
def observe_run(
    run: LoadedRun,
    images: LabeledImages,
    *,
    n_views: int,
    n_shown: int,
    on_progress: OnProgress | None = None,
) -> Observations:
    """What a run's augmenter and model make of some images.

    Arguments:
        run: The run.
        images: Of its kind.
        n_views: Views of each that the model is to see.
        n_shown: How many of them to keep as pictures.
        on_progress: Called with the number of images done and of all.
    """
    generator = Generator(run.device).manual_seed(run.seed)
    most = run.n_views
    n_views = n_views if most is None else min(n_views, most)
    parts = []
    for start in range(0, len(images), BATCH_SIZE):
        rows = range(start, min(start + BATCH_SIZE, len(images)))
        parts.append(_observe_batch(run, images, rows, (n_views, n_shown), generator))
        if on_progress is not None:
            on_progress(rows.stop, len(images))
    return join_observations(parts)


def observe_images(
    run: LoadedRun,
    pixels: UInt8[Tensor, "n c h w"],
    n_samples: int,
    *,
    n_rendered: int | None = None,
    targets: Tensor | None = None,
) -> Observed:
    """What the run's augmenter makes of a few images, at full size, for a figure."""
    x = run.prepare(pixels).to(run.device)
    generator = Generator(run.device).manual_seed(run.seed)
    return _observe(run, x, n_samples, n_rendered, generator, replace_drawn=True, targets=targets)


def _observe(
    run: LoadedRun, x: Tensor, n: int, n_rendered: int | None, generator: Generator, *,
    replace_drawn: bool, targets: Tensor | None,
) -> Observed:  # fmt: skip
    """Observe inputs; what is learned per class is shown for the true class.

    The views themselves are drawn without the class, as at test time.
    """
    aug = run.augmenter
    by_class = isinstance(aug, InstaAug) and aug.settings.conditioning == "class"
    known = targets.to(run.device) if by_class and targets is not None else None
    seen = observe(
        run.augmenter, x, n, n_rendered=n_rendered, model=run.model,
        output=run.merging.output, select=run.select, replace_drawn=replace_drawn,
        mean=run.mean, std=run.std, generator=generator, targets=known,
    )  # fmt: skip
    if not run.ranks_views:
        return seen
    return replace(seen, factors=tuple(replace(f, entropy=None, band=None) for f in seen.factors))


def _observe_batch(
    run: LoadedRun,
    images: LabeledImages,
    rows: Sequence[int],
    counts: tuple[int, int],
    generator: Generator,
) -> Observations:
    pixels, targets = images.__getitems__(rows)
    n_views, n_shown = counts
    x = run.prepare(pixels).to(run.device)
    plain = _outputs(run, x)
    outputs = merged = plain[None][:0]
    views = torch.zeros(0, len(x), 1, 1, pixels.shape[1], dtype=torch.uint8)
    factors: tuple[ObservedFactor, ...] = ()
    outlines = None
    if n_views:
        seen = _observe(
            run, x, n_views, min(n_shown, n_views), generator, replace_drawn=run.replace,
            targets=targets,
        )  # fmt: skip
        if run.ordered is not None:
            seen = _reorder(run.ordered, seen, x, run)
        outputs = torch.stack([_outputs(run, x, theta) for theta in seen.theta])
        merged = _merge_cumulatively(run.merging, outputs, Views(seen.theta, seen.weight))
        views = _shrink(seen.samples.flatten(0, 1), STRIP).unflatten(0, seen.samples.shape[:2])
        factors, outlines = seen.factors, seen.outlines
    final = merged[-1] if n_views else plain
    aug = run.ordered or run.augmenter
    return Observations(
        pictures=_shrink(pixels.float() / 255, PICTURE),
        views=views,
        factors=factors,
        plain=_probabilities(run, plain),
        merged=_probabilities(run, merged),
        loss=_losses(run, plain, targets),
        loss_merged=_losses(run, final, targets),
        disagreement=_disagreement(run, outputs, final),
        keeps_original=isinstance(aug, InstaAug) and aug.settings.keep_original,
        same_views=run.ordered is not None,
        outlines=outlines,
    )


def _reorder(ordered: InstaAug, seen: Observed, x: Tensor, run: LoadedRun) -> Observed:
    """The same distributions, but the views that predictions are from."""
    n, n_rendered = len(seen.theta), len(seen.samples)
    used = observe(ordered, x, n, n_rendered=n_rendered, mean=run.mean, std=run.std)
    pairs = zip(seen.factors, used.factors, strict=True)
    factors = tuple(replace(known, theta=taken.theta) for known, taken in pairs)
    return replace(used, factors=factors)


def _outputs(
    run: LoadedRun, x: Tensor, theta: Float[Tensor, "b d"] | None = None
) -> Float[Tensor, "b c"]:
    """The model's outputs for inputs as they are, or for the views that θ makes of them."""
    aug = run.augmenter
    x = aug.canonical(x) if theta is None else aug.render(x, theta.to(x.device))
    rule = Merging(output=run.merging.output)
    scores = rule.scores(run.model(as_input_of(run.model, x)), len(x))
    check_finite(scores, name="outputs", advice=f"The model in {str(run.path)!r} is broken.")
    return scores.reshape(len(x), -1).float().cpu()


def _merge_cumulatively(
    rule: Merging, outputs: Float[Tensor, "n b c"], views: Views
) -> Float[Tensor, "n b c"]:
    """The merged output of the first view, of the first two, and so on."""
    rule = replace(rule, output=None)
    weight = rule.weights(views)
    scores = (rule.scores(view, len(view)) for view in outputs)
    singles = (rule.total(s[None], w[None]) for s, w in zip(scores, weight, strict=True))
    ones = torch.ones(outputs.shape[1], dtype=torch.long)
    return torch.stack(
        [
            rule.finish(total, weight, n * ones)
            for n, total in enumerate(accumulate(singles, rule.combine), start=1)
        ]
    )


def _probabilities(run: LoadedRun, outputs: Float[Tensor, "*n b c"]) -> Float[Tensor, "*n b c"]:
    return outputs.softmax(dim=-1) if run.classes else outputs


def _losses(run: LoadedRun, outputs: Float[Tensor, "b c"], targets: Tensor) -> Tensor:
    """Cross-entropy, or the absolute error of a regression."""
    if run.classes:
        return F.cross_entropy(outputs, targets.long(), reduction="none")
    return (outputs - targets.reshape(outputs.shape)).abs().mean(dim=1)


def _disagreement(
    run: LoadedRun, outputs: Float[Tensor, "n b c"], final: Float[Tensor, "b c"]
) -> Float[Tensor, " b"]:
    if not len(outputs):
        return torch.zeros(len(final))
    if run.classes:
        return (outputs.argmax(dim=-1) != final.argmax(dim=-1)).float().mean(dim=0)
    return outputs.std(dim=0, correction=0).mean(dim=-1)


def _shrink(x: Float[Tensor, "b c h w"], side: int) -> UInt8[Tensor, "b _ _ c"]:
    """Images in [0, 1], not larger than ``side``, as bytes."""
    scale = side / max(x.shape[-2:])
    if scale < 1:
        size = [max(1, round(s * scale)) for s in x.shape[-2:]]
        x = F.interpolate(x, size, mode="bilinear", antialias=True)
    return (x.clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1)


def find_shared_inputs(
    runs: Sequence[LoadedRun], most: int, on_decode: OnProgress | None = None
) -> tuple[list[LabeledImages], int]:
    """Test images that all runs have in common, once for each run, in the same order.

    Images are the same if their pixels are; runs that see them at different sizes find them by
    their names.

    Arguments:
        runs: The runs.
        most: How many images to take, evenly spaced.
        on_decode: Called with the number of files decoded and of all files.

    Returns:
        The images of each run, and how many there were to choose from.

    Raises:
        ArgumentError: If the runs know different classes, or have no test image in common.
    """
    _check_classes(runs)
    every = [run.load_test_images(on_decode) for run in runs]
    for keys_of in (image_hashes, _names):
        rows = [_first_rows(keys_of(images)) for images in every]
        common = [key for key in rows[0] if all(key in other for other in rows[1:])]
        if common:
            break
    else:
        raise ArgumentError(
            "`runs` must share test images: these have none in common. Train them on the same "
            "data with the same --seed, which decides the split, or report on each alone."
        )
    chosen = [common[i] for i in evenly_spaced_indices(len(common), most)]
    pairs = zip(every, rows, strict=True)
    return [images.subset([row[key] for key in chosen]) for images, row in pairs], len(common)


def _names(images: LabeledImages) -> list[str]:
    return [images.name(i) for i in range(len(images))] if images.names else []


def _first_rows(keys: Sequence[str]) -> dict[str, int]:
    """By key, the first row that has it, in the order of the images."""
    rows: dict[str, int] = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, row)
    return rows


def _check_classes(runs: Sequence[LoadedRun]) -> None:
    first = runs[0]
    for other in runs[1:]:
        if other.classes != first.classes:
            raise ArgumentError(
                "`runs` must tell the same classes apart, in the same order: "
                f"{str(first.path)!r} and {str(other.path)!r} do not. Report on each alone."
            )
