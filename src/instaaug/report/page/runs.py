"""What a run found, as plain data for the page."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from instaaug.augmentation.observed import ObservedFactor
from instaaug.report.page.content import (
    WHOLE,
    ClassEntropy,
    Curves,
    Factor,
    ParameterRange,
    RunInput,
)
from instaaug.report.page.observations import Observations
from instaaug.report.units import choice_names, spoken, unit_of
from instaaug.spaces import Choices, Interval, Parameter

__all__ = ["class_entropies", "curves_of", "factors_of", "inputs_of"]

N_CLASSES = 6  # whose probabilities are shown
DIGITS = 6  # of entropies and losses
PLACES = 3  # of coordinates
LOSSES = {"training": "train/loss", "validation": "validation/nll"}
SCORES = {
    "validation top-1": "validation/top1",
    "validation MAE": "validation/mae",
    "validation RMSE": "validation/rmse",
}


def factors_of(seen: Observations) -> list[Factor]:
    """The parts of θ and what they may be."""
    return [_factor(factor) for factor in seen.factors]


def _factor(factor: ObservedFactor) -> Factor:
    space = factor.space
    ranges = space.parameters if isinstance(space, Interval) else ()
    table = [] if factor.table is None else factor.table.tolist()
    return {
        "name": spoken(factor.name),
        "kind": "ranges" if ranges else "choices" if isinstance(space, Choices) else "boxes",
        "max_entropy": _number(factor.max_entropy) or 0.0,
        "band": None if factor.band is None else [round(end, DIGITS) for end in factor.band],
        "boxes": [] if isinstance(space, Choices) else [_rounded(row) for row in table],
        "choices": choice_names(space) if isinstance(space, Choices) else [],
        "parameters": [_parameter(parameter) for parameter in ranges],
    }


def _parameter(parameter: Parameter) -> ParameterRange:
    unit = unit_of(parameter)
    scale = unit.scale
    return {
        "name": parameter.name,
        "low": round(parameter.low * scale, PLACES),
        "high": round(parameter.high * scale, PLACES),
        "identity": round(parameter.identity * scale, PLACES),
        "period": None if parameter.period is None else round(parameter.period * scale, PLACES),
        "unit": unit.sign,
    }


def inputs_of(seen: Observations, *, classes: Sequence[str]) -> list[RunInput]:
    """What the run makes of each input; the pictures of its views are still to come.

    Arguments:
        seen: All that was seen.
        classes: Names; none for a regression.
    """
    return [_input(seen, i, is_class=bool(classes)) for i in range(len(seen.pictures))]


def _input(seen: Observations, i: int, *, is_class: bool) -> RunInput:
    merged, plain = seen.merged[:, i], seen.plain[i]
    shown = _likeliest(merged, plain) if is_class else []
    has_views = bool(len(merged))
    found: RunInput = {
        "entropy": [_at(factor.entropy, i) for factor in seen.factors],
        "loss": _number(float(seen.loss[i])),
        "loss_merged": _number(float(seen.loss_merged[i])) if has_views else None,
        "disagreement": _number(float(seen.disagreement[i])) if has_views else None,
        "probs": [[] if f.probs is None else _parts(f.probs[i]) for f in seen.factors],
        "ranges": [_ranges(factor, i) for factor in seen.factors],
        "theta": [[_theta(f, view, i) for f in seen.factors] for view in range(len(merged))],
        "strip": "",
        "classes": shown,
        "merged": [_shown(row, shown) for row in merged],
        "plain": _shown(plain, shown),
    }
    if seen.outlines is not None:
        found["outlines"] = [_rounded(o.flatten().tolist()) for o in seen.outlines[:, i]]
    return found


def _likeliest(merged: Tensor, plain: Tensor) -> list[int]:
    """Classes worth a line: the likeliest at the end, at the start and without views."""
    total = plain + (merged[-1] + merged[0] if len(merged) else 0)
    last = merged[-1] if len(merged) else plain
    chosen = total.topk(min(N_CLASSES, len(plain))).indices.tolist()
    return sorted(chosen, key=lambda c: -float(last[c]))


def _shown(row: Tensor, classes: Sequence[int]) -> list[Any]:
    if classes:
        return _parts(row[list(classes)])
    return _rounded(row.tolist(), DIGITS)


def _parts(probs: Tensor) -> list[int]:
    """Probabilities as whole parts."""
    return [int(p) for p in (probs * WHOLE).round()]


def _ranges(factor: ObservedFactor, i: int) -> list[list[float]]:
    if factor.low is None or factor.high is None or not isinstance(factor.space, Interval):
        return []
    ends = zip(
        factor.space.parameters, factor.low[i].tolist(), factor.high[i].tolist(), strict=True
    )
    return [_rounded([low * unit_of(p).scale, high * unit_of(p).scale]) for p, low, high in ends]


def _theta(factor: ObservedFactor, view: int, i: int) -> list[float]:
    theta = factor.theta[view, i]
    if isinstance(factor.space, Interval):
        values = zip(factor.space.parameters, theta.tolist(), strict=True)
        return _rounded([value * unit_of(p).scale for p, value in values])
    if isinstance(factor.space, Choices):
        rows = torch.tensor(factor.space.rows)
        return [float((rows - theta).abs().sum(dim=1).argmin())]
    return _rounded(theta.tolist())


def class_entropies(
    seen: Observations, targets: Tensor, classes: Sequence[str]
) -> list[ClassEntropy]:
    """The mean entropy of each factor over the inputs of each class that has any."""
    found: list[ClassEntropy] = []
    for label, name in enumerate(classes):
        members = targets == label
        if members.any():
            means = [
                f.entropy[members].mean() if f.entropy is not None else None for f in seen.factors
            ]
            found.append(
                {
                    "name": name,
                    "n": int(members.sum()),
                    "entropy": [None if m is None else _number(float(m)) for m in means],
                }
            )
    return found


def curves_of(history: Sequence[Mapping[str, Any]]) -> Curves:
    """The rows of ``metrics.csv`` as curves, by what they show."""
    names = list(dict.fromkeys(name for row in history for name in row))
    curve = {name: [_number(row.get(name)) for row in history] for name in names}

    def group(start: str) -> dict[str, list[float | int | None]]:
        found = {spoken(n.removeprefix(start)): curve[n] for n in names if n.startswith(start)}
        return {
            name: values for name, values in found.items() if any(v is not None for v in values)
        }

    return {
        "epoch": [float(row.get("epoch", i)) + 1 for i, row in enumerate(history)],
        "loss": {title: curve[name] for title, name in LOSSES.items() if name in curve},
        "score": {title: curve[name] for title, name in SCORES.items() if name in curve},
        "entropy": group("train/entropy/"),
        "weight": group("train/weight/"),
    }


def _at(values: Tensor | None, i: int) -> float | None:
    return None if values is None else _number(float(values[i]))


def _number(value: object) -> float | None:
    """Short, and None unless it is finite."""
    if not isinstance(value, int | float) or not isfinite(value):
        return None
    return round(float(value), DIGITS)


def _rounded(values: Sequence[float], places: int = PLACES) -> list[float]:
    return [round(value, places) if isfinite(value) else 0.0 for value in values]
