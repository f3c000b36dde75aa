"""Make notebooks of scripts in examples/notebooks: their cells, run in order, with what they show.

A script is Python in which ``# %%`` begins a cell and ``# %% [markdown]`` one of words, in
comments. ``python docs/.site/notebooks.py [NAME ...]`` runs each and writes ``NAME.ipynb``
beside it; printed text, the last value of a cell and figures of matplotlib become outputs.
After ``quick:`` in the line that begins a cell stands what tests do once it has run, to be quick.
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Cell", "read_cells", "render_markdown", "run_cells", "to_notebook"]

FOLDER = Path(__file__).parents[2] / "examples/notebooks"
DOTS_PER_INCH = 72
Output = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """Words or code, and what is done after the code where time is short."""

    kind: str
    source: str
    quick: str = ""


def read_cells(script: str) -> list[Cell]:
    """The cells of a script."""
    cells = []
    for piece in ("\n" + script).split("\n# %%")[1:]:
        head, _, body = piece.partition("\n")
        if head.strip() == "[markdown]":
            words = "\n".join(
                line.removeprefix("#").removeprefix(" ") for line in body.split("\n")
            )
            cells.append(Cell("markdown", words.strip()))
        else:
            cells.append(Cell("code", body.strip(), head.partition("quick:")[2].strip()))
    return cells


def run_cells(cells: list[Cell], *, quick: bool = False) -> list[list[Output]]:
    """Run all code in one namespace and an empty folder; the outputs of every cell."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    mpl.use("Agg")
    plt.close("all")  # what others have left open is no output of ours
    names: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return [_run(cell, names, quick=quick) for cell in cells]
        finally:
            os.chdir(before)


def _run(cell: Cell, names: dict[str, Any], *, quick: bool) -> list[Output]:
    if cell.kind != "code":
        return []
    tree = ast.parse(cell.source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)  # noqa: S102  # our own scripts
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307
    if quick and cell.quick:
        exec(cell.quick, names)  # noqa: S102
    text = [_text(printed.getvalue())] if printed.getvalue() else []
    return [*text, *_shown(value)]


def _text(words: str) -> Output:
    return {"output_type": "stream", "name": "stdout", "text": words.splitlines(keepends=True)}


def _shown(value: Any) -> Iterator[Output]:
    """The last value of a cell, and all figures that are open."""
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure

    figures = [plt.figure(number) for number in plt.get_fignums()]
    if isinstance(value, Figure) and value not in figures:
        figures.append(value)
    for figure in figures:
        yield _display({"image/png": _png(figure), "text/plain": ["<Figure>"]})
    plt.close("all")
    if value is not None and not isinstance(value, Figure):
        yield _display({"text/plain": repr(value).splitlines(keepends=True)})


def _display(data: Mapping[str, Any]) -> Output:
    return {"output_type": "display_data", "data": dict(data), "metadata": {}}


def _png(figure: Any) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DOTS_PER_INCH, bbox_inches="tight")
    return base64.b64encode(file.getvalue()).decode()


def to_notebook(cells: list[Cell], outputs: list[list[Output]]) -> str:
    """A notebook of format 4.5."""
    count = 0
    filled = []
    for number, (cell, shown) in enumerate(zip(cells, outputs, strict=True)):
        made: dict[str, Any] = {"cell_type": cell.kind, "id": f"cell-{number}", "metadata": {}}
        if cell.kind == "code":
            count += 1
            made |= {"execution_count": count, "outputs": shown}
        filled.append(made | {"source": cell.source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    book = {"cells": filled, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def render_markdown(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as a page, and its pictures by their names."""
    lines, pictures = [], {}
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [source, ""]
            continue
        lines += ["```python", source, "```", ""]
        for order, output in enumerate(cell["outputs"]):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}_{number}_{order}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                lines += [f"![What the cell shows]({name})", ""]
            else:
                text = "".join(output.get("text") or data["text/plain"])
                lines += ["```text", text.rstrip(), "```", ""]
    link = f"*[This notebook]({path.name}), to run it yourself.*"
    return "\n".join([*lines, link, ""]), pictures


if __name__ == "__main__":
    for script in [FOLDER / f"{name}.py" for name in sys.argv[1:]] or sorted(FOLDER.glob("*.py")):
        parts = read_cells(script.read_text())
        script.with_suffix(".ipynb").write_text(to_notebook(parts, run_cells(parts)))
        print(script.with_suffix(".ipynb"))  # noqa: T201
