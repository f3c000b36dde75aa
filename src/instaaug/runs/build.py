"""From settings and data to a task: which parts with which numbers."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.augmentation.at_test_time import Merging
from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError, DataError, InstaAugError, WeightsFileError
from instaaug.methods import Distortions, RandomAugmentation, find_method
from instaaug.networks import make_model
from instaaug.networks.encoders import PenultimateFeatures, remove_head
from instaaug.parameterizations import CropGrid
from instaaug.runs.folder import DataFacts, Run
from instaaug.runs.model_output import return_logits
from instaaug.runs.pretrained import backbone_of, backbone_rate, explain_size
from instaaug.runs.settings import PhiSettings, TrainSettings
from instaaug.signatures import parameter_hints
from instaaug.spaces import Boxes, Interval
from instaaug.tasks import (
    AugmentedTask,
    ContrastiveTask,
    Optimization,
    RegressionTask,
    SupervisedTask,
)
from instaaug.tasks.cross_fit import CrossFit
from instaaug.tasks.representation import Representation
from instaaug.transforms import Transform, make_transforms
from instaaug.transforms.color import ColorTransform
from instaaug.transforms.crop import PAPER_LEVELS

__all__ = [
    "another_light",
    "are_loose",
    "build_augmenter",
    "build_task",
    "check_method",
    "input_rate",
    "kept_settings",
    "load_task",
    "make_variation",
    "may_be_mirrored",
    "phi_rate",
    "settle_phi",
    "transform_names",
]

MOST_SMALL = 1 << 24  # numbers that a task may have beyond those on disk
CLOSED_FORM = ("closed_form", "auto")
OWN_STEPS = ("validation", "held_out", "rotating")  # of φ, where it looks for a low loss
USUAL_RATE = 1e-3  # of φ
INPUT_RATE_OF_COLORS = 0.01  # of that
RGB = 3
ROTATION_SETS = ("sprites", "mario-iggy", "sprite-angle", "mnist-6-9")


def build_task(
    config: TrainSettings,
    facts: DataFacts,
    *,
    held_out: LabeledImages | None = None,
    cross_fit: CrossFit | None = None,
    with_weights: bool = True,
) -> AugmentedTask:
    """The model, the augmenter and how they are trained; the seed decides the first weights.

    Arguments:
        config: Every setting.
        facts: On the data.
        held_out: Training images that the model is not shown, for methods that learn from such.
        cross_fit: Training images that it is not shown for a while, for φ to learn from.
        with_weights: Whether a pre-trained model gets its published weights; False where those of
            the run are loaded next.
    """
    check_method(config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = make_model(
            config.model.name,
            facts.n_targets,
            in_channels=facts.channels,
            image_size=facts.image_size,
            width=config.model.width,
            stem_stride=config.model.stem_stride,
            pretrained=config.model.pretrained and with_weights,
        ).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if ":" in config.model.name or config.model.output is not None:
            return_logits(model, config.model.output)
        slower = backbone_of(model, config)
        augmenter = build_augmenter(config, facts)
        model = augmenter.adapt(model)
        augmenter.attach(model)  # some have weights from then on only
        if isinstance(augmenter, InstaAug) and input_rate(config, augmenter) != 1:
            slower += augmenter.phi.input_parameters()
        settings = {**_task_settings(config, facts, augmenter), "backbone": slower}
        if config.task == "contrastive":
            return _build_contrastive_task(config, facts, model, augmenter, settings)
    settings |= {
        "n_samples": config.n_samples,
        "phi_step": config.phi.step,
        "phi_goal": _goal(config, facts, model, cross_fit),
        "held_out": held_out,
        "cross_fit": cross_fit,
    }
    if config.task == "regression":
        return RegressionTask(
            model, augmenter, n_targets=facts.n_targets, loss=config.loss.regression, **settings
        )
    return SupervisedTask(
        model,
        augmenter,
        num_classes=len(facts.classes),
        label_smoothing=config.loss.label_smoothing,
        mix="mix" in config.phi.try_out,
        **settings,
    )


def load_task(run: Run) -> AugmentedTask:
    """The task of a finished run, with its trained weights.

    Raises:
        FileNotFoundError: If the run has not finished.
        WeightsFileError: If the weights do not fit the settings.
    """
    config = run.read_train_settings()
    if not run.model_file.is_file():
        raise FileNotFoundError(
            f"The run {str(run.path)!r} has not finished: there is no model.safetensors. "
            f"`instaaug resume {shlex.quote(str(run.path))}` goes on with it."
        )
    facts = run.read_facts()
    with _no_larger_than_held(run):
        task = build_task(config, facts, with_weights=False)
    run.load_tensors(run.model_file, task.model)
    if task.augmenter.state_dict():
        if not run.augmenter_file.is_file():
            raise FileNotFoundError(
                f"The run {str(run.path)!r} has lost its aug.safetensors, without which its "
                "augmentation knows nothing."
            )
        run.load_tensors(run.augmenter_file, task.augmenter)
    if isinstance(task, ContrastiveTask) and run.probe_file.is_file():
        _load_probes(task, run.probe_file)
    _follow_validation(task.augmenter, run)
    if _uses_order(run, task):
        task.ordered = InstaAug.load(run.order_file)
    return task.eval()


def _uses_order(run: Run, task: AugmentedTask) -> bool:
    """Whether a run predicts from views in one order for all images."""
    order = run.read_validation().get("order")
    probed = isinstance(task, ContrastiveTask) and "ordered" in task.representations
    if not probed and (not isinstance(order, Mapping) or not order.get("is_better")):
        return False
    if not run.order_file.is_file():
        raise FileNotFoundError(
            f"The run {str(run.path)!r} has lost its order.safetensors, the order of the views "
            "that it predicts from."
        )
    return True


@contextmanager
def _no_larger_than_held(run: Run) -> Iterator[None]:
    """Raise if settings ask for far more weights than the run holds, before memory is filled."""
    files = [file for file in (run.model_file, run.augmenter_file) if file.is_file()]
    room = MOST_SMALL + sum(file.stat().st_size for file in files)
    refusal = f"{str(run.model_file)!r} does not fit the settings of its run: "

    def count(_module: nn.Module, _name: str, tensor: Tensor | None) -> None:
        nonlocal room
        room -= 0 if tensor is None else tensor.numel()
        if room < 0:
            raise WeightsFileError(f"{refusal}they ask for more weights than it holds.")

    hooks = (register_module_parameter_registration_hook, register_module_buffer_registration_hook)
    handles = [register(count) for register in hooks]  # called before weights get their values
    try:
        yield
    except InstaAugError:
        raise
    except (RuntimeError, ArithmeticError, ValueError, TypeError, MemoryError) as error:
        words = " ".join(str(error).split())[:200]
        raise WeightsFileError(f"{refusal}{words}") from error
    finally:
        for handle in handles:
            handle.remove()


def _follow_validation(augmenter: Augmenter, run: Run) -> None:
    """Merge outputs of views as validation images have said."""
    chosen = run.read_validation()
    if not chosen:
        return
    try:
        numbers = float(chosen["sharpness"]), float(chosen["calibration"])
        Merging(chosen["merge"], sharpness=numbers[0], calibration=numbers[1])  # or raise
        augmenter.set_merging(chosen["merge"], *numbers)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{str(run.results_file)!r} must be as the run wrote it: its validation names no rule "
            f"of merging ({error}). Restore it, or begin a new run."
        ) from None


def _load_probes(task: ContrastiveTask, path: Path) -> None:
    """Give a task the linear probes of its run."""
    try:
        tensors = load_file(path)
        for kind in dict.fromkeys(name.partition(".")[0] for name in tensors):
            parts = {n.removeprefix(f"{kind}."): t for n, t in tensors.items()}
            task.representations[kind] = Representation.from_tensors(parts)
    except (SafetensorError, RuntimeError, KeyError, ValueError) as error:
        words = " ".join(str(error).split())[:200]
        raise WeightsFileError(f"{str(path)!r} is not as the run wrote it: {words}") from None


def build_augmenter(config: TrainSettings, facts: DataFacts) -> Augmenter:
    """The method that the settings name, with its options and the facts on the data."""
    baseline, estimator = config.phi.baseline, settle_phi(config).estimator
    if config.task == "contrastive" and baseline == "auto" and not _reads_inputs(config):
        baseline = "none"  # the task centers its losses: nothing is left to subtract
    elif config.task == "contrastive" and (estimator, baseline) == CLOSED_FORM:
        baseline = "value"  # both samples of an input have the same loss
    method = find_method(config.method.name)
    if config.crop.size is not None and "size" not in parameter_hints(method):
        raise ArgumentError(
            f"`crop.size` needs a method that can change the size of an image: got "
            f"{config.method.name!r}. Give all images the size with `data.image_size`."
        )
    levels = PAPER_LEVELS if config.crop.grid == "receptive" else config.crop.grid
    transforms: list[Transform] | str = "auto"
    if config.transforms != ("auto",) or not method.chooses_transforms:
        transforms = make_transforms(
            transform_names(config),
            levels=levels,
            local_levels=config.local.grid,
            max_outside=config.crop.max_outside,
        )
    context = {
        "transforms": transforms,
        "grid": _receptive_grid(config, facts) if _takes_grid(method, transforms) else None,
        "levels": levels,
        "max_outside": config.crop.max_outside,
        "loose": are_loose(config),
        "padding_mode": config.padding_mode,
        "mean": facts.mean,
        "std": facts.std,
        "in_channels": facts.channels,
        "image_size": facts.image_size,
        "size": config.crop.size,
        "num_classes": len(facts.classes) or None,
        "entropy": config.entropy.band,
        "diversity": config.entropy.diversity,
        "per": config.entropy.per,
        "rule": config.entropy.rule,
        "weight": config.entropy.weight,
        "factor": config.entropy.factor,
        "conditioning": config.phi.conditioning,
        "network": config.phi.network,
        "width": config.phi.width,
        "estimator": estimator,
        "sizes": config.phi.sizes,
        "ranges": config.phi.ranges,
        "undo": config.phi.undo,
        "baseline": baseline,
    }
    augmenter = method.build(context, config.method.options)
    if config.views.merge != "auto":
        augmenter.set_merging(config.views.merge)
    return augmenter


def another_light(n_channels: int) -> dict[str, float]:
    """Shares of ranges that make another light: of its strength, and of its color, if any.

    Example:
        >>> another_light(1)
        {'brightness': 0.4, 'contrast': 0.4}
    """
    color = {"white_balance": 0.2} if n_channels == RGB else {}
    return {"brightness": 0.4, "contrast": 0.4, **color}


def make_variation(
    config: TrainSettings, facts: DataFacts, strength: Mapping[str, float]
) -> RandomAugmentation | None:
    """What may happen to training images whatever the method, such as another light.

    Arguments:
        config: Of the run.
        facts: On its data.
        strength: Shares of the ranges of transforms, by name; nothing is made of none.
    """
    if not strength:
        return None
    if config.task == "contrastive":
        raise ArgumentError(
            "`data.vary` must be empty in contrastive learning, where both views of an image "
            f"would vary alike: got {strength}. Set `contrastive.strength` and the like."
        )
    for name, share in strength.items():
        if not 0 <= share <= 1:
            raise ArgumentError(
                f"`data.vary` must be shares in [0, 1]: got {share} for {name!r}. Of brightness, "
                "0.4 is much."
            )
    transforms = make_transforms(tuple(strength))
    for transform in transforms:
        if not all(isinstance(space, Interval) for space in transform.spaces.values()):
            raise ArgumentError(
                "`data.vary` takes transforms with ranges, such as brightness: got "
                f"{transform.name!r}. Put it into `transforms`, or mirror with `data.flip`."
            )
    return RandomAugmentation(
        transforms,
        strength=dict(strength),
        mean=facts.mean,
        std=facts.std,
        padding_mode=config.padding_mode,
    )


def may_be_mirrored(config: TrainSettings) -> bool:
    """Whether it is open if training images are mirrored: nothing else turns or mirrors them."""
    own = {"flip", "rotation"} & {*transform_names(config)}
    return config.task == "classification" and not config.data.flip and not own


def kept_settings(tried: object, n_channels: int) -> dict[str, Any]:
    """What a run has tried on the side and kept, as settings of another one.

    Arguments:
        tried: The part of this name in its results; anything else has kept nothing.
        n_channels: Of its images.

    Example:
        >>> kept_settings({"mirror": {"is_kept": True}, "light": {"is_kept": False}}, 3)
        {'data.flip': True}
    """
    settings: dict[str, dict[str, Any]] = {
        "mirror": {"data.flip": True},
        "light": {"data.vary": another_light(n_channels)},
    }
    kept: dict[str, Any] = {}
    if not isinstance(tried, Mapping):
        return kept
    n_epochs = tried.get("finetune_epochs")
    if isinstance(n_epochs, int) and not isinstance(n_epochs, bool) and n_epochs > 0:
        kept["finetune_epochs"] = n_epochs
    for name, own in settings.items():
        finding = tried.get(name)
        if isinstance(finding, Mapping) and finding.get("is_kept") is True:
            kept |= own
    return kept


def _takes_grid(method: type[Augmenter], transforms: Sequence[Transform] | str) -> bool:
    """Whether the method chooses from boxes."""
    if "grid" not in parameter_hints(method) or isinstance(transforms, str):
        return False
    return any(isinstance(s, Boxes) for t in transforms for s in t.spaces.values())


def are_loose(config: TrainSettings) -> bool:
    """Whether boxes move in training."""
    return config.crop.grid != "receptive" if config.crop.loose is None else config.crop.loose


def _receptive_grid(config: TrainSettings, facts: DataFacts) -> CropGrid | None:
    """The receptive fields of φ's units, if they are to be the boxes of crops."""
    if config.crop.grid != "receptive":
        return None
    if config.phi.network == "model":
        raise ArgumentError(
            "`crop.grid` receptive needs a network of φ's own: got `phi.network` model. Choose "
            "preact_resnet18_bn, or boxes of given sizes."
        )
    return CropGrid.from_receptive_fields(
        config.phi.network,
        facts.image_size,
        layers=config.crop.layers,
        in_channels=facts.channels,
        max_outside=config.crop.max_outside,
    )


def check_method(config: TrainSettings) -> None:
    """Raise unless the method can do what the settings ask of it."""
    name, method = config.method.name, find_method(config.method.name)
    if config.task not in method.tasks:
        raise ArgumentError(
            f"`task` must be {' or '.join(sorted(method.tasks))} for the method {name}: got "
            f"{config.task!r}."
        )
    if config.task == "contrastive" and config.phi.conditioning == "class":
        raise ArgumentError(
            "`phi.conditioning` must do without labels in contrastive learning: got 'class'."
        )
    if config.phi.step == "separate" and not method.learns_from_training_loss:
        raise ArgumentError(
            "`phi.step` separate needs a method that learns from the training loss, such as "
            f"instaaug: got {name!r}."
        )
    if method.needs_held_out and not config.data.held_out_fraction:
        raise ArgumentError(
            f"`data.held_out_fraction` must be above 0 for {name}, which learns from images that "
            "the model does not see. 0.1 is usual."
        )
    if config.crop.layers is not None and config.crop.grid != "receptive":
        raise ArgumentError(
            f"`crop.layers` belongs to `crop.grid` receptive: got {list(config.crop.layers)} "
            "along with boxes of given sizes. Leave one of them out."
        )
    phi = settle_phi(config)
    own = phi.step == "separate" or (phi.goal == "loss" and phi.signal in OWN_STEPS)
    has_own_steps = (own and method.learns_from_training_loss) or method.needs_held_out
    if has_own_steps and config.trainer.precision == "16-mixed":
        raise ArgumentError(
            "Steps of φ alone do not work with the gradient scaling of `trainer.precision` "
            "16-mixed. Choose bf16-mixed."
        )
    _check_signal(config)
    if name == "instaaug":
        _check_samples(config)


def _check_signal(config: TrainSettings) -> None:
    phi = settle_phi(config)
    if phi.goal == "usefulness" and phi.signal == "training":
        raise ArgumentError(
            "`phi.goal` usefulness needs images that the model does not learn from, for what "
            "helps with known ones is what is known already: got `phi.signal` training. Choose "
            "validation, held_out or rotating."
        )
    if phi.signal == "training":
        return
    if config.task == "contrastive":
        raise ArgumentError(
            "`phi.signal` must be training in contrastive learning, whose loss compares an image "
            f"with all others of its batch: got {phi.signal!r}."
        )
    if phi.estimator == "exact":
        raise ArgumentError(
            "`phi.signal` must be training for `phi.estimator` exact, which tries every box on "
            f"the images of the model's own step: got {phi.signal!r}. Choose closed_form."
        )


def _check_samples(config: TrainSettings) -> None:
    phi = settle_phi(config)
    compares = phi.estimator == "closed_form" or phi.signal != "training"
    if config.phi.baseline == "rloo" and config.n_samples < 2 and not compares:
        raise ArgumentError(
            "`phi.baseline` rloo compares samples of an image: got `n_samples` 1. Take 2."
        )
    if config.phi.estimator == "exact" and config.n_samples > 1:
        raise ArgumentError(
            f"`phi.estimator` exact tries every box: got `n_samples` {config.n_samples}. Leave it "
            "at 1."
        )


def settle_phi(config: TrainSettings) -> PhiSettings:
    """How φ learns, with what suits the other settings in place of auto."""
    phi = config.phi
    goal = phi.goal if phi.goal != "auto" else _suitable_goal(config)
    signal, estimator = phi.signal, phi.estimator
    if signal == "auto":
        signal = "validation" if goal == "usefulness" else "training"
    if estimator == "auto" and goal == "usefulness":
        estimator = "closed_form"
    return replace(phi, goal=goal, signal=signal, estimator=estimator)


def _suitable_goal(config: TrainSettings) -> Literal["loss", "usefulness"]:
    """Usefulness for crops and other choices, where some images are kept from the model."""
    phi = config.phi
    apart = (
        config.data.validation_fraction > 0 if phi.signal == "auto" else phi.signal != "training"
    )
    fits = (
        issubclass(find_method(config.method.name), InstaAug)
        and config.task != "contrastive"
        and config.entropy.rule != "fixed"
        and phi.estimator in ("auto", "closed_form")
        and (phi.conditioning, phi.step) in (("input", "joint"), ("none", "joint"))
    )
    return "usefulness" if apart and fits and _chooses_boxes(config) else "loss"


def _chooses_boxes(config: TrainSettings) -> bool:
    """Whether all transforms are choices from a table."""
    spaces = [s for t in make_transforms(transform_names(config)) for s in t.spaces.values()]
    return not any(isinstance(space, Interval) for space in spaces)


def transform_names(config: TrainSettings) -> Sequence[str]:
    """Names of what is learned, with what suits the data in place of auto."""
    if config.transforms != ("auto",):
        return config.transforms
    return ("rotation",) if config.data.source in ROTATION_SETS else ("crop",)


def _goal(
    config: TrainSettings, facts: DataFacts, model: nn.Module, cross_fit: CrossFit | None
) -> Literal["loss", "usefulness"]:
    """What φ looks for in training; a model without a final linear layer has no usefulness."""
    if cross_fit is None or settle_phi(config).goal != "usefulness":
        return "loss"
    if config.phi.goal == "auto" and not _ends_in_linear(config, facts, model):
        return "loss"
    return "usefulness"


def _ends_in_linear(config: TrainSettings, facts: DataFacts, model: nn.Module) -> bool:
    """Whether a linear layer makes the logits of one vector per image."""
    if ":" not in config.model.name:  # ours
        return any(isinstance(m, nn.Linear) for m in model.modules())
    image = torch.zeros(1, facts.channels, facts.image_size, facts.image_size)
    with explain_size(model, config, facts.image_size):
        try:
            PenultimateFeatures(model)(image)
        except ArgumentError:
            return False
    return True


def _reads_inputs(config: TrainSettings) -> bool:
    return config.phi.conditioning == "input" and config.phi.estimator != "exact"


def _build_contrastive_task(
    config: TrainSettings,
    facts: DataFacts,
    model: nn.Module,
    augmenter: Augmenter,
    settings: dict[str, Any],
) -> ContrastiveTask:
    image = torch.zeros(1, facts.channels, facts.image_size, facts.image_size)
    with explain_size(model, config, facts.image_size):
        encoder, n_features = remove_head(model, image)
    own = config.contrastive
    distortions = Distortions(
        strength=own.strength,
        jitter=own.jitter,
        gray=own.gray,
        blur=own.blur,
        flip=own.mirror,
        mean=facts.mean,
        std=facts.std,
    )
    return ContrastiveTask(
        encoder,
        augmenter,
        n_features=n_features,
        temperature=own.temperature,
        hidden=own.hidden,
        n_projected=own.n_projected,
        distortions=distortions,
        **settings,
    )


def phi_rate(config: TrainSettings) -> float:
    """The learning rate of φ: the one that was given, or the usual one."""
    return USUAL_RATE if config.phi.learning_rate is None else config.phi.learning_rate


def input_rate(config: TrainSettings, augmenter: Augmenter) -> float:
    """The factor on the rate of what depends on the input: given, or what suits the augmenter.

    Adam moves every weight by about its rate, and a head that reads hundreds of features adds up
    as many moves: the ends of ranges that depend on the input drift that much faster than those
    that all inputs share. Colors lose by it (``benchmarks/color.py``); rotations are learned well
    and soon.
    """
    if config.phi.input_rate is not None:
        return config.phi.input_rate
    if not isinstance(augmenter, InstaAug):
        return 1.0
    only_colors = all(isinstance(t, ColorTransform) for t in augmenter.transform.transforms)
    return INPUT_RATE_OF_COLORS if only_colors else 1.0


def _task_settings(
    config: TrainSettings, facts: DataFacts, augmenter: Augmenter
) -> dict[str, Any]:
    """The arguments that all tasks have."""
    drops: dict[str, Any] = {
        "factor": config.optimizer.drop_factor,
        "drops": config.optimizer.drops,
    }
    return {
        "optimization": Optimization(
            config.optimizer.name,
            config.optimizer.learning_rate,
            momentum=config.optimizer.momentum,
            weight_decay=config.optimizer.weight_decay,
            schedule=config.optimizer.schedule,
            warmup_steps=config.optimizer.warmup_steps,
            backbone_rate=backbone_rate(config),
            **drops,
        ),
        "phi_optimization": Optimization(
            config.phi.optimizer,
            phi_rate(config),
            schedule=config.phi.schedule,
            backbone_rate=input_rate(config, augmenter),
            **drops,
        ),
        "mean": facts.mean,
        "std": facts.std,
        "pretrain_epochs": config.pretrain_epochs,
        "finetune_epochs": config.finetune_epochs,
        "phi_rest_epochs": config.phi.rest_epochs,
        "flip": config.data.flip,
        "vary": make_variation(config, facts, config.data.vary),
        "gradient_clip_val": config.trainer.gradient_clip_val,
        "accumulate_grad_batches": config.trainer.accumulate_grad_batches,
        "seed": config.seed,
    }
