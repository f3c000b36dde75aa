"""The ``instaaug`` command and its sub-commands."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from instaaug.errors import InstaAugError

__all__ = ["app", "main"]

app = typer.Typer(
    help="Learn, for every single input, which augmentations are safe.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """Learn, for every single input, which augmentations are safe."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the numbers.")] = Path(
        "runs/demo"
    ),
    seed: Annotated[int, typer.Option(help="Decides data, weights and draws.")] = 0,
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each method.")] = 1500,
    sprites: Annotated[
        Path | None,
        typer.Option(help="The original images.npz (Mario and Iggy) instead of our sprites."),
    ] = None,
) -> None:
    """Learn how far each sprite may be turned, beside one range for all; draw Figure 5."""
    from instaaug.cli.demo import run_demo

    run_demo(out, seed=seed, n_steps=steps, sprites=sprites)


def main() -> None:
    """Run the command line; an error of ours is one sentence, not a traceback."""
    try:
        app()
    except (InstaAugError, FileNotFoundError) as error:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print("error:", style="bold red", end=" ")
        console.print(str(error), markup=False)
        sys.exit(2)
