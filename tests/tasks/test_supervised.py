"""Regression: losses, shapes, and which transforms are safe."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.data import DataSplits, LabeledImages, channel_statistics, load_data
from instaaug.errors import ShapeError, UnknownNameError
from instaaug.methods import NoAugmentation, RandomAugmentation
from instaaug.networks import SmallCNN
from instaaug.tasks import BatchLoader, Optimization, RegressionTask, evaluate, make_predictor
from tests.support.tiny_training import classifier, fit, labeled_halves, parameters_of
from tests.support.unhooked import unhooked

SLOW = Optimization("sgd", 0.003, momentum=0.0)


def brightness(d: int | None = None, n: int = 32) -> LabeledImages:
    """Images with their mean brightness as the target, d times over."""
    data = labeled_halves(n)
    value = torch.from_numpy(data.images).float().mean(dim=(1, 2, 3)) / 255
    targets = value if d is None else value[:, None] * torch.arange(1.0, d + 1)
    return LabeledImages(data.images, targets)


def regression(n_targets: int = 1, model: nn.Module | None = None, **settings: Any) -> Any:
    return RegressionTask(
        model or classifier(n_targets),
        NoAugmentation(),
        n_targets=n_targets,
        optimization=SLOW,
        **settings,
    )


class Row(nn.Module):
    """Returns a number per image, without an axis for it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = classifier(1)

    @override
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)[:, 0]


@pytest.mark.parametrize("d", [None, 1, 3])
@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_losses_are_mean_errors_per_image(loss: str, d: int | None) -> None:
    shape = (4,) if d is None else (4, d)
    outputs, targets = torch.randn(4, d or 1), torch.randn(shape)
    task = regression(d or 1, loss=loss)
    error = outputs - targets.reshape(4, -1)
    expected = [float((row.abs() if loss == "absolute" else row**2).mean()) for row in error]
    assert task.losses(outputs, targets).tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("d", [None, 2])
@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_the_loss_falls(loss: str, d: int | None) -> None:
    task, data = regression(d or 1, loss=loss), brightness(d)
    fit(task, BatchLoader(data, 8, seed=0), BatchLoader(data, 8), epochs=4)
    assert task.history[-1]["train/loss"] < 0.8 * task.history[0]["train/loss"]
    assert task.history[-1]["validation/rmse"] < task.history[0]["validation/rmse"]


def test_a_row_and_a_column_of_outputs_train_alike() -> None:
    ends = []
    for model in (Row(), classifier(1)):
        task = regression(model=model)
        fit(task, BatchLoader(brightness(), 8, seed=0))
        ends.append(parameters_of(task))
    torch.testing.assert_close(*ends)


def test_validation_scores_are_those_of_an_evaluation_by_hand() -> None:
    task, data = regression(2), brightness(2)
    fit(task, BatchLoader(data, 8, seed=0), BatchLoader(data, 5))
    x, targets = data.__getitems__(range(32))
    with torch.no_grad():
        error = task.model(x / 255) - targets
    row = task.history[0]
    assert row["validation/rmse"] == pytest.approx(float(error.square().mean().sqrt()), rel=1e-5)
    assert row["validation/mae"] == pytest.approx(float(error.abs().mean()), rel=1e-5)


# --- which transforms are safe ------------------------------------------------------------------


def angle_task(kind: str, splits: DataSplits) -> RegressionTask:
    """Estimates angles of sprites; turning one changes its answer, another color does not.

    Beyond the border of an image lies its background: a border of another color would tell the
    model how far an image was turned, and make turning safe.
    """
    torch.manual_seed(0)
    mean, std = channel_statistics(splits.train)
    transforms = [T.Rotation(), T.HSVJitter()]
    wide = {"rotation": (0.005, 0.75), "hsv_jitter": (0.25**3, 0.75**3)}
    shared: dict[str, Any] = {"mean": mean, "std": std, "padding_mode": "border"}
    augmenter = (
        RandomAugmentation(transforms, **shared)
        if kind == "random"
        else InstaAug(transforms, diversity=wide, weight=0.001, **shared)
    )
    return RegressionTask(
        SmallCNN(1),
        augmenter,
        optimization=Optimization("adamw", 2e-3, schedule="one_cycle"),
        phi_optimization=Optimization("adam", 3e-3),
        pretrain_epochs=8 if kind == "learned" else 0,
        mean=mean,
        std=std,
    )


@pytest.fixture(scope="module")
def angles() -> DataSplits:
    return load_data("sprite-angle", task="regression", size=16)


def error_at_test_time(task: RegressionTask, splits: DataSplits) -> float:
    predict = make_predictor(task, n_samples=10)
    return evaluate(predict, BatchLoader(splits.test, 100), task.make_tally())["mae"]


@pytest.mark.slow
def test_turning_is_unlearned_where_the_angle_is_the_answer(angles: DataSplits) -> None:
    """Of the circle 6 % are drawn from at first, and below 4 % at last; of colors more than half.

    If the model were perfect, the squared error would be w²/12 in a range of width w, and w²/12 -
    λ log w is least at w = √(6λ), 1.2 % of the circle.
    """
    task = angle_task("learned", angles)
    fit(task, BatchLoader(angles.train, 100, seed=0), epochs=30)
    aug = task.augmenter.eval()
    assert isinstance(aug, InstaAug)
    x = task.normalize(angles.test.__getitems__(range(200))[0])
    with torch.no_grad():
        entropy = aug.distribution(x).entropies().mean(dim=0)
    largest = torch.tensor([aug.transform.spaces[name].max_entropy for name in aug.limits])  # type: ignore[union-attr]
    shares = (entropy - largest).exp()
    assert shares[0] < 0.04
    assert shares[1] ** (1 / 3) > 0.5  # hue, saturation and value
    assert error_at_test_time(task, angles) < 0.02


@pytest.mark.slow
def test_turning_all_the_same_makes_the_angle_unlearnable(angles: DataSplits) -> None:
    task = angle_task("random", angles)
    fit(task, BatchLoader(angles.train, 100, seed=0), epochs=30)
    assert error_at_test_time(task, angles) > 0.1


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_targets", "model", "got"),
    [(1, classifier(2), r"\(8, 2\)"), (3, classifier(1), r"\(8, 1\)"), (2, Row(), r"\(8,\)")],
)
def test_a_model_with_the_wrong_outputs_is_told_the_right_ones(
    n_targets: int, model: nn.Module, got: str
) -> None:
    message = rf"`model` must return {n_targets} numbers per image: got {got} for 8 images\. Give"
    with pytest.raises(ShapeError, match=message):
        fit(regression(n_targets, model), BatchLoader(brightness(n_targets), 8, seed=0))


def test_targets_are_not_stretched_to_fit_the_outputs() -> None:
    """One output and two targets would broadcast, and train something else in silence."""
    message = r"`targets` must be 1 numbers per image: got \(8, 2\) for outputs \(8, 1\)\. Set"
    with pytest.raises(ShapeError, match=message):
        fit(regression(1), BatchLoader(brightness(2), 8, seed=0))


def test_an_unknown_loss_is_answered_with_the_known_ones() -> None:
    with unhooked(), pytest.raises(UnknownNameError, match=r"no loss called 'huber'\. Known: abs"):
        regression(loss="huber")
