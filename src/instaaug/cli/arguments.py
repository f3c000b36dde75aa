"""Arguments that several commands share."""

from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

__all__ = ["Images", "OnBadImage", "Predictions"]

OnBadImage = Annotated[
    Literal["error", "skip"],
    typer.Option(help="Stop at a file that cannot be read, or list it without a prediction."),
]
Images = Annotated[
    list[Path], typer.Argument(help="Image files, or folders of them.", show_default=False)
]
Predictions = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(help="A .csv or .jsonl file.", show_default="CSV to the terminal"),
]
