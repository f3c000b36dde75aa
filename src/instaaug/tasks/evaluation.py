"""Scores of a predictor on a set of images, with or without test-time augmentation."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from instaaug.augmentation import InstaAug
from instaaug.augmentation.views import Merge, Select
from instaaug.functional.probability import mutual_information
from instaaug.scores import Tally
from instaaug.tasks.task import AugmentedTask

__all__ = ["Predictor", "evaluate", "make_predictor", "summarize_augmenter"]

Batches = Iterable[tuple[Tensor, Tensor]]
Predictor = Callable[[Tensor], Tensor]


def make_predictor(
    task: AugmentedTask, *, n_samples: int = 0, merge: Merge = "logit", select: Select = "sample",
    replace: bool = False, seed: int = 0, model: nn.Module | None = None,
) -> Predictor:  # fmt: skip
    """A function from images, as the data set gives them, to outputs; no gradients.

    Arguments:
        task: Holds the model, the augmenter and the normalization.
        n_samples: Samples per image; 0 for the images as they are.
        merge: What is averaged.
        select: How samples are chosen.
        replace: Whether the same choice may be drawn twice.
        seed: Decides the draws.
        model: What predicts, in place of the task's own predictor; an encoder gives features.
    """
    task.eval()
    model = model or task.predictor
    wrapped: nn.Module | None = None
    if n_samples:
        wrapped = task.augmenter.wrap(
            model, n_samples, merge=merge, select=select, replace=replace
        )
        wrapped.eval()
    generator = torch.Generator(task.mean.device).manual_seed(seed)

    @torch.no_grad()
    def predict(x: Tensor) -> Tensor:
        x = task.normalize(x.to(task.mean.device))
        if wrapped is None:
            return model(task.augmenter.canonical(x))
        return wrapped(x, generator)

    return predict


def evaluate(predict: Predictor, batches: Batches, tally: Tally) -> dict[str, float]:
    """Count every batch and return the scores."""
    tally.reset()
    for x, targets in batches:
        outputs = predict(x)
        tally.add(outputs, targets)
    return tally.scores()


@torch.no_grad()
def summarize_augmenter(task: AugmentedTask, batches: Batches) -> dict[str, dict[str, Any]]:
    """What an InstaAug learned, per factor: mean entropy and its band, λ, mutual information.

    For a finite factor, the mutual information between input and choice, in nats, is the entropy
    of the average distribution less the average entropy: 0 if all inputs get the same.
    """
    augmenter = task.augmenter.eval()
    if not isinstance(augmenter, InstaAug) or augmenter.settings.conditioning == "class":
        return {}
    entropies: list[Tensor] = []
    probs: dict[str, list[Tensor]] = {}
    for x, _ in batches:
        joint = augmenter.distribution(task.normalize(x.to(task.mean.device)))
        entropies.append(joint.entropies().expand(len(x), -1))
        for name, factor in joint.finite().items():
            row = factor.logits.softmax(dim=-1).expand(len(x), -1)
            probs.setdefault(name, []).append(row)
    mean = torch.cat(entropies).mean(dim=0)
    numbers: dict[str, dict[str, Any]] = {
        name: {
            "entropy": float(mean[i]),
            "band": list(band),
            "weight": float(augmenter.band.weight[i]),
        }
        for i, (name, band) in enumerate(augmenter.limits.items())
    }
    for name, rows in probs.items():
        numbers[name]["mutual_information"] = float(mutual_information(torch.cat(rows)))
    return numbers
