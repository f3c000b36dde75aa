"""Glyphs in clutter: the truth that φ is asked for."""

import torch

from benchmarks.phi_resolution import GLYPH, SIDE, glyphs, shapes, shows_glyph


def test_the_glyph_is_where_the_center_says() -> None:
    data = glyphs(20, torch.Generator().manual_seed(0))
    corners = ((data.centers + 1) * SIDE / 2 - GLYPH / 2).round().long()
    for image, shape, (column, row) in zip(
        data.images, data.classes, corners.tolist(), strict=True
    ):
        place = image[:, row : row + GLYPH, column : column + GLYPH]
        painted = place[:, shapes()[shape] > 0]
        assert torch.equal(painted, painted[:, :1].expand_as(painted))  # one color
        assert (painted >= 0.5).all()


def test_a_crop_shows_the_glyph_if_all_of_it_is_inside() -> None:
    side = 2 * GLYPH / SIDE
    center = torch.tensor([[0.25, -0.5]])
    whole, tight = [0.0, 0.0, 2.0, 2.0], [0.25, -0.5, side, side]
    beside, cut = [0.25, 0.5, 0.5, 0.5], [0.25, -0.45, side, side]
    boxes = torch.tensor([whole, tight, beside, cut])
    assert shows_glyph(boxes, center).tolist() == [[True, True, False, False]]
