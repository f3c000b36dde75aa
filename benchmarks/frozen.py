"""Does learned test-time augmentation help a frozen ImageNet model, and others without refitting?

EfficientNet-Lite0 at 128 px, crops cut from 256 px, 30 boxes. φ is fitted on nips2017-1000 and
three quarters of imagenet-val-2000 and scored on the last quarter, four times; the hash of a file
decides its quarter. See ``imagenet.py`` for what must be there. About an hour of one core the
first time: what the models say is kept in ``runs/frozen``.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from benchmarks.frozen_views import (
    BASELINES,
    RUNS,
    baseline_outputs,
    box_table,
    candidate_outputs,
)
from benchmarks.imagenet import SIDE, SIZE, Photos, load_model, photos
from benchmarks.record import save
from instaaug import InstaAug
from instaaug.augmentation.at_test_time import Budget, Merging, merge_in_rounds
from instaaug.augmentation.views import without_row
from instaaug.distributions import enumerate_choices
from instaaug.frozen import DEFAULT_CROPS, ViewTable, fit_temperature, fit_tta
from instaaug.methods import LearnedLoss
from instaaug.report.charts.cost_curve import draw_cost_curve
from instaaug.report.theme import save_figure
from instaaug.scores import ClassificationTally

__all__ = ["main"]

N_FOLDS = 4
N_VIEWS = (1, 2, 4, 10, 30)
N_DRAWS = 20
N_RESAMPLES = 10_000
KIM_EPOCHS = 8  # of the source's 60, which would take half an hour
LEARNED: dict[str, dict[str, Any]] = {
    "InstaAug": {},
    "InstaAug, one order for all photos": {"features": "none"},
    "single-view loss (the paper's)": {"objective": "single", "entropy": (2.0, 3.0)},
    "single-view loss, one for all": {
        "objective": "single", "entropy": (2.0, 3.0), "features": "none",
    },
    "ensemble loss": {"objective": "ensemble"},
}  # fmt: skip
RIVALS = (
    "random crops, side 0.28 to 1",
    "random crops, side 0.5 to 1",
    "ten crop",
    "uniform grid",
)

Outcomes = dict[str, dict[int, np.ndarray]]
"""By method and number of views: is each photo right, or how often over the draws."""


class Scored:
    """The photos that are scored, and what a model says of their boxes."""

    def __init__(self, table: ViewTable, rows: Tensor) -> None:
        self.outputs = table.outputs[rows.numpy()]
        self.labels = table.targets[rows]

    def logits(self, order: Tensor, n: int) -> Tensor:
        """Mean logit of the first n boxes of each photo's order."""
        index = order[:, :n].numpy()
        chosen = np.take_along_axis(self.outputs, index[:, :, None], axis=1)
        return torch.from_numpy(chosen.astype(np.float32).mean(axis=1))

    def right(self, order: Tensor, n: int) -> np.ndarray:
        return (self.logits(order, n).argmax(dim=1) == self.labels).double().numpy()


def folds(p: Photos) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows to fit on and rows to score, a photo never in both, and scored exactly once."""
    for k in range(N_FOLDS):
        held_out = p.scored & (p.fold == k)
        yield (~held_out).nonzero().flatten(), held_out.nonzero().flatten()


def fitted(settings: dict[str, Any], p: Photos, table: ViewTable) -> list[InstaAug]:
    """φ of each fold."""
    model = load_model("Lite0")
    augs = []
    for fit, held_out in folds(p):
        some, known = p.data.subset(fit.numpy()), table.subset(fit)
        augs.append(fit_tta(model, some, DEFAULT_CROPS, size=SIZE, table=known, **settings))
        if not settings:
            check_against_wrap(augs[-1], model, p, table, held_out[:64])
    return augs


def held_out_order(augs: list[InstaAug], p: Photos, table: ViewTable) -> Tensor:
    """For each photo that is scored, its boxes in the order of the φ that has not seen it."""
    orders = torch.zeros(len(p.data), table.outputs.shape[1], dtype=torch.long)
    for aug, (_, held_out) in zip(augs, folds(p), strict=True):
        orders[held_out] = order_of(aug, table, held_out)
    return orders[p.scored]


@torch.no_grad()
def order_of(aug: InstaAug, table: ViewTable, rows: Tensor) -> Tensor:
    """The whole image, then the other boxes, best first."""
    network: Any = aug.phi.network
    maps = [] if network is None else network.maps(table.features_of(rows))
    joint = aug.phi.decode(maps, None, len(rows))
    others = without_row(enumerate_choices(joint), aug.transform.identity())
    order = others.logits.argsort(dim=1, descending=True) + 1
    return torch.cat([torch.zeros(len(rows), 1, dtype=torch.long), order], dim=1)


@torch.no_grad()
def check_against_wrap(
    aug: InstaAug, model: Any, p: Photos, table: ViewTable, rows: Tensor
) -> None:
    """The shortcut through the table says what the wrapped model says of the photos themselves."""
    x, _ = p.data.__getitems__(rows.tolist())
    real = aug.wrap(model, 10).eval()(x.float() / 255)
    cached = Scored(table, rows).logits(order_of(aug, table, rows), 10)
    if (real - cached).abs().max() > 0.05:
        raise SystemExit("the table and the wrapped model disagree")


def uniform(scored: Scored, *, whole_first: bool) -> dict[int, np.ndarray]:
    """Boxes without replacement, all alike; the share of draws that are right."""
    n_photos, k = scored.outputs.shape[:2]
    generator = torch.Generator().manual_seed(0)
    sums = {n: np.zeros(n_photos) for n in N_VIEWS}
    for _ in range(N_DRAWS):
        noise = torch.rand(n_photos, k, generator=generator)
        noise[:, 0] -= 2.0 * whole_first
        order = noise.argsort(dim=1)
        for n in N_VIEWS:
            sums[n] += scored.right(order, n)
    return {n: total / N_DRAWS for n, total in sums.items()}


def learned_loss(p: Photos, outputs: np.ndarray, labels: Tensor) -> dict[int, np.ndarray]:
    """Kim et al.: the candidates of the smallest predicted loss, mean probability."""
    path = RUNS / f"learned_loss_{KIM_EPOCHS}_epochs.npz"
    if path.is_file():
        return {int(n): v for n, v in np.load(path).items()}
    right = {n: np.zeros(len(p.data)) for n in (1, 2, 4, 10)}
    pixels = torch.from_numpy(p.data.images).permute(0, 3, 1, 2)
    seen = torch.cat(
        [F.interpolate(part.float() / 255, SIZE, mode="area") for part in pixels.split(256)]
    )
    logits = torch.from_numpy(outputs.astype(np.float32))
    losses = F.cross_entropy(
        logits.flatten(0, 1), labels.repeat_interleave(12), reduction="none"
    ).view(-1, 12)
    for fit, held_out in folds(p):
        torch.manual_seed(0)
        aug = LearnedLoss(threshold=0.0)
        aug.fit(
            seen[fit], losses[fit], epochs=KIM_EPOCHS, generator=torch.Generator().manual_seed(0)
        )
        order = aug.eval().scores(seen[held_out]).argsort(dim=1, descending=True)
        probs = logits[held_out].softmax(dim=2)
        for n, result in right.items():
            index = order[:, :n, None].expand(-1, -1, probs.shape[2])
            best = probs.gather(1, index).mean(dim=1).argmax(dim=1)
            result[held_out.numpy()] = (best == labels[held_out]).double().numpy()
    found = {n: result[p.scored.numpy()] for n, result in right.items()}
    np.savez(path, **{str(n): v for n, v in found.items()})
    return found


def stopped_early(scored: Scored, order: Tensor) -> list[dict[str, float]]:
    """Views on average, and accuracy, where photos with a certain prediction get fewer."""
    points = []
    budgets = [Budget(certainty=c) for c in (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)]
    budgets += [Budget(mean_views=v) for v in (1.5, 2.0, 3.0, 4.0, 6.0)]
    n_photos = len(order)
    ones = torch.ones(10, n_photos)
    for budget in budgets:

        def scores_of(view: Tensor, inputs: Tensor) -> Tensor:
            rows = scored.outputs[inputs.numpy(), order[inputs, view].numpy()]
            return torch.from_numpy(rows.astype(np.float32))

        outputs, n_views = merge_in_rounds(scores_of, ones, merging=Merging(), budget=budget)
        points.append(
            {
                "certainty": budget.certainty or 0.0,
                "mean_views": budget.mean_views or 0.0,
                "views": float(n_views.double().mean()),
                "accuracy": float((outputs.argmax(dim=1) == scored.labels).double().mean()),
            }
        )
    return points


def calibration(p: Photos, table: ViewTable, augs: list[InstaAug]) -> list[dict[str, Any]]:
    """NLL and calibration error before and after a temperature that is fitted on fit photos."""
    generator = torch.Generator().manual_seed(0)
    shuffled = torch.rand(len(p.data), table.outputs.shape[1], generator=generator).argsort(dim=1)
    whole = torch.zeros(len(p.data), 1, dtype=torch.long)
    methods: dict[str, tuple[Callable[[InstaAug, Tensor], Tensor], tuple[int, ...]]] = {
        "whole image": (lambda _, rows: whole[rows], (1,)),
        "uniform grid": (lambda _, rows: shuffled[rows], (4, 10)),
        "InstaAug": (lambda aug, rows: order_of(aug, table, rows), (4, 10)),
    }
    results = []
    for method, (order, numbers) in methods.items():
        for n in numbers:
            before, after, temperatures = ClassificationTally(), ClassificationTally(), []
            for aug, (fit, held_out) in zip(augs, folds(p), strict=True):
                seen = Scored(table, fit)
                t = fit_temperature(seen.logits(order(aug, fit), n), seen.labels)
                new = Scored(table, held_out)
                logits = new.logits(order(aug, held_out), n)
                before.add(logits, new.labels)
                after.add(logits / t, new.labels)
                temperatures.append(t)
            first, second = before.scores(), after.scores()
            results.append(
                {
                    "method": method, "n": n, "temperature": float(np.mean(temperatures)),
                    "nll": first["nll"], "ece": first["ece"],
                    "nll_after": second["nll"], "ece_after": second["ece"],
                }
            )  # fmt: skip
    return results


def compared(ours: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    """Difference in points, its 95 % interval and p-value, by a bootstrap over photos."""
    difference = 100 * (ours - theirs)
    generator = np.random.default_rng(0)
    counts = generator.multinomial(len(ours), np.full(len(ours), 1 / len(ours)), N_RESAMPLES)
    means = counts @ difference / len(ours)
    below = (1 + np.sum(means <= 0)) / (1 + N_RESAMPLES)
    low, high = np.quantile(means, [0.025, 0.975])
    p_value = float(min(1.0, 2 * min(below, 1 - below + 1 / (1 + N_RESAMPLES))))
    return {
        "points": float(difference.mean()),
        "low": float(low),
        "high": float(high),
        "p": p_value,
    }


def transferred(p: Photos, order: Tensor) -> dict[str, Any]:
    """The boxes that Lite0's φ chose, shown to other models; none of it is fitted again."""
    rows = p.scored.nonzero().flatten()
    scored_only = Photos(p.data.subset(rows.numpy()), p.scored[rows], p.fold[rows], ())
    results: dict[str, dict[str, Any]] = {}
    for name in ("Lite1", "SqueezeNet"):
        table = box_table(name, load_model(name), scored_only)
        scored = Scored(table, torch.arange(len(rows)))
        alike, plain = uniform(scored, whole_first=False), scored.right(order, 1)
        results[name] = {"whole image": float(plain.mean())}
        for n in (4, 10):
            ours = scored.right(order, n)
            results[name][f"n = {n}"] = {
                "InstaAug": float(ours.mean()),
                "uniform grid": float(alike[n].mean()),
                "against uniform grid": compared(ours, alike[n]),
                "against whole image": compared(ours, plain),
            }
    return results


def scored_once(p: Photos, table: ViewTable) -> dict[str, Any]:
    """φ fitted on imagenet-val-2000 alone, scored on nips2017-1000 at the very end."""
    fit, rows = p.scored.nonzero().flatten(), (~p.scored).nonzero().flatten()
    model, data = load_model("Lite0"), p.data.subset(fit.numpy())
    aug = fit_tta(model, data, DEFAULT_CROPS, size=SIZE, table=table.subset(fit))
    scored, order = Scored(table, rows), order_of(aug, table, rows)
    alike = uniform(scored, whole_first=False)
    results: dict[str, Any] = {"whole image": float(scored.right(order, 1).mean())}
    for n in (4, 10):
        ours = scored.right(order, n)
        results[f"n = {n}"] = {
            "InstaAug": float(ours.mean()),
            "uniform grid": float(alike[n].mean()),
            "against uniform grid": compared(ours, alike[n]),
        }
    return results


def all_outcomes(p: Photos, table: ViewTable, orders: dict[str, Tensor]) -> Outcomes:
    """Whether each photo is right, by method and number of views."""
    scored = Scored(table, p.scored.nonzero().flatten())
    model = load_model("Lite0")
    outcomes: Outcomes = {"whole image": {1: scored.right(next(iter(orders.values())), 1)}}
    for name, order in orders.items():
        outcomes[name] = {n: scored.right(order, n) for n in N_VIEWS[1:]}
    outcomes["uniform grid"] = uniform(scored, whole_first=False)
    outcomes["whole image and uniform grid"] = uniform(scored, whole_first=True)
    labels = scored.labels.numpy()
    for name in BASELINES:
        outputs = baseline_outputs(name, model, p).astype(np.float32)
        numbers = (1, 2, 4, 5, 10) if name == "ten crop" else (1, 2, 4, 10)
        outcomes[name] = {
            n: (outputs[:, :n].mean(axis=1).argmax(axis=1) == labels).astype(float)
            for n in numbers
        }
        if name == "ten crop":
            center = outputs[:, 4].argmax(axis=1) == labels
            outcomes["center crop"] = {1: center.astype(float)}
            both = outputs[:, [4, 9]].mean(axis=1).argmax(axis=1) == labels
            outcomes["center crop and its mirror image"] = {2: both.astype(float)}
    outputs = candidate_outputs(model, p)
    outcomes["learned loss (Kim et al.)"] = learned_loss(p, outputs, table.targets)
    return outcomes


def show(outcomes: Outcomes, against: dict[str, Any]) -> None:
    table = Table(title="top-1 in %, by views per photo", title_justify="left")
    for heading in ("", *map(str, N_VIEWS)):
        table.add_column(heading)
    for name, by_n in outcomes.items():
        cells = [f"{100 * by_n[n].mean():.2f}" if n in by_n else "" for n in N_VIEWS]
        table.add_row(name, *cells)
    console = Console()
    console.print(table)
    console.print(against)


def main() -> None:
    torch.set_num_threads(1)
    p = photos(N_FOLDS)
    table = box_table("Lite0", load_model("Lite0"), p)
    augs = {name: fitted(settings, p, table) for name, settings in LEARNED.items()}
    orders = {name: held_out_order(fits, p, table) for name, fits in augs.items()}
    outcomes = all_outcomes(p, table, orders)
    ours = outcomes["InstaAug"]
    against: dict[str, Any] = {}
    for n in (4, 10):
        best = max(RIVALS, key=lambda name: outcomes[name][n].mean())
        against[f"n = {n}"] = {"best rival": best, **compared(ours[n], outcomes[best][n])}
        against[f"n = {n}, against the center crop"] = compared(
            ours[n], outcomes["center crop"][1]
        )
    show(outcomes, against)
    stopped = stopped_early(Scored(table, p.scored.nonzero().flatten()), orders["InstaAug"])
    augs["InstaAug"][0].save(RUNS / "aug.safetensors")
    draw(outcomes, stopped)
    accuracy = {m: {str(n): float(v.mean()) for n, v in o.items()} for m, o in outcomes.items()}
    findings = {
        "accuracy": accuracy,
        "against": against,
        "stopped early": stopped,
        "calibration": calibration(p, table, augs["InstaAug"]),
        "transfer": transferred(p, orders["InstaAug"]),
        "nips2017-1000, scored once": scored_once(p, table),
    }
    for name in ("calibration", "transfer", "stopped early", "nips2017-1000, scored once"):
        Console().print(name, findings[name])
    save(
        "frozen", {}, findings=findings, seed=0, model="EfficientNet-Lite0", size=SIZE, side=SIDE,
        boxes=table.outputs.shape[1], folds=N_FOLDS, photos=int(p.scored.sum()),
        draws=N_DRAWS, resamples=N_RESAMPLES, epochs_of_learned_loss=KIM_EPOCHS,
    )  # fmt: skip


def draw(outcomes: Outcomes, stopped: list[dict[str, float]]) -> None:
    """Accuracy against cost, as a picture in ``runs/frozen``."""
    names = ("InstaAug", "uniform grid", "ten crop", "random crops, side 0.5 to 1", "RandAugment")
    whole = 100 * float(outcomes["whole image"][1].mean())
    curves: dict[str, list[tuple[float, float]]] = {
        name: [(n, 100 * float(v.mean())) for n, v in outcomes[name].items()] for name in names
    }
    curves["InstaAug"].insert(0, (1, whole))
    early = sorted((s["views"], 100 * s["accuracy"]) for s in stopped if s["mean_views"])
    curves = {"InstaAug": curves.pop("InstaAug"), "InstaAug, stopping early": early, **curves}
    save_figure(draw_cost_curve(curves), RUNS / "cost_curve.png")


if __name__ == "__main__":
    main()
