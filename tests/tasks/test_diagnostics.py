"""Diagnostics of augmentation on toys whose truth is known."""

import pytest
import torch
from torch import Tensor, nn

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.methods import FixedViews
from instaaug.parameterizations import PooledHead
from instaaug.tasks import SupervisedTask
from instaaug.tasks.diagnostics import (
    compare_choices,
    compare_variances,
    describe_diagnostics,
    measure_augmentation,
    measure_coverage,
)
from tests.support.quadrants import make_images, make_task

WHOLE, LEFT, RIGHT = (0.0, 0.0, 2.0, 2.0), (-0.5, 0.0, 1.0, 2.0), (0.5, 0.0, 1.0, 2.0)


class Spot(nn.Module):
    """The features are the channels of a pixel, and the logits of two classes are these."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            self.head.weight.copy_(torch.eye(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x[:, :, 1, 1])  # away from the edges of views


def halves(left: tuple[float, float], right: tuple[float, float]) -> Tensor:
    """An image of 4 × 4 with one color on each side."""
    x = torch.empty(1, 2, 4, 4)
    x[..., :2] = torch.tensor(left)[:, None, None]
    x[..., 2:] = torch.tensor(right)[:, None, None]
    return x


def task_with(*boxes: tuple[float, ...]) -> SupervisedTask:
    return SupervisedTask(Spot(), FixedViews(boxes), num_classes=2)


TRAINING = [(halves((3.0, 0.0), (5.0, 0.0)), torch.tensor([0]))]
UNSEEN = [(halves((5.0, 0.0), (0.0, 9.0)), torch.tensor([0]))]


@pytest.mark.parametrize(
    ("box", "distance"),
    [
        (WHOLE, 2.0),  # nothing is gained: 3 against 5
        (RIGHT, 0.0),  # the right half of the training image is what was missing
    ],
)
def test_coverage_is_the_distance_that_is_left(box: tuple[float, ...], distance: float) -> None:
    found = measure_coverage(task_with(box), UNSEEN, TRAINING, n_views=1)
    assert found["distance_plain"] == pytest.approx(2.0)
    assert found["distance"] == pytest.approx(distance, abs=1e-5)
    assert found["coverage"] == pytest.approx(distance / 2, abs=1e-5)


def test_augmentation_that_leads_away_is_above_one() -> None:
    training = [(halves((3.0, 0.0), (-4.0, 0.0)), torch.tensor([0]))]
    found = measure_coverage(task_with(RIGHT), UNSEEN, training, n_views=1)
    assert found["coverage"] == pytest.approx(9.0 / 2.0)


def test_without_augmentation_coverage_is_one_and_no_label_is_lost() -> None:
    found = measure_coverage(task_with(WHOLE), UNSEEN, TRAINING)
    assert found["coverage"] == pytest.approx(1.0)
    assert found["label_loss"] == pytest.approx(0.0, abs=1e-6)
    assert found["flips"] == 0.0


def test_other_classes_do_not_cover() -> None:
    training = [
        (torch.cat([TRAINING[0][0], halves((5.0, 0.0), (5.0, 0.0))]), torch.tensor([0, 1]))
    ]
    found = measure_coverage(task_with(WHOLE), UNSEEN, training)
    assert found["distance_plain"] == pytest.approx(2.0)


def test_no_class_in_common_has_no_distance() -> None:
    found = measure_coverage(task_with(WHOLE), UNSEEN, [(TRAINING[0][0], torch.tensor([1]))])
    assert found["coverage"] is None
    assert len(describe_diagnostics({"coverage": found})) == 1


def test_a_transform_that_takes_the_label_costs_loss() -> None:
    """The right half of the unseen image looks like the other class, by 9 logits."""
    found = measure_coverage(task_with(RIGHT), UNSEEN, TRAINING)
    expected = torch.tensor(9.0).exp().log1p() - torch.tensor(-5.0).exp().log1p()
    assert found["label_loss"] == pytest.approx(float(expected), rel=1e-4)
    assert found["flips"] == 1.0


def test_the_gap_is_that_of_training_views_and_unseen_images() -> None:
    found = measure_coverage(task_with(LEFT), UNSEEN, TRAINING)
    expected = torch.tensor(-3.0).exp().log1p() - torch.tensor(-5.0).exp().log1p()
    assert found["gap"] == pytest.approx(float(expected), rel=1e-4)


def test_a_model_without_a_last_linear_layer_has_no_features() -> None:
    class Pixel(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[:, :, 1, 1]

    task = SupervisedTask(Pixel(), FixedViews([RIGHT]), num_classes=2)
    found = measure_coverage(task, UNSEEN, TRAINING)
    assert found["coverage"] is None
    assert found["flips"] == 1.0


class Gray(nn.Module):
    """A map with the mean of each image."""

    def forward(self, x: Tensor) -> list[Tensor]:
        return [x.mean(dim=(1, 2, 3)).view(-1, 1, 1, 1).expand(-1, -1, 4, 4)]


@pytest.mark.parametrize("canonical", [True, False])
def test_a_phi_that_makes_images_alike_is_seen(canonical: bool) -> None:
    """Brightness that depends on the image so that dark ones become bright, or on nothing."""
    aug = InstaAug(T.Brightness(), network=Gray(), in_channels=3)
    (head,) = aug.phi.heads
    with torch.no_grad():
        assert isinstance(head, PooledHead)
        linear = head.linear
        linear.weight.zero_()
        linear.bias.copy_(torch.tensor([0.0, 0.0]))
        if canonical:  # above the mean only downwards, below it only upwards
            linear.weight.copy_(torch.tensor([[1.0], [-1.0]]) * 40 / 16)
            linear.bias.copy_(torch.tensor([-20.0, 20.0]))
    x = torch.linspace(0.2, 0.8, 200).view(-1, 1, 1, 1).expand(-1, 3, 2, 2).contiguous()
    task = SupervisedTask(Spot(), aug.eval(), num_classes=2)
    found = compare_variances(task, [(x, torch.zeros(200).long())], n_views=16)
    if canonical:
        assert found["ratio"] < 0.9
    else:
        assert found["ratio"] == pytest.approx(1.0, abs=0.1)


def test_frequent_choices_are_those_of_phi() -> None:
    """φ crops the quadrant that tells the class; the others are noise."""
    x, targets = make_images(60, noise=3.0)
    found = compare_choices(make_task().eval(), [(x, targets)])
    assert found["frequent"] == pytest.approx(float(torch.tensor(-2.0).exp().log1p()), abs=0.05)
    assert found["rare"] > found["frequent"] + 0.5


def test_everything_is_measured_and_said() -> None:
    unseen, training = make_images(24), make_images(24, seed=1)
    found = measure_augmentation(make_task(), [unseen], [training])
    assert set(found) == {"coverage", "variance", "choices"}
    assert len(describe_diagnostics(found)) == 4


def test_a_method_without_phi_has_coverage_only() -> None:
    assert set(measure_augmentation(task_with(LEFT), UNSEEN, TRAINING)) == {"coverage"}
