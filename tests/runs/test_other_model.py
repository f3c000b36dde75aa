"""Views of one model for another: what it sees, what it says, and what it cannot be."""

from pathlib import Path
from typing import Any

import pytest
import torch

from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError
from instaaug.frozen.resized_views import ResizedViews
from instaaug.runs.other_model import use_other_model
from instaaug.runs.settings import OtherModelSettings
from instaaug.runs.tta import FittedViews
from instaaug.runs.view_scores import CostCounter, merge_outputs
from tests.support.fitted_views import fit_spots

MODELS = "tests.support.spots"
COUNTS = (1, 2, 4)


def settings(name: str, **values: Any) -> OtherModelSettings:
    return OtherModelSettings.from_mapping({"name": f"{MODELS}:{name}", **values})


def predict(fitted: FittedViews, images: LabeledImages) -> dict[int, torch.Tensor]:
    inputs = fitted.model.normalize(images)
    augmenter = fitted.augmenter
    return merge_outputs(
        augmenter, fitted.model, inputs, COUNTS, select=augmenter.select, rule=fitted.rule
    )


def test_the_same_model_says_the_same(fitted: FittedViews, spots: LabeledImages) -> None:
    other = use_other_model(fitted, settings("spotter"))
    assert other.facts.image_size == 16
    ours, theirs = predict(fitted, spots), predict(other, spots)
    for count in COUNTS:
        assert torch.allclose(ours[count], theirs[count], atol=1e-4), count


def test_classes_are_matched_by_name(
    fitted: FittedViews, spots: LabeledImages, tmp_path: Path
) -> None:
    names = tmp_path / "names.txt"
    names.write_text("red\ngreen\nblue\n")
    other = use_other_model(fitted, settings("in_another_order", classes=str(names)))
    assert torch.allclose(predict(fitted, spots)[4], predict(other, spots)[4], atol=1e-4)
    untold = use_other_model(fitted, settings("in_another_order"))
    assert torch.allclose(predict(fitted, spots)[4], predict(untold, spots)[4].flip(1), atol=1e-4)


def test_images_are_normalized_for_whoever_sees_them(spots: LabeledImages) -> None:
    """φ sees them as the first model does, the other model as it expects them."""
    fitted = fit_spots(spots, **{"model.mean": [0.4, 0.5, 0.6], "model.std": [0.5, 0.5, 0.5]})
    other = use_other_model(fitted, settings("of_gray_levels", mean=[0.0], std=[0.25]))
    plain = use_other_model(fitted, settings("spotter"))
    theta = [
        one.augmenter.views(one.model.normalize(spots).first(8), 4, select="top").theta
        for one in (fitted, other, plain)
    ]
    assert torch.equal(theta[0], theta[1])
    assert torch.equal(theta[0], theta[2])
    assert torch.allclose(predict(plain, spots)[4], predict(other, spots)[4], atol=1e-3)


def test_views_are_rendered_in_the_size_of_the_other_model(
    fitted: FittedViews, spots: LabeledImages
) -> None:
    other = use_other_model(fitted, settings("spotter", image_size=24))
    x = other.model.normalize(spots).first(3)
    views = other.augmenter.views(x, 3, select="top")
    assert views.first is None
    assert other.augmenter.render(x, views.theta[1]).shape == (3, 3, 24, 24)
    assert torch.equal(views.theta, fitted.aug.views(x, 3, select="top").theta)
    assert isinstance(other.augmenter, ResizedViews)
    for name in ("select", "merge", "sharpness", "calibration"):
        assert getattr(other.augmenter, name) == getattr(fitted.aug, name)
    assert other.facts.image_size == 24


def test_phi_costs_a_pass_of_the_first_model(fitted: FittedViews, spots: LabeledImages) -> None:
    other = use_other_model(fitted, settings("spotter"))
    image = fitted.model.normalize(spots).first(1)
    own = CostCounter(fitted.model, image, 16).cost(fitted.augmenter, 4.0, select="top")
    with_other = CostCounter(other.model, image, 16).cost(other.augmenter, 4.0, select="top")
    assert with_other == pytest.approx(own + 1)


def test_no_temperature_is_known(fitted: FittedViews, spots: LabeledImages) -> None:
    other = use_other_model(fitted, settings("spotter"))
    assert other.temperatures == {}
    assert other.temperature(4) == 1.0
    x = other.model.normalize(spots).first(8)
    logits, counts = other.predictor(4, mean_views=2.0)(x)
    assert logits.shape == (8, 3)
    assert int(counts.sum()) == 16


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("spotter", {"channels": 1}, r"`model` must take images of 3 channels, .* takes 1\."),
        ("four_outputs", {}, "`model` has 4 outputs, but there are 3 classes"),
        ("of_pixels", {"image_size": 24}, "`model` cannot take an image of 3 × 24 × 24"),
        ("as_dict", {}, "`model` must return logits: got a dict with scores, loss"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(
    fitted: FittedViews, name: str, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        use_other_model(fitted, settings(name, **values))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("red\ngreen\npurple\n", "'tests.support.spots:spotter' does not know 'blue'. Name its"),
        ("red\ngreen\nblue\npurple\n", "adds 'purple'. Name its classes in the order"),
    ],
)
def test_other_classes_are_refused(
    fitted: FittedViews, tmp_path: Path, names: str, words: str
) -> None:
    (tmp_path / "names.txt").write_text(names)
    with pytest.raises(ArgumentError, match=words):
        use_other_model(fitted, settings("spotter", classes=str(tmp_path / "names.txt")))
