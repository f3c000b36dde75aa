"""Every setting of a training run: one place for names, defaults, and a sentence on each."""
# ruff: noqa: RUF009  # `_setting` makes a field; ruff cannot see that

from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from math import inf
from pathlib import Path
from reprlib import repr  # noqa: A004  # a hostile file may hold a value of any length
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from instaaug.errors import ArgumentError, UnknownNameError

__all__ = ["PANELS", "TrainConfig", "read_config", "setting_help", "setting_panel"]

Task = Literal["classification", "regression"]
Method = Literal["instaaug", "random", "none"]
Pair = tuple[float, float]
Bands = Pair | dict[str, Pair]

PANELS = ("Data", "Model", "Augmentation", "Training", "Evaluation", "Machine")


def _setting(panel: str, default: Any, sentence: str) -> Any:
    return field(default=default, metadata={"panel": panel, "help": sentence})


@dataclass(frozen=True)
class TrainConfig:
    """What ``instaaug train`` does; each field is an option and a line of ``config.yaml``."""

    data: str = _setting(
        "Data",
        "sprites",
        "A named set, a folder with one folder per class, a CSV or an .npz file.",
    )
    root: str | None = _setting("Data", None, "Where the original files of a named set are.")
    task: Task = _setting("Data", "classification", "What the targets are.")
    image_size: int | None = _setting(
        "Data",
        None,
        "Side in pixels that images are resized to; chosen from the images if absent.",
    )
    channels: int | None = _setting(
        "Data", None, "1 or 3 color channels; chosen from the images if absent."
    )
    test_fraction: float = _setting(
        "Data", 0.2, "Share held out for the result, where the data have no test set of their own."
    )
    validation_fraction: float = _setting(
        "Data", 0.1, "Share of the training images that watches over training; 0 for none."
    )
    split: Literal["random", "block"] = _setting(
        "Data",
        "random",
        "Hold out single images, or blocks of neighbors that may show one object.",
    )
    lights: tuple[str, str] | None = _setting(
        "Data", None, "Simulated lights for training and for test, such as '1-4' '5-12,40'."
    )
    path_column: str | None = _setting(
        "Data", None, "Column of a CSV with the paths; found by its name if absent."
    )
    target_column: str | None = _setting(
        "Data", None, "Column with the labels or numbers; several numbers with commas."
    )
    on_bad_image: Literal["error", "skip"] = _setting(
        "Data", "error", "Stop at a file that cannot be read, or leave it out and list it."
    )
    cache_dir: str | None = _setting("Data", None, "Where decoded images are kept between runs.")

    model: str = _setting(
        "Model", "auto", "A name from `instaaug list models`, timm:NAME, or module:function."
    )
    width: float = _setting("Model", 1.0, "Multiplies the channels of a named model.")
    stem_stride: int = _setting(
        "Model", 0, "Stride of PreActResNet's first layer; 0 takes 2 from 64 pixels on, else 1."
    )

    method: Method = _setting("Augmentation", "instaaug", "What augments the training images.")
    transforms: str = _setting(
        "Augmentation", "auto", "Comma-separated names from `instaaug list transforms`."
    )
    diversity: Bands | None = _setting(
        "Augmentation",
        None,
        "Entropy band as effective share of the transforms; in YAML also by factor.",
    )
    entropy: Bands | None = _setting("Augmentation", None, "Entropy band in nats, instead.")
    grid: str = _setting(
        "Augmentation", "0.375x16,0.75x8,1x1", "Boxes of crops: side x places per axis, ..."
    )
    max_outside: float = _setting(
        "Augmentation", 1.0, "Share of a box, per axis, that may lie outside of the image."
    )
    conditioning: Literal["input", "none", "class"] = _setting(
        "Augmentation", "input", "What the learned distribution depends on."
    )
    network: str = _setting("Augmentation", "pyramid", "The network of φ.")
    phi_width: float = _setting("Augmentation", 1.0, "Multiplies the channels of φ.")
    estimator: Literal["auto", "pathwise", "score", "exact"] = _setting(
        "Augmentation", "auto", "How φ's gradient is estimated."
    )
    baseline: Literal["none", "batch", "value", "rloo", "critic"] = _setting(
        "Augmentation", "value", "What the score function subtracts to be less noisy."
    )
    rule: Literal["pi", "multiplicative", "fixed"] = _setting(
        "Augmentation", "pi", "How λ is moved to keep the entropy in its band."
    )
    weight: float = _setting("Augmentation", 0.1, "λ at the start.")
    strength: float = _setting(
        "Augmentation", 1.0, "Share of each range that the random method draws from."
    )
    sizes: Pair = _setting(
        "Augmentation", (0.25, 1.0), "Smallest and largest crop of the random method."
    )
    padding: Literal["zeros", "border", "reflection"] = _setting(
        "Augmentation", "zeros", "What lies outside of the image."
    )
    flip: bool = _setting(
        "Augmentation", False, "Mirror training images at random, whatever the method."
    )

    epochs: int = _setting("Training", 20, "Passes through the training images.")
    batch_size: int = _setting("Training", 32, "Images per step and process.")
    n_samples: int = _setting("Training", 1, "Augmented samples of each image in a step.")
    optimizer: Literal["sgd", "adam", "adamw"] = _setting(
        "Training", "adamw", "Optimizer of the model."
    )
    learning_rate: float = _setting(
        "Training", 1e-3, "Learning rate of the model; its peak in a cycle."
    )
    momentum: float = _setting(
        "Training", 0.9, "Momentum of sgd; one_cycle moves it from 0.95 to 0.85 and back."
    )
    weight_decay: float = _setting("Training", 0.01, "Weight decay of the model.")
    schedule: Literal["constant", "cosine", "one_cycle", "plateau"] = _setting(
        "Training", "one_cycle", "How the learning rate of the model moves."
    )
    phi_optimizer: Literal["sgd", "adam", "adamw"] = _setting(
        "Training", "adam", "Optimizer of φ."
    )
    phi_learning_rate: float = _setting("Training", 1e-3, "Learning rate of φ.")
    phi_schedule: Literal["constant", "cosine", "one_cycle", "plateau"] = _setting(
        "Training", "constant", "How the learning rate of φ moves."
    )
    pretrain_epochs: int = _setting("Training", 0, "First epochs without any augmentation.")
    phi_rest_epochs: int = _setting(
        "Training", 0, "Epochs after those in which φ augments but does not learn yet."
    )
    loss: Literal["squared", "absolute"] = _setting(
        "Training", "squared", "Error of a regression."
    )
    label_smoothing: float = _setting("Training", 0.0, "Label smoothing of a classification.")
    clip: float = _setting("Training", 0.0, "Largest norm of the model's gradient; 0 for any.")
    accumulate: int = _setting("Training", 1, "Batches whose gradients are added up for a step.")

    test_samples: int = _setting("Evaluation", 10, "Samples per image in test-time augmentation.")
    merge: Literal["logit", "probability", "weighted"] = _setting(
        "Evaluation", "logit", "What test-time augmentation averages."
    )
    select: Literal["sample", "top"] = _setting(
        "Evaluation", "sample", "Draw samples at test time, or take the most representative."
    )

    seed: int = _setting("Machine", 0, "Decides splits, weights, order and draws.")
    accelerator: str = _setting("Machine", "auto", "cpu, cuda, mps, or auto.")
    devices: int = _setting("Machine", 1, "Processes or accelerators to use.")
    strategy: Literal["auto", "ddp"] = _setting(
        "Machine", "auto", "How several processes share the work."
    )
    nodes: int = _setting("Machine", 1, "Machines that take part.")
    precision: str = _setting("Machine", "32-true", "Lightning's precision, such as bf16-mixed.")
    threads: int = _setting("Machine", 0, "Processor threads per process; 0 leaves it to torch.")
    log_every: int = _setting("Machine", 20, "Steps between points of the TensorBoard curves.")
    checkpoint_minutes: float = _setting(
        "Machine", 5.0, "Longest time between checkpoints within an epoch of one process."
    )

    def __post_init__(self) -> None:
        for item in fields(self):
            object.__setattr__(self, item.name, _checked(item, getattr(self, item.name)))
        self._check_counts()
        if self.diversity is not None and self.entropy is not None:
            raise ArgumentError("`diversity` and `entropy` say the same thing: give one of them.")
        if "plateau" in (self.schedule, self.phi_schedule) and not self.validation_fraction:
            raise ArgumentError(
                '`schedule="plateau"` watches the validation images: got '
                "`validation_fraction` 0. Hold some out, or choose another schedule."
            )

        self._check_combinations()

    def _check_combinations(self) -> None:
        """Raise at the door where two settings cannot go together."""
        if self.task == "regression" and self.merge == "probability":
            raise ArgumentError(
                '`merge="probability"` needs classes: got `task="regression"`. Choose "logit", '
                "which averages the outputs."
            )
        if self.method == "instaaug" and self.baseline == "rloo" and self.n_samples < 2:
            raise ArgumentError(
                '`baseline="rloo"` compares samples of an image: got `n_samples` 1. Take 2.'
            )
        if self.method == "instaaug" and self.estimator == "exact" and self.n_samples > 1:
            raise ArgumentError(
                '`estimator="exact"` tries every box: got `n_samples` '
                f"{self.n_samples}. Leave it at 1."
            )
        if self.clip and self.precision == "16-mixed":
            raise ArgumentError(
                '`clip` cannot see through the scaling of `precision="16-mixed"`. Choose '
                '"bf16-mixed".'
            )

    def located(self) -> "TrainConfig":
        """The same with absolute paths, so that a run can be used from any folder."""
        changes: dict[str, Any] = {
            name: str(Path(value).resolve())
            for name in ("data", "root", "cache_dir")
            if (value := getattr(self, name)) and Path(value).exists()
        }
        return replace(self, **changes)

    def _check_counts(self) -> None:
        least = {
            "epochs": 1, "batch_size": 2, "n_samples": 1, "test_samples": 1, "devices": 1,
            "nodes": 1, "accumulate": 1, "log_every": 1, "image_size": 8,
        }  # fmt: skip
        most = {"seed": 2**31 - 1, "label_smoothing": 1}
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

    def to_dict(self) -> dict[str, Any]:
        """Every setting, as YAML and JSON know it."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def read_config(values: Mapping[Any, Any], *, source: str = "settings") -> TrainConfig:
    """Settings by name, as a YAML file gives them; the rest are defaults.

    Example:
        >>> read_config({"epochs": 3, "entropy": [3.0, 3.5]}).entropy
        (3.0, 3.5)
        >>> read_config({"epoch": 3}, source="my.yaml")
        Traceback (most recent call last):
        instaaug.errors.UnknownNameError: There is no setting in my.yaml called 'epoch'. ...
    """
    known = {item.name: item for item in fields(TrainConfig)}
    for name in values:
        if name not in known:
            raise UnknownNameError(f"setting in {source}", str(name), known)
    try:
        return TrainConfig(**{k: _checked(known[k], value) for k, value in values.items()})
    except ArgumentError as error:
        raise ArgumentError(f"{error} (in {source})") from None


def setting_help(item: Field[Any]) -> str:
    """The sentence on a setting."""
    return str(item.metadata["help"])


def setting_panel(item: Field[Any]) -> str:
    """The group of settings that it belongs to."""
    return str(item.metadata["panel"])


def _checked(item: Field[Any], value: Any) -> Any:
    """The value in its declared type; a YAML list becomes a tuple, a whole number a float."""
    kinds: tuple[Any, ...] = (item.type,)
    if get_origin(item.type) in (Union, UnionType):
        kinds = get_args(item.type)
    if value is None and type(None) in kinds:
        return None
    kind = kinds[0]
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise UnknownNameError(item.name, str(value), get_args(kind))
        return value
    try:
        if isinstance(value, dict) and any(get_origin(k) is dict for k in kinds):
            return {str(name): _converted(kind, v) for name, v in value.items()}
        return _converted(kind, value)
    except (TypeError, ValueError, OverflowError):
        assert item.default is not MISSING  # noqa: S101  # every setting has a default
        raise ArgumentError(
            f"`{item.name}` must be like {_example(kind)}: got {repr(value)}."
        ) from None


def _converted(kind: Any, value: Any) -> Any:
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        if isinstance(value, str) or len(value) != len(parts):
            raise ValueError(value)
        return tuple(_converted(part, v) for part, v in zip(parts, value, strict=True))
    if kind is str:
        if not isinstance(value, str | Path):
            raise TypeError(value)
        return str(value)
    if isinstance(value, bool) != (kind is bool) or (kind is int and int(value) != float(value)):
        raise TypeError(value)
    return kind(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _example(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"[{', '.join(_example(part) for part in get_args(kind))}]"
    return {"str": "text", "int": "3", "float": "0.5", "bool": "true"}[kind.__name__]
