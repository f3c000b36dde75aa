"""The figures of a report: drawn, written as PNG and SVG, and put into the page."""

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from instaaug.augmentation.observed import Observed
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.errors import ArgumentError
from instaaug.report.page.content import Figure as PageFigure
from instaaug.report.pictures.colors import draw_colors
from instaaug.report.pictures.crops import draw_crop_comparison
from instaaug.report.pictures.inputs import draw_inputs
from instaaug.report.run_figures import NamedFigure, comparison_figures, run_figures
from instaaug.report.theme import save_figure
from instaaug.runs.observing import observed_images
from instaaug.runs.report_column import Column

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_comparisons", "draw_figures", "embedded", "remove_figures", "write_figures"]

N_SHOWN = 6
N_SAMPLES = 8
N_DRAWN = 200  # crops of a method without probabilities, to show how they are distributed
MOST_METHODS = 3
DOTS = 130  # per inch: photos need no more
ON_PAGE = ("leaderboard", "cost_curve")
COLOR = "hsv_jitter"
FIGURES = (
    *ON_PAGE, "training_curves", "inputs", "colors", "crop_comparison",
    "color_comparison",
)  # fmt: skip


def draw_figures(column: Column) -> list[NamedFigure]:
    """Figures of one run."""
    bands = {f.name: f.band for f in column.seen.factors if f.band is not None}
    return [*run_figures(column.record, bands), *_inputs(column)]


def draw_comparisons(columns: Sequence[Column]) -> list[NamedFigure]:
    """Figures of several runs together."""
    charts = comparison_figures([column.record for column in columns])
    return [*charts, *_side_by_side(columns)]


def _inputs(column: Column) -> Iterator[NamedFigure]:
    """Some inputs, from the least to the most diverse distribution."""
    if not len(column.seen.views):
        return
    chosen = _chosen(column)
    seen = _observed(column, chosen, N_SAMPLES)
    yield NamedFigure(
        "inputs",
        "Inputs",
        "Inputs with their distributions and samples, from the least diverse to the most.",
        draw_inputs(seen, titles=_titles(column, chosen)),
    )
    if COLOR in _factors(column):
        colors = draw_colors({column.name: seen}, titles=_titles(column, chosen))
        yield NamedFigure("colors", "Colors", "Where the colors of each input may go.", colors)


def _side_by_side(columns: Sequence[Column]) -> Iterator[NamedFigure]:
    """What several methods make of the same inputs."""
    kinds: tuple[tuple[str, str, str, str, Callable[..., Figure]], ...] = (
        ("crop", "crop_comparison", "Crops", "Crops, their centers and their sizes.",
         draw_crop_comparison),
        (COLOR, "color_comparison", "Colors", "Where colors may go.", draw_colors),
    )  # fmt: skip
    chosen, titles = _chosen(columns[0]), _titles(columns[0], _chosen(columns[0]))
    for factor, file, title, words, draw in kinds:
        able = [column for column in columns if factor in _factors(column)][:MOST_METHODS]
        if len(able) < 2:
            continue
        groups: Mapping[str, Observed] = {
            column.name: _observed(column, chosen, N_DRAWN) for column in able
        }
        with suppress(ArgumentError):  # they see the inputs at different sizes
            yield NamedFigure(file, title, words, draw(groups, titles=titles))


def _factors(column: Column) -> list[str]:
    return [factor.name for factor in column.seen.factors]


def _chosen(column: Column) -> list[int]:
    """Inputs from the least to the most diverse distribution, evenly spaced."""
    order = list(range(len(column.images)))
    entropies = [f.entropy for f in column.seen.factors if f.entropy is not None]
    if entropies:
        total = entropies[0]
        for entropy in entropies[1:]:
            total = total + entropy
        order = total.argsort().tolist()
    return [order[i] for i in evenly_spaced_indices(len(order), N_SHOWN)]


def _titles(column: Column, chosen: Sequence[int]) -> list[str]:
    images = column.images
    if not images.classes:
        return [images.name(i) for i in chosen]
    return [images.classes[int(images.targets[i])] for i in chosen]


def _observed(column: Column, chosen: Sequence[int], n_samples: int) -> Observed:
    pixels, targets = column.images.__getitems__(chosen)
    return observed_images(
        column.subject, pixels, n_samples, n_rendered=N_SAMPLES, targets=targets
    )


def write_figures(folder: Path, figures: Sequence[NamedFigure], *, prefix: str = "") -> list[Path]:
    """Write every figure twice, as PNG and as SVG."""
    files = []
    for one in figures:
        for ending in ("png", "svg"):
            files.append(folder / f"{prefix}{one.file}.{ending}")
            save_figure(one.drawing, files[-1], dpi=DOTS)
    return files


def remove_figures(folder: Path) -> None:
    """Remove what an earlier report has left, for other runs might have had other figures."""
    for file in folder.glob("*.*"):
        if file.suffix in (".png", ".svg") and file.stem.rsplit(".", 1)[-1] in FIGURES:
            file.unlink()


def embedded(figures: Sequence[NamedFigure], files: Sequence[Path]) -> list[PageFigure]:
    """Charts that the page does not draw itself, as it shows them."""
    drawn = {file.stem.rsplit(".", 1)[-1]: file for file in files if file.suffix == ".svg"}
    return [
        {
            "title": one.title,
            "image": f"data:image/svg+xml;base64,{_base64(drawn[one.file])}",
            "words": one.words,
        }
        for one in figures
        if one.file in ON_PAGE
    ]


def _base64(file: Path) -> str:
    return b64encode(file.read_bytes()).decode("ascii")
