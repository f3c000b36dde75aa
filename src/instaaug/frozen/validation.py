"""Cross-validation over the images of a fit: what views are worth, and which rule to use."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from instaaug.augmentation import InstaAug
from instaaug.augmentation.at_test_time import Merging
from instaaug.augmentation.plan import ResizedImage
from instaaug.augmentation.stopping import PRICES, StopRule, fit_stop_rule
from instaaug.augmentation.worth import (
    DEPENDENCES,
    Gain,
    accuracy_gain,
    choose_by_loss,
    describe_dependence,
    describe_verdict,
    gain_to_dict,
)
from instaaug.frozen.calibration import fit_temperature
from instaaug.frozen.images import NormalizedImages
from instaaug.frozen.learning import Distributions, Learning, learn_from_table
from instaaug.frozen.ordering import greedy_order
from instaaug.frozen.table import ViewTable

__all__ = ["Validation", "ViewScores", "order_for_all", "validate"]

N_FOLDS = 4
FEWEST = 40  # images that are worth cross-validation
MOST_IMAGES = 4000
MOST_NUMBERS = 2**28  # of merged outputs in memory
GAP = 0.3  # between the scores of neighbors in the order for all, while φ learns
JUDGED_PRICES = (4, 8, 12, 16)  # numbers of some of the prices
WORTH_IT = 0.001  # of accuracy at equal cost, that a preview has to add
MOST_LOSS = 4.0  # nats
NEARLY = 0.005  # of accuracy, which is not worth further views
ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class ViewScores:
    """How good a way of choosing views is, on images that it was not learned from.

    Arguments:
        name: Of the way.
        views: Views per image, on average.
        accuracy: Share that is right.
        nll: Mean negative log-likelihood, at the best temperature.
        size: Side of the whole image, if that is all there is.
    """

    name: str
    views: float | int
    accuracy: float
    nll: float
    size: int | None = None


@dataclass(frozen=True)
class Validation:
    """What cross-validation found out.

    Arguments:
        n_images: How many images it was done with.
        rows: Scores of the image alone, of free ways to choose views, and of what was learned.
        dependence: How much the order of views should depend on the input, from 0 to 1.
        worth: By the number of views: what depending on the input adds to the accuracy, with its
            95 % interval; 0 where it does not pay and is left out.
        temperatures: By the number of views; 0 is a preview.
        stop: When an image needs no further view.
        preview: Side of a smaller image that is looked at first, and what multiplies its outputs;
            None if that does not save time.
        n_views: The number of views to use; 1 if views do not help.
        whole: One larger image that is to be preferred to views, if there is one.
        gain: What these, or the larger image, add to the accuracy of the image alone, with its
            95 % interval.
        gains: The same, by the number of views.
    """

    n_images: int
    rows: tuple[ViewScores, ...]
    dependence: float
    worth: Mapping[int, Gain]
    temperatures: Mapping[int, float]
    stop: StopRule
    preview: ResizedImage | None
    n_views: int
    whole: ResizedImage | None
    gain: Gain
    gains: Mapping[int, Gain]

    @property
    def dependence_in_words(self) -> str:
        """A sentence on what depending on the input was worth."""
        return describe_dependence(self.dependence, self.worth)

    @property
    def verdict(self) -> str:
        """A sentence on whether to use views, and how many."""
        seen_on = f"cross-validated on {self.n_images:,} images"
        if self.whole is None:
            return describe_verdict(self.n_views, self.gain, seen_on=seen_on)
        cost = next(row.views for row in self.rows if row.size == self.whole.size)
        use = f"one pass of the image at {self.whole.size} px, at {cost:.3g} of the cost"
        return describe_verdict(use, self.gain, seen_on=seen_on)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rule to stop, ready for JSON."""
        return {
            "n_images": self.n_images,
            "rows": [vars(row) for row in self.rows],
            "dependence": self.dependence,
            "preview": None if self.preview is None else self.preview.size,
            "worth": {str(n): gain_to_dict(gain) for n, gain in self.worth.items()},
            "n_views": self.n_views,
            "whole": None if self.whole is None else self.whole.size,
            "gain": gain_to_dict(self.gain),
            "verdict": self.verdict,
            "dependence_in_words": self.dependence_in_words,
        }


def order_for_all(
    table: ViewTable,
    learning: Learning,
    rows: Int[Tensor, " rows"] | None = None,
) -> list[int]:
    """The greedy order of views other than the image, by their numbers among those.

    A single image can cost no more than ``MOST_LOSS``, or the few that no view gets right would
    decide.

    Arguments:
        table: Outputs for the image and all other views.
        learning: Which loss, and how many views.
        rows: The images to judge by; as many as are needed if absent.
    """
    rows = torch.arange(len(table)) if rows is None else rows
    rows = rows[:: -(-len(rows) // MOST_IMAGES)]
    weights = None if learning.confidence is None else learning.confidence[rows]

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        values = learning.loss(outputs, targets)
        return values.clamp(max=MOST_LOSS) if learning.confidence is not None else values

    order = greedy_order(table.subset(rows), loss, max(learning.n_views), confidence=weights)
    return [view - 1 for view in order]


def validate(
    aug: InstaAug,
    table: ViewTable,
    small: ViewTable,
    images: NormalizedImages,
    learning: Learning,
    *,
    sizes: Mapping[int, ViewTable],
    size: int,
) -> Validation | None:
    """Fit on three quarters of the images, judge on the fourth, four times.

    Arguments:
        aug: With an empty plan; it comes back as it was.
        table: Class scores for all views.
        small: The table to learn from.
        images: What φ reads, if not the model's features.
        learning: What is minimized, and how.
        sizes: Class scores for the whole image in other sizes.
        size: Side of the views.

    Returns:
        What was found; None if there are too few images.
    """
    if len(table) < FEWEST:
        return None
    rule = aug.merging
    left_out = _leave_out(
        aug, replace(table, calibration=rule.calibration), small, images, learning
    )
    n_most = min(max(learning.n_views), table.outputs.shape[1])
    counts = sorted({min(n, n_most) for n in learning.n_views})
    chosen = _choose_dependence(left_out, table, counts, rule)
    merged = _merge(table, left_out, left_out.ranked(chosen, n_most), rule)
    targets = table.targets[left_out.rows].long()
    temperatures = {
        n: fit_temperature(merged[min(n, n_most) - 1], targets) for n in (1, *learning.n_views)
    }
    wholes = _Wholes(sizes, size, left_out.rows, targets, merged[0])
    preview, stop = wholes.choose_preview(merged)
    if preview is not None:
        temperatures[0] = fit_temperature(wholes.logits(preview.size), targets)
    right = torch.stack([logits.argmax(dim=1) == targets for logits in merged])
    same = _merge(table, left_out, left_out.ranked(0.0, n_most), rule)
    for_all = torch.stack([logits.argmax(dim=1) == targets for logits in same])
    n_views = _recommend(right, counts)
    whole = wholes.recommend(right, counts)
    used = right[n_views - 1] if whole is None else wholes.right(whole.size)
    rows = [_score("the image alone", 1, merged[0], targets)]
    rows += wholes.rows()
    rows += _random_rows(table, left_out, counts, rule, targets, seed=learning.seed)
    rows += [_score("one order for all", n, same[n - 1], targets) for n in counts]
    rows += [_score("learned views", n, merged[n - 1], targets) for n in counts]
    rows += wholes.stopped_rows(preview, merged, counts)
    return Validation(
        n_images=len(left_out.rows),
        rows=tuple(rows),
        dependence=chosen,
        worth={n: accuracy_gain(right[n - 1], for_all[n - 1]) for n in counts},
        temperatures=temperatures,
        stop=stop,
        preview=preview,
        n_views=n_views,
        whole=whole,
        gain=accuracy_gain(used, right[0]),
        gains={n: accuracy_gain(right[n - 1], right[0]) for n in counts},
    )


@dataclass(frozen=True)
class _LeftOut:
    """For each image, what was learned from the folds that it is not in.

    Arguments:
        rows: Numbers of the images.
        order: Scores of the order for all.
        own: φ's log-probabilities.
    """

    rows: Int[Tensor, " images"]
    order: Float[Tensor, "images others"]
    own: Float[Tensor, "images others"]

    def ranked(self, dependence: float, n: int) -> Int[Tensor, "images n"]:
        """The first n views of each image; the image itself, number 0, is the first."""
        order = (self.order + dependence * self.own).argsort(dim=1, descending=True, stable=True)
        return torch.cat([torch.zeros_like(order[:, :1]), 1 + order[:, : n - 1]], dim=1)


def _leave_out(
    aug: InstaAug,
    table: ViewTable,
    small: ViewTable,
    images: NormalizedImages,
    learning: Learning,
) -> _LeftOut:
    plan, start = aug.plan, {name: value.clone() for name, value in aug.state_dict().items()}
    assert plan is not None  # noqa: S101  # the caller has made it
    generator = torch.Generator().manual_seed(learning.seed)
    rows = torch.randperm(len(table), generator=generator)[: _most_images(table, learning)]
    order = torch.zeros(len(table), plan.shape.n_others)
    own = torch.zeros_like(order)
    quick = replace(learning, steps=max(1, learning.steps * 3 // 4), on_step=None)
    for fold in rows.tensor_split(N_FOLDS):
        rest = rows[~torch.isin(rows, fold)]
        plan.set_order(order_for_all(table, learning, rest), gap=GAP)
        learn_from_table(aug, small, images, quick, rest)
        order[fold], own[fold] = plan.order.cpu(), _own_scores(aug, small, images, fold)
        aug.load_state_dict(start)
    rows = rows.sort().values
    return _LeftOut(rows, order[rows], own[rows])


@torch.no_grad()
def _own_scores(
    aug: InstaAug, table: ViewTable, images: NormalizedImages, rows: Tensor
) -> Float[Tensor, "rows others"]:
    """φ's log-probabilities of the other views, without the order for all."""
    plan = aug.plan
    assert plan is not None  # noqa: S101  # checked by the caller
    find, parts = Distributions(aug, table, images), []
    for index in rows.split(ROWS_AT_ONCE):
        scores = aug.other_choices(find.at(index)).logits.expand(len(index), -1)
        parts.append((scores - scores.logsumexp(dim=1, keepdim=True) - plan.order).cpu())
    return torch.cat(parts)


def _most_images(table: ViewTable, learning: Learning) -> int:
    numbers = max(learning.n_views) * int(np.prod(table.outputs.shape[2:]))
    return min(len(table), MOST_IMAGES, max(FEWEST, MOST_NUMBERS // numbers))


def _choose_dependence(
    left_out: _LeftOut, table: ViewTable, counts: Sequence[int], rule: Merging
) -> float:
    """The dependence with the lowest loss, if that is lower than without by a standard error."""
    targets = table.targets[left_out.rows].long()
    temperatures: list[float] = []
    losses = {}
    for dependence in DEPENDENCES:
        merged = _merge(table, left_out, left_out.ranked(dependence, max(counts)), rule)
        if not temperatures:
            temperatures = [fit_temperature(merged[n - 1], targets) for n in counts]
        each = [
            F.cross_entropy(merged[n - 1] / temperature, targets, reduction="none")
            for n, temperature in zip(counts, temperatures, strict=True)
        ]
        losses[dependence] = torch.stack(each).mean(dim=0)
    return choose_by_loss(losses)


def _merge(
    table: ViewTable, left_out: _LeftOut, views: Int[Tensor, "images n"], rule: Merging
) -> list[Float[Tensor, "images classes"]]:
    """Outputs merged over the first view, the first two, and so on."""
    parts = []
    for index, chosen in zip(
        left_out.rows.split(ROWS_AT_ONCE), views.split(ROWS_AT_ONCE), strict=True
    ):
        outputs = table.outputs_of(index)[torch.arange(len(index))[:, None], chosen]
        parts.append(list(_prefixes(outputs, rule)))
    return [torch.cat(views_so_far) for views_so_far in zip(*parts, strict=True)]


def _prefixes(
    outputs: Float[Tensor, "batch n classes"], rule: Merging
) -> Iterator[Float[Tensor, "batch classes"]]:
    batch, n = outputs.shape[:2]
    ones = torch.ones(n, batch)
    total = None
    for k, view in enumerate(outputs.unbind(dim=1), start=1):
        more = rule.total(rule.scores(view, batch)[None], ones[:1])
        total = more if total is None else rule.combine(total, more)
        yield rule.finish(total, ones, torch.full((batch,), k))


def _random_rows(
    table: ViewTable,
    left_out: _LeftOut,
    counts: Sequence[int],
    rule: Merging,
    targets: Tensor,
    *,
    seed: int,
) -> Iterator[ViewScores]:
    """The image and random others, which cost nothing to choose; by the plain mean, and so."""
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.rand(left_out.order.shape, generator=generator).argsort(dim=1)
    views = torch.cat([torch.zeros_like(shuffled[:, :1]), 1 + shuffled], dim=1)[:, : max(counts)]
    rules = {"plain mean": Merging()}
    if rule.merge != "logit":
        rules["by confidence"] = rule
    for name, one in rules.items():
        merged = _merge(table, left_out, views, one)
        for n in counts:
            yield _score(f"image, then uniform grid, {name}", n, merged[n - 1], targets)


@dataclass(frozen=True)
class _Wholes:
    """The whole image in other sizes, and what a look at a smaller one saves.

    Arguments:
        sizes: Class scores by the side of the image.
        size: Side of the views.
        rows: Numbers of the images.
        targets: Their classes.
        whole: Outputs for the whole image in the size of the views, as they are merged.
    """

    sizes: Mapping[int, ViewTable]
    size: int
    rows_of_table: Int[Tensor, " images"]
    targets: Int[Tensor, " images"]
    whole: Float[Tensor, "images classes"]

    def cost(self, side: int) -> float:
        """Of a pass, in passes in the size of the views."""
        return (side / self.size) ** 2

    def factor(self, side: int) -> float:
        """What makes outputs in another size as sure as those in the size of the views."""
        own = fit_temperature(self.whole, self.targets)
        return own / fit_temperature(self._raw(side), self.targets)

    def logits(self, side: int) -> Float[Tensor, "images classes"]:
        """Outputs in another size, on the scale of those in the size of the views."""
        return self.factor(side) * self._raw(side)

    def rows(self) -> Iterator[ViewScores]:
        """One image in another size is the first rival of several views."""
        for side in self.sizes:
            name = f"the image at {side} px"
            found = _score(name, self.cost(side), self._raw(side), self.targets)
            yield replace(found, size=side)

    def choose_preview(self, merged: Sequence[Tensor]) -> tuple[ResizedImage | None, StopRule]:
        """The smaller image that saves most, if any saves something, and when to stop."""
        options: list[int | None] = [None, *(side for side in self.sizes if side < self.size)]
        stages = {side: self._stages(side, merged) for side in options}
        values = {side: _value(*stages[side], self.targets) for side in options}
        best = max(options, key=lambda side: values[side] - (0.0 if side is None else WORTH_IT))
        stop = fit_stop_rule(stages[best][0], self.targets, stages[best][1])
        return (None if best is None else ResizedImage(best, self.factor(best))), stop

    def right(self, side: int) -> Bool[Tensor, " images"]:
        """Whether each image is right in another size."""
        return self._raw(side).argmax(dim=1) == self.targets

    def recommend(
        self, right: Bool[Tensor, "n images"], counts: Sequence[int]
    ) -> ResizedImage | None:
        """The larger image, if it is surely better than the image alone and no views match it.

        Views at any cost would have to be better by more than ``NEARLY``.
        """
        larger = [side for side in self.sizes if side > self.size]
        if not larger:
            return None
        best = max(larger, key=lambda side: _share(self.right(side)))
        _, (low, _) = accuracy_gain(self.right(best), right[0])
        rivals = [_share(right[n - 1]) for n in counts]
        if low <= 0 or _share(self.right(best)) < max(rivals) - NEARLY:
            return None
        nearly = _share(self.right(best)) - NEARLY
        side = min(side for side in larger if _share(self.right(side)) >= nearly)
        return ResizedImage(side, self.factor(side))

    def stopped_rows(
        self, preview: ResizedImage | None, merged: Sequence[Tensor], counts: Sequence[int]
    ) -> Iterator[ViewScores]:
        """The learned stop, for each number of views as its budget; judged on the other half."""
        logits, cost = self._stages(None if preview is None else preview.size, merged)
        for budget in counts:
            found, spent = _stop_crosswise(logits, cost, self.targets, budget=float(budget))
            yield _score(f"learned views, {budget:g} on average", spent, found, self.targets)

    def _stages(
        self, side: int | None, merged: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[float]]:
        views, cost = list(merged), [1.0] * len(merged)
        if side is None:
            return views, cost
        return [self.logits(side), *views], [self.cost(side), *cost]

    def _raw(self, side: int) -> Float[Tensor, "images classes"]:
        return self.sizes[side].outputs_of(self.rows_of_table)[:, 0]


def _value(logits: Sequence[Tensor], cost: Sequence[float], targets: Tensor) -> float:
    """Accuracy less the price of what it costs, on average over prices; judged crosswise."""
    total = 0.0
    for price in JUDGED_PRICES:
        found, spent = _stop_crosswise(logits, cost, targets, price=price)
        total += _share(found.argmax(dim=1) == targets) - PRICES[price] * spent
    return total / len(JUDGED_PRICES)


def _stop_crosswise(
    logits: Sequence[Tensor],
    cost: Sequence[float],
    targets: Tensor,
    *,
    price: int | None = None,
    budget: float = 0.0,
) -> tuple[Float[Tensor, "images classes"], float]:
    """Outputs where each image stops, by a rule from the other half of them; and the mean cost."""
    stacked, spent = torch.stack(list(logits)), torch.tensor(cost).cumsum(dim=0)
    stages = torch.zeros_like(targets)
    halves = [torch.arange(start, len(targets), 2) for start in (0, 1)]
    for learned, judged in (halves, halves[::-1]):
        rule = fit_stop_rule([one[learned] for one in logits], targets[learned], cost)
        number = rule.price_for(budget) if price is None else price
        stages[judged] = rule.last_stages([one[judged] for one in logits], price=number)
    return stacked[stages, torch.arange(len(targets))], float(spent[stages].double().mean())


def _score(name: str, views: float | int, logits: Tensor, targets: Tensor) -> ViewScores:
    nll = F.cross_entropy(logits / fit_temperature(logits, targets), targets)
    return ViewScores(name, views, _share(logits.argmax(dim=1) == targets), float(nll))


def _share(right: Tensor) -> float:
    return float(right.double().mean())


def _recommend(right: Bool[Tensor, "n images"], counts: Sequence[int]) -> int:
    """The fewest views that are nearly as good as the best number; 1 unless they surely help."""
    share = {n: _share(right[n - 1]) for n in counts}
    best = min(n for n in counts if share[n] >= max(share.values()) - NEARLY)
    _, (low, _) = accuracy_gain(right[best - 1], right[0])
    return best if low > 0 else 1
