"""Learn a head from features of boxes; all that is chosen is chosen by cross-validation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import log
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from instaaug.augmentation.at_test_time import confidence
from instaaug.augmentation.worth import Gain, accuracy_gain
from instaaug.frozen.calibration import fit_temperature
from instaaug.frozen.fit import make_loss
from instaaug.frozen.ordering import greedy_order
from instaaug.frozen.table import ViewTable, condense
from instaaug.stats import bootstrap_interval
from instaaug.transfer.box_weights import (
    losses_of_boxes,
    own_weights,
    shared_weights,
    uniform_weights,
)
from instaaug.transfer.folds import similar_folds
from instaaug.transfer.heads import MOST_ROWS, Head, PrincipalAxes, fit_head

__all__ = ["BoxFeatures", "Candidate", "LearnedHead", "learn_head"]

DECAYS = (1e-2, 3e-3, 1e-3)
BELOW_UNIFORM = (0.1, 0.4)  # nats of entropy that a learned distribution may lie below uniform
SHARES = (0.5, 1.0)  # of an image's own losses
N_FOLDS = 4
N_AXES = 256
MANY_BOXES = 24_000  # for which a few epochs of Adam are steps enough
EPOCHS = 6  # of Adam, for many boxes
WARM_STEPS, LAST_STEPS = 8, 30  # of L-BFGS, from another head, and for the head that is kept
FEWEST_STEPS, MOST_STEPS = 20, 200  # of L-BFGS, for few boxes
WORK = 6e9  # multiply-adds of a head; small problems are solved to the end
FEWEST_COLUMNS = 32  # fewer classes take as long
WITHOUT = "a head that learns from whole images and sees the image alone"
SHARPNESS = 0.5  # of confidence, while candidates are compared

Logits = Float[Tensor, "n k classes"]
Weigh = Callable[[Tensor, int | None], Tensor]
"""From rows of images, and the fold that is left out, to the weights of their boxes."""


@dataclass(frozen=True, eq=False)
class BoxFeatures:
    """Features of K boxes of N images.

    Arguments:
        features: ``(N, K, E)``, in memory or mapped from a file; the first box is the whole image.
        targets: Classes.
        sides: Side of each box, as a share of the image's.
        num_classes: How many there are.
    """

    features: np.ndarray
    targets: Int[Tensor, " n"]
    sides: Float[Tensor, " k"]
    num_classes: int

    @cached_property
    def axes(self) -> PrincipalAxes:
        """Principal axes of the features of all boxes."""
        n, k, e = self.features.shape
        step = max(1, n * k // MOST_ROWS)
        some = torch.from_numpy(np.array(self.features[::step])).reshape(-1, e)
        return PrincipalAxes.of(some, N_AXES)

    @cached_property
    def coordinates(self) -> Float[Tensor, "n k d"]:
        """Features on their principal axes."""
        parts = [
            self.axes.coordinates(torch.from_numpy(np.array(self.features[i : i + 64])))
            for i in range(0, len(self.targets), 64)
        ]
        return torch.cat(parts)


@dataclass(frozen=True)
class Candidate:
    """A distribution over boxes to train the head with, and how good it was on left-out images.

    Arguments:
        name: Of the method.
        kind: ``"none"``, ``"random"``, ``"shared"`` or ``"input"``.
        nll: Negative log-likelihood of merged views, after a temperature, averaged over the
            numbers of views.
        accuracy: Of merged views, by their number.
        decay: Weight decay of the head.
    """

    name: str
    kind: str
    nll: float
    accuracy: dict[int, float]
    decay: float

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {**vars(self), "accuracy": {str(n): a for n, a in self.accuracy.items()}}


@dataclass(frozen=True, eq=False)
class LearnedHead:
    """The head, and what is known of it from images that were left out.

    Arguments:
        head: Trained on all images.
        axes: What it reads.
        weights: How much each box of each image counted.
        logits: Of every box of every image, by a head that has not learned from the image; None if
            no class has two images.
        counted: Images whose class the other folds have, too; only these can be judged.
        heads: By fold, those behind ``logits``.
        folds: The fold of each image.
        candidates: All that was tried, best first.
        chosen: The one that was taken.
        temperatures: By the number of views, from left-out images.
        input_gain: What weights of each image's own were worth in nats, with a 95 % interval.
        gains: By name of what is free, the accuracy that most views add to it, on left-out images:
            a head of whole images that sees the image alone, and the best random boxes.
    """

    head: Head
    axes: PrincipalAxes
    weights: Float[Tensor, "n k"]
    logits: Logits | None
    counted: Bool[Tensor, " n"]
    heads: Sequence[Head]
    folds: Int[Tensor, " n"]
    candidates: Sequence[Candidate]
    chosen: Candidate | None
    temperatures: dict[int, float]
    input_gain: tuple[float, float, float] | None
    gains: Mapping[str, Gain] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A candidate with all that it is judged by."""

    candidate: Candidate
    weigh: Weigh
    heads: Sequence[Head]
    logits: Logits
    losses: Float[Tensor, " counted"]
    right: Mapping[int, Bool[Tensor, " counted"]]


def learn_head(data: BoxFeatures, *, counts: Sequence[int] = (4, 10)) -> LearnedHead:
    """Choose how boxes are weighted and how strongly the head is regularized, and train it.

    Folds keep similar images together (:func:`~instaaug.transfer.folds.similar_folds`). A head
    learns from all folds but one and is judged on that one, by the likelihood of its merged views.
    First random crops: the whole image alone, and all boxes of at least each side. Then weights
    that are learned from losses on images that the head has not learned from, for all images or
    for each its own; these must be better by more than a standard error.

    Where losses of training images decide the weights of their boxes, the head behind these losses
    has learned neither from them nor from the images that judge: a head per pair of folds.

    Arguments:
        data: Features of boxes.
        counts: How many views will be merged.
    """
    search = _Search(data, tuple(counts))
    if not search.counted.any():
        return search.without_folds()
    return search.best()


class _Search:
    def __init__(self, data: BoxFeatures, counts: tuple[int, ...]) -> None:
        self.data, self.z, self.targets = data, data.coordinates, data.targets.long()
        n_boxes = self.z.shape[1]
        self.counts = tuple(sorted({min(n, n_boxes) for n in counts}))
        largest = int(self.targets.bincount().max())
        self.n_folds = min(N_FOLDS, largest)
        self.folds = similar_folds(self.z[:, 0], self.targets, self.n_folds)
        present = torch.zeros(self.n_folds, data.num_classes).index_put_(
            (self.folds, self.targets), torch.ones(()), accumulate=True
        )
        self.counted = (present.sum(dim=0)[self.targets] - present[self.folds, self.targets]) > 0

    def without_folds(self) -> LearnedHead:
        """The head where no class has a second image: all boxes count, and nothing is chosen."""
        weights = self._random(0.0)(torch.arange(len(self.targets)), None)
        head = self._fit(
            torch.arange(len(self.targets)), weights, DECAYS[1], last_steps=LAST_STEPS
        )
        return LearnedHead(
            head,
            self.data.axes,
            weights,
            None,
            self.counted,
            (),
            self.folds,
            (),
            None,
            {},
            None,
        )

    def best(self) -> LearnedHead:
        """Try all candidates, and train the best on all images."""
        trials = sorted(self._random_trials(), key=_nll)
        chosen = trials[0] = self._try_again(trials[0])
        trials += self._learned_trials(chosen)
        for kind in ("shared", "input"):  # from simple to complex
            best = min((t for t in trials if t.candidate.kind == kind), key=_nll, default=chosen)
            chosen = best if _is_clearly_better(best, chosen) else chosen
        rows = torch.arange(len(self.targets))
        weights = chosen.weigh(rows, None)
        head = self._fit(
            rows, weights, chosen.candidate.decay, start=chosen.heads[0], last_steps=LAST_STEPS
        )
        temperature = fit_temperature(
            chosen.logits[self.counted].mean(dim=1), self.targets[self.counted]
        )
        return LearnedHead(
            _scaled(head, temperature),
            self.data.axes,
            weights,
            chosen.logits / temperature,
            self.counted,
            [_scaled(head, temperature) for head in chosen.heads],
            self.folds,
            [trial.candidate for trial in sorted(trials, key=_nll)],
            chosen.candidate,
            self._temperatures(chosen.logits / temperature),
            _input_gain(trials),
            dict(self._gains(chosen, trials)),
        )

    def _gains(self, chosen: _Trial, trials: Sequence[_Trial]) -> Iterator[tuple[str, Gain]]:
        """What the chosen one adds to the best of either kind that is free."""
        most = max(self.counts)
        for kind, n in (("none", 1), ("random", most)):
            rivals = [trial for trial in trials if trial.candidate.kind == kind]
            if rivals and kind != chosen.candidate.kind:
                best = min(rivals, key=_nll)
                name = WITHOUT if kind == "none" else best.candidate.name
                yield name, accuracy_gain(chosen.right[most], best.right[n])

    def _random_trials(self) -> Iterator[_Trial]:
        sides = sorted({round(float(s), 6) for s in self.data.sides})
        widest: list[_Trial] = []
        for decay in DECAYS:
            start = widest[-1].heads if widest else None
            widest.append(self._try_random(sides[0], decay, start))
        best = min(widest, key=_nll)
        yield from widest
        for side in sides[1:]:
            yield self._try_random(side, best.candidate.decay, None)

    def _try_random(self, side: float, decay: float, start: Sequence[Head] | None) -> _Trial:
        kind = "none" if side >= 1 else "random"
        name = "whole image" if side >= 1 else f"random boxes of side {side:g} to 1"
        return self._try(name, kind, self._random(side), decay, start)

    def _try_again(self, trial: _Trial) -> _Trial:
        """The same with as many steps as those that start from its heads will have."""
        old = trial.candidate
        return self._try(old.name, old.kind, trial.weigh, old.decay, trial.heads)

    def _learned_trials(self, reference: _Trial) -> Iterator[_Trial]:
        decay, heads = reference.candidate.decay, reference.heads
        losses = self._losses(reference.logits)
        nested = self._nested_losses(reference)
        most = float(torch.special.entr(reference.weigh(torch.arange(1), None)).sum())
        is_used = reference.weigh(torch.arange(1), None)[0] > 0
        if int(is_used.sum()) < 2:
            return
        for below in BELOW_UNIFORM:
            entropy = max(most - below, log(2))

            def shared(rows: Tensor, fold: int | None, entropy: float = entropy) -> Tensor:
                judged = self.counted if fold is None else self.counted & (self.folds != fold)
                return _spread(
                    shared_weights(losses[judged][:, is_used], entropy)[:1], is_used
                ).expand(len(rows), -1)

            yield self._try(f"one for all, {entropy:.1f} nats", "shared", shared, decay, heads)
            for share in SHARES if below == BELOW_UNIFORM[0] and nested else ():

                def own(
                    rows: Tensor, fold: int | None, entropy: float = entropy, share: float = share
                ) -> Tensor:
                    of_boxes = (losses if fold is None else nested[fold])[rows][:, is_used]
                    return _spread(own_weights(of_boxes, entropy, share=share), is_used)

                name = f"own weights, {entropy:.1f} nats, shrunk to {share:g}"
                yield self._try(name, "input", own, decay, heads)

    def _nested_losses(self, reference: _Trial) -> list[Tensor]:
        """By fold: losses of all others, by heads that have learned from neither.

        Of two folds nothing is left to learn from, and there are none.
        """
        if self.n_folds < 3:
            return []
        nested = [self._losses(reference.logits) for _ in range(self.n_folds)]
        for one, other in combinations(range(self.n_folds), 2):
            rows = ((self.folds != one) & (self.folds != other)).nonzero()[:, 0]
            head = self._fit(  # from zero: the heads of the reference know one of the two
                rows, reference.weigh(rows, one), reference.candidate.decay
            )
            for out, of in ((one, other), (other, one)):
                judged = self.folds == of
                logits = head.logits(self.z[judged])
                nested[out][judged] = losses_of_boxes(logits, self.targets[judged])
        return nested

    def _try(
        self, name: str, kind: str, weigh: Weigh, decay: float, start: Sequence[Head] | None
    ) -> _Trial:
        logits = self.z.new_zeros(*self.z.shape[:2], self.data.num_classes)
        heads = []
        for fold in range(self.n_folds):
            rows = (self.folds != fold).nonzero()[:, 0]
            first = None if start is None else start[fold]
            head = self._fit(rows, weigh(rows, fold), decay, start=first)
            logits[self.folds == fold] = head.logits(self.z[self.folds == fold])
            heads.append(head)
        losses, right = self._judge(logits)
        accuracy = {n: float(right[n].double().mean()) for n in self.counts}
        candidate = Candidate(name, kind, float(losses.mean()), accuracy, decay)
        return _Trial(candidate, weigh, heads, logits, losses, right)

    def _judge(self, logits: Logits) -> tuple[Tensor, dict[int, Tensor]]:
        """The loss of each image, averaged over numbers of views; by number, which are right."""
        logits, targets = logits[self.counted], self.targets[self.counted]
        logits = logits / fit_temperature(logits.mean(dim=1), targets)
        order = order_boxes(logits, targets, max(self.counts), sharpness=SHARPNESS)
        losses, right = [], {1: logits[:, 0].argmax(dim=1) == targets}
        for n in self.counts:
            merged = merge_boxes(logits[:, order[:n]], SHARPNESS)
            losses.append(F.cross_entropy(merged, targets, reduction="none"))
            right[n] = merged.argmax(dim=1) == targets
        return torch.stack(losses).mean(dim=0), right

    def _temperatures(self, logits: Logits) -> dict[int, float]:
        logits, targets = logits[self.counted], self.targets[self.counted]
        order = order_boxes(logits, targets, max(self.counts), sharpness=SHARPNESS)
        return {
            n: fit_temperature(merge_boxes(logits[:, order[:n]], SHARPNESS), targets)
            for n in (1, *self.counts)
        }

    def _losses(self, logits: Logits) -> Tensor:
        return losses_of_boxes(logits, self.targets)

    def _random(self, least: float) -> Weigh:
        return lambda rows, _: uniform_weights(self.data.sides, least, len(rows))

    def _fit(
        self,
        rows: Tensor,
        weights: Tensor,
        decay: float,
        *,
        start: Head | None = None,
        last_steps: int = 0,
    ) -> Head:
        n_boxes = int((weights > 0).sum())
        epochs, steps = (EPOCHS, 0) if start is None else (0, WARM_STEPS)
        if n_boxes < MANY_BOXES:
            columns = max(self.data.num_classes, FEWEST_COLUMNS)
            affordable = WORK / (n_boxes * self.z.shape[2] * columns)
            epochs, steps = 0, min(MOST_STEPS, max(FEWEST_STEPS, int(affordable)))
        return fit_head(
            self.z[rows], weights, self.targets[rows], num_classes=self.data.num_classes,
            decay=decay, start=start, epochs=epochs, max_steps=max(steps, last_steps),
        )  # fmt: skip


def order_boxes(
    logits: Logits, targets: Int[Tensor, " n"], n_views: int, *, sharpness: float
) -> list[int]:
    """One order of boxes for all images: the first, then whichever lowers the loss most."""
    table = condense(ViewTable(logits.numpy(), targets))
    weights = confidence(logits.flatten(0, 1), sharpness).view(logits.shape[:2])
    return [0, *greedy_order(table, make_loss(None), n_views, confidence=weights)]


def merge_boxes(logits: Logits, sharpness: float) -> Float[Tensor, "n classes"]:
    """The mean of logits over boxes, weighted by confidence."""
    weights = confidence(logits.flatten(0, 1), sharpness).view(logits.shape[:2])
    return (logits * weights[..., None]).sum(dim=1) / weights.sum(dim=1, keepdim=True)


def _spread(weights: Tensor, is_used: Tensor) -> Tensor:
    """Weights of all boxes from those of the boxes that are used."""
    every = weights.new_zeros(len(weights), len(is_used))
    every[:, is_used] = weights
    return every


def _scaled(head: Head, temperature: float) -> Head:
    return Head(head.weight / temperature, head.bias / temperature)


def _nll(trial: _Trial) -> float:
    return trial.candidate.nll


def _is_clearly_better(one: _Trial, other: _Trial) -> bool:
    """Whether the mean loss is lower by more than a standard error of the difference."""
    gains = (other.losses - one.losses).double()
    return float(gains.mean()) > float(gains.std() / len(gains) ** 0.5)


def _input_gain(trials: Sequence[_Trial]) -> tuple[float, float, float] | None:
    """What an image's own weights gain over the best that is the same for all, in nats."""
    own = [trial for trial in trials if trial.candidate.kind == "input"]
    same = [trial for trial in trials if trial.candidate.kind != "input"]
    if not own or not same:
        return None
    gains = (min(same, key=_nll).losses - min(own, key=_nll).losses).double().numpy()
    low, high = bootstrap_interval(lambda rows: rows.mean(axis=1), gains)
    return float(gains.mean()), low, high
