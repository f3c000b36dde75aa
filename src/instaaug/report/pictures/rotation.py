"""The paper's Figure 5: around each sprite, how far it may be turned and what was learned."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.errors import ArgumentError, ShapeError
from instaaug.report.pictures.sheet import Sheet, sheet
from instaaug.report.theme import BLUE, INK, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

__all__ = ["ArcPanel", "draw_rotation_arcs"]

QUESTION = "How far may each picture be turned before “up” becomes “down”?"
SAFE = "#c9d6e2"
RADIUS, BAND, STROKE = 1.34, 0.30, 0.15  # in halves of a sprite's side, like all that follows
REACH = 1.68
LABEL_RADIUS = 1.66
CROSS = math.radians(9)  # from the end of an arc that goes too far
SHORTEST = math.radians(2)  # a part of an arc that is shorter gets no mark
LEFT, TILE, LABELS, VERDICT = 1.75, 2.0, 0.8, 1.65  # inches, like all that follows
TITLE, ROW, MARGIN = 0.62, 2.1, 0.2
GOOD = 0.9  # an overlap that deserves a check mark
NARROWEST = 8.8  # so that the question fits
MOST_ROWS, MOST_COLUMNS = 4, 6

SPOTS = (0.5, 0.35, 0.65, 0.2, 0.8, 0.05, 0.95)  # where on an arc its name may stand
APART = 10.0  # pixels between names

Piece = tuple[float, float]


@dataclass(frozen=True)
class ArcPanel:
    """One row of the figure: images with the intervals that one method learned.

    Arguments:
        title: Name of the method; what follows a colon stands below, smaller.
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


def draw_rotation_arcs(panels: Sequence[ArcPanel], *, question: str = QUESTION) -> "Figure":
    """Draw one row of sprites per method, the same sprites in each.

    The wide pale band around a sprite is where its head may point without changing its class; the
    strong arc on it is where the learned rotations let it point. Where the arc leaves the band it
    is hatched and crossed. The first sprite says what is what.

    Arguments:
        panels: One per method, all with as many images.
        question: The headline.

    Example:
        >>> from instaaug.data import RotatedSprites
        >>> data = RotatedSprites(2, generator=torch.Generator().manual_seed(0))
        >>> ideal = ArcPanel(
        ...     "Ideal: by construction",
        ...     data.images,
        ...     (data.labels % 2) * torch.pi,
        ...     data.angles,
        ...     data.safe_intervals,
        ...     iou=1.0,
        ... )
        >>> drawing = draw_rotation_arcs([ideal])
        >>> [text.get_text() for text in drawing.texts if "%" in text.get_text()]
        ['✓ 100%']
    """
    n = _check(panels)
    width = max(LEFT + LABELS + n * TILE + VERDICT, NARROWEST)
    with sheet(width, TITLE + len(panels) * ROW) as page:
        room = width - 2 * MARGIN
        headline = page.write(MARGIN, 0.34, question, fontsize=15, fontweight="bold", room=room)
        for row, panel in enumerate(panels):
            sprites = _draw_row(page, panel, TITLE + row * ROW)
            if row:
                _draw_rule(page, TITLE + row * ROW)
            else:
                _explain(sprites[0], panel, headline)
    return page.canvas


def _check(panels: Sequence[ArcPanel]) -> int:
    if not 1 <= len(panels) <= MOST_ROWS:
        raise ArgumentError(
            f"`panels` must hold 1 to {MOST_ROWS} methods: got {len(panels)}. Draw several "
            "figures."
        )
    counts = sorted({len(panel.images) for panel in panels})
    if len(counts) > 1 or not 1 <= counts[0] <= MOST_COLUMNS:
        raise ShapeError(
            f"`panels` must all have the same number of images, 1 to {MOST_COLUMNS}: got "
            f"{', '.join(map(str, counts))}. Choose some with images[:4], and so on."
        )
    return counts[0]


def _draw_row(page: Sheet, panel: ArcPanel, top: float) -> list["Axes"]:
    sprites = []
    middle = top + ROW / 2
    name, _, detail = panel.title.partition(":")
    page.write(MARGIN, middle - 0.12, name, fontsize=13, fontweight="bold", room=LEFT - 0.1)
    page.write(MARGIN, middle + 0.14, detail.strip(), fontsize=9.5, room=LEFT - 0.1)
    for i in range(len(panel.images)):
        left = LEFT + i * TILE + (LABELS if i else LABELS / 2)
        axes = page.panel(left, top + (ROW - TILE) / 2, TILE, TILE)
        axes.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), aspect="equal")
        _draw_sprite(axes, panel, i)
        sprites.append(axes)
    right = page.width - VERDICT
    mark = "✓" if panel.iou >= GOOD else "✗"
    page.write(right, middle - 0.14, f"{mark} {panel.iou:.0%}", fontsize=21, fontweight="bold")
    page.write(right, middle + 0.24, "overlap of learned\nand safe range", fontsize=8.5)
    return sprites


def _draw_rule(page: Sheet, top: float) -> None:
    axes = page.panel(MARGIN, top, page.width - 2 * MARGIN, 0.01)
    axes.axhline(0.5, color=SAFE, linewidth=1)


def _draw_sprite(axes: "Axes", panel: ArcPanel, i: int) -> None:
    image = panel.images[i].detach().cpu().float().clamp(0, 1)
    visible = image.amax(dim=0, keepdim=True).pow(0.25)
    axes.imshow(
        torch.cat([image, visible]).permute(1, 2, 0).numpy(),
        extent=(-1, 1, -1, 1),
        interpolation="nearest",
    )
    arcs = _Arcs.of(panel, i)
    _ring(axes, arcs.safe, BAND, facecolor=SAFE, edgecolor="none")
    for piece in arcs.used:
        _ring(axes, piece, STROKE, facecolor=BLUE, edgecolor="none")
    for piece in arcs.unsafe:
        _ring(axes, piece, BAND, facecolor=RED, edgecolor="white", hatch="/////", linewidth=0)
        end = piece[0] - CROSS if piece[1] <= arcs.safe[0] else piece[1] + CROSS
        x, y = _point(end, RADIUS)
        axes.plot(x, y, marker="X", color=RED, markeredgewidth=0, markersize=9, clip_on=False)
    _draw_head(axes, arcs.head)


@dataclass(frozen=True)
class _Arcs:
    """Where a sprite's head points, may safely point, and what was learned; counterclockwise."""

    head: float
    safe: Piece
    used: list[Piece]
    unsafe: list[Piece]

    @classmethod
    def of(cls, panel: ArcPanel, i: int) -> "_Arcs":
        base = float(panel.bases[i])
        head = base + float(panel.angles[i])
        low, high = (head + float(turn) for turn in panel.learned[i])
        safe = (base - math.pi / 2, base + math.pi / 2)
        used = [(max(low, safe[0]), min(high, safe[1]))]
        unsafe = [(low, min(high, safe[0])), (max(low, safe[1]), high)]
        return cls(head, safe, list(_longer(used, 0.0)), list(_longer(unsafe, SHORTEST)))

    @property
    def unlearned_pieces(self) -> list[Piece]:
        """The parts of the safe range that were not learned."""
        low, high = self.used[0] if self.used else (self.safe[1], self.safe[1])
        return list(_longer([(self.safe[0], low), (high, self.safe[1])], SHORTEST))


def _longer(pieces: Sequence[Piece], least: float) -> Iterator[Piece]:
    return (piece for piece in pieces if piece[1] - piece[0] > least)


def _longest(pieces: Sequence[Piece]) -> Piece:
    return max(pieces, key=lambda piece: piece[1] - piece[0])


def _point(angle: float, radius: float) -> tuple[float, float]:
    """Where an angle points: 0 is up, counterclockwise is positive."""
    return -radius * math.sin(angle), radius * math.cos(angle)


def _ring(axes: "Axes", piece: Piece, thickness: float, **style: object) -> None:
    from matplotlib.patches import Wedge

    start, stop = (math.degrees(angle) + 90 for angle in piece)
    stop = min(stop, start + 360)
    outer = RADIUS + thickness / 2
    axes.add_patch(Wedge((0, 0), outer, start, stop, width=thickness, clip_on=False, **style))


def _draw_head(axes: "Axes", angle: float) -> None:
    """A pin on the band, where the head points now."""
    ends = [_point(angle, RADIUS + reach * BAND) for reach in (-0.75, 0.75)]
    axes.plot(*zip(*ends, strict=True), color=INK, lw=2.2, solid_capstyle="round", clip_on=False)


def _explain(axes: "Axes", panel: ArcPanel, headline: "Text") -> None:
    """Words beside the parts of the first sprite, in place of a legend."""
    arcs = _Arcs.of(panel, 0)
    taken = [headline.get_window_extent()]
    parts = (
        ("head", [(arcs.head, arcs.head)]),
        ("too far", arcs.unsafe),
        ("safe,\nnot learned", arcs.unlearned_pieces),
        ("learned", arcs.used),
    )
    for words, pieces in parts:
        if pieces:
            taken.append(_label(axes, words, _longest(pieces), taken))


def _label(axes: "Axes", words: str, piece: Piece, taken: Sequence["Bbox"]) -> "Bbox":
    """Write beside the middle of an arc, or where on the arc nothing is written yet."""
    text = axes.text(0, 0, words, fontsize=9, color=INK, linespacing=0.95)
    for share in SPOTS:
        x, y = _point(piece[0] + share * (piece[1] - piece[0]), LABEL_RADIUS)
        side = "center" if abs(x) < 0.5 else "left" if x > 0 else "right"
        level = "center" if abs(y) < 1.3 else "bottom" if y > 0 else "top"
        text.set(x=x, y=y, ha=side, va=level)
        box = text.get_window_extent()
        if not any(box.padded(APART).overlaps(other) for other in taken):
            break
    return box
