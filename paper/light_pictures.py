"""The same textures under many lights, and which of the lights are trained with."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.data.rawfoot import EASY_LIGHTS
from instaaug.errors import ArgumentError, ShapeError
from instaaug.report.pictures.sheet import Sheet, draw_pixels, pixels, sheet, size_in_inches
from instaaug.report.theme import INK, MUTED
from instaaug.shapes import check_images
from paper.lights import LIGHTS, Light, relight

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_lights"]

MOST_TEXTURES = 6
COLUMNS = 12
TILE = 0.78  # inches, like all that follows
RIM, MARGIN, GAP, NAMES, FOOT = 0.045, 0.15, 0.14, 0.32, 0.5
NARROWEST = 3.3  # so that the key fits
FRAMES: dict[str, dict[str, Any]] = {
    "train": {"linewidth": 3.2, "color": INK, "linestyle": "-"},
    "test, easy": {"linewidth": 1.0, "color": MUTED, "linestyle": "-"},
    "test, hard": {"linewidth": 1.4, "color": INK, "linestyle": (0, (2, 2))},
}
TRAIN, EASY, HARD = FRAMES


def draw_lights(
    textures: Float[Tensor, "*photos"],  # shapes are checked below, with words of our own
    *,
    lights: Sequence[int] | None = None,
    train: Collection[int] = (15,),
) -> "Figure":
    """Show the same textures under each light, its number and name above them.

    A thick frame marks the lights that are trained with; of the others a thin one those that the
    paper calls easy, for they resemble D45, a dashed one those that it calls hard. The lights are
    simulated (``paper/rawfoot_lights.md``).

    Arguments:
        textures: Color images in [0, 1], taken under daylight; at most 6.
        lights: Numbers of the lights, from 1 to 46; all by default.
        train: Numbers of those that are trained with; the paper's D45 by default.

    Raises:
        ShapeError: If the textures cannot be shown.
        ArgumentError: If there is no such light.

    Example:
        >>> drawing = draw_lights(torch.rand(2, 3, 16, 16), lights=[15, 44])
        >>> [text.get_text() for text in drawing.texts][:4]
        ['15 train', 'D45, 4500 K', '44', 'red']
    """
    numbers = list(range(1, len(LIGHTS) + 1)) if lights is None else list(lights)
    _check(textures, numbers, train)
    textures = textures.detach().cpu().float()
    n, _, height, width = textures.shape
    stack = TILE * height / width * n
    columns = min(COLUMNS, len(numbers))
    rows = -(-len(numbers) // columns)
    across, down = TILE + 2 * RIM + GAP, NAMES + stack + 2 * RIM + 0.08
    page_width = max(2 * MARGIN + columns * across - GAP, NARROWEST)
    with sheet(page_width, MARGIN + rows * down + FOOT) as page:
        for k, number in enumerate(numbers):
            row, column = divmod(k, columns)
            left, top = MARGIN + column * across, MARGIN / 2 + row * down
            light = LIGHTS[number - 1]
            _write_name(page, light, left, top, is_train=number in train)
            axes = page.panel(left + RIM, top + NAMES + RIM, TILE, stack)
            lit = relight(textures, light)
            draw_pixels(axes, pixels(torch.cat(lit.unbind(), dim=1)), fill=True)
            _frame(axes, _kind(number, train))
        _draw_key(page, {_kind(number, train) for number in numbers})
    return page.canvas


def _kind(number: int, train: Collection[int]) -> str:
    if number in train:
        return TRAIN
    return EASY if number in EASY_LIGHTS else HARD


def _write_name(page: Sheet, light: Light, left: float, top: float, *, is_train: bool) -> None:
    words = str(light.number) + (" train" if is_train else "")
    page.write(left, top + 0.1, words, fontsize=6.5, fontweight="bold")
    page.write(left, top + 0.23, _name(light), fontsize=6.5, room=TILE + 2 * RIM + GAP / 2)


def _name(light: Light) -> str:
    """The name; with the temperature, if the light is nothing but a color."""
    digits = light.color[1:]
    if light.name != light.color or not digits.isdecimal():
        return light.name
    return f"{light.name}, {digits}00 K"


def _frame(axes: "Axes", kind: str) -> None:
    """A rectangle at a little distance around the axes."""
    from matplotlib.patches import Rectangle

    x, y = (RIM / inches for inches in size_in_inches(axes))
    frame = Rectangle((-x, -y), 1 + 2 * x, 1 + 2 * y, transform=axes.transAxes, **FRAMES[kind])
    frame.set(fill=False, clip_on=False)
    axes.add_patch(frame)


def _draw_key(page: Sheet, kinds: Collection[str]) -> None:
    """What the frames mean, below all."""
    left, top = MARGIN, page.height - 0.24
    for kind in (kind for kind in FRAMES if kind in kinds):
        _frame(page.panel(left + 0.06, top - 0.05, 0.14, 0.1), kind)
        text = page.write(left + 0.32, top, kind, fontsize=7.5)
        left += 0.6 + text.get_window_extent().width / page.canvas.dpi


def _check(textures: Tensor, lights: Sequence[int], train: Collection[int]) -> None:
    check_images(textures)
    n, channels = textures.shape[:2]
    if n > MOST_TEXTURES or channels != 3:
        raise ShapeError(
            f"`textures` must be at most {MOST_TEXTURES} color images: got {n} of {channels} "
            f"channels. Choose some with textures[:{MOST_TEXTURES}]."
        )
    for name, numbers in (("lights", lights), ("train", train)):
        wrong = [number for number in numbers if not 1 <= number <= len(LIGHTS)]
        if wrong or (name == "lights" and not numbers):
            raise ArgumentError(
                f"`{name}` must be numbers from 1 to {len(LIGHTS)}: got "
                f"{wrong[0] if wrong else 'none'}. paper/rawfoot_lights.md lists them."
            )
