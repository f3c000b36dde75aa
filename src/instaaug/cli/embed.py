"""The command that writes features of images: embed."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import numpy as np
from rich.console import Console

from instaaug.cli.terminal import print_words
from instaaug.errors import ArgumentError
from instaaug.files import write_atomically
from instaaug.runs.embedding import embed_files

__all__ = ["run_embed"]


def run_embed(
    run: Path, images: Sequence[Path], *, out: Path, n_views: int, skip_bad: bool
) -> None:
    """Write features of images as arrays, or as a table."""
    if out.suffix not in (".npz", ".parquet"):
        raise ArgumentError(f"`out` must end in .npz or .parquet: got {str(out)!r}.")
    if out.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise ArgumentError(
            "`out` must end in .npz where pyarrow is not installed: got "
            f"{str(out)!r}. Run: pip install pyarrow."
        )
    parts = list(embed_files(run, images, n_views=n_views, skip_bad=skip_bad))
    if not parts:
        raise ArgumentError("`images` must name at least one image that can be read: got none.")
    paths = [str(file) for files, _ in parts for file in files]
    features = np.concatenate([rows for _, rows in parts])

    def write(file: IO[bytes]) -> None:
        if out.suffix == ".npz":
            np.savez(file, paths=np.array(paths), features=features)
        else:
            arrow = import_module("pyarrow")
            table = arrow.table({"path": paths, "features": list(features)})
            import_module("pyarrow.parquet").write_table(table, file)

    write_atomically(out, write)
    n, width = features.shape
    print_words(Console(), f"{width:,} features of {n:,} images are in {out}.")
