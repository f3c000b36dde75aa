"""φ as a whole: networks of our own and of the user's."""

import copy
from math import pi

import pytest
import torch
from torch import Tensor, nn

from instaaug.errors import ArgumentError
from instaaug.networks import make_network
from instaaug.parameterizations import Conditioning, CropGrid, InvarianceModule, make_family
from instaaug.spaces import Boxes, Interval, Parameter
from tests.support.feature_networks import Chain, OneMap
from tests.support.unhooked import unhooked

CROP = Boxes(((0.375, 16), (0.75, 8), (1.0, 1)))
TURN = Interval((Parameter("angle", -pi, pi, period=2 * pi),))


def phi_with(
    network: nn.Module | None,
    conditioning: Conditioning = "input",
    num_classes: int | None = None,
    in_channels: int = 3,
) -> InvarianceModule:
    grid = CropGrid(CROP.levels)
    return InvarianceModule(
        {"crop": make_family(CROP, grid), "turn": make_family(TURN)},
        {"crop": grid},
        start={"crop": 3.25, "turn": 1.0},
        network=network,
        in_channels=in_channels,
        conditioning=conditioning,
        num_classes=num_classes,
    )


def own_network(in_channels: int = 3) -> Chain:
    fine = nn.Conv2d(in_channels, 5, 3, 4, 1)
    return Chain(fine, nn.Sequential(nn.ReLU(), nn.Conv2d(5, 7, 3, 2, 1)))


def declaring_network() -> Chain:
    network = own_network()
    network.out_channels = (5, 7)  # type: ignore[assignment]
    return network


NETWORKS = {
    "pyramid": lambda: make_network("pyramid", in_channels=3, width=1.0),
    "preact_resnet18": lambda: make_network("preact_resnet18", in_channels=3, width=0.125),
    "own": own_network,
    "own_that_declares_its_channels": declaring_network,
}
each_network = pytest.mark.parametrize("name", NETWORKS)


def images(batch: int, *size: int) -> Tensor:
    return torch.rand(batch, 3, *size, generator=torch.Generator().manual_seed(0))


@each_network
@pytest.mark.parametrize("size", [(17, 40), (64, 64), (224, 96)], ids=str)
def test_an_input_goes_in_and_a_distribution_comes_out(name: str, size: tuple[int, int]) -> None:
    joint = phi_with(NETWORKS[name]())(images(3, *size))
    assert list(joint.factors) == ["crop", "turn"]
    assert joint.batch_shape == (3,)
    assert joint.theta(joint.draw(4)).shape == (4, 3, 5)
    assert joint.entropies().isfinite().all()


@each_network
def test_a_start_is_near_the_entropy_that_was_asked_for(name: str) -> None:
    torch.manual_seed(0)
    entropies = phi_with(NETWORKS[name]())(images(8, 64, 64)).entropies().mean(dim=0)
    torch.testing.assert_close(entropies, torch.tensor([3.25, 1.0]), atol=0.3, rtol=0)


@each_network
def test_inputs_differ_and_do_not_mix(name: str) -> None:
    torch.manual_seed(0)
    phi = phi_with(NETWORKS[name]())
    x = images(3, 64, 64)
    together = phi(x).entropies()
    alone = phi(x[1:2]).entropies()
    assert not torch.equal(together[0], together[1])
    torch.testing.assert_close(together[1:2], alone, atol=1e-5, rtol=1e-5)


@each_network
def test_a_gradient_reaches_every_parameter(name: str) -> None:
    torch.manual_seed(0)
    phi = phi_with(NETWORKS[name]())
    joint = phi(images(4, 64, 64))
    (2 * joint.entropy() + joint.log_prob(joint.sample((1,)))[0]).sum().backward()
    without = [n for n, p in phi.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


@pytest.mark.parametrize("name", ["pyramid", "preact_resnet18"])
def test_training_and_evaluation_say_the_same_to_the_last_bit(name: str) -> None:
    phi = phi_with(NETWORKS[name]())
    x = images(4, 64, 64)
    trained = phi.train()(x)
    evaluated = phi.eval()(x)
    assert torch.equal(trained["crop"].entropy(), evaluated["crop"].entropy())
    assert torch.equal(trained["turn"].entropy(), evaluated["turn"].entropy())


def test_a_deep_copy_says_the_same() -> None:
    phi = phi_with(own_network())
    x = images(2, 32, 32)
    assert torch.equal(copy.deepcopy(phi)(x).entropies(), phi(x).entropies())


def test_without_input_all_inputs_share_one_distribution_and_there_is_no_network() -> None:
    phi = phi_with(own_network(), conditioning="none")
    assert phi.network is None
    assert [p.numel() for p in phi.parameters()] == [321, 2]
    joint = phi(images(3, 32, 32))
    assert torch.equal(joint.entropies()[0], joint.entropies()[2])
    torch.testing.assert_close(joint.entropies()[0], torch.tensor([3.25, 1.0]), atol=1e-3, rtol=0)


def test_per_class_the_label_decides() -> None:
    phi = phi_with(None, conditioning="class", num_classes=4)
    assert [tuple(p.shape) for p in phi.parameters()] == [(4, 321), (4, 2)]
    with torch.no_grad():
        phi.get_parameter("heads.1.raw")[2] = 3.0
    widths = phi(images(3, 8, 8), torch.tensor([2, 0, 2])).entropies()[:, 1]
    assert widths[0] == widths[2] > widths[1]


@pytest.mark.parametrize("num_classes", [None, 0, -1])
def test_per_class_the_number_of_classes_is_needed(num_classes: int | None) -> None:
    match = rf'`num_classes` must be at least 1 with conditioning="class": got {num_classes}\.'
    with pytest.raises(ArgumentError, match=match):
        phi_with(None, conditioning="class", num_classes=num_classes)


@pytest.mark.parametrize(
    "network", [OneMap(), nn.Conv2d(3, 8, 3), Chain()], ids=lambda n: n._get_name()
)
def test_a_network_that_returns_no_list_of_maps_is_refused(network: nn.Module) -> None:
    match = r"`network` must return a list of feature maps \(B, C, H, W\), finest first: got"
    with unhooked(), pytest.raises(ArgumentError, match=match):
        phi_with(network)


def test_a_network_for_gray_images_is_welcome() -> None:
    phi = phi_with(own_network(in_channels=1), in_channels=1)
    assert phi.channels == (5, 7)
    assert phi(torch.rand(2, 1, 28, 28)).batch_shape == (2,)
