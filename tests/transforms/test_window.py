"""Windows: boxes as high as the image, for signals and spectrograms."""

import pytest
import torch
from torch import nn

from instaaug import InstaAug, fit_tta
from instaaug.methods import RandomAugmentation
from instaaug.networks import make_network
from instaaug.parameterizations import CropGrid
from instaaug.spaces import Boxes
from instaaug.transforms import Window
from tests.support.images import random_images

LEVELS = ((0.25, 4), (0.5, 3), (1.0, 1))


def signals(n: int, length: int, channels: int = 1, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, channels, 1, length, generator=generator)


def test_windows_are_in_a_row_and_as_high_as_the_image() -> None:
    grid = CropGrid(LEVELS, max_outside=0.0, whole_height=True)
    assert [level.shape for level in grid.levels] == [(1, 4), (1, 3), (1, 1)]
    assert (grid.boxes[:, 1] == 0).all()
    assert (grid.boxes[:, 3] == 2).all()
    edges = grid.boxes[:, :1] + grid.boxes[:, 2:3] * torch.tensor([-0.5, 0.5])
    assert edges.min() >= -1 - 1e-6
    assert edges.max() <= 1 + 1e-6
    assert (grid.cells[:, 1] == 0).all()  # with jitter, none moves up or down


@pytest.mark.parametrize("height", [1, 5])
def test_a_window_is_the_same_stretch_of_every_row(height: int) -> None:
    x = random_images(1, height=height, width=32)
    out = Window().apply(x, torch.tensor([[0.5, 0.0, 1.0, 2.0]]))
    rows = [
        Window().apply(x[:, :, i : i + 1], torch.tensor([[0.5, 0.0, 1.0, 2.0]]))
        for i in range(height)
    ]
    torch.testing.assert_close(out, torch.cat(rows, dim=2))


@pytest.mark.parametrize("jitter", [False, True])
def test_phi_draws_windows_alone(jitter: bool) -> None:
    aug = InstaAug(Window(LEVELS, jitter=jitter), in_channels=2, network="envelope")
    theta = aug(signals(8, 100, channels=2), n_samples=16).theta
    assert (theta[..., 1] == 0).all()
    assert (theta[..., 3] == 2).all()
    assert theta[..., 0].unique().numel() > 4


def test_random_windows_are_as_high_as_the_image() -> None:
    aug = RandomAugmentation(Window(), sizes=(0.3, 0.6))
    theta = aug.draw(signals(32, 50), n_samples=8)
    assert (theta[..., 1] == 0).all()
    assert (theta[..., 3] == 2).all()
    assert 0.6 <= theta[..., 2].min() < theta[..., 2].max() <= 1.2


def test_a_saved_augmenter_has_its_windows(tmp_path: object) -> None:
    aug = InstaAug(Window(LEVELS), in_channels=1, network="envelope").eval()
    path = f"{tmp_path}/aug.safetensors"
    aug.save(path)
    again, x = InstaAug.load(path).eval(), signals(3, 64)
    space = again.transform.spaces["window"]
    assert isinstance(space, Boxes)
    assert space.whole_height
    one, other = (a(x, generator=torch.Generator().manual_seed(1)) for a in (aug, again))
    assert torch.equal(one.inputs, other.inputs)


def test_the_envelope_hears_what_a_mean_does_not() -> None:
    """A loud stretch of noise has the mean of a silent one; the maps differ there."""
    torch.manual_seed(0)
    network = make_network("envelope", in_channels=1, width=1.0).eval()
    quiet = torch.zeros(1, 1, 1, 4096)
    loud = quiet.clone()
    loud[..., :1024] = torch.tensor([1.0, -1.0]).repeat(512)
    before, after = network(quiet)[0], network(loud)[0]
    assert not torch.allclose(before[..., :16], after[..., :16], atol=1e-3)


def test_the_envelope_has_a_gradient_where_a_signal_is_constant() -> None:
    network = make_network("envelope", in_channels=1, width=1.0)
    x = torch.zeros(1, 1, 1, 256, requires_grad=True)
    sum(m.square().sum() for m in network(x)).backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_phi_learns_where_the_event_is() -> None:
    """Windows that show the event lose less: φ prefers them, signal by signal.

    The event is a burst in the first or the last quarter; the loss of a window is the share of
    the burst that it leaves out. Who guesses passes with probability 2 ** -32.
    """
    torch.manual_seed(0)
    aug = InstaAug(Window(((0.25, 4),)), in_channels=1, network="envelope", diversity=(0.3, 0.5))
    optimizer = torch.optim.Adam(aug.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(150):
        late = torch.rand(32, generator=generator) < 0.5
        x = _bursts(late, generator)
        batch = aug(x, generator=generator)
        center = torch.where(late, 0.75, -0.75)
        losses = (batch.theta[0, :, 0] - center).abs()
        optimizer.zero_grad()
        aug.objective(losses, batch).backward()
        optimizer.step()
    late = torch.tensor([False, True]).repeat(16)
    likely = aug.eval().distribution(_bursts(late, generator)).finite()["window"].logits.argmax(1)
    assert (likely[~late] <= 1).all()
    assert (likely[late] >= 2).all()


def _bursts(late: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    x = 0.05 * torch.randn(len(late), 1, 1, 256, generator=generator)
    loud = torch.randn(len(late), 1, 1, 64, generator=generator)
    x[~late, :, :, :64] += loud[~late]
    x[late, :, :, 192:] += loud[late]
    return x


def test_views_of_a_frozen_model_of_signals_are_windows() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(2), nn.Conv1d(1, 4, 5), nn.Flatten(), nn.Linear(4 * 28, 3))
    x, y = signals(12, 32), torch.arange(12) % 3
    aug = fit_tta(model.eval(), (x, y), Window(LEVELS), features="envelope", steps=3)
    predictor = aug.wrap(model, 3).eval()
    assert predictor(x).shape == (12, 3)
    assert (predictor.samples(x)[..., 3] == 2).all()
