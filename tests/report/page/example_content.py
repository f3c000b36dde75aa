"""Content of a page that looks like that of real runs: made from a seed, of any size."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instaaug.report.page.content import (
    WHOLE,
    ClassEntropy,
    Curves,
    Factor,
    PageContent,
    PageInput,
    PageRun,
    ParameterRange,
    RunInput,
)
from tests.report.page.example_pictures import Pixels, cut, data_uri, picture_of

__all__ = ["CLASSES", "example_content", "example_run"]

CLASSES = ("goldfish", "king penguin", "zebra", "school bus", "teapot", "lighthouse")
BANDS: dict[str, list[float]] = {
    "crop": [2.5, 3.5],
    "rotation": [-0.5, 1.2],
    "color": [-9.0, -4.0],
    "flip": [0.2, 0.6],
}
SIZES = ((2.0, 1), (1.4, 3), (1.0, 5), (0.7, 7))  # width, and places along a side
BOXES = [
    [float(x), float(y), width, width]
    for width, n in SIZES
    for y in np.linspace(-1 + width / 2, 1 - width / 2, n).round(4)
    for x in np.linspace(-1 + width / 2, 1 - width / 2, n).round(4)
]
N_TOP = 5

Random = np.random.Generator


def example_content(
    n_inputs: int = 12,
    *,
    runs: Sequence[PageRun] | None = None,
    classes: Sequence[str] = CLASSES,
    names: Sequence[str] = (),
    side: int = 64,
    task: Any = "classification",
    seed: int = 0,
) -> PageContent:
    """A page of this many inputs; ``runs`` are filled with what they make of the inputs.

    Arguments:
        n_inputs: How many inputs there are.
        runs: As of :func:`example_run`; one InstaAug run that crops and turns if None.
        classes: Names of the classes; inputs take turns.
        names: Of the first inputs; the others are numbered.
        side: Width and height of the images in pixels.
        task: "classification" or "regression".
        seed: Of everything.
    """
    random = np.random.default_rng(seed)
    runs = [example_run()] if runs is None else runs
    num_classes = max(len(classes), len(CLASSES))
    pictures = [picture_of(i % num_classes, side, random) for i in range(n_inputs)]
    inputs: list[PageInput] = [
        {
            "name": names[i] if i < len(names) else f"val/n0{1443537 + 37 * i}/{i:05d}.JPEG",
            "target": i % num_classes if task == "classification" else [float(i % 7) - 2.5],
            "image": data_uri([picture]),
        }
        for i, (picture, _) in enumerate(pictures)
    ]
    for run in runs:
        run["inputs"] = [
            _run_input(run, one["target"], num_classes, *picture, random)
            for one, picture in zip(inputs, pictures, strict=True)
        ]
        run["class_entropy"] = _class_entropy(run, inputs, classes)
    return {
        "title": "Tiny ImageNet: which crops are safe",
        "made": "InstaAug 0.4, 16 November 2026",
        "task": task,
        "classes": list(classes),
        "inputs": inputs,
        "aspect": 1.0,
        "n_test": 10 * n_inputs,
        "runs": list(runs),
    }


def example_run(
    name: str = "crops",
    *,
    factors: Sequence[str] = ("crop", "rotation"),
    n_views: int = 20,
    n_strip: int = 8,
    n_epochs: int = 30,
    learned: bool = True,
    value: float = 0.641,
    warn: bool = False,
) -> PageRun:
    """A run that has not met its inputs yet.

    Arguments:
        name: What it is called.
        factors: Out of crop, rotation, color, flip.
        n_views: Views per input; none at all if zero.
        n_strip: Views that are shown as pictures.
        n_epochs: Length of the curves.
        learned: Whether φ is learned; random crops have no probabilities otherwise.
        value: The main score.
        warn: Whether something went wrong.
    """
    random = np.random.default_rng(len(name))
    facts = {
        "data": "tiny-imagenet, 100,000 images",
        "model": "resnet18, 64 px",
        "method": "instaaug" if learned else "random",
        "factors": ", ".join(factors) or "none",
        "seed": "0",
        "epochs": str(n_epochs),
    }
    rows = [("image alone", value - 0.031, False), (f"{n_views} augmented samples", value, True)]
    rows += [("uniform grid, 10 views", value - 0.012, False)] if learned else []
    return {
        "name": name,
        "headline": f"InstaAug, {', '.join(factors) or 'nothing'}: {100 * value:.1f} % from "
        f"{n_views} samples, {100 * (value - 0.031):.1f} % from the image alone.",
        "facts": [[key, fact] for key, fact in facts.items()],
        "command": f"instaaug train --data tiny-imagenet --transform {'+'.join(factors)} --seed 0",
        "score_name": "top-1 accuracy",
        "higher_is_better": True,
        "is_share": True,
        "results": [
            {
                "name": row,
                "value": v,
                "low": v - 0.0094,
                "high": v + 0.0094,
                "is_main": main,
                "note": "p = 0.002 against the image alone" if main else "",
            }
            for row, v, main in rows
        ],
        "notes": ["Use 20 views: +3.1 points of accuracy.", f"{name} were worth it."]
        if learned
        else [],
        "warnings": [
            {
                "title": "Rotations have collapsed",
                "words": "The entropy of rotation is -3.1 nats, below its band from epoch 4 on: "
                "every input is turned by less than 2°.",
                "advice": "raise the weight λ at the start, or check that upright inputs are "
                "really wanted.",
                "level": "serious",
            },
            {
                "title": "Views help little",
                "words": "20 samples are 0.4 points better than the image alone, within error.",
                "advice": "fewer samples at test time.",
                "level": "hint",
            },
        ]
        if warn
        else [],
        "curves": _curves(factors if learned else (), n_epochs, random),
        "factors": [_factor(factor, learned) for factor in factors],
        "class_entropy": [],
        "n_strip": min(n_strip, n_views),
        "n_views": n_views,
        "keeps_original": False,
        "same_views": False,
        "inputs": [],
    }


def _factor(name: str, learned: bool) -> Factor:
    def parameter(name: str, low: float, high: float, **more: Any) -> ParameterRange:
        made = {"name": name, "low": low, "high": high, "identity": 0.0, "period": None}
        return {**made, "unit": "", "multiplicative": False, **more}  # type: ignore[typeddict-item]

    parameters = {
        "rotation": [parameter("angle", -180.0, 180.0, period=360, unit="°")],
        "color": [
            parameter("hue", -90.0, 90.0, period=360, unit="°"),
            parameter("saturation", 0.5, 1.5, identity=1.0, unit="×"),
            parameter("brightness", 0.6, 1.4, identity=1.0, unit="×"),
        ],
    }
    kinds: dict[str, Any] = {"crop": "boxes", "flip": "choices"}
    most = {"crop": np.log(len(BOXES)), "flip": np.log(2), "rotation": np.log(2 * np.pi)}
    return {
        "name": name,
        "kind": kinds.get(name, "ranges"),
        "max_entropy": float(most.get(name, -0.2)),
        "band": BANDS[name] if learned else None,
        "boxes": [list(box) for box in BOXES] if name == "crop" and learned else [],
        "choices": ["as it is", "mirrored"] if name == "flip" else [],
        "parameters": parameters.get(name, []),
    }


def _curves(factors: Sequence[str], n: int, random: Random) -> Curves:
    t = np.arange(n) / max(1, n)

    def noisy(values: NDArray[np.float64], scale: float) -> list[float | int | None]:
        return [round(float(v), 4) for v in values + scale * random.normal(size=n)]

    entropy = {f: noisy(np.mean(BANDS[f]) + 1.5 * np.exp(-6 * t), 0.05) for f in factors}
    weight = {f: noisy(0.02 * np.exp(-5 * t), 0.0) for f in factors}
    validation = noisy(1.5 + 3 * np.exp(-5 * t), 0.03)
    score = noisy(0.62 - 0.6 * np.exp(-5 * t), 0.005)
    if n > 3:
        validation[2] = score[2] = None
    return {
        "epoch": [float(e) for e in range(n)],
        "loss": {"training": noisy(1.2 + 3.2 * np.exp(-5 * t), 0.01), "validation": validation},
        "score": {"validation top-1": score},
        "entropy": entropy if n else {},
        "weight": weight if n else {},
    }


def _run_input(
    run: PageRun,
    target: Any,
    num_classes: int,
    picture: Pixels,
    center: NDArray[np.float64],
    random: Random,
) -> RunInput:
    n = run["n_views"]
    drawn = [_drawn(factor, n, center, random) for factor in run["factors"]]
    boxes = next(
        (d[2] for d, f in zip(drawn, run["factors"], strict=True) if f["kind"] == "boxes"),
        [[0.0, 0.0, 2.0, 2.0]] * n,
    )
    predictions = (
        _probabilities(n, num_classes, target, random)
        if isinstance(target, int)
        else (np.asarray(target) + random.normal(size=(n + 1, 1)), [])
    )
    values, shown = predictions
    merged = [row.round(3).tolist() for row in values[1:].cumsum(0) / np.arange(1, n + 1)[:, None]]
    return {
        "entropy": [d[3] for d in drawn],
        "loss": round(float(random.exponential(0.8)), 3),
        "loss_merged": round(float(random.exponential(0.6)), 3) if n else None,
        "disagreement": round(float(random.uniform(0, 0.6)), 3) if n else None,
        "probs": [d[0] for d in drawn],
        "ranges": [d[1] for d in drawn],
        "theta": [[d[2][view] for d in drawn] for view in range(n)],
        "strip": data_uri([cut(picture, box) for box in boxes[: run["n_strip"]]]) if n else "",
        "classes": shown,
        "merged": merged,
        "plain": values[0].round(3).tolist(),
    }


def _drawn(
    factor: Factor, n: int, center: NDArray[np.float64], random: Random
) -> tuple[list[int], list[list[float]], list[list[float]], float | None]:
    """Probabilities, ranges, θ of each view, and entropy."""
    if factor["kind"] == "ranges":
        ranges = []
        for one in factor["parameters"]:
            ends = np.sort(random.uniform(one["low"], one["high"], 2))
            ends = one["identity"] + (ends - one["identity"]) * random.uniform(0.1, 1)
            ranges.append(ends.round(3).tolist())
        theta = [[round(random.uniform(*r), 3) for r in ranges] for _ in range(n)]
        shares = [
            (r[1] - r[0]) / (p["high"] - p["low"])
            for r, p in zip(ranges, factor["parameters"], strict=True)
        ]
        return [], ranges, theta, factor["max_entropy"] + float(np.log(shares).sum())
    table = np.asarray(factor["boxes"] or [[i] for i in range(len(factor["choices"]))], float)
    if not len(table):  # random crops
        sizes = random.uniform(0.6, 2.0, n)
        places = random.uniform(-1, 1, (n, 2)) * (1 - sizes / 2)[:, None]
        return [], [], np.column_stack([places, sizes, sizes]).round(3).tolist(), None
    if factor["kind"] == "choices":
        logits = random.normal(size=len(table))
    else:
        near = -(((table[:, :2] - center) / 0.35) ** 2).sum(1)
        logits = near - ((table[:, 2] - random.uniform(0.8, 1.6)) / 0.4) ** 2
    probs = np.exp(logits) / np.exp(logits).sum()
    index = random.choice(len(table), n, p=probs)
    theta = [[int(k)] for k in index] if factor["kind"] == "choices" else table[index].tolist()
    entropy = float(-(probs * np.log(probs)).sum())
    return (probs * WHOLE).round().astype(int).tolist(), [], theta, round(entropy, 4)


def _probabilities(
    n: int, num_classes: int, target: int, random: Random
) -> tuple[NDArray[np.float64], list[int]]:
    """A row for the image and one per view, of the classes that are likeliest on average."""
    bias = random.normal(size=num_classes)
    bias[target] += random.uniform(0, 3)
    logits = bias + 1.3 * random.normal(size=(n + 1, num_classes))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    order = np.argsort(-probs.mean(0))[:N_TOP]
    return WHOLE * probs[:, order], [int(k) for k in order]


def _class_entropy(
    run: PageRun, inputs: Sequence[PageInput], classes: Sequence[str]
) -> list[ClassEntropy]:
    found: list[ClassEntropy] = []
    for k, name in enumerate(classes):
        rows = [
            r["entropy"] for r, i in zip(run["inputs"], inputs, strict=True) if i["target"] == k
        ]
        if not rows or not rows[0] or rows[0][0] is None:
            continue
        means = np.asarray(rows, float).mean(0).round(4).tolist()
        found.append({"name": name, "n": len(rows), "entropy": means})
    return found
