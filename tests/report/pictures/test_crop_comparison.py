"""Methods are compared on the same photos, with one scale of probabilities."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.patches import StepPatch

from instaaug import transforms as T
from instaaug.augmentation.observed import Observed
from instaaug.errors import ArgumentError
from instaaug.report.pictures.boxes import ProbabilityInk
from instaaug.report.pictures.crops import draw_crop_comparison
from tests.support.drawn import assert_words_are_readable
from tests.support.observations import looked_at, photos, without_learning

CORNERS = T.Crop(((0.5, 2), (1.0, 1)), max_outside=0.0)


def sharpened(observed: Observed, row: int, p: float) -> Observed:
    """All inputs choose one box with probability p; the drawn boxes are that one."""
    (factor,) = observed.factors
    assert factor.probs is not None
    assert factor.table is not None
    k = factor.probs.shape[1]
    probs = torch.full_like(factor.probs, (1 - p) / (k - 1))
    probs[:, row] = p
    theta = factor.table[row].expand_as(factor.theta)
    return replace(observed, factors=(replace(factor, probs=probs, theta=theta),))


def groups() -> dict[str, Observed]:
    seen = looked_at(CORNERS)
    return {"one for all": sharpened(seen, 0, 0.5), "InstaAug": sharpened(seen, 4, 0.9)}


def test_each_method_has_boxes_centers_and_sizes_of_each_photo() -> None:
    figure = draw_crop_comparison(groups(), titles=["a", "b"])
    assert len(figure.axes) == 2 * (1 + 2 * 3) + 2
    assert [text.get_text() for text in figure.texts][:6] == [
        "input", "one for all", "boxes drawn", "centers, bright: likely", "share above size",
        "InstaAug",
    ]  # fmt: skip
    assert_words_are_readable(figure)


def test_edges_are_colored_on_one_scale() -> None:
    figure = draw_crop_comparison(groups())
    ink = ProbabilityInk(0.9)
    for axes, p in ((figure.axes[1], 0.5), (figure.axes[4], 0.9)):
        assert {patch.get_edgecolor() for patch in axes.patches} == {ink.edge(p)}


def test_sizes_come_from_probabilities_or_else_from_what_was_drawn() -> None:
    known = groups()["InstaAug"]  # mostly the whole image, which is the last box
    figure = draw_crop_comparison({"known": known, "drawn": without_learning(known)})
    shares = []
    for axes in (figure.axes[3], figure.axes[6]):
        line = [p for p in axes.patches if isinstance(p, StepPatch)][1]
        shares.append(line.get_data()[0].tolist())
    np.testing.assert_allclose(shares[0], [1.0, 0.9], atol=1e-6)
    np.testing.assert_allclose(shares[1], [1.0])
    assert len(draw_crop_comparison({"drawn": without_learning(known)}).axes) == 2 * 4 + 1


def test_likelier_boxes_lie_on_top() -> None:
    seen = groups()["InstaAug"]
    (factor,) = seen.factors
    assert factor.table is not None
    theta = factor.table[[4, 0, 4, 1, 2, 3], None].expand(-1, 2, -1)
    figure = draw_crop_comparison({"x": replace(seen, factors=(replace(factor, theta=theta),))})
    widths = [patch.get_width() for patch in figure.axes[1].patches]  # type: ignore[attr-defined]
    assert widths == [8, 8, 8, 8, 16, 16]


def test_what_cannot_be_compared_is_refused() -> None:
    seen = looked_at(CORNERS)
    others = looked_at(CORNERS, images=photos(3))
    with pytest.raises(ArgumentError, match="of the same images: got different ones"):
        draw_crop_comparison({"a": seen, "b": others})
    other_pixel = seen.images.clone()
    other_pixel[0, 0, 0, 0] = (other_pixel[0, 0, 0, 0] + 2 / 255) % 1
    with pytest.raises(ArgumentError, match="of the same images: got different ones"):
        draw_crop_comparison({"a": seen, "b": replace(seen, images=other_pixel)})
    rounded = replace(seen, images=seen.images * (1 + 1e-6))  # normalized, and back
    assert draw_crop_comparison({"a": seen, "b": rounded}).axes
    with pytest.raises(ArgumentError, match="`groups` must hold 1 to 3 methods: got 0"):
        draw_crop_comparison({})
    with pytest.raises(ArgumentError, match="choose boxes: 'turn' has the factors rotation"):
        draw_crop_comparison({"turn": looked_at(T.Rotation())})
