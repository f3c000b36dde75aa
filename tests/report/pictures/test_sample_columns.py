"""Samples stand side by side, in order."""

import numpy as np
import pytest
import torch

from instaaug.report.pictures.rows import mosaic, sample_column
from instaaug.report.pictures.sheet import sheet


def test_samples_follow_one_another_line_by_line() -> None:
    samples = torch.arange(5.0).view(5, 1, 1, 1).expand(5, 1, 25, 50) / 10
    whole = mosaic(samples, lines=2, columns=3)[0]
    assert whole.shape == (2 * 25 + 2, 3 * 50 + 2 * 2)
    assert whole[0, [0, 52, 104]].tolist() == pytest.approx([0.0, 0.1, 0.2])
    assert whole[27, [0, 52, 104]].tolist() == pytest.approx(
        [0.3, 0.4, 1.0]
    )  # the last is missing
    assert whole[0, 50] == 1  # between two


def test_a_column_is_as_wide_as_its_samples_and_shows_those_of_the_input() -> None:
    samples = torch.rand(4, 2, 3, 20, 20, generator=torch.Generator().manual_seed(0))
    column = sample_column(samples, lines=1, columns=4)
    assert column.width == pytest.approx((4 * 20 + 3 * 2) / 20)
    with sheet(5.0, 1.0) as page:
        axes = page.panel(0.0, 0.0, column.width, 1.0)
        column.draw(axes, 1)
    shown = np.asarray(axes.images[0].get_array())
    np.testing.assert_allclose(shown[:, 22:42], samples[1, 1].permute(1, 2, 0))
