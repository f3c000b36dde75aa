"""Linear heads on features of boxes, trained on the exact expectation over boxes."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from instaaug.networks.linear_probe import feature_statistics

__all__ = ["Head", "PrincipalAxes", "fit_head"]

MOST_ROWS = 10_000  # that principal axes are found from
ROWS_AT_ONCE = 4096
LEAST_WEIGHT = 1e-6  # of a box; below it has no say
BATCH_SIZE = 512  # boxes per step of Adam
RATE = 5e-3  # of Adam; it falls to zero along a line
HISTORY = 10
TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """Standardized features on their principal axes, of which the first few are kept.

    On these axes features are uncorrelated, which makes a head converge in a few steps, and 256 of
    1280 cost a fifth.

    Arguments:
        mean: Of the features.
        axes: Divided by the deviation of the features, so that ``(x - mean) @ axes`` are the
            coordinates.
    """

    mean: Float[Tensor, " e"]
    axes: Float[Tensor, "e d"]

    @classmethod
    def of(cls, features: Float[Tensor, "n e"], n_axes: int) -> "PrincipalAxes":
        """The axes of a sample of features, in the order of their variance."""
        step = -(-len(features) // MOST_ROWS)
        some = features[::step].float()
        mean, std = feature_statistics(some)
        z = ((some - mean) / std).float()
        _, vectors = torch.linalg.eigh(z.T @ z / len(z))
        axes = vectors.flip(1)[:, : min(n_axes, len(some))]
        return cls(mean.float(), (axes.double() / std[:, None]).float())

    def coordinates(self, features: Float[Tensor, "*rows e"]) -> Float[Tensor, "*rows d"]:
        """The coordinates of features."""
        flat = features.reshape(-1, features.shape[-1])
        parts = [(rows.float() - self.mean) @ self.axes for rows in flat.split(ROWS_AT_ONCE)]
        return torch.cat(parts).view(*features.shape[:-1], -1)


@dataclass(frozen=True, eq=False)
class Head:
    """A linear layer on coordinates.

    Arguments:
        weight: A column per class.
        bias: One per class.
    """

    weight: Float[Tensor, "d classes"]
    bias: Float[Tensor, " classes"]

    def logits(self, z: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows classes"]:
        """Logits of coordinates."""
        return z @ self.weight + self.bias

    def on_features(self, axes: PrincipalAxes) -> tuple[Tensor, Tensor]:
        """Weight ``(C, E)`` and bias of the same layer on features as they are."""
        weight = (axes.axes @ self.weight).T
        return weight, self.bias - weight @ axes.mean

    @torch.no_grad()
    def copy_to(self, layer: nn.Linear, axes: PrincipalAxes) -> None:
        """Make a linear layer on features give the same logits."""
        weight, bias = self.on_features(axes)
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)


def fit_head(
    z: Float[Tensor, "n k d"],
    probs: Float[Tensor, "n k"],
    targets: Int[Tensor, " n"],
    *,
    num_classes: int,
    decay: float,
    start: Head | None = None,
    epochs: int = 0,
    max_steps: int = 20,
) -> Head:
    r"""The head with the smallest expected loss over boxes.

    .. math:: \min_{W, b} \frac1N \sum_i \sum_k p(k \mid x_i)\, \ell(W z_{ik} + b,\, y_i)
              + \frac{\alpha}{2} \|W\|^2

    No box is left out by chance: every one counts by its probability. Axes are scaled by the
    curvature that the softmax has at the start, :math:`\sigma^2 / C + \alpha`. Six epochs of Adam
    bring a head as far as twenty steps of L-BFGS, which cost three times as much where there are
    many boxes; L-BFGS comes closer in the end.

    Arguments:
        z: Coordinates of K boxes of N images.
        probs: How much each box counts.
        targets: Classes.
        num_classes: How many there are, also those without an image.
        decay: :math:`\alpha`.
        start: A head of a similar problem.
        epochs: Of Adam.
        max_steps: Of L-BFGS, which goes on from there.

    Example:
        >>> z = torch.tensor([[[-1.0], [9.0]], [[1.0], [-9.0]]])  # the second box misleads
        >>> probs = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> head = fit_head(z, probs, torch.tensor([0, 1]), num_classes=2, decay=0.01)
        >>> head.logits(z[:, 0]).argmax(dim=1)
        tensor([0, 1])
    """
    kept = (probs > LEAST_WEIGHT).flatten().nonzero()[:, 0]
    x = z.flatten(0, 1)[kept]
    weights = probs.flatten()[kept] / len(z)
    labels = targets.repeat_interleave(z.shape[1])[kept]
    mean = weights @ x
    variance = (weights @ x.square() - mean.square()).clamp(min=0)
    scale = (variance / num_classes + decay).rsqrt()
    x = (x - mean) * scale
    w, b = x.new_zeros(x.shape[1], num_classes), x.new_zeros(num_classes)
    if start is not None:
        w, b = start.weight / scale[:, None], start.bias + mean @ start.weight
    problem = _Problem(x, weights, labels, (decay * scale.square())[:, None])
    w, b = w.requires_grad_(), b.requires_grad_()
    _run_adam(problem, w, b, epochs)
    _run_lbfgs(problem, w, b, max_steps)
    weight = (w * scale[:, None]).detach()
    return Head(weight, (b - mean @ weight).detach())


@dataclass(frozen=True, eq=False)
class _Problem:
    """A weighted multinomial regression with a penalty.

    Arguments:
        x: Coordinates, scaled.
        weights: Of the rows; they sum to one.
        labels: Of the rows.
        penalty: On the squares of the weights of each axis.
    """

    x: Float[Tensor, "rows d"]
    weights: Float[Tensor, " rows"]
    labels: Int[Tensor, " rows"]
    penalty: Float[Tensor, "d 1"]

    def part(self, rows: Int[Tensor, " part"]) -> "_Problem":
        """The same with some of the rows, whose weights stand for all."""
        factor = len(self.x) / len(rows)
        return _Problem(self.x[rows], self.weights[rows] * factor, self.labels[rows], self.penalty)

    @torch.no_grad()
    def evaluate(self, w: Tensor, b: Tensor) -> Float[Tensor, ""]:
        """The loss; its gradient by hand costs half of what autograd takes.

        Some thousands of rows at a time stay in the processor's cache.
        """
        w.grad, b.grad = self.penalty * w, torch.zeros_like(b)
        loss = (w.grad * w).sum() / 2
        for x, weights, labels in zip(
            self.x.split(ROWS_AT_ONCE), self.weights.split(ROWS_AT_ONCE),
            self.labels.split(ROWS_AT_ONCE), strict=True,
        ):  # fmt: skip
            rows = torch.arange(len(labels))
            log_probs = torch.addmm(b, x, w).log_softmax(dim=1)
            loss -= weights @ log_probs[rows, labels]
            residual = log_probs.exp_()
            residual[rows, labels] -= 1
            residual *= weights[:, None]
            w.grad.addmm_(x.T, residual)
            b.grad += residual.sum(dim=0)
        return loss


def _run_adam(problem: _Problem, w: Tensor, b: Tensor, epochs: int) -> None:
    """Minimize by small batches; the same ones for all problems with as many rows."""
    if not epochs:
        return
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam([w, b], lr=RATE, betas=(0.9, 0.99))
    n_batches = -(-len(problem.x) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.LinearLR(
        optimizer, start_factor=1.0, end_factor=0.0, total_iters=epochs * n_batches
    )
    for _ in range(epochs):
        order = torch.randperm(len(problem.x), generator=generator)
        for rows in order.tensor_split(n_batches):
            problem.part(rows).evaluate(w, b)
            optimizer.step()
            schedule.step()


def _run_lbfgs(problem: _Problem, w: Tensor, b: Tensor, max_steps: int) -> None:
    if not max_steps:
        return
    optimizer = torch.optim.LBFGS(
        [w, b], max_iter=max_steps, history_size=HISTORY, line_search_fn="strong_wolfe",
        tolerance_grad=TOLERANCE, tolerance_change=TOLERANCE**2,
    )  # fmt: skip
    optimizer.step(lambda: problem.evaluate(w, b))
