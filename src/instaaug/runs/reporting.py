"""Report on runs: one page to explore, and figures."""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from instaaug import __version__
from instaaug.augmentation import InstaAug
from instaaug.augmentation.observed import Observed
from instaaug.data import LabeledImages
from instaaug.data.cache import OnProgress
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.errors import ArgumentError, DataError
from instaaug.files import lock_folder, remove_unfinished, write_text
from instaaug.report.page.build import TINY, best_encoding, data_uris, page_html, side_by_side
from instaaug.report.page.content import PageContent, PageFigure, PageInput, PageRun
from instaaug.report.page.diagnosis import diagnose
from instaaug.report.page.runs import (
    PARTS,
    Observations,
    class_entropies,
    curves_of,
    differing_settings,
    factors_of,
    facts_of,
    headline_of,
    inputs_of,
    notes_of,
    result_rows,
    score_name,
    short_names,
    without_common_folder,
)
from instaaug.report.pictures.colors import draw_colors
from instaaug.report.pictures.crops import draw_crop_comparison
from instaaug.report.pictures.inputs import draw_inputs
from instaaug.report.records import RunRecord, accuracy_of, read_record
from instaaug.report.run_figures import NamedFigure, comparison_figures, run_figures
from instaaug.report.theme import MissingPlottingError, save_figure
from instaaug.runs.loaded import LoadedRun, load_run
from instaaug.runs.observing import PICTURE, find_shared_inputs, observe_images, observe_run
from instaaug.runs.source_pictures import larger_pictures
from instaaug.safe_files import read_json
from instaaug.stats import mcnemar_test

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Report",
    "ReportedRun",
    "draw_comparisons",
    "draw_figures",
    "embed_figures",
    "page_content",
    "remove_figures",
    "write_figures",
    "write_report",
]


BASELINES = ("none", "random")
MAX_COUNTS = {"n_inputs": 5000, "n_views": 500}  # more than anyone would look at

MOST_BYTES = 14.5e6  # of the whole page
LEAST_FOR_PICTURES = 2e6  # bytes, whatever the rest takes
MOST_FOR_INPUTS = 6e6
SCRIPT_BYTES = 0.2e6
N_STRIP = 8

N_SHOWN = 6
N_SAMPLES = 8
N_DRAWN = 200  # crops of a method without probabilities, to show how they are distributed
MOST_METHODS = 3
DPI = 130  # photos need no more
MAX_NAME_LENGTH = 60  # of a run, in the names of its figures' files
UNSAFE = re.compile(r"[^\w-]+")  # in the name of a file
COLOR = "hsv_jitter"
EMBEDDED = ("leaderboard", "weight_sweep", "band_sweep", "shift_scatter", "cost_curve")
"""Figures that the page shows as images; it draws the others itself."""
FIGURES = (
    *EMBEDDED, "training_curves", "inputs", "colors", "crop_comparison",
    "color_comparison",
)  # fmt: skip


@dataclass(frozen=True)
class ReportedRun:
    """A run in a report: a column of the page.

    Arguments:
        name: Short, and unlike that of any other run in the report.
        run: Its model and augmenter.
        record: Its files.
        images: The inputs of the report as the run takes them.
        observations: What its augmenter and its model make of them.
    """

    name: str
    run: LoadedRun
    record: RunRecord
    images: LabeledImages
    observations: Observations


def page_content(columns: Sequence[ReportedRun], *, n_test: int) -> PageContent:
    """Fill the page.

    Arguments:
        columns: The runs.
        n_test: Test images that the inputs were taken from.
    """
    first = columns[0]
    height, width = first.observations.pictures.shape[1:3]
    differing = differing_settings([column.record for column in columns])
    content: PageContent = {
        "title": " · ".join(column.name for column in columns),
        "made": f"InstaAug {__version__}, {datetime.now(UTC):%d %B %Y}",
        "task": "classification" if first.run.classes else "regression",
        "classes": list(first.run.classes),
        "inputs": _inputs(first),
        "aspect": round(width / height, 4),
        "n_test": n_test,
        "runs": [_run(column, differing) for column in columns],
    }
    _add_paired_tests(content["runs"], columns)
    _add_pictures(content, columns)
    return content


def _inputs(column: ReportedRun) -> list[PageInput]:
    names = without_common_folder([column.images.name(i) for i in range(len(column.images))])
    return [
        {"name": name, "target": _target(column.images, i), "image": ""}
        for i, name in enumerate(names)
    ]


def _add_pictures(content: PageContent, columns: Sequence[ReportedRun]) -> None:
    """Add all pictures, in the best quality that there is room for, and say how large they are."""
    rest = len(json.dumps(content)) + SCRIPT_BYTES
    room = max(MOST_BYTES - rest, LEAST_FOR_PICTURES)
    strips = [side_by_side(column.observations.views) for column in columns]
    encoding = best_encoding(strips, room / 2)
    for run, strip in zip(content["runs"], strips, strict=True):
        if run["n_strip"]:
            for seen, uri in zip(run["inputs"], data_uris(strip, encoding), strict=True):
                seen["strip"] = uri
                room -= len(uri)
    first = columns[0]
    pictures = larger_pictures(first.images, first.observations.pictures, most=PICTURE)
    encoding = best_encoding([pictures], min(room, MOST_FOR_INPUTS))
    for one, uri in zip(content["inputs"], data_uris(pictures, encoding), strict=True):
        one["image"] = uri
        room -= len(uri)
    side = round(encoding.scale * max(max(picture.shape[:2]) for picture in pictures))
    content["is_tiny"] = side <= TINY
    content["pictures"] = (
        f"Pictures have up to {side} pixels a side here, {first.run.size} for the run; the page "
        f"takes about {max(MOST_BYTES - room, 1e5) / 1e6:.1f} MB."
    )


def _target(images: LabeledImages, i: int) -> int | list[float]:
    if images.classes:
        return int(images.targets[i])
    return [round(float(value), 6) for value in images.targets[i].reshape(-1)]


def _run(column: ReportedRun, differing: Sequence[str]) -> PageRun:
    record, seen, classes = column.record, column.observations, column.run.classes
    aug = column.run.augmenter
    rows = result_rows(record)
    return {
        "name": column.name,
        "headline": headline_of(record, rows),
        "facts": facts_of(record, also=differing),
        "command": _command(record),
        "score_name": score_name(record),
        "higher_is_better": bool(classes),
        "is_share": bool(classes),
        "results": rows,
        "notes": notes_of(record),
        "warnings": diagnose(
            seen.factors,
            history=record.history,
            scores=_scores(record),
            reads_input=isinstance(aug, InstaAug) and aug.settings.conditioning == "input",
            is_fit=record.kind != "train",
        ),
        "curves": curves_of(record.history),
        "factors": factors_of(seen),
        "class_entropy": class_entropies(seen, column.images.targets, classes),
        "n_strip": len(seen.views),
        "n_views": len(seen.merged),
        "keeps_original": seen.keeps_original,
        "same_views": seen.same_views,
        "inputs": inputs_of(seen, classes=classes),
    }


def _add_paired_tests(runs: Sequence[PageRun], columns: Sequence[ReportedRun]) -> None:
    """Say of every run whether it beats the best baseline on the inputs of the page."""
    if len(columns) < 2 or not columns[0].run.classes:
        return
    correct = [_correct(column) for column in columns]
    baselines = [
        i for i, c in enumerate(columns) if c.record.config.get("method.name") in BASELINES
    ]
    best = max(baselines or [0], key=lambda i: int(correct[i].sum()))
    for i, run in enumerate(runs):
        main = [row for row in run["results"] if row["is_main"] and not row["note"]]
        if i == best or not main:
            continue
        found = mcnemar_test(correct[i], correct[best])
        main[0]["note"] = (
            f"of the {found.n:,} inputs here, {found.only_first} are right only with this run, "
            f"{found.only_second} only with {runs[best]['name']}; p = {found.p_value:.2g}"
        )


def _scores(record: RunRecord) -> dict[str, dict[str, float]]:
    """The scores of a run of any kind, in the form of those of training."""
    found = {part: accuracy_of(record, part) for part in PARTS}
    return {
        part: {score.measure: score.value, "n": score.n, "n_samples": score.n_samples or 0}
        for part, score in found.items()
        if score is not None
    }


def _correct(column: ReportedRun) -> Tensor:
    """Which inputs the run gets right, from the number of views of its result, or from all."""
    seen = column.observations
    score = accuracy_of(column.record)
    n = min(len(seen.merged), (score and score.n_samples) or 0)
    last = seen.merged[n - 1] if n else seen.plain
    return last.argmax(dim=1) == column.images.targets


def _command(record: RunRecord) -> str:
    file = record.path / "environment.json"
    return str(read_json(file).get("command", "")) if file.is_file() else ""


def draw_figures(column: ReportedRun) -> list[NamedFigure]:
    """Figures of one run."""
    bands = {f.name: f.band for f in column.observations.factors if f.band is not None}
    return [*run_figures(column.record, bands), *_input_figures(column)]


def draw_comparisons(columns: Sequence[ReportedRun]) -> list[NamedFigure]:
    """Figures of several runs together."""
    charts = comparison_figures([column.record for column in columns])
    return [*charts, *_comparison_figures(columns)]


def _input_figures(column: ReportedRun) -> Iterator[NamedFigure]:
    """Some inputs, from the least to the most diverse distribution."""
    if not len(column.observations.views):
        return
    chosen = _choose_inputs(column)
    seen = _observe(column, chosen, N_SAMPLES)
    yield NamedFigure(
        "inputs",
        "Inputs",
        "Inputs with their distributions and samples, from the least diverse to the most.",
        draw_inputs(seen, titles=_titles(column, chosen)),
    )
    if COLOR in _factors(column):
        colors = draw_colors({column.name: seen}, titles=_titles(column, chosen))
        yield NamedFigure("colors", "Colors", "Where the colors of each input may go.", colors)


def _comparison_figures(columns: Sequence[ReportedRun]) -> Iterator[NamedFigure]:
    """What several methods make of the same inputs."""
    kinds: tuple[tuple[str, str, str, str, Callable[..., Figure]], ...] = (
        ("crop", "crop_comparison", "Crops", "Crops, their centers and their sizes.",
         draw_crop_comparison),
        (COLOR, "color_comparison", "Colors", "Where colors may go.", draw_colors),
    )  # fmt: skip
    chosen, titles = _choose_inputs(columns[0]), _titles(columns[0], _choose_inputs(columns[0]))
    for factor, file, title, words, draw in kinds:
        able = [column for column in columns if factor in _factors(column)][:MOST_METHODS]
        if len(able) < 2:
            continue
        groups: Mapping[str, Observed] = {
            column.name: _observe(column, chosen, N_DRAWN) for column in able
        }
        with suppress(ArgumentError):  # they see the inputs at different sizes
            yield NamedFigure(file, title, words, draw(groups, titles=titles))


def _factors(column: ReportedRun) -> list[str]:
    return [factor.name for factor in column.observations.factors]


def _choose_inputs(column: ReportedRun) -> list[int]:
    """Inputs from the least to the most diverse distribution, evenly spaced."""
    order = list(range(len(column.images)))
    entropies = [f.entropy for f in column.observations.factors if f.entropy is not None]
    if entropies:
        total = entropies[0]
        for entropy in entropies[1:]:
            total = total + entropy
        order = total.argsort().tolist()
    return [order[i] for i in evenly_spaced_indices(len(order), N_SHOWN)]


def _titles(column: ReportedRun, chosen: Sequence[int]) -> list[str]:
    images = column.images
    if not images.classes:
        return [images.name(i) for i in chosen]
    return [images.classes[int(images.targets[i])] for i in chosen]


def _observe(column: ReportedRun, chosen: Sequence[int], n_samples: int) -> Observed:
    pixels, targets = column.images.__getitems__(chosen)
    return observe_images(column.run, pixels, n_samples, n_rendered=N_SAMPLES, targets=targets)


def write_figures(folder: Path, figures: Sequence[NamedFigure], *, prefix: str = "") -> list[Path]:
    """Write every figure twice, as PNG and as SVG."""
    files = []
    for one in figures:
        for ending in ("png", "svg"):
            files.append(folder / f"{prefix}{one.file}.{ending}")
            save_figure(one.drawing, files[-1], dpi=DPI)
    return files


def remove_figures(folder: Path) -> None:
    """Remove the figures of an earlier report, which may be of other runs or unfinished."""
    for file in folder.glob("*.*"):
        if file.suffix in (".png", ".svg") and file.stem.rsplit(".", 1)[-1] in FIGURES:
            file.unlink()
    remove_unfinished(folder)


def embed_figures(figures: Sequence[NamedFigure], files: Sequence[Path]) -> list[PageFigure]:
    """The figures that the page cannot draw itself, as data URIs."""
    drawn = {file.stem.rsplit(".", 1)[-1]: file for file in files if file.suffix == ".svg"}
    return [
        {
            "title": one.title,
            "image": f"data:image/svg+xml;base64,{_base64(drawn[one.file])}",
            "words": one.words,
        }
        for one in figures
        if one.file in EMBEDDED
    ]


def _base64(file: Path) -> str:
    return b64encode(file.read_bytes()).decode("ascii")


@dataclass(frozen=True)
class Report:
    """What was written.

    Arguments:
        page: The page.
        figures: Files of figures beside it; none without matplotlib.
        n_inputs: Inputs on the page.
        warnings: What looks wrong, with the name of its run.
    """

    page: Path
    figures: list[Path]
    n_inputs: int
    warnings: list[tuple[str, str]]


def write_report(
    paths: Sequence[str | Path],
    out: str | Path | None = None,
    *,
    n_inputs: int = 200,
    n_views: int | None = None,
    on_decode: OnProgress | None = None,
    on_progress: OnProgress | None = None,
) -> Report:
    """Run every run on test images; write a page on the results, and figures beside it.

    Arguments:
        paths: Folders of finished runs, each a column of the page.
        out: The folder of the report; ``report`` in the run's own folder by default, or ``report``
            here if there are several.
        n_inputs: Most test images to show.
        n_views: Views of each that the model is run on; by default the most that the result
            of any of the runs is from.
        on_decode: Called with the number of files decoded and of all files.
        on_progress: Called with the number of images done, over all runs, and of all.
    """
    _check_arguments(paths, n_inputs=n_inputs, n_views=1 if n_views is None else n_views)
    own = Path(paths[0]) / "report" if len(paths) == 1 else Path("report")
    folder = own if out is None else Path(out)
    loaded = [load_run(path) for path in paths]
    records = [read_record(path) for path in paths]
    n_views = n_views or max(run.test_views for run in loaded)
    images, n_test = find_shared_inputs(loaded, n_inputs, on_decode)
    columns = []
    for i, name in enumerate(short_names(paths)):
        progress = _count_over_runs(on_progress, i, len(loaded))
        observations = observe_run(
            loaded[i], images[i], n_views=n_views, n_shown=N_STRIP, on_progress=progress
        )
        columns.append(ReportedRun(name, loaded[i], records[i], images[i], observations))
    content = page_content(columns, n_test=n_test)
    figures: list[Path] = []
    in_use = (
        f"`out` must not be in use: another report is being written in {str(folder)!r}. Wait "
        "until that one is there, or choose another folder."
    )
    with lock_folder(folder, error=in_use):
        with suppress(MissingPlottingError):
            figures = _add_figures(folder / "figures", columns, content)
        write_text(folder / "index.html", page_html(content))
    if lost := [file for file in figures if not file.is_file()]:
        raise DataError(
            f"{str(folder)!r} must stay as it is while a report is written: {lost[0].name} is "
            "gone. Write the report again."
        )
    return Report(
        page=folder / "index.html",
        figures=figures,
        n_inputs=len(images[0]),
        warnings=[(run["name"], w["title"]) for run in content["runs"] for w in run["warnings"]],
    )


def _check_arguments(paths: Sequence[str | Path], **counts: int) -> None:
    if not paths:
        raise ArgumentError("`runs` must name at least one folder of a run: got none.")
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise ArgumentError("`runs` must name every folder once: got one of them twice.")
    for name, value in counts.items():
        if not 1 <= value <= MAX_COUNTS[name]:
            raise ArgumentError(f"`{name}` must lie in [1, {MAX_COUNTS[name]}]: got {value}.")


def _count_over_runs(on_progress: OnProgress | None, i: int, n: int) -> OnProgress | None:
    """Progress over all runs, from that of one of them."""
    if on_progress is None:
        return None
    return lambda done, total: on_progress(i * total + done, n * total)


def _add_figures(folder: Path, columns: Sequence[ReportedRun], content: PageContent) -> list[Path]:
    """Write all figures; the page receives those that it cannot draw itself."""
    remove_figures(folder)
    files = []
    several = len(columns) > 1
    pairs = zip(columns, content["runs"], strict=True)
    for number, (column, run) in enumerate(pairs, start=1):
        drawn = draw_figures(column)
        prefix = f"{number}-{UNSAFE.sub('-', column.name)[:MAX_NAME_LENGTH]}." if several else ""
        written = write_figures(folder, drawn, prefix=prefix)
        run["figures"] = embed_figures(drawn, written)
        files += written
    if several:
        drawn = draw_comparisons(columns)
        written = write_figures(folder, drawn)
        content["figures"] = embed_figures(drawn, written)
        files += written
    return files
