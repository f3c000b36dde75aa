"""The loss that φ is to lower, with words for outputs and targets that do not fit."""

from torch import Tensor
from torch.nn import functional as F

from instaaug.errors import DataError, ShapeError
from instaaug.objectives import Loss

__all__ = ["checked_loss"]


def checked_loss(loss: Loss | None) -> Loss:
    """The user's loss, which must have one number per input; cross-entropy if there is none."""
    if loss is None:
        return _cross_entropy

    def checked(outputs: Tensor, targets: Tensor) -> Tensor:
        values = loss(outputs, targets)
        if values.shape != outputs.shape[:1]:
            raise ShapeError(
                f"`loss` must give one number per input, shape ({len(outputs)},): got "
                f'{tuple(values.shape)}. Use reduction="none", and average over all other axes.'
            )
        return values

    return checked


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    if outputs.ndim != 2 or targets.ndim != 1 or targets.is_floating_point():
        raise ShapeError(
            "`model` must return class scores (N, C) and `data` give a whole number per image for "
            f"cross-entropy: got outputs {tuple(outputs.shape)}, and targets "
            f"{tuple(targets.shape)} of {targets.dtype}. Give another `loss`."
        )
    low, high = (int(end) for end in targets.aminmax())
    if low < 0 or high >= outputs.shape[1]:
        raise DataError(
            f"`data` must give classes from 0 to {outputs.shape[1] - 1}, for the model has "
            f"{outputs.shape[1]}: got targets from {low} to {high}. Number them as the model does."
        )
    return F.cross_entropy(outputs, targets.long(), reduction="none")
