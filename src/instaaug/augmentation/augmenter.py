"""What every method that augments can do."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from jaxtyping import Float
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation.at_test_time import TestTimeAugmentation
from instaaug.augmentation.batch import AugmentedBatch
from instaaug.augmentation.merging import Merge
from instaaug.augmentation.views import Select, Views
from instaaug.networks.model_output import Output
from instaaug.shapes import Images, Rendered
from instaaug.signatures import check_arguments, parameter_hints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TASKS", "Augmenter"]

TASKS = frozenset({"classification", "regression", "contrastive"})
"""What a model can be trained for."""


class Augmenter(nn.Module, ABC):
    """Draws transforms, applies them, and turns per-input losses into an objective.

    A task never asks which method it trains: it calls the module, computes a loss per input, and
    minimizes :meth:`objective`. At test time :meth:`wrap` averages over samples.
    """

    select: Select = "sample"
    """How views are chosen at test time unless :meth:`wrap` is told otherwise."""

    averages_views: bool = True
    """Whether its authors test it on the average of several views, not on each input as it is."""

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
        """What :meth:`draw` draws, with all that the augmenter knows of it beforehand.

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
        """The input that each row of θ makes of each image."""

    def attach(self, model: nn.Module) -> None:
        """Get to know the model that is being trained, for an augmenter that reads its features.

        The model must not become a part of the augmenter: it has an optimizer of its own.
        """

    def canonical(self, x: Images) -> Rendered:
        """What the model sees of inputs where nothing is drawn; most leave them as they are."""
        return x

    def fixed_ranges(self) -> Mapping[str, Sequence[tuple[float, float]]]:
        """By factor, the ends between which each of its parameters is drawn for all inputs."""
        return {}

    @abstractmethod
    def monitor(self, batch: AugmentedBatch) -> Mapping[str, Tensor]:
        """Numbers on the state of learning that are worth a curve; no names, nothing to learn."""

    def wrap(
        self,
        model: nn.Module,
        n_samples: int = 10,
        *,
        merge: Merge = "logit",
        select: Select | None = None,
        replace: bool = False,
        chunk_size: int | None = None,
        output: Output | None = None,
        temperature: float = 1.0,
        certainty: float | None = None,
        mean_views: float | None = None,
    ) -> TestTimeAugmentation:
        """A module that predicts from ``n_samples`` augmented versions of each input.

        Arguments:
            model: Any module; its outputs are merged.
            n_samples: How many views of each input it sees, at most.
            merge: ``"logit"`` averages outputs, ``"probability"`` averages softmax outputs,
                ``"weighted"`` averages outputs with the learned weights of the views.
            select: ``"sample"`` draws, ``"top"`` takes the most representative; the augmenter's
                own choice by default.
            replace: Whether the same box may be drawn twice.
            chunk_size: Most rows per call of the model, which bounds the memory.
            output: Picks the tensor out of what the model returns, such as
                ``lambda o: o["logits"]``.
            temperature: Divides the merged output.
            certainty: Probability of the top class at which an input needs no further view.
            mean_views: Views per input on average over a call; the least certain get more.

        Example:
            >>> from instaaug import InstaAug
            >>> model = nn.Sequential(nn.Flatten(), nn.Linear(768, 10))
            >>> aug = InstaAug("crop")
            >>> predictor = aug.wrap(model, n_samples=10, merge="weighted", certainty=0.95)
            >>> predictor.eval()(torch.rand(4, 3, 16, 16)).shape
            torch.Size([4, 10])
        """
        return TestTimeAugmentation(
            self, model, n_samples, merge=merge, select=select or self.select, replace=replace,
            chunk_size=chunk_size, output=output, temperature=temperature, certainty=certainty,
            mean_views=mean_views,
        )  # fmt: skip

    def plot(
        self,
        x: Tensor,
        n_samples: int = 8,
        *,
        targets: Tensor | None = None,
        titles: Sequence[str] | None = None,
        generator: Generator | None = None,
    ) -> "Figure":
        """A figure of inputs, what may happen to each, and samples; a notebook shows it.

        Arguments:
            x: A few images as the model takes them, or a single one.
            n_samples: Samples of each.
            targets: Labels, for an augmenter that learns per class.
            titles: What to write beside each image.
            generator: Source of randomness.

        Example:
            >>> from instaaug import InstaAug
            >>> figure = InstaAug("crop").plot(torch.rand(2, 3, 32, 32))
            >>> figure.savefig("crops.png")  # doctest: +SKIP
        """
        from instaaug.augmentation.observed import observe
        from instaaug.report.pictures.inputs import draw_inputs

        x = x[None] if x.ndim == 3 else x
        seen = observe(self, x, n_samples, targets=targets, generator=generator)
        return draw_inputs(seen, titles=titles)
