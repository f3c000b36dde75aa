"""Report on runs: one page to explore, and figures; what ``instaaug report`` calls."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from instaaug.errors import ArgumentError
from instaaug.files import write_text
from instaaug.report.page.build import page_html
from instaaug.report.page.content import PageContent
from instaaug.report.page.runs import short_names
from instaaug.report.records import read_record
from instaaug.report.theme import MissingPlottingError
from instaaug.runs.observing import look_at
from instaaug.runs.report_column import Column
from instaaug.runs.report_content import page_content
from instaaug.runs.report_figures import (
    draw_comparisons,
    draw_figures,
    embedded,
    remove_figures,
    write_figures,
)
from instaaug.runs.shared_inputs import shared_inputs
from instaaug.runs.subjects import find_subject

__all__ = ["Report", "write_report"]

N_STRIP = 8
MOST = {"n_inputs": 5000, "n_views": 500}  # a page is for people
LONGEST = 60  # characters of a run's name in those of its figures
UNSAFE = re.compile(r"[^\w-]+")  # in the name of a file
OnProgress = Callable[[int, int], None]


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
    """Look at test images with every run; write a page about it, and figures beside it.

    Arguments:
        paths: Folders of finished runs, each a column of the page.
        out: The folder of the report; ``report`` in the run's own folder by default, or ``report``
            here if there are several.
        n_inputs: Most test images to show.
        n_views: Views of each that the model is asked about; by default the most that the result
            of any of the runs is from.
        on_decode: Called with the number of files decoded and of all files.
        on_progress: Called with the number of images looked at, over all runs, and of all.
    """
    _check(paths, n_inputs=n_inputs, n_views=1 if n_views is None else n_views)
    own = Path(paths[0]) / "report" if len(paths) == 1 else Path("report")
    folder = own if out is None else Path(out)
    subjects = [find_subject(path) for path in paths]
    records = [read_record(path) for path in paths]
    n_views = n_views or max(subject.test_views for subject in subjects)
    images, n_test = shared_inputs(subjects, n_inputs, on_decode)
    columns = []
    for i, name in enumerate(short_names(paths)):
        progress = _counted(on_progress, i, len(subjects))
        seen = look_at(
            subjects[i], images[i], n_views=n_views, n_shown=N_STRIP, on_progress=progress
        )
        columns.append(Column(name, subjects[i], records[i], images[i], seen))
    content = page_content(columns, n_test=n_test)
    figures: list[Path] = []
    with suppress(MissingPlottingError):
        figures = _add_figures(folder / "figures", columns, content)
    write_text(folder / "index.html", page_html(content))
    return Report(
        page=folder / "index.html",
        figures=figures,
        n_inputs=len(images[0]),
        warnings=[(run["name"], w["title"]) for run in content["runs"] for w in run["warnings"]],
    )


def _check(paths: Sequence[str | Path], **counts: int) -> None:
    if not paths:
        raise ArgumentError("`runs` must name at least one folder of a run: got none.")
    if len({Path(path).resolve() for path in paths}) < len(paths):
        raise ArgumentError("`runs` must name every folder once: got one of them twice.")
    for name, value in counts.items():
        if not 1 <= value <= MOST[name]:
            raise ArgumentError(f"`{name}` must lie in [1, {MOST[name]}]: got {value}.")


def _counted(on_progress: OnProgress | None, i: int, n: int) -> OnProgress | None:
    """Progress over all runs, from that of one of them."""
    if on_progress is None:
        return None
    return lambda done, total: on_progress(i * total + done, n * total)


def _add_figures(folder: Path, columns: Sequence[Column], content: PageContent) -> list[Path]:
    """Write all figures; the page receives those that it cannot draw itself."""
    remove_figures(folder)
    files = []
    several = len(columns) > 1
    pairs = zip(columns, content["runs"], strict=True)
    for number, (column, run) in enumerate(pairs, start=1):
        drawn = draw_figures(column)
        prefix = f"{number}-{UNSAFE.sub('-', column.name)[:LONGEST]}." if several else ""
        written = write_figures(folder, drawn, prefix=prefix)
        run["figures"] = embedded(drawn, written)
        files += written
    if several:
        drawn = draw_comparisons(columns)
        written = write_figures(folder, drawn)
        content["figures"] = embedded(drawn, written)
        files += written
    return files
