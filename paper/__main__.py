"""Measure tables and figures of the paper: ``python -m paper table1 --scale laptop``.

``list`` says what each needs, ``all`` measures all of them, ``page`` writes docs/paper.md from
what has been published. Options that are not listed here go to ``instaaug``, for example
``--trainer.max_epochs 2``.
"""

import shlex
import shutil
import sys
from argparse import (
    ArgumentParser,
    ArgumentTypeError,
    BooleanOptionalAction,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from instaaug.errors import InstaAugError
from instaaug.files import write_text
from instaaug.runs.folder import environment
from paper.catalog import find_exhibit, list_exhibits
from paper.exhibits import SCALES, Exhibit, Findings, MissingData, Plan
from paper.layout import (
    describe_runs,
    row_scores,
    table_columns,
    to_csv,
    to_json,
    to_latex,
    to_markdown,
    write_score,
)
from paper.page import RESULTS, write_page

__all__ = ["describe_trouble", "main", "measure", "show_list", "show_table"]

FAILED, SKIPPED, STOPPED = 1, 3, 130  # exit codes
TROUBLE = (InstaAugError, OSError, ModuleNotFoundError)  # what a sentence says, not a traceback
ALONE = ("list", "page")  # what measures nothing


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says."""
    parser = _parser()
    options, overrides = parser.parse_known_args(arguments)
    if options.exhibit in ALONE and overrides:
        parser.error(f"{options.exhibit} takes no options: got {' '.join(overrides)}")
    if options.publish and options.scale == "paper":
        parser.error("--publish is for the laptop's scale, which docs/paper.md shows")
    try:
        _do(Console(), options, overrides)
    except MissingData as missing:
        print(f"{options.exhibit} is skipped: {missing}")
        sys.exit(SKIPPED)
    except TROUBLE as error:
        sys.exit(f"error: {describe_trouble(error)}")
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from here.")
        sys.exit(STOPPED)


def _do(console: Console, options: Namespace, overrides: Sequence[str]) -> None:
    if options.exhibit == "list":
        show_list(console)
    elif options.exhibit == "page":
        print(f"Look at {write_page()}.")
    elif options.exhibit == "all":
        _measure_all(console, options, overrides)
    else:
        measure(console, find_exhibit(options.exhibit), options, overrides)


def describe_trouble(error: Exception) -> str:
    """What went wrong, in a sentence.

    Example:
        >>> describe_trouble(ModuleNotFoundError("No module named 'timm'", name="timm"))
        "the package timm is not installed. Run `pip install -e '.[dev]'`."
    """
    if isinstance(error, ModuleNotFoundError) and not isinstance(error, InstaAugError):
        return f"the package {error.name} is not installed. Run `pip install -e '.[dev]'`."
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{str(error.filename)!r} cannot be used: {error.strerror}."
    return str(error)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="python -m paper",
        description=__doc__,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,  # --seed is an option of instaaug
    )
    parser.add_argument("exhibit", help="table1, figure5, …; or list, all, page")
    parser.add_argument("--scale", choices=SCALES, default="laptop")
    parser.add_argument(
        "--seeds", type=_positive, help="runs per line; else as many as the exhibit has"
    )
    parser.add_argument("--out", type=Path, default=Path("runs") / "paper")
    parser.add_argument(
        "--resume", action=BooleanOptionalAction, default=True,
        help="keep what is finished; --no-resume refuses a folder with results",
    )  # fmt: skip
    parser.add_argument(
        "--publish", action="store_true", help="put the result beside the others of docs/paper.md"
    )
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"it must be a whole number from 1 on: got {text!r}")
    return int(text)


def _measure_all(console: Console, options: Namespace, overrides: Sequence[str]) -> None:
    """Every exhibit; what fails or lacks data is named at the end and stops no other."""
    problems = []
    for exhibit in list_exhibits():
        try:
            measure(console, exhibit, options, overrides)
        except MissingData as missing:
            problems.append(f"{exhibit.name} is skipped: {missing}")
        except TROUBLE as error:
            problems.append(f"{exhibit.name} failed: {describe_trouble(error)}")
    for problem in problems:
        print(problem)
    if any(" failed: " in problem for problem in problems):
        sys.exit(FAILED)


def measure(
    console: Console, exhibit: Exhibit, options: Namespace, overrides: Sequence[str]
) -> Findings:
    """Measure one exhibit, print its table, write its files.

    Arguments:
        console: To print on.
        exhibit: What to measure.
        options: Of the command line.
        overrides: Options for ``instaaug``.

    Raises:
        MissingData: If its data are not there.
        InstaAugError: If a run fails, or if the folder has results and must not.
    """
    folder = options.out / exhibit.name / options.scale
    if not options.resume and folder.exists():
        raise InstaAugError(f"{folder} exists: remove it, or leave out --no-resume.")
    seeds = options.seeds or exhibit.seeds[options.scale]
    plan = Plan(options.scale, seeds, folder, tuple(overrides))
    folder.mkdir(parents=True, exist_ok=True)
    found = exhibit.measure(plan)
    show_table(console, exhibit, found)
    command = shlex.join(
        [
            *("python", "-m", "paper", exhibit.name, "--scale", plan.scale),
            *("--seeds", str(seeds), *overrides),
        ]
    )
    _write_files(folder, exhibit, found, command)
    if options.publish:
        _publish(folder, exhibit, found)
    return found


def _write_files(folder: Path, exhibit: Exhibit, found: Findings, command: str) -> None:
    commit = str(environment()["commit"] or "")[:10]
    texts = {
        "table.md": to_markdown(found),
        "table.tex": to_latex(found),
        "table.csv": to_csv(found),
        "table.json": to_json(exhibit, found, command=command, commit=commit),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    for file in (*(folder / name for name in texts), *found.pictures):
        print(f"Look at {file}.")


def _publish(folder: Path, exhibit: Exhibit, found: Findings) -> None:
    RESULTS.mkdir(exist_ok=True)
    shutil.copy(folder / "table.json", RESULTS / f"{exhibit.name}.json")
    for picture in found.pictures:
        if picture.suffix == ".png":
            shutil.copy(picture, RESULTS / picture.name)
    print(f"Look at {write_page()}.")


def show_table(console: Console, exhibit: Exhibit, found: Findings) -> None:
    """Print the paper's numbers beside ours, and how the settings differ."""
    if found.rows:
        console.print(_make_table(exhibit, found))
    for words in (f"Ours: {found.setting}", *exhibit.differs, *found.notes, *describe_runs(found)):
        console.print(words, style="dim", markup=False, highlight=False)
    console.print(f"Time of all runs: {found.seconds / 60:.0f} min.", style="dim")


def _make_table(exhibit: Exhibit, found: Findings) -> Table:
    table = Table(title=exhibit.title, box=SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    columns = table_columns(found)
    for name, source, _ in columns:
        table.add_column(f"{name}\n{source}", justify="right")
    for row, following in zip(found.rows, [*found.rows[1:], None], strict=True):
        cells = [write_score(score) for score in row_scores(row, columns)]
        ends = following is not None and following.group != row.group
        table.add_row(row.name, *cells, end_section=ends)
    return table


def show_list(console: Console) -> None:
    """Print what there is, what it needs and how long it takes."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column("exhibit", no_wrap=True)
    table.add_column("shows, and needs")
    for scale in SCALES:
        table.add_column(f"hours,\n{scale}", justify="right")
    table.add_column("pub-\nlished")
    for exhibit in list_exhibits():
        needs = "; ".join(f"{scale}: {exhibit.needs[scale]}" for scale in SCALES)
        hours = (f"{exhibit.hours[scale]:g}" for scale in SCALES)
        published = "yes" if (RESULTS / f"{exhibit.name}.json").is_file() else "no"
        table.add_row(exhibit.name, f"{exhibit.title}\n[dim]{needs}[/]", *hours, published)
    console.print(table)


if __name__ == "__main__":
    main()
