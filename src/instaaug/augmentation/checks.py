"""What a caller can get wrong, said at the door."""

from torch import Tensor

from instaaug.augmentation.batch import AugmentedBatch
from instaaug.augmentation.settings import Estimator
from instaaug.errors import ArgumentError, PathwiseGradientError, ShapeError
from instaaug.shapes import Images, check_finite, check_images

__all__ = ["check_call", "check_estimator", "check_inputs", "checked_losses"]


def check_inputs(x: Images, *, channels: int) -> None:
    """Raise unless ``x`` is a finite, non-empty batch of images with these channels."""
    check_images(x, channels=channels)
    check_finite(x, name="x", advice="Look for divisions by zero in the input pipeline.")


def check_call(n_inputs: int, *, n_samples: int, targets: Tensor | None, exact: bool) -> None:
    """Raise unless the number of samples and of targets make sense."""
    if n_samples < 1:
        raise ArgumentError(f"`n_samples` must be at least 1: got {n_samples}.")
    if targets is not None and len(targets) != n_inputs:
        raise ShapeError(
            f"`targets` must have one entry per input: got {len(targets)} for {n_inputs} inputs."
        )
    if exact and n_samples != 1:
        raise ArgumentError(
            '`n_samples` must be left at 1 with estimator="exact", which tries every choice: '
            f"got {n_samples}."
        )


def check_estimator(estimator: Estimator, *, n_finite: int, n_factors: int) -> None:
    """Raise unless the estimator can train this mixture of finite factors and intervals."""
    if estimator == "pathwise" and n_finite:
        raise PathwiseGradientError(
            "CategoricalTheta has no pathwise gradient (`has_rsample` is False). "
            'Use estimator="auto" or "score".'
        )
    if estimator == "score" and n_finite < n_factors:
        raise ArgumentError(
            '`estimator="score"` would be biased for intervals, whose support moves with φ: got a '
            'transform with one. Use estimator="auto".'
        )
    if estimator == "exact" and (n_finite, n_factors) != (1, 1):
        raise ArgumentError(
            '`estimator="exact"` needs one finite factor and nothing else: got '
            f"{n_factors} factors, {n_finite} of them finite. Use a single Crop, or estimator="
            '"auto".'
        )


def checked_losses(losses: Tensor, batch: AugmentedBatch) -> Tensor:
    """The losses as ``(n, B)``; raise unless there is a finite one per augmented input."""
    expected = batch.n_samples * batch.batch_size
    if losses.ndim == 0:
        raise ShapeError(
            f"`losses` must hold one loss per augmented input, shape ({expected},): got a scalar. "
            'Use reduction="none".'
        )
    if losses.numel() != expected:
        raise ShapeError(
            f"`losses` must hold one loss per augmented input, shape ({expected},): got shape "
            f"{tuple(losses.shape)}. Average over all other axes first, and repeat the targets "
            "for every sample (batch.targets does)."
        )
    check_finite(
        losses,
        name="losses",
        advice="Lower the learning rate, or look for the input that causes it.",
    )
    return losses.float().view(batch.n_samples, batch.batch_size)
