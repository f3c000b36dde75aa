"""One order of boxes for all images, learned for a model whose best box is known."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation import Augmenter
from instaaug.methods import FixedViews, RandomAugmentation
from instaaug.tasks import SupervisedTask, make_predictor
from instaaug.tasks.view_order import (
    FEWEST,
    MOST_IMAGES,
    N_BOXES,
    ViewOrder,
    can_order,
    count_images,
    learn_order,
    makes_crops_alone,
    spread_views,
)
from tests.support.bright_corners import CORNER, SIDE, Brightness, bright_corners


def order_for(augmenter: Augmenter, *, sureness: float = 8.0, n_views: int = 3) -> ViewOrder:
    task = SupervisedTask(Brightness(sureness), augmenter, num_classes=2, mean=(0.5,), std=(0.5,))
    drawn = make_predictor(task, n_samples=n_views)
    return learn_order(
        task, bright_corners(200), drawn, n_images=150, n_views=n_views, size=SIDE,
        batch_size=64, seed=0,
    )  # fmt: skip


def random_crops() -> RandomAugmentation:
    return RandomAugmentation(T.Crop(), sizes=(0.4, 1.0), size=SIDE)


@pytest.fixture(scope="module")
def found() -> ViewOrder:
    return order_for(random_crops())


def test_the_box_that_tells_the_class_comes_first(found: ViewOrder) -> None:
    assert found.n_images == 150
    x = torch.zeros(1, 3, SIDE, SIDE)
    views = found.augmenter.views(x, 2, select="top")
    assert views.theta[0, 0].tolist() == [0.0, 0.0, 2.0, 2.0]  # the image itself
    assert views.theta[1, 0].tolist() == pytest.approx(CORNER)


def test_an_order_that_beats_draws_says_by_how_much(found: ViewOrder) -> None:
    assert found.is_better
    assert found.accuracy > found.drawn_accuracy + 0.1
    assert found.n_views == 3
    difference, (low, _) = found.gain
    assert difference > low > 0
    assert found.to_dict()["is_better"] is True


def test_a_method_that_knows_the_corner_keeps_its_own_views() -> None:
    known = FixedViews([CORNER], size=SIDE)
    assert not order_for(known, n_views=2).is_better


def test_a_model_that_sees_nothing_needs_no_views() -> None:
    assert order_for(random_crops(), sureness=0.0).n_views == 1


def test_the_model_comes_back_as_it_was() -> None:
    task = SupervisedTask(Brightness(8.0), random_crops(), num_classes=2)
    task.train()
    learn_order(
        task, bright_corners(120), make_predictor(task, n_samples=2), n_images=100, n_views=2,
        size=SIDE, batch_size=64, seed=0,
    )  # fmt: skip
    assert all(parameter.requires_grad for parameter in task.model.parameters())


@pytest.mark.parametrize(
    ("transform", "alone"),
    [("crop", True), (("crop", "flip"), False), ("rotation", False), (T.Window(), False)],
)
def test_only_crops_can_be_ordered(transform: Any, alone: bool) -> None:
    assert makes_crops_alone(InstaAug(transform)) is alone


def test_an_order_needs_several_views_and_no_more_than_there_are_boxes() -> None:
    assert [can_order(n) for n in (1, 2, N_BOXES, N_BOXES + 1)] == [False, True, True, False]


def test_an_order_takes_a_tenth_of_the_passes_of_training_at_most() -> None:
    n_train, n_epochs = 3000, 10
    n = count_images(10_000, n_train=n_train, n_epochs=n_epochs)
    assert n * N_BOXES == pytest.approx(0.1 * 3 * n_train * n_epochs)
    assert count_images(10_000, n_train=10**6, n_epochs=10) == MOST_IMAGES
    assert count_images(FEWEST - 1, n_train=10**6, n_epochs=10) == 0


@pytest.mark.parametrize("channels", [1, 3])
def test_spread_boxes_begin_in_the_middle_and_go_to_the_corners(channels: int) -> None:
    aug = spread_views(size=8, channels=channels, mean=(0.0,), std=(1.0,))
    x = torch.rand(2, channels, 8, 8, generator=torch.Generator().manual_seed(0))
    seen: list[Tensor] = []

    class Eye(nn.Module):
        @override
        def forward(self, views: Tensor) -> Tensor:
            seen.append(views)
            return views.flatten(1)

    aug.wrap(Eye(), 6).eval()(x)
    views = torch.cat(seen).unflatten(0, (6, 2))
    middle = (0.0, 0.0, 1.2, 1.2)
    corners = [(0.4 * a, 0.4 * b, 1.2, 1.2) for a in (-1, 1) for b in (-1, 1)]
    expected = [T.Crop().apply(x, torch.tensor([box]).expand(2, -1)) for box in (middle, *corners)]
    torch.testing.assert_close(views[0], x)
    torch.testing.assert_close(views[1], expected[0])
    for view in views[2:]:
        assert any(torch.allclose(view, corner, atol=1e-5) for corner in expected[1:])
