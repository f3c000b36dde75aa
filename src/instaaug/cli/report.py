"""What ``instaaug report`` and ``instaaug inspect`` do."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from instaaug.cli.terminal import print_words, progress_bar
from instaaug.runs.inspecting import inspect_files
from instaaug.runs.reporting import write_report

__all__ = ["run_inspect", "run_report"]


def run_report(
    runs: Sequence[Path], *, out: Path | None, n_inputs: int, n_views: int | None
) -> None:
    """Write the page, say where it is, and what looks wrong."""
    console = Console()
    with (
        progress_bar(console) as on_decode,
        progress_bar(console, "asking the model") as on_progress,
    ):
        report = write_report(
            runs, out, n_inputs=n_inputs, n_views=n_views, on_decode=on_decode,
            on_progress=on_progress,
        )  # fmt: skip
    size = report.page.stat().st_size / 1e6
    n_figures = len({file.stem for file in report.figures})
    for name, title in report.warnings:
        print_words(console, f"{name}: {title}" if len(runs) > 1 else f"Look at this: {title}.")
    print_words(
        console,
        f"{report.n_inputs} inputs, {n_figures} figures. Open {report.page} ({size:.1f} MB) in a "
        "browser.",
    )


def run_inspect(run: Path, images: Sequence[Path], *, out: Path | None, n_samples: int) -> None:
    """Draw what the run makes of some images."""
    written = inspect_files(run, images, out, n_samples=n_samples)
    print_words(Console(), "\n".join(f"Look at {file}." for file in written))
