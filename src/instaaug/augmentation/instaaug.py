"""InstaAug: learned, instance-specific augmentation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation import checks, hub, weights_file
from instaaug.augmentation.augmenter import AugmentedBatch, Augmenter
from instaaug.augmentation.baseline_heads import BaselineHeads
from instaaug.augmentation.entropy_parts import EntropyParts, Per
from instaaug.augmentation.plan import PlanShape, ResizedImage, ViewPlan
from instaaug.augmentation.settings import (
    Estimator,
    InstaAugSettings,
    Ranges,
    Sizes,
    as_composition,
    auto_baseline,
)
from instaaug.augmentation.stopping import StopRule
from instaaug.augmentation.views import Merge, Select, Views, choose_views, other_choices
from instaaug.distributions import CategoricalTheta, Joint, Samples
from instaaug.errors import ArgumentError
from instaaug.functional.warp import PaddingMode
from instaaug.networks import FeatureNetwork, FrozenFeatures, ModelMaps, make_network
from instaaug.networks.model_interface import Output, pick_output
from instaaug.objectives import (
    Band,
    Baseline,
    EntropyBand,
    Rule,
    ScoreFactor,
    closed_form_risk,
    exact_risk,
    score_risk,
)
from instaaug.parameterizations import (
    CategoricalFamily,
    ClosedFormFamily,
    Conditioning,
    CropGrid,
    Family,
    InvarianceModule,
    LatentFamily,
    LooseBoxes,
    Undoing,
    base_measure,
    make_family,
    near_base,
)
from instaaug.shapes import Images, Maps, Matrices, Rendered, Rows, repeat_batch
from instaaug.spaces import Boxes, Choices, Interval, Space
from instaaug.transforms import Composition, Transform

__all__ = ["InstaAug"]


Shifts = Mapping[str, Float[Tensor, "batch _"]] | None

UNDOING_NETWORK = "glance"
CONDITIONS = {
    "input": "learns per input",
    "none": "learns one for all",
    "class": "learns per class",
}


class InstaAug(Augmenter):
    r"""Learns for every input which transforms are safe, and draws from them.

    .. math:: J = \mathbb{E}\,[\ell(f(\tau(x; \theta)), y)] - \sum_k \lambda_k\,
    \mathbb{E}[H_k(x)],
              \qquad \theta \sim p(\theta \mid x)

    One forward and one backward pass of the model serve the model and φ. Factors with a pathwise
    gradient (rotation, color) learn through the transform; finite ones (crops, flips) by the
    score function. λ keeps the mean entropy of each factor in its band.

    Arguments:
        transforms: What may happen: a transform, a name, or a list of them.
        diversity: The band as the effective share of the transform space: a pair for all factors,
            or pairs by factor name. Without any band, crops get the paper's best, and intervals a
            quarter to three quarters of each range (colors: a quarter to a half).
        entropy: The band in nats, instead.
        per: What has a band of its own: each ``"side"`` of a range, below and above doing
            nothing, so that neither vanishes; each ``"parameter"``; each ``"factor"``; or their
            ``"total"``, as in the paper. A band of a factor is one of all of its sides.
        conditioning: What θ depends on: ``"input"``; ``"none"``, one distribution for all
            (ablation); ``"class"``, one per class (ablation).
        network: Features for φ: a name, such as ``"glance"``, ``"pyramid"`` or
            ``"preact_resnet18_bn"``; ``"model"``, the maps of the model that :meth:`attach` is
            given, for an input of half the size; or any module that returns a list of maps.
        width: Multiplies the channels of a named network.
        in_channels: Channels of the images.
        num_classes: Needed for ``conditioning="class"``.
        grid: Boxes that take the place of the levels of crops; those of local transforms only
            where nothing is cropped.
        estimator: ``"auto"`` takes the pathwise gradient where there is one and the score
            function elsewhere; ``"pathwise"`` and ``"score"`` insist; ``"exact"`` tries every
            choice of a single finite factor; ``"closed_form"`` learns to predict the loss of every
            choice of finite factors and takes the best distribution for it, with λ solved for.
        baseline: What the score function subtracts: ``"none"``, ``"batch"``, ``"value"``,
            ``"rloo"`` (two samples or more) or ``"critic"``. ``"auto"`` is ``"value"`` where φ
            reads the input and finite factors are sampled, else ``"batch"``; ``"rloo"`` for the
            closed form, which does with a single sample as well.
        sizes: Whether the closed form learns which sizes of boxes to draw, ``"learned"``, or draws
            all of them equally often and learns where, ``"uniform"``.
        ranges: How values are drawn from ranges: ``"uniform"``, between two learned ends; or
            ``"latent"``, decoded from a Gaussian latent variable by a network that all inputs
            share (ablation). Such a factor has one band, whatever ``per`` says.
        rule: How λ moves: ``"pi"``, ``"multiplicative"`` or ``"fixed"``.
        weight: λ at the start.
        factor: What the multiplicative rule multiplies or divides λ by in a step.
        mean: Per-channel mean the images were normalized with; color transforms work on them
            without.
        std: Per-channel standard deviation they were normalized with.
        padding_mode: What lies outside of the image.
        size: Side, or height and width, of what the model sees; the input's own by default.
            Crops of an input up to twice as large keep its detail.
        loose: Whether boxes of crops move and change their size a little in training, as far as
            half-way to their neighbors, so that the model meets all places and sizes. What φ
            learns, and views at test time, are those of the grid.
        undo: Share of the ranges of colors, from 0 to 1, by which inputs are changed at random in
            training, before anything else, so that a network learns to undo the change. At test
            time it undoes what it finds, such as another light, and ranges lie around that point.
            Above 0, the model cannot tell apart inputs that differ only by such a change.
        keep_original: Whether the first view at test time is the input as it is, but undone.
        select: How views are chosen at test time unless :meth:`wrap` says otherwise.
        merge: How their outputs are merged unless :meth:`wrap` says otherwise.
        sharpness: How much confidence counts where outputs are merged by it.

    References:
        | Learning Instance-Specific Augmentations by Capturing Local Invariances
        | (Miao et al., 2023)
        | https://arxiv.org/abs/2206.00051

    Example:
        >>> from instaaug.transforms import Crop
        >>> aug = InstaAug(Crop(), diversity=(0.06, 0.10))
        >>> aug
        InstaAug(
          crop: 321 boxes (16×16 of 0.375, 8×8 of 0.75, whole), entropy in [2.96, 3.47] of 5.77
              nats, λ = 0.1
          learns per input with glance (14,129 parameters), score function with value baseline, λ
          by the pi rule
        )
        >>> batch = aug(torch.rand(2, 3, 64, 64), n_samples=4)
        >>> batch.inputs.shape, batch.theta.shape
        (torch.Size([8, 3, 64, 64]), torch.Size([4, 2, 4]))
    """

    learns_from_training_loss = True

    plan: ViewPlan | None
    """What a fit for a frozen model found out for all inputs."""

    validation: Any = None
    """What the cross-validation of a fit for a frozen model found; it is not saved."""

    def __init__(
        self,
        transforms: Transform | str | Sequence[Transform | str],
        *,
        diversity: Band | Mapping[str, Band] | None = None,
        entropy: Band | Mapping[str, Band] | None = None,
        per: Per = "side",
        conditioning: Conditioning = "input",
        network: str | FeatureNetwork = "glance",
        width: float = 1.0,
        in_channels: int = 3,
        num_classes: int | None = None,
        grid: CropGrid | None = None,
        estimator: Estimator = "auto",
        baseline: Baseline | Literal["auto"] = "auto",
        sizes: Sizes = "learned",
        ranges: Ranges = "uniform",
        rule: Rule = "pi",
        weight: float = 0.1,
        factor: float = 1.01,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
        loose: bool = False,
        undo: float = 0.0,
        keep_original: bool = False,
        select: Select = "sample",
        merge: Merge = "logit",
        sharpness: float = 1.0,
    ) -> None:
        super().__init__()
        transform = as_composition(transforms, mean=mean, std=std, size=size)
        if baseline == "auto":
            baseline = auto_baseline(transform, conditioning, estimator)
        self._build(
            InstaAugSettings(
                transform=transform,
                entropy=entropy,
                diversity=diversity,
                per=per,
                conditioning=conditioning,
                network=network if isinstance(network, str) else "own",
                width=width,
                in_channels=in_channels,
                num_classes=num_classes,
                grid=grid,
                estimator=estimator,
                baseline=baseline,
                sizes=sizes,
                ranges=ranges,
                rule=rule,
                weight=weight,
                factor=factor,
                padding_mode=padding_mode,
                loose=loose,
                undo=undo,
                keep_original=keep_original,
                select=select,
                merge=merge,
                sharpness=sharpness,
            ),
            None if isinstance(network, str) else network,
        )

    @classmethod
    @override
    def build(
        cls, context: Mapping[str, Any], options: Mapping[str, Any] | None = None
    ) -> "Augmenter":
        """Construct the augmenter; ``num_classes`` is used only with ``conditioning="class"``."""
        given = {**context, **(options or {})}
        if given.get("conditioning") != "class":
            context = {k: v for k, v in context.items() if k != "num_classes"}
        return super().build(context, options)

    @override
    def set_merging(self, merge: Merge, sharpness: float = 1.0, calibration: float = 1.0) -> None:
        super().set_merging(merge, sharpness, calibration)
        self.settings: InstaAugSettings = replace(
            self.settings, merge=merge, sharpness=sharpness, calibration=calibration
        )

    @torch.no_grad()
    def set_dependence(self, dependence: float, batches: Iterable[Tensor] | None = None) -> None:
        """Change how much the distribution depends on the input at test time, from 0 to 1.

        Views follow it; :meth:`distribution` shows what was learned unless it is told otherwise.

        Arguments:
            dependence: At 0 all inputs get the same distribution, at 1 that which was learned.
            batches: Inputs whose average is what all share; as before if absent.
        """
        if batches is not None and self.settings.conditioning == "input":
            found = [
                self.phi.raw(self.phi.features(self._resize(x)), None, len(x)) for x in batches
            ]
            self.phi.set_shared([torch.cat(rows) for rows in zip(*found, strict=True)])
        self.phi.set_dependence(dependence)

    def set_plan(self, shape: PlanShape) -> ViewPlan:
        """Give the augmenter an empty plan of views, for a fit to fill in."""
        self.settings = replace(self.settings, plan=shape)
        plan = ViewPlan(shape).to(next(self.parameters()).device)
        self.plan = plan
        return plan

    @property
    @override
    def stop_rule(self) -> StopRule | None:
        return None if self.plan is None else self.plan.stop

    @property
    @override
    def preview(self) -> ResizedImage | None:
        return None if self.plan is None else self.plan.preview

    @property
    @override
    def whole(self) -> ResizedImage | None:
        return None if self.plan is None else self.plan.whole

    @property
    @override
    def recommended_views(self) -> int:
        found = 0 if self.plan is None else self.plan.shape.n_views
        return found or super().recommended_views

    @override
    def resize(self, x: Images, size: int) -> Rendered:
        return self._undone(x, replace(self.transform, size=(size, size)))

    def other_choices(self, joint: Joint) -> CategoricalTheta:
        """The distribution over views other than the input as it is, ranked by the plan if any."""
        return other_choices(joint, self.transform.identity(), self.plan)

    def _build(self, settings: InstaAugSettings, network: FeatureNetwork | None) -> None:
        self.settings = settings
        self.transform, self.select = settings.transform, settings.select
        self.merge, self.sharpness = settings.merge, settings.sharpness
        self.calibration = settings.calibration
        spaces = self.transform.spaces
        grids = {
            name: settings.given_grid(space) or CropGrid.of(space)
            for name, space in spaces.items()
            if isinstance(space, Boxes)
        }
        families = {
            name: LatentFamily(space)
            if settings.ranges == "latent" and isinstance(space, Interval)
            else make_family(space, grids.get(name))
            for name, space in spaces.items()
        }
        self.finite = tuple(name for name, family in families.items() if family.is_finite)
        bases = self._base_measures(families, grids)
        self.parts = EntropyParts(
            families,
            spaces,
            per=settings.per,
            entropy=settings.entropy,
            diversity=settings.diversity,
            defaults={name: near_base(base) for name, base in bases.items()},
        )
        self.limits = self.parts.limits
        checks.check_estimator(
            settings.estimator,
            n_finite=len(self.finite),
            n_factors=len(families),
            jitter=any(isinstance(s, Boxes) and s.jitter for s in spaces.values()),
        )
        families |= {
            name: self._in_closed_form(name, families[name], base, grids.get(name))
            for name, base in bases.items()
        }
        if network is None and settings.conditioning == "input" and settings.network == "model":
            network = ModelMaps(settings.in_channels, width=settings.width)
        elif network is None and settings.conditioning == "input":
            network = make_network(
                settings.network, in_channels=settings.in_channels, width=settings.width
            )
        self.phi = InvarianceModule(
            families,
            grids,
            start={name: (low + high) / 2 for name, (low, high) in self.limits.items()},
            network=network,
            in_channels=settings.in_channels,
            conditioning=settings.conditioning,
            num_classes=settings.num_classes,
        )
        self.loose_boxes = nn.ModuleDict(
            {
                str(position): LooseBoxes(grids[name])
                for position, (name, space) in enumerate(spaces.items())
                if isinstance(space, Boxes) and self._is_loose(name)
            }
        )
        self.undoing: Undoing | None = None
        if settings.undo:
            self.undoing = Undoing(
                self.transform,
                make_network(UNDOING_NETWORK, in_channels=settings.in_channels, width=1.0),
                strength=settings.undo,
                in_channels=settings.in_channels,
            )
        self.band = EntropyBand(
            list(self.parts.part_limits.values()),
            rule=settings.rule,
            weight=settings.weight,
            factor=settings.factor,
        )
        checks.check_baseline(settings, any_finite=bool(self.finite))
        n_choices = {name: families[name].n_raw for name in self.finite}
        kind = settings.baseline
        if settings.estimator == "closed_form" and settings.conditioning == "input":
            kind = "value" if kind == "rloo" else kind  # for a single sample
        self.baseline_heads = BaselineHeads(self.phi, kind, n_choices)
        self.plan = None if settings.plan is None else ViewPlan(settings.plan)

    def _is_loose(self, name: str) -> bool:
        """Whether the boxes of a factor move in training."""
        space = self.transform.spaces[name]
        return self.settings.loose and isinstance(space, Boxes) and not space.changes_inside

    def _base_measures(
        self, families: Mapping[str, Family], grids: Mapping[str, CropGrid]
    ) -> dict[str, Float[Tensor, " k"]]:
        """By name of a factor in closed form, what it is where nothing is known, as logarithm."""
        if self.settings.estimator != "closed_form":
            return {}
        return {
            name: base_measure(grids[name], loose=self._is_loose(name))
            if name in grids
            else torch.zeros(family.n_raw)
            for name, family in families.items()
            if isinstance(family, CategoricalFamily)
        }

    def _in_closed_form(
        self, name: str, family: Family, log_base: Float[Tensor, " k"], grid: CropGrid | None
    ) -> ClosedFormFamily:
        assert isinstance(family, CategoricalFamily)  # noqa: S101  # others have no base measure
        settings, groups = self.settings, None
        if grid is not None and settings.sizes == "uniform":
            groups = [rows * columns for rows, columns in (level.shape for level in grid.levels)]
        return ClosedFormFamily(
            family,
            log_base,
            band=self.limits[name],
            is_relative=settings.entropy is None and settings.diversity is None,
            weight=settings.weight,
            groups=groups,
        )

    @property
    def weight(self) -> Float[Tensor, " parts"]:
        """λ of each part: moved by the entropy band, or solved for by a closed form."""
        families = dict(zip(self.phi.names, self.phi.families, strict=True))
        solved = [
            family.weight if isinstance(family := families.get(name), ClosedFormFamily) else moved
            for name, moved in zip(self.parts.names, self.band.weight, strict=True)
        ]
        return torch.stack(solved)

    def distribution(
        self, x: Images, targets: Tensor | None = None, *, shrunk: bool = False
    ) -> Joint:
        """p(θ | x) for every input, for inspection: entropies, probabilities, samples.

        Arguments:
            x: Images.
            targets: Labels, for an augmenter that learns per class.
            shrunk: Whether it depends on the input only as much as at test time.
        """
        checks.check_inputs(x, channels=self.settings.in_channels)
        classes = checks.check_classes(targets, self.settings)
        return self.phi(self._resize(x), classes, shrunk=shrunk, shift=self._shifts(x))

    @torch.no_grad()
    def uninformed_views(self, x: Images, generator: Generator | None = None) -> Rendered:
        """One view of each input as a φ that knows nothing would draw it, in closed form."""
        named = zip(self.phi.names, self.phi.families, strict=True)
        joint = Joint(
            {
                name: family(x.new_zeros(len(x), family.n_raw))
                for name, family in named
                if isinstance(family, ClosedFormFamily)
            }
        )
        return self.render(x, joint.theta(joint.draw(1, generator=generator))[0])

    def preferences(self, joint: Joint) -> dict[str, Float[Tensor, "batch k"]]:
        """By finite factor, log-probabilities less those of a φ that knows nothing, if any.

        In closed form these are predicted losses, divided by −λ, up to a constant per input.
        """
        families = dict(zip(self.phi.names, self.phi.families, strict=True))
        return {
            name: factor.logits - family.log_base
            if isinstance(family := families[name], ClosedFormFamily)
            else factor.logits
            for name, factor in joint.finite().items()
        }

    @override
    def forward(
        self,
        x: Images,
        n_samples: int = 1,
        generator: Generator | None = None,
        targets: Tensor | None = None,
    ) -> AugmentedBatch:
        exact = self.settings.estimator == "exact" and self.training
        checks.check_inputs(x, channels=self.settings.in_channels)
        checks.warn_if_normalized(x, self.settings)
        checks.check_call(len(x), n_samples=n_samples, targets=targets, exact=exact)
        classes = checks.check_classes(targets, self.settings)
        x, shifts, undo_loss = self._change_inputs(x, generator)
        maps = self.phi.features(self._resize(x))
        predicted: dict[str, Tensor] = {}
        joint = self.phi.decode(
            maps, classes, len(x), predicted=predicted if self.training else None, shift=shifts
        )
        samples = _every_choice(joint) if exact else joint.draw(n_samples, generator=generator)
        theta = self._place(joint, samples, generator)
        n = len(theta)
        inputs = self.render(repeat_batch(x, n), theta.flatten(0, 1))
        return AugmentedBatch(
            inputs=inputs,
            targets=None if targets is None else repeat_batch(targets, n),
            theta=theta,
            log_prob=joint.log_prob(tuple(s.detach() for s in samples)),
            entropy=joint.entropies(),
            part_entropy=self.parts.entropies(joint) if self.parts.are_finer else None,
            score_factors=self._score_factors(joint, samples, maps, predicted),
            value=self.baseline_heads.value(maps, len(x)),
            exhaustive=exact,
            added_loss=undo_loss,
        )

    def _change_inputs(
        self, x: Images, generator: Generator | None
    ) -> tuple[Images, Shifts, Float[Tensor, ""] | None]:
        """Inputs, where their ranges lie, and how well that is known.

        In training, inputs are changed at random first, if changes are to be undone.
        """
        if self.undoing is None or not self.training:
            return x, self._shifts(x), None
        return self.undoing.practice(x, self._resize, generator)

    def _shifts(self, x: Images) -> Shifts:
        """By factor, how far from doing nothing the ranges of each input lie, if they do."""
        undoing = self.undoing
        return None if undoing is None else undoing.shifts(undoing(self._resize(x)))

    def _place(
        self, joint: Joint, samples: Samples, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        """θ of samples; in training, loose boxes lie anywhere near where they were drawn."""
        theta = joint.theta(samples)
        if not self.training or not self.loose_boxes:
            return theta
        parts = list(theta.split([space.size for space in self.transform.spaces.values()], dim=-1))
        finite = joint.finite()
        for i, name in enumerate(joint.factors):
            if str(i) in self.loose_boxes:
                index = finite[name].index(samples[i])
                parts[i] = self.loose_boxes[str(i)](parts[i], index, generator)
        return torch.cat(parts, dim=-1)

    def _score_factors(
        self, joint: Joint, samples: Samples, maps: Sequence[Maps], predicted: Mapping[str, Tensor]
    ) -> tuple[ScoreFactor, ...]:
        drawn = dict(zip(joint.factors, samples, strict=True))
        return tuple(
            ScoreFactor(
                factor.logits,
                factor.index(drawn[name]),
                predicted[name]
                if name in predicted
                else self.baseline_heads.critic(name, maps, len(factor.logits)),
            )
            for name, factor in joint.finite().items()
        )

    @override
    def objective(
        self, losses: Tensor, batch: AugmentedBatch, *, signal: Tensor | None = None
    ) -> Tensor:
        """Mean loss plus what φ learns from, minus λ times the entropy; moves λ in training.

        Arguments:
            losses: ``(n * B,)``, from a loss with ``reduction="none"``.
            batch: What ``forward`` returned.
            signal: What finite factors minimize in place of the losses, ``(n * B,)``, such as
                the negative of :class:`~instaaug.objectives.Usefulness`.
        """
        losses = checks.check_losses(losses, batch)
        checks.warn_in_evaluation_mode(training=self.training)
        risk = self._risk(losses, batch)
        if signal is not None:
            mean_loss, losses = losses.mean(), checks.check_losses(signal, batch).detach()
            risk = mean_loss + self._risk(losses, batch) - losses.mean()
        held = batch.entropy if batch.part_entropy is None else batch.part_entropy
        entropy = held.mean(dim=0)
        if self.training and torch.is_grad_enabled():
            self.band.update(entropy)
            for family in self.phi.families:
                if isinstance(family, ClosedFormFamily):
                    family.observe(losses)
        total = risk - (self.weight * entropy).sum()
        return total if batch.added_loss is None else total + batch.added_loss

    def _risk(self, losses: Float[Tensor, "n batch"], batch: AugmentedBatch) -> Tensor:
        if batch.exhaustive:
            return exact_risk(losses, batch.score_factors[0].log_probs)
        estimate = score_risk
        if self.settings.estimator == "closed_form":
            estimate = closed_form_risk
        return estimate(
            losses, batch.score_factors, baseline=self.settings.baseline, value=batch.value
        )

    @override
    def draw(
        self, x: Images, n_samples: int, *, select: Select = "sample", replace: bool = False,
        generator: Generator | None = None,
    ) -> Float[Tensor, "n batch d"]:  # fmt: skip
        return self.views(x, n_samples, select=select, replace=replace, generator=generator).theta

    @override
    def views(
        self, x: Images, n_samples: int, *, model: nn.Module | None = None,
        output: Output | None = None, chunk_size: int | None = None, select: Select = "sample",
        replace: bool = False, generator: Generator | None = None,
    ) -> Views:  # fmt: skip
        """Views, weighted by the probability of what their finite factors chose."""
        checks.check_inputs(x, channels=self.settings.in_channels)
        shifts = self._shifts(x)
        joint, first = _distribution_and_outputs(
            self.phi, self._resize(x), shifts, model=model, output=output, chunk_size=chunk_size
        )
        kept = self.settings.keep_original
        views = choose_views(
            joint, n_samples, select=select, replace=replace, generator=generator,
            original=self.start(x, shifts) if kept else None, plan=self.plan,
        )  # fmt: skip
        if not kept or self.undoing is not None:  # the model has seen what was not undone
            return views
        return Views(views.theta, views.weight, first)

    @override
    def attach(self, model: nn.Module) -> None:
        """Let φ read the maps of ``model``, if it was built with ``network="model"``."""
        if isinstance(self.phi.network, ModelMaps):
            self.phi.network.attach(model)

    @override
    def canonical(self, x: Images) -> Rendered:
        """The inputs in the size that the model takes, with what happened to them undone."""
        return self._undone(x, self.transform)

    def start(self, x: Images, shifts: Shifts = None) -> Float[Tensor, "one_or_batch d"]:
        """θ that does nothing but undo what happened to each input, if anything is undone.

        Arguments:
            x: Images.
            shifts: Where their ranges lie, if that is known already.
        """
        identity = self.transform.identity(like=x)
        if self.undoing is None:
            return identity
        shifts = self._shifts(x) if shifts is None else shifts
        assert shifts is not None  # noqa: S101  # something is undone
        return self.undoing.start(identity.expand(x.shape[0], -1), shifts)

    def _undone(self, x: Images, transform: Composition) -> Rendered:
        """The inputs in the size of a transform, with what happened to them undone, if at all."""
        padding_mode = self.settings.padding_mode
        if self.undoing is None:
            return transform.resize(x, padding_mode=padding_mode)
        return transform.apply(x, self.start(x), padding_mode=padding_mode)

    def _resize(self, x: Images) -> Rendered:
        """The inputs as φ reads them, in the size that the model takes."""
        return self.transform.resize(x, padding_mode=self.settings.padding_mode)

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        return self.transform.apply(x, theta, padding_mode=self.settings.padding_mode)

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        return self.transform.matrix(theta, aspect=aspect)

    @override
    def monitor(self, batch: AugmentedBatch) -> Mapping[str, Tensor]:
        """Mean entropy in nats by factor, λ by band, mean width of ranges or side of boxes."""
        spaces, weight = self.transform.spaces, self.weight
        entropy = batch.entropy.detach().mean(dim=0)
        numbers = {f"entropy/{name}": entropy[i] for i, name in enumerate(spaces)}
        numbers |= {f"weight/{name}": weight[i] for i, name in enumerate(self.parts.names)}
        column = 0
        for i, (name, space) in enumerate(spaces.items()):
            if isinstance(space, Boxes):
                numbers[f"side/{name}"] = batch.theta[..., column + 2].detach().mean() / 2
            elif isinstance(space, Interval):  # the geometric mean over its parameters
                numbers[f"width/{name}"] = (entropy[i] / space.size).exp()
            column += space.size
        if batch.added_loss is not None:
            numbers["undo_loss"] = batch.added_loss.detach()
        if batch.part_entropy is not None:
            widths = batch.part_entropy.detach().mean(dim=0).exp()
            parts = enumerate(self.parts.names)
            others = (*spaces, "total")
            numbers |= {f"width/{name}": widths[i] for i, name in parts if name not in others}
        return numbers

    def save(self, path: str | Path) -> None:
        """Write weights, λ and all settings to a safetensors file, at once or not at all."""
        weights_file.write(Path(path), self.state_dict(), self.settings.to_config())

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        model: nn.Module | None = None,
        size: int | tuple[int, int] | None = None,
        network: FeatureNetwork | None = None,
    ) -> "InstaAug":
        """Read what :meth:`save` wrote; nothing in the file is executed.

        Arguments:
            path: The file.
            model: The frozen model that :func:`~instaaug.fit_tta` fitted it for, whose features φ
                reads.
            size: Of the images that the model takes, if the fit did not resize them.
            network: A module of the same architecture, if the augmenter was built with the user's
                own.
        """
        path = Path(path)
        config, tensors = weights_file.read(path)
        settings = weights_file.parse_settings(path, config, tensors)
        if settings.network == "own" and settings.conditioning == "input" and network is None:
            network = _read_model(model, size or settings.transform.size, settings.in_channels)
        aug = cls.__new__(cls)
        nn.Module.__init__(aug)
        with weights_file.wrap_errors(path):
            aug._build(settings, network)  # noqa: SLF001
        weights_file.load_tensors(path, aug, tensors)
        return aug

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``aug.safetensors``, as :meth:`save` does, and a page on it into a folder."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.save(folder / hub.WEIGHTS)
        hub.write_card(folder, self)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        network: FeatureNetwork | None = None,
    ) -> "InstaAug":
        """Read what :meth:`save_pretrained` wrote, or :meth:`push_to_hub`; runs no code of theirs.

        Arguments:
            name: A folder, or the id of a repository on Hugging Face's Hub.
            revision: Branch, tag or commit of the repository.
            network: As in :meth:`load`.
        """
        return cls.load(hub.find_weights(name, revision=revision), network=network)

    def push_to_hub(
        self, repo_id: str, *, private: bool | None = None, commit_message: str = "Add augmenter"
    ) -> str:
        """Put the augmenter into a repository on Hugging Face's Hub; gives its address.

        Arguments:
            repo_id: Such as ``"user/flowers-aug"``; it is made if need be.
            private: Whether a new repository is private; None leaves it to the account.
            commit_message: Says what this version is.
        """
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return hub.upload(
                Path(folder), repo_id, private=private, commit_message=commit_message
            )

    @override
    def extra_repr(self) -> str:
        """One line per factor, and one on how they are learned."""
        lines = []
        settings, phi, band = self.settings, self.phi, self.band
        spaces = self.transform.spaces
        for name, family in zip(phi.names, phi.families, strict=True):
            what = phi.grids[name].description if name in phi.grids else _extent(spaces[name])
            assert isinstance(family, Family)  # noqa: S101  # a module list holds any module
            held = self._describe_band(name, family)
            lines.append(f"{name}: {what}, {held}{self._describe_weight(name)}")
        how = CONDITIONS[settings.conditioning]
        if phi.network is not None:
            count = sum(p.numel() for p in phi.parameters())
            how += f" with {settings.network} ({count:,} parameters)"
        kinds = {family.is_finite for family in phi.families}
        score = {"exact": "exact gradient", "closed_form": "closed form"}.get(
            settings.estimator, f"score function with {settings.baseline} baseline"
        )
        if self.undoing is not None:
            how += f", undoes {self.undoing.name} up to {settings.undo:.0%} of each range"
        gradients = [score] * (True in kinds) + ["pathwise gradient"] * (False in kinds)
        lines.append(f"{how}, {' and '.join(gradients)}, λ by the {band.rule} rule")
        return "\n".join(lines)

    def _describe_band(self, name: str, family: Family) -> str:
        """What is held, in words."""
        low, high = self.limits[name]
        if not (isinstance(family, ClosedFormFamily) and family.is_relative):
            return f"entropy in [{low:.2f}, {high:.2f}] of {family.max_entropy:.2f} nats"
        most, least = (family.base_entropy - end for end in (low, high))
        crops = "random crops" if self._is_loose(name) else "all sizes alike"
        base = crops if name in self.phi.grids else "uniform"
        return f"{least:.2g} to {most:.2g} nats from {base}"

    def band_of(self, name: str) -> Band | None:
        """The band of a factor's entropy; None where the distance from a base measure is held."""
        family = dict(zip(self.phi.names, self.phi.families, strict=True))[name]
        is_relative = isinstance(family, ClosedFormFamily) and family.is_relative
        return None if is_relative else self.limits[name]

    @property
    def holds_factors(self) -> bool:
        """Whether the entropy of each factor is held in a band of its own."""
        alone = len(self.limits) == 1
        return self.settings.rule != "fixed" and (alone or self.settings.per != "total")

    def _describe_weight(self, factor: str) -> str:
        """λ of a factor, or the least and largest of its parts."""
        own = [
            float(weight)
            for name, weight in zip(self.parts.names, self.weight, strict=True)
            if name == factor or name.startswith(f"{factor}.") or self.settings.per == "total"
        ]
        least, most = (f"{end:.3g}" for end in (min(own), max(own)))
        per = f" per {self.settings.per}" if len(own) > 1 else ""
        return f"{per}, λ = {least if least == most else f'{least} to {most}'}"

    @override
    def __repr__(self) -> str:
        body = self.extra_repr().replace("\n", "\n  ")
        return f"InstaAug(\n  {body}\n)"


def _read_model(
    model: nn.Module | None, size: int | tuple[int, int] | None, in_channels: int
) -> FrozenFeatures:
    """φ's view of a frozen model, as a fit makes it."""
    if model is None:
        raise ArgumentError(
            "`model` must be given where a fit has learned from the features of a model, or "
            "`network` where φ has a network of the user's own. Call InstaAug.load(path, "
            "model=...)."
        )
    if size is None:
        raise ArgumentError(
            "`size` must be given: the fit took images as they were. Call InstaAug.load(path, "
            "model=..., size=224) with the size of the images."
        )
    return FrozenFeatures(model, size=size, in_channels=in_channels)


def _every_choice(joint: Joint) -> Samples:
    (factor,) = joint.finite().values()
    batch, k = factor.logits.shape
    return (torch.arange(k, device=factor.logits.device)[:, None].expand(k, batch),)


def _distribution_and_outputs(
    phi: InvarianceModule,
    x: Images,
    shifts: Shifts,
    *,
    model: nn.Module | None = None,
    output: Output | None = None,
    chunk_size: int | None = None,
) -> tuple[Joint, object]:
    """The distribution of each input; and the outputs of ``model`` if φ reads its features.

    Arguments:
        phi: Finds the distributions.
        x: Images as the model takes them.
        shifts: By factor, how far from doing nothing the ranges of each input lie.
        model: The one that is to predict.
        output: Picks the tensor out of what it returns.
        chunk_size: Most images that a frozen model sees at once.
    """
    network = phi.network
    if not isinstance(network, FrozenFeatures):
        return phi(x, shrunk=True, shift=shifts), None
    is_own = network.reads(model)
    features: list[Tensor] = []
    outputs: list[object] = []
    with torch.set_grad_enabled(is_own and torch.is_grad_enabled()):
        for part, returned in network.features_in_chunks(x, chunk_size=chunk_size):
            features.append(part)
            outputs += [pick_output(returned, output)] if is_own else []
    maps = network.maps(torch.cat(features))
    joint = phi.decode(maps, None, len(x), shrunk=True, shift=shifts)
    rows = [part for part in outputs if isinstance(part, Tensor) and part.ndim]
    if len(rows) < len(outputs):
        return joint, outputs[0]  # no rows per input; merging them raises
    return joint, torch.cat(rows) if is_own else None


def _extent(space: Space) -> str:
    if isinstance(space, Interval):
        return ", ".join(f"{p.name} in [{p.low:.3g}, {p.high:.3g}]" for p in space.parameters)
    return f"{len(space.rows)} choices" if isinstance(space, Choices) else ""
