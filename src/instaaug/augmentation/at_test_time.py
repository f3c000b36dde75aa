"""Test-time augmentation: predict from several samples of every input."""

import warnings
from math import log
from typing import TYPE_CHECKING, Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError, InstaAugWarning, ShapeError, UnknownNameError
from instaaug.shapes import Images

if TYPE_CHECKING:
    from instaaug.augmentation.augmenter import Augmenter

__all__ = ["Merge", "Select", "TestTimeAugmentation"]

Merge = Literal["logit", "probability"]
Select = Literal["sample", "top"]
CHUNK_ON_CPU = 32
MODE_DEPENDENT = (nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm, nn.Dropout, nn.Dropout2d)


class TestTimeAugmentation(nn.Module):
    """A model that sees ``n_samples`` augmented versions of each input and averages its outputs.

    φ runs once per input. Samples are made and predicted in chunks, which bounds the memory and,
    on a processor, is faster than one huge batch.

    Arguments:
        augmenter: Draws θ for every input, and applies it.
        model: Predicts; any output of shape ``(N, ...)`` will do: logits, features, a regression.
        n_samples: Samples per input.
        merge: ``"logit"`` averages the outputs; ``"probability"`` averages softmax outputs and
            returns their logarithm.
        select: ``"sample"`` draws; ``"top"`` takes the most probable boxes and evenly spread
            values.
        replace: Whether the same box may be drawn twice.
        chunk_size: Most inputs per call of the model; by default 32 on a processor, everything on
            an accelerator.
    """

    __test__ = False  # not a test, whatever pytest thinks of the name

    def __init__(
        self,
        augmenter: "Augmenter",
        model: nn.Module,
        n_samples: int,
        *,
        merge: Merge = "logit",
        select: Select = "sample",
        replace: bool = False,
        chunk_size: int | None = None,
    ) -> None:
        super().__init__()
        if n_samples < 1:
            raise ArgumentError(f"`n_samples` must be at least 1: got {n_samples}.")
        if chunk_size is not None and chunk_size < 1:
            raise ArgumentError(f"`chunk_size` must be at least 1: got {chunk_size}.")
        if merge not in ("logit", "probability"):
            raise UnknownNameError("merge rule", merge, ("logit", "probability"))
        if select not in ("sample", "top"):
            raise UnknownNameError("selection", select, ("sample", "top"))
        self.augmenter, self.model = augmenter, model
        self.n_samples, self.chunk_size = n_samples, chunk_size
        self.merge: Merge = merge
        self.select: Select = select
        self.replace = replace

    def samples(self, x: Images, generator: Generator | None = None) -> Float[Tensor, "n batch d"]:
        """The θ of every sample that would be used."""
        return self.augmenter.draw(
            x, self.n_samples, select=self.select, replace=self.replace, generator=generator
        )

    @override
    def forward(self, x: Images, generator: Generator | None = None) -> Tensor:
        self._warn_of_training()
        theta = self.samples(x, generator)
        chunk = self.chunk_size or (
            CHUNK_ON_CPU if x.device.type == "cpu" else theta.shape[0] * theta.shape[1]
        )
        return torch.cat(
            [
                self._mean_output(x[start : start + chunk], theta[:, start : start + chunk], chunk)
                for start in range(0, len(x), chunk)
            ]
        )

    def _warn_of_training(self) -> None:
        layers = (m for m in self.model.modules() if isinstance(m, MODE_DEPENDENT))
        if not torch.compiler.is_compiling() and any(m.training for m in layers):
            warnings.warn(
                "The model predicts in training mode: its BatchNorm learns from test data, or its "
                "dropout is on. Call predictor.eval() first.",
                InstaAugWarning,
                stacklevel=3,
            )

    def _mean_output(self, x: Images, theta: Float[Tensor, "n batch d"], chunk: int) -> Tensor:
        at_once = max(1, chunk // len(x))
        total: Tensor | None = None
        for part in theta.split(at_once):
            repeated = x.repeat(len(part), 1, 1, 1) if len(part) > 1 else x
            inputs = self.augmenter.render(repeated, part.flatten(0, 1))
            out = self._scores(self.model(inputs), len(inputs)).unflatten(0, (len(part), -1))
            total = self._sum(out if total is None else torch.cat([total[None], out]))
        assert total is not None  # noqa: S101  # n_samples is at least 1
        return total - log(len(theta)) if self.merge == "probability" else total / len(theta)

    def _sum(self, scores: Tensor) -> Tensor:
        return scores.logsumexp(dim=0) if self.merge == "probability" else scores.sum(dim=0)

    def _scores(self, output: object, n_inputs: int) -> Tensor:
        if not isinstance(output, Tensor) or output.ndim == 0 or len(output) != n_inputs:
            got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ShapeError(
                f"`model` must return a tensor with one row per input, {n_inputs} here: got "
                f"{got}. Wrap a model that returns something else in a module that picks one."
            )
        if self.merge == "logit":
            return output
        if output.ndim < 2 or output.shape[1] < 2:
            raise ShapeError(
                "`model` must return a logit per class, (N, C, ...) with C ≥ 2, for "
                f'merge="probability": got {tuple(output.shape)}. Use merge="logit".'
            )
        return output.log_softmax(dim=1)
