"""The spatial transformer starts with nothing and learns to undo what was done to its inputs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Generator, Tensor, nn
from torch.nn import functional as F

import instaaug
from instaaug.augmentation import Augmenter
from instaaug.augmentation.observed import observe
from instaaug.errors import ArgumentError, ShapeError, UnknownNameError
from instaaug.functional.affine import (
    inverse,
    product,
    rotation_matrix,
    scale_matrix,
    translation_matrix,
)
from instaaug.functional.warp import warp
from instaaug.methods.simple import NoAugmentation
from instaaug.methods.spatial_transformer import SpatialTransformer
from tests.support.images import dot_image, smooth_images
from tests.support.models import images, labels, small_classifier

IDENTITY = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0])


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def built(seed: int = 0, **settings: Any) -> SpatialTransformer:
    """One whose network starts the same every time."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return SpatialTransformer(**settings)


def disturbed(seed: int = 0, **settings: Any) -> SpatialTransformer:
    """One that has moved away from the identity, for every input elsewhere."""
    aug = built(seed, **settings)
    with torch.no_grad():
        weight = aug.head.linear.weight
        weight.copy_(torch.randn(weight.shape, generator=seeded(seed)) * 0.02)
    return aug


# --- the start ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(16, 16), (12, 17)], ids=str)
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_nothing_happens_at_the_start(channels: int, shape: tuple[int, int]) -> None:
    x = images(4, channels, *shape)
    aug = built(in_channels=channels)
    batch = aug(x, 2, targets=labels(4))
    assert torch.equal(batch.inputs, x.repeat(2, 1, 1, 1))
    assert torch.equal(aug.canonical(x), x)
    assert torch.equal(batch.theta, IDENTITY.expand(2, 4, 6))
    assert batch.targets is not None
    assert batch.targets.tolist() == labels(4).tolist() * 2


def test_the_first_step_already_moves_the_last_layer() -> None:
    aug = built(in_channels=3)
    batch = aug(smooth_images(2, dtype=torch.float32))
    aug.objective(batch.inputs[:, :, :9].mean(dim=(1, 2, 3)), batch).backward()
    for parameter in (aug.head.linear.weight, aug.head.linear.bias):
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 0


# --- the warp -----------------------------------------------------------------------------------


def test_pixels_are_read_where_theta_says() -> None:
    """Against bilinear interpolation written out, pixel by pixel."""
    x = images(1, 1, 6, 8)
    theta = torch.tensor([[0.8, 0.1, 0.05, -0.2, 0.7, -0.1]])
    out = built(in_channels=1).render(x, theta)[0, 0]
    a, b, c, d, e, f = theta[0].double().tolist()
    for row in range(6):
        for column in range(8):
            u, v = (2 * column + 1) / 8 - 1, (2 * row + 1) / 6 - 1
            right, down = (
                ((a * u + b * v + c + 1) * 8 - 1) / 2,
                ((d * u + e * v + f + 1) * 6 - 1) / 2,
            )
            expected = sum(
                float(x[0, 0, i, j]) * max(0.0, 1 - abs(down - i)) * max(0.0, 1 - abs(right - j))
                for i in range(6)
                for j in range(8)
            )
            assert float(out[row, column]) == pytest.approx(expected, abs=1e-5)


def test_the_gradient_of_theta_and_pixels_is_that_of_finite_differences() -> None:
    aug = built(in_channels=1).double()
    x = smooth_images(2, height=5, width=4)[:, :1].requires_grad_()
    theta = torch.tensor(
        [[0.83, 0.11, 0.057, -0.21, 0.71, -0.13], [1.07, -0.19, 0.03, 0.08, 0.91, 0.12]]
    )
    assert torch.autograd.gradcheck(aug.render, (x, theta.double().requires_grad_()))


def test_the_gradient_of_the_loss_reaches_every_weight_of_the_network() -> None:
    """That of the last bias agrees with central differences of the whole objective."""
    aug = disturbed(in_channels=3).double()
    x, target = (
        smooth_images(3, height=16, width=16),
        smooth_images(3, height=16, width=16).flip(3),
    )

    def objective() -> Tensor:
        batch = aug(x)
        return aug.objective((batch.inputs - target).square().mean(dim=(1, 2, 3)), batch)

    objective().backward()
    for name, parameter in aug.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name
    bias = aug.head.linear.bias
    for k in range(6):
        values = []
        for step in (1e-6, -2e-6):
            with torch.no_grad():
                bias[k] += step
                values.append(float(objective()))
        with torch.no_grad():
            bias[k] += 1e-6
        assert bias.grad is not None
        slope = (values[0] - values[1]) / 2e-6
        assert float(bias.grad[k]) == pytest.approx(slope, rel=1e-4, abs=1e-8)


# --- no chance ----------------------------------------------------------------------------------


def test_every_sample_of_an_input_is_the_same_and_inputs_differ() -> None:
    aug, x = disturbed(), images(5)
    batch = aug(x, 3)
    theta = aug.draw(x, 4, generator=seeded())
    assert theta.shape == (4, 5, 6)
    assert (theta == theta[:1]).all()
    assert torch.equal(theta[:3], batch.theta)
    assert len({tuple(row) for row in theta[0].tolist()}) == 5
    torch.testing.assert_close(
        batch.inputs.view(3, 5, 3, 16, 16), aug.canonical(x).expand(3, -1, -1, -1, -1)
    )
    torch.testing.assert_close(aug.render(x, theta[0]), aug.canonical(x))


def test_the_batch_has_no_say_in_what_happens_to_an_input() -> None:
    aug, x = disturbed().train(), images(5)
    alone = torch.cat([aug.canonical(x[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(aug.canonical(x), alone, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(aug.eval().canonical(x), alone, atol=1e-5, rtol=1e-5)


def test_a_wrapped_model_sees_what_it_was_trained_on() -> None:
    aug, model, x = disturbed(), small_classifier().eval(), images(4)
    assert not aug.averages_views
    expected = model(aug.canonical(x))
    torch.testing.assert_close(aug.wrap(model, 2)(x), expected, atol=1e-5, rtol=1e-5)


def test_the_curves_tell_where_it_looks() -> None:
    aug = built()
    with torch.no_grad():
        aug.head.linear.bias.copy_(torch.tensor([0.5, 0.0, 0.3, 0.0, 0.5, -0.4]))
    numbers = aug.monitor(aug(images(3), 2))
    assert {name: float(value) for name, value in numbers.items()} == pytest.approx(
        {"area/seen": 0.25, "shift/seen": 0.5}
    )


# --- learning -----------------------------------------------------------------------------------


def pattern() -> Tensor:
    """Three dots of different brightness: no symmetry."""
    places = {(-0.3, -0.2): 1.0, (0.3, -0.2): 0.6, (0.0, 0.35): 0.9}
    dots = [b * dot_image(p, height=16, width=16) for p, b in places.items()]
    return torch.stack(dots).sum(dim=0).float()


def turned_zoomed_and_moved(n: int, generator: Generator) -> Tensor:
    turn, zoom = torch.tensor([0.4]), torch.tensor([[0.85, 0.85]])
    moved = product(translation_matrix(torch.tensor([[0.1, -0.08]])), rotation_matrix(turn))
    return product(moved, scale_matrix(zoom)).expand(n, 3, 3)


def moved_at_random(n: int, generator: Generator) -> Tensor:
    return translation_matrix((torch.rand(n, 2, generator=generator) * 2 - 1) * 0.2)


@pytest.mark.parametrize(
    ("disturbance", "n_steps", "limit"),
    [(turned_zoomed_and_moved, 60, 0.02), (moved_at_random, 80, 0.03)],
)
def test_it_learns_to_undo_what_was_done(
    disturbance: Callable[[int, Generator], Tensor], n_steps: int, limit: float
) -> None:
    """Asked for the undisturbed pattern, it must find the inverse, input by input."""
    aug, generator, straight = built(in_channels=1, width=0.5), seeded(), pattern()
    optimizer = torch.optim.Adam(aug.parameters(), 3e-3)
    for _ in range(n_steps):
        x = warp(straight.expand(12, -1, -1, -1), disturbance(12, generator))
        batch = aug(x)
        losses = (batch.inputs - straight).square().mean(dim=(1, 2, 3))
        optimizer.zero_grad()
        aug.objective(losses, batch).backward()
        optimizer.step()
    matrix = disturbance(100, generator)
    with torch.no_grad():
        theta = aug.draw(warp(straight.expand(100, -1, -1, -1), matrix), 1)[0]
    wanted = inverse(matrix)[:, :2].flatten(1)
    assert (IDENTITY - wanted).abs().mean() > 0.05
    assert (theta - wanted).abs().mean() < limit


def shapes() -> Tensor:
    """A cross, a ring and a corner."""
    drawn = torch.zeros(3, 1, 16, 16)
    drawn[0, 0, 5:11, 7:9] = drawn[0, 0, 7:9, 5:11] = 1
    drawn[1, 0, 5:11, 5:11] = 1
    drawn[1, 0, 7:9, 7:9] = 0
    drawn[2, 0, 5:7, 5:11] = drawn[2, 0, 5:11, 5:7] = 1
    return drawn


def accuracy_trained_with(aug: Augmenter) -> float:
    """Of a linear classifier of shapes that lie anywhere."""
    generator, n_steps = seeded(), 200
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(256, 3))
    optimizer = torch.optim.Adam(
        [
            {"params": model.parameters(), "lr": 1e-2},
            {"params": list(aug.parameters()), "lr": 1e-3},
        ]
    )

    def moved(n: int) -> tuple[Tensor, Tensor]:
        y = labels(n)
        shift = (torch.rand(n, 2, generator=generator) * 2 - 1) * 0.25
        return warp(shapes()[y], translation_matrix(shift)), y

    for _ in range(n_steps):
        x, y = moved(24)
        batch = aug(x, targets=y)
        losses = F.cross_entropy(model(batch.inputs), y, reduction="none")
        optimizer.zero_grad()
        aug.objective(losses, batch).backward()
        optimizer.step()
    x, y = moved(600)
    with torch.no_grad():
        return float((model(aug.canonical(x)).argmax(dim=1) == y).float().mean())


@pytest.mark.slow
def test_trained_along_it_makes_a_weak_classifier_better() -> None:
    """A linear classifier cannot follow a shape; the transformer brings it where it looks."""
    without = accuracy_trained_with(NoAugmentation())
    with_it = accuracy_trained_with(built(in_channels=1, width=0.5))
    assert with_it > without + 0.1


# --- saving, looking, words ---------------------------------------------------------------------


def test_what_was_learned_survives_saving(tmp_path: Path) -> None:
    aug, x = disturbed(1, width=0.5), images(4)
    save_file(aug.state_dict(), tmp_path / "weights.safetensors")
    again = built(2, width=0.5)
    assert not torch.equal(again.canonical(x), aug.canonical(x))
    again.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    assert torch.equal(again.canonical(x), aug.canonical(x))


def test_it_shows_the_corners_of_what_it_looks_at() -> None:
    aug = built(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    with torch.no_grad():
        aug.head.linear.bias.copy_(torch.tensor([0.5, 0.0, 0.3, 0.1, 0.4, -0.2]))
    x = (images(2) - 0.5) / 0.25
    seen = observe(aug, x, 3)
    corners = torch.tensor([[-0.2, -0.7], [0.8, -0.5], [0.8, 0.3], [-0.2, 0.1]])
    assert seen.outlines is not None
    torch.testing.assert_close(seen.outlines, corners.expand(3, 2, 4, 2))
    torch.testing.assert_close(seen.images, images(2))
    words = [text.get_text() for text in instaaug.plot(aug, x, 3).texts]
    assert words[:2] == ["input", "samples"]


def test_another_size_and_precision_come_out_as_asked() -> None:
    aug, x = built(size=(8, 10)), images(2).double()
    out = aug.render(x, IDENTITY.expand(2, 6))
    assert out.shape == (2, 3, 8, 10)
    assert built()(x).inputs.dtype == torch.float64


@pytest.mark.parametrize(("padding_mode", "corner"), [("zeros", 0.0), ("border", 1.0)])
def test_what_lies_outside_is_up_to_the_user(padding_mode: str, corner: float) -> None:
    smaller = torch.tensor([[2.0, 0.0, 0.0, 0.0, 2.0, 0.0]])
    out = built(padding_mode=padding_mode).render(torch.ones(1, 3, 16, 16), smaller)
    assert out[0, 0, 0, 0] == corner
    assert out[0, 0, 8, 8] == 1


@pytest.mark.parametrize("settings", [{"in_channels": 0}, {"width": 0.0}, {"width": 65.0}])
def test_the_network_has_a_size(settings: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="`in_channels` must be at least 1 and `width` lie in"):
        built(**settings)


def test_an_unknown_network_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"no network called 'piramid'\. Did you mean"):
        built(network="piramid")


def test_images_of_other_channels_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"`x` must have 3 channels: got 1 .*in_channels=1"):
        built()(images(2, 1))
