"""Test-time augmentation: predict from several views of every input."""

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation.batch import repeat_batch
from instaaug.augmentation.early_stop import Budget, Index, merged_in_rounds
from instaaug.augmentation.merging import Merge, Merging
from instaaug.augmentation.views import Select, Views
from instaaug.errors import ArgumentError, InstaAugWarning, UnknownNameError
from instaaug.networks.model_input import suited_to
from instaaug.networks.model_output import Output
from instaaug.shapes import Images

if TYPE_CHECKING:
    from instaaug.augmentation.augmenter import Augmenter

__all__ = ["Merge", "Select", "TestTimeAugmentation"]

ROWS_ON_CPU, PIXELS_ON_CPU = 32, 8 * 224 * 224  # beyond either, a processor's caches overflow
MODE_DEPENDENT = (nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm, nn.Dropout, nn.Dropout2d)


class TestTimeAugmentation(nn.Module):
    """A model that sees ``n_samples`` augmented versions of each input and merges its outputs.

    φ runs once per input. Views are made and predicted in chunks, which bounds the memory and,
    on a processor, is faster than one huge batch. They are rendered in the precision of the
    images, shown to the model in its own (that of its first parameter), and merged in float32 at
    least.

    Not all chunks are equally large. A compiled model meets a second size and is compiled once
    more, for any size; after that, for a single row at most. Chunks are not filled up with copies:
    these would cost in every call, and undo what ``certainty`` and ``mean_views`` save.

    Arguments:
        augmenter: Draws θ for every input, and applies it.
        model: Predicts; any output of shape ``(N, ...)`` will do: logits, features, a regression.
        n_samples: Views per input, at most.
        merge: ``"logit"`` averages the outputs; ``"weighted"`` does so with the weight that the
            augmenter gives each view, which suits distinct views, in the order of
            ``select="top"``; ``"probability"`` averages softmax outputs and returns their
            logarithm.
        select: ``"sample"`` draws; ``"top"`` takes the most probable boxes and evenly spread
            values.
        replace: Whether the same box may be drawn twice.
        chunk_size: Most rows per call of the model; by default 32 on a processor, or fewer of
            more than 112 pixels a side (8 of 224), everything on an accelerator.
        output: Picks the tensor out of what the model returns. Without it a tensor is taken as it
            is, ``"logits"`` of a dict, ``.logits`` of an object, the first entry of a tuple.
        temperature: Divides the merged output; above 1 for a model that is too certain.
        certainty: An input is done as soon as its top class has this probability.
        mean_views: Views per input, on average over a call. After one for each, the least certain
            inputs get the others, one at a time.

    Example:
        >>> from instaaug import InstaAug
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 10))
        >>> predictor = InstaAug("crop").wrap(model, 8, select="top", mean_views=2.5).eval()
        >>> outputs, n_views = predictor.outputs_and_counts(torch.rand(4, 3, 16, 16))
        >>> outputs.shape, int(n_views.sum())
        (torch.Size([4, 10]), 10)
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
        output: Output | None = None,
        temperature: float = 1.0,
        certainty: float | None = None,
        mean_views: float | None = None,
    ) -> None:
        super().__init__()
        if n_samples < 1:
            raise ArgumentError(f"`n_samples` must be at least 1: got {n_samples}.")
        if chunk_size is not None and chunk_size < 1:
            raise ArgumentError(f"`chunk_size` must be at least 1: got {chunk_size}.")
        if select not in get_args(Select):
            raise UnknownNameError("selection", select, get_args(Select))
        self.augmenter, self.model = augmenter, model
        self.n_samples, self.chunk_size = n_samples, chunk_size
        self.select: Select = select
        self.replace = replace
        self.merging = Merging(merge, temperature, output)
        self.budget = Budget(certainty, mean_views)

    def samples(self, x: Images, generator: Generator | None = None) -> Float[Tensor, "n batch d"]:
        """The θ of every view that may be used."""
        return self._views(x, generator).theta

    def _views(self, x: Images, generator: Generator | None) -> Views:
        return self.augmenter.views(
            x, self.n_samples, model=self.model, output=self.merging.output,
            chunk_size=self.chunk_size, select=self.select, replace=self.replace,
            generator=generator,
        )  # fmt: skip

    @override
    def forward(self, x: Images, generator: Generator | None = None) -> Tensor:
        return self.outputs_and_counts(x, generator)[0]

    def outputs_and_counts(
        self, x: Images, generator: Generator | None = None
    ) -> tuple[Tensor, Int[Tensor, " batch"]]:
        """Merged outputs, and the number of views that each input took."""
        self._warn_of_training()
        views = self._views(x, generator)
        n = len(views.theta)
        weight = self.merging.weights(views)
        first = None
        if views.first is not None:  # picked before
            first = replace(self.merging, output=None).scores(views.first, len(x))
        chunk = self.chunk_size or self._best_chunk(x, n)
        if self.budget.is_limited:

            def scores_of(view: Index, inputs: Index) -> Tensor:
                pairs = zip(view.split(chunk), inputs.split(chunk), strict=True)
                return torch.cat([self._scores(x[i], views.theta[v, i]) for v, i in pairs])

            return merged_in_rounds(
                scores_of, weight, merging=self.merging, budget=self.budget, first=first
            )
        total = self._total(x, views.theta, weight, first=first, chunk=chunk)
        n_views = torch.full((len(x),), n, device=x.device)
        return self.merging.merged(total, weight, n_views), n_views

    def _best_chunk(self, x: Images, n: int) -> int:
        if x.device.type != "cpu":
            return n * len(x)
        height, width = self.augmenter.canonical(x[:1]).shape[-2:]
        return min(ROWS_ON_CPU, max(1, PIXELS_ON_CPU // (height * width)))

    def _warn_of_training(self) -> None:
        layers = (m for m in self.model.modules() if isinstance(m, MODE_DEPENDENT))
        if not torch.compiler.is_compiling() and any(m.training for m in layers):
            warnings.warn(
                "The model predicts in training mode: its BatchNorm learns from test data, or its "
                "dropout is on. Call predictor.eval() first.",
                InstaAugWarning,
                stacklevel=4,
            )

    def _total(
        self,
        x: Images,
        theta: Float[Tensor, "n batch d"],
        weight: Float[Tensor, "n batch"],
        *,
        first: Tensor | None,
        chunk: int,
    ) -> Tensor:
        """The total over all views; ``first`` stands for the first of them, if it is known."""
        if first is not None:
            known = self.merging.total(first[None], weight[:1])
            if len(theta) == 1:
                return known
            rest = self._total(x, theta[1:], weight[1:], first=None, chunk=chunk)
            return self.merging.joined(known, rest)
        starts = (slice(start, start + chunk) for start in range(0, len(x), chunk))
        return torch.cat([self._total_of(x[s], theta[:, s], weight[:, s], chunk) for s in starts])

    def _total_of(
        self,
        x: Images,
        theta: Float[Tensor, "n batch d"],
        weight: Float[Tensor, "n batch"],
        chunk: int,
    ) -> Tensor:
        at_once = max(1, chunk // len(x))
        total: Tensor | None = None
        for part, weights in zip(theta.split(at_once), weight.split(at_once), strict=True):
            repeated = repeat_batch(x, len(part))
            scores = self._scores(repeated, part.flatten(0, 1)).unflatten(0, (len(part), -1))
            more = self.merging.total(scores, weights)
            total = more if total is None else self.merging.joined(total, more)
        assert total is not None  # noqa: S101  # n_samples is at least 1
        return total

    def _scores(self, x: Images, theta: Float[Tensor, "batch d"]) -> Tensor:
        inputs = self.augmenter.render(x, theta)
        return self.merging.scores(self.model(suited_to(self.model, inputs)), len(inputs))
