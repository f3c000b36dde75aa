"""Temperature scaling: one number that calibrates the probabilities of a classifier."""

from jaxtyping import Float
from torch import Tensor

from instaaug.errors import ArgumentError, ShapeError
from instaaug.scores import ClassificationTally
from instaaug.shapes import check_finite

__all__ = ["HIGHEST", "LOWEST", "calibration_table", "fit_temperature"]

LOWEST, HIGHEST = 0.05, 20.0
ROWS_AT_ONCE = 4096  # bounds the memory of the copy in double precision
MOST_STEPS = 100
PRECISION = 1e-10  # relative, of the temperature
TINY = 1e-300

Logits = Float[Tensor, "*rows_and_classes"]
"""Logits as a caller hands them in, their shape not yet checked: our own message comes first."""


def fit_temperature(logits: Logits, targets: Tensor) -> float:
    r"""The temperature T at which ``logits / T`` explain the targets best.

    .. math:: \min_T\; -\frac1N \sum_i \log \mathrm{softmax}(z_i / T)_{y_i}

    The loss is convex in :math:`1/T`, so that its derivative, the mean logit under the model minus
    the mean logit of the targets, has one zero at most. Newton steps find it in double precision;
    where one leaves the bracket, the bracket is halved instead. T stays in [0.05, 20]: if all
    predictions are right, or no better than chance, the best T would be 0 or infinite, and the
    nearer end is returned. T is 1 where the loss is flat: all classes have the same logit, or all
    predictions are right with probability 1 to the last bit.

    Fit it on other data than it is judged on.

    Arguments:
        logits: One row per input, one column per class.
        targets: The class of each input.

    Shape:
        - ``logits``: ``(N, C)``; ``targets``: ``(N,)``

    References:
        | On Calibration of Modern Neural Networks (Guo et al., 2017)
        | https://arxiv.org/abs/1706.04599

    Example:
        >>> sure = torch.tensor([[4.0, 0.0]]).repeat(4, 1)  # says 98 %, is right in 75 %
        >>> temperature = fit_temperature(sure, torch.tensor([0, 0, 0, 1]))
        >>> (sure[0] / temperature).softmax(dim=0)
        tensor([0.7500, 0.2500])
    """
    _check(logits, targets)
    logits, targets = logits.detach(), targets.to(logits.device).long()
    low, high, inverse = 1 / HIGHEST, 1 / LOWEST, 1.0
    slope, curvature = _derivatives(logits, targets, inverse)
    if slope == 0:
        return 1.0
    end, temperature = (high, LOWEST) if slope < 0 else (low, HIGHEST)
    if slope * _derivatives(logits, targets, end)[0] >= 0:
        return temperature
    for _ in range(MOST_STEPS):
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        step = inverse - slope / max(curvature, TINY)
        following = step if low < step < high else (low * high) ** 0.5
        if slope == 0 or abs(following - inverse) <= PRECISION * inverse:
            break
        inverse = following
        slope, curvature = _derivatives(logits, targets, inverse)
    return 1 / inverse


def calibration_table(
    logits: Logits, targets: Tensor, temperature: float
) -> dict[str, dict[str, float]]:
    """NLL and ECE of the logits ``"before"`` and ``"after"`` they are divided by a temperature.

    Example:
        >>> logits, targets = torch.tensor([[4.0, 0.0]]).repeat(4, 1), torch.tensor([0, 0, 0, 1])
        >>> table = calibration_table(logits, targets, fit_temperature(logits, targets))
        >>> {when: round(scores["ece"], 2) for when, scores in table.items()}
        {'before': 0.23, 'after': 0.0}
    """
    _check(logits, targets)
    if not 0 < temperature < float("inf"):
        raise ArgumentError(f"`temperature` must be positive and finite: got {temperature}.")
    table = {}
    for when, divisor in (("before", 1.0), ("after", temperature)):
        tally = ClassificationTally()
        tally.add(logits / divisor, targets)
        scores = tally.scores()
        table[when] = {name: scores[name] for name in ("nll", "ece")}
    return table


def _derivatives(logits: Tensor, targets: Tensor, inverse: float) -> tuple[float, float]:
    """First and second derivative of the mean loss with respect to 1/T."""
    slope = curvature = 0.0
    for rows, labels in zip(logits.split(ROWS_AT_ONCE), targets.split(ROWS_AT_ONCE), strict=True):
        z = rows.double()
        z = z - z.gather(1, labels[:, None])  # of the target: zero
        p = (inverse * z).softmax(dim=1)
        mean = (p * z).sum(dim=1)
        slope += float(mean.sum())
        curvature += float((p * z.square()).sum(dim=1).sub(mean.square()).sum())
    return slope / len(logits), curvature / len(logits)


def _check(logits: Tensor, targets: Tensor) -> None:
    if logits.ndim != 2 or logits.shape[0] < 1 or logits.shape[1] < 2:
        raise ShapeError(
            "`logits` must be (N, C) with at least one row and two classes: got "
            f"{tuple(logits.shape)}."
        )
    if targets.shape != logits.shape[:1] or targets.is_floating_point():
        raise ShapeError(
            f"`targets` must be one class per row, {len(logits)} whole numbers: got "
            f"{targets.dtype} of shape {tuple(targets.shape)}."
        )
    low, high = (int(end) for end in targets.aminmax())
    if low < 0 or high >= logits.shape[1]:
        raise ArgumentError(
            f"`targets` must lie in [0, {logits.shape[1] - 1}], for there are {logits.shape[1]} "
            f"columns: got classes from {low} to {high}. Drop such inputs."
        )
    check_finite(logits, name="logits", advice="Look for the input that causes it.")
