"""MixMo against two networks that share a body, and against an ensemble."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug.augmentation import AugmentedBatch
from instaaug.errors import ArgumentError
from instaaug.methods.mixmo import MixMo, TwoInputNetwork
from instaaug.networks import PreActResNet18, SmallCNN
from tests.support.models import images, labels
from tests.support.tiny_training import classifier


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def losses_of(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def adapted() -> TwoInputNetwork:
    torch.manual_seed(0)
    return TwoInputNetwork(SmallCNN(3))


def naive_outputs(network: TwoInputNetwork, own: Tensor, other: Tensor, mask: Tensor) -> Tensor:
    """Layer by layer; the maps of the stem have half the side."""
    body = network.network
    assert isinstance(body, SmallCNN)
    stems: Any = body.features[0]
    share = F.avg_pool2d(mask, 2)
    maps = 2 * (share * stems.first(own) + (1 - share) * stems.second(other))
    return body.head(body.features[1:](maps)).view(len(own), 2, 3)


def test_a_mixture_is_that_of_the_maps_of_two_stems() -> None:
    network, x = adapted(), images(4)
    mask = torch.rand(4, 1, 16, 16, generator=seeded())
    first, second = network(x, x.flip(0), mask)
    naive = naive_outputs(network, x, x.flip(0), mask)
    torch.testing.assert_close(torch.stack([first, second], dim=1), naive)


def test_equal_inputs_at_equal_shares_are_an_ensemble() -> None:
    network, x = adapted(), images(4)
    heads = network(x, x, torch.full((4, 1, 16, 16), 0.5))
    torch.testing.assert_close(network(x), torch.stack(heads).mean(dim=0))
    assert not torch.allclose(*heads)


def naive_losses(aug: MixMo, network: TwoInputNetwork, x: Tensor, batch: AugmentedBatch) -> Tensor:
    y, found = labels(len(x)), []
    for theta, own in zip(
        batch.theta.flatten(0, 1), [*range(len(x))] * len(batch.theta), strict=True
    ):
        left, right, top, bottom, inside, outside, other = theta.tolist()
        mask = torch.full((1, 1, 16, 16), outside)
        mask[..., int(top) : int(bottom), int(left) : int(right)] = inside
        pair = x[own : own + 1], x[int(other) : int(other) + 1]
        outputs = naive_outputs(network, *pair, mask)[0]
        roots = [float(share) ** (1 / 3) for share in (mask.mean(), 1 - mask.mean())]
        weights = [2 * root / sum(roots) for root in roots]
        targets = y[own], y[int(other)]
        found.append(
            sum(
                w * F.cross_entropy(o, t)
                for w, o, t in zip(weights, outputs, targets, strict=True)
            )
        )
    return torch.stack(found)


@pytest.mark.parametrize("cut", [0.0, 1.0])
def test_losses_are_those_of_a_loop(cut: float) -> None:
    aug, network, x = MixMo(cut=cut), adapted(), images(4)
    for seed in range(3):
        batch = aug(x, 2, generator=seeded(seed), targets=labels(4))
        assert torch.equal(batch.inputs, x.repeat(2, 1, 1, 1))
        ours = aug.losses(network, batch, losses_of)
        torch.testing.assert_close(
            ours, naive_losses(aug, network, x, batch), rtol=1e-4, atol=1e-5
        )


def test_masks_are_boxes_or_numbers_and_either_input_has_the_box() -> None:
    aug, x = MixMo(), images(4)
    kinds = set()
    for seed in range(40):
        theta = aug.draw_theta(x, 1, seeded(seed))[0]
        inside, outside = theta[:, 4], theta[:, 5]
        kind = "number" if torch.equal(inside, outside) else f"{inside[0]:.0f}{outside[0]:.0f}"
        kinds.add(kind)
        if kind != "number":
            assert (inside == inside[0]).all()
            assert (outside == 1 - inside[0]).all()
    assert kinds == {"number", "10", "01"}


def test_the_heads_learn_by_the_roots_of_the_shares() -> None:
    """With r = 1 a loss counts as its share; with a large r both count the same."""
    network, x = adapted(), images(4)
    for root, weights in ((1.0, (1.6, 0.4)), (1e6, (1.0, 1.0))):
        aug = MixMo(root=root)
        batch = aug(x, targets=labels(4))
        batch.theta[..., 4:6] = 0.8
        partner = batch.theta[0, :, -1].long()
        first, second = network(x, x[partner], torch.full((4, 1, 16, 16), 0.8))
        expected = weights[0] * losses_of(first, labels(4))
        expected = expected + weights[1] * losses_of(second, labels(4)[partner])
        found = aug.losses(network, batch, losses_of)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_model_is_adapted_once() -> None:
    aug = MixMo()
    network = aug.adapt(SmallCNN(3))
    assert aug.adapt(network) is network


def test_the_second_stem_is_another_of_the_same_spread() -> None:
    torch.manual_seed(0)
    network = TwoInputNetwork(PreActResNet18(5, width=0.25))
    stems = network.get_submodule("network.trunk.stem")
    first, second = (getattr(stems, name).weight.detach() for name in ("first", "second"))
    assert not torch.equal(first, second)
    assert 0.8 < float(second.std() / first.std()) < 1.25
    assert network(torch.rand(2, 3, 32, 32)).shape == (2, 5)


def test_a_model_without_a_stem_or_a_head_is_refused() -> None:
    aug = MixMo()
    with pytest.raises(ArgumentError, match=r"begin with a convolution.* got Sequential without"):
        aug.adapt(classifier())
    with pytest.raises(ArgumentError, match=r"final nn.Linear: got no linear layer"):
        aug.adapt(nn.Sequential(nn.Conv2d(3, 2, 3)))


def test_a_model_that_does_not_show_its_images_to_its_stem_is_refused() -> None:
    gray = nn.Sequential(nn.Flatten(1, 1), Gray(), nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1))
    network = MixMo().adapt(nn.Sequential(gray, nn.Flatten(), nn.Linear(2, 3)))
    with pytest.raises(ArgumentError, match="to its first convolution as they are"):
        network(images(2), images(2), torch.ones(2, 1, 16, 16))


class Gray(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :2]


def test_a_plain_model_is_refused_in_training() -> None:
    aug = MixMo()
    batch = aug(images(4), targets=labels(4))
    with pytest.raises(ArgumentError, match=r"two stems and two heads: got SmallCNN. Train aug"):
        aug.losses(SmallCNN(3), batch, losses_of)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cut": 2.0}, r"`cut` must be a probability in \[0, 1\]: got 2"),
        ({"root": 0.0}, "`root` must be above 0: got 0"),
        ({"alpha": 0.0}, "`alpha` must be a number from"),
    ],
)
def test_options_are_checked(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        MixMo(**options)
