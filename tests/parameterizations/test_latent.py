"""The VAE-like parameterization: start, bounds, gradients, and a band that holds."""

from pathlib import Path

import pytest
import torch
from torch import Generator

from instaaug import InstaAug
from instaaug.errors import ArgumentError
from instaaug.frozen import export_phi
from instaaug.parameterizations import LatentFamily
from instaaug.spaces import Interval
from instaaug.transforms import Noise, Rotation, Scale, Transform, UniformCrop


def space_of(transform: Transform) -> Interval:
    (space,) = transform.spaces.values()
    assert isinstance(space, Interval)
    return space


def family_of(aug: InstaAug) -> LatentFamily:
    (family,) = aug.phi.families
    assert isinstance(family, LatentFamily)
    return family


@torch.no_grad()
@pytest.mark.parametrize("entropy", [-4.0, -1.0, 0.5])
@pytest.mark.parametrize("transform", [UniformCrop(), Rotation(), Scale()], ids=lambda t: t.name)
def test_learning_starts_with_the_entropy_that_is_asked_for(
    transform: Transform, entropy: float
) -> None:
    space = space_of(transform)
    family = LatentFamily(space)
    entropy = min(entropy, space.max_entropy - 0.3)
    assert float(family(family.raw_at(entropy)[None]).entropy()) == pytest.approx(
        entropy, abs=0.01
    )


@pytest.mark.parametrize("number", [-1e4, -50.0, 0.0, 50.0, 1e4])
def test_whatever_the_network_says_theta_is_admissible_and_gradients_are_finite(
    number: float, generator: Generator
) -> None:
    raw = torch.full((2, 6), number, requires_grad=True)
    distribution = LatentFamily(space_of(UniformCrop()))(raw)
    theta = distribution.theta(distribution.rsample((50,), generator=generator))
    assert (theta >= torch.tensor([-1.0, -1.0, 0.2]) - 1e-6).all()
    assert (theta <= 1 + 1e-6).all()
    (gradient,) = torch.autograd.grad(theta.sum() + distribution.entropy().sum(), raw)
    assert gradient.isfinite().all()


def test_a_factor_is_decoded_on_its_axis(generator: Generator) -> None:
    aug = InstaAug(Scale(), ranges="latent")
    theta = aug(torch.rand(4, 3, 8, 8), n_samples=20, generator=generator).theta
    (factor,) = space_of(Scale()).parameters
    assert factor.low <= float(theta.detach().min()) < float(theta.detach().max()) <= factor.high


def test_the_decoder_learns_and_the_band_holds(generator: Generator) -> None:
    """A loss that wants small boxes would close the distribution, but λ keeps it open."""
    aug = InstaAug(UniformCrop(), ranges="latent", entropy=(-2.0, -1.5), conditioning="none")
    optimizer = torch.optim.Adam(aug.parameters(), 2e-2)
    x = torch.rand(8, 3, 16, 16, generator=generator)
    for _ in range(80):
        batch = aug(x, generator=generator)
        loss = aug.objective(4 * batch.theta[..., 2].flatten(), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(batch.entropy.detach().mean()) == pytest.approx(-1.75, abs=0.6)
    assert float(batch.theta[..., 2].detach().mean()) < 0.6
    gradients = [p.grad for p in family_of(aug).decoder.parameters()]
    assert all(gradient is not None and gradient.abs().sum() > 0 for gradient in gradients)


def test_a_saved_augmenter_is_read_back_with_its_decoder(tmp_path: Path) -> None:
    aug = InstaAug(UniformCrop(), ranges="latent")
    for parameter in family_of(aug).decoder.parameters():
        torch.nn.init.normal_(parameter)
    aug.save(tmp_path / "aug.safetensors")
    again = InstaAug.load(tmp_path / "aug.safetensors")
    x = torch.rand(2, 3, 16, 16)
    assert torch.equal(aug.distribution(x).entropy(), again.distribution(x).entropy())


def test_a_parameter_that_is_not_learned_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"`ranges` must be 'uniform'.* seed is drawn"):
        InstaAug(Noise(), ranges="latent")


def test_an_export_says_that_the_decoder_has_no_place(tmp_path: Path) -> None:
    aug = InstaAug(UniformCrop(), ranges="latent")
    with pytest.raises(ArgumentError, match=r"must draw from uniform ranges .* ranges=\"latent\""):
        export_phi(aug, tmp_path / "phi.pt2", torch.rand(2, 3, 16, 16))
