"""Where bands and learning rates are searched."""

from dataclasses import replace
from math import exp, log
from typing import Any

import pytest

from instaaug.augmentation import InstaAug
from instaaug.runs.build import build_task
from instaaug.runs.folder import DataFacts
from instaaug.runs.settings import TrainSettings
from instaaug.tune.space import SearchSpace

FACTS = DataFacts(16, 3, ("a", "b"), 2, (0.5,) * 3, (0.2,) * 3, "")


def space_of(config: TrainSettings) -> SearchSpace:
    augmenter = build_task(config, FACTS).augmenter
    assert isinstance(augmenter, InstaAug)
    return SearchSpace.around(config, augmenter)


def limits_at(config: TrainSettings, space: SearchSpace, point: dict[str, float]) -> Any:
    """The bands in nats of an augmenter built from the settings at a point."""
    augmenter = build_task(space.settings_at(config, point), FACTS).augmenter
    assert isinstance(augmenter, InstaAug)
    return augmenter.limits


@pytest.mark.parametrize("grid", ["0.375x16,0.75x8,1x1", "0.5x12,1x1"])
def test_crops_are_searched_where_the_paper_says_on_any_grid(grid: str) -> None:
    """2 to 4 of log 321 nats are shares of 0.023 to 0.17."""
    space = space_of(TrainSettings.from_mapping({"transforms": "crop", "crop.grid": grid}))
    assert space.bounds["crop/center"] == pytest.approx((exp(2) / 321, exp(4) / 321))
    assert space.bounds["crop/center"] == pytest.approx((0.0230, 0.1701), abs=1e-4)
    assert space.bounds["crop/width"] == pytest.approx((0.1, 2.0))
    assert space.bounds["phi_learning_rate"] == (1e-5, 1e-2)


def test_the_whole_of_the_advice_can_be_reached_in_nats() -> None:
    config = TrainSettings.from_mapping({"transforms": "crop"})
    space = space_of(config)
    point = {"crop/center": exp(3) / 321, "crop/width": 2.0, "phi_learning_rate": 1e-4}
    assert limits_at(config, space, point)["crop"] == pytest.approx((2.0, 4.0), abs=1e-3)
    narrow = {**point, "crop/width": 0.5}
    assert limits_at(config, space, narrow)["crop"] == pytest.approx((2.75, 3.25), abs=1e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"transforms": "crop"},
        {"transforms": "crop", "entropy": (0.5, 5.5)},
        {"transforms": "crop", "diversity": (0.9, 1.0)},
        {"transforms": "crop", "diversity": (0.05, 0.05)},
        {"transforms": "crop", "grid": "0.5x2,1x1"},
        {"transforms": "rotation"},
        {"transforms": "crop,color", "phi_learning_rate": 0.3},
        {"transforms": "flip,rotation", "phi_learning_rate": 1e-7},
    ],
)
def test_the_space_contains_its_start_and_every_corner_can_be_built(
    changes: dict[str, Any],
) -> None:
    config = TrainSettings.from_mapping({**changes})
    space = space_of(config)
    assert space.start.keys() == space.bounds.keys()
    for name, (low, high) in space.bounds.items():
        assert 0 < low < high
        assert low <= space.start[name] <= high
    for corner in (0, 1):
        for other in (0, 1):
            point = {
                name: bounds[corner if name.endswith("center") else other]
                for name, bounds in space.bounds.items()
            }
            for name, (low, high) in space.bands(point).items():
                lowest, highest = space.bounds[f"{name}/center"]
                assert 0.999 * lowest <= low <= high <= min(1.0, 1.001 * highest)
            limits_at(config, space, point)


@pytest.mark.parametrize("transforms", ["rotation", "color"])
def test_ranges_are_searched_on_both_sides_of_the_default(transforms: str) -> None:
    space = space_of(TrainSettings.from_mapping({"transforms": transforms}))
    ((name, (low, high)),) = space.own_bands.items()
    lowest, highest = space.bounds[f"{name}/center"]
    assert lowest < 0.6 * low
    assert high < highest < 1


def test_a_band_alone_is_a_pair_and_several_have_names() -> None:
    for transforms, kind in (("crop", tuple), ("crop,rotation", dict)):
        config = TrainSettings.from_mapping(
            {"transforms": transforms, "entropy.band": {"crop": (3.0, 3.5)}}
        )
        space = space_of(config)
        found = space.settings_at(config, space.start)
        assert isinstance(found.diversity, kind)
        assert found.entropy is None
        assert replace(found, diversity=None, entropy=config.entropy) == config
    assert isinstance(found.diversity, dict)
    assert found.diversity["crop"] == pytest.approx(
        (exp(3.0 - log(321)), exp(3.5 - log(321))), rel=1e-3
    )


def test_a_single_choice_has_no_band() -> None:
    config = TrainSettings.from_mapping({"transforms": "crop", "crop.grid": [[1.0, 1]]})
    space = space_of(config)
    assert list(space.bounds) == ["phi_learning_rate"]
    found = space.settings_at(config, {"phi_learning_rate": 0.00012345})
    assert found == config.override({"phi.learning_rate": 0.0001234})
