"""Every question can be asked; small here, for a clock has no place in a test."""

import pytest
import torch
from torch import nn

from instaaug import InstaAug
from instaaug.speed import ROUNDS, questions, timing
from instaaug.speed.questions import views_against_passes
from instaaug.transforms import Transform

DESIGN = {
    ("PreActResNet-18", "learned crops"): 1.05,
    ("PreActResNet-18", "learned rotation"): 1.05,
    ("PreActResNet-18", "learned HSV"): 1.10,
    ("16 times cheaper", "learned crops"): 1.25,
    ("16 times cheaper", "learned rotation"): 1.25,
    ("16 times cheaper", "learned HSV"): 1.25,
}


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SHORTEST_TURN", 0.0)
    monkeypatch.setattr(timing, "WARM_UP", 1)
    monkeypatch.setattr(questions, "BATCH", 2)
    monkeypatch.setattr(questions, "SIDE", 16)


def test_budgets_are_those_of_the_design() -> None:
    budgets = questions.STEP_BUDGETS
    assert {
        (size, name): b for size, rows in budgets.items() for name, b in rows.items()
    } == DESIGN
    assert ROUNDS >= 20


def test_a_training_step_is_compared_with_random_none_and_kornia() -> None:
    rows = questions.time_steps("16 times cheaper", rounds=2)
    assert {row.reference for row in rows} == {"random crops"}
    assert [row.name for row in rows] == [
        "no augmentation",
        "random, all three",
        "kornia, random crops",
        "kornia, random rotation",
        "kornia, random colors",
        "learned crops",
        "learned rotation",
        "learned HSV",
        "learned, all three",
    ]


def test_steps_teach_the_model_and_phi(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[InstaAug] = []

    def noted(transforms: tuple[Transform, ...]) -> InstaAug:
        made.append(InstaAug(transforms))
        return made[-1]

    monkeypatch.setattr(questions, "InstaAug", noted)
    step = questions.learned_step(0.25, questions.LEARNED["learned, all three"])
    (aug,) = made
    before = [p.detach().clone() for p in aug.parameters()]
    step()
    moved = [not torch.equal(a, b) for a, b in zip(before, aug.parameters(), strict=True)]
    assert all(moved)


def test_views_are_compared_with_as_many_passes() -> None:
    calls: list[int] = []

    class Counting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(len(x))
            return x.mean(dim=(2, 3))

    (row,) = views_against_passes(Counting(), torch.rand(2, 3, 16, 16), 3, rounds=2)
    assert (row.name, row.reference) == ("TTA, n = 3", "3 plain forward passes")
    assert row.budget == 1.02
    assert sum(calls) == (1 + 2) * (3 * 2 + 3 * 2)  # warm-up and rounds; passes and views
