"""Inputs with all that was learned for them, factor by factor, and samples."""

from collections.abc import Sequence
from math import exp
from typing import TYPE_CHECKING

from torch import Generator, Tensor

from instaaug.augmentation import Augmenter
from instaaug.augmentation.observed import Observed, ObservedFactor, observe
from instaaug.errors import ArgumentError
from instaaug.report.pictures.boxes import box_columns
from instaaug.report.pictures.colors import color_columns, is_color
from instaaug.report.pictures.ranges import choice_column, dial_column, scalars, segment_columns
from instaaug.report.pictures.rows import ColumnGroup, InputRows, PanelColumn, sample_column
from instaaug.report.units import humanize, percent
from instaaug.shapes import Images
from instaaug.spaces import Boxes, Choices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_inputs", "factor_columns", "factor_groups", "plot"]

LEAST_TILE = 0.95  # inches: words in smaller panels could not be read
LEAST_SAMPLES = 4  # that there must be room for


def factor_groups(observed: Observed) -> list[ColumnGroup]:
    """The columns of all factors; neighbors that are mere segments share a group.

    Below a factor that is learned stands its diversity: the share of its space that the
    distribution covers.
    """
    groups: list[ColumnGroup] = []
    waiting: list[ObservedFactor] = []
    for factor in observed.factors:
        if _is_mere_segments(factor):
            waiting.append(factor)
            continue
        groups += _segment_groups(waiting)
        waiting = []
        if columns := factor_columns(factor, observed.images):
            groups.append(ColumnGroup(humanize(factor.name), columns, _captions(factor)))
    return groups + _segment_groups(waiting)


def factor_columns(factor: ObservedFactor, images: Images) -> tuple[PanelColumn, ...]:
    """Boxes by place and size, colors and circles as dials, choices as bars, else segments."""
    if isinstance(factor.space, Boxes):
        return tuple(box_columns(factor, images))
    if isinstance(factor.space, Choices):
        return (choice_column(factor, factor.space),)
    if is_color(factor.space):
        return tuple(color_columns(factor, images))
    found = scalars(factor)
    dials = [dial_column(s) for s in found if s.is_circular]
    return (*dials, *segment_columns([s for s in found if not s.is_circular]))


def _is_mere_segments(factor: ObservedFactor) -> bool:
    found = scalars(factor)
    return bool(found) and not is_color(factor.space) and not any(s.is_circular for s in found)


def _segment_groups(factors: Sequence[ObservedFactor]) -> list[ColumnGroup]:
    """One group, or none: the segments of one factor under its name, or of several with theirs."""
    if not factors:
        return []
    alone = len(factors) == 1
    found = [s for factor in factors for s in scalars(factor, alone=alone)]
    name = humanize(factors[0].name) if alone else "ranges"
    captions = _captions(factors[0]) if alone else ()
    return [ColumnGroup(name, tuple(segment_columns(found)), captions)]


def _captions(factor: ObservedFactor) -> tuple[str, ...]:
    if factor.entropy is None or factor.max_entropy is None:
        return ()
    shares = (exp(entropy - factor.max_entropy) for entropy in factor.entropy.tolist())
    return tuple(f"diversity {percent(share)}" for share in shares)


def draw_inputs(observed: Observed, *, titles: Sequence[str] | None = None) -> "Figure":
    """Show for each input what has been learned for it, factor by factor, and samples.

    Boxes are shown by the density of their centers, the likeliest of them, and their sizes;
    rotations and hues by dials; other ranges by segments, of which the thin part is admissible
    and the thick part learned; choices by bars. Where nothing is learned, the figure shows what
    was drawn. The diversity is the share of its space that a distribution covers.

    Arguments:
        observed: At most 12 inputs, as :func:`~instaaug.augmentation.observed.observe` gives
            them.
        titles: A line per input: its label, say, and the prediction.

    Raises:
        ShapeError: If there are more inputs than fit, or titles for other ones.
        ArgumentError: If there are more factors than fit.

    Example:
        >>> from instaaug import InstaAug, transforms as T
        >>> from instaaug.augmentation.observed import observe
        >>> seen = observe(InstaAug([T.Crop(), T.Rotation()]), torch.rand(2, 3, 32, 32))
        >>> drawing = draw_inputs(seen, titles=["cat", "dog"])
        >>> [text.get_text() for text in drawing.texts][:4]
        ['input', 'crop', 'centers, bright: likely', 'likeliest boxes']
    """
    groups = factor_groups(observed)
    lines = 2 if groups and len(observed.samples) > 1 else 1
    most = -(-len(observed.samples) // lines)
    least = min(most, LEAST_SAMPLES // lines)

    def rows(sacrifice: int, n_columns: int) -> InputRows:
        kept = [group.without(sacrifice) for group in groups]
        samples = sample_column(observed.samples, lines=lines, columns=n_columns)
        return InputRows(observed.images, [*kept, ColumnGroup("samples", (samples,))], titles)

    if observed.images.shape[-2] == 1:
        raise ArgumentError(
            "`observed` must have images of more than one row to be drawn: got signals. Their "
            "distributions are in aug.distribution(x)."
        )
    for sacrifice in (3, 2, 1):
        tile = rows(sacrifice, least).tile
        if tile >= LEAST_TILE:
            fitting = (n for n in range(most, 0, -1) if rows(sacrifice, n).tile >= tile)
            return rows(sacrifice, next(fitting)).draw()
    raise ArgumentError(
        "`observed` must have fewer factors to be drawn side by side: got "
        f"{len(observed.factors)}. Draw some of them: dataclasses.replace(observed, "
        "factors=observed.factors[:4])."
    )


def plot(
    augmenter: Augmenter,
    x: Tensor,
    n_samples: int = 8,
    *,
    targets: Tensor | None = None,
    titles: Sequence[str] | None = None,
    generator: Generator | None = None,
) -> "Figure":
    """A figure of inputs, what may happen to each, and samples; a notebook shows it.

    Arguments:
        augmenter: Any.
        x: A few images as the model takes them, or a single one.
        n_samples: Samples of each.
        targets: Labels, for an augmenter that learns per class.
        titles: What to write beside each image.
        generator: Source of randomness.

    Example:
        >>> import instaaug
        >>> figure = instaaug.plot(instaaug.InstaAug("crop"), torch.rand(2, 3, 32, 32))
        >>> figure.savefig("crops.png")  # doctest: +SKIP
    """
    x = x[None] if x.ndim == 3 else x
    seen = observe(augmenter, x, n_samples, targets=targets, generator=generator)
    return draw_inputs(seen, titles=titles)
