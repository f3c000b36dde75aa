"""What was chosen for a run is told, and it is what the run has."""

from dataclasses import replace

import pytest

from instaaug.networks import SmallCNN, make_model
from instaaug.runs.automatic import describe_choices, describe_validation
from instaaug.runs.folder import DataFacts
from instaaug.runs.settings import TrainSettings


def facts(size: int = 48) -> DataFacts:
    return DataFacts(size, 3, ("cat", "dog"), 2, None, None, "")


@pytest.mark.parametrize("size", [16, 32, 33, 64])
def test_the_model_is_the_one_that_is_named(size: int) -> None:
    model = make_model("auto", 2, image_size=size)
    said = describe_choices(TrainSettings.from_mapping({}), facts(size))
    assert ("small_cnn" in said) == isinstance(model, SmallCNN)
    assert ("preact_resnet18 of half the width" in said) == (not isinstance(model, SmallCNN))


@pytest.mark.parametrize(
    ("settings", "ending"),
    [
        ({"data": "pets"}, "crop, φ that looks for useful views."),
        ({"data": {"source": "pets", "validation_fraction": 0.0}}, "crop."),
        ({"data": "pets", "phi": {"goal": "loss"}}, "crop."),
        ({"data": "pets", "method": "random"}, "crop."),
        ({"data": "pets", "method": "mixup"}, "half the width."),
    ],
)
def test_what_is_learned_is_told_where_it_was_left_open(
    settings: dict[str, object], ending: str
) -> None:
    assert describe_choices(TrainSettings.from_mapping(settings), facts()).endswith(ending)


def test_nothing_is_told_where_all_was_given() -> None:
    given = {
        "data": {"source": "pets", "image_size": 48}, "model": "small_cnn", "transforms": ["crop"],
        "phi": {"goal": "loss"},
    }  # fmt: skip
    assert not describe_choices(TrainSettings.from_mapping(given), facts())


@pytest.mark.parametrize(
    ("split", "resemblance", "told"),
    [
        ("random", 0.7, True),
        ("block", 0.7, True),
        ("random", 0.95, False),
        ("random", None, False),
        ("similar", 0.7, False),
    ],
)
def test_validation_images_that_are_near_copies_are_told(
    split: str, resemblance: float | None, told: bool
) -> None:
    config = TrainSettings.from_mapping({"data": {"split": split}})
    words = describe_validation(config, replace(facts(), resemblance=resemblance))
    assert ("the nearest training image is 0.70 times as far" in words) == told
    assert bool(words) == told
