"""Test-time augmentation: predict from several views of every input."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf, log
from typing import TYPE_CHECKING, get_args

import torch
from jaxtyping import Float, Inexact, Int
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation.dense import Back, check_covered, warp_back
from instaaug.augmentation.plan import ResizedImage
from instaaug.augmentation.stopping import StopRule
from instaaug.augmentation.views import Merge, Select, Views
from instaaug.errors import ArgumentError, InstaAugWarning, ShapeError, UnknownNameError
from instaaug.networks.model_interface import Output, as_input_of, output_rows
from instaaug.shapes import Images, at_least_float32, check_images, repeat_batch

if TYPE_CHECKING:
    from instaaug.augmentation.augmenter import Augmenter

__all__ = ["Budget", "Merge", "Merging", "TestTimeAugmentation", "confidence", "merge_in_rounds"]

Index = Int[Tensor, " chosen"]
ROUNDING = 1e-6  # 1.13 views for each of 100 inputs are 113, though the product is slightly less
ROWS_ON_CPU, PIXELS_ON_CPU = 32, 8 * 224 * 224  # beyond either, a CPU's caches overflow
MODE_DEPENDENT = (nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm, nn.Dropout, nn.Dropout2d)
SHARPEST = 10.0  # beyond it weights underflow
LEAST_WEIGHT = 1e-30  # of the largest; whichever views are merged, their weights sum to something
MOST_VIEWS = 100_000  # more would be a mistake, or a spoiled file
COVERED = 1e-20  # far more than LEAST_WEIGHT, far less than any pixel that a view touches


@dataclass(frozen=True)
class Merging:
    r"""The rule by which outputs :math:`z_1, \dots, z_n` for n views become one, :math:`z`.

    .. math::
        z = \tfrac1n \sum_j z_j \;\text{(logit)}, \quad
        z = \log \tfrac1n \sum_j \operatorname{softmax} z_j \;\text{(probability)}, \quad
        z = \sum_j w_j z_j \big/ \sum_j w_j \;\text{(weighted, confidence)}

    and then z / temperature. The weights of ``"weighted"`` are learned; those of ``"confidence"``
    are :math:`w_j = \exp(-s\,H(\operatorname{softmax} z_j))` with the sharpness s, so that a view
    of which the model makes nothing does not spoil the others. A sum grows view by view:
    :meth:`scores` of what the model returned have a :meth:`total`, two totals make one by
    :meth:`combine`, and :meth:`finish` ends it.

    Arguments:
        merge: Which of the four.
        temperature: Divides the merged output; log-probabilities are normalized again.
        output: Picks the tensor out of what the model returns. Without it a tensor is taken as it
            is, and the obvious one of a dict, an object or a tuple.
        sharpness: How much confidence counts for ``"confidence"``; 0 is the plain mean.
        calibration: Divides the output of every view when its confidence is judged, so that a
            model that is too sure of itself, or not sure enough, gets honest weights.
        dense: Whether outputs are maps, merged pixel by pixel: a view counts as much as it covers
            of a pixel, and confidence is that of the pixel.

    Example:
        >>> rule = Merging("probability")
        >>> scores = rule.scores({"logits": torch.tensor([[0.0, 0.0], [9.0, 0.0]])}, 2)
        >>> two_views_of_one_input = scores.view(2, 1, 2)
        >>> ones = torch.ones(2, 1)
        >>> rule.finish(rule.total(two_views_of_one_input, ones), ones, torch.tensor([2])).exp()
        tensor([[0.7499, 0.2501]])
    """

    merge: Merge = "logit"
    temperature: float = 1.0
    output: Output | None = None
    sharpness: float = 1.0
    calibration: float = 1.0
    dense: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.sharpness <= SHARPEST:
            raise ArgumentError(
                f"`sharpness` must lie in [0, {SHARPEST}]: got {self.sharpness}. 1 is usual."
            )
        if self.merge not in get_args(Merge):
            raise UnknownNameError("merge rule", self.merge, get_args(Merge))
        if not 0 < self.calibration < inf:
            raise ArgumentError(f"`calibration` must be a number above 0: got {self.calibration}.")
        if not 0 < self.temperature < inf:
            raise ArgumentError(
                f"`temperature` must be a number above 0: got {self.temperature}. 1 changes "
                "nothing, more makes the model less certain."
            )

    def scores(
        self, returned: object, n_inputs: int, back: Back | None = None
    ) -> Inexact[Tensor, " inputs *rest"]:
        """The model's output as it is added up over views, in float32 at least.

        Arguments:
            returned: What the model returned.
            n_inputs: For how many views.
            back: Brings maps of views back onto the inputs.
        """
        return self._scores_of(output_rows(returned, n_inputs, self.output), back)

    def _scores_of(self, output: Tensor, back: Back | None = None) -> Tensor:
        needs_classes = self.merge in ("probability", "confidence")
        if needs_classes and (output.ndim < 2 or output.shape[1] < 2):
            raise ShapeError(
                "`model` must return a logit per class, (N, C, ...) with C ≥ 2, for "
                f'merge="{self.merge}": got {tuple(output.shape)}. Use merge="logit".'
            )
        output = output if output.is_complex() else at_least_float32(output)
        weight = None
        if back is not None:
            output, weight = back(output)
        if self.merge == "confidence":
            sureness = confidence(output / self.calibration, self.sharpness)[:, None]
            weight = sureness if weight is None else sureness * weight
        if self.merge == "probability":
            output = output.log_softmax(dim=1)
        return output if weight is None else self._with_weight(output, weight)

    def _with_weight(self, output: Tensor, weight: Tensor) -> Tensor:
        """Weighted outputs; the weight is one more class, the last, and adds up with the rest."""
        if self.merge == "probability":
            log_weight = weight.clamp(min=LEAST_WEIGHT).log()
            return torch.cat([output + log_weight, log_weight], dim=1)
        return torch.cat([weight * output, weight], dim=1)

    def weights(self, views: Views) -> Float[Tensor, "n batch"]:
        """How much each view counts, relative to the one of the same input that counts most."""
        if self.merge != "weighted" or views.weight is None:
            return torch.ones(views.theta.shape[:2], device=views.theta.device)
        weight = at_least_float32(views.weight)
        largest = weight.detach().amax(dim=0).clamp(min=torch.finfo(weight.dtype).tiny)
        return (weight / largest).clamp(min=LEAST_WEIGHT)

    def total(
        self, scores: Inexact[Tensor, "n batch *rest"], weight: Float[Tensor, "n batch"]
    ) -> Inexact[Tensor, " batch *rest"]:
        """The sum over views; for probabilities, its logarithm."""
        if self.merge == "probability":
            return scores.logsumexp(dim=0)
        if self.merge == "weighted":
            scores = scores * _as_wide(weight, scores)
        return scores.sum(dim=0)

    def combine(self, one: Tensor, other: Tensor) -> Tensor:
        """The total of two sets of views, from the total of each."""
        return torch.logaddexp(one, other) if self.merge == "probability" else one + other

    def finish(
        self,
        total: Inexact[Tensor, " batch *rest"],
        weight: Float[Tensor, "n batch"],
        n_views: Int[Tensor, " batch"],
    ) -> Inexact[Tensor, " batch *merged"]:
        """The output for each input, from the total over its first ``n_views`` views."""
        mass = weight.cumsum(dim=0).gather(0, n_views[None] - 1)[0]
        return self._finish(total, mass)

    def _finish(self, total: Tensor, mass: Float[Tensor, " batch"]) -> Tensor:
        if self.dense or self.merge == "confidence":
            return self._divide(total[:, :-1], total[:, -1:])
        mass = _as_wide(mass.to(total.dtype), total)
        return self._divide(total, mass.log() if self.merge == "probability" else mass)

    def merge_outputs(
        self, outputs: Inexact[Tensor, "n batch *rest"], weight: Float[Tensor, "n batch"] | None
    ) -> Inexact[Tensor, " batch *merged"]:
        """The output for each input from the outputs for all of its views, at once.

        Arguments:
            outputs: What the model says of each view.
            weight: How much each counts for ``"weighted"``; None says equally.
        """
        n, batch = outputs.shape[:2]
        ones = torch.ones(n, batch, device=outputs.device)
        weight = ones if weight is None or self.merge != "weighted" else weight
        scores = torch.stack([self._scores_of(view) for view in outputs.unbind()])
        total = self.total(scores, weight)
        return self._finish(total, weight.sum(dim=0))

    def _divide(self, total: Tensor, mass: Tensor) -> Tensor:
        """The mean, from a sum and the sum of all weights; for probabilities, logarithms."""
        is_log = self.merge == "probability"
        if self.dense:
            check_covered(mass - log(COVERED) if is_log else mass)
        if not is_log:
            return total / (mass * self.temperature)
        log_probs = total - mass
        if self.temperature == 1:
            return log_probs
        return (log_probs / self.temperature).log_softmax(dim=1)


def confidence(
    logits: Float[Tensor, "batch classes *rest"], sharpness: float
) -> Float[Tensor, " batch *rest"]:
    r"""How much a prediction counts: :math:`\exp(-s\,H)` with its entropy H in nats.

    Example:
        >>> confidence(torch.tensor([[0.0, 0.0], [50.0, 0.0]]), 1.0)  # a half and one
        tensor([0.5000, 1.0000])
    """
    log_probs = logits.log_softmax(dim=1)
    return (sharpness * (log_probs.exp() * log_probs).sum(dim=1)).exp()


def _as_wide(value: Tensor, like: Tensor) -> Tensor:
    """With as many axes as ``like``, the new ones last and of length one."""
    return value.view(*value.shape, *[1] * (like.ndim - value.ndim))


@dataclass(frozen=True)
class Budget:
    """How many views an input is worth.

    Arguments:
        certainty: Enough once the top class has this probability, in (0, 1].
        mean_views: Most views per input, on average; at least 1.
        stop: A learned rule, which keeps to ``mean_views`` over inputs like those of its fit.
            Without one the average is over the batch, and the least certain get more.

    Example:
        >>> probs = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]])  # after a view each
        >>> once = torch.ones(3, dtype=torch.long)
        >>> Budget(certainty=0.8).next_inputs(probs.log(), once, n_samples=10)
        tensor([1, 2])
        >>> Budget(mean_views=1.67).next_inputs(probs.log(), once, n_samples=10)  # 2 are left
        tensor([1])
    """

    certainty: float | None = None
    mean_views: float | None = None
    stop: StopRule | None = None

    def __post_init__(self) -> None:
        if self.certainty is not None and not 0 < self.certainty <= 1:
            raise ArgumentError(
                "`certainty` must be a probability in (0, 1]: got "
                f"{self.certainty}. 0.95 is a good start; None uses every view."
            )
        if self.mean_views is not None and not 1 <= self.mean_views < inf:
            raise ArgumentError(
                "`mean_views` must be at least 1, for every input has at least one view: got "
                f"{self.mean_views}. None sets no limit."
            )

    @property
    def is_limited(self) -> bool:
        """Whether some inputs may get fewer views than others."""
        return self.certainty is not None or self.mean_views is not None

    def next_inputs(
        self,
        merged: Float[Tensor, "batch classes"],
        n_views: Int[Tensor, " batch"],
        *,
        n_samples: int,
        before: Int[Tensor, " batch"] | None = None,
        previews: int = 0,
        temperature: float = 1.0,
    ) -> Index:
        """The inputs that get one more view in this round.

        Where views are rationed, a round spends half of what is left, one view for each of the
        least certain. In smaller rounds the same few inputs would get nearly all: those on which
        no number of views agrees.

        Arguments:
            merged: Logits of each input from its views so far.
            n_views: How many these are.
            n_samples: How many there are at most.
            before: The top class of each input one view earlier; None if there was none.
            previews: Looks that there were before the first view, for a learned rule.
            temperature: What has divided the logits, for a rule that has learned without.
        """
        top = merged.softmax(dim=1).amax(dim=1)
        going = n_views < n_samples
        if self.certainty is not None:
            going &= top < self.certainty
        if self.stop is not None and self.mean_views is not None:
            going &= n_views == n_views.max()  # the others have stopped before
            going &= self.stop.goes_on(
                merged * temperature, int(n_views.max()) - 1 + previews, before=before,
                price=self.stop.price_for(self.mean_views),
            )  # fmt: skip
        inputs = going.nonzero()[:, 0]
        if self.mean_views is None or self.stop is not None:
            return inputs
        left = int(self.mean_views * len(top) + ROUNDING) - int(n_views.sum())
        return inputs[top[inputs].argsort(stable=True)[: ceil(left / 2)]]


def merge_in_rounds(
    scores_of: Callable[[Index, Index], Tensor],
    weight: Float[Tensor, "n batch"],
    *,
    merging: Merging,
    budget: Budget,
    first: Tensor | None = None,
    before: Int[Tensor, " batch"] | None = None,
) -> tuple[Tensor, Int[Tensor, " batch"]]:
    """Merged outputs, and how many views each took: one view for all, then rounds of one view.

    Arguments:
        scores_of: From the numbers of views and of inputs, in pairs, to a row of scores each.
        weight: How much each view counts.
        merging: How they become one.
        budget: Who gets another.
        first: Scores of view 0 of all inputs, if they are known.
        before: The top class of a preview, if there was one.
    """
    n_samples, batch = weight.shape
    everyone = torch.arange(batch, device=weight.device)
    scores = scores_of(torch.zeros_like(everyone), everyone) if first is None else first
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise ShapeError(
            "`model` must return a logit per class, (N, C) with C ≥ 2, for `certainty` and "
            f"`mean_views`: got {tuple(scores.shape)}. Leave both out."
        )
    total = merging.total(scores[None], weight[:1])
    n_views, previews = torch.ones_like(everyone), 0 if before is None else 1
    while True:
        merged = merging.finish(total, weight, n_views)
        chosen = budget.next_inputs(
            merged.detach(), n_views, n_samples=n_samples, before=before,
            previews=previews, temperature=merging.temperature,
        )  # fmt: skip
        if not len(chosen):
            return merged, n_views
        before = merged.argmax(dim=1)
        view = n_views[chosen]
        more = merging.total(scores_of(view, chosen)[None], weight[view, chosen][None])
        total = total.index_copy(0, chosen, merging.combine(total[chosen], more))
        n_views = n_views.index_add(0, chosen, torch.ones_like(chosen))


class TestTimeAugmentation(nn.Module):
    """A model that sees ``n_samples`` augmented versions of each input and merges its outputs.

    φ runs once per input. Views are made and predicted in chunks, which bounds the memory and,
    on a CPU, is faster than one huge batch. They are rendered in the precision of the
    images, shown to the model in its own (that of its first parameter), and merged in float32 at
    least.

    Not all chunks are equally large. A compiled model meets a second size and is compiled once
    more, for any size; after that, for a single row at most. Chunks are not filled up with copies:
    these would cost in every call, and undo what ``certainty`` and ``mean_views`` save.

    Arguments:
        augmenter: Draws θ for every input, and applies it.
        model: Predicts; any output of shape ``(N, ...)`` will do: logits, features, a regression.
        n_samples: Views per input, at most.
        whole: One larger image of each input, which takes the place of all views.
        merge: ``"logit"`` averages the outputs; ``"weighted"`` does so with the weight that the
            augmenter gives each view, which suits distinct views, in the order of
            ``select="top"``; ``"probability"`` averages softmax outputs and returns their
            logarithm; ``"confidence"`` averages outputs, each weighted by how sure the model is
            of it.
        select: ``"sample"`` draws; ``"top"`` takes the most probable boxes and evenly spread
            values.
        replace: Whether the same box may be drawn twice.
        chunk_size: Most rows per call of the model; by default 32 on a CPU, or fewer of
            more than 112 pixels a side (8 of 224), everything on an accelerator.
        output: Picks the tensor out of what the model returns. Without it a tensor is taken as it
            is, ``"logits"`` of a dict, ``.logits`` of an object, the first entry of a tuple.
        temperature: Divides the merged output; above 1 for a model that is too certain.
        sharpness: How much confidence counts for ``merge="confidence"``.
        calibration: Divides the output of every view when its confidence is judged.
        certainty: An input is done as soon as its top class has this probability.
        mean_views: Views per input, on average. Where a fit has learned when to stop, over inputs
            like those of the fit; elsewhere over a call: after one for each, the least certain
            inputs get the others, one at a time.
        dense: Whether the model returns maps ``(N, C, h, w)``. Those of all views are brought back
            onto the input and merged pixel by pixel; the result has the input's height and width.

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
        whole: ResizedImage | None = None,
        merge: Merge = "logit",
        select: Select = "sample",
        replace: bool = False,
        chunk_size: int | None = None,
        output: Output | None = None,
        temperature: float = 1.0,
        sharpness: float = 1.0,
        calibration: float = 1.0,
        certainty: float | None = None,
        mean_views: float | None = None,
        dense: bool = False,
    ) -> None:
        super().__init__()
        if n_samples < 1:
            raise ArgumentError(f"`n_samples` must be at least 1: got {n_samples}.")
        if n_samples > MOST_VIEWS:
            raise ArgumentError(
                f"`n_samples` must be at most {MOST_VIEWS:,}: got {n_samples}. 10 are usual."
            )
        if chunk_size is not None and chunk_size < 1:
            raise ArgumentError(f"`chunk_size` must be at least 1: got {chunk_size}.")
        if select not in get_args(Select):
            raise UnknownNameError("selection", select, get_args(Select))
        self.augmenter, self.model = augmenter, model
        self.n_samples, self.chunk_size, self.whole = n_samples, chunk_size, whole
        self.select: Select = select
        self.replace = replace
        self.merging = Merging(
            merge, temperature, output, sharpness=sharpness, calibration=calibration, dense=dense
        )
        self.budget = Budget(certainty, mean_views, augmenter.stop_rule)
        if dense and self.budget.is_limited:
            raise ArgumentError(
                "`certainty` and `mean_views` must be left out with dense=True, for a map has no "
                f"top class: got {certainty} and {mean_views}."
            )

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
        """Merged outputs, and the number of views that each input took; 0 for a preview alone."""
        check_images(x)
        self._warn_in_training_mode()
        if self.whole is not None:
            outputs = self._look(x, self.whole) / self.merging.temperature
            return outputs, torch.ones_like(x[:, 0, 0, 0]).long()
        stop, preview = self.budget.stop, self.augmenter.preview
        if preview is None or stop is None or self.budget.mean_views is None:
            return self._merge_views(x, generator)
        outputs = self._look(x, preview)
        going = stop.goes_on(
            outputs.detach(), 0, price=stop.price_for(self.budget.mean_views)
        ).nonzero()[:, 0]
        outputs, n_views = (
            outputs / self.merging.temperature,
            torch.zeros_like(x[:, 0, 0, 0]).long(),
        )
        if not len(going):
            return outputs, n_views
        tops = outputs.detach().argmax(dim=1)[going]
        merged, taken = self._merge_views(x[going], generator, before=tops)
        outputs = outputs.to(merged.dtype).index_copy(0, going, merged)
        return outputs, n_views.index_copy(0, going, taken)

    def _look(self, x: Images, resized: ResizedImage) -> Tensor:
        """Outputs for the whole inputs in another size."""
        rule = Merging(output=self.merging.output)
        chunk = self.chunk_size or self._best_chunk(x, 1)
        parts = []
        for some in x.split(chunk):
            inputs = as_input_of(self.model, self.augmenter.resize(some, resized.size))
            parts.append(rule.scores(self.model(inputs), len(some)))
        return resized.factor * torch.cat(parts)

    def _merge_views(
        self, x: Images, generator: Generator | None, before: Index | None = None
    ) -> tuple[Tensor, Int[Tensor, " batch"]]:
        views = self._views(x, generator)
        n = len(views.theta)
        weight = self.merging.weights(views)
        first = None
        if views.first is not None:  # `output` was applied already
            rule = replace(self.merging, output=None)
            first = rule.scores(views.first, len(x), self._back(x, views.theta[0]))
        chunk = self.chunk_size or self._best_chunk(x, n)
        if self.budget.is_limited:

            def scores_of(view: Index, inputs: Index) -> Tensor:
                pairs = zip(view.split(chunk), inputs.split(chunk), strict=True)
                return torch.cat([self._scores(x[i], views.theta[v, i]) for v, i in pairs])

            return merge_in_rounds(
                scores_of,
                weight,
                merging=self.merging,
                budget=self.budget,
                first=first,
                before=before,
            )
        total = self._total(x, views.theta, weight, first=first, chunk=chunk)
        n_views = torch.full((len(x),), n, device=x.device)
        return self.merging.finish(total, weight, n_views), n_views

    def _best_chunk(self, x: Images, n: int) -> int:
        if x.device.type != "cpu":
            return n * len(x)
        height, width = self.augmenter.canonical(x[:1]).shape[-2:]
        return min(ROWS_ON_CPU, max(1, PIXELS_ON_CPU // (height * width)))

    def _warn_in_training_mode(self) -> None:
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
        """The total over all views; ``first`` is that of the first view, if it is known."""
        if first is not None:
            known = self.merging.total(first[None], weight[:1])
            if len(theta) == 1:
                return known
            rest = self._total(x, theta[1:], weight[1:], first=None, chunk=chunk)
            return self.merging.combine(known, rest)
        starts = (slice(start, start + chunk) for start in range(0, len(x), chunk))
        return torch.cat(
            [self._total_of_chunk(x[s], theta[:, s], weight[:, s], chunk) for s in starts]
        )

    def _total_of_chunk(
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
            total = more if total is None else self.merging.combine(total, more)
        assert total is not None  # noqa: S101  # n_samples is at least 1
        return total

    def _scores(self, x: Images, theta: Float[Tensor, "batch d"]) -> Tensor:
        inputs = self.augmenter.render(x, theta)
        returned = self.model(as_input_of(self.model, inputs))
        return self.merging.scores(returned, len(inputs), self._back(x, theta))

    def _back(self, x: Images, theta: Float[Tensor, "batch d"]) -> Back | None:
        """How maps of views come back onto their inputs, if the model returns maps."""
        if not self.merging.dense:
            return None
        height, width = x.shape[-2:]
        matrix = self.augmenter.matrix(theta, aspect=width / height)
        return partial(warp_back, matrix=matrix, size=(height, width))
