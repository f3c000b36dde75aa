"""Merged outputs are those of test-time augmentation, from one pass or from the table."""

from pathlib import Path

import pytest
import torch

from instaaug.augmentation import InstaAug
from instaaug.data import LabeledImages
from instaaug.frozen import FrozenViews, fit_temperature, tabulate
from instaaug.frozen.table import all_views
from instaaug.networks import FrozenFeatures
from instaaug.runs.frozen import build_model, find_model, load_images
from instaaug.runs.settings import TtaSettings
from instaaug.runs.tta import DataFacts, FittedViews, fit_temperatures, fit_views
from instaaug.runs.tta_evaluation import BASELINES, baselines_named
from instaaug.runs.view_scores import merge_outputs, merge_tabulated_outputs, score
from tests.support.spots import COLORS, spot_folder

COUNTS = (1, 2, 4, 7)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> LabeledImages:
    folder = spot_folder(tmp_path_factory.mktemp("scores") / "spots", 20)
    cache = str(folder.parent / "cache")
    config = TtaSettings.from_mapping(
        {"model": "tests.support.spots:spotter", "data": str(folder), "data.cache_dir": cache}
    )
    return load_images(config, find_model(config.model), side=32, channels=3)


def fitted_to(images: LabeledImages, **settings: str | int) -> FittedViews:
    settings = {"crops": "1:1,0.5:2", "samples": "2,4", "steps": 30, **settings}
    config = TtaSettings.from_mapping(
        {"model": "tests.support.spots:spotter", "data": "spots", **settings}
    )  # type: ignore[arg-type]
    source = find_model(config.model)
    model = build_model(source, config, 3)
    aug = fit_views(config, model, images, size=16)
    facts = DataFacts(16, 32, 3, COLORS, "", "")
    return FittedViews(config, facts, source, model, aug, {1: 1.0, 4: 2.0})


@pytest.fixture(scope="module")
def fitted(images: LabeledImages) -> FittedViews:
    return fitted_to(images)


@pytest.mark.parametrize("count", COUNTS)
def test_one_pass_gives_what_test_time_augmentation_gives(
    fitted: FittedViews, images: LabeledImages, count: int
) -> None:
    pictures = fitted.model.pictures(images)
    merged = merge_outputs(fitted.aug, fitted.model, pictures, COUNTS, select="top")
    predictor = fitted.aug.wrap(fitted.model.module, count).eval()
    with torch.no_grad():
        wanted = predictor(pictures.first(len(images)))
    assert torch.allclose(merged[count], wanted, atol=1e-4)


@pytest.mark.parametrize("transforms", ["rotation", "color,flip"])
def test_ranges_are_spread_anew_for_every_number_of_views(
    images: LabeledImages, transforms: str
) -> None:
    fitted = fitted_to(images.subset(range(0, 60, 4)), transforms=transforms, steps=2)
    pictures = fitted.model.pictures(images)
    merged = merge_outputs(fitted.aug, fitted.model, pictures, (2, 4), select="top")
    with torch.no_grad():
        wanted = fitted.aug.wrap(fitted.model.module, 2).eval()(pictures.first(len(images)))
    assert torch.allclose(merged[2], wanted, atol=1e-4)


@pytest.mark.parametrize("features", ["model", "pyramid", "none"])
def test_the_table_gives_what_the_model_would_say(images: LabeledImages, features: str) -> None:
    fitted = fitted_to(images, features=features)
    aug, model, pictures = fitted.aug, fitted.model, fitted.model.pictures(images)
    network = aug.phi.network
    reader = network if isinstance(network, FrozenFeatures) else None
    table = tabulate(FrozenViews(model.module, aug.transform, all_views(aug), reader), pictures)
    asked = merge_outputs(aug, model, pictures, COUNTS, select="top")
    looked_up = merge_tabulated_outputs(aug, table, pictures, COUNTS)
    for count in COUNTS:
        assert torch.allclose(asked[count], looked_up[count], atol=1e-2), count


def test_draws_depend_on_the_seed(fitted: FittedViews, images: LabeledImages) -> None:
    (random,) = (b for b in baselines_named("random", fitted) if b.name == "random crops")
    pictures = fitted.model.pictures(images)
    one, same, other = (
        merge_outputs(random.augmenter, fitted.model, pictures, (2,), seed=seed)[2]
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)


# Temperatures


def test_temperatures_do_not_believe_what_was_learned_by_heart(
    images: LabeledImages, tmp_path: Path
) -> None:
    """Labels are drawn at random: nothing can be learned but by heart."""
    generator = torch.Generator().manual_seed(0)
    some = images.subset(range(0, 60, 4))
    wrong = torch.randint(0, 3, (len(some),), generator=generator)
    noisy = LabeledImages(some.images, wrong, COLORS, rows=some.rows)
    fitted = fitted_to(noisy, features="pyramid", samples="2", steps=60)
    config, model, aug = fitted.config, fitted.model, fitted.aug
    flattered = merge_outputs(aug, model, model.pictures(noisy), (2,), select="top")
    honest = fit_temperatures(
        config, model, noisy, aug, size=16, counts=(1, 2), folder=tmp_path / "table"
    )
    assert honest[2] > 1.2 * fit_temperature(flattered[2], noisy.targets)
    alone = merge_outputs(aug, model, model.pictures(noisy), (1,), select="top")
    assert honest[1] == pytest.approx(fit_temperature(alone[1], noisy.targets), rel=1e-2)


@pytest.mark.parametrize(("views", "wanted"), [(1, 1.0), (1.9, 1.0), (2.1, 2.0), (50, 2.0)])
def test_the_temperature_is_that_of_the_nearest_number(
    fitted: FittedViews, views: float | int, wanted: float
) -> None:
    assert fitted.temperature(views) == wanted


def test_a_score_has_both_sides_of_the_temperature() -> None:
    sure = torch.tensor([[4.0, 0.0]]).repeat(4, 1)
    row = score("a", 2.0, sure, torch.tensor([0, 0, 0, 1]), temperature=4.0 / 1.0986)
    assert row.to_dict()["accuracy"] == 0.75
    assert row.numbers["ece_after"] == pytest.approx(0.0, abs=1e-3)
    assert row.numbers["ece"] == pytest.approx(0.232, abs=1e-3)
    assert "nll_after" not in score("a", 2.0, sure, torch.zeros(4).long()).numbers


# Baselines


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_predicts_at_its_budget(
    fitted: FittedViews, images: LabeledImages, name: str
) -> None:
    baseline = BASELINES[name](fitted)
    counts = baseline.counts((1, 2, 10))
    assert counts
    assert BASELINES[name].__doc__
    pictures = fitted.model.pictures(images.subset(range(0, 60, 10)))
    merged = merge_outputs(
        baseline.augmenter, fitted.model, pictures, counts, select=baseline.select
    )
    assert {n: tuple(logits.shape) for n, logits in merged.items()} == dict.fromkeys(
        counts, (6, 3)
    )


def test_the_image_alone_is_the_first_learned_view(
    fitted: FittedViews, images: LabeledImages
) -> None:
    pictures = fitted.model.pictures(images)
    alone = merge_outputs(BASELINES["image"](fitted).augmenter, fitted.model, pictures, (1,))
    ours = merge_outputs(fitted.aug, fitted.model, pictures, (1,), select="top")
    assert torch.allclose(alone[1], ours[1], atol=1e-4)


def test_the_uniform_grid_after_the_image_is_uniform_and_without_repetition(
    fitted: FittedViews, images: LabeledImages
) -> None:
    aug = BASELINES["image_and_grid"](fitted).augmenter
    assert isinstance(aug, InstaAug)
    x = fitted.model.pictures(images).first(8)
    probs = aug.distribution(x).finite()["crop"].logits.softmax(dim=-1)
    assert torch.allclose(probs, torch.full_like(probs, 1 / 5))
    theta = aug.views(x, 5, select="sample").theta
    assert torch.equal(theta[0], torch.tensor([[0.0, 0.0, 2.0, 2.0]]).expand(8, 4))
    assert all(len(theta[:, i].unique(dim=0)) == 5 for i in range(8))


def test_baselines_are_named_and_the_image_is_always_there(fitted: FittedViews) -> None:
    names = [baseline.name for baseline in baselines_named("all", fitted)]
    assert len(names) == len(BASELINES) == 10
    assert [b.name for b in baselines_named("none", fitted)] == ["the image alone"]
    assert [b.name for b in baselines_named(" flips, image", fitted)] == [
        "the image alone",
        "image and mirror image",
    ]
