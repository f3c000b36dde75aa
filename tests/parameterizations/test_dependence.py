"""How much φ depends on its input at test time, from one distribution for all to as learned."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.errors import ArgumentError
from instaaug.frozen import export_phi

TRANSFORMS = [T.Crop(((1.0, 1), (0.5, 3))), T.Rotation()]


def make(dependence: float | None = None) -> tuple[InstaAug, Tensor]:
    """An augmenter whose inputs differ, and inputs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        aug = InstaAug(TRANSFORMS)
        x = torch.rand(6, 3, 16, 16) * torch.arange(1, 7).view(6, 1, 1, 1) / 6
    with torch.no_grad():
        for head in aug.phi.heads:
            for parameter in head.parameters():
                parameter.mul_(30)
    if dependence is not None:
        aug.set_dependence(dependence, x.split(4))
    return aug.eval(), x


def logits(aug: InstaAug, x: Tensor) -> Tensor:
    (crop,) = aug.distribution(x, shrunk=True).finite().values()
    return crop.logits


def ends(aug: InstaAug, x: Tensor) -> Tensor:
    turn = aug.distribution(x, shrunk=True)["rotation"]
    return torch.cat([turn.low, turn.high], dim=1)  # type: ignore[attr-defined]


def test_as_learned_is_the_same_to_the_last_bit() -> None:
    (before, x), (after, _) = make(), make(1.0)
    assert logits(before, x).std(dim=0).max() > 0.1  # inputs do differ
    assert torch.equal(logits(before, x), logits(after, x))
    assert torch.equal(ends(before, x), ends(after, x))


def test_at_zero_all_inputs_have_the_mean_distribution() -> None:
    (own, x), (shared, _) = make(), make(0.0)
    mean = logits(own, x).exp().mean(dim=0)
    torch.testing.assert_close(logits(shared, x).exp(), mean.expand(6, -1))
    raw = own.phi.raw(own.phi.features(x), None, len(x))[1].mean(dim=0)
    middle = own.phi.families[1](raw[None])
    expected = torch.cat([middle.low, middle.high], dim=1).expand(6, -1)
    torch.testing.assert_close(ends(shared, x), expected)


def test_losses_in_closed_form_share_the_mean_distribution() -> None:
    aug = InstaAug(T.Crop(((1.0, 1), (0.5, 3))), estimator="closed_form").eval()
    x = torch.rand(6, 3, 16, 16)
    losses = torch.randn(6, 10)
    (family,) = aug.phi.families
    aug.phi.set_shared([losses])
    shared = family(aug.phi.shared[None])
    torch.testing.assert_close(shared.logits.exp()[0], family(losses).logits.exp().mean(dim=0))
    aug.set_dependence(0.0, [x])
    assert torch.equal(logits(aug, x), logits(aug, x)[:1].expand(6, -1))


def test_a_half_is_the_geometric_mean() -> None:
    (own, x), (shared, _), (half, _) = make(), make(0.0), make(0.5)
    expected = (logits(own, x) + logits(shared, x)) / 2
    torch.testing.assert_close(logits(half, x), expected.log_softmax(dim=1))


def test_what_was_learned_stays_visible_and_trains_on() -> None:
    (own, x), (shared, _) = make(), make(0.0)
    (first,), (second,) = (aug.distribution(x).finite().values() for aug in (own, shared))
    assert torch.equal(first.logits, second.logits)
    one, other = (
        aug(x, generator=torch.Generator().manual_seed(0)).theta for aug in (own, shared)
    )
    assert torch.equal(one, other)


def test_views_follow_it() -> None:
    aug, x = make(0.0)
    top = aug.views(x, 3, select="top").theta
    assert torch.equal(top, top[:, :1].expand_as(top))


@pytest.mark.parametrize("estimator", ["auto", "closed_form"])
def test_an_exported_phi_follows_it(estimator: Any, tmp_path: Path) -> None:
    x = torch.rand(6, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    aug = InstaAug(TRANSFORMS[0], estimator=estimator).eval()
    aug.set_dependence(0.25, [x])
    export_phi(aug, tmp_path / "phi.pt2", x)
    log_probs = torch.export.load(tmp_path / "phi.pt2").module()(x)["crop.log_probs"]
    torch.testing.assert_close(log_probs, logits(aug, x))


def test_it_is_saved(tmp_path: Path) -> None:
    aug, x = make(0.25)
    aug.save(tmp_path / "aug.safetensors")
    again = InstaAug.load(tmp_path / "aug.safetensors").eval()
    assert torch.equal(logits(aug, x), logits(again, x))
    views = [a.views(x, 3, generator=torch.Generator().manual_seed(1)).theta for a in (aug, again)]
    assert torch.equal(*views)


def test_new_inputs_do_not_change_what_is_shared() -> None:
    aug, x = make(0.5)
    before = aug.phi.shared.clone()
    aug.set_dependence(1.0)
    aug.distribution(x.flip(0))
    assert torch.equal(aug.phi.shared, before)


@pytest.mark.parametrize("dependence", [-0.1, 1.5, float("nan")])
def test_it_lies_between_zero_and_one(dependence: float) -> None:
    with pytest.raises(ArgumentError, match=r"`dependence` must lie in \[0, 1\]: got"):
        InstaAug(T.Crop()).set_dependence(dependence)


def test_it_needs_a_phi_that_reads_the_input() -> None:
    with pytest.raises(ArgumentError, match='needs conditioning="input": got "none"'):
        InstaAug(T.Crop(), conditioning="none").set_dependence(0.5)
