"""Viewmaker keeps to its budget and climbs the loss that the model descends."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug.errors import ArgumentError, ShapeError
from instaaug.methods.viewmaker import Viewmaker, ViewmakerNetwork
from tests.support.models import images, labels, small_classifier

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made(*, seed: int = 0, eps: float = 0.05, normalized: bool = False) -> Viewmaker:
    mean, std = (MEAN, STD) if normalized else (None, None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Viewmaker(eps=eps, width=0.125, mean=mean, std=std)


def normalized(x: Tensor) -> Tensor:
    return (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def loss_of(model: nn.Module, views: Tensor) -> Tensor:
    return F.cross_entropy(model(views), labels(len(views)), reduction="none")


def gradients(loss: Tensor, module: nn.Module) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(module.parameters()), retain_graph=True))


@pytest.mark.parametrize("size", [(8, 8), (13, 10)], ids=str)
@pytest.mark.parametrize("eps", [0.05, 0.5])
def test_the_mean_distortion_is_eps_for_every_view(eps: float, size: tuple[int, int]) -> None:
    aug, x = made(eps=eps), images(4, 3, *size)
    theta = aug.draw(x, 1, generator=seeded())[0]
    delta = aug.distortion(x, theta)
    torch.testing.assert_close(delta.abs().mean(dim=(1, 2, 3)), torch.full((4,), eps))
    assert aug(x, 2).inputs.shape == (8, 3, *size)


def test_a_view_is_the_image_and_what_a_network_adds_to_it_clipped() -> None:
    """The formula once more, image by image."""
    aug, x = made(eps=0.3), images(3)
    batch = aug(x, 2, generator=seeded())
    clipped = 0
    for row, view in enumerate(batch.inputs):
        image, theta = x[row % 3][None], batch.theta.flatten(0, 1)[row][None]
        direction = torch.tanh(aug.network(image, theta))
        plain = image + 0.3 * direction / direction.abs().mean()
        clipped += int((plain < 0).sum() + (plain > 1).sum())
        torch.testing.assert_close(view, plain.clamp(0, 1)[0], atol=1e-5, rtol=1e-4)
    assert clipped > 100


def test_normalized_images_are_distorted_as_they_were_before() -> None:
    x = images(4)
    plain = made()(x, generator=seeded()).inputs
    told = made(normalized=True)(normalized(x), generator=seeded()).inputs
    torch.testing.assert_close(told, normalized(plain), atol=1e-5, rtol=1e-4)


def test_a_blank_network_distorts_nothing_and_stays_finite() -> None:
    aug, x = made(), images(2)
    for parameter in aug.parameters():
        nn.init.zeros_(parameter)
    batch = aug(x, generator=seeded())
    assert torch.equal(batch.inputs, x)
    batch.inputs.square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in aug.parameters())


def test_a_view_is_a_function_of_image_and_theta() -> None:
    aug, x = made(), images(3)
    theta = aug.draw(x, 2, generator=seeded())
    assert theta.shape == (2, 3, 16 * 16 + 3 * 4 * 4)
    assert theta.min() >= 0
    assert theta.max() < 1
    torch.manual_seed(1)  # the global randomness must not matter
    first = aug.render(x, theta[0])
    torch.manual_seed(2)
    assert torch.equal(first, aug.render(x, theta[0]))
    assert not torch.equal(first, aug.render(x, theta[1]))
    swapped = aug.render(x.flip(0), theta[0].flip(0)).flip(0)
    torch.testing.assert_close(first, swapped, atol=1e-5, rtol=1e-4)


def test_a_seed_decides_the_views() -> None:
    aug, x = made(), images(3)
    first = aug(x, 2, generator=seeded()).inputs
    assert torch.equal(first, aug(x, 2, generator=seeded()).inputs)
    assert not torch.equal(first, aug(x, 2, generator=seeded(1)).inputs)
    assert not torch.equal(first[:3], first[3:])  # two views of the same images


def test_what_was_learned_is_in_its_state() -> None:
    aug, other, x = made(), made(seed=1), images(2)
    before = other(x, generator=seeded()).inputs
    other.load_state_dict(aug.state_dict())
    after = other(x, generator=seeded()).inputs
    assert torch.equal(after, aug(x, generator=seeded()).inputs)
    assert not torch.equal(after, before)
    assert aug.averages_views


def test_one_pass_has_the_gradients_of_two_explicit_ones() -> None:
    """One in which the model descends on given views, one in which the network ascends."""
    model, aug, x = small_classifier(), made(normalized=True), normalized(images(6))
    batch = aug(x, generator=seeded())
    objective = aug.objective(loss_of(model, batch.inputs), batch)

    given = batch.inputs.detach()
    descending = gradients(loss_of(model, given).mean(), model)
    pixels = x * torch.tensor(STD).view(3, 1, 1) + torch.tensor(MEAN).view(3, 1, 1)
    direction = torch.tanh(aug.network(pixels, batch.theta[0]))
    delta = 0.05 * direction / direction.abs().mean(dim=(1, 2, 3), keepdim=True)
    views = normalized((pixels + delta).clamp(0, 1))
    ascending = gradients(-loss_of(model, views).mean(), aug)

    assert any(g.abs().max() > 1e-6 for g in ascending)
    torch.testing.assert_close(gradients(objective, model), descending, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(gradients(objective, aug), ascending, atol=1e-5, rtol=1e-4)


def test_the_loss_of_a_frozen_model_goes_up() -> None:
    model, aug, x = small_classifier().eval().requires_grad_(False), made(), images(12)
    optimizer = torch.optim.SGD(aug.parameters(), lr=0.02)
    seen = []
    for _ in range(8):
        batch = aug(x, generator=seeded())  # the same noise every time
        objective = aug.objective(loss_of(model, batch.inputs), batch)
        optimizer.zero_grad()
        objective.backward()
        optimizer.step()
        seen.append(float(objective.detach()))
    assert seen[-1] > seen[0] + 1e-3
    assert seen == sorted(seen)


@pytest.mark.parametrize("eps", [0.0, -0.1, 1.1, float("nan")])
def test_a_budget_that_cannot_be_is_refused(eps: float) -> None:
    with pytest.raises(ArgumentError, match="`eps` must lie in"):
        Viewmaker(eps=eps)


@pytest.mark.parametrize(
    "settings", [{"width": 0.0}, {"width": 65.0}, {"in_channels": 0}], ids=str
)
def test_a_network_that_cannot_be_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match="`in_channels` must be at least 1 and `width`"):
        Viewmaker(**settings)  # type: ignore[arg-type]


def test_images_that_are_too_small_or_of_other_channels_are_refused() -> None:
    aug = made()
    with pytest.raises(ShapeError, match="sides of at least 8 pixels"):
        aug(images(2, 3, 7, 16))
    with pytest.raises(ShapeError, match="must have 3 channels: got 1"):
        aug(images(2, 1))


def test_noise_of_another_size_is_refused() -> None:
    aug = made()
    theta = aug.draw(images(2, 3, 8, 8), 1)[0]
    with pytest.raises(ShapeError, match="`theta` must hold 304 numbers"):
        aug.render(images(2), theta)


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
