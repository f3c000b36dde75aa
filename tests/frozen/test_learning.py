"""How φ starts, and what becomes of its scores in the end."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug import InstaAug, fit_tta
from instaaug.augmentation.at_test_time import confidence
from instaaug.frozen import NormalizedImages, ViewTable
from instaaug.frozen.learning import (
    Learning,
    choose_sharpness,
    learn_from_table,
    view_confidence,
)
from instaaug.objectives import ViewObjective
from instaaug.transforms import Crop
from tests.support.frozen_tables import CROP, data

N, K = 8, 5
STANDS_STILL = 1e-12


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


def learned(objective: ViewObjective, **options: float) -> tuple[InstaAug, InstaAug]:
    """An augmenter before and after learning from a table of noise."""
    images = NormalizedImages(data(N))
    outputs = np.random.default_rng(0).normal(size=(N, K, 5)).astype(np.float32)
    table = ViewTable(outputs, data(N)[1])
    both = []
    for _ in range(2):
        torch.manual_seed(0)
        both.append(InstaAug(CROP, entropy=(0.5, 1.0), keep_original=True))
    settings = {"steps": 1, "learning_rate": STANDS_STILL} | options
    learning = Learning(objective, (2, 3), cross_entropy, **settings)  # type: ignore[arg-type]
    learn_from_table(both[1], table, images, learning)
    return both[0], both[1]


def weights(aug: InstaAug) -> Tensor:
    return torch.cat([p.detach().flatten() for p in aug.phi.heads.parameters() if p.ndim > 1])


def biases(aug: InstaAug) -> Tensor:
    return torch.cat([p.detach() for p in aug.phi.heads.parameters() if p.ndim == 1])


@pytest.mark.parametrize(("objective", "times"), [("views", 10), ("ensemble", 1), ("single", 1)])
def test_scores_are_divided_by_the_last_temperature_where_they_decide_a_selection(
    objective: ViewObjective, times: int
) -> None:
    before, after = learned(objective)
    torch.testing.assert_close(weights(after), times * weights(before))


@pytest.mark.parametrize("objective", ["views", "ensemble", "single"])
def test_only_the_single_view_starts_within_its_band(objective: ViewObjective) -> None:
    """The others prefer no view before they have seen any."""
    before, after = learned(objective)
    expected = biases(before) if objective == "single" else 0 * biases(before)
    torch.testing.assert_close(biases(after), expected, atol=1e-6, rtol=1e-6)


def test_the_learning_rate_falls_to_zero_and_biases_move_faster() -> None:
    """Adam moves every number by its rate: 16 times as far for the bias of a view."""
    _, after = learned("ensemble", learning_rate=1e-3)
    assert float(biases(after).abs().max()) == pytest.approx(16e-3, rel=1e-3)
    _, later = learned("ensemble", learning_rate=1e-3, steps=4)
    assert float(biases(later).abs().max()) < 16e-3 * (1 + 0.75 + 0.5 + 0.25) * 1.01


def test_a_stream_takes_the_second_half_of_the_descent_however_short_it_is() -> None:
    table = Learning("views", (2,), cross_entropy, steps=4)
    assert [table.progress(step) for step in range(5)] == [0, 0.25, 0.5, 0.75, 1]
    both = Learning("views", (2,), cross_entropy, steps=6, n_streamed=2)
    assert [both.progress(step) for step in range(7)] == [0, 0.125, 0.25, 0.375, 0.5, 0.75, 1]


def table_of_views(*, confident_when_right: bool) -> ViewTable:
    """Views of 400 images; half of them are wrong, and are either unsure or all too sure."""
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(400) % 10
    right = torch.rand(400, 8, generator=generator) < 0.5
    said = torch.where(right, targets[:, None], (targets[:, None] + 1 + torch.arange(8)) % 10)
    sure = right if confident_when_right else ~right
    logits = F.one_hot(said, 10) * torch.where(sure, 5.0, 2.0)[..., None]
    return ViewTable(logits.numpy().astype(np.float32), targets)


def test_confidence_counts_where_it_tells_right_from_wrong() -> None:
    assert choose_sharpness(table_of_views(confident_when_right=True), (4, 8)) > 0


def test_the_plain_mean_is_kept_where_confidence_misleads() -> None:
    assert choose_sharpness(table_of_views(confident_when_right=False), (4, 8)) == 0


def test_the_confidence_of_a_table_is_that_of_each_of_its_views() -> None:
    table = table_of_views(confident_when_right=True)
    found = view_confidence(table, 0.5)
    one = confidence(torch.from_numpy(table.outputs[7, 3])[None], 0.5)
    assert found.shape == (400, 8)
    torch.testing.assert_close(found[7, 3], one[0])


@pytest.mark.parametrize("band", [(0.2, 0.4), (1.2, 1.3)], ids=["narrow", "wide"])
@pytest.mark.parametrize("features", ["none", "pyramid"])
def test_the_single_view_ends_within_its_band(features: str, band: tuple[float, float]) -> None:
    """However few the steps; the views are four boxes and the whole."""
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(3, (40,), generator=generator)
    table = ViewTable(3 * torch.randn(40, 5, 3, generator=generator).numpy(), targets)
    images = torch.rand(40, 3, 8, 8, generator=generator)
    model = nn.Sequential(nn.Conv2d(3, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    aug = fit_tta(
        model, (images, targets), Crop(((1.0, 1), (0.5, 2)), max_outside=0.0), table=table,
        objective="single", entropy=band, features=features, steps=20,
    )  # fmt: skip
    with torch.no_grad():
        entropy = float(aug.distribution(images).entropies().mean())
    assert band[0] - 1e-4 <= entropy <= band[1] + 1e-4
