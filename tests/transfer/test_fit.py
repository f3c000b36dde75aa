"""From a backbone and images to a module that predicts, saves and loads."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import instaaug
from instaaug.errors import ArgumentError, DataError, WeightsFileError
from instaaug.transfer import Transfer, fit_transfer
from instaaug.transforms import Crop, Flip

CROPS = Crop(((1.0, 1), (0.5, 2)), max_outside=0.0)


def make_backbone() -> nn.Module:
    """Colors of pixels, and what is brighter than its surroundings."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())


def make_spots(
    n: int = 42, size: tuple[int, int] = (16, 16), seed: int = 0
) -> tuple[Tensor, Tensor]:
    """A patch of one of three colors somewhere in noise."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(n) % 3
    images = 0.4 * torch.rand(n, 3, *size, generator=generator)
    for image, label in zip(images, targets, strict=True):
        y, x = (int(torch.randint(0, side - 7, (1,), generator=generator)) for side in size)
        image[label, y : y + 7, x : x + 7] += 0.6
    return images, targets


@pytest.fixture(scope="module")
def transfer() -> Transfer:
    return fit_transfer(make_backbone(), make_spots(), CROPS, n_samples=(2, 4), steps=4)


def test_it_learns_the_classes(transfer: Transfer) -> None:
    images, targets = make_spots(60, seed=1)
    with torch.no_grad():
        right = (transfer(images).argmax(dim=1) == targets).double().mean()
    assert right > 0.7
    assert transfer.results["n_folds"] == 4
    assert transfer.results["chosen"] in transfer.results["candidates"]


def test_the_classifier_is_a_plain_module_and_views_are_merged(transfer: Transfer) -> None:
    images, _ = make_spots(4, seed=1)
    with torch.no_grad():
        plain = transfer.classifier(images)
        assert torch.allclose(transfer.predictor(1)(images) * transfer.temperatures[1], plain)
        assert not torch.allclose(transfer(images), plain)


def test_bytes_and_numbers_are_the_same_images(transfer: Transfer) -> None:
    images = (make_spots(4)[0] * 255).round()
    with torch.no_grad():
        torch.testing.assert_close(transfer(images.byte()), transfer(images / 255))


def test_it_can_be_saved_and_loaded(transfer: Transfer, tmp_path: Path) -> None:
    transfer.save(tmp_path / "saved")
    again = Transfer.load(tmp_path / "saved", make_backbone())
    images, _ = make_spots(4, seed=1)
    with torch.no_grad():
        assert torch.equal(again(images), transfer(images))
    assert json.dumps(again.results) == json.dumps(transfer.results)
    with pytest.raises(WeightsFileError, match="does not fit the backbone"):
        Transfer.load(tmp_path / "saved", nn.Conv2d(3, 5, 3))


@pytest.mark.parametrize(
    "changes",
    [
        {"image_shape": None},
        {"image_shape": [3, 32]},
        {"image_shape": [3, 32, 2**63]},
        {"image_shape": [3, 32, -1]},
        {"temperatures": []},
        {"temperatures": {"many": 1}},
        {"n_views": "many"},
        {"n_views": 10**400, "image_shape": [3, 32, float("inf")]},
    ],
)
def test_notes_that_were_spoiled_are_refused(
    transfer: Transfer, tmp_path: Path, changes: dict[str, Any]
) -> None:
    transfer.save(tmp_path)
    file = tmp_path / "transfer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(WeightsFileError, match=r"must be as Transfer\.save wrote it"):
        Transfer.load(tmp_path, make_backbone())
    file.write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"transfer\.json' must be as the run wrote it"):
        Transfer.load(tmp_path, make_backbone())


def test_the_backbone_is_not_changed() -> None:
    backbone = make_backbone().train()
    before = [p.clone() for p in backbone.parameters()]
    fit_transfer(backbone, make_spots(12), CROPS, n_samples=2, steps=3)
    assert all(map(torch.equal, before, backbone.parameters()))
    assert all(p.requires_grad for p in backbone.parameters())
    assert backbone.training


def test_an_interrupted_pass_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    data = make_spots(36)
    whole = fit_transfer(
        make_backbone(), data, CROPS, n_samples=2, steps=3, folder=tmp_path / "whole"
    )

    def stop(done: int, _: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_transfer(
            make_backbone(),
            data,
            CROPS,
            n_samples=2,
            steps=3,
            folder=tmp_path / "part",
            on_progress=stop,
        )
    seen: list[int] = []
    again = fit_transfer(
        make_backbone(), data, CROPS, n_samples=2, steps=3, folder=tmp_path / "part",
        on_progress=lambda done, _: seen.append(done),
    )  # fmt: skip
    assert seen[0] == 32
    for name in ("outputs", "features"):
        one, other = (np.load(tmp_path / f / f"{name}.npy") for f in ("whole", "part"))
        assert np.array_equal(one, other)
    images, _ = make_spots(4, seed=1)
    with torch.no_grad():
        assert torch.equal(whole(images), again(images))


def test_images_need_not_be_square_nor_colored() -> None:
    images, targets = make_spots(24, size=(12, 20))
    wide = fit_transfer(make_backbone(), (images, targets), CROPS, n_samples=2, steps=3)
    assert wide(images[:2]).shape == (2, 3)
    gray = images.mean(dim=1, keepdim=True)
    one = fit_transfer(nn.Conv2d(1, 6, 3), (gray, targets), CROPS, n_samples=2, steps=3)
    assert one(gray[:2]).shape == (2, 3)


def test_mirror_images_double_the_views() -> None:
    fitted = fit_transfer(
        make_backbone(), make_spots(12), [CROPS, Flip()], n_samples=(2, 10), steps=3
    )
    assert fitted.predictor(10).samples(make_spots(2)[0]).shape[0] == 10


def test_one_image_per_class_is_enough_to_begin_with() -> None:
    fitted = fit_transfer(make_backbone(), make_spots(3), CROPS, n_samples=2, steps=3)
    assert fitted.results["chosen"] is None
    assert fitted(make_spots(3)[0]).shape == (3, 3)


def test_a_backbone_without_maps_has_the_same_views_for_all() -> None:
    flat = nn.Sequential(nn.Flatten(), nn.Linear(768, 8), nn.ReLU())
    fitted = fit_transfer(flat, make_spots(12), CROPS, n_samples=2, steps=3)
    assert fitted.augmenter.settings.conditioning == "none"


def test_more_classes_than_targets_are_possible() -> None:
    fitted = fit_transfer(
        make_backbone(), make_spots(12), CROPS, n_samples=2, steps=3, num_classes=5
    )
    assert fitted(make_spots(2)[0]).shape == (2, 5)


def test_one_class_is_refused() -> None:
    images, targets = make_spots(6)
    with pytest.raises(DataError, match="`data` must have images of two classes or more: all 6"):
        fit_transfer(make_backbone(), (images, 0 * targets), CROPS, n_samples=2, steps=3)
    with pytest.raises(ArgumentError, match="`num_classes` must be at least 3"):
        fit_transfer(
            make_backbone(), (images, targets), CROPS, n_samples=2, steps=3, num_classes=2
        )


def test_it_is_public() -> None:
    assert instaaug.fit_transfer is fit_transfer
