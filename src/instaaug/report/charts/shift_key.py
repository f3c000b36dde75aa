"""How settings become the look of a dot, color, filling and size; and the key that explains it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instaaug.report.theme import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DotLook", "SettingScale", "draw_key"]

COLORMAP, DARKEST, LIGHTEST = "viridis", 0.0, 0.82  # ordered in gray too; yellow is lost on white
SMALLEST, LARGEST = 5.0, 12.0  # diameters in points
PLAIN_SIZE = 8.0
EDGE = 1.4
MOST_SHOWN = 5  # values of a setting in the key
NEUTRAL = "#52606d"

Color = tuple[float, float, float]


@dataclass(frozen=True)
class SettingScale:
    """A setting and the values that it takes, in rising order."""

    name: str
    values: tuple[float, ...]

    def share(self, value: float) -> float:
        """0 for the smallest value, 1 for the largest; by rank, for jitters often double."""
        return self.values.index(value) / max(1, len(self.values) - 1)

    def shown(self) -> list[float]:
        """The values that the key lists: all, or as many from end to end."""
        n = len(self.values)
        if n <= MOST_SHOWN:
            return list(self.values)
        return [self.values[i * (n - 1) // (MOST_SHOWN - 1)] for i in range(MOST_SHOWN)]


@dataclass(frozen=True)
class DotLook:
    """What a dot looks like.

    Arguments:
        color: Of its edge, and of its filling if it is full.
        fill: From 0, white, to 1, full.
        size: Diameter in points.
    """

    color: Color | str
    fill: float = 1.0
    size: float = PLAIN_SIZE

    @classmethod
    def of(cls, scales: Sequence[SettingScale], settings: Mapping[str, float | int]) -> "DotLook":
        """The look of some values: the scales give color, filling and size, in this order."""
        shares = [scale.share(float(settings[scale.name])) for scale in scales]
        color = _shade(shares[0])
        fill = shares[1] if len(shares) > 1 else 1.0
        size = SMALLEST + shares[2] * (LARGEST - SMALLEST) if len(shares) > 2 else PLAIN_SIZE
        return cls(color, fill, size)

    def face(self) -> Color:
        """The color of the filling."""
        from matplotlib.colors import to_rgb

        red, green, blue = (1 - self.fill * (1 - part) for part in to_rgb(self.color))
        return red, green, blue

    def scatter_style(self) -> dict[str, Any]:
        """Arguments of ``Axes.scatter``."""
        return {
            "s": self.size**2,
            "facecolors": [self.face()],
            "edgecolors": [self.color],
            "linewidths": EDGE,
        }


def draw_key(
    canvas: "Figure",
    title: str,
    scales: Sequence[SettingScale],
    links: Mapping[str, float],
    link_color: str,
) -> None:
    """Explain the dots beside the axes: every setting with its values, and the lines.

    Arguments:
        canvas: The figure.
        title: What all dots are.
        scales: The settings, as given to `DotLook.of`.
        links: By setting, the width of the lines along it.
        link_color: Of these lines.
    """
    from matplotlib.lines import Line2D

    handles: list[Any] = []
    for i, scale in enumerate(scales):
        handles.append(Line2D([], [], ls="", label=scale.name))
        for value in scale.shown():
            look = _example(i, scale.share(value))
            handles.append(
                Line2D(
                    [],
                    [],
                    ls="",
                    marker="o",
                    ms=look.size,
                    mfc=look.face(),
                    mec=look.color,
                    mew=EDGE,
                    label=f"{value:g}",
                )
            )
    if links:
        handles.append(Line2D([], [], ls="", label="lines: only this changes"))
    for name, width in links.items():
        handles.append(Line2D([], [], color=link_color, lw=width, label=name))
    key = canvas.legend(
        handles=handles,
        loc="outside right upper",
        title=title,
        title_fontproperties={"weight": "bold", "size": 9},
        alignment="left",
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=1.6,
    )
    for handle, text in zip(handles, key.get_texts(), strict=True):
        if handle.get_linestyle() == "None" and handle.get_marker() in ("", "None", None):
            text.set_fontweight("bold")


def _shade(share: float) -> Color:
    from matplotlib import colormaps

    red, green, blue, _ = colormaps[COLORMAP](LIGHTEST - share * (LIGHTEST - DARKEST))
    return float(red), float(green), float(blue)


def _example(i: int, share: float) -> DotLook:
    """A dot that differs from others in the ``i``-th setting alone."""
    if i == 0:
        return DotLook(_shade(share))
    if i == 1:
        return DotLook(NEUTRAL, fill=share)
    return DotLook(NEUTRAL, size=SMALLEST + share * (LARGEST - SMALLEST))
