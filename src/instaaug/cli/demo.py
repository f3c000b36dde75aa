"""``instaaug demo``: train two methods, print a table, draw the figure."""

import json
from math import pi
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from instaaug.data import RotatedSprites, load_mario_iggy
from instaaug.report.pictures.rotation import ArcPanel, draw_rotation_arcs
from instaaug.report.theme import figure, save_figure
from instaaug.runs.rotation import (
    RotationMethod,
    RotationResult,
    RotationSettings,
    learn_rotations,
)

__all__ = ["make_panel", "run_demo"]

METHODS: dict[RotationMethod, str] = {"augerino": "Augerino", "instaaug": "InstaAug"}
ROWS: dict[RotationMethod, str] = {
    "augerino": "Augerino: one range for all images",
    "instaaug-shared": "InstaAug without input: one range for all images",
    "instaaug": "InstaAug: a range for each image",
}
SHOWN = ((0, -pi / 4), (2, pi / 5), (1, pi / 7), (3, -pi / 5))  # class, and how far it is turned


def run_demo(out: Path, *, seed: int, n_steps: int, sprites: Path | None) -> None:
    """Train, print, draw; ``out`` receives the figure and ``results.json``."""
    console = Console()
    with figure(1.0, 1.0):  # fails at once, not after minutes, if plotting is not installed
        pass
    torch.set_num_threads(1)  # these models are so small that a second thread mostly waits
    images = None if sprites is None else load_mario_iggy(sprites)
    settings = RotationSettings(n_steps=n_steps)
    results = []
    with _progress(console) as progress:
        for method, title in METHODS.items():
            task = progress.add_task(title, total=n_steps, numbers="")

            def show(step: int, loss: float, entropy: float, _: float) -> None:
                numbers = f"loss {loss:.3f}  entropy {entropy:.2f}"  # all that 80 columns hold
                progress.update(task, completed=step + 1, numbers=numbers)  # noqa: B023

            results.append(
                learn_rotations(method, seed=seed, sprites=images, settings=settings, on_step=show)
            )
    console.print(_table(results))
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps([r.summary() for r in results], indent=2)
    (out / "results.json").write_text(text + "\n")
    drawing = draw_rotation_arcs([make_panel(r) for r in results])
    for ending in ("png", "svg"):
        save_figure(drawing, out / f"figure5.{ending}")
    console.print(
        f"Look at [bold]{out / 'figure5.png'}[/]; the numbers are in {out / 'results.json'}."
    )


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:>18}"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[numbers]}"),
        console=console,
    )


def _table(results: list[RotationResult]) -> Table:
    table = Table(title="How far may each sprite be turned? (ideal: 180°, overlap 1)")
    headings = ("range learned", "accuracy", "with TTA", "mean width", "overlap (IoU)", "CPU")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == headings[0] else "right")
    for r in results:
        table.add_row(
            METHODS[r.method],
            f"{r.accuracy:.1%}",
            f"{r.accuracy_augmented:.1%}",
            f"{r.mean_width * 180 / pi:.0f}°",
            f"{r.iou:.3f}",
            f"{r.cpu_seconds:.0f} s",
        )
    return table


def make_panel(result: RotationResult) -> ArcPanel:
    """Four images of the test set, and how far each may be turned as learned."""
    test = result.test
    shown = torch.tensor([_nearest(test, label, angle) for label, angle in SHOWN])
    return ArcPanel(
        title=ROWS[result.method],
        images=test.images[shown],
        bases=(test.labels[shown] % 2) * pi,
        angles=test.angles[shown],
        learned=result.intervals[shown],
        iou=result.iou,
    )


def _nearest(data: RotatedSprites, label: int, angle: float) -> int:
    """The image of a class that is turned most nearly as wanted."""
    return int(((data.angles - angle).abs() + 10.0 * (data.labels != label)).argmin())
