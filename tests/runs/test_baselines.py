"""What people do without learning: every baseline predicts, and is what its name says."""

import pytest
import torch

from instaaug.augmentation import InstaAug
from instaaug.data import LabeledImages
from instaaug.runs.baselines import BASELINES, find_baselines
from instaaug.runs.tta import FittedViews
from instaaug.runs.view_scores import merge_outputs


def test_draws_depend_on_the_seed(fitted: FittedViews, spots: LabeledImages) -> None:
    (random,) = (b for b in find_baselines("random", fitted) if b.name == "random crops")
    inputs = fitted.model.normalize(spots)
    one, same, other = (
        merge_outputs(random.augmenter, fitted.model, inputs, (2,), seed=seed)[2]
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_predicts_at_its_budget(
    fitted: FittedViews, spots: LabeledImages, name: str
) -> None:
    baseline = BASELINES[name](fitted)
    counts = baseline.counts((1, 2, 10))
    assert counts
    assert BASELINES[name].__doc__
    inputs = fitted.model.normalize(spots.subset(range(0, 60, 10)))
    merged = merge_outputs(
        baseline.augmenter, fitted.model, inputs, counts, select=baseline.select
    )
    assert {n: tuple(logits.shape) for n, logits in merged.items()} == dict.fromkeys(
        counts, (6, 3)
    )


def test_the_image_alone_is_the_first_learned_view(
    fitted: FittedViews, spots: LabeledImages
) -> None:
    inputs = fitted.model.normalize(spots)
    alone = merge_outputs(BASELINES["image"](fitted).augmenter, fitted.model, inputs, (1,))
    ours = merge_outputs(fitted.aug, fitted.model, inputs, (1,), select="top")
    assert torch.allclose(alone[1], ours[1], atol=1e-4)


def test_the_uniform_grid_after_the_image_is_uniform_and_without_repetition(
    fitted: FittedViews, spots: LabeledImages
) -> None:
    aug = BASELINES["image_and_grid"](fitted).augmenter
    assert isinstance(aug, InstaAug)
    x = fitted.model.normalize(spots).first(8)
    probs = aug.distribution(x).finite()["crop"].logits.softmax(dim=-1)
    assert torch.allclose(probs, torch.full_like(probs, 1 / 5))
    theta = aug.views(x, 5, select="sample").theta
    assert torch.equal(theta[0], torch.tensor([[0.0, 0.0, 2.0, 2.0]]).expand(8, 4))
    assert all(len(theta[:, i].unique(dim=0)) == 5 for i in range(8))


def test_baselines_are_named_and_the_image_is_always_there(fitted: FittedViews) -> None:
    names = [baseline.name for baseline in find_baselines("all", fitted)]
    assert len(names) == len(BASELINES) == 14
    assert [b.name for b in find_baselines("none", fitted)] == ["the image alone"]
    assert [b.name for b in find_baselines(" flips, image", fitted)] == [
        "the image alone",
        "image and mirror image",
    ]
