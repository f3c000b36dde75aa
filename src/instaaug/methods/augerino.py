"""Augerino: learned ranges of affine transforms, crops or colors, the same for every input."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.augmentation import AugmentedBatch, Augmenter
from instaaug.augmentation.checks import check_call, check_losses
from instaaug.augmentation.settings import as_composition
from instaaug.augmentation.views import Select, choose_views
from instaaug.distributions import Joint, UniformBox
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.registry import METHODS
from instaaug.shapes import Images, Matrices, Rendered, Rows, check_images, repeat_batch
from instaaug.spaces import Interval, Parameter
from instaaug.transforms import Affine, Composition, Transform, UniformCrop
from instaaug.transforms.color import ColorTransform

__all__ = ["Augerino", "AugerinoColor", "AugerinoCrop", "LearnedRanges"]

CLOSED = -5.0  # a raw width of which softplus leaves 0.007
WIDEST = 10.0  # the safe form pays nothing from here on
UNITS = (0.05, 0.05, 1.0, 1.0, 1.0, 1.0)
"""θ per weight of a generator: the source scales translations by 0.1 of half an image side."""


class LearnedRanges(Augmenter, ABC):
    """Draws θ uniformly between ends that are learned, the same for every input.

    The ends learn from the loss by the pathwise gradient, and from a bonus for wide ranges whose
    weight stays what it is.

    Arguments:
        transform: What happens; all of its parameters lie on intervals.
        weight: λ, of the bonus.
        padding_mode: What lies outside of the image.
    """

    learns_from_training_loss = True
    chooses_transforms = True
    own_options = frozenset({"weight"})

    def __init__(
        self, transform: Composition, *, weight: float, padding_mode: PaddingMode
    ) -> None:
        super().__init__()
        if not (isfinite(weight) and weight >= 0):
            raise ArgumentError(
                f"`weight` must be a number of at least 0: got {weight}. With 0 wide ranges are "
                "worth nothing."
            )
        self.transform, self.weight = transform, weight
        self.padding_mode: PaddingMode = padding_mode
        factors = [p.multiplicative for p in _parameters(transform)]
        self.register_buffer("factors", torch.tensor(factors), persistent=False)

    factors: Tensor

    @abstractmethod
    def ends(self) -> Float[Tensor, "d 2"]:
        """Lower and upper end of every column of θ on its axis, with gradient."""

    @abstractmethod
    def bonus(self) -> Float[Tensor, ""]:
        """What is subtracted from the loss, ``weight`` times, with gradient."""

    def distribution(self, batch: int) -> Joint:
        """p(θ), for each of ``batch`` inputs."""
        boxes = {name: box.expand((batch,)) for name, box in self._boxes().items()}
        return Joint(boxes)

    def _boxes(self) -> dict[str, UniformBox]:
        spaces = self.transform.spaces
        ends = self.ends().split([space.size for space in spaces.values()])
        factors = self.factors.split([space.size for space in spaces.values()])
        return {
            name: UniformBox(part[..., 0], part[..., 1], multiplicative=mask)
            for name, part, mask in zip(spaces, ends, factors, strict=True)
        }

    @override
    def forward(
        self,
        x: Images,
        n_samples: int = 1,
        generator: Generator | None = None,
        targets: Tensor | None = None,
    ) -> AugmentedBatch:
        check_images(x)
        check_call(len(x), n_samples=n_samples, targets=targets, exact=False)
        joint = self.distribution(len(x))
        samples = joint.draw(n_samples, generator=generator)
        theta = joint.theta(samples)
        return AugmentedBatch(
            inputs=self.render(repeat_batch(x, n_samples), theta.flatten(0, 1)),
            targets=None if targets is None else repeat_batch(targets, n_samples),
            theta=theta,
            log_prob=joint.log_prob(tuple(s.detach() for s in samples)),
            entropy=joint.entropies(),
        )

    @override
    def objective(self, losses: Tensor, batch: AugmentedBatch) -> Tensor:
        """The mean loss minus ``weight`` times the bonus."""
        return check_losses(losses, batch).mean() - self.weight * self.bonus()

    @override
    def draw(
        self,
        x: Images,
        n_samples: int,
        *,
        select: Select = "sample",
        replace: bool = False,
        generator: Generator | None = None,
    ) -> Float[Tensor, "n batch d"]:
        joint = self.distribution(len(x))
        return choose_views(
            joint, n_samples, select=select, replace=replace, generator=generator
        ).theta

    @override
    def canonical(self, x: Images) -> Rendered:
        return self.transform.resize(x, padding_mode=self.padding_mode)

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        return self.transform.apply(x, theta, padding_mode=self.padding_mode)

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        return self.transform.matrix(theta, aspect=aspect)

    @override
    def fixed_ranges(self) -> dict[str, list[tuple[float, float]]]:
        ends = {name: box.ends() for name, box in self._boxes().items()}
        return {
            name: list(zip(low.tolist(), high.tolist(), strict=True))
            for name, (low, high) in ends.items()
        }

    @override
    def monitor(self, batch: AugmentedBatch) -> Mapping[str, Tensor]:
        """Width of the range of every parameter, on its axis."""
        low, high = self.ends().detach().unbind(-1)
        return {f"width/{name}": high[i] - low[i] for i, name in enumerate(self._names())}

    @override
    def extra_repr(self) -> str:
        ranges = [pair for pairs in self.fixed_ranges().values() for pair in pairs]
        ends = zip(self._names(), ranges, strict=True)
        lines = [f"{name}: {low:.3g} to {high:.3g}" for name, (low, high) in ends]
        return "\n".join([*lines, f"weight of the bonus: {self.weight:g}"])

    def _names(self) -> list[str]:
        """Factor and parameter: the factors of brightness and of contrast share their name."""
        factors = [name for name, s in self.transform.spaces.items() for _ in range(s.size)]
        columns = self.transform.columns
        return [f"{factor}.{column}" for factor, column in zip(factors, columns, strict=True)]


@METHODS.register("augerino")
class Augerino(LearnedRanges):
    r"""Learns how far every input may be moved, turned, scaled, stretched and sheared.

    With the generators :math:`G_k` of the affine group (right, down, turn, grow, stretch, slant)
    and raw widths :math:`r`, the only six parameters, an input is warped by

    .. math:: \exp\Bigl(\sum_{k=1}^{6} w_k G_k\Bigr), \qquad
              w_k \sim \mathcal{U}\bigl(-\tfrac{1}{2}\,b_k, \tfrac{1}{2}\,b_k\bigr), \qquad
              b = \mathrm{softplus}(r),

    and the objective is :math:`\mathbb{E}[\ell] - \lambda\,\|b\|_2`. θ holds the coordinates of
    :class:`~instaaug.transforms.Affine`, in which the two translations are 0.05 w, a share of the
    image side; all else is w itself. It departs from the source in two ways: pixels are areas
    (``align_corners=False``), as everywhere in this library, and on an image that is not square
    a rotation stays a rotation.

    Arguments:
        weight: λ; the source has 0.01 for CIFAR-10 and 0.1 for rotated MNIST.
        start: Raw widths at the start; 0 stands for a width of 0.69.
        opened: Which generators start there, such as ``"turn"`` or ``"right+down"``; all others
            start nearly closed, at a raw width of -5, and may open. Rotated MNIST is
            ``start=1.0, opened="turn"``.
        safe: Whether the bonus ends as soon as any width reaches 10.
        mean: Per-channel mean the images were normalized with.
        std: Per-channel standard deviation the images were normalized with.
        padding_mode: What lies outside of the image.
        size: Output side, or height and width; the input's own by default.

    References:
        | Learning Invariances in Neural Networks (Benton et al., 2020)
        | https://arxiv.org/abs/2010.11882

    Example:
        >>> aug = Augerino(start=1.0, opened="turn")
        >>> low, high = aug.fixed_ranges()["affine"][2]
        >>> round(high, 2)  # half of softplus(1), in radians
        0.66
        >>> aug(torch.rand(4, 3, 16, 16), n_samples=2).inputs.shape
        torch.Size([8, 3, 16, 16])
    """

    units: Tensor

    def __init__(
        self,
        *,
        weight: float = 0.01,
        start: float = 0.0,
        opened: str = "all",
        safe: bool = True,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        farthest = WIDEST / 2
        affine = Affine(max_shift=UNITS[0] * farthest, max_turn=farthest, max_log_scale=farthest)
        transform = as_composition(affine, mean=mean, std=std, size=size)
        super().__init__(transform, weight=weight, padding_mode=padding_mode)
        if not isfinite(start):
            raise ArgumentError(f"`start` must be a finite raw width: got {start}. 0 is usual.")
        raw = [start if is_open else CLOSED for is_open in _is_open(opened, affine.columns)]
        self.safe = safe
        self.raw_widths = nn.Parameter(torch.tensor(raw))
        self.register_buffer("units", torch.tensor(UNITS), persistent=False)

    @classmethod
    @override
    def build(
        cls, context: Mapping[str, Any], options: Mapping[str, Any] | None = None
    ) -> Augmenter:
        """Augerino, or :class:`AugerinoColor` or :class:`AugerinoCrop`, as the transforms say."""
        transforms = context.get("transforms", "auto")
        parts = () if transforms == "auto" else as_composition(transforms).transforms
        if all(isinstance(part, Affine) for part in parts):
            return super().build(context, options)
        if all(isinstance(part, ColorTransform) for part in parts):
            return AugerinoColor.build(context, options)
        if all(isinstance(part, UniformCrop) for part in parts):
            return AugerinoCrop.build(context, options)
        raise ArgumentError(
            "`transforms` must be affine (or auto), uniform_crop or colors for augerino: got "
            f"{', '.join(part.name for part in parts)}. For one learned range of other transforms "
            'take instaaug with conditioning="none"; for rotations alone set `method.opened` to '
            '"turn".'
        )

    def widths(self) -> Float[Tensor, " 6"]:
        """b, of the weights of the six generators, with gradient."""
        return F.softplus(self.raw_widths)

    @override
    def ends(self) -> Float[Tensor, "d 2"]:
        half = self.units * self.widths() / 2
        return torch.stack([-half, half], dim=-1)

    @override
    def bonus(self) -> Float[Tensor, ""]:
        """‖b‖, or nothing in the safe form if any width has reached 10."""
        widths = self.widths()
        norm = torch.linalg.vector_norm(widths)
        return norm * (widths < WIDEST).all() if self.safe else norm


def _parameters(transform: Composition) -> list[Parameter]:
    spaces = transform.spaces.values()
    return [p for s in spaces if isinstance(s, Interval) for p in s.parameters]


def _is_open(opened: str, known: Sequence[str]) -> list[bool]:
    names = list(known) if opened == "all" else opened.split("+")
    for name in names:
        if name not in known:
            raise UnknownNameError("generator", name, ["all", *known])
    return [name in names for name in known]


@METHODS.register("augerino_color")
class AugerinoColor(LearnedRanges):
    r"""Learns how far the colors of every input may change, in either direction.

    Each parameter has two raw limits :math:`l`, which become shares :math:`s = 2\,\sigma(l) - 1`
    of the way from doing nothing to an end of its range; θ is uniform between the two. A range
    need neither be symmetric nor contain doing nothing. The objective is
    :math:`\mathbb{E}[\ell] - \lambda \sum_p |s_p^{\text{high}} - s_p^{\text{low}}|`.

    The source changes brightness and contrast, by formulas of its own; the InstaAug paper compares
    itself with hue, saturation and value, which are the default here.
    ``AugerinoColor(["contrast", "brightness"])`` does the former with this library's transforms.

    Arguments:
        transforms: Color transforms, or their names.
        weight: λ, how much wide ranges are rewarded.
        start: Raw limits at the start, one below and one above zero; 2 stands for 76% of the way.
        mean: Per-channel mean the images were normalized with; colors are changed without.
        std: Per-channel standard deviation the images were normalized with.
        padding_mode: What lies outside of an image that is resized.
        size: Output side, or height and width; the input's own by default.

    References:
        | Learning Invariances in Neural Networks (Benton et al., 2020)
        | https://arxiv.org/abs/2010.11882
        | Instance-Specific Augmentation: Capturing Local Invariances (Miao et al., 2022)
        | https://arxiv.org/abs/2206.00051

    Example:
        >>> aug = AugerinoColor(start=2.0)
        >>> hue, saturation, value = aug.fixed_ranges()["hsv_jitter"]
        >>> round(hue[1], 2), round(value[0], 2)  # 76% of half the circle; of one halving
        (0.38, 0.59)
    """

    ranges: Tensor

    def __init__(
        self,
        transforms: Transform | str | Sequence[Transform | str] = "hsv_jitter",
        *,
        weight: float = 0.1,
        start: float = 2.0,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        transform = as_composition(transforms, mean=mean, std=std, size=size)
        for part in transform.transforms:
            if not isinstance(part, ColorTransform):
                raise ArgumentError(
                    "`transforms` must change colors, pixel by pixel: got "
                    f"{part.name!r}. Augerino learns the affine ones."
                )
        super().__init__(transform, weight=weight, padding_mode=padding_mode)
        if not (isfinite(start) and start > 0):
            raise ArgumentError(f"`start` must be a number above 0: got {start}. 2 is usual.")
        parameters = _parameters(transform)
        rows = [[p.coordinate(end) for end in (p.low, p.identity, p.high)] for p in parameters]
        self.register_buffer("ranges", torch.tensor(rows), persistent=False)
        self.raw_low = nn.Parameter(torch.full((len(rows),), -start))
        self.raw_high = nn.Parameter(torch.full((len(rows),), start))

    def shares(self) -> Float[Tensor, "d 2"]:
        """s, of the two limits of every parameter, in (-1, 1), with gradient."""
        return 2 * torch.stack([self.raw_low, self.raw_high], dim=-1).sigmoid() - 1

    @override
    def ends(self) -> Float[Tensor, "d 2"]:
        shares = self.shares()
        low, identity, high = self.ranges.unsqueeze(-1).unbind(1)
        limits = identity + shares * torch.where(shares < 0, identity - low, high - identity)
        return torch.stack([limits.amin(dim=-1), limits.amax(dim=-1)], dim=-1)

    @override
    def bonus(self) -> Float[Tensor, ""]:
        """The sum of all widths, as shares."""
        low, high = self.shares().unbind(-1)
        return (high - low).abs().sum()


@METHODS.register("augerino_crop")
class AugerinoCrop(LearnedRanges):
    r"""Learns from where and how small every input may be cropped.

    θ is that of :class:`~instaaug.transforms.UniformCrop`: how far to the right and down, relative
    to the room that the size leaves, and the size. With raw widths :math:`r`, the only three
    parameters,

    .. math:: \theta_{1,2} \sim \mathcal{U}\bigl(-\tfrac{1}{2}\,b, \tfrac{1}{2}\,b\bigr), \qquad
              \theta_3 \sim \mathcal{U}(1 - b_3, 1), \qquad b = \mathrm{softplus}(r),

    and the objective is :math:`\mathbb{E}[\ell] - \lambda\,\|b\|_2`. The source has no crops; the
    InstaAug paper compares itself with Augerino for them, and says that Augerino's ranges are
    symmetric, uniform and the same for all inputs. That of the size cannot be symmetric: nothing
    is larger than the image. As in the source's safe form, the bonus ends as soon as any width
    reaches all that there is.

    Arguments:
        transforms: A :class:`~instaaug.transforms.UniformCrop`, or its name.
        weight: λ; the source has 0.01 for CIFAR-10.
        start: Raw widths at the start; 0 stands for a width of 0.69.
        mean: Per-channel mean the images were normalized with.
        std: Per-channel standard deviation the images were normalized with.
        padding_mode: What lies outside of an image that is resized.
        size: Output side, or height and width; the input's own by default.

    References:
        | Learning Invariances in Neural Networks (Benton et al., 2020)
        | https://arxiv.org/abs/2010.11882
        | Instance-Specific Augmentation: Capturing Local Invariances (Miao et al., 2022)
        | https://arxiv.org/abs/2206.00051

    Example:
        >>> right, down, size = AugerinoCrop().fixed_ranges()["uniform_crop"]
        >>> round(right[1], 2), round(size[0], 2)  # log 2 wide
        (0.35, 0.31)
    """

    below: Tensor
    identity: Tensor
    most: Tensor

    def __init__(
        self,
        transforms: Transform | str | Sequence[Transform | str] = "uniform_crop",
        *,
        weight: float = 0.01,
        start: float = 0.0,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        transform = as_composition(transforms, mean=mean, std=std, size=size)
        if not all(isinstance(part, UniformCrop) for part in transform.transforms):
            names = ", ".join(part.name for part in transform.transforms)
            raise ArgumentError(
                f"`transforms` must be uniform_crop: got {names}. Augerino learns the affine ones."
            )
        super().__init__(transform, weight=weight, padding_mode=padding_mode)
        if not isfinite(start):
            raise ArgumentError(f"`start` must be a finite raw width: got {start}. 0 is usual.")
        parameters = _parameters(transform)
        self.raw_widths = nn.Parameter(torch.full((len(parameters),), start))
        columns = {
            "identity": [p.identity for p in parameters],
            "below": [p.rooms[0] / p.width for p in parameters],
            "most": [p.width for p in parameters],
        }
        for name, values in columns.items():
            self.register_buffer(name, torch.tensor(values), persistent=False)

    def widths(self) -> Float[Tensor, " d"]:
        """b, with gradient."""
        return F.softplus(self.raw_widths)

    @override
    def ends(self) -> Float[Tensor, "d 2"]:
        widths = self.widths()
        # what is too wide is cut off without its gradient, so that the loss may narrow it again
        widths = widths - (widths - self.most).clamp(min=0).detach()
        low = self.identity - self.below * widths
        return torch.stack([low, low + widths], dim=-1)

    @override
    def bonus(self) -> Float[Tensor, ""]:
        """‖b‖, or nothing if any width has reached all that there is."""
        widths = self.widths()
        return torch.linalg.vector_norm(widths) * (widths < self.most).all()
