"""Random augmentation: the same ranges for every input, set by hand."""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.functional.boxes import full_height, square_box
from instaaug.functional.warp import PaddingMode
from instaaug.methods.registry import METHODS
from instaaug.methods.simple import TransformAugmenter
from instaaug.shapes import Images, constant
from instaaug.spaces import Boxes, Choices, Interval, Parameter, Space
from instaaug.transforms import Transform

__all__ = ["RandomAugmentation"]


@METHODS.register("random")
class RandomAugmentation(TransformAugmenter):
    r"""Draws every parameter uniformly from a hand-set share of its range.

    A parameter with range [a, b] and identity e is drawn from
    :math:`[e - s\,(e - a),\; e + s\,(b - e)]`, and a factor, on the logarithmic axis that it is
    learned on, from :math:`[e\,(a/e)^s,\; e\,(b/e)^s]`; a box has a side drawn from ``sizes``
    and lies anywhere inside of the image; a choice is drawn from the whole table.

    The InstaAug paper sweeps the limits of color jitter: the hue moves by up to h = 0, 0.1, ...,
    0.5, which is a strength of 2 h here; its factors of saturation and value lie in 1 ± 0, 0.2,
    ..., 1, on an axis that is not logarithmic.

    Arguments:
        transforms: What may happen: a transform, a name, or a list of them.
        strength: s in [0, 1]; 0 does nothing. One for all, or by name: of a factor
            (``"rotation"``), of a parameter wherever it occurs (``"hue"``), or of both
            (``"hsv_jitter.hue"``). The more specific name wins; what is not named has all of its
            range.
        sizes: Smallest and largest side of a box, as fractions of the image side.
        mean: Per-channel mean the images were normalized with.
        std: Per-channel standard deviation the images were normalized with.
        padding_mode: What lies outside of the image.
        size: Output side, or height and width; the input's own by default.

    Example:
        >>> from instaaug.transforms import Crop
        >>> crops = RandomAugmentation(Crop(), sizes=(0.5, 0.5))
        >>> theta = crops.draw(torch.rand(2, 3, 32, 32), n_samples=4)
        >>> theta.shape, theta[..., 2:].unique()  # half of the image side, which is 2 long
        (torch.Size([4, 2, 4]), tensor([1.]))
        >>> RandomAugmentation("hsv_jitter", strength={"hue": 0.2, "value": 0.8})
        RandomAugmentation(hsv_jitter: hue 20%, saturation 100%, value 80% of its range)
    """

    own_options = frozenset({"sizes"})

    def __init__(
        self,
        transforms: Transform | str | Sequence[Transform | str],
        *,
        strength: float | Mapping[str, float] = 1.0,
        sizes: tuple[float, float] = (0.25, 1.0),
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        super().__init__(transforms, mean=mean, std=std, padding_mode=padding_mode, size=size)
        self.strength = _by_parameter(strength, self.transform.spaces)
        if not 0 < sizes[0] <= sizes[1] <= 1:
            raise ArgumentError(
                "`sizes` must be two sides of boxes with 0 < smallest ≤ largest ≤ 1: got "
                f"{sizes}. (0.25, 1.0) is a good start."
            )
        self.sizes = sizes

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:

        def draw(d: int) -> Tensor:
            return torch.rand(n_samples, len(x), d, generator=generator, device=x.device)

        parts = [
            self._draw_factor(space, self.strength[name], draw)
            for name, space in self.transform.spaces.items()
        ]
        return torch.cat(parts, dim=-1)

    def _draw_factor(
        self, space: Space, strength: Sequence[float], draw: Callable[[int], Tensor]
    ) -> Float[Tensor, "n batch d"]:
        if isinstance(space, Interval):
            columns = zip(
                space.parameters, _ends(space, strength), draw(space.size).unbind(-1), strict=True
            )
            drawn = [
                low * (high / low) ** u if p.multiplicative else low + (high - low) * u
                for p, (low, high), u in columns
            ]
            return torch.stack(drawn, dim=-1)
        if isinstance(space, Choices):
            share = draw(1)[..., 0]
            rows = torch.stack([constant(row, like=share) for row in space.rows])
            return rows[(share * len(rows)).long()]
        assert isinstance(space, Boxes)  # noqa: S101  # the three kinds of spaces
        smallest, largest = self.sizes
        size = smallest + (largest - smallest) * draw(1)
        box = square_box(size, draw(2))
        return full_height(box) if space.whole_height else box

    @override
    def fixed_ranges(self) -> dict[str, list[tuple[float, float]]]:
        spaces = self.transform.spaces.items()
        return {n: _ends(s, self.strength[n]) for n, s in spaces if isinstance(s, Interval)}

    @override
    def extra_repr(self) -> str:
        lines = []
        for name, space in self.transform.spaces.items():
            if isinstance(space, Boxes):
                lines.append(f"{name}: boxes of side {self.sizes[0]:g} to {self.sizes[1]:g}")
            elif isinstance(space, Choices):
                lines.append(f"{name}: {len(space.rows)} choices")
            else:
                shares = _describe_strength(space, self.strength[name])
                lines.append(f"{name}: {shares} of its range")
        return "\n".join(lines)


def _by_parameter(
    strength: float | Mapping[str, float], spaces: Mapping[str, Space]
) -> dict[str, list[float]]:
    """By factor, the strength of each of its parameters."""
    given = strength if isinstance(strength, Mapping) else dict.fromkeys(spaces, strength)
    parameters = {
        factor: space.parameters if isinstance(space, Interval) else ()
        for factor, space in spaces.items()
    }
    learned = [(f, p.name) for f, owned in parameters.items() for p in owned if p.learned]
    short = {*spaces, *(name for _, name in learned)}
    known = short | {f"{factor}.{name}" for factor, name in learned}
    for name, value in given.items():
        if name not in known:
            raise UnknownNameError("factor or parameter", name, short)
        if not 0 <= value <= 1:
            raise ArgumentError(f"`strength` must lie in [0, 1]: got {value} for {name!r}.")

    def strength_of(factor: str, parameter: Parameter) -> float:
        names = (f"{factor}.{parameter.name}", parameter.name, factor) if parameter.learned else ()
        return next((float(given[name]) for name in names if name in given), 1.0)

    return {f: [strength_of(f, p) for p in owned] for f, owned in parameters.items()}


def _ends(space: Interval, strength: Sequence[float]) -> list[tuple[float, float]]:
    """What each parameter is drawn between."""
    return [p.ends_at(s, s) for p, s in zip(space.parameters, strength, strict=True)]


def _describe_strength(space: Interval, strength: Sequence[float]) -> str:
    """The strength of the learned parameters, once if it is that of all."""
    shares = {
        p.name: f"{s:.0%}" for p, s in zip(space.parameters, strength, strict=True) if p.learned
    }
    if len(set(shares.values())) == 1:
        return next(iter(shares.values()))
    return ", ".join(f"{name} {share}" for name, share in shares.items())
