"""A frozen model's outputs for several views, merged and scored, and what they cost."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, cycle
from math import ceil
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.augmentation.at_test_time import Merging, confidence
from instaaug.augmentation.plan import ResizedImage
from instaaug.augmentation.views import Select, Views
from instaaug.distributions import Joint
from instaaug.frozen import NormalizedImages, ViewTable
from instaaug.frozen.calibration import calibration_table
from instaaug.frozen.cost import count_multiply_adds, count_multiply_adds_of
from instaaug.frozen.resized_views import ResizedViews
from instaaug.frozen.table import can_tabulate
from instaaug.networks import FrozenFeatures
from instaaug.networks.model_interface import as_input_of, device_of
from instaaug.runs.frozen_model import FrozenModel
from instaaug.shapes import Images
from instaaug.stats import wilson_interval

__all__ = [
    "MEAN",
    "CostCounter",
    "Logits",
    "MethodScore",
    "OnBatch",
    "batch_counter",
    "merge_by_rules",
    "merge_outputs",
    "merge_tabulated_outputs",
    "resized_outputs",
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
        rule: How the views were merged.
        cost: Multiply-adds per image, relative to one pass of the whole image.
    """

    name: str
    views: float
    right: Bool[Tensor, " images"]
    numbers: dict[str, float]
    rule: Merging = MEAN
    cost: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything but the single images, ready for JSON."""
        first = {"name": self.name, "merge": self.rule.merge, "views": self.views}
        return {**first, "cost": self.cost, "n": len(self.right), **self.numbers}


def score(
    name: str,
    views: float,
    logits: Logits,
    targets: Tensor,
    *,
    temperature: float | None = None,
    rule: Merging = MEAN,
    cost: float | None = None,
) -> MethodScore:
    """Score merged logits.

    Arguments:
        name: Of the method.
        views: Views per image, on average.
        logits: Of all images.
        targets: Their classes.
        temperature: What divides the logits to make them honest, fitted on other images.
        rule: How views were merged.
        cost: Multiply-adds per image, relative to one pass of the whole image.

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
    return MethodScore(name, views, right, numbers, rule, cost)


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
    """Merged logits of several numbers of views by one rule; see :func:`merge_by_rules`."""
    (merged,) = merge_by_rules(
        augmenter, model, inputs, counts, [rule], select=select, seed=seed, on_batch=on_batch
    )
    return merged


@torch.no_grad()
def merge_by_rules(
    augmenter: Augmenter,
    model: FrozenModel,
    inputs: NormalizedImages,
    counts: Sequence[int],
    rules: Sequence[Merging],
    *,
    select: Select = "sample",
    share: float = 1.0,
    seed: int = 0,
    on_batch: OnBatch | None = None,
) -> list[dict[int, Logits]]:
    """Merged logits by rule and number of views, from one pass over the largest number.

    The first of ten views are also the views of a smaller number; but for learned ranges, which
    spread any number of views evenly, and are passed over once for each number.

    Arguments:
        augmenter: Makes the views.
        model: Sees them.
        inputs: The images.
        counts: Numbers of views.
        rules: Each is a way to merge their logits.
        select: How views are chosen.
        share: Of the views that the model has seen, those of which it is most certain are merged;
            this share of them, at least one.
        seed: Decides the draws.
        on_batch: Called with the number of images in each batch that is done.
    """
    groups = [tuple(counts)] if _is_nested(augmenter) else [(count,) for count in counts]
    merged: list[dict[int, list[Tensor]]] = [{count: [] for count in counts} for _ in rules]
    device = device_of(model.module)
    generator = torch.Generator(device).manual_seed(seed)
    for x, _ in inputs.batches(AT_ONCE):
        x = x.to(device)  # noqa: PLW2901
        for group in groups:
            views = augmenter.views(
                x, max(group), model=model.module, output=model.output, select=select,
                generator=generator,
            )  # fmt: skip
            scores = list(_scores(augmenter, model, x, views))
            for rule, parts in zip(rules, merged, strict=True):
                for count, one in _merge_share(scores, group, rule, share):
                    parts[count].append(one.cpu())
        if on_batch is not None:
            on_batch(len(x))
    return [{count: torch.cat(found) for count, found in parts.items()} for parts in merged]


@torch.no_grad()
def resized_outputs(
    aug: InstaAug, model: FrozenModel, inputs: NormalizedImages, resized: ResizedImage
) -> Logits:
    """Outputs for each whole image in another size, as sure as those of views."""
    device, parts = device_of(model.module), []
    for x, _ in inputs.batches(AT_ONCE):
        whole = as_input_of(model.module, aug.resize(x.to(device), resized.size))
        parts.append(Merging(output=model.output).scores(model.module(whole), len(x)).cpu())
    return resized.factor * torch.cat(parts)


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
        logits = aug.other_choices(_distribution(aug, table, x, index)).logits.cpu()
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


@dataclass(frozen=True)
class CostCounter:
    """What predictions cost, relative to one pass of the whole image.

    Every size that a view has is counted once; what chooses the views counts as well.

    Arguments:
        model: Predicts.
        image: One image as the augmenter takes it, ``(1, C, H, W)``.
        size: Side that the model is made for.
    """

    model: FrozenModel
    image: Images
    size: int
    known: dict[tuple[int, ...], int] = field(default_factory=dict)

    @torch.no_grad()
    def cost(self, augmenter: Augmenter, n_views: float, *, select: Select = "sample") -> float:
        """Multiply-adds of a prediction from so many views, in passes of the whole image.

        Arguments:
            augmenter: Makes the views.
            n_views: How many, on average.
            select: How they are chosen.
        """
        whole = self._pass((1, self.model.channels, self.size, self.size))
        if not whole:  # a model of which nothing can be counted
            return n_views
        found: list[Views] = []
        generator = torch.Generator(self.image.device).manual_seed(0)

        def choose() -> None:
            views = augmenter.views(
                self.image, ceil(n_views), model=self.model.module, output=self.model.output,
                select=select, generator=generator,
            )  # fmt: skip
            found.append(views)

        total = float(count_multiply_adds_of(choose))
        seen = 0 if found[0].first is None else 1
        for k, row in enumerate(found[0].theta[seen:], start=seen):
            shape = tuple(augmenter.render(self.image, row).shape)
            total += min(n_views - k, 1) * self._pass(shape)
        return total / whole

    def cost_of_size(self, size: int) -> float:
        """Multiply-adds of a pass of the whole image in another size, in passes in its own."""
        other, own = (self._pass((1, self.model.channels, s, s)) for s in (size, self.size))
        return other / own if own else (size / self.size) ** 2

    def cost_of_counts(self, augmenter: Augmenter, counts: Int[Tensor, " images"]) -> float:
        """Mean cost of images that took different numbers of views; 0 is a preview alone.

        Arguments:
            augmenter: Makes the views.
            counts: Views of each image.
        """
        preview = augmenter.preview
        looked = 0.0 if preview is None else self.cost_of_size(preview.size)
        going = counts[counts > 0].double()
        if not len(going):
            return looked
        share = len(going) / len(counts)
        return looked + share * self.cost(augmenter, float(going.mean()), select=augmenter.select)

    def _pass(self, shape: tuple[int, ...]) -> int:
        if shape not in self.known:
            self.known[shape] = count_multiply_adds(self.model.module, shape)
        return self.known[shape]


def _is_nested(augmenter: Augmenter) -> bool:
    """Whether the first of many views are the views of a smaller number."""
    inner = augmenter.learned if isinstance(augmenter, ResizedViews) else augmenter
    return not isinstance(inner, InstaAug) or can_tabulate(inner)


def _scores(augmenter: Augmenter, model: FrozenModel, x: Images, views: Views) -> Iterator[Tensor]:
    """Logits view by view; those of the first are reused where the model has run on it already."""
    for k, row in enumerate(views.theta):
        if k == 0 and views.first is not None:
            yield Merging().scores(views.first, len(x))
        else:
            returned = model.module(as_input_of(model.module, augmenter.render(x, row)))
            yield Merging(output=model.output).scores(returned, len(x))


def _merge_share(
    views: Sequence[Logits], counts: Sequence[int], rule: Merging, share: float
) -> Iterator[tuple[int, Logits]]:
    """The first ``count`` views merged, or those of them that the model is most certain of."""
    if share == 1:
        yield from _merge_first(views, counts, rule)
        return
    for count in counts:
        seen = torch.stack(list(views[:count]))
        kept = max(1, round(share * count))
        sure = torch.stack([confidence(view / rule.calibration, 1.0) for view in seen])
        order = sure.argsort(dim=0, descending=True)[:kept]
        best = seen[order, torch.arange(seen.shape[1], device=seen.device)]
        ((_, merged),) = _merge_first(best, [kept], rule)
        yield count, merged


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
