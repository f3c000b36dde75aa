"""What a model must know of the data it was trained on."""

from dataclasses import dataclass
from typing import Any

from instaaug.data import DataSplits, channel_statistics

__all__ = ["DataFacts"]


@dataclass(frozen=True)
class DataFacts:
    """What a model must know of the data it was trained on; part of the run directory.

    Arguments:
        image_size: Side of the images in pixels.
        channels: Color channels.
        classes: Names of the classes; empty for a regression.
        n_targets: Numbers to predict; the number of classes in a classification.
        mean: Per-channel mean in [0, 1].
        std: Per-channel standard deviation.
        split_hash: Changes when any image changes its side.
    """

    image_size: int
    channels: int
    classes: tuple[str, ...]
    n_targets: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    split_hash: str

    @classmethod
    def of(cls, splits: DataSplits) -> "DataFacts":
        """Look at the training images."""
        train = splits.train
        channels, height, _ = train.image_shape
        mean, std = channel_statistics(train)
        n_numbers = train.targets.shape[1] if train.targets.ndim > 1 else 1
        return cls(
            image_size=height,
            channels=channels,
            classes=train.classes,
            n_targets=len(train.classes) or n_numbers,
            mean=mean,
            std=std,
            split_hash=splits.hash,
        )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "DataFacts":
        """Read back from JSON.

        Raises:
            TypeError: If a value is absent, unknown or of another type. The number of outputs, for
                one, is handed to whatever function the settings name as the model.
        """
        counts = ("image_size", "channels", "n_targets")
        wrong = [name for name in counts if type(values.get(name)) is not int]
        for name, kind in {"classes": str, "mean": float, "std": float}.items():
            items = values.get(name)
            if not isinstance(items, list) or not all(type(item) is kind for item in items):
                wrong.append(name)
        if not isinstance(values.get("split_hash"), str):
            wrong.append("split_hash")
        if wrong:
            raise TypeError(f"its {wrong[0]} is of another type")
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**values)
