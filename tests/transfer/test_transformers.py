"""Transformers as backbones: a ViT in its usual forms, and a pair of towers like CLIP's."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug import fit_transfer, fit_tta
from instaaug.transforms import Crop, Flip
from tests.transfer.test_fit import CROPS, make_spots

WIDTH, PATCH, SIDE = 12, 4, 16


class ViT(nn.Module):
    """Two blocks on patches of four pixels, with the names and the order of the usual ones.

    Arguments:
        num_classes: Logits from the class token; None for the tokens themselves.
    """

    def __init__(self, num_classes: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.patch_embed = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.cls_token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(0.1 * torch.randn(1, 1 + (SIDE // PATCH) ** 2, WIDTH))
        self.blocks = nn.Sequential(
            *(nn.TransformerEncoderLayer(WIDTH, 2, 24, batch_first=True) for _ in range(2))
        )
        self.norm = nn.LayerNorm(WIDTH)
        self.head = None if num_classes is None else nn.Linear(WIDTH, num_classes)

    @override
    def forward(self, x: Tensor) -> Tensor:
        patches = self.patch_embed(x).flatten(2).movedim(1, 2)
        tokens = torch.cat([self.cls_token.expand(len(x), -1, -1), patches], dim=1)
        tokens = self.norm(self.blocks(tokens + self.pos_embed))
        return tokens if self.head is None else self.head(tokens[:, 0])


class WithHiddenState(nn.Module):
    """Returns an object, as Hugging Face's models do."""

    def __init__(self) -> None:
        super().__init__()
        self.vit = ViT()

    @override
    def forward(self, x: Tensor) -> SimpleNamespace:
        tokens = self.vit(x)
        return SimpleNamespace(last_hidden_state=tokens, pooler_output=tokens[:, 0])


class TwoTowers(nn.Module):
    """Images and words in one space."""

    def __init__(self) -> None:
        super().__init__()
        self.visual = nn.Sequential(ViT(8), nn.Linear(8, 6, bias=False))
        self.words = nn.Embedding(20, 6)

    @override
    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        return F.normalize(self.visual(x), dim=1) @ F.normalize(self.words(words), dim=1).T


class ZeroShot(nn.Module):
    """A classifier from both towers: which of some words suits an image best."""

    def __init__(self, towers: TwoTowers, words: Tensor) -> None:
        super().__init__()
        self.towers = towers
        self.register_buffer("names", words)

    @override
    def forward(self, x: Tensor) -> Tensor:
        return 10 * self.towers(x, self.get_buffer("names"))


@pytest.mark.parametrize("num_classes", [None, 7], ids=["tokens", "classifier"])
def test_a_vision_transformer_gives_its_class_token(num_classes: int | None) -> None:
    vit = ViT(num_classes).eval()
    images, targets = make_spots(24)
    fitted = fit_transfer(vit, (images, targets), CROPS, n_samples=(2, 4), steps=3)
    vit.head = None
    with torch.no_grad():
        features, expected = fitted.classifier.backbone(images[:4]), vit(images[:4])[:, 0]
        torch.testing.assert_close(features, expected)
        assert fitted(images[:4]).shape == (4, 3)
    assert fitted.augmenter.settings.conditioning == "input"  # φ reads the patches


def test_what_returns_an_object_needs_to_know_which_tensor() -> None:
    fitted = fit_transfer(
        WithHiddenState(), make_spots(12), CROPS, n_samples=2, steps=3,
        output=lambda returned: returned.pooler_output,
    )  # fmt: skip
    assert fitted.classifier.backbone.n_features == WIDTH


@pytest.mark.parametrize(("use_output", "n_features"), [(False, 8), (True, 6)])
def test_the_image_tower_is_a_backbone_with_its_projection_or_without(
    use_output: bool, n_features: int
) -> None:
    fitted = fit_transfer(
        TwoTowers().visual, make_spots(12), [CROPS, Flip()], n_samples=2, steps=3,
        use_output=use_output,
    )  # fmt: skip
    assert fitted.classifier.backbone.n_features == n_features


def test_both_towers_are_a_frozen_classifier() -> None:
    model = ZeroShot(TwoTowers(), torch.tensor([3, 5, 7])).eval()
    images, targets = make_spots(48)
    aug = fit_tta(model, (images, targets), Crop(((1.0, 1), (0.5, 2))), n_samples=3, steps=5)
    with torch.no_grad():
        assert aug.wrap(model, n_samples=3)(images[:2]).shape == (2, 3)
