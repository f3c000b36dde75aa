"""Scores of a predictor on a set of images, with or without test-time augmentation."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from instaaug.augmentation import InstaAug
from instaaug.augmentation.range_edges import LearnedRange, learned_ranges
from instaaug.augmentation.views import Merge, Select
from instaaug.data import LabeledImages
from instaaug.distributions import FiniteTheta, ThetaDistribution, UniformBox
from instaaug.functional.probability import gumbel_top_k, mutual_information
from instaaug.parameterizations import equal_sizes
from instaaug.scores import Tally
from instaaug.spaces import Interval, Space
from instaaug.tasks.loader import BatchLoader
from instaaug.tasks.task import AugmentedTask

__all__ = [
    "Predictor",
    "correlate_losses",
    "evaluate",
    "evaluate_groups",
    "make_predictor",
    "summarize_augmenter",
]

Batches = Iterable[tuple[Tensor, Tensor]]
Predictor = Callable[[Tensor], Tensor]


def make_predictor(
    task: AugmentedTask,
    *,
    n_samples: int = 0,
    merge: Merge | None = None,
    select: Select = "sample",
    replace: bool = False,
    seed: int = 0,
    model: nn.Module | None = None,
) -> Predictor:
    """A function from images, as the data set gives them, to outputs; no gradients.

    Arguments:
        task: Holds the model, the augmenter and the normalization.
        n_samples: Views per image; 0 for the images as they are.
        merge: What is averaged; the augmenter's own choice by default.
        select: How samples are chosen.
        replace: Whether the same choice may be drawn twice.
        seed: Decides the draws.
        model: What predicts, in place of the task's own predictor; an encoder gives features.
    """
    task.eval()
    wrapped = None
    if n_samples:
        wrapped = task.wrap_views(
            n_samples, model=model, merge=merge, select=select, replace=replace
        ).eval()
    alone = model or task.predictor
    generator = torch.Generator(task.mean.device).manual_seed(seed)

    @torch.no_grad()
    def predict(x: Tensor) -> Tensor:
        x = task.normalize(x.to(task.mean.device))
        if wrapped is None:
            return alone(task.augmenter.canonical(x))
        return wrapped(x, generator)

    return predict


def evaluate(predict: Predictor, batches: Batches, tally: Tally) -> dict[str, float]:
    """Count every batch and return the scores."""
    tally.reset()
    for x, targets in batches:
        outputs = predict(x)
        tally.add(outputs, targets)
    return tally.scores()


def evaluate_groups(
    predict: Predictor,
    data: LabeledImages,
    batch_size: int,
    make_tally: Callable[[], Tally],
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The scores of all images, and by name those of each of their groups, in one pass.

    Arguments:
        predict: Gives outputs for a batch.
        data: The images, and the groups they belong to, if any.
        batch_size: Images per batch.
        make_tally: Makes what outputs are counted with.
    """
    indices = data.group_indices()
    whole, tallies = make_tally(), {name: make_tally() for name in indices}
    start = 0
    for x, targets in BatchLoader(data, batch_size):
        outputs, stop = predict(x), start + len(x)
        whole.add(outputs, targets)
        for name, own in indices.items():
            here = torch.from_numpy(own[(own >= start) & (own < stop)] - start)
            if len(here):
                tallies[name].add(outputs.cpu()[here], targets[here])
        start = stop
    return whole.scores(), {name: tally.scores() for name, tally in tallies.items()}


@torch.no_grad()
def summarize_augmenter(task: AugmentedTask, batches: Batches) -> dict[str, dict[str, Any]]:
    """What an InstaAug learned, per factor: mean entropy and its band, λ, mutual information.

    For ranges, their mean ends, and a sentence on each side that has drifted to an edge.

    For a finite factor, the mutual information between input and choice, in nats, is the entropy
    of the average distribution less the average entropy: 0 if all inputs get the same.
    """
    augmenter = task.augmenter.eval()
    if not isinstance(augmenter, InstaAug) or augmenter.settings.conditioning == "class":
        return {}
    joints = []
    for x, _ in batches:
        joint = augmenter.distribution(task.normalize(x.to(task.mean.device)))
        joints.append((joint, len(x)))
    weights = dict(zip(augmenter.parts.names, augmenter.weight.tolist(), strict=True))
    numbers: dict[str, dict[str, Any]] = {}
    for name in augmenter.limits:
        factors, band = [joint[name].expand((n,)) for joint, n in joints], augmenter.band_of(name)
        within = {part: weight for part, weight in weights.items() if part.startswith(f"{name}.")}
        numbers[name] = {
            "entropy": float(torch.cat([factor.entropy() for factor in factors]).mean()),
            "band": None if band is None else list(band),
            "weight": within or weights.get(name, next(iter(weights.values()))),
            **_summarize_factor(augmenter.transform.spaces[name], factors),
        }
    return numbers


@torch.no_grad()
def correlate_losses(
    task: AugmentedTask, batches: Batches, *, n_choices: int = 20
) -> dict[str, dict[str, float]]:
    """How well φ's preferences agree with the losses of the model, per finite factor.

    Some choices, the same for all images and of all sizes of boxes, are tried on every image,
    other factors at rest. ``loss_correlation`` is the correlation within an image of −log p and
    the loss, averaged over images; ``own_loss_correlation`` is that of what is left of both when
    the mean of each choice over all images is taken away: what φ knows of the image itself.

    Arguments:
        task: Of classification or regression; other augmenters than InstaAug have no numbers.
        batches: Images, which the model should not have learned from, with their targets.
        n_choices: Choices that are tried.
    """
    augmenter = task.augmenter
    if not isinstance(augmenter, InstaAug) or augmenter.settings.conditioning == "class":
        return {}
    task.eval()
    found: dict[str, list[tuple[Tensor, Tensor]]] = {}
    device = task.mean.device
    for images, labels in batches:
        x, targets = task.normalize(images.to(device)), labels.to(device)
        joint = augmenter.distribution(x)
        for name, preference in augmenter.preferences(joint).items():
            tried = _choices(augmenter, name, n_choices, preference)
            rows = joint.finite()[name].table[tried]
            losses = _losses_of_choices(task, augmenter, name, rows, x, targets)
            liked = preference.expand(len(x), -1)[:, tried]
            found.setdefault(name, []).append((-liked, losses))
    return {
        name: _correlations(*(torch.cat(parts).double() for parts in zip(*pairs, strict=True)))
        for name, pairs in found.items()
    }


def _choices(augmenter: InstaAug, name: str, n: int, like: Tensor) -> Tensor:
    """Numbers of choices to try, always the same."""
    grid, k = augmenter.phi.grids.get(name), like.shape[-1]
    base = torch.zeros(k) if grid is None else equal_sizes(grid)
    drawn = gumbel_top_k(base, min(n, k), generator=torch.Generator().manual_seed(0))
    return drawn.sort().values.to(like.device)


def _losses_of_choices(
    task: AugmentedTask, augmenter: InstaAug, name: str, rows: Tensor, x: Tensor, targets: Tensor
) -> Float[Tensor, "batch tried"]:
    spaces = augmenter.transform.spaces
    first = sum(spaces[other].size for other in list(spaces)[: list(spaces).index(name)])
    theta = augmenter.start(x).expand(len(x), -1).clone()
    losses = []
    for row in rows.to(theta.dtype):
        theta[:, first : first + len(row)] = row
        losses.append(task.losses(task.model(augmenter.render(x, theta)), targets))
    return torch.stack(losses, dim=1)


def _correlations(
    predicted: Float[Tensor, "inputs k"], losses: Float[Tensor, "inputs k"]
) -> dict[str, float]:
    own = [table - table.mean(dim=0) for table in (predicted, losses)]
    return {
        "loss_correlation": float(_correlation(predicted, losses).mean()),
        "own_loss_correlation": float(_correlation(*own).mean()),
    }


def _correlation(
    a: Float[Tensor, "inputs k"], b: Float[Tensor, "inputs k"]
) -> Float[Tensor, " inputs"]:
    """Within each input; 0 where either does not vary."""
    a, b = (table - table.mean(dim=1, keepdim=True) for table in (a, b))
    product = (a * b).sum(dim=1)
    return product / (a.norm(dim=1) * b.norm(dim=1)).clamp(min=1e-9)


def _summarize_factor(space: Space, factors: Sequence[ThetaDistribution]) -> dict[str, Any]:
    finite = [factor.probs for factor in factors if isinstance(factor, FiniteTheta)]
    if finite:
        return {"mutual_information": float(mutual_information(torch.cat(finite)))}
    boxes = [factor for factor in factors if isinstance(factor, UniformBox)]
    if not isinstance(space, Interval) or not boxes:
        return {}
    low, high = (torch.cat(ends) for ends in zip(*(b.ends() for b in boxes), strict=True))
    middles = [middle for b in boxes if (middle := b.middle()) is not None]
    return _summarize_ranges(
        learned_ranges(space, low, high, torch.cat(middles) if middles else None)
    )


def _summarize_ranges(ranges: Sequence[LearnedRange]) -> dict[str, Any]:
    """Mean ends and their standard deviation over inputs; what has drifted to an edge."""
    return {
        "ranges": {r.parameter.name: [r.low, r.high] for r in ranges},
        "spread": {r.parameter.name: [r.low_spread, r.high_spread] for r in ranges},
        "edges": [sentence for r in ranges for sentence in r.edges()],
    }
