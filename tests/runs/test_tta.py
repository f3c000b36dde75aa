"""Views that were fitted for a frozen model, and their temperatures."""

from pathlib import Path

import pytest
import torch

from instaaug.data import LabeledImages
from instaaug.frozen import fit_temperature
from instaaug.runs.settings import TtaSettings
from instaaug.runs.tta import FittedViews, fit_temperatures
from instaaug.runs.view_scores import merge_outputs
from tests.support.fitted_views import fit_spots
from tests.support.spots import COLORS


def test_temperatures_do_not_believe_what_was_learned_by_heart(
    spots: LabeledImages, tmp_path: Path
) -> None:
    """Labels are drawn at random: nothing can be learned but by heart."""
    generator = torch.Generator().manual_seed(0)
    some = spots.subset(range(0, 60, 4))
    wrong = torch.randint(0, 3, (len(some),), generator=generator)
    noisy = LabeledImages(some.images, wrong, COLORS, rows=some.rows)
    fitted = fit_spots(noisy, **{"phi.network": "pyramid", "views": [2], "phi.steps": 60})
    config, model, aug = fitted.config, fitted.model, fitted.aug
    assert isinstance(config, TtaSettings)
    flattered = merge_outputs(aug, model, model.normalize(noisy), (2,), select="top")
    honest = fit_temperatures(
        config, model, noisy, aug, size=16, counts=(1, 2), folder=tmp_path / "table"
    )
    assert honest[2] > 1.2 * fit_temperature(flattered[2], noisy.targets)
    alone = merge_outputs(aug, model, model.normalize(noisy), (1,), select="top")
    assert honest[1] == pytest.approx(fit_temperature(alone[1], noisy.targets), rel=1e-2)


def test_the_objective_of_the_paper_has_a_band_and_a_network(spots: LabeledImages) -> None:
    few, means = spots.subset(range(0, 60, 4)), []
    for band in ([0.1, 0.2], [1.3, 1.5]):
        values = {"entropy": band, "phi.network": "glance", "phi.steps": 60}
        aug = fit_spots(few, **values).aug
        assert aug.settings.network == "glance"
        assert aug.limits == {"crop": tuple(band)}
        with torch.no_grad():
            joint = aug.distribution(few.__getitems__(range(len(few)))[0] / 255)
        means.append(float(joint.entropies().mean()))
    assert means[0] < means[1]


@pytest.mark.parametrize(("views", "wanted"), [(1, 1.0), (1.9, 1.0), (2.1, 2.0), (50, 2.0)])
def test_the_temperature_is_that_of_the_nearest_number(
    fitted: FittedViews, views: float | int, wanted: float
) -> None:
    assert fitted.temperature(views) == wanted
