"""Regression with learned augmentation."""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.augmentation import Augmenter
from instaaug.errors import ShapeError, UnknownNameError
from instaaug.scores import RegressionTally, Tally
from instaaug.tasks.task import AugmentedTask

__all__ = ["RegressionTask"]


class RegressionTask(AugmentedTask):
    """Trains any regressor with any augmenter: transforms that change the answer are unlearned.

    Arguments:
        model: Returns ``(B,)``, ``(B, 1)`` or ``(B, D)``.
        augmenter: Any augmenter.
        n_targets: Numbers to predict for each input, D.
        loss: ``"squared"`` or ``"absolute"`` error, averaged over the D numbers.
        settings: What :class:`~instaaug.tasks.AugmentedTask` takes.
    """

    def __init__(
        self,
        model: nn.Module,
        augmenter: Augmenter,
        *,
        n_targets: int = 1,
        loss: Literal["squared", "absolute"] = "squared",
        **settings: Any,
    ) -> None:
        super().__init__(model, augmenter, **settings)
        if loss not in ("squared", "absolute"):
            raise UnknownNameError("loss", loss, ("squared", "absolute"))
        self.n_targets = n_targets
        self.loss: Literal["squared", "absolute"] = loss

    @override
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if targets.numel() != outputs.numel():
            raise ShapeError(
                f"`targets` must be {self.n_targets} numbers per image: got "
                f"{tuple(targets.shape)} for outputs {tuple(outputs.shape)}. Set `n_targets`."
            )
        error = outputs - targets.to(outputs.dtype).reshape(outputs.shape)
        error = error.square() if self.loss == "squared" else error.abs()
        return error.flatten(1).mean(dim=1) if error.ndim > 1 else error

    @override
    def make_tally(self) -> Tally:
        return RegressionTally()

    @override
    def check_outputs(self, outputs: object, n_inputs: int) -> None:
        wanted = {torch.Size([n_inputs, self.n_targets])}
        if self.n_targets == 1:
            wanted.add(torch.Size([n_inputs]))
        if not isinstance(outputs, Tensor) or outputs.shape not in wanted:
            got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise ShapeError(
                f"`model` must return {self.n_targets} numbers per image: got {got} for "
                f"{n_inputs} images. Give its last layer {self.n_targets} outputs."
            )
