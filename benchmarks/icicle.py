"""Two trees of times above one another on one scale: what was saved, and where.

python -m benchmarks.icicle BEFORE.json AFTER.json OUT.png [--enlarged]

Both files come from ``benchmarks.where_time_goes``, also what it writes into ``results``.
"""

import json
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from instaaug.report.theme import BLUE, GREEN, INK, MUTED, figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLORS", "MERGED", "Block", "Panel", "draw", "main", "merged", "number"]

MERGED = "…"
COLORS = {
    "φ forward": BLUE,
    "sampling": "#9fc9ec",
    "warp": GREEN,
    "color": "#e58a2e",
    "backward of warp and color": "#f6bf94",
    "backward of φ": "#123f66",
    "objective": "#f0e05a",
    "model forward": MUTED,
    "backward of the model": "#56636f",
    "optimizer": "#cbacd9",
    "other": "#e1e6eb",
    MERGED: "#f7f9fa",
}
"""By phase; no two are the same gray, and neighbors are far apart in it."""

AUGMENTATION = tuple(COLORS)[: tuple(COLORS).index("model forward")]
NAMES = {
    "all three": "crop, rotation and color",
    "16 times cheaper": "a PreActResNet-18 made 16 times cheaper",
}

SLIVER = 0.004  # of the longest step
FADING = 0.35  # how far operators are from the color of their phase to white
WIDTH, SIDE, HEAD, GAP, AXIS, KEY_ROW = 11.0, 0.3, 0.82, 0.3, 0.62, 0.24  # inches
ROWS = (0.34, 0.58, 1.2)  # inches: the step, phases, operators
FONTS = (9.5, 9.0, 7.0)
ALONG, ACROSS = 0.035, 0.02  # inches between a line of text and the edges of its block
DPI = 150
KEY_COLUMNS = 3


@dataclass
class Block:
    """A span of time, and the spans that it consists of.

    Arguments:
        name: Whose time it is.
        ms: How long.
        children: Together no longer than this one.
    """

    name: str
    ms: float = 0.0
    children: list["Block"] = field(default_factory=list)

    def child(self, name: str) -> "Block":
        """The child of this name, a new one if there is none."""
        for child in self.children:
            if child.name == name:
                return child
        self.children.append(Block(name))
        return self.children[-1]

    def to_json(self) -> dict[str, Any]:
        own = {"name": self.name, "ms": round(self.ms, 3)}
        return {**own, "children": [c.to_json() for c in self.children]} if self.children else own

    @classmethod
    def from_json(cls, known: dict[str, Any]) -> "Block":
        children = [cls.from_json(child) for child in known.get("children", ())]
        return cls(known["name"], known["ms"], children)


def merged(blocks: Iterable[Block], *, least: float) -> list[Block]:
    """Blocks of one name as one, longest first; all that are shorter than ``least`` as one.

    Example:
        >>> blocks = [Block("add", 1.0), Block("mul", 5.0), Block("add", 3.0), Block("sub", 0.5)]
        >>> [(block.name, block.ms) for block in merged(blocks, least=1.0)]
        [('mul', 5.0), ('add', 4.0), ('…', 0.5)]
    """
    by_name: dict[str, Block] = {}
    for block in blocks:
        same = by_name.setdefault(block.name, Block(block.name))
        same.ms += block.ms
        same.children = [*same.children, *block.children]
    rest = by_name.pop(MERGED, Block(MERGED)).ms
    rest += sum(b.ms for b in by_name.values() if b.ms < least)
    wide = [
        Block(b.name, b.ms, merged(b.children, least=least))
        for b in by_name.values()
        if b.ms >= least
    ]
    return sorted(wide, key=lambda b: -b.ms) + ([Block(MERGED, rest)] if rest > 0 else [])


@dataclass(frozen=True)
class Panel:
    """One measured step.

    Arguments:
        label: What distinguishes it.
        step: The step or a part of it; its children are phases, which keep their order.
        note: What else is to be said of its time.
    """

    label: str
    step: Block
    note: str


def draw(before: Panel, after: Panel, *, title: str, subject: str) -> "Figure":
    """Two steps above one another, each as rows of blocks, with a key that says the times.

    Arguments:
        before: Above.
        after: Below.
        title: What one sees.
        subject: Which training step this is, as a sentence.
    """
    panels = (before, after)
    longest = max(panel.step.ms for panel in panels)
    wide = {p.name for panel in panels for p in panel.step.children if p.ms >= SLIVER * longest}
    steps = [readable(panel.step, wide, least=SLIVER * longest) for panel in panels]
    names = [name for name in COLORS if any(name in times_of(step) for step in steps)]
    key = KEY_ROW * (1 + n_key_rows(names))
    body = len(panels) * sum(ROWS) + GAP
    height = HEAD + body + AXIS + key
    with figure(WIDTH, height) as drawing:
        drawing.set_layout_engine("none")
        drawing.set_dpi(DPI)
        place = (SIDE / WIDTH, (key + AXIS) / height, 1 - 2 * SIDE / WIDTH, body / height)
        axes = drawing.add_axes(place, xlim=(0, longest), ylim=(body, 0), yticks=[])
        quiet(axes)
        for i, (panel, step) in enumerate(zip(panels, steps, strict=True)):
            draw_rows(axes, panel, step, top=i * (sum(ROWS) + GAP))
        draw_saving(axes, before.step.ms, after.step.ms, top=sum(ROWS) + GAP)
        top, left = 1 - 0.14 / height, SIDE / WIDTH
        drawing.text(left, top, title, va="top", size=13, weight="bold")
        subtitle = f"{subject} Width is time. Below each phase are its operators."
        drawing.text(left, top - 0.3 / height, subtitle, va="top", size=10)
        draw_key(drawing, names, [times_of(step) for step in steps], height)
    return drawing


def readable(step: Block, wide: Container[str], *, least: float) -> Block:
    """The step with phases in their order, and all that are not among the wide ones as one."""
    phases = [
        Block(p.name, p.ms, merged(p.children, least=least))
        for p in step.children
        if p.name in wide
    ]
    rest = sum(p.ms for p in step.children if p.name not in wide)
    return Block(step.name, step.ms, phases + ([Block(MERGED, rest)] if rest > 0 else []))


def times_of(step: Block) -> dict[str, float]:
    return {phase.name: phase.ms for phase in step.children}


def quiet(axes: "Axes") -> None:
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_position(("outward", 6))
    axes.tick_params(axis="x", labelcolor=INK, color=MUTED, labelsize=8)
    axes.set_xlabel("milliseconds", size=8, labelpad=2, color=INK)


def draw_rows(axes: "Axes", panel: Panel, step: Block, *, top: float) -> None:
    words = f"{panel.label}: {number(step.ms)} ms"
    draw_block(axes, (0.0, top), step.ms, [f"{words} {panel.note}", words], INK)
    start = 0.0
    for phase in step.children:
        draw_block(
            axes, (start, top + ROWS[0]), phase.ms, labels_of(phase), COLORS[phase.name], row=1
        )
        x = start
        for operator in phase.children:
            color = faded(COLORS[phase.name])
            draw_block(
                axes, (x, top + ROWS[0] + ROWS[1]), operator.ms, labels_of(operator), color, row=2
            )
            x += operator.ms
        start += phase.ms


def labels_of(block: Block) -> list[str]:
    """What may be written into a block, best first."""
    if block.name == MERGED:
        return [MERGED]
    time = f"{number(block.ms)} ms"
    narrower = [wrapped(block.name, width) for width in range(len(block.name), 2, -1)]
    return [f"{block.name}  {time}", f"{block.name}\n{time}", *narrower]


def wrapped(name: str, width: int) -> str:
    """The name in lines of about this many letters, broken at spaces and underscores."""
    lines = [""]
    for part in re.split(r"(?=[ _])", name):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append(part.lstrip())
        else:
            lines[-1] += part
    return "\n".join(lines)


def draw_block(
    axes: "Axes", corner: tuple[float, float], ms: float, labels: Sequence[str], color: str, *,
    row: int = 0,
) -> None:  # fmt: skip
    """A block with the first label that fits into it, upright if need be; with none otherwise."""
    from matplotlib.patches import Rectangle

    (x, y), height = corner, ROWS[row]
    axes.add_patch(Rectangle(corner, ms, height, facecolor=color, edgecolor="white", lw=0.8))
    text = axes.text(
        x + ms / 2, y + height / 2, "", ha="center", va="center", size=FONTS[row],
        linespacing=1.15, color="white" if lightness(color) < 0.53 else INK,
    )  # fmt: skip
    inch = axes.get_xlim()[1] / (WIDTH - 2 * SIDE)
    for angle, (beside, above) in {0: (ALONG, ACROSS), 90: (ACROSS, ALONG)}.items():
        for label in labels:
            text.set(text=label, rotation=angle)
            extent = text.get_window_extent().transformed(axes.transData.inverted())
            if extent.width + 2 * beside * inch <= ms and abs(extent.height) + 2 * above <= height:
                return
    text.remove()


def draw_saving(axes: "Axes", old: float, new: float, *, top: float) -> None:
    """What lies between the end of the second step and that of the first, in words if they fit."""
    if new >= old:
        return
    middle = top + ROWS[0] / 2
    axes.plot([old, old], [top, top + ROWS[0]], color=INK, lw=1.0, clip_on=False)
    axes.plot([new, old], [middle, middle], color=INK, lw=1.0, ls=":")
    text = axes.text(
        old, top + ROWS[0] + ALONG, f"{number(old - new)} ms saved", ha="right", va="top",
        size=FONTS[0], weight="bold",
    )  # fmt: skip
    if text.get_window_extent().transformed(axes.transData.inverted()).x0 < new:
        text.remove()


def draw_key(
    drawing: "Figure", names: Sequence[str], times: Sequence[dict[str, float]], height: float
) -> None:
    from matplotlib.patches import Rectangle

    rows = n_key_rows(names)
    for i, name in enumerate(names):
        x = SIDE + i // rows * (WIDTH - 2 * SIDE) / KEY_COLUMNS
        y = KEY_ROW * (rows - i % rows)
        swatch = Rectangle(
            (x / WIDTH, (y - 0.075) / height), 0.2 / WIDTH, 0.15 / height,
            transform=drawing.transFigure, facecolor=COLORS[name], edgecolor=MUTED, lw=0.5,
        )  # fmt: skip
        drawing.add_artist(swatch)
        words = f"phases under {SLIVER:.1%}" if name == MERGED else name
        change = " → ".join(number(by_phase.get(name, 0.0)) for by_phase in times)
        spot = ((x + 0.28) / WIDTH, y / height)
        drawing.text(*spot, f"{words}:  {change} ms", va="center", size=9)


def n_key_rows(names: Sequence[str]) -> int:
    return -(-len(names) // KEY_COLUMNS)


def number(ms: float) -> str:
    return f"{ms:.0f}" if ms >= 10 or ms == 0 else f"{ms:.1f}"


def faded(color: str) -> str:
    from matplotlib.colors import to_hex, to_rgb

    red, green, blue = (c + (1 - c) * FADING for c in to_rgb(color))
    return str(to_hex((red, green, blue)))


def lightness(color: str) -> float:
    """What a color is in gray, from 0 to 1."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(color)
    return float(0.299 * red + 0.587 * green + 0.114 * blue)


def read(path: Path, model: str, transform: str) -> Panel:
    record = json.loads(path.read_text())
    findings = record.get("findings", record)
    case = findings["models"][model][transform]
    note = f"({number(case['plain_ms'])} ms without the profiler)"
    return Panel(findings["label"], Block.from_json(case["tree"]), note)


def augmentation(panel: Panel) -> Panel:
    """What augmentation does of a step."""
    phases = [phase for phase in panel.step.children if phase.name in AUGMENTATION]
    part = Block("augmentation", sum(phase.ms for phase in phases), phases)
    return Panel(panel.label, part, f"of {number(panel.step.ms)} ms")


def main(
    before: Path, after: Path, out: Path, *, model: str = "16 times cheaper",
    transform: str = "all three", enlarged: bool = False,
) -> None:  # fmt: skip
    """Draw the whole step, or augmentation alone if it is to be enlarged."""
    steps = [read(path, model, transform) for path in (before, after)]
    parts = [augmentation(panel) for panel in steps]
    (old, new), (of_old, of_new) = ([number(p.step.ms) for p in ps] for ps in (steps, parts))
    title = (
        f"Of a training step, augmentation takes {of_new} ms instead of {of_old}"
        if enlarged
        else f"A training step takes {new} ms instead of {old}, "
        f"augmentation {of_new} ms of it instead of {of_old}"
    )
    learned, learner = NAMES.get(transform, transform), NAMES.get(model, model)
    subject = f"Learned: {learned}, for {learner}."
    drawing = draw(*(parts if enlarged else steps), title=title, subject=subject)
    save_figure(drawing, out, dpi=DPI)


if __name__ == "__main__":
    typer.run(main)
