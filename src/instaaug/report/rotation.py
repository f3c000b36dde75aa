"""The paper's Figure 5: arcs of the learned rotations around each sprite."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.report.theme import BLUE, GREEN, INK, RED, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

__all__ = ["ArcPanel", "draw_rotation_arcs"]

SAFE_RADIUS, LEARNED_RADIUS = 1.42, 1.22
LINE = 5.0


@dataclass(frozen=True)
class ArcPanel:
    """One half of the figure: the same images with the intervals that one method learned.

    Arguments:
        title: Name of the method.
        images: Images in [0, 1].
        bases: Where the head of each sprite points before any turn: 0 is up, π is down.
        angles: How far each image has been turned already, in radians, counterclockwise.
        learned: Learned (min, max) of the further turn of each image.
        iou: Mean overlap of learned and ideal intervals, over the whole test set.
    """

    title: str
    images: Float[Tensor, "n 3 h w"]
    bases: Float[Tensor, " n"]
    angles: Float[Tensor, " n"]
    learned: Float[Tensor, "n 2"]
    iou: float


def draw_rotation_arcs(panels: Sequence[ArcPanel], path: str | Path) -> None:
    """Draw one column of sprites per method; writes PNG or SVG, by the ending of ``path``.

    Around each sprite, the outer arc is where its head may point without changing its class, the
    inner arc where the learned rotations let it point. Where the arcs end together, all of the
    safe range is used and nothing else.
    """
    n = len(panels[0].images)
    columns = 2
    rows = math.ceil(n / columns)
    with figure(4.4 * len(panels), 2.15 * rows + 0.9) as canvas:
        parts = canvas.subfigures(1, len(panels), squeeze=False)[0]
        for part, panel in zip(parts, panels, strict=True):
            _draw_panel(part, panel, rows, columns)
        canvas.legend(handles=_legend(), loc="outside lower center", ncols=4, frameon=False)
        canvas.savefig(path)


def _draw_panel(part: "SubFigure", panel: ArcPanel, rows: int, columns: int) -> None:
    part.suptitle(f"{panel.title}   (mean overlap {panel.iou:.2f})", fontweight="bold", color=INK)
    axes = part.subplots(rows, columns, squeeze=False).flatten()
    for i, ax in enumerate(axes):
        ax.set_axis_off()
        if i < len(panel.images):
            _draw_sprite(ax, panel, i)


def _draw_sprite(ax: "Axes", panel: ArcPanel, i: int) -> None:
    image, base = panel.images[i], float(panel.bases[i])
    head = base + float(panel.angles[i])
    visible = image.amax(dim=0, keepdim=True).clamp(0, 1).pow(0.25)
    ax.imshow(
        torch.cat([image.clamp(0, 1), visible]).permute(1, 2, 0).numpy(),
        extent=(-1, 1, -1, 1),
        interpolation="nearest",
    )
    low, high = (head + float(turn) for turn in panel.learned[i])
    safe_low, safe_high = base - math.pi / 2, base + math.pi / 2
    _arc(ax, SAFE_RADIUS, safe_low, safe_high, BLUE)
    _arc(ax, LEARNED_RADIUS, max(low, safe_low), min(high, safe_high), GREEN)
    for start, stop in ((low, min(high, safe_low)), (max(low, safe_high), high)):
        if stop > start:
            _arc(ax, LEARNED_RADIUS, start, stop, RED)
    _tick(ax, head)
    ax.set(xlim=(-1.62, 1.62), ylim=(-1.62, 1.62), aspect="equal")


def _arc(ax: "Axes", radius: float, low: float, high: float, color: str) -> None:
    """An arc of where the head points: 0 is the top, counterclockwise is positive."""
    t = torch.linspace(low, min(high, low + 2 * math.pi), 200)
    ax.plot(-radius * t.sin(), radius * t.cos(), color=color, lw=LINE, solid_capstyle="butt")


def _tick(ax: "Axes", angle: float) -> None:
    ends = torch.tensor([LEARNED_RADIUS - 0.13, SAFE_RADIUS + 0.13])
    ax.plot(-ends * math.sin(angle), ends * math.cos(angle), color=INK, lw=1.6)


def _legend() -> list[object]:
    from matplotlib.lines import Line2D

    entries = (
        (BLUE, LINE, "safe: the class stays"),
        (GREEN, LINE, "learned"),
        (RED, LINE, "learned, but not safe"),
        (INK, 1.6, "where the head points now"),
    )
    return [Line2D([], [], color=color, lw=lw, label=label) for color, lw, label in entries]
