"""The generator of Viewmaker: any size, every number of noise, no image heeds another."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug.networks.viewmaker_network import ViewmakerNetwork
from tests.support.models import images

SIZES = [(8, 8), (9, 11), (10, 13), (15, 8), (16, 12)]


def network(width: float = 0.125, in_channels: int = 3) -> ViewmakerNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ViewmakerNetwork(in_channels, width=width)


def noise(n: int, height: int, width: int, *, seed: int = 1) -> Tensor:
    n_noise = ViewmakerNetwork.n_noise(height=height, width=width)
    return torch.rand(n, n_noise, generator=torch.Generator().manual_seed(seed))


def test_it_is_as_large_as_the_source_says() -> None:
    """Weights and biases of 9 × 9 and 3 × 3 convolutions, and two numbers per normalized channel.

    The channels are those of the source's code: 3 + 1 → 32 → 64 → 128, blocks of 129, 130 and 131,
    131 → 64 → 32 → 3.
    """
    layers = [(4, 32, 9), (32, 64, 3), (64, 128, 3), (131, 64, 3), (64, 32, 3)]
    layers += [(c, c, 3) for c in (129, 129, 130, 130, 131, 131)]
    expected = sum(a * b * k * k + b + 2 * b for a, b, k in layers) + 32 * 3 * 81 + 3
    assert sum(p.numel() for p in network(1.0).parameters()) == expected


def naive_picture(net: ViewmakerNetwork, x: Tensor, given: Tensor) -> Tensor:
    """The network written down as formulas, from its weights in their order."""
    weights, (height, width) = iter(net.parameters()), x.shape[-2:]
    coarse = (-(-height // 4), -(-width // 4))
    parts = given.split([height * width, *[coarse[0] * coarse[1]] * 3], dim=1)

    def convolved(maps: Tensor, stride: int = 1) -> Tensor:
        weight, bias = next(weights), next(weights)
        edge = weight.shape[-1] // 2
        return F.conv2d(F.pad(maps, [edge] * 4, mode="reflect"), weight, bias, stride)

    def normalized(maps: Tensor) -> Tensor:
        centered = maps - maps.mean(dim=(2, 3), keepdim=True)
        spread = (centered.square().mean(dim=(2, 3), keepdim=True) + 1e-5).sqrt()
        scale, shift = next(weights).view(1, -1, 1, 1), next(weights).view(1, -1, 1, 1)
        return centered / spread * scale + shift

    def doubled(maps: Tensor, size: tuple[int, int]) -> Tensor:
        twice = maps.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        return twice[:, :, : size[0], : size[1]]

    maps = torch.cat([x, parts[0].view(-1, 1, height, width)], dim=1)
    for stride in (1, 2, 2):
        maps = normalized(convolved(maps, stride)).relu()
    for part in parts[1:]:
        maps = torch.cat([maps, part.view(-1, 1, *coarse)], dim=1)
        inner = normalized(convolved(maps)).relu()
        maps = maps + normalized(convolved(inner))
    for size in ((-(-height // 2), -(-width // 2)), (height, width)):
        maps = normalized(convolved(doubled(maps, size))).relu()
    return convolved(maps)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_pictures_are_those_of_formulas(size: tuple[int, int]) -> None:
    net, x, given = network().double(), images(2, 3, *size).double(), noise(2, *size).double()
    for (
        parameter
    ) in net.parameters():  # or the normalizations would scale by one and shift by none
        nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(net(x, given), naive_picture(net, x, given))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_have_the_size_of_the_image(size: tuple[int, int], channels: int) -> None:
    x = images(2, channels, *size)
    assert network(in_channels=channels)(x, noise(2, *size)).shape == x.shape


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_number_of_noise_has_a_say(size: tuple[int, int]) -> None:
    given = noise(1, *size).requires_grad_()
    made = network()(images(1, 3, *size), given)
    weights = images(1, 3, *size, seed=2)
    (gradient,) = torch.autograd.grad((made * weights).sum(), given)
    assert (gradient != 0).all()


def test_images_do_not_heed_one_another() -> None:
    net, x, given = network().train(), images(3, 3, 9, 11), noise(3, 9, 11)
    together = net(x, given)
    alone = torch.cat([net(x[i : i + 1], given[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(together, net.eval()(x, given))  # no running statistics
