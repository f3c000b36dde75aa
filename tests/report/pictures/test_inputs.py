"""Inputs are shown with what was learned for them, and samples."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from instaaug import transforms as T
from instaaug.augmentation.observed import Observed, observe
from instaaug.errors import ArgumentError, ShapeError
from instaaug.methods import FixedViews, NoAugmentation, RandAugment, RandomAugmentation
from instaaug.report.pictures.inputs import draw_inputs
from instaaug.report.pictures.rows import mosaic, sample_column
from instaaug.report.pictures.sheet import sheet
from instaaug.report.theme import save_figure
from instaaug.transforms import Transform
from tests.support.drawn import assert_words_are_readable
from tests.support.observations import looked_at, photos, without_learning

SIX = [T.Crop(), T.Rotation(), T.HSVJitter(), T.Flip(vertical=True), T.Translate(), T.Blur()]


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def assert_is_sound(figure: Figure) -> None:
    """Words can be read, panels do not hide one another, and the figure is not too large."""
    assert_words_are_readable(figure)
    width, height = figure.get_size_inches()
    assert width <= 16.01
    assert height <= 20.01
    places = [axes.get_window_extent() for axes in figure.axes]
    assert not [(a, b) for a, b in combinations(places, 2) if a.padded(-1).overlaps(b)]
    assert all(place.x1 <= figure.bbox.x1 and place.y0 >= 0 for place in places)


@pytest.mark.parametrize(
    ("transforms", "headings"),
    [
        ([T.Crop()], ["crop", "centers, bright: likely", "likeliest boxes", "share above size"]),
        ([T.Rotation()], ["rotation", "angle"]),
        ([T.HSVJitter()], ["hsv jitter", "hue", "saturation × value"]),
        ([T.HSVJitter(hue=0.0, value=0.0)], ["hsv jitter", "saturation"]),
        ([T.Flip()], ["flip", "probability"]),
        ([T.Affine()], ["affine", "", ""]),
        ([T.Scale(), T.Noise()], ["ranges", ""]),  # the seed of the noise is not shown
        ([T.Scale(), T.Rotation(), T.Blur()], ["scale", "", "rotation", "angle", "blur", ""]),
    ],
)
def test_every_factor_has_its_columns(transforms: list[Transform], headings: list[str]) -> None:
    figure = draw_inputs(looked_at(*transforms, images=photos(1)))
    assert words(figure)[: len(headings) + 3] == ["input", *headings, "samples", ""]
    assert_is_sound(figure)


@pytest.mark.parametrize(
    ("n", "shape", "transforms"),
    [
        (1, (16, 40), SIX),
        (3, (40, 12), [T.LocalBlur(), *SIX[1:4]]),
        (12, (16, 16), [T.Rotation()]),
    ],
)
def test_any_number_and_shape_of_inputs_fits(
    n: int, shape: tuple[int, int], transforms: list[Transform]
) -> None:
    images = photos(n, height=shape[0], width=shape[1])
    seen = looked_at(*transforms, images=images, n_samples=16)
    titles = ["a title that is far too long to be read by anybody at all " * 9] * n
    figure = draw_inputs(seen, titles=titles)
    assert_is_sound(figure)
    assert sum(word.startswith("a title") for word in words(figure)) == n


def test_where_room_is_short_centers_go_first_and_boxes_stay() -> None:
    wide = photos(1, height=16, width=32)
    figure = draw_inputs(looked_at(T.LocalMask(), *SIX, images=wide))
    assert "centers, bright: likely" not in words(figure)
    assert words(figure).count("likeliest boxes") == 2


def test_diversity_is_the_share_of_the_space() -> None:
    seen = looked_at(T.Rotation())
    (factor,) = seen.factors
    assert factor.max_entropy is not None
    half = torch.full((2,), factor.max_entropy) + torch.tensor([0.5, 0.25]).log()
    shown = replace(seen, factors=(replace(factor, entropy=half),))
    assert words(draw_inputs(shown))[-2:] == ["diversity 50%", "diversity 25%"]


def test_rows_belong_to_their_inputs() -> None:
    seen = looked_at(T.Flip(), images=photos(3))
    (factor,) = seen.factors
    probs = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    figure = draw_inputs(replace(seen, factors=(replace(factor, probs=probs),)))
    n = len(figure.axes) // 3
    for i in range(3):
        photo, bars, samples = figure.axes[i * n : (i + 1) * n]
        shown: Any = photo.images[0].get_array()
        np.testing.assert_allclose(shown, seen.images[i].permute(1, 2, 0))
        assert bars.texts[1].get_text() == f"{probs[i, 0]:.0%}"
        first: Any = samples.images[0].get_array()
        np.testing.assert_allclose(first[:16, :16], seen.samples[0, i].permute(1, 2, 0))


@pytest.mark.parametrize(
    ("augmenter", "headings"),
    [
        (
            RandomAugmentation([T.Crop(), T.Flip()]),
            ["crop", "boxes drawn", "share above size", "flip"],
        ),
        (RandomAugmentation([T.Rotation(), T.Scale()]), ["rotation", "angle", "scale"]),
        (FixedViews([[0.0, 0.0, 1.0, 1.0]] * 2), ["crop", "boxes drawn"]),
        (RandAugment(), ["samples"]),
        (NoAugmentation(), ["samples"]),
    ],
)
def test_methods_that_learn_nothing_show_what_they_draw(
    augmenter: Any, headings: list[str]
) -> None:
    random = torch.Generator().manual_seed(0)
    figure = draw_inputs(observe(augmenter, photos(), 6, generator=random))
    assert words(figure)[1 : len(headings) + 1] == headings
    assert_is_sound(figure)


def test_ranges_that_are_unknown_leave_the_dots() -> None:
    seen = without_learning(looked_at(*SIX))
    figure = draw_inputs(seen)
    assert not [word for word in words(figure) if word.startswith("diversity")]
    assert_is_sound(figure)


@pytest.mark.parametrize("channels", [1, 2])
def test_images_that_are_not_rgb_are_shown_in_gray(channels: int) -> None:
    figure = draw_inputs(looked_at(T.Crop(), images=photos(1, channels=channels)))
    shown: Any = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(shown[..., 0], shown[..., 2])


def test_one_sample_suffices() -> None:
    assert_is_sound(draw_inputs(looked_at(T.Rotation(), images=photos(1), n_samples=1)))


@pytest.mark.parametrize("ending", ["svg", "jpg"])
def test_the_figure_is_written_the_same_each_time(ending: str, tmp_path: Path) -> None:
    seen = looked_at(T.Crop(), T.HSVJitter(), images=photos(1))
    files = [tmp_path / f"{i}.{ending}" for i in (1, 2)]
    for file in files:
        save_figure(draw_inputs(seen), file, dpi=60)
    assert 5_000 < files[0].stat().st_size < 300_000
    assert files[0].read_bytes() == files[1].read_bytes()


def test_what_cannot_be_drawn_is_refused() -> None:
    seen = looked_at(T.Crop())
    with pytest.raises(ShapeError, match=r"must have 1 to 12 inputs: got 13\. Observe some"):
        draw_inputs(looked_at(T.Rotation(), images=photos(13)))
    with pytest.raises(ShapeError, match="`titles` must be one line per input, 2: got 1"):
        draw_inputs(seen, titles=["one"])
    many = Observed(seen.images, seen.samples, seen.theta, seen.factors * 16)
    with pytest.raises(ArgumentError, match=r"must have fewer factors to be drawn.*: got 16"):
        draw_inputs(many)


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
