"""Which columns show which factor of θ."""

from collections.abc import Sequence
from math import exp

from instaaug.augmentation.observed import Observed, ObservedFactor
from instaaug.report.pictures.box_columns import box_columns
from instaaug.report.pictures.color_columns import color_columns, is_color
from instaaug.report.pictures.columns import Column, ColumnGroup
from instaaug.report.pictures.range_columns import (
    choice_column,
    dial_column,
    scalars,
    segment_columns,
)
from instaaug.report.units import percent, spoken
from instaaug.shapes import Images
from instaaug.spaces import Boxes, Choices

__all__ = ["factor_columns", "factor_groups"]


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
            groups.append(ColumnGroup(spoken(factor.name), columns, _captions(factor)))
    return groups + _segment_groups(waiting)


def factor_columns(factor: ObservedFactor, images: Images) -> tuple[Column, ...]:
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
    name = spoken(factors[0].name) if alone else "ranges"
    captions = _captions(factors[0]) if alone else ()
    return [ColumnGroup(name, tuple(segment_columns(found)), captions)]


def _captions(factor: ObservedFactor) -> tuple[str, ...]:
    if factor.entropy is None or factor.max_entropy is None:
        return ()
    shares = (exp(entropy - factor.max_entropy) for entropy in factor.entropy.tolist())
    return tuple(f"diversity {percent(share)}" for share in shares)
