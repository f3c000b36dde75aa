"""All that the page of some runs shows."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from torch import Tensor

from instaaug import __version__
from instaaug.augmentation import InstaAug
from instaaug.data import LabeledImages
from instaaug.report.page.build import TINY, best_encoding, data_uris, side_by_side
from instaaug.report.page.content import Input, PageContent, Run
from instaaug.report.page.diagnosis import diagnose
from instaaug.report.page.runs import (
    PARTS,
    class_entropies,
    curves_of,
    differing_settings,
    factors_of,
    facts_of,
    headline_of,
    inputs_of,
    result_rows,
    score_name,
    without_common_folder,
)
from instaaug.report.records import RunRecord, accuracy_of
from instaaug.runs.report_column import Column
from instaaug.safe_files import read_json
from instaaug.stats import mcnemar_test

__all__ = ["page_content"]

BASELINES = ("none", "random")
MOST_BYTES = 14.5e6  # of the whole page
LEAST_FOR_PICTURES = 2e6  # whatever the rest takes
SCRIPTS = 0.2e6


def page_content(columns: Sequence[Column], *, n_test: int) -> PageContent:
    """Fill the page.

    Arguments:
        columns: The runs.
        n_test: Test images that the inputs were taken from.
    """
    first = columns[0]
    height, width = first.seen.pictures.shape[1:3]
    differing = differing_settings([column.record for column in columns])
    content: PageContent = {
        "title": " · ".join(column.name for column in columns),
        "made": f"InstaAug {__version__}, {datetime.now(UTC):%d %B %Y}",
        "task": "classification" if first.subject.classes else "regression",
        "classes": list(first.subject.classes),
        "inputs": _inputs(first),
        "aspect": round(width / height, 4),
        "n_test": n_test,
        "is_tiny": max(height, width) <= TINY,
        "runs": [_run(column, differing) for column in columns],
    }
    _add_paired_tests(content["runs"], columns)
    _add_pictures(content, columns)
    return content


def _inputs(column: Column) -> list[Input]:
    names = without_common_folder([column.images.name(i) for i in range(len(column.images))])
    return [
        {"name": name, "target": _target(column.images, i), "image": ""}
        for i, name in enumerate(names)
    ]


def _add_pictures(content: PageContent, columns: Sequence[Column]) -> None:
    """Put all pictures in, as good as there is room for beside all the rest."""
    rest = len(json.dumps(content)) + SCRIPTS
    pictures = columns[0].seen.pictures
    strips = [side_by_side(column.seen.views) for column in columns]
    encoding = best_encoding([pictures, *strips], max(MOST_BYTES - rest, LEAST_FOR_PICTURES))
    for one, uri in zip(content["inputs"], data_uris(pictures, encoding), strict=True):
        one["image"] = uri
    for run, strip in zip(content["runs"], strips, strict=True):
        if run["n_strip"]:
            for seen, uri in zip(run["inputs"], data_uris(strip, encoding), strict=True):
                seen["strip"] = uri


def _target(images: LabeledImages, i: int) -> int | list[float]:
    if images.classes:
        return int(images.targets[i])
    return [round(float(value), 6) for value in images.targets[i].reshape(-1)]


def _run(column: Column, differing: Sequence[str]) -> Run:
    record, seen, classes = column.record, column.seen, column.subject.classes
    aug = column.subject.augmenter
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
        "warnings": diagnose(
            seen.factors,
            history=record.history,
            scores=_scores(record),
            reads_input=isinstance(aug, InstaAug) and aug.settings.conditioning == "input",
            is_fit=record.kind == "tta",
        ),
        "curves": curves_of(record.history),
        "factors": factors_of(seen),
        "class_entropy": class_entropies(seen, column.images.targets, classes),
        "n_strip": len(seen.views),
        "n_views": len(seen.merged),
        "keeps_original": seen.keeps_original,
        "inputs": inputs_of(seen, classes=classes),
    }


def _add_paired_tests(runs: Sequence[Run], columns: Sequence[Column]) -> None:
    """Say of every run whether it beats the best baseline on the inputs of the page."""
    if len(columns) < 2 or not columns[0].subject.classes:
        return
    right = [_right(column) for column in columns]
    baselines = [
        i for i, c in enumerate(columns) if c.record.config.get("method.name") in BASELINES
    ]
    best = max(baselines or [0], key=lambda i: int(right[i].sum()))
    for i, run in enumerate(runs):
        main = [row for row in run["results"] if row["is_main"] and not row["note"]]
        if i == best or not main:
            continue
        found = mcnemar_test(right[i], right[best])
        main[0]["note"] = (
            f"of the {found.n:,} inputs here, {found.only_first} are right only with this run, "
            f"{found.only_second} only with {runs[best]['name']}; p = {found.p_value:.2g}"
        )


def _scores(record: RunRecord) -> dict[str, dict[str, float]]:
    """The scores of either kind of run, as those of training are written."""
    found = {part: accuracy_of(record, part) for part in PARTS}
    return {
        part: {score.measure: score.value, "n": score.n, "n_samples": score.n_samples or 0}
        for part, score in found.items()
        if score is not None
    }


def _right(column: Column) -> Tensor:
    """Which inputs the run gets right, from as many views as its result, if there are so many."""
    seen = column.seen
    score = accuracy_of(column.record)
    n = min(len(seen.merged), (score and score.n_samples) or 0)
    last = seen.merged[n - 1] if n else seen.plain
    return last.argmax(dim=1) == column.images.targets


def _command(record: RunRecord) -> str:
    file = record.path / "environment.json"
    return str(read_json(file).get("command", "")) if file.is_file() else ""
