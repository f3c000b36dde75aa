"""The generator of Viewmaker: any size, every number of noise, no image heeds another."""

import pytest
import torch
from torch import nn

from instaaug.networks.viewmaker_network import ViewmakerNetwork
from tests.support.models import images

SIZES = [(8, 8), (9, 11), (10, 13), (15, 8), (16, 12)]


def network(width: float = 0.125, in_channels: int = 3) -> ViewmakerNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ViewmakerNetwork(in_channels, width=width)


def noise(n: int, height: int, width: int, *, seed: int = 1) -> torch.Tensor:
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


def test_noise_is_read_row_by_row_and_map_by_map() -> None:
    """The first 64 numbers of an 8 × 8 image are its pixels' own: they act where they are.

    Without normalization, which spreads everything, the first layer sees noise within 4 pixels.
    """
    net = network()
    x, given = images(1, 3, 8, 8), noise(1, 8, 8)
    seen: list[torch.Tensor] = []
    first = net.down[0]
    assert isinstance(first, nn.Sequential)
    first[0].register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    net(x, given)
    assert torch.equal(seen[0][:, :3], x)
    assert torch.equal(seen[0][:, 3].flatten(1), given[:, :64])


def test_images_do_not_heed_one_another() -> None:
    net, x, given = network().train(), images(3, 3, 9, 11), noise(3, 9, 11)
    together = net(x, given)
    alone = torch.cat([net(x[i : i + 1], given[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(together, net.eval()(x, given))  # no running statistics
