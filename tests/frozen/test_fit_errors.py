"""What a user of `fit_tta` can get wrong, said before anything is computed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from instaaug import fit_tta
from instaaug import transforms as T
from instaaug.errors import (
    ArgumentError,
    DataError,
    InstaAugError,
    NonFiniteError,
    ShapeError,
    UnknownNameError,
)
from instaaug.frozen import NormalizedImages, tabulate
from tests.support.frozen_models import Counting, Returning, built
from tests.support.frozen_tables import AT_ONCE, CROP, N, data, model_and_views
from tests.support.unhooked import unhooked

X, Y = data()
SHARED = built("functional ReLU")
WHOLE = T.Crop(((1.0, 1),))
DEFAULTS: dict[str, Any] = {"model": SHARED, "data": (X, Y), "transform": CROP}
TWO = (0.5, 0.5)

pytestmark = pytest.mark.usefixtures("_small_batches")

CASES: dict[str, tuple[dict[str, Any], type[InstaAugError], str]] = {
    "steps": ({"steps": 0}, ArgumentError, "`steps` must be at least 1: got 0"),
    "batch": ({"batch_size": 0}, ArgumentError, "`batch_size` must be at least 1: got 0"),
    "rate": ({"learning_rate": -1.0}, ArgumentError, "`learning_rate` must be a number above 0"),
    "one view": ({"n_samples": 1}, ArgumentError, "numbers from 2 on: got 1"),
    "no view": ({"n_samples": ()}, ArgumentError, r"numbers from 2 on: got \(\)"),
    "some": ({"n_samples": (4, 1)}, ArgumentError, r"numbers from 2 on: got \(4, 1\)"),
    "objective": ({"objective": "many"}, UnknownNameError, "no objective called 'many'"),
    "features": ({"features": "pixels"}, UnknownNameError, "no kind of features called 'pixels'"),
    "shared": (
        {"model": SHARED, "features": SHARED.get_submodule("stem")},
        ArgumentError,
        "`features` must not be a part of `model`",
    ),
    "range": (
        {"transform": "rotation", "objective": "views"},
        ArgumentError,
        '`objective="views"` needs views that can be listed',
    ),
    "nothing else": (
        {"transform": WHOLE, "entropy": (0.0, 0.0)},
        ArgumentError,
        "`transform` must offer a view besides the image itself",
    ),
    "no map": (
        {"model": nn.Sequential(nn.Flatten(), nn.Linear(3072, 5))},
        ArgumentError,
        'must have a feature map .* features="pyramid"',
    ),
    "size": (
        {"model": built("flattened"), "size": 40},
        ArgumentError,
        r"must take images of shape \(3, 40, 40\)",
    ),
    "mean": ({"mean": (0.5,) * 3}, ArgumentError, "`mean` and `std` must be given together"),
    "short mean": ({"mean": TWO, "std": TWO}, ArgumentError, "one number per channel"),
    "transform": ({"transform": "turn"}, UnknownNameError, "no transform called 'turn'"),
    "no data": ({"data": []}, DataError, "at least one image"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_mistakes_are_named_before_the_model_has_seen_an_image(case: str) -> None:
    options, error, message = CASES[case]
    chosen = DEFAULTS | options
    model = Counting(chosen.pop("model"))
    with unhooked(), pytest.raises(error, match=message):
        fit_tta(model, **chosen)
    assert model.n_seen <= 2, "but for the noise in which its last map is sought"


LATER: dict[str, tuple[dict[str, Any], type[InstaAugError], str]] = {
    "too large": (
        {"data": (X, Y + 1)}, DataError, "classes from 0 to 4, .* has 5: got targets from 1 to 5",
    ),
    "negative": ({"data": (X, Y - 1)}, DataError, "got targets from -1 to 3"),
    "not whole": ({"data": (X, Y.double())}, ShapeError, r"targets \(8,\) of torch\.float64"),
    "several": ({"data": (X, Y[:, None])}, ShapeError, r"targets \(8, 1\) of torch\.int64"),
    "one number": (
        {"model": Returning(lambda z: z[:, 0]).eval(), "features": "none"},
        ShapeError, r"class scores \(N, C\).* got outputs \(8,\).*Give another `loss`",
    ),
    "mean loss": (
        {"loss": nn.functional.cross_entropy}, ShapeError,
        r'`loss` must give one number per input, shape \(8,\): got \(\)\. Use reduction="none"',
    ),
    "not finite": (
        {"loss": lambda o, t: o[:, 0] * t * float("nan")}, NonFiniteError, "`loss` must be finite",
    ),
    "dict": (
        {"model": Returning(lambda z: {"a": z}).eval(), "features": "none"},
        ShapeError, "must return a tensor with one row per input, 8 here: got dict",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LATER)
def test_data_that_do_not_fit_are_named_after_the_first_batch(case: str) -> None:
    options, error, message = LATER[case]
    chosen = DEFAULTS | options
    model = Counting(chosen.pop("model"))
    with pytest.raises(error, match=message):
        fit_tta(model, **chosen)
    assert model.n_seen <= 2 + 5 * (N if case == "not finite" else AT_ONCE)


@pytest.mark.parametrize("case", ["too large", "not whole", "mean loss", "dict"])
def test_they_are_named_for_ranges_too(case: str) -> None:
    options, error, message = LATER[case]
    chosen = DEFAULTS | {"transform": "rotation"} | options
    with pytest.raises(error, match=message.replace("from 1 to 5", "from . to 5")):
        fit_tta(**chosen, batch_size=8)


def test_targets_that_do_not_fit_a_finished_table_are_named_too(tmp_path: Path) -> None:
    fit_tta(SHARED, (X, Y), CROP, steps=1, folder=tmp_path)
    with pytest.raises(DataError, match=r"classes from 0 to 4, .* got targets from 1 to 5"):
        fit_tta(SHARED, (X, Y + 1), CROP, steps=1, folder=tmp_path)


def test_a_table_is_of_no_use_for_a_range() -> None:
    model, views = model_and_views()
    table = tabulate(views, NormalizedImages((X, Y)))
    with pytest.raises(ArgumentError, match="`table` is of no use to a transform with a range"):
        fit_tta(model, (X, Y), "rotation", table=table)


def test_a_loss_that_is_no_number_stops_learning_at_once() -> None:
    steps: list[int] = []

    def loss(outputs: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return outputs[:, 0] * (float("nan") if len(steps) == 2 else 1.0)

    with pytest.raises(NonFiniteError, match="`loss` must be finite"):
        fit_tta(
            built("functional ReLU"), (X, Y), CROP, loss=loss, n_samples=2, steps=5,
            on_step=lambda step, _: steps.append(step),
        )  # fmt: skip
    assert steps == [1, 2]
