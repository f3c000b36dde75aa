"""What augmentation did to a trained model: labels it costs, gaps it fills, what φ exploits."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from instaaug.augmentation import InstaAug
from instaaug.distributions import FiniteTheta, Joint
from instaaug.errors import ArgumentError
from instaaug.networks.encoders import PenultimateFeatures
from instaaug.networks.model_interface import as_input_of
from instaaug.parameterizations import ClosedFormFamily
from instaaug.shapes import repeat_batch
from instaaug.tasks.supervised import SupervisedTask

__all__ = [
    "compare_choices",
    "compare_variances",
    "describe_diagnostics",
    "measure_augmentation",
    "measure_coverage",
    "nearest_distances",
]

N_VIEWS = 4  # of each image
NEVER = -1e4  # a logit that is not drawn

Batch = tuple[Tensor, Tensor]
Features = Float[Tensor, "n d"]
Classes = Int[Tensor, " n"]


def measure_augmentation(
    task: SupervisedTask, unseen: Sequence[Batch], training: Sequence[Batch], *, seed: int = 0
) -> dict[str, Any]:
    """All diagnostics of a trained task, ready for JSON.

    Arguments:
        task: With the trained model and its augmenter.
        unseen: Batches of images, as the data set gives them, that nothing was learned from.
        training: Batches of those that the model has learned from.
        seed: Decides the draws.
    """
    aug = task.eval().augmenter
    found: dict[str, Any] = {"coverage": measure_coverage(task, unseen, training, seed=seed)}
    if isinstance(aug, InstaAug) and aug.settings.conditioning == "input":
        found["variance"] = compare_variances(task, unseen, seed=seed)
        if aug.finite:
            parts = {"training": training, "unseen": unseen}
            found["choices"] = {
                name: compare_choices(task, part, seed=seed) for name, part in parts.items()
            }
    return found


@torch.no_grad()
def measure_coverage(
    task: SupervisedTask,
    unseen: Sequence[Batch],
    training: Sequence[Batch],
    *,
    n_views: int = N_VIEWS,
    seed: int = 0,
) -> dict[str, Any]:
    r"""Estimates of terms A and B of the paper's appendix A, as training draws transforms.

    With the model f, its penultimate features h and its loss ℓ, draws τ of the augmenter, unseen
    images x with labels y, and training images x′:

    .. math::
        \text{label\_loss} &= \mathbb{E}\,\ell(f(\tau(x)), y) - \mathbb{E}\,\ell(f(x), y) \\
        \text{distance} &= \mathbb{E}_x \min_{x', j} \lVert h(x) - h(\tau_j(x')) \rVert,
        \qquad j = 1, \dots, n \\
        \text{distance\_plain} &= \mathbb{E}_x \min_{x'} \lVert h(x) - h(x') \rVert

    where x′ has the class of x. ``label_loss`` stands for term A: what τ takes from the label,
    as far as this model can tell (the label that τ(x) should have is not known). ``flips`` is the
    share of wrong predictions among views of unseen images that are right as they are.
    ``coverage`` = distance / distance_plain stands for term B: below 1 the augmented training
    images come nearer to unseen ones than the training images themselves, above 1 they have moved
    away. ``gap`` is the augmented training loss less the loss of unseen images, which the paper
    writes as A + B + C.

    Arguments:
        task: With the trained model and its augmenter.
        unseen: Batches of unseen images.
        training: Batches of training images.
        n_views: Draws of each image.
        seed: Decides them.

    Returns:
        The numbers by name; distances are None for a model without a final linear layer, and
        where no class has both unseen and training images.
    """
    generator = Generator(task.mean.device).manual_seed(seed)
    plain, augmented = _see(task, unseen, n_views, generator)
    known, views = _see(task, training, n_views, generator)
    was_right = plain.right().expand(n_views, -1)
    flips = (~augmented.right())[was_right]
    distance, distance_plain = plain.distance_to(views), plain.distance_to(known)
    return {
        "n_unseen": plain.n_images,
        "n_training": known.n_images,
        "label_loss": augmented.loss() - plain.loss(),
        "flips": float(flips.double().mean()) if len(flips) else None,
        "gap": views.loss() - plain.loss(),
        "distance": distance,
        "distance_plain": distance_plain,
        "coverage": None if distance is None or not distance_plain else distance / distance_plain,
    }


def _see(
    task: SupervisedTask, batches: Sequence[Batch], n_views: int, generator: Generator
) -> tuple["_Seen", "_Seen"]:
    """What the model makes of images as they are, and of draws of each."""
    plain, augmented = _Seen(task), _Seen(task)
    for x, targets in _on_device(task, batches):
        plain.add(task.augmenter.canonical(x), targets)
        drawn = task.augmenter(x, n_views, generator=generator, targets=targets)
        augmented.add(drawn.inputs, repeat_batch(targets, n_views), n=n_views)
    return plain, augmented


class _Seen:
    """Losses, predictions and features of images that a model has seen, batch by batch."""

    def __init__(self, task: SupervisedTask) -> None:
        self.task, self.model = task, task.predictor
        try:
            self.features_of: PenultimateFeatures | None = PenultimateFeatures(self.model)
        except ArgumentError:
            self.features_of = None
        self.losses: list[Tensor] = []
        self.correct: list[Tensor] = []
        self.features: list[Tensor] = []
        self.targets: list[Tensor] = []

    def add(self, inputs: Tensor, targets: Tensor, *, n: int = 1) -> None:
        """Count inputs, n versions of each image, one version of all after the other."""
        outputs = self._outputs(inputs)
        self.losses.append(self.task.losses(outputs, targets).float().cpu())
        self.correct.append((outputs.argmax(dim=1) == targets).cpu().unflatten(0, (n, -1)))
        self.targets.append(targets.cpu())

    def _outputs(self, inputs: Tensor) -> Tensor:
        if self.features_of is not None:
            try:
                features = self.features_of(inputs)
                self.features.append(features.float().cpu())
                return self.features_of.head(features)
            except ArgumentError:  # its logits come from somewhere else
                self.features_of = None
        return self.model(as_input_of(self.model, inputs))

    @property
    def n_images(self) -> int:
        return sum(len(part) for part in self.targets)

    def loss(self) -> float:
        return float(torch.cat(self.losses).double().mean())

    def right(self) -> Tensor:
        return torch.cat(self.correct, dim=1)

    def distance_to(self, bank: "_Seen") -> float | None:
        """The mean over images that have another of their class in the bank."""
        if self.features_of is None or bank.features_of is None:
            return None
        distances = nearest_distances(
            torch.cat(self.features), torch.cat(self.targets),
            torch.cat(bank.features), torch.cat(bank.targets),
        )  # fmt: skip
        distances = distances[distances.isfinite()]
        return float(distances.double().mean()) if len(distances) else None


def nearest_distances(
    queries: Features,
    classes: Classes,
    bank: Float[Tensor, "m d"],
    bank_classes: Int[Tensor, " m"],
) -> Float[Tensor, " n"]:
    """The distance of each query to the nearest row of its class in the bank; infinite if none.

    Example:
        >>> bank, labels = torch.tensor([[0.0], [4.0], [9.0]]), torch.tensor([0, 0, 1])
        >>> nearest_distances(torch.tensor([[3.0], [8.0]]), torch.tensor([0, 0]), bank, labels)
        tensor([1., 4.])
    """
    found = queries.new_full((len(queries),), torch.inf)
    for label in classes.unique():
        rows, others = classes == label, bank[bank_classes == label]
        if len(others):
            found[rows] = torch.cdist(queries[rows], others).amin(dim=1)
    return found


@torch.no_grad()
def compare_variances(
    task: SupervisedTask, batches: Sequence[Batch], *, n_views: int = N_VIEWS, seed: int = 0
) -> dict[str, float]:
    """Whether φ makes images look alike: the variance of τ(x) over images, and if φ is misled.

    ``own`` is the variance over images of a pixel of τ(x), averaged over pixels, with transforms
    that were drawn for the image itself; ``shuffled`` with those of another image. A ratio below 1
    says that φ takes differences between images away, such as brightening the dark ones.

    Arguments:
        task: With an InstaAug.
        batches: Images as the data set gives them.
        n_views: Draws of each image.
        seed: Decides them, and whose transforms an image gets.
    """
    generator = Generator(task.mean.device).manual_seed(seed)
    aug, pairs = task.augmenter, list(_on_device(task, batches))
    theta = torch.cat(
        [aug(x, n_views, generator=generator, targets=y).theta for x, y in pairs], dim=1
    )
    orders = torch.rand(theta.shape[:2], generator=generator, device=theta.device).argsort(dim=1)
    shuffled = theta.gather(1, orders[..., None].expand_as(theta))
    own, other = (_variance(aug, [x for x, _ in pairs], drawn) for drawn in (theta, shuffled))
    return {"own": own, "shuffled": other, "ratio": own / other if other else 1.0}


def _variance(aug: Any, images: Sequence[Tensor], theta: Float[Tensor, "n images d"]) -> float:
    """Over images, of every pixel of every draw; the mean over both."""
    total, squares, start = 0.0, 0.0, 0
    for x in images:
        drawn = theta[:, start : start + len(x)]
        views = aug.render(repeat_batch(x, len(theta)), drawn.flatten(0, 1)).double()
        views = views.unflatten(0, (len(theta), len(x)))
        total = total + views.sum(dim=1)
        squares = squares + views.square().sum(dim=1)
        start += len(x)
    mean = total / start
    return float((squares / start - torch.as_tensor(mean).square()).mean())


@torch.no_grad()
def compare_choices(
    task: SupervisedTask, batches: Sequence[Batch], *, n_views: int = 2, seed: int = 0
) -> dict[str, float]:
    """Losses of choices that φ makes often and of those that it makes rarely.

    ``frequent`` is the mean loss of draws from p(θ | x); for ``rare``, finite factors are drawn
    evenly from the less likely half of their choices. If φ prefers what the model has memorized,
    the difference is larger on training images than on unseen ones.

    Arguments:
        task: With an InstaAug that chooses from tables, of boxes or flips.
        batches: Images as the data set gives them.
        n_views: Draws of each kind and image.
        seed: Decides them.
    """
    aug = task.augmenter
    assert isinstance(aug, InstaAug)  # noqa: S101  # the caller asks no other
    generator = Generator(task.mean.device).manual_seed(seed)
    sums, count = {"frequent": 0.0, "rare": 0.0}, 0
    for x, targets in _on_device(task, batches):
        joint = aug.distribution(x)
        for kind, drawn in {"frequent": joint, "rare": _less_likely_half(aug, joint)}.items():
            theta = drawn.theta(drawn.draw(n_views, generator=generator))
            inputs = aug.render(repeat_batch(x, n_views), theta.flatten(0, 1))
            outputs = task.predictor(as_input_of(task.predictor, inputs))
            sums[kind] += float(task.losses(outputs, repeat_batch(targets, n_views)).sum())
        count += n_views * len(x)
    return {kind: total / count for kind, total in sums.items()}


def _less_likely_half(aug: InstaAug, joint: Joint) -> Joint:
    """The same factors, but each finite one evenly over the less likely half of its choices."""
    families = dict(zip(aug.phi.names, aug.phi.families, strict=True))

    def turn(name: str, factor: Any) -> Any:
        if not isinstance(factor, FiniteTheta):
            return factor
        rank = factor.logits.argsort(dim=-1).argsort(dim=-1)
        rare = rank < factor.logits.shape[-1] // 2
        family = families[name]
        if isinstance(family, ClosedFormFamily):
            family = family.family
        return family(torch.where(rare, 0.0, NEVER))

    return Joint({name: turn(name, factor) for name, factor in joint.factors.items()})


def _on_device(task: SupervisedTask, batches: Sequence[Batch]) -> Iterator[Batch]:
    """Images as the augmenter takes them, with their targets."""
    for x, targets in batches:
        device = task.mean.device
        yield task.normalize(x.to(device)), targets.to(device)


def describe_diagnostics(found: dict[str, Any]) -> list[str]:
    """What :func:`measure_augmentation` found, a sentence each.

    Example:
        >>> describe_diagnostics({"variance": {"own": 0.4, "shuffled": 0.5, "ratio": 0.8}})
        ['Under transforms of their own, images vary 0.80 times as much as under those of others.']
    """
    sentences = []
    coverage, variance, choices = (found.get(k) for k in ("coverage", "variance", "choices"))
    if coverage and coverage["flips"] is not None:
        sentences.append(
            "Augmenting unseen images changes their loss by "
            f"{coverage['label_loss']:+.2f} nats; of those that were right, "
            f"{coverage['flips']:.1%} turn wrong."
        )
    if coverage and coverage["coverage"] is not None:
        sentences.append(
            "In the model's features an unseen image is "
            f"{coverage['coverage']:.2f} times as far from the nearest view of a training image "
            "of its class as from the nearest training image."
        )
    if variance and isfinite(variance["ratio"]):
        sentences.append(
            f"Under transforms of their own, images vary {variance['ratio']:.2f} times as much as "
            "under those of others."
        )
    if choices:
        more = {k: part["rare"] - part["frequent"] for k, part in choices.items()}
        sentences.append(
            f"Choices that φ makes rarely have {more['training']:+.2f} nats more loss than its "
            f"usual ones on training images, {more['unseen']:+.2f} on unseen ones."
        )
    return sentences
