"""Fixed views are the boxes they say, in the order they say, and survive JSON."""

import json
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor

from instaaug import CropGrid
from instaaug.errors import ArgumentError, ShapeError, UnknownNameError
from instaaug.methods import FixedViews
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p
from tests.support.images import largest_difference, random_images
from tests.support.models import images, small_classifier
from tests.support.unhooked import unhooked

BOXES = [(0.0, 0.0, 2.0, 2.0), (-0.5, -0.5, 1.0, 1.0), (0.5, 0.25, 1.0, 1.5)]


def rendered(views: FixedViews, x: Tensor, n: int) -> Tensor:
    """The first n views of every image, (n, B, C, H, W)."""
    with unhooked():  # the shape checker wants one size
        return torch.stack([views.render(x, row) for row in views.draw(x, n, select="top")])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# --- the usual lists ----------------------------------------------------------------------------


def five_slices(x: Tensor, height: int, width: int) -> list[Tensor]:
    """Upper left, upper right, lower left, lower right and middle, as slices of pixels."""
    down, right = x.shape[-2] - height, x.shape[-1] - width
    starts = [(0, 0), (0, right), (down, 0), (down, right), (down // 2, right // 2)]
    return [x[..., top : top + height, left : left + width] for top, left in starts]


@pytest.mark.parametrize("shape", [(32, 32), (16, 48)], ids=str)
def test_ten_crops_are_slices_of_the_image_and_of_its_mirror_image(
    shape: tuple[int, int],
) -> None:
    x = random_images(2, height=shape[0], width=shape[1])
    height, width = shape[0] * 7 // 8, shape[1] * 7 // 8
    expected = five_slices(x, height, width) + five_slices(x.flip(-1), height, width)
    ten = FixedViews.ten_crop(size=(height, width))
    assert len(ten) == 10
    assert largest_difference(rendered(ten, x, 10), torch.stack(expected)) <= 1e-5


def test_five_crops_are_the_first_of_the_ten_and_the_center_is_the_last_of_the_five() -> None:
    five, ten = FixedViews.five_crop(0.75), FixedViews.ten_crop(0.75)
    assert torch.equal(five.table, ten.table[:5])
    assert torch.equal(FixedViews.center_crop(0.75).table, five.table[4:])
    assert torch.equal(FixedViews.center_crop().boxes, torch.tensor([[0.0, 0.0, 1.75, 1.75]]))


def test_a_quarter_crop_is_blown_up_as_torch_does_it() -> None:
    x = random_images(2, height=16, width=16)
    out = rendered(FixedViews.five_crop(0.5, padding_mode="border"), x, 5)
    expected = [
        torch.nn.functional.interpolate(piece, size=(16, 16), mode="bilinear")
        for piece in five_slices(x, 8, 8)
    ]
    # Interpolation within a slice repeats its edge; a box sees what lies beyond.
    inside = (slice(None),) * 3 + (slice(1, -1), slice(1, -1))
    assert largest_difference(out[inside], torch.stack(expected)[inside]) <= 1e-5


def test_flips_are_the_image_and_its_mirror_image() -> None:
    x = random_images(3)
    assert torch.equal(rendered(FixedViews.flips(), x, 2), torch.stack([x, x.flip(-1)]))


def test_a_grid_gives_its_boxes_in_its_order() -> None:
    grid = CropGrid([(1.0, 1), (0.5, 3)], max_outside=0.0)
    views = FixedViews.grid(grid, padding_mode="border")
    assert torch.equal(views.boxes, grid.boxes)
    assert not any(views.mirrored)
    assert views.padding_mode == "border"


# --- drawing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 5, 13])
def test_the_top_views_are_the_first_and_then_the_first_again(n: int) -> None:
    views = FixedViews.five_crop()
    theta = views.draw(images(4), n, select="top")
    assert theta.shape == (n, 4, 6)
    for i, row in enumerate(theta):
        assert torch.equal(row, views.table[i % 5].expand(4, 6))


def index_of(views: FixedViews, theta: Tensor) -> Tensor:
    same = (theta[..., None, :] == views.table).all(dim=-1)
    assert (same.sum(dim=-1) == 1).all()
    return same.int().argmax(dim=-1)


@pytest.mark.parametrize("n", [1, 5, 12])
def test_samples_take_every_view_as_often_to_within_one(n: int) -> None:
    views, x = FixedViews.five_crop(), images(16)
    index = index_of(views, views.draw(x, n, generator=seeded()))
    assert index.shape == (n, 16)
    for column in index.T.tolist():
        counts = [Counter(column)[i] for i in range(5)]
        assert max(counts) - min(counts) <= 1
        assert max(counts) == -(-n // 5)


def test_samples_without_replacement_are_uniform_over_pairs() -> None:
    """Pearson's test on the 10 pairs of 5; a right sampler fails with ERROR_PROBABILITY."""
    views = FixedViews.five_crop()
    index = index_of(views, views.draw(torch.zeros(3000, 1, 2, 2), 2, generator=seeded(1)))
    drawn = Counter(tuple(sorted(pair)) for pair in index.T.tolist())
    counts = torch.tensor([drawn[pair] for pair in combinations(range(5), 2)])
    assert counts.sum() == 3000
    assert chi_square_p(counts, torch.full((10,), 0.1)) > ERROR_PROBABILITY
    first = torch.bincount(index[0], minlength=5)  # no view comes first more often
    assert chi_square_p(first, torch.full((5,), 0.2)) > ERROR_PROBABILITY


def test_samples_with_replacement_may_repeat_a_view() -> None:
    """Pearson's test; a right sampler fails with ERROR_PROBABILITY."""
    views = FixedViews.five_crop()
    theta = views.draw(torch.zeros(1000, 1, 2, 2), 3, replace=True, generator=seeded())
    index = index_of(views, theta)
    counts = torch.bincount(index.flatten(), minlength=5)
    assert chi_square_p(counts, torch.full((5,), 0.2)) > ERROR_PROBABILITY
    assert (index[0] == index[1]).any()


def test_a_generator_makes_draws_repeatable_and_inputs_differ() -> None:
    views, x = FixedViews.ten_crop(), images(8)
    theta = views.draw(x, 3, generator=seeded(5))
    assert torch.equal(theta, views.draw(x, 3, generator=seeded(5)))
    assert not torch.equal(theta, views.draw(x, 3, generator=seeded(6)))
    assert len({str(column) for column in theta.transpose(0, 1).tolist()}) > 1


def test_a_wrapped_model_sees_the_ten_crops() -> None:
    model, x = small_classifier().eval(), images(3, height=32, width=32)
    ten = FixedViews.ten_crop(size=28)
    pieces = five_slices(x, 28, 28) + five_slices(x.flip(-1), 28, 28)
    expected = torch.stack([model(piece) for piece in pieces]).mean(dim=0)
    with unhooked():
        out = ten.wrap(model, 10, select="top")(x)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


def test_views_are_rendered_at_the_size_and_with_the_padding_asked_for() -> None:
    white = torch.ones(2, 3, 16, 16)
    outside = [(0.0, 0.0, 4.0, 4.0)]
    for padding_mode, corner in (("zeros", 0.0), ("border", 1.0)):
        views = FixedViews(outside, padding_mode=padding_mode, size=(6, 10))  # type: ignore[arg-type]
        out = rendered(views, white, 1)[0]
        assert out.shape == (2, 3, 6, 10)
        assert out[0, 0, 0, 0] == corner
        assert out[0, 0, 3, 5] == 1


def test_the_table_moves_with_the_module_but_is_no_weight() -> None:
    views = FixedViews.flips()
    assert views.state_dict() == {}
    assert views.double().table.dtype == torch.float64
    assert repr(FixedViews.ten_crop()) == "FixedViews(10 views, 5 mirrored)"
    assert repr(FixedViews.five_crop()) == "FixedViews(5 views)"


# --- JSON ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        FixedViews.flips,
        FixedViews.ten_crop,
        lambda: FixedViews(BOXES, [True, False, True], padding_mode="reflection", size=(5, 7)),
        lambda: FixedViews(torch.tensor(BOXES), size=9),
    ],
)
def test_views_survive_json(make: Callable[[], FixedViews]) -> None:
    views = make()
    again = FixedViews.from_config(json.loads(json.dumps(views.to_config())))
    assert torch.equal(again.table, views.table)
    assert again.to_config() == views.to_config()
    x = images(2)
    assert torch.equal(rendered(again, x, 3), rendered(views, x, 3))


def changed(**changes: Any) -> dict[str, Any]:
    return FixedViews(BOXES).to_config() | changes


HOSTILE_BOXES: list[Any] = [
    [[0, 0, 2]],
    [[0, 0, 2, 2, 2]],
    [[0, 0, 2, float("nan")]],
    [[0, 0, 2, float("inf")]],
    [[10**400, 0, 2, 2]],
    [[0, 0, 0, 2]],
    [[0, 0, 2, -2]],
    [[0, 0, 9, 2]],
    [[0, 0, True, 2]],
    [["0", 0, 2, 2]],
    [None],
    [{"0": 1, "1": 1, "2": 1, "3": 1}],
    ["0022"],
]


@pytest.mark.parametrize("boxes", HOSTILE_BOXES, ids=lambda boxes: str(boxes)[:30])
def test_a_box_is_four_sensible_numbers(boxes: Any) -> None:
    with pytest.raises(ArgumentError, match=r"`boxes` must be four numbers each, .*: got "):
        FixedViews.from_config(changed(boxes=boxes, mirrored=[False]))


@pytest.mark.parametrize("boxes", ["0022", 7, None, {"a": 1}], ids=str)
def test_boxes_are_a_list(boxes: Any) -> None:
    with pytest.raises(ArgumentError, match=r"`boxes` must be a list of boxes: got \w+\."):
        FixedViews.from_config(changed(boxes=boxes))


@pytest.mark.parametrize("n", [0, 100_001])
def test_there_is_a_box_and_there_are_not_too_many(n: int) -> None:
    with pytest.raises(ArgumentError, match=r"`boxes` must hold 1 to 100,000 boxes: got [\d,]+\."):
        FixedViews.from_config(changed(boxes=[None] * n))


@pytest.mark.parametrize("mirrored", [[True], [1, 0, 0], "abc", None.__class__, [None] * 3])
def test_a_view_is_mirrored_or_not(mirrored: Any) -> None:
    with pytest.raises(ArgumentError, match="`mirrored` must say True or False for each of 3 box"):
        FixedViews.from_config(changed(mirrored=mirrored))


@pytest.mark.parametrize(
    "size", [0, -1, True, 10**9, [5], [5, 6, 7], [5, 0], [5, "6"], [5.0, 6.0], "ab", 1.5], ids=str
)
def test_a_size_is_two_sides_in_pixels(size: Any) -> None:
    with pytest.raises(ArgumentError, match=r"`size` must be a side, or a height and a width"):
        FixedViews.from_config(changed(size=size))


@pytest.mark.parametrize("config", [[], "views", None, {}, {"boxes": BOXES}, changed(extra=1)])
def test_a_config_has_the_keys_that_were_written(config: Any) -> None:
    with pytest.raises(
        ArgumentError, match="`config` must hold name, boxes, mirrored, padding_mode"
    ):
        FixedViews.from_config(config)


def test_a_config_of_something_else_is_refused() -> None:
    with pytest.raises(ArgumentError, match="`config` must be that of 'fixed_views': got 'crop'"):
        FixedViews.from_config(changed(name="crop"))


@pytest.mark.parametrize("padding_mode", ["circular", None, ["zeros"]], ids=str)
def test_an_unknown_padding_is_refused(padding_mode: Any) -> None:
    with pytest.raises(UnknownNameError, match="There is no padding_mode called"):
        FixedViews.from_config(changed(padding_mode=padding_mode))


@pytest.mark.parametrize("share", [0.0, -0.5, 1.1, float("nan")])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(ArgumentError, match=r"`share` must lie in \(0, 1\]: got "):
        FixedViews.five_crop(share)


def test_an_unknown_selection_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"no selection called 'topp'\. Did you mean 'top'"):
        FixedViews.flips().draw(images(1), 1, select="topp")


def test_bytes_are_refused_where_a_model_would_take_them_for_numbers() -> None:
    predictor = FixedViews.five_crop().wrap(small_classifier(), 3).eval()
    pixels = (255 * images()).byte()
    with unhooked(), pytest.raises(ShapeError, match=r"`x` must be floating point: got .*uint8"):
        predictor(pixels)
