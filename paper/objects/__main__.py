"""``python -m paper.objects RUN``: print what was found, and write numbers and pictures."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from instaaug.errors import InstaAugError
from paper.objects.findings import COMPARED, PLACES, Findings, describe_gain, write_number
from paper.objects.overlap import MEASURES
from paper.objects.search import search_objects

__all__ = ["main", "objects_table"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare learned crops with objects; print the table, what it means, and where files are."""
    parser = ArgumentParser(prog="python -m paper.objects", description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a finished run with learned crops")
    parser.add_argument("--boxes", type=Path, help="CSV file: path, left, top, right, bottom")
    parser.add_argument("--n-images", type=int, help="most test images to look at")
    parser.add_argument("--out", type=Path, help="folder to write to; RUN/objects by default")
    options = parser.parse_args(arguments)
    try:
        search = search_objects(
            options.run, boxes=options.boxes, n_images=options.n_images, out=options.out
        )
    except (InstaAugError, FileNotFoundError) as error:
        sys.exit(f"error: {error}")
    console = Console()
    console.print(objects_table(search.findings))
    print(search.words)
    if search.n_without_box:
        print(f"{search.n_without_box:,} test images have no box: left out.")
    print(f"Look at {', '.join(map(str, search.files))}.")


def objects_table(found: Findings) -> Table:
    """Overlaps by where crops lie, and how much larger they are at learned places."""
    title = f"Crops of the same sizes and the objects of {found.n_images:,} test images"
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    table.add_column("places of crops", no_wrap=True)
    for words in ("IoU", "object in crop", "crop on object"):
        table.add_column(words, justify="right")
    table.add_column("IoU learned less this", justify="right", no_wrap=True)
    for place, words in PLACES.items():
        gain = describe_gain(found.gain("iou", place)) if place in COMPARED else ""
        means = (write_number(found.mean(measure, place)) for measure in MEASURES)
        table.add_row(words, *means, gain, style="bold" if place == "learned" else None)
    return table


if __name__ == "__main__":
    main()
