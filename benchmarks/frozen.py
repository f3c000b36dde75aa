"""What are learned views worth to a frozen model, at what cost, on photos nothing was fitted to?

EfficientNet-Lite0, in two parts. **The curve**: 700 photos of ImageNet's validation set, short
side 352; what is fitted on one half is scored on the other. Single passes at every size, the
uniform grid, one order for all and learned views at 128, 224 and 288 px, and what the fit
recommends, which may be one larger image; cost is counted in multiply-adds, in passes at 224 px.
**At 128 px**: fitted on 500 and 1,000 photos of nips2017, scored once on the 1,300 photos of
imagenet-val-2000 that are not among the 700. See ``imagenet.py`` for what must be there. About
forty minutes of one core the first time: what the model says is kept in ``runs/frozen``.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.imagenet import (
    Labeled,
    load_model,
    native_photos,
    nips_photos,
    other_photos,
    validation_photos,
)
from benchmarks.record import save
from instaaug import InstaAug, fit_tta
from instaaug.augmentation.at_test_time import Merging
from instaaug.augmentation.settings import as_composition
from instaaug.frozen import DEFAULT_CROPS, FrozenViews, NormalizedImages, ViewTable, tabulate
from instaaug.frozen.sizes import find_sizes, tabulate_sizes
from instaaug.networks import FrozenFeatures
from instaaug.parameterizations import CropGrid
from instaaug.report.charts.cost_curve import draw_cost_curve
from instaaug.report.theme import save_figure
from instaaug.runs.view_scores import merge_tabulated_outputs
from instaaug.stats import bootstrap_interval, mcnemar_test, wilson_interval
from instaaug.transforms import Crop

__all__ = ["main"]

RUNS = Path(__file__).parents[1] / "runs" / "frozen"
PICTURE = Path(__file__).parents[1] / "docs" / "frozen_cost_curve.png"
NATIVE = 224
CURVE_SIZES = (128, 224, 288)
SINGLE_PASSES = (128, 160, 192, 224, 256, 288, 320, 352)
LARGE_CROPS = Crop(levels=((1.0, 1), (0.9, 2), (0.8, 2)), max_outside=0.0)  # at 224 and 288 px
COUNTS = (2, 4, 10)
N_DRAWS = 20
SOURCES = {
    "native": native_photos,
    "nips": nips_photos,
    "other": other_photos,
    "validation": validation_photos,
}

Points = dict[str, list[tuple[float, np.ndarray]]]
"""By method: cost, and whether each photo is right, or how often over the draws."""


@cache
def photos(source: str) -> Labeled:
    return SOURCES[source]()


def crops(size: int) -> Crop:
    return DEFAULT_CROPS if size == 128 else LARGE_CROPS


@cache
def table(source: str, size: int) -> tuple[ViewTable, Mapping[int, ViewTable]]:
    """Outputs for the boxes of all photos at a size, and for the whole photos at other sizes."""
    model, images = load_model("Lite0"), NormalizedImages(photos(source).data)
    grid = CropGrid(crops(size).levels, max_outside=0.0)
    views = FrozenViews(
        model, as_composition(crops(size), size=size), grid.boxes, FrozenFeatures(model, size=size)
    )
    folder = RUNS / f"{source}{size}"
    sides = find_sizes(views, images)
    return tabulate(views, images, folder=folder), tabulate_sizes(
        views, images, sides, folder=folder
    )


@cache
def whole(source: str, size: int) -> ViewTable:
    """Outputs for the whole photos at one size."""
    views = FrozenViews(
        load_model("Lite0"), as_composition("crop", size=size), CropGrid(((1.0, 1),)).boxes
    )
    images = NormalizedImages(photos(source).data)
    return tabulate(views, images, folder=RUNS / f"{source}-whole" / str(size))


def fit(source: str, size: int, rows: Tensor, **settings: Any) -> InstaAug:
    """Views fitted to some of the photos, with the defaults of the library."""
    known, sizes = table(source, size)
    return fit_tta(
        load_model("Lite0"), photos(source).data.subset(rows.numpy()), crops(size), size=size,
        table=known.subset(rows), sizes={s: t.subset(rows) for s, t in sizes.items()}, **settings,
    )  # fmt: skip


def right(logits: Tensor, labels: Tensor) -> np.ndarray:
    return (logits.argmax(dim=1) == labels).double().numpy()


def cost(size: int) -> float:
    return (size / NATIVE) ** 2


def score(aug: InstaAug, source: str, size: int, rows: Tensor) -> Points:
    """Learned views and all that is free, on some of the photos, under the rule of the fit."""
    known, sizes = table(source, size)
    known, labels = known.subset(rows), known.targets[rows]
    counts = [min(n, known.outputs.shape[1]) for n in COUNTS]
    images = NormalizedImages(photos(source).data.subset(rows.numpy()))
    if source == "native":
        tables = {s: whole(source, s).outputs_of(rows)[:, 0] for s in SINGLE_PASSES}
    else:
        tables = {size: known.outputs_of(torch.arange(len(rows)))[:, 0]}
    points: Points = {"one pass": [(cost(s), right(z, labels)) for s, z in tables.items()]}
    for name, first in (("uniform grid", False), ("image, then uniform grid", True)):
        for words, rule in (("", Merging()), (", by confidence", aug.merging)):
            points[name + words] = [
                (n * cost(size), _random(known, labels, n, rule, first=first)) for n in counts
            ]
    assert aug.plan is not None  # noqa: S101  # there are enough photos
    dependence = float(aug.plan.dependence)
    for name, alpha in (("one order for all", 0.0), ("learned views", dependence)):
        aug.plan.dependence.fill_(alpha)
        merged = merge_tabulated_outputs(
            aug, known, images, range(1, max(counts) + 1), aug.merging
        )
        points[name] = [(n * cost(size), right(merged[n], labels)) for n in counts]
    stages = [merged[n] for n in sorted(merged)]
    costs = [1.0] * len(stages)
    if aug.preview is not None:
        side, factor = aug.preview
        stages = [factor * sizes[side].outputs_of(rows)[:, 0], *stages]
        costs = [(side / size) ** 2, *costs]
    points["learned views, learned stop"] = list(_stopped(aug, stages, costs, labels, size))
    if source == "native":
        points["recommended"] = [_recommended(aug, rows, merged, labels, size)]
    return points


def _recommended(
    aug: InstaAug, rows: Tensor, merged: Mapping[int, Tensor], labels: Tensor, size: int
) -> tuple[float, np.ndarray]:
    """What a prediction takes unless it is told otherwise: so many views, or a larger image."""
    if aug.whole is None:
        n = aug.recommended_views
        return n * cost(size), right(merged[n], labels)
    side = aug.whole.size
    return cost(side), right(whole("native", side).outputs_of(rows)[:, 0], labels)


def _stopped(
    aug: InstaAug, stages: list[Tensor], costs: list[float], labels: Tensor, size: int
) -> Iterator[tuple[float, np.ndarray]]:
    stop = aug.stop_rule
    assert stop is not None  # noqa: S101  # there are enough photos
    spent = torch.tensor(costs).cumsum(dim=0)
    for budget in COUNTS:
        last = stop.last_stages(stages, price=stop.price_for(budget))
        logits = torch.stack(stages)[last, torch.arange(len(labels))]
        yield float(spent[last].mean()) * cost(size), right(logits, labels)


def _random(known: ViewTable, labels: Tensor, n: int, rule: Merging, *, first: bool) -> np.ndarray:
    """Boxes without replacement, all alike; the share of draws that are right."""
    generator, found = torch.Generator().manual_seed(0), np.zeros(len(labels))
    outputs = known.outputs_of(torch.arange(len(labels)))
    rows, ones = torch.arange(len(labels))[:, None], torch.ones(n, len(labels))
    for _ in range(N_DRAWS):
        noise = torch.rand(outputs.shape[:2], generator=generator)
        noise[:, 0] -= 2.0 * first
        chosen = outputs[rows, noise.argsort(dim=1)[:, :n]]
        scores = rule.scores(chosen.flatten(0, 1), len(labels) * n).unflatten(0, (-1, n))
        total = rule.total(scores.movedim(1, 0), ones)
        found += right(rule.finish(total, ones, torch.full((len(labels),), n)), labels)
    return found / N_DRAWS


def curve(size: int) -> Points:
    """Both halves of the 700 photos, each scored by what was fitted on the other."""
    n = len(photos("native").data)
    halves = [torch.arange(start, n, 2) for start in (0, 1)]
    both = [score(fit("native", size, a), "native", size, b) for a, b in (halves, halves[::-1])]
    joined: Points = {}
    for name in both[0]:
        pairs = zip(both[0][name], both[1][name], strict=True)
        joined[name] = [((c + d) / 2, np.concatenate([x, y])) for (c, x), (d, y) in pairs]
    return joined


def summary(points: Points) -> dict[str, list[dict[str, float]]]:
    """Accuracies with 95 % intervals, by cost."""
    found: dict[str, list[dict[str, float]]] = {}
    for name, by_cost in points.items():
        found[name] = []
        for c, values in by_cost:
            low, high = wilson_interval(round(values.sum()), len(values))
            row = {"cost": c, "accuracy": float(values.mean()), "low": low, "high": high}
            found[name].append(row)
    return found


def against_envelope(all_points: Mapping[int, Points]) -> list[dict[str, Any]]:
    """Learned views of every size against the best free rival of any size that costs no more."""
    ours = ("learned views", "learned views, learned stop", "recommended")
    free = [
        (c, f"{name}, {size} px" if name != "one pass" else f"one pass, cost {c:.2f}", values)
        for size, points in all_points.items()
        for name, by_cost in points.items()
        if name not in ours and (name != "one pass" or size == CURVE_SIZES[0])
        for c, values in by_cost
    ]
    rows = []
    for size, points in all_points.items():
        for name in ours:
            for c, values in points[name]:
                rivals = [rival for rival in free if rival[0] <= c * 1.02]
                _, best, theirs = max(rivals, key=lambda rival: rival[2].mean())
                low, high = bootstrap_interval(lambda x: x.mean(axis=1), values - theirs)
                rows.append(
                    {
                        "name": f"{name}, {size} px", "cost": c, "accuracy": float(values.mean()),
                        "best free rival": best, "rival": float(theirs.mean()),
                        "difference": float((values - theirs).mean()), "low": low, "high": high,
                    }
                )  # fmt: skip
    return rows


def at_128() -> dict[str, Any]:
    """Fitted on photos of nips2017, scored once on 1,300 others."""
    found: dict[str, Any] = {}
    everything = torch.arange(len(photos("other").data))
    for n_fit in (500, 1000):
        aug = fit("nips", 128, torch.arange(0, 1000, 1000 // n_fit))
        points = score(aug, "other", 128, everything)
        rows = summary(points)
        tests = {}
        for n, i in ((4, 1), (10, 2)):
            ours = {k: points[k][i][1] for k in points if k.startswith("learned")}
            for rival in ("uniform grid", "image, then uniform grid, by confidence"):
                theirs = points[rival][i][1]
                for name, values in ours.items():
                    low, high = bootstrap_interval(lambda x: x.mean(axis=1), values - theirs)
                    tests[f"{name} − {rival}, n = {n}"] = {
                        "difference": float((values - theirs).mean()), "low": low, "high": high,
                    }  # fmt: skip
            same = points["one order for all"][i][1]
            for name, values in ours.items():
                test = mcnemar_test(torch.from_numpy(values) > 0, torch.from_numpy(same) > 0)
                tests[f"{name} − one order for all, n = {n}"] = {
                    "difference": test.difference, "p": test.p_value,
                }  # fmt: skip
        found[f"{n_fit} photos"] = {
            "accuracy": rows, "tests": tests, "merge": aug.merge, "sharpness": aug.sharpness,
            "validation": aug.validation.to_dict(),
        }  # fmt: skip
    return found


def show(title: str, rows: Mapping[str, list[dict[str, float]]]) -> None:
    shown = Table(title=title, title_justify="left")
    for heading in ("", "cost", "accuracy", "95 % interval"):
        shown.add_column(heading)
    for name, points in rows.items():
        for point in points:
            interval = f"{100 * point['low']:.1f} to {100 * point['high']:.1f}"
            shown.add_row(name, f"{point['cost']:.2f}", f"{100 * point['accuracy']:.1f}", interval)
    Console().print(shown)


def draw(all_points: Mapping[int, Points]) -> None:
    """Accuracy against cost as a picture, ``docs/frozen_cost_curve.png``."""
    curves: dict[str, list[tuple[float, ...]]] = {}
    for size, points in all_points.items():
        rows = summary({f"learned, {size} px": points["learned views, learned stop"]})
        for name, found in rows.items():
            curves[name] = [(r["cost"] / cost(128), 100 * r["accuracy"]) for r in found]
    one = summary({"one pass": all_points[CURVE_SIZES[0]]["one pass"]})["one pass"]
    curves["one pass"] = [(r["cost"] / cost(128), 100 * r["accuracy"]) for r in one]
    for size in CURVE_SIZES:
        name = "image, then uniform grid, by confidence"
        found = summary({name: all_points[size][name]})[name]
        curves[f"grid, {size} px"] = [(r["cost"] / cost(128), 100 * r["accuracy"]) for r in found]
    save_figure(draw_cost_curve(curves, across="cost in passes at 128 px"), PICTURE)


def main() -> None:
    torch.set_num_threads(1)
    all_points = {size: curve(size) for size in CURVE_SIZES}
    for size, points in all_points.items():
        show(f"{size} px, {len(photos('native').data)} photos", summary(points))
    envelope = against_envelope(all_points)
    for row in envelope:
        Console().print(row)
    small = at_128()
    for n_fit, found in small.items():
        show(f"128 px, fitted on {n_fit} of nips2017", found["accuracy"])
        Console().print(found["tests"])
    save(
        "frozen", {}, findings={
            "curve": {str(size): summary(points) for size, points in all_points.items()},
            "against the envelope": envelope, "at 128 px": small,
        },
        seed=0, model="EfficientNet-Lite0", sizes=CURVE_SIZES, counts=COUNTS, draws=N_DRAWS,
        photos=len(photos("native").data), others=len(photos("other").data),
    )  # fmt: skip
    draw(all_points)


if __name__ == "__main__":
    main()
