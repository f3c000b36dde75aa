"""Classification with learned augmentation."""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.augmentation import Augmenter
from instaaug.errors import ShapeError, UnknownNameError
from instaaug.scores import ClassificationTally, RegressionTally, Tally
from instaaug.tasks.task import AugmentedTask

__all__ = ["RegressionTask", "SupervisedTask"]


class SupervisedTask(AugmentedTask):
    """Trains any classifier with any augmenter, by cross-entropy.

    Arguments:
        model: Returns logits ``(B, num_classes)``.
        augmenter: Any augmenter.
        num_classes: Number of classes.
        label_smoothing: Share of the target that is spread over all classes.
        settings: What :class:`~instaaug.tasks.AugmentedTask` takes.

    Example:
        >>> from instaaug import InstaAug, transforms as T
        >>> from instaaug.networks import SmallCNN
        >>> from instaaug.tasks import Optimization
        >>> task = SupervisedTask(
        ...     SmallCNN(10),
        ...     InstaAug(T.Crop()),
        ...     num_classes=10,
        ...     optimization=Optimization("adamw", 1e-3),
        ... )
        >>> # lightning.Trainer(max_epochs=10).fit(task, your_loader)
    """

    def __init__(
        self,
        model: nn.Module,
        augmenter: Augmenter,
        *,
        num_classes: int,
        label_smoothing: float = 0.0,
        **settings: Any,
    ) -> None:
        super().__init__(model, augmenter, **settings)
        self.num_classes, self.label_smoothing = num_classes, label_smoothing

    @override
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(
            outputs, targets, reduction="none", label_smoothing=self.label_smoothing
        )

    @override
    def make_tally(self) -> Tally:
        return ClassificationTally()

    @override
    def check_outputs(self, outputs: object, n_inputs: int) -> None:
        got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        if got != (n_inputs, self.num_classes):
            raise ShapeError(
                f"`model` must return one logit per class, ({n_inputs}, {self.num_classes}) for "
                f"{n_inputs} images of {self.num_classes} classes: got {got}. Give its last layer "
                f"{self.num_classes} outputs."
            )


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
