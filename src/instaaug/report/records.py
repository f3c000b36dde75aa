"""What the folder of a run says, finished or not, read without torch or Lightning."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from reprlib import repr  # noqa: A004  # a hostile file may hold a value of any length
from sys import float_info
from typing import Any, Literal, TypeGuard

from instaaug.errors import DataError
from instaaug.safe_files import read_config, read_csv, read_json
from instaaug.stats import wilson_interval

__all__ = [
    "Kind",
    "Part",
    "RunRecord",
    "Score",
    "accuracy_of",
    "advised_views",
    "describe_learned",
    "read_record",
    "validation_of",
]

Kind = Literal["train", "tta", "transfer"]
Part = Literal["plain", "augmented"]
MOST_IMAGES = 2**53  # of which a float can hold every number
LEARNED_WORDS = {
    "mutual_information": "{:.2f} nats tell images apart",
    "loss_correlation": "correlation with the loss within an image {:.2f}",
    "own_loss_correlation": "{:.2f} without what all images share",
}


@dataclass(frozen=True)
class RunRecord:
    """A run as its folder shows it.

    Arguments:
        path: The folder.
        kind: ``"train"`` of ``instaaug train``, ``"tta"`` of ``instaaug tta fit``,
            ``"transfer"`` of ``instaaug transfer``.
        config: Every setting by its full name, such as ``crop.grid``.
        results: What came out; empty if the run has not finished.
        history: A row per epoch: by column, what is known.
        scores: Of ``instaaug tta eval``; empty if it was not run.
        bands: By factor, its entropy band in nats; empty if the results do not tell.
    """

    path: Path
    kind: Kind
    config: dict[str, Any]
    results: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    scores: dict[str, Any] = field(default_factory=dict)
    bands: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the folder, with what is no text made visible."""
        return self.path.name.encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class Score:
    """How good a run is on its test images.

    Arguments:
        measure: ``"top1"``, a share, or ``"rmse"`` or ``"mae"``.
        value: The score.
        n: Test images.
        interval: Wilson's 95 % interval of a share; None for an error.
        n_samples: Samples, or views, per image in test-time augmentation; None without it.
    """

    measure: Literal["top1", "rmse", "mae"]
    value: float
    n: int
    interval: tuple[float, float] | None = None
    n_samples: int | None = None


def read_record(path: str | Path) -> RunRecord:
    """Read the folder of a run.

    Only ``config.yaml`` must be there; the other files come as the run goes on.

    Arguments:
        path: The folder.

    Raises:
        FileNotFoundError: If it holds no run.
        DataError: If a file is not as a run writes it.
    """
    folder = Path(path).resolve()
    config = _read_config(folder)
    kind = _kind(folder, config)
    results, scores = (_json_if_any(folder / name) for name in ("results.json", "eval.json"))
    _check_rows(folder / "eval.json", scores)
    metrics = folder / "metrics.csv"
    return RunRecord(
        path=folder,
        kind=kind,
        config=config,
        results=results,
        history=read_csv(metrics) if metrics.exists() else [],
        scores=scores,
        bands=_bands(folder, results),
    )


def _read_config(folder: Path) -> dict[str, Any]:
    if not (folder / "config.yaml").exists():
        raise FileNotFoundError(
            f"There is no run in {str(folder)!r}: it has no config.yaml. `instaaug train`, "
            "`instaaug tta fit` and `instaaug transfer` make one."
        )
    config: dict[str, Any] = {}
    for name, value in read_config(folder / "config.yaml").items():
        if isinstance(value, dict):
            config |= {f"{name}.{key}": part for key, part in value.items()}
        else:
            config[name] = value
    return config


def accuracy_of(record: RunRecord, part: Part | None = None) -> Score | None:
    """The main score of a run: top-1 accuracy, or the error that a regression minimized.

    Arguments:
        record: The run.
        part: Without or with test-time augmentation; if absent, with it where there is one, unless
            validation images did not say that it helps.

    Returns:
        None if the run has not finished, or has no such part.

    Raises:
        DataError: If the results are not those of a run, or not finite.

    Example:
        >>> results = {"test": {"plain": {"top1": 0.8, "n": 10}}}
        >>> score = accuracy_of(RunRecord(Path("run"), "train", {}, results))
        >>> score.value, [round(end, 2) for end in score.interval]
        (0.8, [0.49, 0.94])
    """
    parts = _trained_parts(record) if record.kind == "train" else _fitted_parts(record)
    numbers = parts.get(part or _main_part(record, parts))
    if numbers is None:
        return None
    measure: Any = next((name for name in ("top1", "rmse", "mae") if name in numbers), None)
    if (
        measure == "rmse"
        and record.config.get("loss.regression") == "absolute"
        and "mae" in numbers
    ):
        measure = "mae"
    value, n = _number(record, numbers, measure), _number(record, numbers, "n")
    if not 1 <= n <= MOST_IMAGES or n % 1 or value < 0:
        raise _unlike(record.path, f"its {measure} is {value} of {n} images")
    samples = numbers.get("n_samples")
    n_samples = None if samples is None else int(_number(record, numbers, "n_samples"))
    if measure != "top1":
        return Score(measure, value, int(n), None, n_samples)
    if value > 1:
        raise _unlike(record.path, f"its top1 is {value}, which is no share")
    return Score(measure, value, int(n), wilson_interval(round(value * n), int(n)), n_samples)


def validation_of(record: RunRecord) -> dict[str, Any]:
    """What images that nothing was learned from say on views; empty if they were not asked."""
    if record.kind != "transfer":
        return _within(record.path, record.results, "validation")
    return _within(record.path, _within(record.path, record.results, "transfer"), "views")


def advised_views(record: RunRecord) -> int | None:
    """How many views to use, of which 1 is the image alone; None if nobody was asked.

    A classification that had validation images, but too few to tell anything, is advised to use
    the image alone.

    Example:
        >>> results = {"validation": {"n_views": 4}}
        >>> advised_views(RunRecord(Path("run"), "train", {}, results))
        4
    """
    advised = validation_of(record).get("n_views")
    if _is_finite(advised) and advised >= 1:
        return int(advised)
    asked = record.kind == "train" and record.config.get("task") == "classification"
    share = record.config.get("data.validation_fraction")
    return 1 if asked and "validation" in record.results and share else None


def _main_part(record: RunRecord, parts: dict[str, dict[str, Any]]) -> Part:
    """The part whose score a run would be used with."""
    return "augmented" if "augmented" in parts and advised_views(record) != 1 else "plain"


def _kind(folder: Path, config: dict[str, Any]) -> Kind:
    kind = config.get("kind")
    if kind not in ("train", "tta", "transfer"):
        raise DataError(
            f"{str(folder / 'config.yaml')!r} must have the kind train, tta or transfer: got "
            f"{repr(kind)}. Name the folder of a run."
        )
    return kind


def _json_if_any(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def _check_rows(file: Path, scores: dict[str, Any]) -> None:
    """Raise unless every row and comparison has the names and numbers that are read from it."""
    needed = {
        "rows": ("views", "accuracy"),
        "comparisons": ("views", "difference", "p_value"),
    }
    for part, numbers in needed.items():
        rows = scores.get(part, [])
        if not isinstance(rows, list) or not all(_is_row(row, numbers) for row in rows):
            raise DataError(
                f"{str(file)!r} must be as `instaaug tta eval` wrote it: its {part} are not. Run "
                "that again, or remove the file."
            )


def _is_row(row: Any, numbers: tuple[str, ...]) -> bool:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        return False
    return all(_is_finite(row.get(name)) for name in numbers)


def _bands(folder: Path, results: dict[str, Any]) -> dict[str, tuple[float, float]]:
    learned = _within(folder, _within(folder, results, "test"), "learned")
    found = {}
    for factor in learned:
        band = _within(folder, learned, factor).get("band")
        if band is None:
            continue
        if (
            not isinstance(band, list)
            or len(band) != 2
            or not all(map(_is_finite, band))
            or not band[0] <= band[1]
        ):
            raise _unlike(folder, f"the band of {factor!r} is no finite [low, high]")
        found[factor] = (float(band[0]), float(band[1]))
    return found


def describe_learned(records: Sequence[RunRecord]) -> str:
    """How much of what runs of one method draw depends on the image, and how well it is chosen.

    Numbers are means over the runs; runs that tell none have no words.

    Example:
        >>> learned = {"crop": {"mutual_information": 0.1, "loss_correlation": 0.25}}
        >>> run = RunRecord(Path("run"), "train", {}, {"test": {"learned": learned}})
        >>> describe_learned([run])
        'crop: 0.10 nats tell images apart, correlation with the loss within an image 0.25'
    """
    told = [_within(r.path, _within(r.path, r.results, "test"), "learned") for r in records]
    sentences = []
    for factor in dict.fromkeys(name for learned in told for name in learned):
        parts = []
        for name, words in LEARNED_WORDS.items():
            values: list[Any] = [_within(Path(), t, factor).get(name) for t in told if factor in t]
            if values and all(map(_is_finite, values)):
                parts.append(words.format(sum(values) / len(values)))
        if parts:
            sentences.append(f"{factor}: {', '.join(parts)}")
    return "; ".join(sentences)


def _trained_parts(record: RunRecord) -> dict[str, dict[str, Any]]:
    test = _within(record.path, record.results, "test")
    names = [name for name in ("plain", "augmented") if name in test]
    return {name: _within(record.path, test, name) for name in names}


def _fitted_parts(record: RunRecord) -> dict[str, dict[str, Any]]:
    """The row of one view, and that of the views that are advised, or of the most.

    None if no image was held out.
    """
    rows = record.results.get("rows", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _unlike(record.path, "its rows are no list of rows")
    scored = [row for row in rows if "accuracy" in row]
    for row in scored:
        _number(record, row, "views")
    scored.sort(key=lambda row: row["views"])
    parts = {}
    if scored and scored[0]["views"] == 1:
        parts["plain"] = {"top1": scored[0]["accuracy"], "n": scored[0].get("n")}
    if scored and scored[-1]["views"] > 1:
        advised = advised_views(record)
        last = next((row for row in scored if 1 < row["views"] == advised), scored[-1])
        parts["augmented"] = {
            "top1": last["accuracy"],
            "n": last.get("n"),
            "n_samples": last["views"],
        }
    return parts


def _within(folder: Path, content: dict[str, Any], name: str) -> dict[str, Any]:
    """A mapping inside of another; an empty one if there is none."""
    inner = content.get(name)
    if inner is None:
        return {}
    if not isinstance(inner, dict):
        raise _unlike(folder, f"its {name!r} is no mapping")
    return inner


def _number(record: RunRecord, numbers: dict[str, Any], name: str | None) -> float:
    value = None if name is None else numbers.get(name)
    if not _is_finite(value):
        raise _unlike(record.path, f"its {name or 'score'} is {repr(value)}, no finite number")
    return float(value)


def _is_finite(value: Any) -> TypeGuard[float | int]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= float_info.max


def _unlike(folder: Path, what: str) -> DataError:
    return DataError(
        f"{str(folder / 'results.json')!r} must be as the run wrote it: {what}. Restore it, or "
        "run again."
    )
