"""The base of all tasks: one step trains the model and the augmenter together."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, Literal

import torch
from jaxtyping import Float
from lightning.pytorch import LightningModule
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Generator, Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from typing_extensions import override

from instaaug.augmentation import (
    AugmentedBatch,
    Augmenter,
    HeldOutBatch,
    HeldOutLearner,
    InstaAug,
)
from instaaug.augmentation.at_test_time import TestTimeAugmentation
from instaaug.augmentation.views import Merge, Select
from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError, NonFiniteError
from instaaug.functional.processes import (
    gather_over_processes,
    mean_over_processes,
    step_generator,
)
from instaaug.methods.mixing import CutMix
from instaaug.networks.encoders import PenultimateFeatures
from instaaug.networks.model_interface import evaluation_mode, pick_output
from instaaug.objectives import Usefulness
from instaaug.scores import Tally
from instaaug.shapes import Images
from instaaug.tasks.cross_fit import CrossFit
from instaaug.tasks.loader import BatchLoader
from instaaug.tasks.mixing import FEWEST, KNOWN, KNOWN_UNSEEN, MIXED, mixes, mixing_share
from instaaug.tasks.optimization import Optimization, optimizer_steps, search_steps

__all__ = [
    "AugmentedTask",
    "EpochMeans",
    "PhiStep",
    "add_gradients",
    "check_finite_losses",
    "check_weights",
    "draw_held_out",
]


PhiStep = Literal["joint", "separate"]
PhiGoal = Literal["loss", "usefulness"]
N_COMPARED = 2  # views of each image that is kept from the model: half as many images as a batch
SIGNAL_EVERY = 4  # steps of the model, for one of φ from such images: a forward pass in twelve
PATHWISE_EVERY = 8  # the same where φ's gradient goes back through the model

ADVICE = (
    "Lower `learning_rate`, or bound the gradient by `gradient_clip_val`; the last checkpoint is "
    "from before."
)


class AugmentedTask(LightningModule, ABC):
    """Trains a model and an augmenter together; a subclass says what the loss of an input is.

    Batches are pairs (images, targets); 8-bit images are scaled to [0, 1], then all are
    normalized with ``mean`` and ``std``. Draws depend on the seed, the process and the number of
    the step alone, so that a run can be resumed anywhere.

    Arguments:
        model: The model; it sees augmented, normalized images. Of a dict or a tuple that it
            returns, ``logits`` or the first entry count.
        augmenter: The augmenter; its parameters, if any, are trained too.
        optimization: Of the model.
        phi_optimization: Of the augmenter.
        mean: Per-channel mean to subtract.
        std: Per-channel standard deviation to divide by.
        pretrain_epochs: First epochs, without augmentation.
        finetune_epochs: Last epochs, without augmentation, in which φ does not learn either.
        phi_rest_epochs: Epochs after those in which φ augments but does not learn yet; the
            schedule of its learning rate begins when it does.
        n_samples: Augmented samples of each image in a step.
        flip: Whether images are flipped horizontally at random first.
        vary: What else happens to them then, whatever the augmenter does.
        gradient_clip_val: Largest norm of the model's gradient; 0 for any.
        accumulate_grad_batches: Batches whose gradients are added up for a step; an epoch ends
            with a step, if need be of fewer.
        phi_step: ``"joint"``: one forward and one backward pass serve the model and φ.
            ``"separate"``, as the paper's own code has it: φ learns from a second draw and a
            second pass, after the step of the model and with it in evaluation mode.
        phi_goal: What φ looks for: views with a low ``"loss"``, as in the paper, or with a high
            ``"usefulness"``, those from which the model learns what helps with the images that
            ``cross_fit`` keeps from it.
        held_out: Training images that the model does not see, for an augmenter that learns from
            such.
        backbone: Parameters of the model and of φ whose rate is multiplied by ``backbone_rate`` of
            their optimization.
        cross_fit: Training images that are kept from the model for a while: φ then learns from
            these alone, in steps of its own, with the model in evaluation mode. The loader has to
            leave them out: ``BatchLoader(..., left_out=cross_fit.rows)``.
        mix: Where φ looks for usefulness in a classification: whether views are mixed with those
            of other images, more often the more the model overfits
            (:func:`~instaaug.tasks.mixing.mixing_share`).
        seed: Decides the draws.

    Attributes:
        ordered: Takes views in one order for all images, where that was found to be better at test
            time than to draw them.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        model: nn.Module,
        augmenter: Augmenter,
        *,
        optimization: Optimization | None = None,
        phi_optimization: Optimization | None = None,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
        pretrain_epochs: int = 0,
        finetune_epochs: int = 0,
        phi_rest_epochs: int = 0,
        n_samples: int = 1,
        flip: bool = False,
        vary: Augmenter | None = None,
        gradient_clip_val: float = 0.0,
        accumulate_grad_batches: int = 1,
        phi_step: PhiStep = "joint",
        phi_goal: PhiGoal = "loss",
        held_out: LabeledImages | None = None,
        cross_fit: CrossFit | None = None,
        backbone: Iterable[nn.Parameter] = (),
        mix: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if min(std) <= 0:
            raise ArgumentError(f"`std` must be positive: got {tuple(std)}.")
        self.automatic_optimization = False  # two optimizers take their steps together
        model = augmenter.adapt(model)
        self.model, self.augmenter = model, augmenter
        self.ordered: InstaAug | None = None
        augmenter.attach(model)
        self.optimization = optimization or Optimization(weight_decay=5e-4, schedule="one_cycle")
        self.phi_optimization = phi_optimization or Optimization("adam", 1e-3)
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1), persistent=False)
        self.pretrain_epochs, self.finetune_epochs = pretrain_epochs, finetune_epochs
        self.phi_rest_epochs = phi_rest_epochs
        self.n_samples, self.flip, self.vary = n_samples, flip, vary
        self.gradient_clip_val, self.seed = gradient_clip_val, seed
        self.accumulate_grad_batches = accumulate_grad_batches
        self.phi_step: PhiStep = phi_step
        self.held_out, self.cross_fit = held_out, cross_fit
        self._backbone = tuple(backbone)
        self.features = PenultimateFeatures(model) if phi_goal == "usefulness" else None
        self.usefulness: Usefulness | None = None
        if self.features is not None:
            self._check_goal()
            head = self.features.head
            self.usefulness = Usefulness(head.out_features, head.in_features)
        self.mix, self.mixer = mix, CutMix()
        self.validation_tally = self.make_tally()
        self.n_steps = 0
        self._ends_step = True
        self.latest: dict[str, Tensor] = {}
        self.epoch = EpochMeans()
        self.history: list[dict[str, float | int]] = []
        self._resumed: dict[str, Any] | None = None

    @abstractmethod
    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """One loss per input."""

    @abstractmethod
    def make_tally(self) -> Tally:
        """An empty tally of the scores that matter."""

    @abstractmethod
    def check_outputs(self, outputs: object, n_inputs: int) -> None:
        """Raise unless the model's outputs have the shape that the targets need."""

    def normalize(self, x: Tensor) -> Images:
        """Images as the augmenter and the model see them: floating point, normalized."""
        if not x.is_floating_point():
            x = x.to(self.mean.dtype).div_(255)
        return (x - self.mean) / self.std

    @property
    def predictor(self) -> nn.Module:
        """The module that predicts once training is over."""
        return self.model

    def wrap_views(
        self,
        n_views: int,
        *,
        model: nn.Module | None = None,
        merge: Merge | None = None,
        select: Select = "sample",
        replace: bool = False,
        certainty: float | None = None,
    ) -> TestTimeAugmentation:
        """What predicts from several views: in one order for all images, or drawn.

        Arguments:
            n_views: How many, at most.
            model: What sees views, in place of what predicts.
            merge: How outputs for views become one; the augmenter's own choice by default. Views
                are drawn if it is not the way that goes with their order.
            select: How drawn views are chosen.
            replace: Whether the same view may be drawn twice.
            certainty: Probability of the top class at which an image needs no further view.
        """
        if self.ordered is not None and merge in (None, self.ordered.merge):
            return self.ordered.wrap(model or self.predictor, n_views, certainty=certainty)
        return self.augmenter.wrap(
            model or self.predictor, n_views, merge=merge, select=select, replace=replace,
            certainty=certainty,
        )  # fmt: skip

    @override
    def forward(self, x: Tensor) -> Tensor:
        outputs = pick_output(self.predictor(self.augmenter.canonical(self.normalize(x))))
        assert isinstance(outputs, Tensor)  # noqa: S101  # training has checked it
        return outputs

    @override
    def configure_optimizers(self) -> Any:
        made = []
        for optimization, module in self._optimized_modules():
            n_steps = self._count_steps(module)
            optimizer = optimization.make_optimizer(module.parameters(), self._backbone)
            made.append((optimizer, optimization.make_schedule(optimizer, n_steps)))
        return [optimizer for optimizer, _ in made], [schedule for _, schedule in made]

    @property
    def _phi_starts(self) -> int:
        """The first epoch in which φ learns."""
        return self.pretrain_epochs + self.phi_rest_epochs

    def _count_steps(self, module: nn.Module) -> int:
        """Steps of the optimizer of a module; the last one of an epoch may have fewer batches."""
        first = 0 if module is self.model else self._phi_starts
        if module is not self.model and self.period > 1:
            end = None if self.cross_fit is None else self.cross_fit.end
            counted = search_steps(self.trainer, first, every=self.period, end=end)
        else:
            counted = optimizer_steps(self.trainer, first, accumulate=self.accumulate_grad_batches)
        if counted is None:
            for optimization, _ in self._optimized_modules():
                optimization.check_unknown_length()
        return counted or 0

    def _optimized_modules(self) -> list[tuple[Optimization, nn.Module]]:
        both = [(self.optimization, self.model), (self.phi_optimization, self.augmenter)]
        return [(o, m) for o, m in both if any(p.requires_grad for p in m.parameters())]

    @override
    def training_step(self, batch: Sequence[Tensor], batch_idx: int) -> None:
        x, targets = batch[0], batch[1]
        generator = self._generator()
        x = self._prepare(x, generator)
        is_whole = (batch_idx + 1) % self.accumulate_grad_batches == 0
        self._ends_step = is_whole or self.trainer.is_last_batch
        learn = self._learn_plain if self.sees_whole_images else self._learn_augmented
        learn(x, targets, generator)
        self.n_steps += 1

    @property
    def sees_whole_images(self) -> bool:
        """Whether the model learns without augmentation in this epoch."""
        n_epochs = self.trainer.max_epochs or -1  # -1 where nobody knows
        first = n_epochs - self.finetune_epochs if n_epochs > 0 else inf
        return self.current_epoch < self.pretrain_epochs or self.current_epoch >= first

    def _prepare(self, x: Tensor, generator: Generator) -> Images:
        """Images with what happens to them before they are augmented."""
        x = self.normalize(x)
        if self.flip:
            mirrored = torch.rand(len(x), 1, 1, 1, generator=generator, device=x.device) < 0.5
            x = torch.where(mirrored, x.flip(3), x)
        return x if self.vary is None else self.vary(x, generator=generator).inputs

    def losses_of_views(
        self, x: Tensor, targets: Tensor, generator: Generator, *, whole: bool = False
    ) -> Tensor:
        """Losses of the model, as it is in training, on views from which φ does not learn.

        Arguments:
            x: Images, as the data set gives them.
            targets: What they show.
            generator: Source of randomness.
            whole: Whether whole images take the place of views.
        """
        x = self._prepare(x, generator)
        if whole:
            return self._plain_losses(x, targets)
        with torch.no_grad():
            batch = self.augmenter(x, self.n_samples, generator=generator, targets=targets)
        return self.augmenter.losses(self.model, batch, self._losses)

    def _plain_losses(self, x: Images, targets: Tensor) -> Tensor:
        return self._losses(self.model(self.augmenter.canonical(x)), targets)

    def _learn_plain(self, x: Images, targets: Tensor, _: Generator) -> None:
        losses = self._plain_losses(x, targets)
        self._learn(losses.mean())
        self._note({"loss": losses.detach().mean()})

    def _check_goal(self) -> None:
        """Raise unless φ can learn from what views are worth to other images."""
        aug = self.augmenter
        if self.cross_fit is None:
            raise ArgumentError(
                "`phi_goal` usefulness needs images that are kept from the model, for what helps "
                "with known ones is what is known already: got `cross_fit` None. Make one, or "
                "choose loss."
            )
        if not isinstance(aug, InstaAug) or aug.finite != aug.phi.names:
            raise ArgumentError(
                "`phi_goal` usefulness is for an InstaAug that chooses from a table, as crops do: "
                f"got {type(aug).__name__}, whose gradient goes through the image. Choose loss."
            )
        if aug.settings.estimator != "closed_form" or self.phi_step == "separate":
            raise ArgumentError(
                "`phi_goal` usefulness needs the closed form, and views that the model learns "
                f"from: got estimator {aug.settings.estimator!r} and phi_step "
                f"{self.phi_step!r}. Choose 'closed_form' and 'joint'."
            )

    def _learn_augmented(self, x: Images, targets: Tensor, generator: Generator) -> None:
        if self.usefulness is not None:
            self._learn_from_usefulness(self.usefulness, x, targets, generator)
            return
        separate = self.phi_step == "separate" or self.cross_fit is not None
        with torch.set_grad_enabled(not separate):
            batch = self.augmenter(x, self.n_samples, generator=generator, targets=targets)
        searched: Mapping[str, Tensor] = {}
        if isinstance(self.augmenter, HeldOutLearner):
            searched = self._search(self.augmenter, batch, generator)
        losses = self.augmenter.losses(self.model, batch, self._losses)
        self._learn(losses.mean() if separate else self.augmenter.objective(losses, batch))
        if self.cross_fit is not None:
            searched = self._learn_phi_from(self.cross_fit, len(x), generator)
        elif separate:
            batch = self._learn_phi(x, targets, generator)
        numbers = {**self.augmenter.monitor(batch), **searched}
        self._note({"loss": losses.detach().mean(), **numbers})

    def _learn_from_usefulness(
        self, usefulness: Usefulness, x: Images, targets: Tensor, generator: Generator
    ) -> None:
        """A step in which φ looks for views that help with other images, unless these are mixed.

        Of a view in which there is another image, nobody could say what it is worth.
        """
        assert self.cross_fit is not None  # noqa: S101  # it was checked
        asks = self.current_epoch < self.cross_fit.end
        is_mixed = self.mix and mixes(
            mixing_share(self.history), seed=self.seed, step=self.n_steps
        )
        learns = asks and not is_mixed
        with torch.set_grad_enabled(learns):
            batch = self.augmenter(x, self.n_samples, generator=generator, targets=targets)
        assert batch.targets is not None  # noqa: S101  # they were given
        numbers = {MIXED: x.new_full((), float(is_mixed))} if self.mix else {}
        if is_mixed:
            mixed = self.mixer(batch.inputs, generator=generator, targets=batch.targets)
            losses = self.mixer.losses(self.model, mixed, self._losses)
        else:
            losses, outputs, residuals, features = self._losses_and_gradient(
                batch.inputs, batch.targets
            )
            useful = usefulness(residuals, features)
            if self.mix:
                numbers[KNOWN] = mean_probability(outputs, batch.targets)
        if not learns:
            objective = losses.mean()
        else:
            assert isinstance(self.augmenter, InstaAug)  # noqa: S101  # it was checked
            objective = self.augmenter.objective(losses, batch, signal=-useful)
        self._learn(objective)
        if asks and self.n_steps % SIGNAL_EVERY == 0:
            kept = self.cross_fit.images(self.current_epoch)
            others = self._ask_others(usefulness, kept, -(-len(x) // 2), generator)
            if self.mix and len(kept) >= FEWEST:
                numbers[KNOWN_UNSEEN] = mean_probability(*others)
        numbers |= self.augmenter.monitor(batch)
        self._note({"loss": losses.detach().mean(), **numbers})

    def _ask_others(
        self, usefulness: Usefulness, kept: LabeledImages, n_images: int, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Let images that are kept from the model say what they need, with random views.

        Asked with whole images, φ would draw but large boxes.

        Returns:
            Outputs for these views, and their targets.
        """
        x, targets = draw_held_out(kept, n_images, generator, self.device)
        x = self._prepare(x, generator)
        assert isinstance(self.augmenter, InstaAug)  # noqa: S101  # it was checked
        views = self.augmenter.uninformed_views(x, generator)
        with evaluation_mode(self.model):
            _, outputs, residuals, features = self._losses_and_gradient(views, targets)
        usefulness.update(residuals, features)
        return outputs, targets

    def _losses_and_gradient(
        self, x: Images, targets: Tensor
    ) -> tuple[Tensor, Tensor, Float[Tensor, "n c"], Float[Tensor, "n d"]]:
        """Losses, outputs, and the gradient of each in the last layer: residuals and features."""
        assert self.features is not None  # noqa: S101  # made along with what asks for them
        features, outputs = self.features.with_outputs(x)
        losses = self._losses(outputs, targets)
        (residuals,) = torch.autograd.grad(losses.sum(), outputs, retain_graph=True)
        return losses, outputs.detach(), residuals.reshape(len(x), -1), features.detach()

    def _learn_phi(self, x: Images, targets: Tensor, generator: Generator) -> AugmentedBatch:
        """φ's own pass: another draw, and the model as it is in evaluation."""
        batch, losses = self._phi_losses(x, targets, self.n_samples, generator)
        objective = self.augmenter.objective(losses, batch)
        add_gradients(objective / self.accumulate_grad_batches, self.augmenter)
        if self._ends_step:
            self._step(self.augmenter)
        return batch

    def _learn_phi_from(
        self, cross_fit: CrossFit, batch_size: int, generator: Generator
    ) -> Mapping[str, Tensor]:
        """A step of φ, every few steps, from images that are kept from the model."""
        learns = self._phi_starts <= self.current_epoch < cross_fit.end
        if not learns or self.n_steps % self.period:
            return {}
        kept, n_images = cross_fit.images(self.current_epoch), -(-batch_size // N_COMPARED)
        x, targets = draw_held_out(kept, n_images, generator, self.device)
        x = self._prepare(x, generator)
        batch, losses = self._phi_losses(x, targets, N_COMPARED, generator)
        add_gradients(self.augmenter.objective(losses, batch), self.augmenter)
        self._step(self.augmenter)
        return {"phi_loss": losses.detach().mean()}

    def _phi_losses(
        self, x: Images, targets: Tensor, n_samples: int, generator: Generator
    ) -> tuple[AugmentedBatch, Tensor]:
        """Losses of the model in evaluation mode; forward only where φ needs no more."""
        batch = self.augmenter(x, n_samples, generator=generator, targets=targets)
        pathwise = batch.inputs.requires_grad
        with evaluation_mode(self.model), torch.set_grad_enabled(pathwise):
            return batch, self.augmenter.losses(self.model, batch, self._losses)

    @property
    def period(self) -> int:
        """Steps after which the work of a step repeats, for φ may learn every few steps only."""
        augmenter = self.augmenter
        if isinstance(augmenter, HeldOutLearner):
            return augmenter.search_every
        if self.cross_fit is None or self.usefulness is not None:
            return 1
        finite = isinstance(augmenter, InstaAug) and augmenter.finite == augmenter.phi.names
        return SIGNAL_EVERY if finite else PATHWISE_EVERY

    def _search(
        self, augmenter: HeldOutLearner, batch: AugmentedBatch, generator: Generator
    ) -> Mapping[str, Tensor]:
        """A step of an augmenter that learns from images which the model does not train on."""
        if self.n_steps % augmenter.search_every or self.current_epoch < self._phi_starts:
            return {}
        x, targets = draw_held_out(self.held_out, batch.batch_size, generator, self.device)
        held_out = HeldOutBatch(self.normalize(x), targets)
        objective = augmenter.search_objective(
            self.model, batch, held_out, self.losses, generator=generator
        )
        add_gradients(objective, augmenter)
        self._step(augmenter)
        return {"search_loss": objective.detach()}

    def _learn(self, objective: Tensor) -> None:
        """The backward pass and the step of the model, and of φ unless φ has its own step."""
        self.manual_backward(objective / self.accumulate_grad_batches)
        if isinstance(self.augmenter, HeldOutLearner):
            self.augmenter.zero_grad()
        if self._ends_step:  # no gradient is left over at the end of an epoch
            self._step(*([self.model] if self._phi_has_own_step else [self.model, self.augmenter]))

    @property
    def _phi_has_own_step(self) -> bool:
        separate = self.phi_step == "separate" or self.cross_fit is not None
        return (separate and self.usefulness is None) or isinstance(self.augmenter, HeldOutLearner)

    def _losses(self, returned: Any, targets: Tensor) -> Tensor:
        outputs: Any = pick_output(returned)
        self.check_outputs(outputs, len(targets))
        losses = self.losses(outputs, targets)
        check_finite_losses(losses, step=self.n_steps, epoch=self.current_epoch)
        return losses

    def _generator(self) -> Generator:
        return step_generator(
            self.seed, rank=self.global_rank, step=self.n_steps, device=self.device
        )

    def _step(self, *learning: nn.Module) -> None:
        """Let optimizers of some modules take a step; φ's gradient is dropped while it rests."""
        optimizers, schedules = _as_list(self.optimizers()), _as_list(self.lr_schedulers())
        resting = self.current_epoch < self._phi_starts or self.sees_whole_images
        for (optimization, module), optimizer, schedule in zip(
            self._optimized_modules(), optimizers, schedules, strict=True
        ):
            assert isinstance(optimizer, LightningOptimizer)  # noqa: S101  # not fabric's
            if module not in learning:
                continue
            if module is self.model and self.gradient_clip_val:
                nn.utils.clip_grad_norm_(module.parameters(), self.gradient_clip_val)
            if resting and module is not self.model:
                optimizer.zero_grad()
                continue
            optimizer.step()
            optimizer.zero_grad()
            if optimization.schedule != "plateau":
                schedule.step()

    def _note(self, numbers: Mapping[str, Tensor]) -> None:
        self.latest = dict(numbers)
        self.epoch.add(numbers)
        self.log_dict({f"train/{k}": v for k, v in numbers.items()}, on_step=True, on_epoch=False)

    @override
    def on_train_epoch_start(self) -> None:
        self.validation_tally.reset()  # an epoch without validation has no scores

    @override
    def on_validation_epoch_start(self) -> None:
        self.validation_tally.reset()

    @override
    def validation_step(self, batch: Sequence[Tensor], batch_idx: int) -> None:
        self.validation_tally.add(self(batch[0]), batch[1])

    @override
    def on_validation_epoch_end(self) -> None:
        self.validation_tally.add_other_processes()

    @override
    def on_train_epoch_end(self) -> None:
        row: dict[str, float | int] = {"epoch": self.current_epoch, "step": self.n_steps}
        row |= {f"train/{name}": mean for name, mean in self.epoch.means().items()}
        check_weights(self, row.values(), epoch=self.current_epoch)
        row |= {
            "learning_rate" if i == 0 else "phi_learning_rate": o.param_groups[0]["lr"]
            for i, o in enumerate(_as_list(self.optimizers()))
        }
        scores = self.validation_tally.scores()
        if scores.pop("n"):
            row |= {f"validation/{name}": value for name, value in scores.items()}
        self.epoch = EpochMeans()
        self.history.append(row)
        self.log_dict(
            {k: torch.tensor(v) for k, v in row.items() if k.startswith("validation/")},
            rank_zero_only=True,
        )
        self._step_plateaus(row)

    def _step_plateaus(self, row: Mapping[str, float | int]) -> None:
        """Watch the share of wrong answers, as the paper does.

        The likelihood of a classifier that begins to overfit falls while its accuracy still rises.
        """
        watched = row.get("validation/rmse", row.get("validation/nll", row["train/loss"]))
        if "validation/top1" in row:
            watched = 1 - row["validation/top1"]
        for schedule in _as_list(self.lr_schedulers()):
            if isinstance(schedule, ReduceLROnPlateau):
                schedule.step(watched)

    @override
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        loader = self.trainer.train_dataloader
        checkpoint["progress"] = {
            "n_steps": self.n_steps,
            "epoch_sums": self.epoch.sums,
            "epoch_counts": self.epoch.counts,
            "history": self.history,
            "random_state": gather_over_processes(torch.get_rng_state().to(self.device)).cpu(),
            "loader": loader.state_dict() if isinstance(loader, BatchLoader) else None,
        }

    @override
    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        progress = checkpoint["progress"]
        self.n_steps = progress["n_steps"]
        self.epoch = EpochMeans(dict(progress["epoch_sums"]), dict(progress["epoch_counts"]))
        self.history = list(progress["history"])
        self._resumed = {key: progress[key] for key in ("random_state", "loader")}

    @override
    def on_train_start(self) -> None:
        """Go on in the same order, and with the same dropout, as if never interrupted."""
        if self._resumed is None:
            return
        states = torch.atleast_2d(self._resumed["random_state"])
        if len(states) != self.trainer.world_size:
            raise ArgumentError(
                "`trainer.devices` and `trainer.num_nodes` must be those that the run began with: "
                f"its checkpoint is of {len(states)} processes, and there are now "
                f"{self.trainer.world_size}. Restore them, or begin a new run."
            )
        torch.set_rng_state(states[self.global_rank].clone())  # torch cannot take a row of a table
        loader = self.trainer.train_dataloader
        if isinstance(loader, BatchLoader):  # Lightning restores others
            loader.load_state_dict(self._resumed["loader"])
        self._resumed = None


def _as_list(things: Any) -> list[Any]:
    return things if isinstance(things, list) else [] if things is None else [things]


def check_finite_losses(losses: Tensor, *, step: int, epoch: int) -> None:
    """Raise if a loss is NaN or infinite; an accelerator is checked once per epoch."""
    if losses.device.type == "cpu" and not torch.isfinite(losses.detach().sum()):
        raise NonFiniteError(
            f"The loss became NaN or infinite in step {step} (epoch {epoch}). {ADVICE}"
        )


def check_weights(module: nn.Module, numbers: Iterable[float | int], *, epoch: int) -> None:
    """Raise if a parameter, or a number that describes the epoch, is NaN or infinite."""
    finite = all(torch.isfinite(p.detach()).all() for p in module.parameters())
    if not finite or not all(map(isfinite, numbers)):
        raise NonFiniteError(
            f"Weights or losses became NaN or infinite in epoch {epoch}. {ADVICE}"
        )


@dataclass
class EpochMeans:
    """Sums of what steps report; a number that some steps lack is averaged over the others.

    Nothing waits for the device until :meth:`means` is called.

    Arguments:
        sums: By name, so far.
        counts: How many steps reported each.

    Example:
        >>> epoch = EpochMeans()
        >>> epoch.add({"loss": torch.tensor(2.0)})
        >>> epoch.add({"loss": torch.tensor(1.0), "entropy": torch.tensor(3.0)})
        >>> epoch.means()
        {'loss': 1.5, 'entropy': 3.0}
    """

    sums: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, numbers: Mapping[str, Tensor]) -> None:
        """Count a step."""
        for name, value in numbers.items():
            number = value.detach().float()  # a sum in half precision would soon stand still
            self.sums[name] = self.sums.get(name, torch.zeros_like(number)) + number
            self.counts[name] = self.counts.get(name, 0) + 1

    def means(self) -> dict[str, float]:
        """Means over the steps and over all processes."""
        if not self.sums:
            return {}
        means = torch.stack([total / self.counts[n] for n, total in self.sums.items()])
        return dict(zip(self.sums, mean_over_processes(means).tolist(), strict=True))


def mean_probability(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean probability of the right class."""
    return logits.float().softmax(dim=1).gather(1, targets[:, None]).mean()


def draw_held_out(
    held_out: LabeledImages | None, n_images: int, generator: Generator, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Held-out images and targets without replacement; all of them if there are no more."""
    if not held_out:
        raise ArgumentError(
            "`held_out` must be images for the augmenter to learn from: got none. Keep a tenth of "
            "the training images from the model."
        )
    order = torch.randperm(len(held_out), generator=generator, device=generator.device)
    x, targets = held_out.__getitems__(order[:n_images].tolist())
    return x.to(device), targets.to(device)


def add_gradients(objective: Tensor, module: nn.Module) -> None:
    """Add the gradient of ``objective`` to that of the module's parameters, and to no others.

    The mean over all processes: these passes are not among those that Lightning averages.
    """
    learned = [p for p in module.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(objective, learned, materialize_grads=True)
    for parameter, gradient in zip(learned, gradients, strict=True):
        mean = mean_over_processes(gradient)
        parameter.grad = mean if parameter.grad is None else parameter.grad + mean
