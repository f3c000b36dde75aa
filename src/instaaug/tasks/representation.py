"""How good features are: a linear probe and the nearest neighbors, fitted to training images."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F
from torch.optim import LBFGS

from instaaug.errors import ArgumentError, ShapeError
from instaaug.networks.linear_probe import LinearProbe, feature_statistics
from instaaug.scores import ClassificationTally
from instaaug.shapes import at_least_float32
from instaaug.tasks.evaluation import Predictor

__all__ = [
    "DECAYS",
    "Features",
    "FittedProbe",
    "Representation",
    "check_finite_features",
    "check_labeled_features",
    "collect_features",
    "fit_probe",
    "neighbor_scores",
]


DECAYS = tuple(10 ** (-half / 2) for half in range(13))
"""From 1 to 1e-6 in half decades."""

ROWS_AT_ONCE = 4096  # bounds the memory of logits
MOST_IN_DOUBLE = 2**25  # numbers; beyond, 256 MB, products are taken in single precision
MOST_STEPS = 1000
LOOSE = 1e-6  # a step that lowers the loss by less is the last
TIGHT = {torch.float64: 1e-10, torch.float32: 1e-9}  # below, single precision is noise
UNSEEN_BIAS = -30.0  # of a class without images; the largest logit of the others is never negative

Features = Float[Tensor, "*rows_and_features"]
"""Features as a caller hands them in, their shape not yet checked: our own message comes first."""

LOWEST_SHARE = 1e-12  # of a class without a vote: its logarithm can be counted
MOST_SIMILARITIES = 2**24  # at once, 64 MB in single precision

Queries = Float[Tensor, "*rows_and_columns"]
"""As many rows as may be, their shape not yet checked: our own message comes first."""


@dataclass(frozen=True)
class Representation:
    """Features of training images with their classes, and a linear probe that was fitted to them.

    Arguments:
        features: Of the training images.
        targets: Their classes.
        probe: From features to logits.
        decay: The penalty on its weights, which a part of the training images has chosen.
        validation: Its accuracy on that part, when fitted to the others.
    """

    features: Float[Tensor, "n d"]
    targets: Int[Tensor, " n"]
    probe: LinearProbe
    decay: float
    validation: float

    @classmethod
    def fit(
        cls,
        features: Float[Tensor, "n d"],
        targets: Int[Tensor, " n"],
        *,
        num_classes: int,
        seed: int = 0,
    ) -> "Representation":
        """Fit a linear probe; the seed decides which images choose the penalty."""
        kept = features.half().float()  # what a file keeps of them: all else follows from that
        fitted = fit_probe(kept, targets, num_classes=num_classes, seed=seed)
        validation = fitted.validation.get(fitted.decay, 0.0)
        return cls(kept, targets, fitted.probe, fitted.decay, validation)

    def scores(
        self, features: Float[Tensor, "m d"], targets: Int[Tensor, " m"]
    ) -> dict[str, float]:
        """Scores of the probe, ``knn``, the accuracy of nearest neighbors, and its choice."""
        tally, near = ClassificationTally(), ClassificationTally()
        tally.add(self.probe(features), targets)
        num_classes = self.probe.weight.shape[0]
        near.add(
            neighbor_scores(self.features, self.targets, features, num_classes=num_classes),
            targets,
        )
        chosen = {"probe_decay": self.decay, "probe_validation": self.validation}
        return {**tally.scores(), "knn": near.scores()["top1"], **chosen}

    def tensors(self) -> dict[str, Tensor]:
        """All of it, for a file; features in half precision."""
        probe = {f"probe.{name}": tensor for name, tensor in self.probe.state_dict().items()}
        chosen = torch.tensor([self.decay, self.validation], dtype=torch.float64)
        own = {"features": self.features.half(), "targets": self.targets, "chosen": chosen}
        return {**own, **probe}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Representation":
        """Read back.

        Raises:
            KeyError: If a tensor is absent.
            RuntimeError: If shapes do not fit.
        """
        weight = tensors["probe.weight"]
        num_classes, n_features = weight.shape
        probe = LinearProbe(n_features, num_classes)
        parts = {n.removeprefix("probe."): t for n, t in tensors.items() if n.startswith("probe.")}
        probe.load_state_dict(parts)
        features, targets = tensors["features"].float(), tensors["targets"]
        decay, validation = tensors["chosen"].tolist()
        return cls(features, targets, probe.eval(), decay, validation)


def collect_features(
    encode: Predictor, batches: Iterable[tuple[Tensor, Tensor]]
) -> tuple[Float[Tensor, "n d"], Int[Tensor, " n"]]:
    """Features of all images and their classes, on the CPU."""
    pairs = [(encode(x).float().cpu(), targets.cpu()) for x, targets in batches]
    return torch.cat([features for features, _ in pairs]), torch.cat([y for _, y in pairs])


@dataclass(frozen=True, eq=False)
class FittedProbe:
    """A linear probe, and how its weight decay was chosen.

    Arguments:
        probe: Fitted on all features, in single precision.
        decay: Of its weights.
        validation: Accuracy on held-out features by decay, from strong to weak; empty if no class
            had two inputs.
    """

    probe: LinearProbe
    decay: float
    validation: dict[float, float]


@torch.no_grad()
def fit_probe(
    features: Features,
    targets: Tensor,
    *,
    num_classes: int,
    seed: int = 0,
    validation_fraction: float = 0.2,
    decays: Sequence[float] = DECAYS,
) -> FittedProbe:
    r"""Multinomial logistic regression whose weight decay is chosen on held-out features.

    With standardized features :math:`z` it minimizes the convex function

    .. math:: \frac1N \sum_i -\log \mathrm{softmax}(W z_i + b)_{y_i} + \frac{\alpha}{2} \|W\|^2

    by L-BFGS on the full batch. A seeded, stratified part of the features is set aside; the others
    are fitted with every decay :math:`\alpha`, from strong to weak, each from the weights of the
    one before. The decay that is right most often on the part set aside, of equal ones the
    strongest, is used to fit everything again.

    Every class keeps at least one input for fitting. If none has a second, nothing can be set
    aside, and the strongest decay is used. A class without any input is never predicted; its
    probability is tiny but positive.

    Beyond 32 million numbers the products of the last fit are taken in single precision, as they
    always are while decays are compared; sums, weights and steps are in double precision.

    Arguments:
        features: One row per input, of any floating-point type.
        targets: The class of each input.
        num_classes: Number of logits; classes may be without inputs.
        seed: Decides which features are set aside.
        validation_fraction: Share of the features to set aside, in (0, 1).
        decays: The values of :math:`\alpha` to try, in any order.

    Shape:
        - ``features``: ``(N, D)``; ``targets``: ``(N,)``

    Raises:
        ShapeError: If features and targets are not one row and one class per input.
        ArgumentError: If features are not finite, fewer than two classes occur, or a setting is
            out of range.

    Example:
        >>> features = torch.tensor([-2.0, -1.0, 1.0, 2.0]).repeat(5)[:, None]
        >>> targets = (features[:, 0] > 0).long()
        >>> fitted = fit_probe(features, targets, num_classes=2, decays=[0.01, 1.0])
        >>> fitted.probe(torch.tensor([[-0.5], [0.5]])).argmax(dim=1)
        tensor([0, 1])
        >>> fitted.decay, fitted.validation  # both are always right: the stronger one
        (1.0, {1.0: 1.0, 0.01: 1.0})
    """
    _check_probe_settings(seed, validation_fraction, decays)
    check_labeled_features(features, targets, num_classes=num_classes)
    features, targets = features.detach(), targets.detach().to(features.device).long()
    seen, labels = targets.unique(return_inverse=True)
    if len(seen) < 2:
        raise ArgumentError(
            f"`targets` must hold two classes or more: got class {int(seen)} alone. "
            "Give features of other classes, too."
        )
    ordered = sorted({float(decay) for decay in decays}, reverse=True)
    held_out = _held_out_rows(labels, validation_fraction, seed)
    validation, start = _validate(features, labels, held_out, ordered)
    decay = max(ordered, key=lambda one: validation.get(one, 0.0))  # the first of equal ones
    dtype = torch.float64 if features.numel() <= MOST_IN_DOUBLE else torch.float32
    regression = _Regression(features, labels, dtype)
    solution = regression.solve(decay, start.get(decay), tolerance=TIGHT[dtype])
    probe = _as_probe(regression, solution, seen, num_classes)
    return FittedProbe(probe=probe, decay=decay, validation=validation)


def check_labeled_features(
    features: Features,
    targets: Tensor,
    *,
    num_classes: int,
    names: tuple[str, str] = ("features", "targets"),
) -> None:
    """Raise unless features are finite rows, each with a class below ``num_classes``."""
    name, of_targets = names
    if features.ndim != 2 or 0 in features.shape:
        raise ShapeError(
            f"`{name}` must be (N, D), one row per input and not empty: got "
            f"{tuple(features.shape)}. Maps need flatten(1) or an average over their places."
        )
    if targets.shape != features.shape[:1] or targets.is_floating_point():
        raise ShapeError(
            f"`{of_targets}` must be one class per row of `{name}`, {len(features)} whole "
            f"numbers: got {targets.dtype} of shape {tuple(targets.shape)}. Take both from the "
            "same inputs."
        )
    low, high = (int(end) for end in targets.long().aminmax())
    if low < 0 or high >= num_classes:
        raise ArgumentError(
            f"`{of_targets}` must lie in [0, {num_classes - 1}], for `num_classes` is "
            f"{num_classes}: got classes from {low} to {high}. Raise `num_classes`, or drop such "
            "inputs."
        )
    check_finite_features(features, name=name)


def check_finite_features(features: Tensor, *, name: str) -> None:
    """Raise if a feature is NaN or infinite, or too large for single precision."""
    bad = int((~torch.isfinite(features.float())).sum())
    if bad:
        raise ArgumentError(
            f"`{name}` must be finite: got {bad} NaN or infinite values of {features.numel()}. "
            "Look for the input, or the weights of the encoder, that cause it."
        )


def _check_probe_settings(seed: int, validation_fraction: float, decays: Sequence[float]) -> None:
    if seed < 0:
        raise ArgumentError(f"`seed` must not be negative: got {seed}. Choose 0, 1, 2, …")
    if not 0 < validation_fraction < 1:
        raise ArgumentError(
            f"`validation_fraction` must lie in (0, 1): got {validation_fraction}. "
            "A fifth, say, is 0.2."
        )
    if not decays or not all(0 < decay < float("inf") for decay in decays):
        raise ArgumentError(
            f"`decays` must be positive and finite, at least one: got {list(decays)}. "
            "Without decay, weights grow without bound where classes are separable."
        )


def _held_out_rows(
    labels: Int[Tensor, " n"], fraction: float, seed: int
) -> Int[Tensor, " held_out"]:
    """Rows to set aside: in random order within classes, evenly spaced over all of them.

    The first of each class stays, so that no class is left without.
    """
    random = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=random).to(labels.device)
    order = order[labels[order].argsort(stable=True)]
    is_second = labels[order].diff() == 0
    free = order[1:][is_second]
    count = ceil(fraction * len(free))
    return free[torch.arange(count, device=free.device) * len(free) // max(count, 1)]


def _validate(
    features: Tensor, labels: Tensor, held_out: Tensor, decays: Sequence[float]
) -> tuple[dict[float, float], dict[float, Tensor]]:
    """Accuracy on the rows set aside, and the weights fitted on the others, by decay."""
    if len(held_out) == 0:
        return {}, {}
    stays = torch.ones_like(labels, dtype=torch.bool)
    stays[held_out] = False
    regression = _Regression(features[stays], labels[stays], torch.float32)
    accuracy: dict[float, float] = {}
    solutions: dict[float, Tensor] = {}
    solution: Tensor | None = None
    for decay in decays:
        solution = regression.solve(decay, solution, tolerance=LOOSE)
        solutions[decay] = solution
        right = regression.predict(features[held_out], solution) == labels[held_out]
        accuracy[decay] = float(right.double().mean())
    return accuracy, solutions


class _Regression:
    r"""Logistic regression on standardized features, in coordinates that suit L-BFGS.

    At zero weights the curvature of the loss is :math:`\Sigma / C + \alpha` in every class, with
    the covariance :math:`\Sigma` of the features. Features of networks are so correlated that it
    differs between directions by orders of magnitude. Along the eigenvectors of :math:`\Sigma`,
    each in units of the root of its curvature, it is 1 everywhere, which takes a third of the
    steps. The penalty does not notice the rotation; the minimum stays what it is.
    """

    def __init__(self, features: Tensor, labels: Tensor, dtype: torch.dtype) -> None:
        self.labels, self.num_classes = labels, int(labels.max()) + 1
        self.mean, self.std = feature_statistics(features)
        n, d = features.shape
        covariance = features.new_zeros(d, d, dtype=torch.float64)
        for rows in features.split(ROWS_AT_ONCE):
            z = self._standardize(rows).to(dtype)
            covariance += z.T @ z / n
        variances, self.basis = torch.linalg.eigh(covariance)
        # The last column, all ones, makes the bias one more weight.
        self.variances = torch.cat([variances.clamp(min=0), variances.new_ones(1)])
        self.inputs = features.new_ones(n, d + 1, dtype=dtype)
        places = self.inputs[:, :d].split(ROWS_AT_ONCE)
        for place, rows in zip(places, features.split(ROWS_AT_ONCE), strict=True):
            place.copy_(self._standardize(rows) @ self.basis)

    def solve(
        self, decay: float, start: Tensor | None, *, tolerance: float
    ) -> Float[Tensor, "classes features_and_bias"]:
        """Weights and, in the last column, biases at the minimum."""
        penalty = torch.full_like(self.variances, decay)
        penalty[-1] = 0
        unit = (self.variances / self.num_classes + penalty).rsqrt()
        if start is None:
            start = unit.new_zeros(self.num_classes, len(unit))
        scaled = self._rotate(start, self.basis) / unit

        def loss() -> float:
            weights = scaled * unit
            value, gradient = self._loss_and_gradient(weights)
            scaled.grad = (gradient + penalty * weights) * unit
            return value + float((penalty * weights.square()).sum()) / 2

        optimizer = LBFGS(
            [scaled],
            max_iter=MOST_STEPS,
            tolerance_grad=tolerance,
            tolerance_change=tolerance,
            line_search_fn="strong_wolfe",
        )
        optimizer.step(loss)
        return self._rotate(scaled * unit, self.basis.T)

    def predict(self, features: Tensor, solution: Tensor) -> Int[Tensor, " n"]:
        """The most probable class of each row."""
        weights, bias = solution[:, :-1], solution[:, -1]
        chunks = features.split(ROWS_AT_ONCE)
        logits = (torch.addmm(bias, self._standardize(rows), weights.T) for rows in chunks)
        return torch.cat([some.argmax(dim=1) for some in logits])

    def _loss_and_gradient(self, weights: Tensor) -> tuple[float, Tensor]:
        """Mean cross-entropy, and its gradient, without the penalty."""
        total, gradient = 0.0, torch.zeros_like(weights)
        factors = weights.T.to(self.inputs.dtype)
        chunks = self.inputs.split(ROWS_AT_ONCE), self.labels.split(ROWS_AT_ONCE)
        for rows, labels in zip(*chunks, strict=True):
            log_probs = (rows @ factors).log_softmax(dim=1)
            own = labels[:, None]
            total -= float(log_probs.gather(1, own).double().sum())
            residual = log_probs.exp_()
            residual.scatter_add_(1, own, residual.new_full(own.shape, -1.0))
            gradient += residual.T @ rows
        return total / len(self.labels), gradient / len(self.labels)

    def _standardize(self, rows: Tensor) -> Tensor:
        return (rows.double() - self.mean) / self.std

    @staticmethod
    def _rotate(solution: Tensor, basis: Tensor) -> Tensor:
        """The weights times a basis; the biases as they are."""
        return torch.cat([solution[:, :-1] @ basis, solution[:, -1:]], dim=1)


def _as_probe(
    regression: _Regression, solution: Tensor, seen: Tensor, num_classes: int
) -> LinearProbe:
    probe = LinearProbe(solution.shape[1] - 1, num_classes).to(solution.device)
    probe.mean.copy_(regression.mean)
    probe.std.copy_(regression.std)
    probe.bias.fill_(UNSEEN_BIAS)
    probe.weight[seen] = solution[:, :-1].float()
    probe.bias[seen] = solution[:, -1].float()
    return probe


@torch.no_grad()
def neighbor_scores(
    bank: Features,
    bank_targets: Tensor,
    queries: Queries,
    *,
    num_classes: int,
    k: int = 20,
    temperature: float = 0.07,
    most_similarities: int = MOST_SIMILARITIES,
) -> Float[Tensor, "m classes"]:
    r"""Logarithms of the shares of votes that the ``k`` most similar inputs give to each class.

    The similarity s of two inputs is the cosine of the angle between their features; a neighbor's
    vote weighs :math:`\exp(s / T)`. The shares of a query add up to 1, so that its row can be
    counted like logits; a share below 1e-12 is counted as that.

    Arguments:
        bank: Features of inputs whose classes are known.
        bank_targets: The class of each.
        queries: Features of the inputs to classify.
        num_classes: Number of columns to return.
        k: Neighbors with a vote; all, if the bank has no more.
        temperature: The lower, the more the nearest decide.
        most_similarities: How many to hold in memory at once; the result does not depend on it.

    Shape:
        - ``bank``: ``(N, D)``; ``bank_targets``: ``(N,)``; ``queries``: ``(M, D)``

    Raises:
        ShapeError: If features or targets are not one row and one class per input.
        ArgumentError: If features are not finite, or a setting is out of range.

    References:
        | Unsupervised Feature Learning via Non-Parametric Instance Discrimination
        | (Wu et al., 2018)
        | https://arxiv.org/abs/1805.01978

    Example:
        >>> bank = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
        >>> query = torch.tensor([[3.0, 3.0]])  # as near to each
        >>> scores = neighbor_scores(bank, torch.tensor([0, 1, 1]), query, num_classes=2)
        >>> scores.exp()
        tensor([[0.3333, 0.6667]])
    """
    _check_neighbor_settings(k, temperature, most_similarities)
    check_labeled_features(
        bank, bank_targets, num_classes=num_classes, names=("bank", "bank_targets")
    )
    if queries.ndim != 2 or queries.shape[1] != bank.shape[1]:
        raise ShapeError(
            f"`queries` must be (M, {bank.shape[1]}), for `bank` has {bank.shape[1]} features: "
            f"got {tuple(queries.shape)}. Take both from the same encoder."
        )
    check_finite_features(queries, name="queries")
    directions = F.normalize(at_least_float32(bank), dim=1)
    targets = bank_targets.to(bank.device).long()
    at_once = max(1, most_similarities // len(bank))
    scores = directions.new_empty(len(queries), num_classes)
    for place, rows in zip(scores.split(at_once), queries.split(at_once), strict=True):
        similarities = F.normalize(rows.to(directions), dim=1) @ directions.T
        nearest, index = similarities.topk(min(k, len(bank)), dim=1)
        votes = ((nearest - nearest[:, :1]) / temperature).exp()
        place.zero_().scatter_add_(1, targets[index], votes / votes.sum(dim=1, keepdim=True))
    return scores.clamp_(min=LOWEST_SHARE).log_()


def _check_neighbor_settings(k: int, temperature: float, most_similarities: int) -> None:
    for name, value in (("k", k), ("most_similarities", most_similarities)):
        if value < 1:
            raise ArgumentError(f"`{name}` must be 1 or more: got {value}. Raise it.")
    if not (temperature > 0 and isfinite(temperature)):
        raise ArgumentError(
            f"`temperature` must be positive and finite: got {temperature}. The usual one is 0.07."
        )
