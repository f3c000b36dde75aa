"""What is learned where the best answer is known by construction."""

from math import exp

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from instaaug import InstaAug, fit_tta
from instaaug import transforms as T
from instaaug.distributions import FiniteTheta
from instaaug.frozen import NormalizedImages, ViewTable
from instaaug.frozen.learning import Learning, learn_from_table
from instaaug.objectives import ViewObjective
from tests.support.planted import QUARTERS, ColorAverage, StripeFinder, hidden_objects, stripes

TRAIN = hidden_objects(96)
TEST = hidden_objects(64, seed=1)


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return float((outputs.argmax(dim=1) == targets).double().mean())


def preferred_quarter(aug: InstaAug, x: Tensor) -> Tensor:
    """Of each image, the quarter that comes right after the whole."""
    box = aug.draw(x, 2, select="top")[1]
    return (box[:, 1] > 0) * 2 + (box[:, 0] > 0).long()


@pytest.mark.parametrize("objective", ["views", "single", "ensemble"])
def test_the_object_of_every_new_image_is_found(objective: ViewObjective) -> None:
    """The model is always wrong on the whole image, and right as soon as it sees the object."""
    model = ColorAverage().eval()
    aug = fit_tta(
        model, TRAIN[:2], QUARTERS, n_samples=2, objective=objective, steps=40,
        learning_rate=0.05, entropy=(0.1, 0.9) if objective == "single" else None,
    )  # fmt: skip
    x, target, quarter = TEST
    assert accuracy(model(x), target) == 0.0
    assert torch.equal(preferred_quarter(aug, x), quarter)
    assert accuracy(aug.wrap(model, 2).eval()(x), target) == 1.0


def test_without_a_look_at_the_image_the_object_is_found_by_luck_only() -> None:
    """One order of quarters for all images: a quarter of the objects is where it looks first."""
    model = ColorAverage().eval()
    aug = fit_tta(model, TRAIN[:2], QUARTERS, n_samples=2, features="none", steps=20)
    x, target, quarter = TEST
    preferred = preferred_quarter(aug, x)
    assert len(preferred.unique()) == 1
    lucky = float((preferred == quarter).double().mean())
    assert accuracy(aug.wrap(model, 2).eval()(x), target) == pytest.approx(lucky)
    assert lucky < 0.6


def learned_order(objective: ViewObjective, logits: Tensor) -> list[int]:
    """Views in the order that one distribution for all images learns from the same outputs."""
    n, k = 64, logits.shape[0]
    torch.manual_seed(0)
    aug = InstaAug(QUARTERS, conditioning="none", keep_original=True, entropy=(0.5, 1.3))
    outputs = logits.expand(n, k, -1).numpy().astype(np.float32)
    table = ViewTable(outputs, torch.zeros(n, dtype=torch.long))
    images = NormalizedImages((torch.zeros(n, 3, 8, 8), torch.zeros(n)))
    learning = Learning(objective, (3,), cross_entropy, steps=60, batch_size=16)
    learn_from_table(aug, table, images, learning)
    box = aug.draw(torch.zeros(1, 3, 8, 8), 5, select="top")[1:, 0]
    return ((box[:, 1] > 0) * 2 + (box[:, 0] > 0).long()).tolist()


def test_of_views_that_err_alike_only_one_is_chosen_where_n_is_known() -> None:
    """Class 0 is right. Quarters 0 and 1 are best alone, and mistake it for class 1, both.

    Quarter 2 is a little worse alone, and mistakes it for class 2; quarter 3 is of no use. The
    mean over the whole image, a quarter that errs one way and one that errs the other is best.
    """
    logits = torch.tensor(
        [[0.0, 0.0, 0.0], [5.0, 4.8, 0.0], [5.0, 4.8, 0.0], [5.0, 0.0, 4.92], [0.0, 3.0, 3.0]]
    )
    assert set(learned_order("single", logits)[:2]) == {0, 1}
    best = set(learned_order("views", logits)[:2])
    assert 2 in best
    assert best != {2, 3}


def test_hue_stays_free_where_the_model_ignores_it_and_rotation_shrinks() -> None:
    """Through the frozen model, by the pathwise gradient, from the middle of wide bands."""
    model = StripeFinder().eval()
    bands = {"rotation": (0.3, 1.7), "hsv_jitter": (-1.5, -0.05)}
    x, y = stripes(64)

    def widths(steps: int) -> dict[str, float]:
        aug = fit_tta(
            model, (x, y), [T.Rotation(), T.HSVJitter(hue=0.5, saturation=0.0, value=0.0)],
            entropy=bands, features="none", steps=steps, batch_size=16, learning_rate=0.02,
        )  # fmt: skip
        entropies = aug.distribution(x).entropies().detach().mean(dim=0)
        return {n: exp(float(h)) for n, h in zip(aug.phi.names, entropies, strict=True)}

    before, after = widths(1), widths(40)
    assert after["rotation"] < 0.7 * before["rotation"]
    assert after["hsv_jitter"] > 0.9 > before["hsv_jitter"], "of a circle of length 1"


def test_the_risk_that_is_minimized_is_the_enumerated_one() -> None:
    """One step with the objective "single" moves the scores along the exact gradient."""
    model = ColorAverage().eval()
    steps: list[float] = []
    fit_tta(
        model, TRAIN[:2], QUARTERS, objective="single", features="none", steps=1, batch_size=96,
        entropy=(1.0, 1.2), on_step=lambda _, value: steps.append(value),
    )  # fmt: skip
    torch.manual_seed(0)
    start = InstaAug(QUARTERS, conditioning="none", entropy=(1.0, 1.2))
    x, target, _ = TRAIN
    joint = start.distribution(x)
    crop = joint["crop"]
    assert isinstance(crop, FiniteTheta)
    whole = (crop.table == torch.tensor([0.0, 0.0, 2.0, 2.0])).all(dim=1)
    probs = crop.probs[:, ~whole]
    probs = probs / probs.sum(dim=1, keepdim=True)
    losses = torch.stack(
        [
            cross_entropy(model(start.render(x, box.expand(96, -1))), target)
            for box in crop.table[~whole]
        ],
        dim=1,
    )
    expected = (probs * losses).sum(dim=1).mean() - start.band.weight[0] * joint.entropy().mean()
    assert steps[0] == pytest.approx(float(expected.detach()), rel=1e-3)
