"""Merged outputs are those of test-time augmentation, from one pass or from the table."""

import pytest
import torch

from instaaug.augmentation.at_test_time import Merge, Merging
from instaaug.data import LabeledImages
from instaaug.frozen import FrozenViews, tabulate
from instaaug.frozen.table import all_views
from instaaug.networks import FrozenFeatures
from instaaug.runs.tta import FittedViews
from instaaug.runs.view_scores import merge_outputs, merge_tabulated_outputs, score
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


@pytest.mark.parametrize("features", ["model", "pyramid", "none"])
def test_the_table_gives_what_the_model_would_say(spots: LabeledImages, features: str) -> None:
    fitted = fit_spots(spots, **{"phi.features": features})
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
