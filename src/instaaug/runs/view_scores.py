"""A frozen model's outputs for several views, merged and scored."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, cycle
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.augmentation.at_test_time import Merging
from instaaug.augmentation.views import Select, Views
from instaaug.distributions import Joint
from instaaug.frozen import NormalizedImages, ViewTable
from instaaug.frozen.calibration import calibration_table
from instaaug.frozen.table import can_tabulate, other_choices
from instaaug.networks import FrozenFeatures
from instaaug.networks.model_interface import as_input_of
from instaaug.runs.frozen_model import FrozenModel
from instaaug.shapes import Images
from instaaug.stats import wilson_interval

__all__ = [
    "Logits",
    "MethodScore",
    "OnBatch",
    "batch_counter",
    "merge_outputs",
    "merge_tabulated_outputs",
    "score",
]

AT_ONCE = 32
MEAN = Merging()
"""The plain mean of logits."""

Logits = Float[Tensor, "images classes"]
OnBatch = Callable[[int], None]
"""Called with the number of images that were predicted since the last call."""


@dataclass(frozen=True, eq=False)
class MethodScore:
    """How good a method is.

    Arguments:
        name: Of the method.
        views: Views per image, on average.
        right: Whether it is right, image by image.
        numbers: ``accuracy`` with its 95 % interval, ``nll`` and ``ece``, and the last two after
            the temperature if there is one.
    """

    name: str
    views: float
    right: Bool[Tensor, " images"]
    numbers: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the single images, ready for JSON."""
        return {"name": self.name, "views": self.views, "n": len(self.right), **self.numbers}


def score(
    name: str, views: float, logits: Logits, targets: Tensor, *, temperature: float | None = None
) -> MethodScore:
    """Score merged logits.

    Arguments:
        name: Of the method.
        views: Views per image, on average.
        logits: Of all images.
        targets: Their classes.
        temperature: What divides the logits to make them honest, fitted on other images.

    Example:
        >>> one = score("a", 1.0, torch.eye(2), torch.tensor([0, 0]), temperature=2.0)
        >>> one.right, one.numbers["accuracy"]
        (tensor([ True, False]), 0.5)
    """
    right = logits.argmax(dim=1) == targets
    low, high = wilson_interval(int(right.sum()), len(right))
    table = calibration_table(logits, targets, temperature or 1.0)
    numbers = {"accuracy": float(right.double().mean()), "low": low, "high": high}
    numbers |= table["before"]
    if temperature is not None:
        after = {f"{key}_after": value for key, value in table["after"].items()}
        numbers |= {"temperature": temperature, **after}
    return MethodScore(name, views, right, numbers)


@torch.no_grad()
def merge_outputs(
    augmenter: Augmenter,
    model: FrozenModel,
    inputs: NormalizedImages,
    counts: Sequence[int],
    *,
    select: Select = "sample",
    rule: Merging = MEAN,
    seed: int = 0,
    on_batch: OnBatch | None = None,
) -> dict[int, Logits]:
    """Merged logits of several numbers of views, from one pass over the largest of them.

    The first of ten views are also the views of a smaller number; but for learned ranges, which
    spread any number of views evenly, and are passed over once for each number.

    Arguments:
        augmenter: Makes the views.
        model: Sees them.
        inputs: The images.
        counts: Numbers of views.
        select: How views are chosen.
        rule: How their logits are merged.
        seed: Decides the draws.
        on_batch: Called with the number of images in each batch that is done.
    """
    nested = not isinstance(augmenter, InstaAug) or can_tabulate(augmenter)
    groups = [tuple(counts)] if nested else [(count,) for count in counts]
    merged: dict[int, list[Tensor]] = {count: [] for count in counts}
    device = next((p.device for p in model.module.parameters()), torch.device("cpu"))
    generator = torch.Generator(device).manual_seed(seed)
    for x, _ in inputs.batches(AT_ONCE):
        x = x.to(device)  # noqa: PLW2901
        for group in groups:
            views = augmenter.views(
                x, max(group), model=model.module, output=model.output, select=select,
                generator=generator,
            )  # fmt: skip
            scores = _scores(augmenter, model, x, views)
            for count, one in _merge_first(scores, group, rule):
                merged[count].append(one.cpu())
        if on_batch is not None:
            on_batch(len(x))
    return {count: torch.cat(parts) for count, parts in merged.items()}


@torch.no_grad()
def merge_tabulated_outputs(
    aug: InstaAug,
    table: ViewTable,
    inputs: NormalizedImages,
    counts: Sequence[int],
    rule: Merging = MEAN,
) -> dict[int, Logits]:
    """Merge the outputs for learned views, taken from a table instead of the model.

    Arguments:
        aug: Chooses the views.
        table: Outputs for all of them.
        inputs: The images of the table.
        counts: Numbers of views; from that of all views on, some are taken again.
        rule: How their logits are merged.
    """
    merged: dict[int, list[Tensor]] = {count: [] for count in counts}
    start = 0
    for x, _ in inputs.batches(AT_ONCE):
        rows = torch.arange(len(x))
        index, start = start + rows, start + len(x)
        logits = other_choices(aug, _distribution(aug, table, x, index)).logits.cpu()
        order = 1 + logits.argsort(dim=1, descending=True).expand(len(x), -1)
        columns = chain([torch.zeros_like(rows)], cycle(order.unbind(dim=1)))
        outputs = table.outputs_of(index)
        views = (outputs[rows, column] for column in columns)
        for count, one in _merge_first(views, counts, rule):
            merged[count].append(one)
    return {count: torch.cat(parts) for count, parts in merged.items()}


def batch_counter(on_progress: Callable[[int, int], None] | None, total: int) -> OnBatch:
    """From the sizes of batches to the number of images done and of all images."""
    done = 0

    def on_batch(n: int) -> None:
        nonlocal done
        done += n
        if on_progress is not None:
            on_progress(min(done, total), total)

    return on_batch


def _scores(augmenter: Augmenter, model: FrozenModel, x: Images, views: Views) -> Iterator[Tensor]:
    """Logits view by view; those of the first are reused where the model has run on it already."""
    for k, row in enumerate(views.theta):
        if k == 0 and views.first is not None:
            yield Merging().scores(views.first, len(x))
        else:
            returned = model.module(as_input_of(model.module, augmenter.render(x, row)))
            yield Merging(output=model.output).scores(returned, len(x))


def _merge_first(
    logits: Iterable[Logits], counts: Sequence[int], rule: Merging
) -> Iterator[tuple[int, Logits]]:
    """The first ``count`` views merged, for every count."""
    total: Tensor | None = None
    for k, view in enumerate(logits, start=1):
        ones = torch.ones(k, len(view), device=view.device)
        more = rule.total(rule.scores(view, len(view))[None], ones[:1])
        total = more if total is None else rule.combine(total, more)
        if k in counts:
            yield k, rule.finish(total, ones, torch.full((len(view),), k, device=view.device))
        if k == max(counts):
            return


def _distribution(aug: InstaAug, table: ViewTable, x: Images, index: Tensor) -> Joint:
    """p(θ|x), from the model's features if φ reads them."""
    device = next(aug.parameters()).device
    network = aug.phi.network
    if isinstance(network, FrozenFeatures):
        maps = network.maps(table.features_of(index).to(device))
        return aug.phi.decode(maps, None, len(x))
    return aug.distribution(x.to(device))
