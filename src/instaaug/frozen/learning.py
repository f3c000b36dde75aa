"""How φ learns for a frozen model: exactly from a table, or from draws through the model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from instaaug.augmentation import InstaAug
from instaaug.augmentation.at_test_time import Merging, confidence
from instaaug.distributions import Joint
from instaaug.errors import ArgumentError
from instaaug.frozen.calibration import fit_temperature
from instaaug.frozen.images import NormalizedImages
from instaaug.frozen.table import ViewTable, other_choices
from instaaug.networks import FrozenFeatures
from instaaug.networks.model_interface import Output, as_input_of, device_of, output_rows
from instaaug.objectives import Loss, ViewObjective, ensemble_loss, exact_risk, n_views_loss
from instaaug.shapes import check_finite

__all__ = [
    "Learning",
    "choose_sharpness",
    "learn_from_draws",
    "learn_from_table",
    "view_confidence",
]

SHARPNESSES = (0.0, 0.5, 1.0, 2.0)  # of confidence
SHARPEST = 0.1  # of the selection; it starts ten times softer
BIAS_RATE = 16.0  # a place's own bias may move that much faster than what depends on the input
DECAY = 0.01
MOST_FOR_STATISTICS = 1000
MOST_WITHOUT_TABLE = 128  # for statistics, where the model must be run for them
ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class Learning:
    """What is minimized, and how.

    Arguments:
        objective: Which loss of which views.
        n_views: How many views will be averaged.
        loss: One loss per input.
        confidence: How much each view of each image counts when it is chosen; None for equally.
        steps: Steps of the optimizer.
        batch_size: Images per step.
        learning_rate: Of AdamW; it falls to zero along a line.
        seed: Decides the order of images, and what is drawn.
        on_step: Called with the number of steps taken and the loss.
    """

    objective: ViewObjective
    n_views: tuple[int, ...]
    loss: Loss
    confidence: Float[Tensor, "images views"] | None = None
    steps: int = 400
    batch_size: int = 256
    learning_rate: float = 3e-3
    seed: int = 0
    on_step: Callable[[int, float], None] | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"`{name}` must be at least 1: got {getattr(self, name)}.")
        if not 0 < self.learning_rate < inf:
            raise ArgumentError(
                f"`learning_rate` must be a number above 0: got {self.learning_rate}. 0.003 is a "
                "good start."
            )

    def minimize(self, aug: InstaAug, objective: Callable[[int], Tensor]) -> None:
        """Take all steps; ``objective`` gives the scalar of each."""
        optimizer = torch.optim.AdamW(_parameter_groups(aug, self.learning_rate))
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 - i / self.steps)
        aug.train()
        for step in range(self.steps):
            value = objective(step)
            check_finite(value, name="loss", advice="Lower the learning rate, or look at `loss`.")
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
            if self.on_step is not None:
                self.on_step(step + 1, float(value.detach()))


def learn_from_table(
    aug: InstaAug, table: ViewTable, images: NormalizedImages, learning: Learning
) -> None:
    """Learn from the model's outputs for every view; the model is not run again.

    With the objective ``"views"`` the scores of views decide a selection that grows sharper with
    every step. In the end they are divided by its temperature, so that the odds of a view under
    p(θ|x) are its odds to be among those selected.
    """
    generator = torch.Generator().manual_seed(learning.seed)
    order = _shuffle_forever(len(table), learning.batch_size, generator)
    device = device_of(aug)
    distributions = _Distributions(aug, table, images, generator)
    single, weights = None, learning.confidence
    if learning.objective == "single":
        single = _losses_of_views(table, learning.loss)
    else:
        _reset_biases(aug)

    def objective(step: int) -> Tensor:
        index = next(order)
        joint = distributions.at(index)
        targets = table.targets[index].to(device)
        others = other_choices(aug, joint)
        if single is not None:
            risk = exact_risk(single[index, 1:].T.to(device), others.logits)
            entropy = joint.entropies().mean(dim=0)
            return risk - (aug.band.update(entropy) * entropy).sum()
        outputs = table.outputs_of(index).to(device)
        if learning.objective == "ensemble":
            return ensemble_loss(others.logits, outputs[:, 1:], targets, learning.loss)
        temperature = SHARPEST ** (step / learning.steps)
        return n_views_loss(
            others.logits, outputs, targets, learning.loss,
            n_views=learning.n_views, temperature=temperature,
            confidence=None if weights is None else weights[index].to(device),
        )  # fmt: skip

    learning.minimize(aug, objective)
    if learning.objective == "views":
        _sharpen(aug)


@torch.no_grad()
def choose_sharpness(table: ViewTable, n_views: Sequence[int], *, seed: int = 0) -> float:
    """How much confidence should count where views are merged; 0 is the plain mean.

    The image and random other views stand for what φ will choose, so that nothing that was learned
    can flatter a rule; each gets the temperature that suits it. The likelihood decides.

    Arguments:
        table: Class scores of the model for every view.
        n_views: How many views will be merged.
        seed: Decides which.
    """
    generator = torch.Generator().manual_seed(seed)
    n_others = table.outputs.shape[1] - 1
    losses = dict.fromkeys(SHARPNESSES, 0.0)
    order = torch.rand(len(table), n_others, generator=generator).argsort(dim=1)
    order = torch.cat([torch.zeros(len(table), 1).long(), 1 + order], dim=1)  # the image first
    for n in n_views:
        for sharpness in SHARPNESSES:
            logits = _merge_by_confidence(table, order[:, :n], sharpness)
            temperature = fit_temperature(logits, table.targets)
            losses[sharpness] += float(F.cross_entropy(logits / temperature, table.targets.long()))
    return min(losses, key=lambda sharpness: losses[sharpness])


def _merge_by_confidence(
    table: ViewTable, views: Int[Tensor, "images n"], sharpness: float
) -> Float[Tensor, "images classes"]:
    """Merged outputs of some of the views of every image."""
    rule, parts = Merging("confidence", sharpness=sharpness), []
    for index in torch.arange(len(table)).split(ROWS_AT_ONCE):
        outputs = table.outputs_of(index)[torch.arange(len(index))[:, None], views[index]]
        scores = rule.scores(outputs.flatten(0, 1), outputs[..., 0].numel())
        ones = torch.ones(views.shape[1], len(index))
        total = rule.total(scores.unflatten(0, outputs.shape[:2]).movedim(1, 0), ones)
        parts.append(rule.finish(total, ones, torch.full((len(index),), views.shape[1])))
    return torch.cat(parts)


@torch.no_grad()
def view_confidence(table: ViewTable, sharpness: float) -> Float[Tensor, "images views"]:
    """How much each view of each image counts where views are merged by confidence."""
    parts = []
    for index in torch.arange(len(table)).split(ROWS_AT_ONCE):
        outputs = table.outputs_of(index)
        parts.append(confidence(outputs.flatten(0, 1), sharpness).view(outputs.shape[:2]))
    return torch.cat(parts)


def learn_from_draws(
    aug: InstaAug,
    model: nn.Module,
    images: NormalizedImages,
    learning: Learning,
    output: Output | None,
) -> None:
    """Learn from single draws: pathwise through the frozen model, score function for choices."""
    device = device_of(aug)
    generator = torch.Generator().manual_seed(learning.seed)
    order = _shuffle_forever(len(images), learning.batch_size, generator)
    draws = torch.Generator(device).manual_seed(learning.seed)
    network = aug.phi.network
    if isinstance(network, FrozenFeatures):
        some = _random_subset(len(images), MOST_WITHOUT_TABLE, generator)
        x = aug.transform.resize(
            images.at(some)[0].to(device), padding_mode=aug.settings.padding_mode
        )
        with torch.no_grad():
            network.standardize(torch.cat([part for part, _ in network.features_in_chunks(x)]))

    def objective(_: int) -> Tensor:
        x, targets = images.at(next(order))
        batch = aug(x.to(device), targets=targets.to(device), generator=draws)
        outputs = output_rows(model(as_input_of(model, batch.inputs)), len(batch.inputs), output)
        return aug.objective(learning.loss(outputs.float(), batch.targets), batch)

    learning.minimize(aug, objective)


class _Distributions:
    """φ's distribution for images of the table, from the model's features if φ reads them."""

    def __init__(
        self, aug: InstaAug, table: ViewTable, images: NormalizedImages, generator: Generator
    ) -> None:
        self.aug, self.table, self.images = aug, table, images
        network = aug.phi.network
        self.network = network if isinstance(network, FrozenFeatures) else None
        if self.network is not None:
            some = _random_subset(len(table), MOST_FOR_STATISTICS, generator)
            self.network.standardize(table.features_of(some).to(device_of(aug)))

    def at(self, index: Tensor) -> Joint:
        """The distribution for each of the images with these numbers."""
        device = device_of(self.aug)
        if self.network is not None:
            maps = self.network.maps(self.table.features_of(index).to(device))
            return self.aug.phi.decode(maps, None, len(index))
        if self.aug.phi.network is None:
            return self.aug.phi.decode([], None, len(index))
        return self.aug.distribution(self.images.at(index)[0].to(device))


def _losses_of_views(table: ViewTable, loss: Loss) -> Tensor:
    """The loss of every single view, ``(N, K)``."""
    rows = []
    for index in torch.arange(len(table)).split(ROWS_AT_ONCE):
        outputs = table.outputs_of(index)
        targets = table.targets[index].repeat_interleave(outputs.shape[1], dim=0)
        rows.append(loss(outputs.flatten(0, 1), targets).view(outputs.shape[:2]))
    return torch.cat(rows)


def _random_subset(n: int, most: int, generator: Generator) -> Tensor:
    """Numbers of some of the images, in order: a file is read from front to back."""
    return torch.randperm(n, generator=generator)[:most].sort().values


def _shuffle_forever(n: int, batch_size: int, generator: Generator) -> Iterator[Tensor]:
    """Batches of indices, each index once per round, without end."""
    while True:
        for index in torch.randperm(n, generator=generator).split(batch_size):
            yield index.sort().values


def _parameter_groups(aug: InstaAug, rate: float) -> list[dict[str, Any]]:
    """What depends on the input decays; a view's own bias does not, and moves faster."""
    heads = set(map(id, _biases(aug)))
    rest = [p for p in aug.parameters() if id(p) not in heads]
    return [
        {"params": _biases(aug), "lr": BIAS_RATE * rate, "weight_decay": 0.0},
        {"params": rest, "lr": rate, "weight_decay": DECAY},
    ]


def _biases(aug: InstaAug) -> list[nn.Parameter]:
    return [p for p in aug.phi.heads.parameters() if p.ndim == 1]


@torch.no_grad()
def _reset_biases(aug: InstaAug) -> None:
    """Start without a preference for any view."""
    for bias in _biases(aug):
        bias.zero_()


@torch.no_grad()
def _sharpen(aug: InstaAug) -> None:
    """Divide all scores by the last temperature: heads are linear in all of their parameters."""
    for parameter in aug.phi.heads.parameters():
        parameter.div_(SHARPEST)
