"""What an augmenter does to some inputs: distributions and samples, for figures and pages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from instaaug.augmentation.augmenter import Augmenter
from instaaug.augmentation.instaaug import InstaAug
from instaaug.augmentation.views import Select
from instaaug.distributions import FiniteTheta, RandomBoxes, ThetaDistribution, UniformBox
from instaaug.errors import ArgumentError
from instaaug.functional.affine import inverse
from instaaug.functional.boxes import move_points
from instaaug.networks.model_interface import Output, evaluation_mode
from instaaug.parameterizations import Family
from instaaug.shapes import Images, Rendered, repeat_batch
from instaaug.spaces import Space
from instaaug.transforms import Composition, Crop, Flip, GeometricTransform, Rotation

__all__ = ["Observed", "ObservedFactor", "observe"]


@dataclass(frozen=True)
class ObservedFactor:
    """One part of θ: where it may lie, what was found for each input, and what was drawn.

    Arguments:
        name: Of the factor: ``crop``, ``rotation``.
        space: All that it may be.
        theta: What was drawn for each of n views of B inputs, ``(n, B, D)``.
        entropy: Of the learned distribution, in nats, ``(B,)``; None where nothing is learned.
        max_entropy: What it can be at most.
        band: H_min and H_max; None where nothing holds the entropy in it.
        table: The K rows that a finite factor chooses from, ``(K, D)``.
        probs: How probable each of them is, ``(B, K)``.
        low: Lower ends of the ranges of other factors, learned or set by hand, ``(B, D)``.
        high: Upper ends.
        origin: What the ranges lie around, ``(B, D)``; None says where nothing happens.
    """

    name: str
    space: Space
    theta: Float[Tensor, "n batch d"]
    entropy: Float[Tensor, " batch"] | None = None
    max_entropy: float | None = None
    band: tuple[float, float] | None = None
    table: Float[Tensor, "k d"] | None = None
    probs: Float[Tensor, "batch k"] | None = None
    low: Float[Tensor, "batch d"] | None = None
    high: Float[Tensor, "batch d"] | None = None
    origin: Float[Tensor, "batch d"] | None = None


@dataclass(frozen=True)
class Observed:
    """Some inputs, and what an augmenter makes of them.

    Arguments:
        images: The inputs, in [0, 1].
        samples: The first m views as the model sees them, in [0, 1], ``(m, B, C, H, W)``.
        theta: What made them, ``(n, B, D)``.
        factors: θ, part by part.
        weight: How much each view counts, ``(n, B)``; None says equally.
        outlines: The corners of what each view shows of its image, in the normalized frame, ``(n,
            B, 4, 2)``; None where that is an upright box that θ itself tells, or all of the image.
    """

    images: Images
    samples: Float[Tensor, "m batch channels _ _"]
    theta: Float[Tensor, "n batch d"]
    factors: tuple[ObservedFactor, ...]
    weight: Float[Tensor, "n batch"] | None = None
    outlines: Float[Tensor, "n batch 4 2"] | None = None


@torch.no_grad()
def observe(
    augmenter: Augmenter,
    x: Images,
    n_samples: int = 8,
    *,
    n_rendered: int | None = None,
    model: nn.Module | None = None,
    output: Output | None = None,
    select: Select | None = None,
    replace_drawn: bool = True,
    targets: Tensor | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    generator: Generator | None = None,
) -> Observed:
    """The distributions of some inputs and samples of them; the augmenter is not changed.

    Arguments:
        augmenter: Any; one that learns also shows what it has learned.
        x: Inputs as the model takes them.
        n_samples: Views of each.
        n_rendered: How many of them are rendered; all by default.
        model: The one that is to predict, for an augmenter that reads its features.
        output: Picks the tensor out of what the model returns.
        select: How views are chosen; the augmenter's own way by default.
        replace_drawn: Whether the same choice may be drawn twice, as in training.
        targets: Labels, for an augmenter that learns per class.
        mean: Per-channel mean the inputs were normalized with; the augmenter's own by default.
        std: Per-channel standard deviation they were normalized with.
        generator: Source of randomness.

    Example:
        >>> from instaaug.transforms import Crop
        >>> seen = observe(InstaAug(Crop()), torch.rand(2, 3, 32, 32), n_samples=4)
        >>> seen.samples.shape, seen.factors[0].probs.shape
        (torch.Size([4, 2, 3, 32, 32]), torch.Size([2, 321]))
    """
    if n_samples < 1:
        raise ArgumentError(f"`n_samples` must be at least 1: got {n_samples}.")
    with evaluation_mode(augmenter):
        views = augmenter.views(
            x, n_samples, model=model, output=output, select=select or augmenter.select,
            replace=replace_drawn, generator=generator,
        )  # fmt: skip
        shown = views.theta[:n_rendered]
        rendered = augmenter.render(repeat_batch(x, len(shown)), shown.flatten(0, 1))
        factors = _factors(augmenter, x, views.theta, targets)
    transform = getattr(augmenter, "transform", None)
    if isinstance(transform, Composition) and mean is None and std is None:
        mean, std = transform.mean, transform.std
    return Observed(
        images=_in_unit_range(x, mean, std).cpu(),
        samples=_in_unit_range(rendered, mean, std).cpu().unflatten(0, (len(shown), len(x))),
        theta=views.theta.cpu(),
        factors=factors,
        weight=None if views.weight is None else views.weight.cpu(),
        outlines=_outlines(augmenter, x, views.theta),
    )


def _outlines(
    augmenter: Augmenter, x: Images, theta: Float[Tensor, "n batch d"]
) -> Float[Tensor, "n batch 4 2"] | None:
    transform = getattr(augmenter, "transform", None)
    if not isinstance(transform, Composition):
        return None
    geometric = [t for t in transform.transforms if isinstance(t, GeometricTransform)]
    if all(isinstance(t, Crop | Flip) for t in geometric) or all(
        isinstance(t, Rotation | Flip) for t in geometric
    ):
        return None
    corners = theta.new_tensor([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    matrix = transform.matrix(theta.flatten(0, 1), aspect=x.shape[-1] / x.shape[-2])
    seen = move_points(corners.expand(len(matrix), 4, 2), inverse(matrix))
    return seen.unflatten(0, theta.shape[:2]).cpu()


def _factors(
    augmenter: Augmenter, x: Images, theta: Float[Tensor, "n batch d"], targets: Tensor | None
) -> tuple[ObservedFactor, ...]:
    transform = getattr(augmenter, "transform", None)
    if not isinstance(transform, Composition):
        return ()  # its θ has no names
    spaces = transform.spaces
    drawn = theta.cpu().split([space.size for space in spaces.values()], dim=-1)
    parts = list(zip(spaces.items(), drawn, strict=True))
    if not isinstance(augmenter, InstaAug):
        return _fixed_factors(augmenter, parts)
    joint = augmenter.distribution(x, targets)
    families = zip(augmenter.phi.names, augmenter.phi.families, strict=True)
    most = {n: family.max_entropy for n, family in families if isinstance(family, Family)}
    return tuple(
        _add_distribution(
            ObservedFactor(
                name,
                space,
                part,
                max_entropy=most[name],
                band=augmenter.band_of(name) if augmenter.holds_factors else None,
            ),
            joint[name],
        )
        for (name, space), part in parts
    )


def _fixed_factors(
    augmenter: Augmenter, parts: Sequence[tuple[tuple[str, Space], Tensor]]
) -> tuple[ObservedFactor, ...]:
    ranges = augmenter.fixed_ranges()
    factors = []
    for (name, space), part in parts:
        low = high = None
        if name in ranges:
            ends = torch.tensor(ranges[name]).expand(part.shape[1], -1, -1)
            low, high = ends.unbind(-1)
        factors.append(ObservedFactor(name, space, part, low=low, high=high))
    return tuple(factors)


def _add_distribution(seen: ObservedFactor, factor: ThetaDistribution) -> ObservedFactor:
    if isinstance(factor, RandomBoxes):  # the class is unknown: nothing learned is in use
        return seen
    batch = seen.theta.shape[1]
    seen = replace(seen, entropy=factor.entropy().cpu().expand(batch))
    if isinstance(factor, FiniteTheta):
        probs = factor.logits.softmax(dim=-1).cpu()
        return replace(seen, table=factor.table.cpu(), probs=probs.expand(batch, -1))
    if isinstance(factor, UniformBox):
        low, high = (end.cpu().expand(batch, -1) for end in factor.ends())
        middle = factor.middle()
        origin = None if middle is None else middle.cpu().expand(batch, -1)
        return replace(seen, low=low, high=high, origin=origin)
    return seen


def _in_unit_range(
    x: Rendered, mean: Sequence[float] | None, std: Sequence[float] | None
) -> Rendered:
    if mean is not None and std is not None:
        scale, shift = (x.new_tensor(values).view(1, -1, 1, 1) for values in (std, mean))
        x = x * scale + shift
    return x.clamp(0, 1).float()
