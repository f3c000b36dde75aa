"""How φ learns for a frozen model: exactly from a table, or from draws through the model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from instaaug.augmentation import InstaAug
from instaaug.augmentation.at_test_time import Merging, confidence
from instaaug.distributions import CategoricalTheta, Joint
from instaaug.errors import ArgumentError
from instaaug.frozen.calibration import fit_temperature
from instaaug.frozen.images import NormalizedImages
from instaaug.frozen.table import ViewTable
from instaaug.networks import FrozenFeatures
from instaaug.networks.model_interface import Output, as_input_of, device_of, output_rows
from instaaug.objectives import Loss, ViewObjective, ensemble_loss, exact_risk, n_views_loss
from instaaug.shapes import check_finite

__all__ = [
    "Descent",
    "Distributions",
    "Learning",
    "TableBatches",
    "ViewBatch",
    "choose_sharpness",
    "depends_on_input",
    "finish",
    "learn_from_draws",
    "learn_from_table",
    "prepare",
    "shuffle_forever",
    "single_losses",
    "view_confidence",
]

SHARPNESSES = (0.0, 0.25, 0.5, 1.0)  # of confidence
SHARPEST = 0.1  # of the selection; it starts ten times softer
BIAS_RATE = 16.0  # a place's own bias may move that much faster than what depends on the input
DECAY = 0.01
COLDEST, HOTTEST, N_HALVINGS = 1e-3, 1e3, 40  # of what scores are divided by to meet a band
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
        n_streamed: The last steps, if they are taken from a stream of images.
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
    n_streamed: int = 0
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

    def progress(self, step: int) -> float:
        """How far learning is before a step, from 0 to 1.

        Steps from a table and steps from a stream take a half each, however many they are: few
        steps from a stream would otherwise come when the learning rate is next to nothing.
        """
        if not self.n_streamed:
            return step / self.steps
        n_first = self.steps - self.n_streamed
        if step < n_first:
            return step / n_first / 2
        return (1 + (step - n_first) / self.n_streamed) / 2

    def minimize(self, aug: InstaAug, objective: Callable[[int], Tensor]) -> None:
        """Take all steps; ``objective`` gives the scalar of each."""
        descent = Descent(aug, self)
        while descent.n_steps < self.steps:
            descent.step(objective(descent.n_steps))

    def loss_of(self, aug: InstaAug, batch: "ViewBatch", step: int) -> Float[Tensor, ""]:
        """What the step with this number minimizes, from the model's outputs for all views."""
        others = aug.other_choices(batch.joint)
        if self.objective == "single":
            risk = exact_risk(batch.outputs[:, 1:].T, others.logits)
            entropy = aug.parts.entropies(batch.joint).mean(dim=0)
            return risk - (aug.band.update(entropy) * entropy).sum()
        if self.objective == "ensemble":
            return ensemble_loss(others.logits, batch.outputs[:, 1:], batch.targets, self.loss)
        return n_views_loss(
            others.logits, batch.outputs, batch.targets, self.loss,
            n_views=self.n_views, temperature=SHARPEST ** self.progress(step),
            confidence=batch.confidence,
        )  # fmt: skip


class Descent:
    """AdamW on φ, one step at a time; its state can be saved and restored.

    Arguments:
        aug: With φ, which is changed.
        learning: How many steps there will be, and how large.
    """

    def __init__(self, aug: InstaAug, learning: Learning) -> None:
        self.learning, self.n_steps = learning, 0
        self.optimizer = torch.optim.AdamW(_parameter_groups(aug, learning.learning_rate))
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: 1 - learning.progress(step)
        )
        aug.train()

    def step(self, value: Float[Tensor, ""]) -> None:
        """Go down the gradient of a loss."""
        check_finite(value, name="loss", advice="Lower the learning rate, or look at `loss`.")
        self.optimizer.zero_grad()
        value.backward()
        self.optimizer.step()
        self.schedule.step()
        self.n_steps += 1
        if self.learning.on_step is not None:
            self.learning.on_step(self.n_steps, float(value.detach()))

    def state_dict(self) -> dict[str, Any]:
        """All that a later step depends on, but φ."""
        return {
            "n_steps": self.n_steps,
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after the last step of another descent."""
        self.n_steps = state["n_steps"]
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])


@dataclass(frozen=True)
class ViewBatch:
    """What a step learns from: φ's distribution for some images, and what the model makes of them.

    Arguments:
        joint: φ's distribution.
        targets: What is right.
        outputs: For the image itself and all other views; for the objective ``"single"`` the
            loss of each instead.
        confidence: How much each view counts when it is chosen; None for equally.
    """

    joint: Joint
    targets: Tensor
    outputs: Float[Tensor, "batch k_and_one *rest"]
    confidence: Float[Tensor, "batch k_and_one"] | None = None


def learn_from_table(
    aug: InstaAug,
    table: ViewTable,
    images: NormalizedImages,
    learning: Learning,
    rows: Int[Tensor, " rows"] | None = None,
) -> None:
    """Learn from the model's outputs for every view; the model is not run again.

    With the objective ``"views"`` the scores of views decide a selection that grows sharper with
    every step. In the end they are divided by its temperature, so that the odds of a view under
    p(θ|x) are its odds to be among those selected.

    Arguments:
        aug: With φ, which is changed.
        table: The model's outputs.
        images: What φ reads, if not the model's features.
        learning: What is minimized, and how.
        rows: The images to learn from; all if absent.
    """
    prepare(aug, learning)
    if depends_on_input(aug):
        batches = TableBatches(aug, table, images, learning, rows)
        learning.minimize(aug, lambda step: learning.loss_of(aug, next(batches), step))
        if learning.objective == "single":
            _meet_band(aug, batches.distributions, batches.rows)
    finish(aug, learning)


def depends_on_input(aug: InstaAug) -> bool:
    """Whether there is anything to learn beyond the order of views for all inputs."""
    return aug.plan is None or aug.phi.network is not None


def prepare(aug: InstaAug, learning: Learning) -> None:
    """Start without a preference for any view, unless an entropy band says where to start."""
    if learning.objective != "single":
        _reset_biases(aug)


def finish(aug: InstaAug, learning: Learning) -> None:
    """Let p(θ|x) be as sharp as the selection was in the end."""
    if learning.objective == "views":
        _sharpen(aug)


class TableBatches:
    """Random batches of a table, without end.

    Arguments:
        aug: With φ; if it reads the model's features, these are standardized from now on.
        table: The model's outputs.
        images: What φ reads otherwise.
        learning: Says what a batch needs, how large it is, and the seed.
        rows: The images to draw from; all if absent.
    """

    def __init__(
        self,
        aug: InstaAug,
        table: ViewTable,
        images: NormalizedImages,
        learning: Learning,
        rows: Int[Tensor, " rows"] | None = None,
    ) -> None:
        generator = torch.Generator().manual_seed(learning.seed)
        self.table, self.device, self.learning = table, device_of(aug), learning
        self.rows = torch.arange(len(table)) if rows is None else rows.sort().values
        self.order = shuffle_forever(len(self.rows), learning.batch_size, generator)
        self.distributions = Distributions(aug, table, images)
        self.distributions.standardize(self.rows, generator)
        self.single = None
        if learning.objective == "single":
            self.single = _losses_of_views(table, learning.loss)

    def __iter__(self) -> "TableBatches":
        return self

    def __next__(self) -> ViewBatch:
        index = self.rows[next(self.order)]
        weights = self.learning.confidence
        outputs = self.table.outputs_of(index) if self.single is None else self.single[index]
        return ViewBatch(
            self.distributions.at(index),
            self.table.targets[index].to(self.device),
            outputs.to(self.device),
            None if weights is None else weights[index].to(self.device),
        )


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
        parts.append(rule.merge_outputs(outputs.movedim(1, 0), None))
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
    order = shuffle_forever(len(images), learning.batch_size, generator)
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


class Distributions:
    """φ's distribution for images of the table, from the model's features if φ reads them."""

    def __init__(self, aug: InstaAug, table: ViewTable, images: NormalizedImages) -> None:
        self.aug, self.table, self.images = aug, table, images
        network = aug.phi.network
        self.network = network if isinstance(network, FrozenFeatures) else None

    def standardize(self, rows: Int[Tensor, " rows"], generator: Generator) -> None:
        """Let φ standardize the model's features by their statistics in some of these images."""
        if self.network is not None:
            some = rows[_random_subset(len(rows), MOST_FOR_STATISTICS, generator)]
            self.network.standardize(self.table.features_of(some).to(device_of(self.aug)))

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
    parts = torch.arange(len(table)).split(ROWS_AT_ONCE)
    return torch.cat([single_losses(table.outputs_of(i), table.targets[i], loss) for i in parts])


def single_losses(
    outputs: Float[Tensor, "batch k *rest"], targets: Tensor, loss: Loss
) -> Float[Tensor, "batch k"]:
    """The loss of each view on its own."""
    repeated = targets.repeat_interleave(outputs.shape[1], dim=0)
    return loss(outputs.flatten(0, 1), repeated).view(outputs.shape[:2])


def _random_subset(n: int, most: int, generator: Generator) -> Tensor:
    """Numbers of some of the images, in order: a file is read from front to back."""
    return torch.randperm(n, generator=generator)[:most].sort().values


def shuffle_forever(n: int, batch_size: int, generator: Generator) -> Iterator[Tensor]:
    """Batches of indices, each index once per round, without end."""
    while True:
        for index in torch.randperm(n, generator=generator).split(batch_size):
            yield index.sort().values


def _parameter_groups(aug: InstaAug, rate: float) -> list[dict[str, Any]]:
    """What depends on the input decays; a view's own bias does not, and moves faster.

    Where a plan orders views for all inputs, there is nothing left for biases to learn.
    """
    heads = set(map(id, _biases(aug)))
    rest = [p for p in aug.parameters() if id(p) not in heads]
    depends = {"params": rest, "lr": rate, "weight_decay": DECAY}
    if aug.plan is not None:
        return [depends]
    return [{"params": _biases(aug), "lr": BIAS_RATE * rate, "weight_decay": 0.0}, depends]


def _biases(aug: InstaAug) -> list[nn.Parameter]:
    return [p for p in aug.phi.heads.parameters() if p.ndim == 1]


@torch.no_grad()
def _reset_biases(aug: InstaAug) -> None:
    """Start without a preference for any view."""
    for bias in _biases(aug):
        bias.zero_()


@torch.no_grad()
def _meet_band(aug: InstaAug, find: "Distributions", rows: Int[Tensor, " rows"]) -> None:
    """Divide the scores of each factor so that its mean entropy lies in its band.

    λ follows the entropy with a lag, and the last steps are too small to catch up.
    """
    found = [find.at(index) for index in rows[:MOST_FOR_STATISTICS].split(ROWS_AT_ONCE)]
    bands = zip(aug.band.low.tolist(), aug.band.high.tolist(), strict=True)
    if len(aug.band.low) != len(aug.phi.names):  # one band for the sum of all factors
        return
    for name, head, band in zip(aug.phi.names, aug.phi.heads, bands, strict=True):
        logits = torch.cat([_categorical(joint, name).logits for joint in found])
        divisor = _divisor_within(logits, *band)
        for parameter in head.parameters():  # it is linear in all of them
            parameter.div_(divisor)


def _categorical(joint: Joint, name: str) -> CategoricalTheta:
    factor = joint.factors[name]
    assert isinstance(factor, CategoricalTheta)  # noqa: S101  # views that can be listed
    return factor


def _divisor_within(logits: Float[Tensor, "n k"], low: float, high: float) -> float:
    """What logits are to be divided by for their mean entropy to lie in a band."""

    def entropy(divisor: float) -> float:
        return float(torch.special.entr((logits / divisor).softmax(dim=1)).sum(dim=1).mean())

    wanted = min(max(entropy(1.0), low), high)
    if wanted == entropy(1.0):
        return 1.0
    least, most = COLDEST, HOTTEST
    for _ in range(N_HALVINGS):
        middle = (least * most) ** 0.5
        least, most = (middle, most) if entropy(middle) < wanted else (least, middle)
    return (least * most) ** 0.5


@torch.no_grad()
def _sharpen(aug: InstaAug) -> None:
    """Divide all scores by the last temperature: heads are linear in all of their parameters."""
    for parameter in aug.phi.heads.parameters():
        parameter.div_(SHARPEST)
    if aug.plan is not None:
        aug.plan.order.div_(SHARPEST)
