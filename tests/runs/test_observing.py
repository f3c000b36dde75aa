"""What a run is seen to do is what it does when it predicts."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from instaaug.augmentation import InstaAug
from instaaug.errors import ArgumentError
from instaaug.runs.loaded import LoadedRun, load_run
from instaaug.runs.observing import find_shared_inputs, observe_images, observe_run
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import train

CONFIG = TrainSettings.from_mapping(
    {
        "data": "sprites",
        "trainer.max_epochs": 1,
        "data.batch_size": 16,
        "data.image_size": 16,
        "trainer.accelerator": "cpu",
        "views.n_views": 2,
    }
)
VIEWS = 5
BOXES = {"transforms": "crop", "crop.grid": [[1, 1], [0.5, 3]]}


def trained(folder: Path, **settings: object) -> LoadedRun:
    train(CONFIG.override({**settings}), folder)
    return load_run(folder)


def test_merged_predictions_are_those_of_test_time_augmentation(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", **BOXES)
    images = run.load_test_images(None)
    seen = observe_run(run, images, n_views=VIEWS, n_shown=3)
    x = run.prepare(images.__getitems__(range(len(images)))[0])
    predictor = run.augmenter.wrap(run.model, VIEWS).eval()
    with torch.no_grad():
        logits = predictor(x, torch.Generator().manual_seed(run.seed))
        plain = run.model(x)
    assert seen.merged.shape == (VIEWS, len(images), len(run.classes))
    assert torch.allclose(seen.merged[-1], logits.softmax(dim=1), atol=1e-5)
    assert torch.allclose(seen.plain, plain.softmax(dim=1), atol=1e-5)
    losses = F.cross_entropy(logits, images.targets, reduction="none")
    assert torch.allclose(seen.loss_merged, losses, atol=1e-4)
    assert seen.views.shape[:2] == (3, len(images))


def test_the_first_views_alone_are_merged_first(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", **{"views.merge": "probability"})
    images = run.load_test_images(None).subset(range(4))
    seen = observe_run(run, images, n_views=VIEWS, n_shown=0)
    x = run.prepare(images.__getitems__(range(4))[0])
    (rotation,) = seen.factors
    with torch.no_grad():
        probs = [run.model(run.augmenter.render(x, t)).softmax(1) for t in rotation.theta]
    for n in range(1, VIEWS + 1):
        assert torch.allclose(seen.merged[n - 1], torch.stack(probs[:n]).mean(0), atol=1e-5)
    votes = torch.stack(probs).argmax(dim=-1)
    otherwise = (votes != seen.merged[-1].argmax(dim=-1)).float().mean(dim=0)
    assert torch.allclose(seen.disagreement, otherwise)


def test_learned_weights_count(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", **{**BOXES, "views.merge": "weighted"})
    images = run.load_test_images(None)
    seen = observe_run(run, images, n_views=VIEWS, n_shown=0)
    x = run.prepare(images.__getitems__(range(len(images)))[0])
    predictor = run.augmenter.wrap(run.model, VIEWS, merge="weighted").eval()
    with torch.no_grad():
        logits = predictor(x, torch.Generator().manual_seed(run.seed))
    assert torch.allclose(seen.merged[-1], logits.softmax(dim=1), atol=1e-5)


def test_a_regression_shows_outputs_and_their_spread(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", data="sprite-angle", task="regression")
    images = run.load_test_images(None).subset(range(6))
    seen = observe_run(run, images, n_views=VIEWS, n_shown=1)
    assert run.classes == ()
    x = run.prepare(images.__getitems__(range(6))[0])
    with torch.no_grad():
        assert torch.allclose(seen.plain, run.model(x).reshape(6, -1), atol=1e-5)
    targets = images.targets.reshape(6, -1)
    assert torch.allclose(seen.loss, (seen.plain - targets).abs().mean(dim=1), atol=1e-6)
    assert (seen.disagreement > 0).any()


def test_without_augmentation_there_are_no_views(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", method="none")
    seen = observe_run(run, run.load_test_images(None).subset(range(3)), n_views=VIEWS, n_shown=2)
    assert seen.factors == ()
    assert seen.merged.shape[0] == seen.views.shape[0] == 0
    assert torch.equal(seen.loss, seen.loss_merged)


def test_figures_see_the_images_as_they_are(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    assert isinstance(run.augmenter, InstaAug)
    pixels, _ = run.load_test_images(None).__getitems__([0, 5])
    seen = observe_images(run, pixels, 3)
    assert torch.allclose(seen.images, pixels.float() / 255, atol=1e-5)
    assert seen.samples.shape[:2] == (3, 2)


def test_pictures_on_the_page_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained(tmp_path / "run")
    images = run.load_test_images(None).subset([0])
    monkeypatch.setattr("instaaug.runs.observing.PICTURE", 8)
    monkeypatch.setattr("instaaug.runs.observing.STRIP", 4)
    seen = observe_run(run, images, n_views=1, n_shown=1)
    assert seen.pictures.shape == (1, 8, 8, 3)
    assert seen.views.shape == (1, 1, 4, 4, 3)


# --- the same inputs for several runs -----------------------------------------------------------


def test_runs_share_what_neither_has_learned_from(tmp_path: Path) -> None:
    one, other = trained(tmp_path / "one"), trained(tmp_path / "other", method="none")
    (first, second), n = find_shared_inputs([one, other], 5)
    assert n == len(one.load_test_images(None))
    assert len(first) == 5
    assert torch.equal(first.__getitems__(range(5))[0], second.__getitems__(range(5))[0])
    assert torch.equal(first.targets, second.targets)


def test_runs_with_other_test_images_share_those_in_both(tmp_path: Path) -> None:
    one = trained(tmp_path / "one")
    images = one.load_test_images(None)
    shuffled = replace(one, load_test_images=lambda _: images.subset([9, 3, 7, 1]))
    fewer = replace(one, load_test_images=lambda _: images.subset([1, 2, 3, 4]))
    (first, second), n = find_shared_inputs([shuffled, fewer], 100)
    assert n == 2
    assert torch.equal(first.__getitems__([0, 1])[0], images.__getitems__([3, 1])[0])
    assert torch.equal(first.__getitems__([0, 1])[0], second.__getitems__([0, 1])[0])


def test_runs_at_different_sizes_find_images_by_name(tmp_path: Path) -> None:
    from tests.support.picture_folders import plain_folder

    folder = str(plain_folder(tmp_path / "pets", 6))
    small = trained(tmp_path / "small", data=folder)
    large = trained(tmp_path / "large", data=folder, **{"data.image_size": 24})
    (first, second), n = find_shared_inputs([small, large], 100)
    assert n == len(small.load_test_images(None))
    assert [first.name(i) for i in range(n)] == [second.name(i) for i in range(n)]
    assert first.image_shape != second.image_shape


def test_runs_that_have_nothing_in_common_are_refused(tmp_path: Path) -> None:
    one = trained(tmp_path / "one")
    images = one.load_test_images(None)
    left = replace(one, load_test_images=lambda _: images.subset([0, 1]))
    right = replace(one, load_test_images=lambda _: images.subset([2, 3]))
    with pytest.raises(ArgumentError, match="`runs` must share test images"):
        find_shared_inputs([left, right], 3)
    with pytest.raises(ArgumentError, match="must tell the same classes apart"):
        find_shared_inputs([left, replace(left, classes=("a", "b"))], 3)
