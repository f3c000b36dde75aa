"""Class evidence against a loop over places that asks the linear layer at each."""

import pytest
import torch
from torch import Tensor

from instaaug.networks.frozen_features import N_EVIDENCE, class_evidence


def naive(features: Tensor, logits: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One image, one place at a time, from the definition."""
    result = torch.empty(len(features), N_EVIDENCE, *features.shape[2:], dtype=features.dtype)
    for b, whole_image in enumerate(logits):
        order = whole_image.argsort(descending=True)[:16]
        second = min(1, len(order) - 1)
        whole = whole_image[order].softmax(dim=0)
        about_whole = [whole[0].log(), (whole * whole.log()).sum()]
        about_whole.append(whole_image[order[0]] - whole_image[order[second]])
        for i in range(features.shape[2]):
            for j in range(features.shape[3]):
                h = features[b, :, i, j]
                here = (weight @ h + bias)[order]
                local = here.softmax(dim=0)
                numbers = [
                    here.max(), local.max().log(), (local * local.log()).sum(), local[0].log(),
                    (local * whole).sum().log(), local[:5].sum().log(), here[0], here[second],
                    h.square().sum().sqrt(),
                ]  # fmt: skip
                result[b, :, i, j] = torch.stack([*numbers, *about_whole])
    return result


@pytest.mark.parametrize("num_classes", [1, 2, 5, 40])
def test_the_evidence_is_what_a_loop_over_places_finds(num_classes: int) -> None:
    torch.manual_seed(0)
    features = torch.randn(2, 6, 3, 2)
    weight, bias = torch.randn(num_classes, 6), torch.randn(num_classes)
    logits = features.mean(dim=(2, 3)) @ weight.T + bias
    found = class_evidence(features, logits, weight, bias)
    torch.testing.assert_close(found, naive(features, logits, weight, bias), atol=1e-5, rtol=1e-4)
    without = class_evidence(features, logits, weight, None)
    torch.testing.assert_close(
        without, naive(features, logits, weight, 0 * bias), atol=1e-5, rtol=1e-4
    )


def test_a_map_of_classes_needs_no_layer() -> None:
    torch.manual_seed(0)
    features = torch.randn(2, 30, 3, 2)
    logits = features.mean(dim=(2, 3))
    expected = naive(features, logits, torch.eye(30), torch.zeros(30))
    found = class_evidence(features, logits, None, None)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_the_names_of_classes_do_not_matter() -> None:
    """Whoever renames the classes finds the same evidence: φ may be used for other classes."""
    torch.manual_seed(0)
    features, weight, bias = torch.randn(2, 6, 3, 2), torch.randn(20, 6), torch.randn(20)
    logits, order = features.mean(dim=(2, 3)) @ weight.T + bias, torch.randperm(20)
    torch.testing.assert_close(
        class_evidence(features, logits, weight, bias),
        class_evidence(features, logits[:, order], weight[order], bias[order]),
    )


def test_extreme_logits_stay_finite() -> None:
    features, weight = 1e4 * torch.randn(2, 6, 3, 2), 1e2 * torch.randn(20, 6)
    logits = features.mean(dim=(2, 3)) @ weight.T
    assert torch.isfinite(class_evidence(features, logits, weight, None)).all()
