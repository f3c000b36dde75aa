"""What images are normalized with, as it was typed: one number per channel."""

from typing import Literal, NamedTuple

from instaaug.errors import ArgumentError
from instaaug.runs.settings import ChannelValues

__all__ = ["Normalization", "read_normalization"]

Numbers = tuple[float, ...]

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
"""Per-channel mean and standard deviation that most models of ImageNet expect."""


class Normalization(NamedTuple):
    """Per-channel mean to subtract and standard deviation to divide by."""

    mean: Numbers
    std: Numbers


def read_normalization(
    mean: ChannelValues | None, std: ChannelValues | None, channels: int
) -> Normalization | None:
    """The settings ``model.mean`` and ``model.std``; None if neither was given.

    Example:
        >>> read_normalization((0.5,), (0.25,), channels=3)
        Normalization(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    """
    if mean == "imagenet" and std is None:
        std = "imagenet"
    if mean is None and std is None:
        return None
    if mean is None or std is None:
        raise ArgumentError(
            "`model.mean` and `model.std` must be given both, or neither: got one of them."
        )
    read = Normalization(_per_channel(mean, "mean", channels), _per_channel(std, "std", channels))
    if min(read.std) <= 0:
        raise ArgumentError(
            f"`model.std` must be above 0: got {list(read.std)}. 1 changes nothing."
        )
    return read


def _per_channel(value: ChannelValues, kind: Literal["mean", "std"], channels: int) -> Numbers:
    numbers = IMAGENET[kind] if value == "imagenet" else value
    if len(numbers) == 1:
        return numbers * channels
    if len(numbers) != channels:
        raise ArgumentError(
            f"`model.{kind}` must be one number, {channels}, one per channel, or imagenet: got "
            f"{list(numbers)}."
        )
    return numbers
