"""Ask a run about single inputs: what was learned for each, what the model says of its views."""

from collections.abc import Callable, Sequence
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
from instaaug.networks.model_interface import as_input_of
from instaaug.report.page.runs import Observations, join_observations
from instaaug.runs.subjects import Subject
from instaaug.shapes import check_finite

__all__ = ["look_at", "observed_images"]

AT_ONCE = 32
PICTURE = 160  # largest side of an input on the page, in pixels
STRIP = 72  # of a view
OnProgress = Callable[[int, int], None]


@torch.no_grad()
def look_at(
    subject: Subject,
    images: LabeledImages,
    *,
    n_views: int,
    n_shown: int,
    on_progress: OnProgress | None = None,
) -> Observations:
    """Look at some images with a run.

    Arguments:
        subject: The run.
        images: Of its kind.
        n_views: Views of each that the model is to see.
        n_shown: How many of them to keep as pictures.
        on_progress: Called with the number of images done and of all.
    """
    generator = Generator(subject.device).manual_seed(subject.seed)
    most = subject.n_views
    n_views = n_views if most is None else min(n_views, most)
    parts = []
    for start in range(0, len(images), AT_ONCE):
        rows = range(start, min(start + AT_ONCE, len(images)))
        parts.append(_batch(subject, images, rows, (n_views, n_shown), generator))
        if on_progress is not None:
            on_progress(rows.stop, len(images))
    return join_observations(parts)


def observed_images(
    subject: Subject,
    pixels: UInt8[Tensor, "n c h w"],
    n_samples: int,
    *,
    n_rendered: int | None = None,
    targets: Tensor | None = None,
) -> Observed:
    """What the run's augmenter makes of a few images, at full size, for a figure."""
    x = subject.prepared(pixels).to(subject.device)
    generator = Generator(subject.device).manual_seed(subject.seed)
    return _observed(subject, x, n_samples, n_rendered, generator, again=True, targets=targets)


def _observed(
    subject: Subject, x: Tensor, n: int, n_rendered: int | None, generator: Generator, *,
    again: bool, targets: Tensor | None,
) -> Observed:  # fmt: skip
    """What is learned per class is shown for the true class, although views must do without."""
    aug = subject.augmenter
    by_class = isinstance(aug, InstaAug) and aug.settings.conditioning == "class"
    known = targets.to(subject.device) if by_class and targets is not None else None
    seen = observe(
        subject.augmenter, x, n, n_rendered=n_rendered, model=subject.model,
        output=subject.merging.output, select=subject.select, replace_drawn=again,
        mean=subject.mean, std=subject.std, generator=generator, targets=known,
    )  # fmt: skip
    if not subject.ranks_views:
        return seen
    return replace(seen, factors=tuple(replace(f, entropy=None, band=None) for f in seen.factors))


def _batch(
    subject: Subject,
    images: LabeledImages,
    rows: Sequence[int],
    counts: tuple[int, int],
    generator: Generator,
) -> Observations:
    pixels, targets = images.__getitems__(rows)
    n_views, n_shown = counts
    x = subject.prepared(pixels).to(subject.device)
    plain = _outputs(subject, x)
    outputs = merged = plain[None][:0]
    views = torch.zeros(0, len(x), 1, 1, pixels.shape[1], dtype=torch.uint8)
    factors: tuple[ObservedFactor, ...] = ()
    outlines = None
    if n_views:
        seen = _observed(
            subject, x, n_views, min(n_shown, n_views), generator, again=False, targets=targets
        )
        outputs = torch.stack([_outputs(subject, x, theta) for theta in seen.theta])
        merged = _running(subject.merging, outputs, Views(seen.theta, seen.weight))
        views = _small(seen.samples.flatten(0, 1), STRIP).unflatten(0, seen.samples.shape[:2])
        factors, outlines = seen.factors, seen.outlines
    final = merged[-1] if n_views else plain
    aug = subject.augmenter
    return Observations(
        pictures=_small(pixels.float() / 255, PICTURE),
        views=views,
        factors=factors,
        plain=_readable(subject, plain),
        merged=_readable(subject, merged),
        loss=_losses(subject, plain, targets),
        loss_merged=_losses(subject, final, targets),
        disagreement=_disagreement(subject, outputs, final),
        keeps_original=isinstance(aug, InstaAug) and aug.settings.keep_original,
        outlines=outlines,
    )


def _outputs(
    subject: Subject, x: Tensor, theta: Float[Tensor, "b d"] | None = None
) -> Float[Tensor, "b c"]:
    """What the model says of inputs as they are, or of the views that θ makes of them."""
    aug = subject.augmenter
    x = aug.canonical(x) if theta is None else aug.render(x, theta.to(x.device))
    rule = Merging(output=subject.merging.output)
    scores = rule.scores(subject.model(as_input_of(subject.model, x)), len(x))
    check_finite(scores, name="outputs", advice=f"The model in {str(subject.path)!r} is broken.")
    return scores.reshape(len(x), -1).float().cpu()


def _running(
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


def _readable(subject: Subject, outputs: Float[Tensor, "*n b c"]) -> Float[Tensor, "*n b c"]:
    return outputs.softmax(dim=-1) if subject.classes else outputs


def _losses(subject: Subject, outputs: Float[Tensor, "b c"], targets: Tensor) -> Tensor:
    """Cross-entropy, or the absolute error of a regression."""
    if subject.classes:
        return F.cross_entropy(outputs, targets.long(), reduction="none")
    return (outputs - targets.reshape(outputs.shape)).abs().mean(dim=1)


def _disagreement(
    subject: Subject, outputs: Float[Tensor, "n b c"], final: Float[Tensor, "b c"]
) -> Float[Tensor, " b"]:
    if not len(outputs):
        return torch.zeros(len(final))
    if subject.classes:
        return (outputs.argmax(dim=-1) != final.argmax(dim=-1)).float().mean(dim=0)
    return outputs.std(dim=0, correction=0).mean(dim=-1)


def _small(x: Float[Tensor, "b c h w"], side: int) -> UInt8[Tensor, "b _ _ c"]:
    """Images in [0, 1], not larger than ``side``, as bytes."""
    scale = side / max(x.shape[-2:])
    if scale < 1:
        size = [max(1, round(s * scale)) for s in x.shape[-2:]]
        x = F.interpolate(x, size, mode="bilinear", antialias=True)
    return (x.clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1)
