"""What cross-validation over the images of a fit says, on data whose truth is known."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug import InstaAug, fit_tta
from instaaug.frozen import ViewTable
from instaaug.frozen.ordering import greedy_order
from instaaug.frozen.validation import FEWEST
from instaaug.parameterizations import CropGrid
from instaaug.transforms import Crop

N, N_CLASSES = 400, 6
CROPS = Crop(((1.0, 1), (0.5, 2)), max_outside=0.0)


class Constant(nn.Module):
    """A model that a table stands for; it is only asked for its features."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, N_CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).mean(dim=(2, 3))


def make_table(
    signal: torch.Tensor, *, seed: int = 0, n: int = N
) -> tuple[ViewTable, torch.Tensor]:
    """Outputs for 5 views; ``signal`` (n, 5) or (5,) says how much each knows of the class."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(N_CLASSES, (n,), generator=generator)
    truth = F.one_hot(targets, N_CLASSES).float()[:, None]
    noise = torch.randn(n, 5, N_CLASSES, generator=generator)
    outputs = signal.expand(n, 5)[..., None] * truth + noise
    return ViewTable(outputs.numpy().astype(np.float32), targets), targets


def fit(table: ViewTable, targets: torch.Tensor, **settings: object) -> InstaAug:
    images = torch.rand(len(targets), 3, 8, 8, generator=torch.Generator().manual_seed(1))
    options: dict[str, Any] = {"n_samples": (2, 3, 5), "steps": 20, "features": "none", **settings}
    return fit_tta(Constant().eval(), (images, targets), CROPS, table=table, **options)


def brute_force_order(table: ViewTable, n: int) -> list[int]:
    outputs, targets = torch.from_numpy(table.outputs), table.targets
    order = [0]
    while len(order) < n:
        losses = {
            k: float(F.cross_entropy(outputs[:, [*order, k]].mean(dim=1), targets))
            for k in range(outputs.shape[1])
            if k not in order
        }
        order.append(min(losses, key=lambda k: losses[k]))
    return order[1:]


@pytest.mark.parametrize("seed", range(3))
def test_the_greedy_order_is_that_of_a_loop(seed: int) -> None:
    table, _ = make_table(torch.rand(5) * 2, seed=seed)

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(outputs, targets, reduction="none")

    assert greedy_order(table, loss, 5) == brute_force_order(table, 5)


def test_views_that_know_more_come_first() -> None:
    table, targets = make_table(torch.tensor([1.0, 0.0, 2.0, 1.0, 3.0]))
    aug = fit(table, targets, merge="logit")
    assert aug.plan is not None
    assert aug.plan.order.argsort(descending=True)[:2].tolist() == [3, 1]


def test_views_without_information_are_advised_against() -> None:
    table, targets = make_table(torch.tensor([3.0, 0.0, 0.0, 0.0, 0.0]))
    found = fit(table, targets, merge="logit").validation
    assert found.n_views == 1
    assert found.verdict.startswith("Do not use views here")


def test_views_with_information_are_recommended_with_an_interval() -> None:
    """Five views know 5 ** 0.5 times as much as one: the gain is far from 0."""
    table, targets = make_table(torch.ones(5) * 1.5)
    found = fit(table, targets).validation
    assert found.n_views > 1
    difference, (low, high) = found.gain
    assert 0 < low < difference < high
    assert f"Use {found.n_views} views" in found.verdict


def test_an_input_that_says_nothing_is_not_depended_on() -> None:
    table, targets = make_table(torch.tensor([1.0, 0.5, 2.0, 1.0, 1.5]))
    aug = fit(table, targets, features="pyramid", steps=40)
    assert aug.validation.dependence == 0
    assert all(difference == 0 for difference, _ in aug.validation.worth.values())
    assert "were not better" in aug.validation.dependence_in_words
    x = torch.rand(3, 3, 8, 8)
    theta = aug.views(x, 5, select="top").theta
    assert torch.equal(theta[:, 0], theta[:, 1])


def test_an_input_that_says_which_view_is_good_is_depended_on() -> None:
    """A bright patch lies in the one quarter of the image that shows the class."""
    where = torch.arange(N) % 4
    signal = torch.full((N, 5), 0.2)
    signal[torch.arange(N), 1 + where] = 4.0
    table, targets = make_table(signal)
    boxes = CropGrid(CROPS.levels, max_outside=0.0).boxes[1:]
    images = torch.zeros(N, 3, 16, 16)
    for quarter, (x, y, *_) in enumerate(boxes.tolist()):
        rows, columns = (slice(8, 16) if end > 0 else slice(0, 8) for end in (y, x))
        images[where == quarter, :, rows, columns] = 1.0
    aug = fit_tta(
        Constant().eval(), (images, targets), CROPS, table=table, n_samples=2, steps=80,
        features="pyramid", merge="logit", learning_rate=0.02,
    )  # fmt: skip
    assert aug.validation.dependence > 0
    difference, (low, _) = aug.validation.worth[2]
    assert difference > 0.1
    assert low > 0


def test_it_is_not_flattered_by_noise() -> None:
    """Labels that nothing knows: what is left out must be judged at chance, 1 in 6.

    400 images: five standard errors are 0.093.
    """
    table, targets = make_table(torch.zeros(5))
    rows = fit(table, targets, features="pyramid", steps=40).validation.rows
    assert all(row.accuracy < 1 / N_CLASSES + 0.093 for row in rows)


def test_few_images_are_not_cross_validated() -> None:
    table, targets = make_table(torch.ones(5), n=FEWEST - 1)
    aug = fit(table, targets)
    assert aug.validation is None
    assert aug.stop_rule is None
    assert aug.plan is not None


def test_a_fit_is_repeatable() -> None:
    table, targets = make_table(torch.rand(5))
    one, two = (fit(table, targets, features="pyramid") for _ in range(2))
    assert one.validation.to_dict() == two.validation.to_dict()
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name]), name


def test_a_model_that_is_too_sure_is_calibrated_before_it_is_trusted() -> None:
    table, targets = make_table(torch.tensor([1.0, 0.5, 2.0, 1.0, 1.5]))
    loud = ViewTable(10 * table.outputs, targets)
    quiet, shouting = (
        fit(table, targets, merge="confidence"),
        fit(loud, targets, merge="confidence"),
    )
    assert shouting.calibration == pytest.approx(10 * quiet.calibration, rel=1e-3)
    assert shouting.sharpness == quiet.sharpness
    assert quiet.plan is not None
    assert shouting.plan is not None
    assert torch.equal(quiet.plan.order, shouting.plan.order)


@pytest.mark.parametrize("knows", [0.0, 6.0])
def test_one_larger_image_is_recommended_where_it_is_the_better_buy(knows: float) -> None:
    table, targets = make_table(torch.ones(5))
    whole = ViewTable(make_table(torch.full((5,), knows))[0].outputs[:, :1], targets)
    aug = fit(table, targets, sizes={16: whole})
    assert (aug.whole is not None) == (knows > 0)
    assert aug.validation is not None
    if aug.whole is not None:
        assert aug.whole.size == 16
        assert "Use one pass of the image at 16 px, at 4 of the cost" in aug.validation.verdict


def test_the_larger_image_is_what_a_prediction_uses_unless_views_are_asked_for(
    tmp_path: Path,
) -> None:
    """The model tells by the size what it was shown."""
    table, targets = make_table(torch.ones(5))
    whole = ViewTable(make_table(torch.full((5,), 6.0))[0].outputs[:, :1], targets)
    aug = fit(table, targets, sizes={16: whole})
    aug.save(tmp_path / "aug.safetensors")
    aug = InstaAug.load(tmp_path / "aug.safetensors").eval()
    assert aug.whole is not None
    seen: list[int] = []

    class Sides(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(x.shape[-1])
            return x.mean(dim=(2, 3))

    x = torch.rand(2, 3, 8, 8)
    outputs, counts = aug.wrap(Sides(), temperature=2.0).eval().outputs_and_counts(x)
    assert set(seen) == {16}
    assert counts.tolist() == [1, 1]
    torch.testing.assert_close(outputs, aug.whole.factor / 2 * aug.resize(x, 16).mean(dim=(2, 3)))
    seen.clear()
    aug.wrap(Sides(), 3)(x)
    assert set(seen) == {8}
