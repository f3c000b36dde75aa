"""Every setting of a run: names, defaults, and a sentence on each."""
# ruff: noqa: RUF009  # `setting` and `section` make fields; ruff cannot see that

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import override

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.settings import Settings, section, setting

__all__ = [
    "BackboneSettings",
    "ContrastiveSettings",
    "CropSettings",
    "DataSettings",
    "EntropySettings",
    "EvaluateSettings",
    "FrozenSettings",
    "FrozenViewSettings",
    "LocalSettings",
    "LossSettings",
    "MethodSettings",
    "ModelSettings",
    "NetworkSettings",
    "OptimizerSettings",
    "OtherModelSettings",
    "PhiSettings",
    "RunSettings",
    "SourceSettings",
    "TrainSettings",
    "TrainerSettings",
    "TransferCropSettings",
    "TransferDataSettings",
    "TransferSettings",
    "TransferViewSettings",
    "TtaDataSettings",
    "TtaModelSettings",
    "TtaPhiSettings",
    "TtaSettings",
    "TtaViewSettings",
    "ViewSettings",
    "read_run_settings",
]

Task = Literal["classification", "regression", "contrastive"]
OptimizerName = Literal["sgd", "adam", "adamw"]
ScheduleName = Literal["constant", "cosine", "one_cycle", "plateau", "steps"]
Pair = tuple[float, float]
Bands = Pair | dict[str, Pair]
Levels = tuple[tuple[float, int], ...]
ChannelValues = Literal["imagenet"] | tuple[float, ...]
OUTPUT = "Key of a dict or number in a tuple, if the model returns that; else its logits."


@dataclass(frozen=True)
class RunSettings(Settings):
    """What all kinds of runs have in common: ``kind``, the first line of ``config.yaml``."""


@dataclass(frozen=True)
class SourceSettings(Settings):
    """Where images come from, for runs of any kind."""

    title = "Data"
    main = "source"

    source: str = setting("", "Where the images come from.", path=True)
    options: dict[str, Any] = setting(
        {}, "Arguments of a module:function, or of a named set, such as train_lights of rawfoot."
    )
    path_column: str | None = setting(
        None, "Column of a CSV with the paths; found by its name if absent."
    )
    target_column: str | None = setting(
        None, "Column with the labels or numbers; several numbers with commas."
    )
    on_bad_image: Literal["error", "skip"] = setting(
        "error", "Stop at a file that cannot be read, or leave it out and list it."
    )
    cache_dir: str | None = setting(None, "Where decoded images are kept between runs.", path=True)

    @override
    @classmethod
    def combine(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
        """Options belong to their function: those of another source are dropped."""
        same = "source" not in before or before["source"] == after.get("source", before["source"])
        return {**(before if same else {**before, "options": {}}), **after}


@dataclass(frozen=True)
class DataSettings(SourceSettings):
    """The images of a training run."""

    source: str = setting(
        "sprites",
        "A named set, a folder with one folder per class, a CSV or .npz file, or module:function.",
        path=True,
    )
    root: str | None = setting(None, "Where the original files of a named set are.", path=True)
    image_size: int | None = setting(
        None, "Side in pixels to resize images to; chosen from the images if absent.", at_least=8
    )
    channels: int | None = setting(
        None, "1 or 3 color channels; chosen from the images if absent.", at_least=0
    )
    batch_size: int = setting(32, "Images per step and process.", at_least=2)
    flip: bool = setting(False, "Mirror training images at random, whatever the method.")
    vary: dict[str, float] = setting(
        {},
        "Transforms that happen to training images at random, whatever the method, with shares of "
        "their ranges, such as {brightness: 0.4, contrast: 0.4}.",
    )
    test_fraction: float = setting(
        0.2,
        "Share held out for the result, if the data have no test set.",
        at_least=0,
    )
    validation_fraction: float = setting(
        0.1, "Share of the training images to watch training with; 0 for none.", at_least=0
    )
    train_fraction: float = setting(
        1.0, "Share of the training images to learn from, for quick trials.",
        at_least=0.001, at_most=1,
    )  # fmt: skip
    held_out_fraction: float = setting(
        0.1, "Share of the training images that adaaug or phi.signal keep from the model.",
        at_least=0, at_most=0.5,
    )  # fmt: skip
    split: Literal["random", "block", "similar"] = setting(
        "random",
        "Hold out single images; blocks of neighbors, which may show one object; or images of "
        "similar colors together.",
    )


@dataclass(frozen=True)
class ModelSettings(Settings):
    """The model to train."""

    title = "Model"
    main = "name"

    name: str = setting("auto", "A name from `instaaug list models`, timm:NAME, module:function.")
    pretrained: bool = setting(
        False,
        "Take the published weights of timm:NAME, and images as they expect them; or "
        "--pretrained.",
    )
    output: str | None = setting(None, OUTPUT)
    width: float = setting(1.0, "Multiplies the channels of a named model.", at_least=0)
    stem_stride: int = setting(
        0, "Stride of PreActResNet's first layer; 0 is 2 from 64 pixels on, else 1.", at_least=0
    )
    mean: ChannelValues | None = setting(
        None,
        "Mean to normalize images in [0, 1] with, for a pre-trained model: one number, one per "
        "channel, or imagenet; that of the training images if absent.",
    )
    std: ChannelValues | None = setting(
        None, "Standard deviation to normalize with: as for the mean."
    )


@dataclass(frozen=True)
class MethodSettings(Settings):
    """What augments the training images, and its own options, such as ``alpha`` of mixup."""

    title = "Augmentation"
    main = "name"
    open = "options"

    name: str = setting(
        "instaaug",
        "A name from `instaaug list methods`, or module:Class; options as --method.alpha 0.2.",
    )
    options: dict[str, Any] = setting({}, "The method's own options.")

    @override
    @classmethod
    def combine(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
        """Options belong to their method: those of another one are dropped."""
        same = before.get("name") == after.get("name", before.get("name")) or "name" not in before
        return {**(before if same else {}), **after}


@dataclass(frozen=True)
class CropSettings(Settings):
    """The boxes that crops are chosen from."""

    title = "Crops"

    grid: Literal["receptive"] | Levels = setting(
        ((0.35, 7), (0.5, 6), (0.65, 5), (0.8, 4), (1.0, 1)),
        "Boxes: [side, places per axis] of each size; or receptive, what units of φ's network "
        "see, as in the paper.",
    )
    layers: tuple[int, ...] | None = setting(
        None,
        "Maps of φ's network that receptive takes, from 0, the finest; if absent, all whose units "
        "see less than the image.",
    )
    max_outside: float = setting(
        0.0, "Share of a box, per axis, that may lie outside of the image.", at_least=0, at_most=1
    )
    loose: bool | None = setting(
        None,
        "Whether boxes move and change their size a little in training; if absent, unless they "
        "are receptive.",
    )
    size: int | None = setting(
        None,
        "Side in pixels of what the model sees, cut from larger images; their own if absent.",
        at_least=8,
    )


@dataclass(frozen=True)
class LocalSettings(Settings):
    """The boxes that local transforms change the image in."""

    title = "Local transforms"

    grid: Levels = setting(((0.25, 16), (0.5, 8)), "Boxes: [side, places per axis] of each size.")


@dataclass(frozen=True)
class EntropySettings(Settings):
    """How diverse learned augmentation has to be."""

    title = "Entropy"
    main = "band"

    band: Bands | None = setting(None, "Entropy band in nats: [least, most], or by name.")
    diversity: Bands | None = setting(
        None, "The band as effective share of all transforms, in place of nats."
    )
    per: Literal["side", "parameter", "factor", "total"] = setting(
        "side",
        "What has a band and a λ of its own: each side of a range, each parameter, each factor, "
        "or their total, as in the paper.",
    )
    rule: Literal["pi", "multiplicative", "fixed"] = setting(
        "pi", "How λ is moved to keep the entropy in its band."
    )
    weight: float = setting(0.1, "λ at the start.", at_least=0)
    factor: float = setting(
        1.01, "What the multiplicative rule multiplies or divides λ by in a step.", at_least=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.band is not None and self.diversity is not None:
            raise ArgumentError(
                "`entropy.band` and `entropy.diversity` are two units of the same thing: got "
                "both. Give one of them."
            )

    @override
    @classmethod
    def combine(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
        """A band in one unit replaces a band in the other."""
        new = [name for name in ("band", "diversity") if after.get(name) is not None]
        old = {name: None for name in ("band", "diversity") if len(new) == 1 and name in before}
        return {**before, **old, **after}


@dataclass(frozen=True)
class PhiSettings(Settings):
    """φ, the network that learns which augmentations suit an input."""

    title = "φ"

    conditioning: Literal["input", "none", "class"] = setting(
        "input", "What the learned distribution depends on."
    )
    network: str = setting(
        "glance",
        "Its network: glance, envelope, pyramid, preact_resnet18, preact_resnet18_bn or "
        "basic_cnn; or model, the maps of the model itself.",
    )
    width: float = setting(1.0, "Multiplies the channels of the network.", at_least=0)
    estimator: Literal["auto", "pathwise", "score", "exact", "closed_form"] = setting(
        "auto", "How its gradient is estimated; closed_form predicts the loss of every box."
    )
    baseline: Literal["auto", "none", "batch", "value", "rloo", "critic"] = setting(
        "auto", "What the score function subtracts to be less noisy."
    )
    sizes: Literal["learned", "uniform"] = setting(
        "learned", "Whether the closed form learns which sizes of boxes to draw, or only where."
    )
    ranges: Literal["uniform", "latent"] = setting(
        "uniform", "How ranges are drawn from: uniformly, or decoded from a Gaussian (ablation)."
    )
    undo: float = setting(
        0.0,
        "Share of the ranges of colors that a network learns to undo in inputs, for another light "
        "at test time; 0 undoes nothing.",
        at_least=0,
        at_most=1,
    )
    optimizer: OptimizerName = setting("adam", "Its optimizer; sgd has a momentum of 0.9.")
    learning_rate: float | None = setting(None, "Its learning rate; 1e-3 if absent.", at_least=0)
    input_rate: float | None = setting(
        None,
        "Factor on the rate of what depends on the input; if absent, 0.01 for colors, which all "
        "inputs share at first, else 1.",
        at_least=0,
    )
    schedule: ScheduleName = setting("constant", "How its learning rate changes.")
    rest_epochs: int = setting(
        0, "Epochs after `pretrain_epochs` in which φ augments but does not learn yet.", at_least=0
    )
    step: Literal["joint", "separate"] = setting(
        "joint", "Learn along with the model, or after it in a pass of its own."
    )
    goal: Literal["auto", "loss", "usefulness"] = setting(
        "auto",
        "What it looks for: views of low loss, as in the paper, or views from which the model "
        "learns what helps others; auto: usefulness for crops.",
    )
    signal: Literal["auto", "training", "validation", "held_out", "rotating"] = setting(
        "auto",
        "Images it learns from: the model's own, validation images, or some that the model "
        "gets later (or in turn); auto: validation for usefulness.",
    )
    signal_share: float = setting(
        0.6,
        "Share of the epochs in which images are kept from the model; then φ is frozen.",
        at_least=0, at_most=1,
    )  # fmt: skip
    try_out: tuple[Literal["mirror", "light", "whole", "mix"], ...] = setting(
        ("mirror", "light", "whole", "mix"),
        "What held-out images decide, where it looks for usefulness: mirror images, another "
        "light, whole images in the end, mixed images; or [].",
    )
    dependence: Literal["auto"] | float = setting(
        "auto",
        "How much it depends on the input at test time, from 0, one distribution for all, to 1, "
        "as learned; auto is what validation images say, or 1.",
        at_least=0,
        at_most=1,
    )


@dataclass(frozen=True)
class OptimizerSettings(Settings):
    """How the model is optimized."""

    title = "Optimizer"
    main = "name"

    name: OptimizerName = setting("adamw", "Optimizer of the model.")
    learning_rate: float = setting(
        1e-3, "Learning rate of the model; the peak of a cycle.", at_least=0
    )
    momentum: float = setting(
        0.9, "Momentum of sgd; one_cycle moves it from 0.95 to 0.85 and back.", at_least=0
    )
    weight_decay: float = setting(0.01, "Weight decay of the model.", at_least=0)
    schedule: ScheduleName = setting("one_cycle", "How the learning rate changes.")
    drops: tuple[float, ...] = setting(
        (0.9, 0.95), "Shares of the training after which schedule steps drops the rate."
    )
    drop_factor: float = setting(
        0.9, "What the rate is multiplied by at a drop, and on a plateau.", at_least=0
    )
    warmup_steps: int = setting(0, "First steps, in which the rate rises from zero.", at_least=0)
    backbone_rate: float | None = setting(
        None,
        "Factor on the learning rate of all layers but the last; if absent, 0.1 for a pre-trained "
        "model, else 1.",
        at_least=0,
    )


@dataclass(frozen=True)
class LossSettings(Settings):
    """What the model minimizes."""

    title = "Loss"

    label_smoothing: float = setting(
        0.0, "Label smoothing of a classification.", at_least=0, at_most=1
    )
    regression: Literal["squared", "absolute"] = setting("squared", "Error of a regression.")


@dataclass(frozen=True)
class ContrastiveSettings(Settings):
    """Contrastive learning: the loss, the projection head, the fixed distortions."""

    title = "Contrastive learning"

    temperature: float = setting(0.5, "Divides the cosines of projections.")
    hidden: int = setting(1024, "Width of the projection head.", at_least=1)
    n_projected: int = setting(128, "Length of a projection.", at_least=1)
    strength: float = setting(0.5, "Strength of the color jitter; 1 is SimCLR's.", at_least=0)
    jitter: float = setting(0.8, "Probability of color jitter.", at_least=0, at_most=1)
    gray: float = setting(0.1, "Probability of a gray picture.", at_least=0, at_most=1)
    blur: float = setting(0.0, "Probability of blur.", at_least=0, at_most=1)
    mirror: float = setting(0.5, "Probability that a view is mirrored.", at_least=0, at_most=1)


@dataclass(frozen=True)
class ViewSettings(Settings):
    """Test-time augmentation of a trained model."""

    title = "Test time"

    n_views: int = setting(
        10,
        "Views of each image to average; predictions use them if validation images say that they "
        "help.",
        at_least=1,
    )
    merge: Literal["auto", "logit", "probability", "weighted", "confidence"] = setting(
        "auto",
        "What test-time augmentation averages, and with which weights; auto is the method's own "
        "way, or, if that is the mean, by confidence where validation images say so.",
    )
    select: Literal["auto", "sample", "top"] = setting(
        "auto",
        "Draw views at test time, or take the most representative; auto draws them or, for crops, "
        "learns one order of boxes for all images where validation images say that it is better.",
    )
    replace: bool = setting(False, "Whether the same view may be drawn twice.")

    @property
    def drawn(self) -> Literal["sample", "top"]:
        """How views are chosen where no order of them was learned."""
        return "sample" if self.select == "auto" else self.select


@dataclass(frozen=True)
class TrainerSettings(Settings):
    """Lightning's trainer, in Lightning's words, and what else concerns the machine."""

    title = "Trainer"

    max_epochs: int = setting(20, "Passes through the training images.", at_least=1)
    gradient_clip_val: float = setting(
        0.0, "Largest norm of the model's gradient; 0 for any.", at_least=0
    )
    accumulate_grad_batches: int = setting(
        1, "Batches whose gradients are added up for a step.", at_least=1
    )
    accelerator: str = setting("auto", "cpu, cuda, mps, or auto.")
    devices: int = setting(1, "Processes or accelerators to use.", at_least=1)
    num_nodes: int = setting(1, "Machines that take part.", at_least=1)
    strategy: str = setting(
        "auto", "How several processes share the work: Lightning's name; auto is ddp for several."
    )
    precision: str = setting("32-true", "Lightning's precision, such as bf16-mixed.")
    logger: tuple[Literal["tensorboard", "csv", "wandb", "mlflow"], ...] = setting(
        ("tensorboard",),
        "Where curves go, beside metrics.csv: tensorboard, csv, wandb, mlflow; or several.",
    )
    log_every_n_steps: int = setting(20, "Steps between points of these curves.", at_least=1)
    checkpoint_minutes: float = setting(
        5.0, "Longest time between checkpoints within an epoch of one process.", at_least=0
    )
    compile: bool = setting(False, "Compile the model: slower to start, then faster.")
    threads: int = setting(0, "Processor threads per process; 0 leaves it to torch.", at_least=0)


@dataclass(frozen=True)
class TrainSettings(RunSettings):
    """What ``instaaug train`` does.

    Example:
        >>> TrainSettings.from_mapping({"method": "mixup", "method.alpha": 0.2}).method
        MethodSettings(name='mixup', options={'alpha': 0.2})
        >>> TrainSettings.from_mapping({"trainer": {"max_epoch": 3}}, source="my.yaml")
        Traceback (most recent call last):
        instaaug.errors.UnknownNameError: There is no setting in my.yaml called
        'trainer.max_epoch'. Did you mean 'trainer.max_epochs'? ...
    """

    title = "Run"

    kind: Literal["train"] = setting("train", "The kind of run.")
    task: Task = setting(
        "classification", "What the targets are; contrastive learning needs none."
    )
    seed: int = setting(
        0, "Decides splits, weights, order and draws.", at_least=0, at_most=2**31 - 1
    )
    transforms: tuple[str, ...] = setting(
        ("auto",), "Names from `instaaug list transforms`; auto is crop but for turned sprites."
    )
    padding_mode: Literal["zeros", "border", "reflection"] = setting(
        "zeros", "What lies outside of the image."
    )
    n_samples: int = setting(1, "Augmented samples of each image in a step.", at_least=1)
    pretrain_epochs: int = setting(0, "First epochs without any augmentation.", at_least=0)
    finetune_epochs: int = setting(0, "Last epochs without the method's augmentation.", at_least=0)
    data: DataSettings = section(DataSettings)
    model: ModelSettings = section(ModelSettings)
    method: MethodSettings = section(MethodSettings)
    crop: CropSettings = section(CropSettings)
    local: LocalSettings = section(LocalSettings)
    entropy: EntropySettings = section(EntropySettings)
    phi: PhiSettings = section(PhiSettings)
    optimizer: OptimizerSettings = section(OptimizerSettings)
    loss: LossSettings = section(LossSettings)
    contrastive: ContrastiveSettings = section(ContrastiveSettings)
    views: ViewSettings = section(ViewSettings)
    trainer: TrainerSettings = section(TrainerSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, schedule in (
            ("optimizer.schedule", self.optimizer.schedule),
            ("phi.schedule", self.phi.schedule),
        ):
            if schedule == "plateau" and not self.data.validation_fraction:
                raise ArgumentError(
                    f"`{name}` plateau watches the validation images: got "
                    "`data.validation_fraction` 0. Hold some out, or choose another schedule."
                )
        if self.task == "regression" and self.views.merge in ("probability", "confidence"):
            raise ArgumentError(
                f"`views.merge` {self.views.merge} needs classes: got `task` regression. Choose "
                "logit, which averages the outputs."
            )
        if self.trainer.gradient_clip_val and self.trainer.precision == "16-mixed":
            raise ArgumentError(
                "`trainer.gradient_clip_val` does not work with the gradient scaling of "
                "`trainer.precision` 16-mixed. Choose bf16-mixed."
            )
        if self.task == "contrastive" and (self.n_samples > 1 or self.phi.step == "separate"):
            raise ArgumentError(
                "Contrastive learning has two samples of each image in every step, and one pass: "
                "leave `n_samples` at 1 and `phi.step` at joint."
            )

    @property
    def target_kind(self) -> Literal["classification", "regression"]:
        """What the targets of the data are; contrastive learning is tested on classes."""
        return "regression" if self.task == "regression" else "classification"


@dataclass(frozen=True)
class NetworkSettings(Settings):
    """A frozen network, and what it expects."""

    title = "Model"
    main = "name"

    name: str = setting(
        "",
        "A module:function that returns a trained model, timm:NAME, or the folder of a finished "
        "`instaaug train`.",
        path=True,
    )
    output: str | None = setting(None, OUTPUT)
    mean: ChannelValues | None = setting(
        None,
        "Mean to normalize images in [0, 1] with: one number, one per channel, or imagenet; the "
        "model's own if it is known, else none.",
    )
    std: ChannelValues | None = setting(
        None, "Standard deviation to normalize with: as for the mean."
    )
    image_size: int | None = setting(
        None,
        "Side in pixels of what the model sees; its own if it is known, else what suits the "
        "images.",
        at_least=8,
    )
    channels: int | None = setting(
        None, "1 or 3 color channels; the model's own if they are known, else 3.", at_least=1
    )


@dataclass(frozen=True)
class TtaModelSettings(NetworkSettings):
    """The frozen model, and what it expects."""

    classes: str | None = setting(
        None,
        "A file with the model's classes, one name per line, in the order of its outputs; the "
        "sorted class names of DATA if absent.",
        path=True,
    )


@dataclass(frozen=True)
class BackboneSettings(NetworkSettings):
    """The frozen network whose features a head learns from."""

    title = "Backbone"

    use_output: bool = setting(
        False, "Take its output for features even where its last layer is linear."
    )


@dataclass(frozen=True)
class OtherModelSettings(TtaModelSettings):
    """A model that uses the views which were fitted for another."""

    title = "Another model, with the views that were fitted for the run's own"

    image_size: int | None = setting(
        None, "Side in pixels of what it sees; its own if it is known, else the run's.", at_least=8
    )
    classes: str | None = setting(
        None,
        "A file with its classes, one name per line, in the order of its outputs; those of the "
        "run if absent.",
        path=True,
    )


@dataclass(frozen=True)
class EvaluateSettings(Settings):
    """What ``instaaug evaluate`` may be told of another model."""

    model: OtherModelSettings = section(OtherModelSettings)


@dataclass(frozen=True)
class TtaDataSettings(SourceSettings):
    """Images that the frozen model has not learned from."""

    source: str = setting(
        "",
        "Images that the model has not learned from: a folder with one folder per class, a CSV, "
        "an .npz file, a named set or module:function.",
        path=True,
    )
    decode_size: int | None = setting(
        None,
        "Side in pixels to decode images to, so that crops keep detail; twice the model's size, "
        "or less where the files are smaller, if absent.",
        at_least=8,
    )
    test_fraction: float = setting(
        0.5, "Share held out to report the gain; 0 learns from all.", at_least=0
    )
    limit: int | None = setting(None, "Most images to use, from all over DATA.", at_least=2)
    max_table_gb: float = setting(
        4.0,
        "Most room for the model's outputs, in 10^9 bytes; if all images need more, φ learns from "
        "a stream of them.",
        at_least=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.test_fraction >= 1:
            raise ArgumentError(
                f"`data.test_fraction` must lie in [0, 1): got {self.test_fraction}. Hold out "
                "half of the images, 0.5, or none, 0."
            )


@dataclass(frozen=True)
class TtaCropSettings(Settings):
    """The boxes that views are chosen from."""

    title = "Views"

    grid: Levels = setting(
        ((1.0, 1), (0.8, 2), (0.6, 3), (0.4, 4)), "Boxes: [side, places per axis] of each size."
    )


@dataclass(frozen=True)
class FrozenViewSettings(Settings):
    """How many views are merged, and how."""

    title = "Views"
    main = "counts"

    counts: tuple[int, ...] = setting(
        (2, 4, 10), "How many views will be averaged; one order serves all these numbers."
    )
    merge: Literal["logit", "confidence", "auto"] = setting(
        "auto",
        "Average outputs plainly, or weighted by how sure the model is of each; auto takes what "
        "suits random views of the images.",
    )
    sharpness: float | None = setting(
        None, "How much confidence counts; chosen on random views of the images if absent.",
        at_least=0, at_most=10,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.counts or min(self.counts) < 2:
            raise ArgumentError(
                "`views` must be whole numbers from 2 on, such as [2, 4, 10]: got "
                f"{list(self.counts)}."
            )
        object.__setattr__(self, "counts", tuple(sorted(set(self.counts))))


@dataclass(frozen=True)
class TtaViewSettings(FrozenViewSettings):
    """How many views are merged, and how; and the whole image in other sizes."""

    sizes: Literal["auto"] | tuple[int, ...] = setting(
        "auto",
        "Other sides in pixels that the whole image is tried in: a smaller one as a first look, "
        "larger ones as rivals; auto is some that the model takes.",
    )


@dataclass(frozen=True)
class TtaPhiSettings(Settings):
    """How φ learns for a frozen model."""

    title = "φ"

    objective: Literal["auto", "views", "ensemble", "single"] = setting(
        "auto",
        "Loss of the mean over so many views, of the mean over all by their probability, or of "
        "single views, as in the paper; auto is views where these can be listed and no entropy is "
        "given, else single.",
    )
    features: Literal["model", "none"] = setting(
        "model", "What φ reads: the model's own features, or nothing: the same views for all."
    )
    network: str | None = setting(
        None,
        "A network of φ's own that reads pixels in place of these features: glance, pyramid or "
        "preact_resnet18.",
    )
    steps: int = setting(400, "Steps of the optimizer.", at_least=1)
    passes: float = setting(
        1.0, "Times that each image is streamed where a table is too large; 0.1 for a tenth.",
        at_least=0.001,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.network is not None and self.features == "none":
            raise ArgumentError(
                f"`phi.network` reads pixels: got {self.network!r} along with `phi.features` "
                "none, which reads nothing. Leave one of them out."
            )


@dataclass(frozen=True)
class TtaSettings(RunSettings):
    """What ``instaaug tta`` does: learn which views to average for a model that stays as it is."""

    title = "Run"

    kind: Literal["tta"] = setting("tta", "The kind of run.")
    seed: int = setting(0, "Decides the split, the start and the order of images.", at_least=0)
    threads: int = setting(0, "Processor threads; 0 leaves it to torch.", at_least=0)
    transforms: tuple[str, ...] = setting(("crop",), "Names from `instaaug list transforms`.")
    entropy: Bands | None = setting(
        None,
        "Entropy band in nats, for the objective of single views: [least, most], or one per "
        "factor.",
    )
    model: TtaModelSettings = section(TtaModelSettings)
    data: TtaDataSettings = section(TtaDataSettings)
    crop: TtaCropSettings = section(TtaCropSettings)
    views: TtaViewSettings = section(TtaViewSettings)
    phi: TtaPhiSettings = section(TtaPhiSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model.name or not self.data.source:
            raise ArgumentError("`model` and `data` must be given: got nothing for one of them.")
        if self.entropy is not None and self.phi.objective in ("views", "ensemble"):
            raise ArgumentError(
                f"`entropy` belongs to `phi.objective` single: got {self.phi.objective}, which "
                "has no band. Leave one of them out."
            )

    @property
    def objective(self) -> Literal["views", "ensemble", "single"] | None:
        """What φ minimizes; None leaves it to what the views are."""
        if self.phi.objective == "auto":
            return None if self.entropy is None else "single"
        return self.phi.objective


@dataclass(frozen=True)
class TransferDataSettings(SourceSettings):
    """Images of the classes that a head is to tell apart."""

    source: str = setting(
        "",
        "Images to learn from: a folder with one folder per class, or with such folders in train "
        "and test; a CSV, an .npz file, a named set or module:function.",
        path=True,
    )
    decode_size: int | None = setting(
        None,
        "Side in pixels to decode images to, so that crops keep detail; twice the backbone's "
        "size, or less where the files are smaller, if absent.",
        at_least=8,
    )
    test_fraction: float = setting(
        0.2, "Share held out for the result, if the data have no test set; 0 for none.",
        at_least=0, at_most=0.9,
    )  # fmt: skip
    limit: int | None = setting(None, "Most images to use, from all over DATA.", at_least=2)


@dataclass(frozen=True)
class TransferCropSettings(TtaCropSettings):
    """The boxes that the head learns from and that views are chosen from."""

    mirror: bool = setting(False, "Add the mirror image of every box, at twice the cost.")


@dataclass(frozen=True)
class TransferViewSettings(FrozenViewSettings):
    """How many views are merged."""

    counts: tuple[int, ...] = setting(
        (4, 10), "How many views will be merged; the largest is what predictions take."
    )
    merge: Literal["logit", "confidence", "auto"] = setting(
        "auto",
        "Average outputs plainly, or weighted by how sure the head is of each; auto takes what "
        "suits random views of the images.",
    )
    steps: int = setting(100, "Steps in which φ learns the views of each image.", at_least=1)


@dataclass(frozen=True)
class TransferSettings(RunSettings):
    """What ``instaaug transfer`` does: learn a head and its views on a backbone that stays."""

    title = "Run"

    kind: Literal["transfer"] = setting("transfer", "The kind of run.")
    seed: int = setting(0, "Decides the split, and where views start from.", at_least=0)
    threads: int = setting(0, "Processor threads; 0 leaves it to torch.", at_least=0)
    data: TransferDataSettings = section(TransferDataSettings)
    backbone: BackboneSettings = section(BackboneSettings)
    crop: TransferCropSettings = section(TransferCropSettings)
    views: TransferViewSettings = section(TransferViewSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.backbone.name or not self.data.source:
            raise ArgumentError(
                "`data` and `backbone` must be given: got nothing for one of them. Name a folder "
                "of images, and a backbone by --backbone timm:NAME or --backbone module:function."
            )

    @property
    def model(self) -> BackboneSettings:
        """The network that is frozen, by the name that other kinds of runs have for it."""
        return self.backbone


FrozenSettings = TtaSettings | TransferSettings
"""Runs on a network that stays as it is."""


def read_run_settings(values: Mapping[Any, Any], *, source: str) -> RunSettings:
    """The settings of a run of any kind, as its ``config.yaml`` has them.

    Arguments:
        values: With the kind of the run.
        source: The file, for the words of an error.
    """
    kinds: dict[str, type[RunSettings]] = {
        "train": TrainSettings,
        "tta": TtaSettings,
        "transfer": TransferSettings,
    }
    kind = str(values.get("kind", "train"))
    if kind not in kinds:
        raise UnknownNameError(f"kind of run in {source}", kind, kinds)
    return kinds[kind].from_mapping(values, source=source)
