"""Checks of what a caller passes in: inputs, targets, losses, estimator and baseline."""

import warnings

import torch
from torch import Tensor

from instaaug.augmentation.augmenter import AugmentedBatch
from instaaug.augmentation.settings import Estimator, InstaAugSettings
from instaaug.errors import ArgumentError, InstaAugWarning, PathwiseGradientError, ShapeError
from instaaug.shapes import Images, check_finite, check_images

__all__ = [
    "check_baseline",
    "check_call",
    "check_classes",
    "check_estimator",
    "check_inputs",
    "check_losses",
    "warn_if_normalized",
    "warn_in_evaluation_mode",
]

RANGE_TOLERANCE = 1e-3  # rounding is no reason to warn


def check_inputs(x: Images, *, channels: int) -> None:
    """Raise unless ``x`` is a finite, non-empty batch of images with these channels."""
    check_images(x, channels=channels)
    check_finite(x, name="x", advice="Look for divisions by zero in the input pipeline.")


def warn_if_normalized(x: Images, settings: InstaAugSettings) -> None:
    """Warn if color transforms get values outside of [0, 1]; on a CPU only, where it is cheap."""
    transform = settings.transform
    if transform.mean is not None or not any(t.needs_unit_range for t in transform.transforms):
        return
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return
    low, high = (float(end) for end in x.detach().aminmax())
    if low < -RANGE_TOLERANCE or high > 1 + RANGE_TOLERANCE:
        warnings.warn(
            f"Color transforms need images in [0, 1]: got values from {low:.3g} to {high:.3g}, "
            "which are clipped. For normalized images give InstaAug their mean= and std=.",
            InstaAugWarning,
            stacklevel=5,
        )


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


def check_classes(targets: Tensor | None, settings: InstaAugSettings) -> Tensor | None:
    """The labels if φ reads them, else None; raise unless they are numbers of its classes."""
    if targets is None or settings.num_classes is None or settings.conditioning != "class":
        return None
    if targets.ndim != 1 or targets.is_floating_point() or targets.is_complex():
        raise ShapeError(
            '`targets` must be one whole number per input with conditioning="class": got '
            f"{targets.dtype} of shape {tuple(targets.shape)}."
        )
    if torch.compiler.is_compiling():  # looking at values would break the graph
        return targets.long()
    low, high = targets.aminmax()
    if targets.device.type != "cpu":  # reading them would make the host wait
        words = f"`targets` must lie in [0, {settings.num_classes - 1}]."
        torch._assert_async((low >= 0) & (high < settings.num_classes), words)  # noqa: SLF001
    elif low < 0 or high >= settings.num_classes:
        raise ArgumentError(
            f"`targets` must lie in [0, {settings.num_classes - 1}], for there are "
            f"{settings.num_classes} classes: got labels from {low} to {high}. Drop such inputs, "
            "or build the augmenter with more num_classes."
        )
    return targets.long()


def check_estimator(
    estimator: Estimator, *, n_finite: int, n_factors: int, jitter: bool = False
) -> None:
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
    if estimator == "closed_form" and not n_finite:
        raise ArgumentError(
            '`estimator="closed_form"` needs a choice from a table: got ranges alone. Add a Crop, '
            'or use estimator="auto".'
        )
    if estimator == "exact" and (n_finite, n_factors) != (1, 1):
        raise ArgumentError(
            '`estimator="exact"` needs one finite factor and nothing else: got '
            f"{n_factors} factors, {n_finite} of them finite. Use a single Crop, or estimator="
            '"auto".'
        )
    if estimator == "exact" and jitter:
        raise ArgumentError(
            '`estimator="exact"` cannot try every place of a box that moves: got jitter=True. '
            'Use jitter=False, or estimator="auto".'
        )


def warn_in_evaluation_mode(*, training: bool) -> None:
    """Warn if an objective is to be minimized in evaluation mode, where λ does not move."""
    if not training and torch.is_grad_enabled() and not torch.compiler.is_compiling():
        warnings.warn(
            "The objective was computed with gradients in evaluation mode, where λ does not move. "
            "Call aug.train() before training goes on, or use torch.no_grad() to validate.",
            InstaAugWarning,
            stacklevel=3,
        )


def check_baseline(settings: InstaAugSettings, *, any_finite: bool) -> None:
    """Raise if a baseline that predicts from the input has none, or no samples to predict."""
    has_input = settings.conditioning == "input" and settings.estimator != "exact"
    if settings.baseline in ("value", "critic") and any_finite and not has_input:
        raise ArgumentError(
            f'`baseline="{settings.baseline}"` needs a network that reads the input, and samples: '
            f'got conditioning="{settings.conditioning}" and estimator="{settings.estimator}". '
            'Choose "batch".'
        )
    if settings.baseline == "critic" and settings.estimator == "closed_form":
        raise ArgumentError(
            '`baseline="critic"` is for the score function: got estimator="closed_form", which '
            'predicts the loss of every choice itself. Choose "rloo", "value" or "batch".'
        )


def check_losses(losses: Tensor, batch: AugmentedBatch) -> Tensor:
    """The losses as ``(n, B)``; raise unless there is a finite one per augmented input."""
    expected = batch.n_samples * batch.batch_size
    if losses.ndim == 0:
        raise ShapeError(
            f"`losses` must hold one loss per augmented input, shape ({expected},): got a scalar. "
            'Use reduction="none".'
        )
    per_sample = losses.shape == (batch.n_samples, batch.batch_size)
    if losses.numel() != expected or not (per_sample or losses.shape[0] == expected):
        raise ShapeError(
            f"`losses` must hold one loss per augmented input, shape ({expected},): got shape "
            f"{tuple(losses.shape)}. Average over all other axes first, and repeat the targets "
            "for every sample (batch.targets does)."
        )
    if losses.device.type == "cpu":  # elsewhere a gradient scaler may be there to skip the step
        advice = "Lower the learning rate, or look for the input that causes it."
        check_finite(losses, name="losses", advice=advice)
    losses = losses if losses.dtype == torch.float64 else losses.float()
    return losses.reshape(batch.n_samples, batch.batch_size)
