"""Images with samples of them, labeled, in one picture; needs nothing but Pillow."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from instaaug.report.theme import INK

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["SampleRow", "describe_prediction", "draw_samples"]

TILE, GAP, BELOW, MARGIN = 128, 8, 16, 20  # pixels, like all that follows
TITLE, LINE = 26, 20
FRAME, OUTLINE = 4, 2
LETTERS = 14
PAPER, QUIET = "white", "#566270"
COLORS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7")
"""Okabe and Ito's, which color-blind people tell apart."""


@dataclass(frozen=True)
class SampleRow:
    """One image, and what was made of it.

    Arguments:
        title: Its class, say, and the prediction.
        image: The image in [0, 1], gray or RGB.
        samples: Its samples in [0, 1], ``(n, C, h, w)``.
        outlines: Corners of what each sample shows of the image, in the frame in which it spans
            [-1, 1], ``(n, 4, 2)``; None if samples are not cut out of it.
    """

    title: str
    image: Float[Tensor, "c h w"]
    samples: Float[Tensor, "n c hs ws"]
    outlines: Float[Tensor, "n 4 2"] | None = None


def describe_prediction(true: str, predicted: str, p: float) -> str:
    """The title of an image whose class is known and predicted.

    Example:
        >>> describe_prediction("cat", "dog", 0.614)
        'cat  ·  predicted dog, 61%: wrong'
    """
    return f"{true}  ·  predicted {predicted}, {p:.0%}{'' if true == predicted else ': wrong'}"


def draw_samples(rows: Sequence[SampleRow], caption: str) -> "Image":
    """A row per image: its title, the image with the outlines of its samples, the samples.

    An outline has the color and the number of its sample.

    Arguments:
        rows: One at least, with equally many samples.
        caption: What the marks mean; broken into lines where it has to be.

    Example:
        >>> row = SampleRow("cat", torch.rand(3, 8, 8), torch.rand(4, 3, 8, 8))
        >>> draw_samples([row], "Left: the image.").size
        (728, 230)
    """
    from PIL import Image, ImageDraw

    n = max(len(row.samples) for row in rows)
    width = 2 * MARGIN + (n + 1) * (TILE + GAP) + GAP
    font = _font(LETTERS)
    words = _broken(caption, font, width - 2 * MARGIN)
    height = 2 * MARGIN + len(rows) * (TITLE + TILE + BELOW) + len(words) * LINE
    sheet = Image.new("RGB", (width, height), PAPER)
    pen = ImageDraw.Draw(sheet)
    for k, row in enumerate(rows):
        top = MARGIN + k * (TITLE + TILE + BELOW)
        pen.text((MARGIN, top), _fitted(row.title, font, width - 2 * MARGIN), INK, font)
        _draw_row(sheet, pen, row, top + TITLE)
    for k, line in enumerate(words):
        place = (MARGIN, height - MARGIN - (len(words) - k) * LINE + GAP)
        pen.text(place, line, QUIET, font)
    return sheet


def _draw_row(sheet: "Image", pen: Any, row: SampleRow, top: int) -> None:
    sheet.paste(_tile(row.image), (MARGIN, top))
    marked = row.outlines is not None
    if row.outlines is not None:
        for k, corners in reversed(list(enumerate(row.outlines))):
            _draw_outline(pen, corners, top, COLORS[k % len(COLORS)])
    for k, sample in enumerate(row.samples):
        left = MARGIN + (k + 1) * (TILE + GAP) + GAP
        sheet.paste(_tile(sample), (left, top))
        if marked:
            color = COLORS[k % len(COLORS)]
            box = (left, top, left + TILE - 1, top + TILE - 1)
            pen.rectangle(box, outline=color, width=FRAME)
            pen.rectangle((left, top, left + 20, top + 20), fill=color)
            pen.text((left + 10, top + 10), str(k + 1), "black", _font(LETTERS), anchor="mm")


def _draw_outline(pen: Any, corners: Float[Tensor, "4 2"], top: int, color: str) -> None:
    """A polygon on the image, dark around, within the tile."""
    inside = TILE - 1 - OUTLINE
    points = [
        (
            MARGIN + min(max((x + 1) / 2 * TILE, OUTLINE), inside),
            top + min(max((y + 1) / 2 * TILE, OUTLINE), inside),
        )
        for x, y in corners.tolist()
    ]
    closed = [*points, points[0]]
    pen.line(closed, fill="black", width=OUTLINE + 3, joint="curve")
    pen.line(closed, fill=color, width=OUTLINE + 1, joint="curve")


def _tile(image: Float[Tensor, "c h w"]) -> "Image":
    """The image, as large as its place; pixels of small ones stay visible."""
    from PIL import Image

    if image.shape[0] != 3:
        image = image.mean(dim=0, keepdim=True).expand(3, -1, -1)
    array = (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).contiguous().numpy()
    scale = TILE / max(array.shape[:2])
    size = (max(1, round(array.shape[1] * scale)), max(1, round(array.shape[0] * scale)))
    how = Image.Resampling.NEAREST if scale >= 2 else Image.Resampling.LANCZOS
    tile = Image.new("RGB", (TILE, TILE), PAPER)
    tile.paste(Image.fromarray(array).resize(size, how))
    return tile


def _font(size: int) -> Any:
    """Matplotlib's, which knows many alphabets, if it is installed; else Pillow's own."""
    from PIL import ImageFont

    found = find_spec("matplotlib")
    if found is not None and found.origin is not None:
        file = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
        if file.is_file():
            return ImageFont.truetype(str(file), size)
    return ImageFont.load_default(size)


def _fitted(text: str, font: Any, room: int) -> str:
    """The text on one line; an ellipsis marks what there is no room for."""
    line = " ".join(text.split())[:400]
    if font.getlength(line) <= room:
        return line
    while line and font.getlength(f"{line}…") > room:
        line = line[:-1]
    return f"{line.rstrip()}…"


def _broken(text: str, font: Any, room: int) -> list[str]:
    """The text in lines that are not wider than there is room."""
    lines: list[str] = []
    for word in text.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
