"""What ``instaaug objects`` does."""

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from instaaug.cli.terminal import print_words, progress_bar
from instaaug.report.objects.findings import COMPARED, PLACES, Findings
from instaaug.report.objects.overlap import MEASURES
from instaaug.report.objects.words import gain_words, number
from instaaug.runs.object_search import search_objects

__all__ = ["objects_table", "run_objects"]


def run_objects(run: Path, *, boxes: Path | None, n_images: int | None, out: Path | None) -> None:
    """Compare learned crops with objects; print the table, what it means, and where files are."""
    console = Console()
    with (
        progress_bar(console) as on_decode,
        progress_bar(console, "asking φ") as on_progress,
    ):
        search = search_objects(
            run, boxes=boxes, n_images=n_images, out=out, on_decode=on_decode,
            on_progress=on_progress,
        )  # fmt: skip
    console.print(objects_table(search.findings))
    print_words(console, search.words)
    if search.n_without_box:
        print_words(console, f"{search.n_without_box:,} test images have no box: left out.")
    print_words(console, f"Look at {', '.join(map(str, search.files))}.")


def objects_table(found: Findings) -> Table:
    """Overlaps by where crops lie, and what learned places have more."""
    title = f"Crops of the same sizes and the objects of {found.n_images:,} test images"
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    table.add_column("places of crops", no_wrap=True)
    for words in ("IoU", "object in crop", "crop on object"):
        table.add_column(words, justify="right")
    table.add_column("IoU learned less this", justify="right", no_wrap=True)
    for place, words in PLACES.items():
        gain = gain_words(found.gain("iou", place)) if place in COMPARED else ""
        means = (number(found.mean(measure, place)) for measure in MEASURES)
        table.add_row(words, *means, gain, style="bold" if place == "learned" else None)
    return table
