"""Settings that cannot go together, refused at the door."""

from typing import TYPE_CHECKING

from instaaug.errors import ArgumentError

if TYPE_CHECKING:
    from instaaug.runs.config import TrainConfig

__all__ = ["HELD_OUT_METHODS", "check_combinations"]

HELD_OUT_METHODS = ("adaaug", "adacrops", "metaaugment")
"""Methods that learn from training images which they keep from the model."""

LEARN_ALONG = ("instaaug", "augerino", "spatial_transformer", "viewmaker")
"""Methods that learn from the training loss."""

NEED_LABELS = (*HELD_OUT_METHODS, "fast_autoaugment", "mixup", "cutmix")
"""Methods that contrastive learning cannot have."""


def check_combinations(config: "TrainConfig") -> None:
    """Raise at the door where two settings cannot go together."""
    if config.task == "regression" and config.merge == "probability":
        raise ArgumentError(
            '`merge="probability"` needs classes: got `task="regression"`. Choose "logit", '
            "which averages the outputs."
        )
    if config.method == "instaaug" and config.baseline == "rloo" and config.n_samples < 2:
        raise ArgumentError(
            '`baseline="rloo"` compares samples of an image: got `n_samples` 1. Take 2.'
        )
    if config.method == "instaaug" and config.estimator == "exact" and config.n_samples > 1:
        raise ArgumentError(
            '`estimator="exact"` tries every box: got `n_samples` '
            f"{config.n_samples}. Leave it at 1."
        )
    _check_method(config)
    _check_contrastive(config)
    _check_precision(config)


def _check_method(config: "TrainConfig") -> None:
    if config.phi_step == "separate" and config.method not in LEARN_ALONG:
        raise ArgumentError(
            '`phi_step="separate"` needs a method that learns from the training loss: got '
            f"{config.method!r}, not one of {', '.join(LEARN_ALONG)}."
        )
    if config.method in HELD_OUT_METHODS and not config.search_fraction:
        raise ArgumentError(
            f"`search_fraction` must be above 0 for {config.method}, which learns from images "
            "that the model does not see. 0.1 is usual."
        )
    if config.method == "fast_autoaugment" and config.task != "classification":
        raise ArgumentError(
            "`task` must be classification to search for a policy, which counts images that "
            f"are classified rightly: got {config.task!r}."
        )


def _check_contrastive(config: "TrainConfig") -> None:
    if config.task != "contrastive":
        if config.method == "unmix":
            raise ArgumentError(
                f'`method="unmix"` mixes views of contrastive learning: got `task` '
                f"{config.task!r}. For classes there are mixup and cutmix."
            )
        return
    if config.method in NEED_LABELS or config.conditioning == "class":
        what = "conditioning" if config.conditioning == "class" else "method"
        raise ArgumentError(
            f"`{what}` must do without labels in contrastive learning: got "
            f"{getattr(config, what)!r}."
        )
    if config.n_samples > 1 or config.phi_step == "separate":
        raise ArgumentError(
            "Contrastive learning has two samples of each image in every step, and one pass: "
            'leave `n_samples` at 1 and `phi_step` at "joint".'
        )


def _check_precision(config: "TrainConfig") -> None:
    own_steps = config.phi_step == "separate" or config.method in HELD_OUT_METHODS
    if own_steps and config.precision == "16-mixed":
        raise ArgumentError(
            'Steps of φ alone cannot see through the scaling of `precision="16-mixed"`. '
            'Choose "bf16-mixed".'
        )
    if config.clip and config.precision == "16-mixed":
        raise ArgumentError(
            '`clip` cannot see through the scaling of `precision="16-mixed"`. Choose "bf16-mixed".'
        )
