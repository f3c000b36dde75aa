"""Merged outputs are those of test-time augmentation, from one pass or from the table."""

from dataclasses import replace

import pytest
import torch

from instaaug.augmentation.at_test_time import Merge, Merging
from instaaug.data import LabeledImages
from instaaug.frozen import FrozenViews, tabulate
from instaaug.frozen.table import all_views
from instaaug.networks import FrozenFeatures
from instaaug.runs.baselines import find_baselines
from instaaug.runs.tta import FittedViews
from instaaug.runs.view_scores import (
    AT_ONCE,
    MEAN,
    CostCounter,
    merge_by_rules,
    merge_outputs,
    merge_tabulated_outputs,
    score,
)
from tests.support.fitted_views import fit_spots

COUNTS = (1, 2, 4, 7)


@pytest.mark.parametrize("merge", ["logit", "confidence"])
@pytest.mark.parametrize("count", COUNTS)
def test_one_pass_gives_what_test_time_augmentation_gives(
    fitted: FittedViews, spots: LabeledImages, count: int, merge: Merge
) -> None:
    inputs = fitted.model.normalize(spots)
    fitted.aug.set_merging(merge)
    merged = merge_outputs(
        fitted.aug, fitted.model, inputs, COUNTS, select="top", rule=fitted.rule
    )
    predictor = fitted.aug.wrap(fitted.model.module, count).eval()
    with torch.no_grad():
        wanted = predictor(inputs.first(len(spots)))
    assert torch.allclose(merged[count], wanted, atol=1e-4)


@pytest.mark.parametrize("transforms", [["rotation"], ["hsv_jitter", "flip"]])
def test_ranges_are_spread_anew_for_every_number_of_views(
    spots: LabeledImages, transforms: list[str]
) -> None:
    fitted = fit_spots(spots.subset(range(0, 60, 4)), **{"transforms": transforms, "phi.steps": 2})
    inputs = fitted.model.normalize(spots)
    merged = merge_outputs(
        fitted.aug, fitted.model, inputs, (2, 4), select="top", rule=fitted.rule
    )
    with torch.no_grad():
        wanted = fitted.aug.wrap(fitted.model.module, 2).eval()(inputs.first(len(spots)))
    assert torch.allclose(merged[2], wanted, atol=1e-4)


@pytest.mark.parametrize(
    "phi", [{}, {"phi.network": "pyramid"}, {"phi.network": "glance"}, {"phi.features": "none"}]
)
def test_the_table_gives_what_the_model_would_say(
    spots: LabeledImages, phi: dict[str, str]
) -> None:
    fitted = fit_spots(spots, **{"phi.steps": 3}, **phi)
    aug, model, inputs = fitted.aug, fitted.model, fitted.model.normalize(spots)
    network = aug.phi.network
    reader = network if isinstance(network, FrozenFeatures) else None
    table = tabulate(FrozenViews(model.module, aug.transform, all_views(aug), reader), inputs)
    rule = Merging("confidence", sharpness=0.5)
    asked = merge_outputs(aug, model, inputs, COUNTS, select="top", rule=rule)
    looked_up = merge_tabulated_outputs(aug, table, inputs, COUNTS, rule)
    for count in COUNTS:
        assert torch.allclose(asked[count], looked_up[count], atol=1e-2), count


def test_a_score_has_both_sides_of_the_temperature() -> None:
    sure = torch.tensor([[4.0, 0.0]]).repeat(4, 1)
    row = score("a", 2.0, sure, torch.tensor([0, 0, 0, 1]), temperature=4.0 / 1.0986)
    assert row.to_dict()["accuracy"] == 0.75
    assert row.numbers["ece_after"] == pytest.approx(0.0, abs=1e-3)
    assert row.numbers["ece"] == pytest.approx(0.232, abs=1e-3)
    assert "nll_after" not in score("a", 2.0, sure, torch.zeros(4).long()).numbers


def test_several_rules_merge_the_same_views(fitted: FittedViews, spots: LabeledImages) -> None:
    inputs, rule = fitted.model.normalize(spots), Merging("confidence", sharpness=2.0)
    grid = find_baselines("grid", fitted)[1].augmenter
    both = merge_by_rules(grid, fitted.model, inputs, (2, 4), [rule, MEAN], seed=3)
    for merged, one in zip(both, (rule, MEAN), strict=True):
        alone = merge_outputs(grid, fitted.model, inputs, (2, 4), rule=one, seed=3)
        assert all(torch.equal(merged[n], alone[n]) for n in (2, 4))
    assert not torch.allclose(both[0][4], both[1][4])


def test_the_most_certain_views_are_those_of_least_entropy(
    fitted: FittedViews, spots: LabeledImages
) -> None:
    inputs = fitted.model.normalize(spots)
    grid = find_baselines("grid", fitted)[1].augmenter
    (half,) = merge_by_rules(grid, fitted.model, inputs, (4,), [MEAN], share=0.5)
    x = inputs.first(AT_ONCE)
    theta = grid.draw(x, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = torch.stack([fitted.model.module(grid.render(x, row)) for row in theta])
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    for i in range(AT_ONCE):
        best = logits[entropy[:, i].argsort()[:2], i].mean(dim=0)
        assert torch.allclose(half[4][i], best, atol=1e-4)


def test_a_view_costs_a_pass_and_phi_its_heads(fitted: FittedViews, spots: LabeledImages) -> None:
    image = fitted.model.normalize(spots).first(1)
    counter = CostCounter(fitted.model, image, 16)
    grid = find_baselines("grid", fitted)[1].augmenter
    assert [counter.cost(grid, n) for n in (1.0, 4.0)] == [1.0, 4.0]
    assert counter.known == {(1, 3, 16, 16): 16 * 16 * 9 + 9}
    heads = counter.cost(fitted.aug, 4.0, select="top") - 4
    assert heads > 0
    assert counter.cost(fitted.aug, 2.5, select="top") == pytest.approx(2.5 + heads)
    larger = CostCounter(fitted.model, image, 8)  # where the whole image is a quarter of a view
    assert larger.cost(grid, 3.0) == pytest.approx(3 * (16 * 16 * 9 + 9) / (8 * 8 * 9 + 9))


def test_a_model_of_which_nothing_can_be_counted_costs_its_views(
    fitted: FittedViews, spots: LabeledImages
) -> None:
    free = replace(fitted.model, module=torch.nn.Flatten())
    counter = CostCounter(free, fitted.model.normalize(spots).first(1), 16)
    assert counter.cost(find_baselines("grid", fitted)[1].augmenter, 3.0) == 3.0
