"""Saliency against one image at a time, and a model that stays as it was."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from instaaug.errors import ArgumentError
from instaaug.methods.saliency import feature_saliency, gradient_saliency, normalize_saliency
from tests.support.models import images, labels, small_classifier
from tests.support.tiny_training import classifier


def test_saliency_is_the_norm_of_the_gradient_of_each_image() -> None:
    model, x, y = small_classifier(), images(4), labels(4)
    maps, added = gradient_saliency(model, x, y)
    assert added is None
    model.eval()
    for i in range(4):
        one = x[i : i + 1].clone().requires_grad_()
        F.cross_entropy(model(one), y[i : i + 1]).backward()
        assert one.grad is not None
        naive = (one.grad[0] ** 2).mean(dim=0).sqrt() / 4  # of the mean over four
        torch.testing.assert_close(maps[i], naive)


def test_the_plain_loss_has_the_gradient_of_a_training_step() -> None:
    model, x, y = small_classifier(), images(4), labels(4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    _, added = gradient_saliency(model, x, y, clean=0.5)
    assert added is not None
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    learned = list(model.parameters())
    found = torch.autograd.grad(added, learned)
    loss = 0.5 * F.cross_entropy(model(x), y)  # in training mode
    torch.testing.assert_close(added, loss)
    for ours, naive in zip(found, torch.autograd.grad(loss, learned), strict=True):
        torch.testing.assert_close(ours, naive)


def test_features_say_where_a_blob_is() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 1, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x = torch.zeros(1, 1, 8, 8)
    x[0, 0, 2, 5] = 1.0
    maps = feature_saliency(model, x)
    assert maps.shape == (1, 8, 8)
    assert divmod(int(maps.argmax()), 8) == (2, 5)


def test_a_model_without_feature_maps_is_refused() -> None:
    with pytest.raises(ArgumentError, match="must have feature maps of at least 4 × 4 places"):
        feature_saliency(classifier(), torch.rand(2, 3, 8, 8))


def test_an_image_without_saliency_is_equally_salient_everywhere() -> None:
    torch.testing.assert_close(
        normalize_saliency(torch.zeros(1, 4, 4)), torch.full((1, 4, 4), 1 / 16)
    )
