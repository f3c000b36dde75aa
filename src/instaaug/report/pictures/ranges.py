"""The ranges of some inputs below one another, a column per parameter, so that they compare."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from instaaug.augmentation.observed import Observed, ObservedFactor
from instaaug.errors import ArgumentError
from instaaug.report.pictures.columns import Column, ColumnGroup
from instaaug.report.pictures.input_rows import InputRows
from instaaug.report.pictures.range_columns import Scalar, choice_column, dial_column, scalars
from instaaug.report.pictures.sample_columns import sample_column
from instaaug.report.pictures.segments import Segment, draw_segments
from instaaug.report.units import spoken
from instaaug.spaces import Choices

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_ranges"]

HIGHEST, LEAST = 0.95, 0.75  # inches: rows are low, so that neighbors are close
SEGMENT = 1.9  # width, in heights


def draw_ranges(
    observed: Observed, *, titles: Sequence[str] | None = None, n_samples: int = 4
) -> "Figure":
    """Show for each input the learned range of every parameter, and samples.

    The thin part of a segment is admissible, the thick part learned; the tick is the value that
    changes nothing; dots were drawn. Circular parameters are dials, choices are bars. Angles are
    in degrees, factors have a "×". Boxes are left out; ``draw_crops`` and ``draw_inputs`` show
    them.

    Arguments:
        observed: At most 12 inputs.
        titles: A line per input.
        n_samples: Samples of each input.

    Raises:
        ArgumentError: If there is no parameter to show, or more than fit.

    Example:
        >>> from instaaug import InstaAug, transforms as T
        >>> from instaaug.augmentation.observed import observe
        >>> seen = observe(InstaAug([T.Rotation(), T.Scale()]), torch.rand(2, 3, 32, 32))
        >>> [text.get_text() for text in draw_ranges(seen).texts]
        ['input', 'rotation', 'angle', 'scale', 'factor', 'samples', '']
    """
    if n_samples < 1:
        raise ArgumentError(f"`n_samples` must be at least 1: got {n_samples}.")
    pairs = ((factor.name, tuple(_columns(factor))) for factor in observed.factors)
    groups = [ColumnGroup(spoken(name), columns) for name, columns in pairs if columns]
    if not groups:
        raise ArgumentError(
            "`observed` must have a factor with ranges or choices: got "
            f"{', '.join(factor.name for factor in observed.factors) or 'none'}. Draw others "
            "with draw_inputs."
        )
    columns = min(n_samples, len(observed.samples))
    samples = sample_column(observed.samples, lines=1, columns=columns)
    groups.append(ColumnGroup("samples", (samples,)))
    rows = InputRows(observed.images, groups, titles, highest=HIGHEST)
    if rows.tile < LEAST:
        raise ArgumentError(
            "`observed` must have fewer parameters to be drawn side by side: got "
            f"{sum(len(group.columns) for group in groups) - 1}. Draw some of them: "
            "dataclasses.replace(observed, factors=observed.factors[:3])."
        )
    return rows.draw()


def _columns(factor: ObservedFactor) -> Iterator[Column]:
    if isinstance(factor.space, Choices):
        yield choice_column(factor, factor.space)
    for scalar in scalars(factor):
        if scalar.is_circular:
            yield dial_column(scalar)
        else:
            yield Column(scalar.label, SEGMENT, partial(_draw_segment, scalar))


def _draw_segment(scalar: Scalar, axes: "Axes", i: int) -> None:
    segment = Segment("", scalar.parameter, scalar.span(i), scalar.values(i))
    draw_segments(axes, [segment], room_for=2)
