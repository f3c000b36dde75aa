"""Probes against the formula written out, statistics against torch's own."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from instaaug.errors import ShapeError
from instaaug.networks import linear_probe
from instaaug.networks.linear_probe import LinearProbe, feature_statistics


def random_probe(n_features: int = 4, num_classes: int = 3) -> LinearProbe:
    random = torch.Generator().manual_seed(0)
    probe = LinearProbe(n_features, num_classes)
    state = {
        name: torch.rand(value.shape, generator=random) + 0.5
        for name, value in probe.state_dict().items()
    }
    probe.load_state_dict(state)
    return probe


def some_features(n: int = 5, d: int = 4) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(1))


def test_logits_follow_the_formula() -> None:
    probe, features = random_probe(), some_features()
    with torch.no_grad():
        logits = probe(features).tolist()
        for i in range(5):
            for c in range(3):
                expected = float(probe.bias[c])
                for j in range(4):
                    z = float(features[i, j] - probe.mean[j]) / float(probe.std[j])
                    expected += float(probe.weight[c, j]) * z
                assert logits[i][c] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_averaged_features_have_averaged_logits() -> None:
    probe = random_probe()
    one, other = some_features(), some_features().flip(0)
    torch.testing.assert_close(probe((one + other) / 2), (probe(one) + probe(other)) / 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_features_of_another_type_give_logits_of_the_probes_own(dtype: torch.dtype) -> None:
    probe, features = random_probe(), some_features().half()
    assert torch.equal(probe(features.to(dtype)), probe(features.float()))


def test_gradient_reaches_features_and_parameters() -> None:
    probe, features = random_probe(), some_features().requires_grad_()
    probe(features).square().sum().backward()
    for tensor in (features, probe.weight, probe.bias):
        assert tensor.grad is not None
        assert tensor.grad.abs().sum() > 0


def test_a_probe_survives_a_safetensors_file(tmp_path: Path) -> None:
    probe = random_probe()
    save_file(probe.state_dict(), tmp_path / "probe.safetensors")
    state = load_file(tmp_path / "probe.safetensors")
    assert set(state) == {"mean", "std", "weight", "bias"}
    copy = LinearProbe(4, 3)
    copy.load_state_dict(state)
    assert torch.equal(copy(some_features()), probe(some_features()))


@pytest.mark.parametrize("shape", [(4,), (5, 3), (2, 5, 4)])
def test_features_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"`features` must be \(B, 4\): got .* Use the encoder"):
        random_probe()(torch.zeros(shape))


# --- statistics ---------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [1, 7, 100])
def test_statistics_are_those_of_torch(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_probe, "ROWS_AT_ONCE", at_once)
    features = 50 + some_features(20).double()  # 20 is no multiple of 7
    mean, std = feature_statistics(features)
    torch.testing.assert_close(mean, features.mean(dim=0))
    torch.testing.assert_close(std, features.std(dim=0, correction=0))


@pytest.mark.parametrize("value", [0.0, 0.1, -300.0])
def test_what_does_not_vary_beyond_rounding_has_deviation_one(value: float) -> None:
    constant = torch.full((1000,), value)
    rounded = constant * (1 + 1e-7 * torch.arange(1000).remainder(2))
    varying = torch.arange(1000.0)
    _, std = feature_statistics(torch.stack([constant, rounded, varying], dim=1))
    assert std[:2].tolist() == [1.0, 1.0]
    assert float(std[2]) == pytest.approx(((1000**2 - 1) / 12) ** 0.5)


def test_small_features_are_not_taken_for_constant_ones() -> None:
    small = 1e-20 * some_features(200)
    _, std = feature_statistics(small)
    torch.testing.assert_close(std, small.double().std(dim=0, correction=0))
