"""Every setting of ``instaaug tta fit``, with its default and a sentence."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from instaaug.errors import ArgumentError
from instaaug.runs.settings import check_types, located, plain_settings, setting

__all__ = ["IMAGENET", "PANELS", "FrozenConfig", "counts_of", "numbers_of"]

PANELS = ("Model", "Data", "Views", "Learning", "Machine")
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
"""Per-channel mean and standard deviation that most models of ImageNet expect."""

LEAST = {"size": 8, "side": 8, "limit": 2, "steps": 1, "seed": 0, "threads": 0}


@dataclass(frozen=True)
class FrozenConfig:
    """What ``instaaug tta fit`` does; each field is an option and a line of ``config.yaml``."""

    model: str = setting(
        "Model",
        "",
        "module:function that returns a trained model, timm:NAME, or the folder of a finished "
        "`instaaug train`.",
    )
    data: str = setting(
        "Data",
        "",
        "Images that the model has not learned from: a folder with one folder per class, a CSV, "
        "an .npz file or a named set.",
    )
    output: str | None = setting(
        "Model",
        None,
        "Key of a dict or number in a tuple, where the model returns that; its logits if absent.",
    )
    mean: str | None = setting(
        "Model",
        None,
        "Mean that images in [0, 1] are normalized with: one number, one per channel, or "
        "`imagenet`; the model's own if it is known, else none.",
    )
    std: str | None = setting("Model", None, "Standard deviation, likewise.")
    size: int | None = setting(
        "Model",
        None,
        "Side in pixels of what the model sees; its own if it is known, else what suits the "
        "images.",
    )
    channels: int | None = setting(
        "Model", None, "1 or 3 color channels; the model's own if they are known, else 3."
    )
    classes: str | None = setting(
        "Model",
        None,
        "A file with the model's classes, one name per line, in the order of its outputs; the "
        "sorted class names of DATA if absent.",
    )

    side: int | None = setting(
        "Data",
        None,
        "Side in pixels that images are decoded to, so that crops keep detail; twice the size, "
        "or less where the files are smaller, if absent.",
    )
    test_fraction: float = setting(
        "Data", 0.5, "Share held out to report the gain; 0 learns from all."
    )
    limit: int | None = setting("Data", None, "Most images to use, from all over DATA.")
    path_column: str | None = setting(
        "Data", None, "Column of a CSV with the paths; found by its name if absent."
    )
    target_column: str | None = setting("Data", None, "Column of a CSV with the labels.")
    on_bad_image: Literal["error", "skip"] = setting(
        "Data", "error", "Stop at a file that cannot be read, or leave it out."
    )
    cache_dir: str | None = setting("Data", None, "Where decoded images are kept between runs.")

    crops: str = setting(
        "Views", "1:1,0.8:2,0.6:3,0.4:4", "Boxes of crops: side : places per axis, ..."
    )
    transforms: str = setting(
        "Views", "crop", "Comma-separated names from `instaaug list transforms`."
    )
    samples: str = setting(
        "Views", "2,4,10", "How many views will be averaged; one order serves all these numbers."
    )

    objective: Literal["auto", "views", "ensemble", "single"] = setting(
        "Learning",
        "auto",
        "Loss of the mean over so many views, of the mean over all by their probability, or of "
        "single views; auto is views where these can be listed, else single.",
    )
    features: Literal["model", "pyramid", "none"] = setting(
        "Learning",
        "model",
        "What φ reads: the model's own features, pixels, or nothing: the same views for all.",
    )
    steps: int = setting("Learning", 400, "Steps of the optimizer.")
    seed: int = setting("Learning", 0, "Decides the split, the start and the order of images.")

    threads: int = setting("Machine", 0, "Processor threads; 0 leaves it to torch.")

    def __post_init__(self) -> None:
        check_types(self)
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ArgumentError(f"`{name}` must be at least {least}: got {value}.")
        if not 0 <= self.test_fraction < 1:
            raise ArgumentError(
                f"`test_fraction` must lie in [0, 1): got {self.test_fraction}. Hold out half of "
                "the images, 0.5, or none, 0."
            )
        if not self.model or not self.data:
            raise ArgumentError("`model` and `data` must be given: got nothing for one of them.")
        _ = self.n_views, self.grid
        for word in (self.mean, self.std):
            numbers_of(word, kind="mean", channels=None)

    @property
    def n_views(self) -> tuple[int, ...]:
        """How many views will be averaged, in rising order.

        Example:
            >>> FrozenConfig(model="m:f", data="photos", samples="10,4").n_views
            (4, 10)
        """
        return counts_of(self.samples, least=2)

    @property
    def grid(self) -> str:
        """The boxes as ``instaaug train`` writes them.

        Example:
            >>> FrozenConfig(model="m:f", data="photos", crops="1:1, 0.5:2").grid
            '1x1,0.5x2'
        """
        text = self.crops.replace(":", "x").replace(" ", "")
        try:
            pairs = [piece.split("x") for piece in text.split(",")]
            _ = [(float(size), int(n)) for size, n in pairs]
        except ValueError:
            raise ArgumentError(
                "`crops` must be like 1:1,0.8:2, sides of boxes and places per axis: got "
                f"{self.crops!r}."
            ) from None
        return text

    def located(self) -> "FrozenConfig":
        """The same with absolute paths, so that a run can be used from any folder."""
        return replace(self, **located(self, ("model", "data", "classes", "cache_dir")))

    def to_dict(self) -> dict[str, Any]:
        """Every setting, as YAML and JSON know it."""
        return plain_settings(self)


def counts_of(text: str, *, least: int) -> tuple[int, ...]:
    """Numbers of views from text, each once, in rising order.

    Example:
        >>> counts_of("10,1,4", least=1)
        (1, 4, 10)
    """
    try:
        counts = tuple(sorted({int(piece) for piece in text.split(",")}))
    except ValueError:
        counts = ()
    if not counts or counts[0] < least:
        raise ArgumentError(
            f"`samples` must be whole numbers from {least} on with commas, such as 2,4,10: got "
            f"{text!r}."
        )
    return counts


def numbers_of(
    text: str | None, *, kind: Literal["mean", "std"], channels: int | None
) -> tuple[float, ...] | None:
    """One number per channel from text; None if there is none.

    Arguments:
        text: One number for all channels, one for each, or ``"imagenet"``.
        kind: What they are.
        channels: How many there must be; None leaves it open.

    Example:
        >>> numbers_of("0.5", kind="mean", channels=3)
        (0.5, 0.5, 0.5)
        >>> numbers_of("imagenet", kind="std", channels=3)
        (0.229, 0.224, 0.225)
    """
    if text is None:
        return None
    try:
        named = IMAGENET[kind] if text == "imagenet" else None
        numbers = named or tuple(float(piece) for piece in text.split(","))
    except ValueError:
        numbers = ()
    if channels is not None and len(numbers) == 1:
        numbers = numbers * channels
    if not numbers or (channels is not None and len(numbers) != channels):
        wanted = "one per channel" if channels is None else f"{channels}, one per channel"
        raise ArgumentError(
            f"`{kind}` must be one number, {wanted} with commas, or imagenet: got {text!r}."
        )
    return numbers
