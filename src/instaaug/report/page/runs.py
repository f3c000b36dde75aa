"""What a run found and how good it is, as plain data for the page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from instaaug.augmentation.observed import ObservedFactor
from instaaug.report.page.content import (
    WHOLE,
    ClassEntropy,
    Curves,
    Factor,
    ParameterRange,
    ResultRow,
    RunInput,
)
from instaaug.report.records import (
    Part,
    RunRecord,
    Score,
    accuracy_of,
    advised_views,
    validation_of,
)
from instaaug.report.units import choice_names, humanize, unit_of
from instaaug.spaces import Choices, Interval, Parameter

__all__ = [
    "PARTS",
    "Observations",
    "class_entropies",
    "curves_of",
    "differing_settings",
    "factors_of",
    "facts_of",
    "headline_of",
    "inputs_of",
    "join_observations",
    "notes_of",
    "result_rows",
    "score_name",
    "short_names",
    "without_common_folder",
    "worth_of_dependence",
]

N_CLASSES = 6  # whose probabilities are shown
DIGITS = 6  # of entropies and losses
DECIMALS = 3  # of coordinates
LOSSES = {"training": "train/loss", "validation": "validation/nll"}
SCORES = {
    "validation top-1": "validation/top1",
    "validation MAE": "validation/mae",
    "validation RMSE": "validation/rmse",
}

TRAINED = {
    "data.source": "data", "task": "task", "model.name": "model", "model.width": "width",
    "method.name": "method", "transforms": "transforms", "phi.conditioning": "φ depends on",
    "trainer.max_epochs": "epochs", "data.batch_size": "batch size", "seed": "seed",
}  # fmt: skip
FITTED = {
    "model.name": "model", "backbone.name": "backbone", "data.source": "data",
    "crop.grid": "crops", "transforms": "transforms",
    "views.counts": "views", "phi.objective": "objective", "phi.features": "φ reads",
    "phi.steps": "steps", "seed": "seed",
}  # fmt: skip
KINDS = {"tta": "Learned views", "transfer": "Head and learned views"}
IDLE = {"none": ("transforms", "phi.conditioning"), "random": ("phi.conditioning",)}
OF_MACHINE = (
    "data.root", "data.cache_dir", "threads", "trainer.threads", "trainer.compile",
    "trainer.log_every_n_steps", "trainer.checkpoint_minutes",
)  # fmt: skip
COUNTS = {
    "n_train": "training images",
    "n_fit": "images of the fit",
    "n_test": "test images",
}
MEASURES = {
    "top1": "top-1 accuracy",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
}
METHODS = {"instaaug": "InstaAug", "random": "Random augmentation", "none": "No augmentation"}
NARROW = "\u202f"  # the space before a percent sign, as the page writes it
PARTS: tuple[Part, ...] = ("plain", "augmented")
ALONE = "the image"  # the row of the image without views
UNKNOWN_WORTH = (
    "What depending on the input was worth is not known: there were too few validation images."
)


@dataclass(frozen=True)
class Observations:
    """N inputs, what was learned for each, and the model's outputs for n views of each.

    Arguments:
        pictures: The inputs, small enough for a page, ``(N, h, w, C)``.
        views: The first views of each, as the model sees them, ``(m, N, h, w, C)``.
        factors: θ, part by part: distributions and all n draws.
        plain: Probabilities of the classes, or outputs, for the inputs as they are.
        merged: The same from the first 1, ..., n views, ``(n, N, C)``.
        loss: Of the inputs as they are.
        loss_merged: From all views.
        disagreement: Share of views that vote for another class than all of them together; in a
            regression the standard deviation of their outputs.
        keeps_original: Whether the first view is the input as it is.
        same_views: Whether views are the same boxes, in the same order, for all inputs.
        outlines: The corners of what each view shows, where that is no upright box, ``(n, N, 4,
            2)``.
    """

    pictures: UInt8[Tensor, "inputs h w c"]
    views: UInt8[Tensor, "m inputs hv wv c"]
    factors: tuple[ObservedFactor, ...]
    plain: Float[Tensor, "inputs classes"]
    merged: Float[Tensor, "n inputs classes"]
    loss: Float[Tensor, " inputs"]
    loss_merged: Float[Tensor, " inputs"]
    disagreement: Float[Tensor, " inputs"]
    keeps_original: bool = False
    same_views: bool = False
    outlines: Float[Tensor, "n inputs 4 2"] | None = None


def join_observations(parts: Sequence[Observations]) -> Observations:
    """Observations of several batches as one."""
    first = parts[0]
    return Observations(
        pictures=torch.cat([part.pictures for part in parts]),
        views=torch.cat([part.views for part in parts], dim=1),
        factors=tuple(
            _join_factors([part.factors[i] for part in parts]) for i in range(len(first.factors))
        ),
        plain=torch.cat([part.plain for part in parts]),
        merged=torch.cat([part.merged for part in parts], dim=1),
        loss=torch.cat([part.loss for part in parts]),
        loss_merged=torch.cat([part.loss_merged for part in parts]),
        disagreement=torch.cat([part.disagreement for part in parts]),
        keeps_original=first.keeps_original,
        same_views=first.same_views,
        outlines=None
        if first.outlines is None
        else torch.cat([part.outlines for part in parts if part.outlines is not None], dim=1),
    )


def _join_factors(parts: Sequence[ObservedFactor]) -> ObservedFactor:
    first = parts[0]

    def rows(name: str) -> Tensor | None:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else torch.cat(values)

    return ObservedFactor(
        name=first.name,
        space=first.space,
        theta=torch.cat([part.theta for part in parts], dim=1),
        entropy=rows("entropy"),
        max_entropy=first.max_entropy,
        band=first.band,
        table=first.table,
        probs=rows("probs"),
        low=rows("low"),
        high=rows("high"),
    )


def factors_of(seen: Observations) -> list[Factor]:
    """The parts of θ and what they may be."""
    return [_factor(factor) for factor in seen.factors]


def _factor(factor: ObservedFactor) -> Factor:
    space = factor.space
    ranges = space.parameters if isinstance(space, Interval) else ()
    table = [] if factor.table is None else factor.table.tolist()
    return {
        "name": humanize(factor.name),
        "kind": "ranges" if ranges else "choices" if isinstance(space, Choices) else "boxes",
        "max_entropy": _number(factor.max_entropy) or 0.0,
        "band": None if factor.band is None else [round(end, DIGITS) for end in factor.band],
        "boxes": [] if isinstance(space, Choices) else [_round_all(row) for row in table],
        "choices": choice_names(space) if isinstance(space, Choices) else [],
        "parameters": [_parameter_range(parameter) for parameter in ranges],
    }


def _parameter_range(parameter: Parameter) -> ParameterRange:
    unit = unit_of(parameter)
    scale = unit.scale
    return {
        "name": parameter.name,
        "low": round(parameter.low * scale, DECIMALS),
        "high": round(parameter.high * scale, DECIMALS),
        "identity": round(parameter.identity * scale, DECIMALS),
        "period": None if parameter.period is None else round(parameter.period * scale, DECIMALS),
        "unit": unit.sign,
        "multiplicative": parameter.multiplicative,
    }


def inputs_of(seen: Observations, *, classes: Sequence[str]) -> list[RunInput]:
    """What the run makes of each input; the pictures of its views are added later.

    Arguments:
        seen: The observations.
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
        "probs": [[] if f.probs is None else _in_parts(f.probs[i]) for f in seen.factors],
        "ranges": [_ranges(factor, i) for factor in seen.factors],
        "theta": [[_theta(f, view, i) for f in seen.factors] for view in range(len(merged))],
        "strip": "",
        "classes": shown,
        "merged": [_shown_values(row, shown) for row in merged],
        "plain": _shown_values(plain, shown),
    }
    if seen.outlines is not None:
        found["outlines"] = [_round_all(o.flatten().tolist()) for o in seen.outlines[:, i]]
    return found


def _likeliest(merged: Tensor, plain: Tensor) -> list[int]:
    """The classes to show: the likeliest from all views, from the first, and from the image."""
    total = plain + (merged[-1] + merged[0] if len(merged) else 0)
    last = merged[-1] if len(merged) else plain
    chosen = total.topk(min(N_CLASSES, len(plain))).indices.tolist()
    return sorted(chosen, key=lambda c: -float(last[c]))


def _shown_values(row: Tensor, classes: Sequence[int]) -> list[Any]:
    if classes:
        return _in_parts(row[list(classes)])
    return _round_all(row.tolist(), DIGITS)


def _in_parts(probs: Tensor) -> list[int]:
    """Probabilities as whole parts."""
    return [int(p) for p in (probs * WHOLE).round()]


def _ranges(factor: ObservedFactor, i: int) -> list[list[float]]:
    if factor.low is None or factor.high is None or not isinstance(factor.space, Interval):
        return []
    ends = zip(
        factor.space.parameters, factor.low[i].tolist(), factor.high[i].tolist(), strict=True
    )
    return [_round_all([low * unit_of(p).scale, high * unit_of(p).scale]) for p, low, high in ends]


def _theta(factor: ObservedFactor, view: int, i: int) -> list[float]:
    theta = factor.theta[view, i]
    if isinstance(factor.space, Interval):
        values = zip(factor.space.parameters, theta.tolist(), strict=True)
        return _round_all([value * unit_of(p).scale for p, value in values])
    if isinstance(factor.space, Choices):
        rows = torch.tensor(factor.space.rows)
        return [float((rows - theta).abs().sum(dim=1).argmin())]
    return _round_all(theta.tolist())


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
        found = {humanize(n.removeprefix(start)): curve[n] for n in names if n.startswith(start)}
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
    """The number, rounded; None unless it is finite."""
    if not isinstance(value, int | float) or not isfinite(value):
        return None
    return round(float(value), DIGITS)


def _round_all(values: Sequence[float], places: int = DECIMALS) -> list[float]:
    return [round(value, places) if isfinite(value) else 0.0 for value in values]


def facts_of(record: RunRecord, also: Sequence[str] = ()) -> list[list[str]]:
    """The settings and counts that describe a run, as names and values.

    Arguments:
        record: The run.
        also: Further settings to tell.
    """
    settings = FITTED if record.kind != "train" else TRAINED
    idle = IDLE.get(str(record.config.get("method.name")), ())
    named = [(title, record.config.get(n)) for n, title in settings.items() if n not in idle]
    named += [(n.replace("_", " "), record.config.get(n)) for n in also if n not in settings]
    if record.config.get("crop.grid") == "receptive" and not idle:
        named.append(("crops", f"receptive fields of {record.config['phi.network']}"))
    named += [(title, record.results.get(name)) for name, title in COUNTS.items()]
    return [[title, _describe_value(value)] for title, value in named if value is not None]


def differing_settings(records: Sequence[RunRecord]) -> list[str]:
    """Settings that runs of one kind share but that differ between them.

    Example:
        >>> runs = [RunRecord(Path(), "train", {"seed": 3, "phi.width": w}) for w in (0, 1)]
        >>> differing_settings(runs)
        ['phi.width']
    """
    first = records[0].config
    shared = [name for name in first if all(name in record.config for record in records)]
    return [
        n for n in shared if any(r.config[n] != first[n] for r in records) and n not in OF_MACHINE
    ]


def _describe_value(value: Any) -> str:
    if isinstance(value, str) and Path(value).is_absolute():  # others need not know one's folders
        return Path(value).name
    if isinstance(value, list):
        if value and all(isinstance(level, list) and len(level) == 2 for level in value):
            return ", ".join(f"{n}×{n} of {side:g}" for side, n in value)
        return ", ".join(map(_describe_value, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def score_name(record: RunRecord) -> str:
    """What the scores of a run are."""
    found = accuracy_of(record)
    return MEASURES["top1" if found is None else found.measure]


def headline_of(record: RunRecord, rows: Sequence[ResultRow]) -> str:
    """The result in a sentence, and why it is from the image alone where there are views, too."""
    data = Path(str(record.config.get("data.source", "its data"))).name
    method = str(record.config.get("method.name", "a run"))
    what = KINDS.get(record.kind) or METHODS.get(method, method)
    main = next((row for row in rows if row["is_main"]), None)
    if main is None:
        return f"{what} on {data}."
    share = score_name(record) == MEASURES["top1"]
    value = f"{100 * main['value']:.1f}{NARROW}%" if share else f"{main['value']:.3g}"
    source = "the image alone" if main["name"] == ALONE else main["name"]
    why = _why(record, rows, main)
    return f"{what} on {data}: {score_name(record)} {value} from {source}{why}."


def _why(record: RunRecord, rows: Sequence[ResultRow], main: ResultRow) -> str:
    """What decided between the image alone and views, where there was a choice."""
    advised = advised_views(record)
    if len(rows) < 2 or (main["name"] == ALONE and advised != 1):
        return ""
    if advised is None:
        return ", which no validation images have judged"
    if not validation_of(record):
        return ": there were too few validation images to say whether views help"
    judge = "validation images" if record.kind == "train" else "cross-validation"
    if main["name"] == ALONE:
        return f": {judge} found no gain in views"
    return f", as {judge} advised"


def notes_of(record: RunRecord) -> list[str]:
    """Sentences on what validation images said, and on what augmentation did to the model.

    Example:
        >>> results = {"validation": {"verdict": "Use 4 views.", "dependence": None}}
        >>> notes_of(RunRecord(Path("run"), "train", {}, results))
        ['Use 4 views.']
    """
    validation = validation_of(record)
    found = record.results.get("diagnostics")
    words = found.get("words") if isinstance(found, Mapping) else None
    tried = record.results.get("tried")
    said = [worth_of_dependence(record), validation.get("verdict")]
    said += [tried.get("words")] if isinstance(tried, Mapping) else []
    said += [record.results.get("mixing")]
    said += words if isinstance(words, list) else []
    return [sentence for sentence in said if sentence and isinstance(sentence, str)]


def worth_of_dependence(record: RunRecord) -> str | None:
    """What depending on the input was worth, in points of accuracy; None if nothing reads it.

    Example:
        >>> gain = {"difference": 0.012, "low": -0.003, "high": 0.027}
        >>> told = {"dependence": 0.5, "worth": {"4": gain}, "n_images": 200}
        >>> worth_of_dependence(RunRecord(Path("run"), "train", {}, {"validation": told}))
        'Depending on the input was worth +1.2 points of accuracy with 4 views (95 % interval −0.3
        to +2.7), against the same views for all, judged by 200 validation images.'
    """
    validation = validation_of(record)
    if not validation:
        reads = record.config.get("phi.conditioning") == "input" and advised_views(record) == 1
        return UNKNOWN_WORTH if reads and record.config.get("method.name") == "instaaug" else None
    dependence, worth = validation.get("dependence"), validation.get("worth")
    if dependence == 0:
        undone = bool(record.config.get("phi.undo"))
        shared = "ranges, around what is undone," if undone else "distribution"
        return (
            "Depending on the input was worth nothing that can be told from noise: all inputs "
            f"share the same {shared} at test time."
        )
    if not isinstance(dependence, int | float) or not isinstance(worth, Mapping):
        return None
    gains = {str(n): _gain(gain) for n, gain in worth.items()}
    known = {n: gain for n, gain in gains.items() if gain is not None}
    if not known:
        return None
    n, (difference, low, high) = max(known.items(), key=lambda item: item[1][0])
    what = "validation images" if record.kind == "train" else "images that were left out"
    return (
        f"Depending on the input was worth {_points(difference)} points of accuracy with {n} views"
        f" (95 % interval {_points(low)} to {_points(high)}), against the same views for all, "
        f"judged by {validation.get('n_images', 'the')} {what}."
    )


def _gain(gain: object) -> tuple[float, float, float] | None:
    if not isinstance(gain, Mapping):
        return None
    difference, low, high = (_number(gain.get(name)) for name in ("difference", "low", "high"))
    if difference is None or low is None or high is None:
        return None
    return difference, low, high


def _points(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "\u2212")


def result_rows(record: RunRecord) -> list[ResultRow]:
    """Every score that the run's files hold, the one that counts marked.

    Of a fit, these are the rows of ``instaaug tta eval`` if that was run. What counts is what
    ``instaaug predict`` does: views only where they were found to help.
    """
    if record.kind == "train":
        found, main = [accuracy_of(record, part) for part in PARTS], accuracy_of(record)
        return [_result_row(score, is_main=score == main) for score in found if score]
    if rows := _scored_rows(record.scores):
        return list(_comparison_rows(record, rows))
    rows = _scored_rows(record.results)
    main_row = _main_row(record, rows)
    return [_fit_row(row, str(row["name"]), is_main=row is main_row) for row in rows]


def _main_row(record: RunRecord, rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The row of what the fit advises: a larger image, a number of views, or the image alone."""
    whole, advised = validation_of(record).get("whole"), advised_views(record)
    larger = [row for row in rows if whole and row["name"] == f"the image at {whole} px"]
    same = [row for row in rows if row["views"] == advised]
    most = [row for row in rows if row["views"] == max(other["views"] for other in rows)]
    return next(iter([*larger, *same, *most]), None)


def _scored_rows(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows with an accuracy; a fit that held no image out has none."""
    return [row for row in content.get("rows", []) if "accuracy" in row]


def _result_row(score: Score, *, is_main: bool) -> ResultRow:
    low, high = score.interval or (None, None)
    return {
        "name": ALONE if score.n_samples is None else _views(score.n_samples),
        "value": score.value,
        "low": low,
        "high": high,
        "is_main": is_main,
        "note": "",
    }


def _comparison_rows(record: RunRecord, rows: Sequence[dict[str, Any]]) -> Iterator[ResultRow]:
    """A row per result, learned views with their test; the main row is that of advised views.

    If none are advised in particular it is that of the most.
    """
    comparisons = record.scores.get("comparisons", [])
    found = {(c["name"], c["views"]): c for c in comparisons}
    learned = [row for row in rows if (row["name"], row["views"]) in found]
    alone = [row for row in rows if row["name"] == "the image alone"]
    main = _main_row(record, learned)
    if advised_views(record) == 1 and alone:
        main = alone[0]
    for row in rows:
        rival = found.get((row["name"], row["views"]))
        note = ""
        if rival is not None:
            points = 100 * rival["difference"]
            note = f"{points:+.1f} points against {rival['best']}, p = {rival['p_value']:.2g}"
        name = ALONE if row in alone else f"{row['name']}, {_views(row['views'])}"
        yield _fit_row(row, name, is_main=row is main, note=note)


def _views(n: float | int) -> str:
    return f"{n:g} view{'' if n == 1 else 's'}"


def _fit_row(row: Mapping[str, Any], name: str, *, is_main: bool, note: str = "") -> ResultRow:
    return {
        "name": name,
        "value": float(row["accuracy"]),
        "low": row.get("low"),
        "high": row.get("high"),
        "is_main": is_main,
        "note": note,
    }


def short_names(paths: Sequence[str | Path]) -> list[str]:
    """The last part of each path; where these are the same, as much as tells them apart.

    Example:
        >>> short_names(["runs/a/learned", "runs/b/learned", "runs/b/none"])
        ['a/learned', 'b/learned', 'none']
    """
    parts = [Path(path).resolve().parts for path in paths]
    names = []
    for own in parts:
        length = 1
        while length < len(own) and sum(other[-length:] == own[-length:] for other in parts) > 1:
            length += 1
        names.append("/".join(own[-length:]))
    return names


def without_common_folder(names: Sequence[str]) -> list[str]:
    """Names of files without the folder that they have in common; others as they are.

    Example:
        >>> without_common_folder(["/home/me/pets/cat/1.jpg", "/home/me/pets/dog/1.jpg"])
        ['cat/1.jpg', 'dog/1.jpg']
        >>> without_common_folder(["image 3", "image 7"])
        ['image 3', 'image 7']
    """
    folders = [Path(name).parent.parts for name in names]
    shared = 0
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        shared += 1
    return [str(Path(*Path(name).parts[shared:])) if shared else name for name in names]
