"""Twenty real photos and a real model that was trained by others: fit, predict, compare."""

import socket
from pathlib import Path
from typing import Any

import pytest
import torch

from instaaug import InstaAug, fit_tta
from instaaug import transforms as T
from instaaug.networks import FrozenFeatures
from tests.support.frozen_models import Snapshot
from tests.support.real_models import efficientnet_lite0, labeled_photos

SIDE, SIZE = 192, 96
BOXES = T.Crop(levels=((1.0, 1), (0.7, 2)), max_outside=0.0)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("nothing here needs the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_views_that_were_learned_help_a_real_model(tmp_path: Path) -> None:
    """On the photos it was fitted on: of twenty, no test of generalization can be made."""
    pixels, labels = labeled_photos(SIDE)
    model = efficientnet_lite0()
    before = Snapshot(model)
    aug = fit_tta(model, (pixels, labels), BOXES, size=SIZE, n_samples=(2, 4), steps=20)
    assert repr(aug.phi.network) == "FrozenFeatures(class evidence at 'network._swish', 3×3)"

    x = pixels.float() / 255
    with torch.no_grad():
        alone = model(aug.transform.resize(x))
        right = {
            n: int((aug.wrap(model, n).eval()(x).argmax(dim=1) == labels).sum()) for n in (1, 2, 4)
        }
    assert right[1] == int((alone.argmax(dim=1) == labels).sum())
    assert right[1] >= 8, "Lite0 at 96 pixels knows what it sees"
    assert right[2] >= right[1]
    assert right[4] >= right[1]
    assert Snapshot(model) == before

    aug.save(tmp_path / "views.safetensors")
    assert (tmp_path / "views.safetensors").stat().st_size < 10_000, "the model is not in it"
    again = InstaAug.load(
        tmp_path / "views.safetensors", network=FrozenFeatures(model, size=SIZE)
    ).eval()
    with torch.no_grad():
        assert torch.equal(again.draw(x, 4, select="top"), aug.draw(x, 4, select="top"))
