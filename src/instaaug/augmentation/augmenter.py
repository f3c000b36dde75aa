"""What every method that augments can do, and what it returns."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation.at_test_time import Merge, Merging, TestTimeAugmentation
from instaaug.augmentation.plan import ResizedImage
from instaaug.augmentation.stopping import StopRule
from instaaug.augmentation.views import Select, Views
from instaaug.errors import ArgumentError
from instaaug.functional.warp import warp
from instaaug.networks.model_interface import Output
from instaaug.objectives import ScoreFactor
from instaaug.shapes import Images, Matrices, Rendered, Rows, at_least_float32
from instaaug.signatures import check_arguments, parameter_hints

__all__ = ["TASKS", "AugmentedBatch", "Augmenter", "HeldOutBatch", "HeldOutLearner", "LossesOf"]

TASKS = frozenset({"classification", "regression", "contrastive"})
N_VIEWS = 10
"""What a model can be trained for."""
LossesOf = Callable[[Tensor, Tensor], Tensor]
"""From outputs and targets to one loss per input."""


@dataclass(frozen=True)
class AugmentedBatch:
    """Augmented inputs and all that an objective needs to learn from them.

    The n samples of B inputs lie one after the other: entry ``j * B + i`` of ``inputs`` is sample
    j of input i.

    Arguments:
        inputs: Augmented inputs, ``(n * B, C, H, W)``.
        targets: Targets in the same order, each repeated n times, if they were given.
        theta: The parameters that were drawn, ``(n, B, D)``.
        log_prob: Their log-probability, ``(n, B)``.
        entropy: Entropy of each factor in nats, with gradient, ``(B, F)``.
        part_entropy: Entropy of each part that has a band of its own, with gradient, ``(B, P)``;
            None where these are the factors.
        score_factors: The factors to be trained by the score function or exactly.
        value: Predicted loss of each input, for the value baseline, ``(B,)``.
        exhaustive: Whether the samples are not draws but every choice of a single finite factor.
        partner_targets: Targets of the k inputs that were mixed into each row, by methods that mix
            inputs, ``(k, n * B, ...)``.
        shares: How much of each row is the input's own, and how much is each partner's; the sum is
            1. ``(1 + k, n * B)``.
        added_loss: What the method adds to the mean loss, with gradient for the model or its own.
    """

    inputs: Tensor
    targets: Tensor | None
    theta: Float[Tensor, "n batch d"]
    log_prob: Float[Tensor, "n batch"]
    entropy: Float[Tensor, "batch f"]
    part_entropy: Float[Tensor, "batch parts"] | None = None
    score_factors: tuple[ScoreFactor, ...] = ()
    value: Float[Tensor, " batch"] | None = None
    exhaustive: bool = False
    partner_targets: Tensor | None = None
    shares: Float[Tensor, "parts rows"] | None = None
    added_loss: Float[Tensor, ""] | None = None

    @property
    def n_samples(self) -> int:
        """Samples per input."""
        return self.theta.shape[0]

    @property
    def batch_size(self) -> int:
        """Number of inputs before augmentation."""
        return self.theta.shape[1]

    @property
    def own_share(self) -> Float[Tensor, " rows"] | None:
        """How much of each row is the input's own, in [0, 1]; None where nothing was mixed."""
        return None if self.shares is None else self.shares[0]

    def losses(self, loss_of: Callable[[Tensor], Tensor]) -> Tensor:
        r"""One loss per augmented input; that of a mixture is the mixture of the losses.

        .. math:: \ell_i = \lambda_{i0}\,\ell(f(x_i), y_i)
                           + \sum_{j=1}^k \lambda_{ij}\,\ell(f(x_i), y'_{ij})

        Arguments:
            loss_of: From targets to one loss per input, ``(n * B,)``.

        Example:
            >>> from torch.nn import functional as F
            >>> from instaaug.methods import MixUp
            >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 10))
            >>> batch = MixUp()(torch.rand(4, 3, 8, 8), targets=torch.arange(4))
            >>> outputs = model(batch.inputs)
            >>> batch.losses(lambda y: F.cross_entropy(outputs, y, reduction="none")).shape
            torch.Size([4])
        """
        if self.targets is None:
            raise ArgumentError("`targets` must be given to the augmenter: it got none.")
        losses = loss_of(self.targets)
        if self.partner_targets is None or self.shares is None:
            return losses
        shares = self.shares.to(losses.dtype)
        losses = shares[0] * losses
        for share, targets in zip(shares[1:], self.partner_targets, strict=True):
            losses = losses + share * loss_of(targets)
        return losses


class Augmenter(nn.Module, ABC):
    """Draws transforms, applies them, and turns per-input losses into an objective.

    A task never asks which method it trains: it calls the module, computes a loss per input, and
    minimizes :meth:`objective`. At test time :meth:`wrap` averages over samples.
    """

    select: Select = "sample"
    """How views are chosen at test time unless :meth:`wrap` says otherwise."""

    merge: Merge = "logit"
    """How their outputs are merged unless :meth:`wrap` says otherwise."""

    sharpness: float = 1.0
    """How much confidence counts where outputs are merged by it."""

    calibration: float = 1.0
    """What divides the output of every view where its confidence is judged."""

    @property
    def merging(self) -> Merging:
        """The augmenter's own rule for outputs of views."""
        return Merging(self.merge, sharpness=self.sharpness, calibration=self.calibration)

    def set_merging(self, merge: Merge, sharpness: float = 1.0, calibration: float = 1.0) -> None:
        """Change how :meth:`wrap` merges outputs of views unless it is told otherwise."""
        self.merge, self.sharpness, self.calibration = merge, sharpness, calibration

    @property
    def stop_rule(self) -> StopRule | None:
        """When an input needs no further view, where a fit has learned that."""
        return None

    @property
    def preview(self) -> ResizedImage | None:
        """A first, smaller look at the whole input, where a fit has found that it saves time."""
        return None

    @property
    def whole(self) -> ResizedImage | None:
        """One larger image, where a fit has found that it is the better buy than views."""
        return None

    @property
    def recommended_views(self) -> int:
        """How many views :meth:`wrap` takes unless it is told otherwise."""
        return N_VIEWS

    def resize(self, x: Images, size: int) -> Rendered:
        """The inputs as they are, in another size."""
        eye = torch.eye(3, device=x.device, dtype=at_least_float32(x).dtype)
        return warp(x, eye.expand(len(x), 3, 3), size=(size, size))

    averages_views: bool = True
    """Whether its authors test it on the average of several views, not on each input as it is."""

    changes_single_images: ClassVar[bool] = True
    """Whether it makes views of an image on its own; mixing and doing nothing do not."""

    method_name: ClassVar[str] = ""
    """The name it is registered under, set by ``METHODS.register``; empty for others."""

    tasks: ClassVar[frozenset[str]] = TASKS
    """The kinds of task it can be trained for."""

    needs_labels: ClassVar[bool] = False
    """Whether it learns or mixes by labels, which contrastive learning does not have."""

    needs_held_out: ClassVar[bool] = False
    """Whether it learns from training images that are kept from the model."""

    needs_search: ClassVar[bool] = False
    """Whether a policy is searched for before training begins."""

    learns_from_training_loss: ClassVar[bool] = False
    """Whether it has parameters that learn from the loss that the model learns from."""

    chooses_transforms: ClassVar[bool] = False
    """Whether it gets ``"auto"`` for transforms where the settings leave them open."""

    own_options: ClassVar[frozenset[str]] = frozenset()
    """Constructor arguments that :meth:`build` takes from options alone.

    They share their name with a setting of InstaAug and mean something else.
    """

    @classmethod
    def build(
        cls, context: Mapping[str, Any], options: Mapping[str, Any] | None = None
    ) -> "Augmenter":
        """Construct the method from what a run knows and from the method's own settings.

        Arguments:
            context: What the data and the other settings say: transforms, mean, std,
                padding_mode, in_channels, num_classes and so on. The constructor gets those that
                it has an argument for.
            options: Settings of the method's own, as YAML has them. They are checked against the
                constructor's signature and take precedence over the context.

        Example:
            >>> from instaaug.methods import MixUp
            >>> MixUp.build({"mean": (0.5,), "std": (0.2,)}, {"alpha": 0.2})
            MixUp(alpha 0.2, a share per batch)
        """
        named = cls.__dict__.get("method_name") or cls.__name__
        checked = check_arguments(cls, options or {}, owner=named, prefix="method.")
        accepted = parameter_hints(cls).keys() - cls.own_options
        if context.get("transforms") == "auto":
            accepted -= {"transforms"}  # the constructor's own choice
        known = {name: value for name, value in context.items() if name in accepted}
        return cls(**(known | checked))

    @abstractmethod
    @override
    def forward(
        self,
        x: Images,
        n_samples: int = 1,
        generator: Generator | None = None,
        targets: Tensor | None = None,
    ) -> AugmentedBatch:
        """Augment every input ``n_samples`` times.

        Arguments:
            x: Images ``(B, C, H, W)``.
            n_samples: How often.
            generator: Source of randomness; a seeded one makes the result repeatable to the last
                bit.
            targets: Labels or other targets; they are repeated to match the inputs.
        """

    @abstractmethod
    def objective(self, losses: Tensor, batch: AugmentedBatch) -> Tensor:
        """The scalar to minimize, from one loss per augmented input.

        Arguments:
            losses: ``(n * B,)``, from a loss with ``reduction="none"``.
            batch: What ``forward`` returned.
        """

    @abstractmethod
    def draw(
        self,
        x: Images,
        n_samples: int,
        *,
        select: Select = "sample",
        replace: bool = False,
        generator: Generator | None = None,
    ) -> Float[Tensor, "n batch d"]:
        """θ of ``n_samples`` samples of each input, for test-time augmentation."""

    def views(
        self,
        x: Images,
        n_samples: int,
        *,
        model: nn.Module | None = None,  # noqa: ARG002
        output: Output | None = None,  # noqa: ARG002
        chunk_size: int | None = None,  # noqa: ARG002
        select: Select = "sample",
        replace: bool = False,
        generator: Generator | None = None,
    ) -> Views:
        """The views that :meth:`draw` draws, with their weights where the augmenter knows them.

        Arguments:
            x: Images ``(B, C, H, W)``.
            n_samples: How many views of each.
            model: The one that is to predict, for an augmenter that reads its features.
            output: Picks the tensor out of what the model returns.
            chunk_size: Most inputs that the model sees at once.
            select: ``"sample"`` draws, ``"top"`` takes the most representative.
            replace: Whether the same box may be drawn twice.
            generator: Source of randomness.
        """
        theta = self.draw(x, n_samples, select=select, replace=replace, generator=generator)
        return Views(theta)

    @abstractmethod
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        """Apply each row of θ to the image of the same row."""

    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:  # noqa: ARG002
        """Where the pixels of each view lie in its input; raise if no matrix tells.

        Arguments:
            theta: What makes the views.
            aspect: Width / height of the inputs.
        """
        raise ArgumentError(
            "`dense=True` needs views that a matrix brings back onto the input: got those of "
            f"{type(self).__name__}. Use InstaAug, FixedViews or another method of crops, flips "
            "and rotations."
        )

    def attach(self, model: nn.Module) -> None:
        """Receive the model that is being trained, for an augmenter that reads its features.

        The model must not become a part of the augmenter: it has an optimizer of its own.
        """

    def adapt(self, model: nn.Module) -> nn.Module:
        """The model to train in place of ``model``, for a method that changes the model itself.

        A model that was adapted before is returned as it is. Most augmenters change nothing.
        """
        return model

    def losses(self, model: nn.Module, batch: AugmentedBatch, losses_of: LossesOf) -> Tensor:
        """One loss per augmented input.

        Arguments:
            model: The one that is being trained.
            batch: What ``forward`` returned.
            losses_of: The loss of the task.
        """
        outputs = model(batch.inputs)
        return batch.losses(lambda targets: losses_of(outputs, targets))

    def canonical(self, x: Images) -> Rendered:
        """The inputs as the model sees them without augmentation; unchanged by most augmenters."""
        return x

    def fixed_ranges(self) -> Mapping[str, Sequence[tuple[float, float]]]:
        """By factor, the ends between which each of its parameters is drawn for all inputs."""
        return {}

    @abstractmethod
    def monitor(self, batch: AugmentedBatch) -> Mapping[str, Tensor]:
        """Numbers to log, by name, on the state of learning; empty if nothing is learned."""

    def wrap(
        self,
        model: nn.Module,
        n_samples: int | None = None,
        *,
        merge: Merge | None = None,
        sharpness: float | None = None,
        select: Select | None = None,
        replace: bool = False,
        chunk_size: int | None = None,
        output: Output | None = None,
        temperature: float = 1.0,
        certainty: float | None = None,
        mean_views: float | None = None,
        dense: bool = False,
    ) -> TestTimeAugmentation:
        """A module that predicts from ``n_samples`` augmented versions of each input.

        Arguments:
            model: Any module; its outputs are merged.
            n_samples: How many views of each input it sees, at most. By default what a fit
                recommends, which may be one larger image instead; 10 without a fit.
            merge: ``"logit"`` averages outputs, ``"probability"`` averages softmax outputs,
                ``"weighted"`` averages outputs with the learned weights of the views,
                ``"confidence"`` with weights that fall with the entropy of each view's prediction;
                the augmenter's own choice by default.
            sharpness: How much confidence counts; the augmenter's own choice by default.
            select: ``"sample"`` draws, ``"top"`` takes the most representative; the augmenter's
                own choice by default.
            replace: Whether the same box may be drawn twice.
            chunk_size: Most rows per call of the model, which bounds the memory.
            output: Picks the tensor out of what the model returns, such as
                ``lambda o: o["logits"]``.
            temperature: Divides the merged output.
            certainty: Probability of the top class at which an input needs no further view.
            mean_views: Views per input on average; those that need them get more.
            dense: Whether the model returns maps ``(N, C, h, w)``, as for segmentation: they are
                brought back onto the input and merged pixel by pixel.

        Example:
            >>> from instaaug import InstaAug
            >>> model = nn.Sequential(nn.Flatten(), nn.Linear(768, 10))
            >>> aug = InstaAug("crop")
            >>> predictor = aug.wrap(model, n_samples=10, merge="weighted", certainty=0.95)
            >>> predictor.eval()(torch.rand(4, 3, 16, 16)).shape
            torch.Size([4, 10])
        """
        is_free = n_samples is None and certainty is None and mean_views is None
        return TestTimeAugmentation(
            self, model, self.recommended_views if n_samples is None else n_samples,
            whole=self.whole if is_free else None, merge=merge or self.merge,
            select=select or self.select, replace=replace, chunk_size=chunk_size, output=output,
            temperature=temperature,
            sharpness=self.sharpness if sharpness is None else sharpness,
            calibration=self.calibration, certainty=certainty,
            mean_views=mean_views, dense=dense,
        )  # fmt: skip


@dataclass(frozen=True)
class HeldOutBatch:
    """Images that the model does not train on.

    Arguments:
        inputs: Images as the model takes them, not augmented.
        targets: Their targets.
    """

    inputs: Images
    targets: Tensor


class HeldOutLearner(Augmenter):
    """An augmenter whose parameters learn from held-out images instead of the training loss.

    For every ``search_every``-th batch, before the model learns from it, the task minimizes
    :meth:`search_objective` over the augmenter's parameters, and over nothing else.
    """

    tasks = TASKS - {"contrastive"}
    needs_labels = True
    needs_held_out = True

    search_every: int = 1
    """Batches per step of the augmenter."""

    @abstractmethod
    def search_objective(
        self,
        model: nn.Module,
        batch: AugmentedBatch,
        held_out: HeldOutBatch,
        losses_of: LossesOf,
        generator: Generator | None = None,
    ) -> Float[Tensor, ""]:
        """What the augmenter's parameters minimize; the model is left exactly as it was.

        Arguments:
            model: The one that is being trained; neither its parameters nor its buffers change.
            batch: What the model is about to learn from.
            held_out: What the result is judged by.
            losses_of: The loss of the task.
            generator: Source of randomness.
        """
