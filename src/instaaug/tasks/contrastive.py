"""Contrastive learning with learned views, fully without labels."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch import distributed as dist
from torch.autograd import Function
from typing_extensions import override

from instaaug.augmentation import Augmenter, HeldOutLearner, InstaAug
from instaaug.errors import ArgumentError, ShapeError
from instaaug.methods.distortions import Distortions
from instaaug.methods.mixing import MixingAugmenter
from instaaug.methods.un_mix import UnMix
from instaaug.networks.encoders import ProjectedEncoder
from instaaug.objectives.nt_xent import NTXent, check_temperature, nt_xent
from instaaug.scores import ContrastTally, Tally
from instaaug.shapes import Images
from instaaug.tasks.representation import Representation
from instaaug.tasks.task import AugmentedTask, check_finite_losses

__all__ = ["ContrastiveTask", "gather_views"]


class ContrastiveTask(AugmentedTask):
    """Trains any encoder to tell two views of an image from all others (SimCLR).

    Both views are independent draws of the augmenter, distorted by fixed transforms. φ minimizes
    the same loss while its entropy stays in its band. Targets in the batches are ignored.
    Several processes compare the views of all of them.

    Arguments:
        encoder: From images to features ``(B, n_features)``.
        augmenter: Any that needs no labels.
        n_features: How many.
        temperature: Of the loss.
        hidden: Width of the projection head.
        n_projected: Length of a projection.
        distortions: Fixed transforms after the augmenter; SimCLR's milder ones by default.
        settings: What :class:`~instaaug.tasks.AugmentedTask` takes.

    References:
        | A Simple Framework for Contrastive Learning of Visual Representations
        | (Chen et al., 2020)
        | https://arxiv.org/abs/2002.05709

    Example:
        >>> from instaaug import InstaAug
        >>> from instaaug.tasks import Optimization
        >>> encoder = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> task = ContrastiveTask(
        ...     encoder,
        ...     InstaAug("crop", baseline="value"),
        ...     n_features=8,
        ...     optimization=Optimization("adam", 1e-3, weight_decay=1e-6),
        ... )
        >>> # lightning.Trainer(max_epochs=500).fit(task, your_loader)
    """

    model: ProjectedEncoder

    def __init__(
        self,
        encoder: nn.Module,
        augmenter: Augmenter,
        *,
        n_features: int,
        temperature: float = 0.5,
        hidden: int = 1024,
        n_projected: int = 128,
        distortions: Distortions | None = None,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
        **settings: Any,
    ) -> None:
        _check_augmenter(augmenter)
        check_temperature(temperature)
        if settings.get("phi_step", "joint") != "joint":
            raise ArgumentError('`phi_step` must be "joint" in contrastive learning.')
        if settings.get("cross_fit") is not None:
            raise ArgumentError(
                "`cross_fit` must be None in contrastive learning, whose loss compares an image "
                "with all others of its batch: got folds. Let φ learn from the training images."
            )
        model = ProjectedEncoder(
            encoder, n_features=n_features, hidden=hidden, n_projected=n_projected
        )
        super().__init__(model, augmenter, mean=mean, std=std, **settings)
        self.temperature = temperature
        self.distortions = distortions or Distortions(mean=mean, std=std)
        self.representations: dict[str, Representation] = {}

    @property
    @override
    def predictor(self) -> nn.Module:
        """The encoder, followed by the linear probe of augmented features if there is one."""
        if not self.representations:
            raise ArgumentError(
                "Nothing has learned classes yet: the encoder alone gives features. Train on "
                "images with labels, to which a linear probe is fitted."
            )
        fitted = self.averaged or self.representations["plain"]
        return nn.Sequential(self.model.encoder, deepcopy(fitted.probe).to(self.mean.device))

    @property
    def averaged(self) -> Representation | None:
        """What was fitted to features of several views: the same of all images, or drawn."""
        return self.representations.get("ordered") or self.representations.get("augmented")

    def views(self, x: Images, generator: Generator) -> Tensor:
        """Two distorted views of every input; all first ones, then all second ones."""
        return self.distortions(self.augmenter(x, 2, generator=generator).inputs, generator)

    @override
    def _learn_plain(self, x: Images, targets: Tensor, generator: Generator) -> None:
        views = self.distortions(x.repeat(2, 1, 1, 1), generator)
        super()._learn_plain(views, targets.repeat(2, *[1] * (targets.ndim - 1)), generator)

    @override
    def _learn_augmented(self, x: Images, targets: Tensor, generator: Generator) -> None:
        batch = self.augmenter(x, 2, generator=generator)
        views = self.distortions(batch.inputs, generator)
        z = self._project(views)
        found, own = self._contrast(z)
        losses, credited = found.losses[:, own], found.credits()[:, own]
        if isinstance(self.augmenter, UnMix):
            credited = losses + self._mixed_losses(self.augmenter, views, z, generator)
        self._learn(self.augmenter.objective(credited.flatten(), batch))
        numbers = {"loss": losses.detach().mean(), "found": found.is_found[:, own].float().mean()}
        self._note({**numbers, **self.augmenter.monitor(batch)})

    def _mixed_losses(
        self, un_mix: UnMix, views: Images, z: Float[Tensor, "2 inputs d"], generator: Generator
    ) -> Float[Tensor, "2 inputs"]:
        """First views mixed with each other: each is compared with the second ones of both."""
        mixed, share = un_mix.mix(views[: len(views) // 2], generator)
        projected = self.model(mixed)
        (one, own), (other, _) = (
            self._contrast(torch.stack([first, z[1]])) for first in (projected, projected.flip(0))
        )
        return share * one.losses[:, own] + (1 - share) * other.losses[:, own]

    def _project(self, views: Images) -> Float[Tensor, "2 inputs d"]:
        return self.model(views).unflatten(0, (2, -1))

    def _contrast(self, z: Float[Tensor, "2 inputs d"]) -> tuple[NTXent, slice]:
        """Views among those of all processes, and which of the inputs are our own."""
        joined, own = gather_views(z)
        found = nt_xent(joined, temperature=self.temperature)
        check_finite_losses(found.losses, step=self.n_steps, epoch=self.current_epoch)
        return found, own

    @override
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of every view, from projections of all first and then all second ones."""
        found, own = self._contrast(outputs.unflatten(0, (2, -1)))
        return found.losses[:, own].flatten()

    @override
    def make_tally(self) -> Tally:
        return ContrastTally()

    @override
    def check_outputs(self, outputs: object, n_inputs: int) -> None:
        got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != n_inputs:
            raise ShapeError(f"`outputs` must be one vector per view, ({n_inputs}, d): got {got}.")

    @override
    def validation_step(self, batch: Sequence[Tensor], batch_idx: int) -> None:
        self.compare_views(batch[0], batch_idx, self.validation_tally)

    @torch.no_grad()
    def compare_views(self, images: Tensor, number: int, tally: Tally) -> None:
        """Count how well two views of each image find one another; always the same views.

        Arguments:
            images: As the data set gives them.
            number: Of the batch.
            tally: Counts.
        """
        words = np.random.SeedSequence([self.seed, number]).generate_state(1, np.uint64)
        generator = Generator(self.mean.device).manual_seed(int(words[0]) >> 1)
        z = self._project(self.views(self.normalize(images.to(self.mean.device)), generator))
        found = nt_xent(z, temperature=self.temperature)
        tally.add(found.losses, found.is_found)


def _check_augmenter(augmenter: Augmenter) -> None:
    """Raise for an augmenter that needs labels, or more than two draws of an input."""
    name = type(augmenter).__name__
    if isinstance(augmenter, HeldOutLearner | MixingAugmenter):
        raise ArgumentError(
            f"`augmenter` must do without labels in contrastive learning: got {name}."
        )
    if not isinstance(augmenter, InstaAug):
        return
    settings = augmenter.settings
    if settings.conditioning == "class":
        raise ArgumentError('`conditioning="class"` needs labels: choose "input" or "none".')
    if settings.estimator == "exact":
        raise ArgumentError(
            '`estimator="exact"` would compare every box of an image with every other: got it in '
            'contrastive learning. Choose "auto".'
        )
    if settings.baseline == "rloo":
        raise ArgumentError(
            '`baseline="rloo"` compares two samples whose loss is one and the same here. Choose '
            '"value".'
        )


def gather_views(z: Float[Tensor, "2 batch d"]) -> tuple[Float[Tensor, "2 joined d"], slice]:
    """Views of the inputs of all processes, in their order, and which of the inputs are our own.

    Processes may have different numbers of inputs. The gradient that reaches a projection is the
    sum of those from the losses of all processes; averaging parameter gradients over processes
    thus gives the gradient of the mean of their losses.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return z, slice(0, z.shape[1])
    counts = torch.zeros(dist.get_world_size(), dtype=torch.long, device=z.device)
    counts[dist.get_rank()] = z.shape[1]
    dist.all_reduce(counts)
    ends = counts.cumsum(dim=0).tolist()
    own = slice(ends[dist.get_rank()] - z.shape[1], ends[dist.get_rank()])
    joined: Tensor = _GatherViews.apply(z, own, ends[-1])  # type: ignore[no-untyped-call]
    return joined, own


class _GatherViews(Function):
    """Every process writes its part into a batch of zeros; all batches are summed."""

    @staticmethod
    @override
    def forward(ctx: Any, z: Tensor, own: slice, n_joined: int) -> Tensor:
        ctx.own = own
        joined = z.new_zeros(z.shape[0], n_joined, z.shape[2])
        joined[:, own] = z
        dist.all_reduce(joined)
        return joined

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total[:, ctx.own], None, None
