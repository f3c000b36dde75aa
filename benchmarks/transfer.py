"""Which boxes should a head on a frozen backbone learn from, and which views should it merge?

EfficientNet-Lite0 at 128 px on photos of groceries: ``INSTAAUG_FEATURES`` names a folder with
``train.pt`` and ``test.pt``, each with features ``feat`` (N, 30, 1280) and classes ``y``. All
methods are distributions over the same 30 boxes, with the same head, folds and decay. Each gets
all that is free: the image first, the greedy order for all, and merging by confidence, chosen on
left-out training images. A seed draws the training photos: 14 of up to 16 per class for the table,
1 to 14 for the curve of few shots, whose picture is ``docs/few_shot.png``. ``INSTAAUG_SHOTS``,
``4,8`` for instance, does only these and keeps what else is in the results.

Heads are not solved to the end, and further steps make them better: all methods have the same
number of steps, random ones too, or what is learned would win by its steps.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.record import RESULTS, save
from instaaug.augmentation.at_test_time import Merging
from instaaug.augmentation.stopping import fit_stop_rule
from instaaug.frozen import ViewTable, fit_temperature
from instaaug.frozen.fit import make_loss
from instaaug.frozen.ordering import greedy_order
from instaaug.frozen.table import condense
from instaaug.report.charts.cost_curve import draw_cost_curve
from instaaug.report.theme import save_figure
from instaaug.stats import paired_t_test, t_interval
from instaaug.transfer import similar_folds
from instaaug.transfer.box_weights import (
    class_weights,
    losses_of_boxes,
    own_weights,
    shared_weights,
    uniform_weights,
)
from instaaug.transfer.heads import Head, PrincipalAxes, fit_head

__all__ = ["compare", "main", "score_method"]

PICTURE = Path(__file__).parents[1] / "docs" / "few_shot.png"
SEEDS = {14: 10, 1: 5, 2: 5, 4: 3, 8: 3}  # by photos per class, of up to 16: so seeds differ
N_VIEWS = 10  # of the curve of few shots
COUNTS = (4, 10, 30)
SHARPNESSES = (0.0, 0.5, 1.0, 2.0)
BELOW_UNIFORM = 0.1  # nats
SHARE = 0.5
DECAY = 1e-3
N_AXES = 256
N_FOLDS = 4
STEPS, WARM_STEPS = 30, 12
N_DRAWS = 3


class Part(NamedTuple):
    """Coordinates of 30 boxes of some images, and their classes."""

    z: Tensor
    targets: Tensor


class Fitted(NamedTuple):
    """A head, and the logits of every training image by a head that has not seen it."""

    head: Head
    heads: Sequence[Head]
    left_out: Tensor


Scores = dict[str, float]


class Problem:
    """One draw of the training photos, with folds."""

    def __init__(self, train: Part, num_classes: int, sides: Tensor) -> None:
        self.z, self.y = train
        self.n, self.k = self.z.shape[:2]
        self.num_classes, self.sides = num_classes, sides
        self.n_folds = min(N_FOLDS, int(self.y.bincount().max()))
        self.folds = similar_folds(self.z[:, 0], self.y, self.n_folds)

    def ranges(self) -> dict[str, float]:
        """The least side of a box by the name of the method, from large to small."""
        sides = sorted({round(float(side), 6) for side in self.sides}, reverse=True)
        return {"none" if s >= 1 else f"random {s:g} to 1": s for s in sides}

    def rows(self, *left_out: int) -> Tensor:
        """Numbers of the images that are in none of these folds."""
        return (~torch.isin(self.folds, torch.tensor(left_out))).nonzero()[:, 0]

    def fit(self, rows: Tensor, weights: Tensor, start: Head | None = None) -> Head:
        """The head that learns from some images."""
        return fit_head(
            self.z[rows], weights, self.y[rows], num_classes=self.num_classes, decay=DECAY,
            start=start, max_steps=STEPS if start is None else WARM_STEPS,
        )  # fmt: skip

    def cross_fit(self, weights: Sequence[Tensor], start: Fitted | None = None) -> Fitted:
        """Heads for weights of the images that are left when each fold is left out; then none."""
        heads = []
        left_out = self.z.new_zeros(self.n, self.k, self.num_classes)
        for fold in range(self.n_folds):
            first = None if start is None else start.heads[fold]
            heads.append(self.fit(self.rows(fold), weights[fold], first))
            judged = self.folds == fold
            left_out[judged] = heads[-1].logits(self.z[judged])
        last = self.fit(torch.arange(self.n), weights[-1], None if start is None else start.head)
        return Fitted(last, heads, left_out)

    def each(self) -> list[Tensor]:
        """The images that are left when each fold is left out; then all."""
        return [*(self.rows(fold) for fold in range(self.n_folds)), torch.arange(self.n)]


def fit_methods(problem: Problem) -> dict[str, Fitted]:
    """A head for every method."""
    each = problem.each()
    fitted = {}
    for name, side in problem.ranges().items():
        weights = [uniform_weights(problem.sides, side, len(rows)) for rows in each]
        base = problem.cross_fit(weights, problem.cross_fit(weights))
        fitted[name] = problem.cross_fit(weights, base)  # as many steps as what starts from base
    entropy = float(np.log(problem.k)) - BELOW_UNIFORM
    crossed = losses_of_boxes(base.left_out, problem.y)
    nested = nested_losses(problem, crossed, weights)
    seen = [
        losses_of_boxes(head.logits(problem.z[rows]), problem.y[rows])
        for head, rows in zip([*base.heads, base.head], each, strict=True)
    ]
    labels = [problem.y[rows] for rows in each]
    learned = {
        "shared": [shared_weights(losses, entropy) for losses in nested],
        "per class": [class_weights(o, y, entropy) for o, y in zip(nested, labels, strict=True)],
        "in-sample": [own_weights(losses, entropy, share=SHARE) for losses in seen],
        "cross-fitted": [own_weights(losses, entropy, share=SHARE) for losses in nested],
    }
    return fitted | {name: problem.cross_fit(w, base) for name, w in learned.items()}


def nested_losses(problem: Problem, crossed: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    """By fold that is left out: losses of the rest, by heads that know neither.

    Of two folds nothing is left to learn from: all boxes have the same loss, so the same weight.
    """
    if problem.n_folds < 3:
        return [*(torch.zeros_like(crossed[problem.rows(f)]) for f in (0, 1)), crossed]
    losses = [crossed.clone() for _ in range(problem.n_folds)]
    for one, other in combinations(range(problem.n_folds), 2):
        rows = problem.rows(one, other)
        head = problem.fit(rows, weights[-1][rows])  # from zero: base knows one of the two
        for out, of in ((one, other), (other, one)):
            judged = problem.folds == of
            losses[out][judged] = losses_of_boxes(
                head.logits(problem.z[judged]), problem.y[judged]
            )
    return [*(losses[f][problem.rows(f)] for f in range(problem.n_folds)), crossed]


def prefixes(logits: Tensor, rule: Merging) -> list[Tensor]:
    """Logits merged over the first view, the first two, and so on."""
    batch, n = logits.shape[:2]
    ones, total, merged = torch.ones(n, batch), None, []
    for k in range(n):
        more = rule.total(rule.scores(logits[:, k], batch)[None], ones[:1])
        total = more if total is None else rule.combine(total, more)
        merged.append(rule.finish(total, ones, torch.full((batch,), k + 1)))
    return merged


def choose_rule(logits: Tensor, targets: Tensor) -> tuple[float, list[int]]:
    """Sharpness and order of views that suit left-out images."""
    found = []
    for sharpness in SHARPNESSES:
        weights = Merging("confidence", sharpness=sharpness).scores(
            logits.flatten(0, 1), len(targets) * logits.shape[1]
        )[:, -1]
        table = condense(ViewTable(logits.numpy(), targets))
        order = greedy_order(
            table, make_loss(None), logits.shape[1], confidence=weights.view(logits.shape[:2])
        )
        merged = prefixes(logits[:, [0, *order]], Merging("confidence", sharpness=sharpness))
        loss = sum(
            float(torch.nn.functional.cross_entropy(
                merged[n - 1] / fit_temperature(merged[n - 1], targets), targets
            )) for n in COUNTS
        )  # fmt: skip
        found.append((loss, sharpness, [0, *order]))
    _, sharpness, order = min(found)
    return sharpness, order


def score_method(fitted: Fitted, train_targets: Tensor, test: Part, seed: int) -> Scores:
    """Accuracy for every way to choose views and every number of them, in percent."""
    scale = 1 / fit_temperature(fitted.left_out[:, 0], train_targets)
    left_out, logits = fitted.left_out * scale, fitted.head.logits(test.z) * scale
    scores: Scores = {"the image": accuracy(logits[:, 0], test.targets)}
    generator = torch.Generator().manual_seed(seed)
    for n in COUNTS:
        found = []
        for _ in range(N_DRAWS):
            drawn = torch.rand(logits.shape[:2], generator=generator).argsort(dim=1)[:, :n]
            views = logits[torch.arange(len(logits))[:, None], drawn]
            found.append(accuracy(views.mean(dim=1), test.targets))
        scores[f"uniform views, plain mean, {n}"] = sum(found) / len(found)
    sharpness, order = choose_rule(left_out, train_targets)
    rule = Merging("confidence", sharpness=sharpness)
    before, merged = prefixes(left_out[:, order], rule), prefixes(logits[:, order], rule)
    stop = fit_stop_rule(before, train_targets, [1.0] * len(order))
    stacked = torch.stack(merged)
    for n in COUNTS:
        scores[f"one order for all, {n}"] = accuracy(merged[n - 1], test.targets)
        counts = 1 + stop.last_stages(merged, price=stop.price_for(n))
        stopped = stacked[counts - 1, torch.arange(len(counts))]
        scores[f"learned stop, {n}"] = accuracy(stopped, test.targets)
        scores[f"views of learned stop, {n}"] = float(counts.double().mean())
    return scores


def accuracy(logits: Tensor, targets: Tensor) -> float:
    return 100 * float((logits.argmax(dim=1) == targets).double().mean())


def compare(
    train: Part, test: Part, num_classes: int, sides: Tensor, *, shots: int, seed: int
) -> dict[str, Scores]:
    """Scores of all methods for one draw of so many training photos per class."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(len(train.targets), generator=generator).argsort()
    of_class = [drawn[train.targets[drawn] == label][:shots] for label in range(num_classes)]
    rows = torch.cat(of_class).sort().values
    part = Part(train.z[rows], train.targets[rows])
    problem = Problem(part, num_classes, sides)
    if problem.n_folds < 2:
        return {
            name: score_single_shots(problem, test, seed, least)
            for name, least in problem.ranges().items()
        }
    return {
        name: score_method(fitted, part.targets, test, seed)
        for name, fitted in fit_methods(problem).items()
    }


def score_single_shots(problem: Problem, test: Part, seed: int, least: float) -> Scores:
    """One photo per class leaves nothing to choose on: boxes of some sides, uniform views."""
    weights = uniform_weights(problem.sides, least, problem.n)
    head = problem.fit(torch.arange(problem.n), weights)
    logits = head.logits(test.z)
    generator = torch.Generator().manual_seed(seed)
    scores = {"the image": accuracy(logits[:, 0], test.targets)}
    for n in COUNTS:
        drawn = torch.rand(logits.shape[:2], generator=generator).argsort(dim=1)[:, :n]
        views = logits[torch.arange(len(logits))[:, None], drawn]
        scores[f"uniform views, plain mean, {n}"] = accuracy(views.mean(dim=1), test.targets)
    return scores


def load_features(name: str) -> tuple[np.ndarray, Tensor]:
    """Features of all boxes of the photos, and their classes."""
    folder = Path(os.environ["INSTAAUG_FEATURES"])
    stored = torch.load(folder / f"{name}.pt", weights_only=True)
    return stored["feat"].numpy(), stored["y"]


def main() -> None:
    wanted = os.environ.get("INSTAAUG_SHOTS", ",".join(map(str, SEEDS)))
    features, targets = load_features("train")
    other, labels = load_features("test")
    axes = PrincipalAxes.of(torch.from_numpy(features).flatten(0, 1), N_AXES)
    train = Part(axes.coordinates(torch.from_numpy(features)), targets)
    test = Part(axes.coordinates(torch.from_numpy(other)), labels)
    sides = torch.tensor([1.0] + [0.8] * 4 + [0.6] * 9 + [0.4] * 16)
    for shots in map(int, wanted.split(",")):
        methods: dict[str, dict[str, list[float]]] = {}
        for seed in range(SEEDS[shots]):
            now = compare(train, test, int(targets.max()) + 1, sides, shots=shots, seed=seed)
            for method, scores in now.items():
                for row, value in scores.items():
                    methods.setdefault(method, {}).setdefault(row, []).append(value)
            print(f"{shots} photos per class, seed {seed} of {SEEDS[shots]}", file=sys.stderr)
            record(shots, methods)
    draw_few_shots()


def record(shots: int, methods: Mapping[str, Mapping[str, list[float]]]) -> None:
    """Put the scores of so many photos per class into the results; others stay."""
    kept = {
        name: value
        for name, value in published().items()
        if not name.startswith(f"{shots} photos per class,")
    }
    settings = {"n_seeds": {str(n): seeds for n, seeds in SEEDS.items()}, "decay": DECAY}
    save(
        "transfer", {}, findings=kept | summarize({str(shots): methods}), n_axes=N_AXES, **settings
    )


def published() -> dict[str, Any]:
    """The findings on disk."""
    path = RESULTS / "transfer.json"
    return json.loads(path.read_text())["findings"] if path.is_file() else {}


def draw_few_shots() -> None:
    """Accuracy against photos per class, from the results on disk."""
    found = published()
    plain, ordered = f"uniform views, plain mean, {N_VIEWS}", f"one order for all, {N_VIEWS}"
    ranges = ("random 0.8 to 1", "random 0.6 to 1", "random 0.4 to 1")
    curves = {
        "own boxes, cross-fitted": (("cross-fitted",), ordered),
        "one for all": (("shared",), ordered),
        "random, best order": (ranges, ordered),
        "random, plain mean": (ranges, plain),
        "whole image": (("none",), "the image"),
    }
    points: dict[str, list[tuple[float, ...]]] = {}
    for name, (methods, row) in curves.items():
        for shots in sorted(SEEDS):
            keys = (f"{shots} photos per class, {method}, {row}" for method in methods)
            if rows := [found[key] for key in keys if key in found]:
                best = max(rows, key=lambda one: one["mean"])
                point = (shots, best["mean"], best["low"], best["high"])
                points.setdefault(name, []).append(point)
    shown = sorted({int(shots) for curve in points.values() for shots, *_ in curve})
    drawing = draw_cost_curve(points, across="photos per class", ticks=shown)
    save_figure(drawing, PICTURE)


def summarize(
    found: Mapping[str, Mapping[str, Mapping[str, list[float]]]],
) -> dict[str, object]:
    """Means with 95 % intervals, and paired tests over seeds."""
    findings: dict[str, object] = {}
    for shots, methods in found.items():
        for method, rows in methods.items():
            for row, values in rows.items():
                several = len(values) > 1
                low, high = t_interval(values) if several else (values[0], values[0])
                findings[f"{shots} photos per class, {method}, {row}"] = {
                    "mean": sum(values) / len(values), "low": low, "high": high,
                }  # fmt: skip
        findings |= paired(shots, methods)
    return findings


def paired(shots: str, methods: Mapping[str, Mapping[str, list[float]]]) -> dict[str, object]:
    """The questions of the comparison, each with its difference and p-value."""
    randoms = [name for name in methods if name.startswith("random")]
    if "cross-fitted" not in methods or len(next(iter(methods["none"].values()))) < 2:
        return {}
    found: dict[str, object] = {}
    for n in COUNTS:
        ours = methods["cross-fitted"]
        rivals = {
            "uniform views of the best random range": max(
                (methods[name][f"uniform views, plain mean, {n}"] for name in randoms), key=sum
            ),
            "one order for all of the best random range": max(
                (methods[name][f"one order for all, {n}"] for name in randoms), key=sum
            ),
            "learned stop of the best random range": max(
                (methods[name][f"learned stop, {n}"] for name in randoms), key=sum
            ),
            "shared, one order for all": methods["shared"][f"one order for all, {n}"],
            "shared, learned stop": methods["shared"][f"learned stop, {n}"],
            "in-sample, one order for all": methods["in-sample"][f"one order for all, {n}"],
            "in-sample, learned stop": methods["in-sample"][f"learned stop, {n}"],
        }
        for name, values in rivals.items():
            for way in ("one order for all", "learned stop"):
                test = paired_t_test(ours[f"{way}, {n}"], values)
                question = f"{n} views: cross-fitted, {way} against {name}"
                found[f"{shots} photos per class, {question}"] = {
                    "difference": test.mean, "low": test.interval[0], "high": test.interval[1],
                    "p": test.p_value,
                }  # fmt: skip
    return found


if __name__ == "__main__":
    main()
