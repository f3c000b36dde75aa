"""What was trained, on what, and how good it is: the head of the page, from what is on disk."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from instaaug.report.page.content import ResultRow
from instaaug.report.records import Part, RunRecord, Score, accuracy_of

__all__ = [
    "PARTS",
    "differing_settings",
    "facts_of",
    "headline_of",
    "result_rows",
    "score_name",
    "short_names",
    "without_common_folder",
]

TRAINED = {
    "data.source": "data", "task": "task", "model.name": "model", "model.width": "width",
    "method.name": "method", "transforms": "transforms", "phi.conditioning": "φ depends on",
    "trainer.max_epochs": "epochs", "data.batch_size": "batch size", "seed": "seed",
}  # fmt: skip
FITTED = {
    "model.name": "model", "data.source": "data", "crop.grid": "crops", "transforms": "transforms",
    "views.counts": "views", "phi.objective": "objective", "phi.features": "φ reads",
    "phi.steps": "steps", "seed": "seed",
}  # fmt: skip
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


def facts_of(record: RunRecord, also: Sequence[str] = ()) -> list[list[str]]:
    """Names and values of what one wants to know of a run.

    Arguments:
        record: The run.
        also: Further settings to tell.
    """
    settings = FITTED if record.kind == "tta" else TRAINED
    idle = IDLE.get(str(record.config.get("method.name")), ())
    named = [(title, record.config.get(n)) for n, title in settings.items() if n not in idle]
    named += [(n.replace("_", " "), record.config.get(n)) for n in also if n not in settings]
    named += [(title, record.results.get(name)) for name, title in COUNTS.items()]
    return [[title, _words(value)] for title, value in named if value is not None]


def differing_settings(records: Sequence[RunRecord]) -> list[str]:
    """Settings that runs of one kind have in common but do not agree in.

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


def _words(value: Any) -> str:
    if isinstance(value, str) and Path(value).is_absolute():  # others need not know one's folders
        return Path(value).name
    if isinstance(value, list):
        if value and all(isinstance(level, list) and len(level) == 2 for level in value):
            return ", ".join(f"{n}×{n} of {side:g}" for side, n in value)
        return ", ".join(map(_words, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def score_name(record: RunRecord) -> str:
    """What the scores of a run are."""
    found = accuracy_of(record)
    return MEASURES["top1" if found is None else found.measure]


def headline_of(record: RunRecord, rows: Sequence[ResultRow]) -> str:
    """The result in a sentence."""
    data = Path(str(record.config.get("data.source", "its data"))).name
    method = str(record.config.get("method.name", "a run"))
    what = "Learned views" if record.kind == "tta" else METHODS.get(method, method)
    main = next((row for row in rows if row["is_main"]), None)
    if main is None:
        return f"{what} on {data}."
    share = score_name(record) == MEASURES["top1"]
    value = f"{100 * main['value']:.1f}{NARROW}%" if share else f"{main['value']:.3g}"
    return f"{what} on {data}: {score_name(record)} {value} from {main['name']}."


def result_rows(record: RunRecord) -> list[ResultRow]:
    """Every score that the run's files hold, the one that counts marked.

    Of a fit, these are the rows of ``instaaug tta eval`` if that was run.
    """
    if record.kind == "tta":
        if rows := _scored(record.scores):
            return list(_compared_rows(rows, record.scores.get("comparisons", [])))
        rows = _scored(record.results)
        most = max((row["views"] for row in rows), default=None)
        return [_told(row, str(row["name"]), is_main=row["views"] == most) for row in rows]
    found = [accuracy_of(record, part) for part in PARTS]
    return [_row(score, is_main=score == found[-1] or not found[-1]) for score in found if score]


def _scored(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows with an accuracy; a fit that held no image out has none."""
    return [row for row in content.get("rows", []) if "accuracy" in row]


def _row(score: Score, *, is_main: bool) -> ResultRow:
    low, high = score.interval or (None, None)
    return {
        "name": "the image" if score.n_samples is None else _views(score.n_samples),
        "value": score.value,
        "low": low,
        "high": high,
        "is_main": is_main,
        "note": "",
    }


def _compared_rows(rows: Sequence[Any], comparisons: Sequence[Any]) -> Iterator[ResultRow]:
    """Learned views with their test; what counts is the most of them, not the best."""
    found = {(c["name"], c["views"]): c for c in comparisons}
    learned = [row for row in rows if (row["name"], row["views"]) in found]
    main = max(learned, key=lambda row: row["views"], default=None)
    for row in rows:
        rival = found.get((row["name"], row["views"]))
        note = ""
        if rival is not None:
            points = 100 * rival["difference"]
            note = f"{points:+.1f} points against {rival['best']}, p = {rival['p_value']:.2g}"
        yield _told(row, f"{row['name']}, {_views(row['views'])}", is_main=row is main, note=note)


def _views(n: float | int) -> str:
    return f"{n:g} view{'' if n == 1 else 's'}"


def _told(row: Mapping[str, Any], name: str, *, is_main: bool, note: str = "") -> ResultRow:
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
