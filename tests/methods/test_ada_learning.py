"""AdaAug's policies on tasks with a planted harm: they learn to avoid it."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from instaaug.augmentation import HeldOutBatch
from instaaug.methods.ada_augment import ADA_OPERATIONS, AdaAugment
from instaaug.methods.ada_crops import AdaCrops
from instaaug.methods.ada_policy import MOST_ROWS, AdaPolicy
from tests.support.models import small_classifier

Data = Callable[[int, Generator], tuple[Tensor, ...]]


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def losses_of(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def polarity(n: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """A square that is brighter or darker than its surroundings: that is its class."""
    y = torch.randint(2, (n,), generator=generator)
    corner, side = torch.randint(2, 10, (2, n, 1), generator=generator), torch.arange(16)
    down, right = ((side >= c) & (side < c + 5) for c in corner)
    square = (down[:, :, None] & right[:, None, :])[:, None]
    x = 0.5 + 0.35 * (2 * y - 1).view(-1, 1, 1, 1) * square.expand(-1, 3, -1, -1)
    return (x + 0.05 * torch.randn(x.shape, generator=generator)).clamp(0, 1), y


def stripes(n: int, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Noise with stripes in one quarter; the class is their direction. Also which quarter."""
    y, quarter = (
        torch.randint(2, (n,), generator=generator),
        torch.randint(4, (n,), generator=generator),
    )
    x = 0.5 + 0.25 * torch.randn(n, 3, 2, 8, 2, 8, generator=generator)
    lines = (torch.arange(8) % 2).float().expand(8, 8)
    rows = torch.arange(n)
    pattern = torch.where(y[:, None, None] == 1, lines, lines.T)
    x[rows, :, quarter // 2, :, quarter % 2, :] = pattern[:, None].expand(-1, 3, -1, -1)
    return x.clamp(0, 1).reshape(n, 3, 16, 16), y, quarter


def learned(aug: AdaPolicy, data: Data, learning_rate: float) -> None:
    """Train a classifier and its policy together."""
    generator, model = seeded(), small_classifier(2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        aug.attach(model)
    model_steps = torch.optim.Adam(model.parameters(), 1e-2)
    policy_steps = torch.optim.Adam(aug.parameters(), learning_rate)
    for _ in range(50):
        x, y = data(32, generator)[:2]
        held_out = HeldOutBatch(*data(MOST_ROWS // aug.n_candidates, generator)[:2])
        batch = aug(x, 1, generator, y)
        policy_steps.zero_grad()
        aug.search_objective(model, batch, held_out, losses_of, generator).backward()
        policy_steps.step()
        model_steps.zero_grad()
        losses = losses_of(model(batch.inputs), y)
        aug.objective(losses, batch).backward()
        model_steps.step()


def test_a_policy_learns_to_avoid_what_swaps_the_classes() -> None:
    aug = AdaAugment(n_operations=1, temperature=1.0)
    learned(aug, polarity, 3e-3)
    _, probs = aug.policy(polarity(100, seeded(7))[0])
    mean = dict(zip(ADA_OPERATIONS, probs.detach().mean(dim=0).tolist(), strict=True))
    assert mean["invert"] < 0.25 / 17
    assert mean["invert"] < 0.25 * mean["identity"]


def test_a_policy_of_boxes_learns_to_look_where_the_class_is_told() -> None:
    aug = AdaCrops(levels=[(0.5, 2)])
    learned(aug, stripes, 1e-2)
    x, _, quarter = stripes(200, seeded(7))
    own = aug.raw(x).softmax(dim=-1).gather(1, quarter[:, None]).mean()
    assert own > 0.4  # a quarter by chance
