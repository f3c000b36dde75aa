"""Every setting of a training run: one place for names, defaults, and a sentence on each."""
# ruff: noqa: RUF009  # `setting` makes a field; ruff cannot see that

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, Literal

from instaaug.errors import ArgumentError
from instaaug.runs.config_checks import check_combinations
from instaaug.runs.settings import (
    check_types,
    located,
    plain_settings,
    read_settings,
    setting,
    setting_help,
    setting_panel,
)

__all__ = [
    "PANELS",
    "TrainConfig",
    "read_config",
    "setting_help",
    "setting_panel",
]

Task = Literal["classification", "regression", "contrastive"]
Method = Literal[
    "instaaug", "none", "random", "augerino", "adaaug", "adacrops", "autoaugment", "randaugment",
    "trivialaugment", "fast_autoaugment", "mixup", "cutmix", "spatial_transformer", "metaaugment",
    "random_resized_crop", "unmix", "viewmaker",
]  # fmt: skip
Schedule = Literal["constant", "cosine", "one_cycle", "plateau", "steps"]
Pair = tuple[float, float]
Bands = Pair | dict[str, Pair]

PANELS = ("Data", "Model", "Augmentation", "Training", "Evaluation", "Machine")


@dataclass(frozen=True)
class TrainConfig:
    """What ``instaaug train`` does; each field is an option and a line of ``config.yaml``."""

    data: str = setting(
        "Data",
        "sprites",
        "A named set, a folder with one folder per class, a CSV or an .npz file.",
    )
    root: str | None = setting("Data", None, "Where the original files of a named set are.")
    task: Task = setting(
        "Data", "classification", "What the targets are; contrastive learning needs none."
    )
    image_size: int | None = setting(
        "Data",
        None,
        "Side in pixels that images are resized to; chosen from the images if absent.",
    )
    channels: int | None = setting(
        "Data", None, "1 or 3 color channels; chosen from the images if absent."
    )
    test_fraction: float = setting(
        "Data", 0.2, "Share held out for the result, where the data have no test set of their own."
    )
    validation_fraction: float = setting(
        "Data", 0.1, "Share of the training images that watches over training; 0 for none."
    )
    train_fraction: float = setting(
        "Data", 1.0, "Share of the training images to learn from, for quick trials."
    )
    split: Literal["random", "block"] = setting(
        "Data",
        "random",
        "Hold out single images, or blocks of neighbors that may show one object.",
    )
    lights: tuple[str, str] | None = setting(
        "Data", None, "Simulated lights for training and for test, such as '1-4' '5-12,40'."
    )
    path_column: str | None = setting(
        "Data", None, "Column of a CSV with the paths; found by its name if absent."
    )
    target_column: str | None = setting(
        "Data", None, "Column with the labels or numbers; several numbers with commas."
    )
    on_bad_image: Literal["error", "skip"] = setting(
        "Data", "error", "Stop at a file that cannot be read, or leave it out and list it."
    )
    cache_dir: str | None = setting("Data", None, "Where decoded images are kept between runs.")

    model: str = setting(
        "Model", "auto", "A name from `instaaug list models`, timm:NAME, or module:function."
    )
    width: float = setting("Model", 1.0, "Multiplies the channels of a named model.")
    stem_stride: int = setting(
        "Model", 0, "Stride of PreActResNet's first layer; 0 takes 2 from 64 pixels on, else 1."
    )

    method: Method = setting("Augmentation", "instaaug", "What augments the training images.")
    options: str = setting(
        "Augmentation", "", "Settings of the method's own, such as alpha=0.2 for mixup."
    )
    transforms: str = setting(
        "Augmentation", "auto", "Comma-separated names from `instaaug list transforms`."
    )
    diversity: Bands | None = setting(
        "Augmentation",
        None,
        "Entropy band as effective share of the transforms; in YAML also by factor.",
    )
    entropy: Bands | None = setting("Augmentation", None, "Entropy band in nats, instead.")
    grid: str = setting(
        "Augmentation", "0.375x16,0.75x8,1x1", "Boxes of crops: side x places per axis, ..."
    )
    max_outside: float = setting(
        "Augmentation", 1.0, "Share of a box, per axis, that may lie outside of the image."
    )
    conditioning: Literal["input", "none", "class"] = setting(
        "Augmentation", "input", "What the learned distribution depends on."
    )
    network: str = setting("Augmentation", "glance", "The network of φ.")
    phi_width: float = setting("Augmentation", 1.0, "Multiplies the channels of φ.")
    estimator: Literal["auto", "pathwise", "score", "exact"] = setting(
        "Augmentation", "auto", "How φ's gradient is estimated."
    )
    baseline: Literal["none", "batch", "value", "rloo", "critic"] = setting(
        "Augmentation", "value", "What the score function subtracts to be less noisy."
    )
    rule: Literal["pi", "multiplicative", "fixed"] = setting(
        "Augmentation", "pi", "How λ is moved to keep the entropy in its band."
    )
    weight: float = setting("Augmentation", 0.1, "λ at the start.")
    strength: float | dict[str, float] = setting(
        "Augmentation",
        1.0,
        "Share of each range that the random method draws from; in YAML also by parameter.",
    )
    sizes: Pair = setting(
        "Augmentation", (0.25, 1.0), "Smallest and largest crop of the random method."
    )
    padding_mode: Literal["zeros", "border", "reflection"] = setting(
        "Augmentation", "zeros", "What lies outside of the image."
    )
    flip: bool = setting(
        "Augmentation", False, "Mirror training images at random, whatever the method."
    )

    epochs: int = setting("Training", 20, "Passes through the training images.")
    batch_size: int = setting("Training", 32, "Images per step and process.")
    n_samples: int = setting("Training", 1, "Augmented samples of each image in a step.")
    optimizer: Literal["sgd", "adam", "adamw"] = setting(
        "Training", "adamw", "Optimizer of the model."
    )
    learning_rate: float = setting(
        "Training", 1e-3, "Learning rate of the model; its peak in a cycle."
    )
    momentum: float = setting(
        "Training", 0.9, "Momentum of sgd; one_cycle moves it from 0.95 to 0.85 and back."
    )
    weight_decay: float = setting("Training", 0.01, "Weight decay of the model.")
    schedule: Schedule = setting(
        "Training", "one_cycle", "How the learning rate of the model moves."
    )
    drops: str = setting(
        "Training", "0.9,0.95", "Shares of the training after which schedule steps drops the rate."
    )
    drop_factor: float = setting(
        "Training", 0.9, "What the rate is multiplied by at a drop, and on a plateau."
    )
    warmup_steps: int = setting("Training", 0, "First steps, in which the rate rises from zero.")
    phi_optimizer: Literal["sgd", "adam", "adamw"] = setting(
        "Training", "adam", "Optimizer of φ; sgd has a momentum of 0.9."
    )
    phi_learning_rate: float = setting("Training", 1e-3, "Learning rate of φ.")
    phi_schedule: Schedule = setting("Training", "constant", "How the learning rate of φ moves.")
    pretrain_epochs: int = setting("Training", 0, "First epochs without any augmentation.")
    phi_rest_epochs: int = setting(
        "Training", 0, "Epochs after those in which φ augments but does not learn yet."
    )
    phi_step: Literal["joint", "separate"] = setting(
        "Training",
        "joint",
        "Train φ along with the model, or after it in a pass of its own as the authors' code.",
    )
    search_fraction: float = setting(
        "Training",
        0.1,
        "Share of the training images that adaaug, adacrops and metaaugment keep from the model.",
    )
    loss: Literal["squared", "absolute"] = setting("Training", "squared", "Error of a regression.")
    label_smoothing: float = setting("Training", 0.0, "Label smoothing of a classification.")
    contrast: str = setting(
        "Training",
        "",
        "Settings of contrastive learning's own, such as temperature=0.1, blur=0.5.",
    )
    clip: float = setting("Training", 0.0, "Largest norm of the model's gradient; 0 for any.")
    accumulate: int = setting("Training", 1, "Batches whose gradients are added up for a step.")

    test_samples: int = setting("Evaluation", 10, "Samples per image in test-time augmentation.")
    merge: Literal["logit", "probability", "weighted"] = setting(
        "Evaluation", "logit", "What test-time augmentation averages."
    )
    select: Literal["sample", "top"] = setting(
        "Evaluation", "sample", "Draw samples at test time, or take the most representative."
    )

    seed: int = setting("Machine", 0, "Decides splits, weights, order and draws.")
    accelerator: str = setting("Machine", "auto", "cpu, cuda, mps, or auto.")
    devices: int = setting("Machine", 1, "Processes or accelerators to use.")
    strategy: Literal["auto", "ddp"] = setting(
        "Machine", "auto", "How several processes share the work."
    )
    nodes: int = setting("Machine", 1, "Machines that take part.")
    precision: str = setting("Machine", "32-true", "Lightning's precision, such as bf16-mixed.")
    threads: int = setting("Machine", 0, "Processor threads per process; 0 leaves it to torch.")
    compile: bool = setting(
        "Machine", False, "Compile the model for training: slower to start, then faster."
    )
    log_every: int = setting("Machine", 20, "Steps between points of the TensorBoard curves.")
    checkpoint_minutes: float = setting(
        "Machine", 5.0, "Longest time between checkpoints within an epoch of one process."
    )

    def __post_init__(self) -> None:
        check_types(self)
        self._check_counts()
        self.drop_shares()
        if self.diversity is not None and self.entropy is not None:
            raise ArgumentError("`diversity` and `entropy` say the same thing: give one of them.")
        if "plateau" in (self.schedule, self.phi_schedule) and not self.validation_fraction:
            raise ArgumentError(
                '`schedule="plateau"` watches the validation images: got '
                "`validation_fraction` 0. Hold some out, or choose another schedule."
            )

        check_combinations(self)

    def located(self) -> "TrainConfig":
        """The same with absolute paths, so that a run can be used from any folder."""
        return replace(self, **located(self, ("data", "root", "cache_dir")))

    def _check_counts(self) -> None:
        least = {
            "epochs": 1, "batch_size": 2, "n_samples": 1, "test_samples": 1, "devices": 1,
            "nodes": 1, "accumulate": 1, "log_every": 1, "image_size": 8, "train_fraction": 0.001,
        }  # fmt: skip
        most = {
            "seed": 2**31 - 1,
            "label_smoothing": 1,
            "search_fraction": 0.5,
            "train_fraction": 1,
        }
        for name, value in asdict(self).items():
            if not isinstance(value, int | float) or isinstance(value, bool):
                continue
            if not value >= least.get(name, 0):
                raise ArgumentError(
                    f"`{name}` must be at least {least.get(name, 0)}: got {value}."
                )
            if value == inf:
                raise ArgumentError(f"`{name}` must be finite: got {value}.")
            if name in most and value > most[name]:
                raise ArgumentError(f"`{name}` must be at most {most[name]}: got {value}.")

    def target_kind(self) -> Literal["classification", "regression"]:
        """What the targets of the data are; contrastive learning tests itself on classes."""
        return "regression" if self.task == "regression" else "classification"

    def drop_shares(self) -> tuple[float, ...]:
        """When the schedule of steps drops the rate."""
        try:
            return tuple(float(share) for share in self.drops.split(",") if share.strip())
        except ValueError:
            raise ArgumentError(
                f"`drops` must be shares such as 0.9,0.95: got {self.drops!r}."
            ) from None

    def to_dict(self) -> dict[str, Any]:
        """Every setting, as YAML and JSON know it."""
        return plain_settings(self)


def read_config(values: Mapping[Any, Any], *, source: str = "settings") -> TrainConfig:
    """Settings by name, as a YAML file gives them; the rest are defaults.

    Example:
        >>> read_config({"epochs": 3, "entropy": [3.0, 3.5]}).entropy
        (3.0, 3.5)
        >>> read_config({"epoch": 3}, source="my.yaml")
        Traceback (most recent call last):
        instaaug.errors.UnknownNameError: There is no setting in my.yaml called 'epoch'. ...
    """
    return read_settings(TrainConfig, values, source=source)
