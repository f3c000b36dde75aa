"""The tensor shapes of this library, the checks that guard the door, tensors like another one."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.errors import NonFiniteError, ShapeError

__all__ = [
    "Images",
    "Maps",
    "Matrices",
    "Rendered",
    "Rows",
    "Scalars",
    "Theta",
    "at_least_float32",
    "check_finite",
    "check_images",
    "constant",
    "has_channels_last",
    "match_layout",
    "per_channel",
    "repeat_batch",
]

Images = Float[Tensor, "batch channels height width"]
Rendered = Float[Tensor, "batch channels _ _"]
"""Images that were made from ``Images`` and may have another size."""

Maps = Float[Tensor, "batch _ _ _"]
Matrices = Float[Tensor, "batch 3 3"]
Rows = Float[Tensor, "batch columns"]
Scalars = Float[Tensor, " batch"]
Theta = Float[Tensor, "*rows_and_columns"]
"""θ as a caller hands it in, its shape not yet checked: our own message comes first."""


USUAL = (1, 3)  # channels


def at_least_float32(value: Tensor) -> Tensor:
    """``value`` in its own precision if that suffices for parameters, else in float32."""
    return value if value.dtype == torch.float64 else value.float()


def check_images(x: Any, *, channels: int | None = None) -> None:
    """Raise unless ``x`` is a non-empty batch of floating-point images ``(B, C, H, W)``."""
    if not isinstance(x, Tensor):
        raise ShapeError(
            f"`x` must be a tensor of images (B, C, H, W): got {type(x).__name__}. Arrays need "
            "torch.from_numpy(x), lists of images torch.stack(x)."
        )
    if x.ndim != 4:
        raise ShapeError(
            f"`x` must be a batch of images (B, C, H, W): got shape {tuple(x.shape)}. "
            "A single image needs x.unsqueeze(0), a batch of signals x[:, :, None]."
        )
    if not x.is_floating_point():
        last = "x.permute(0, 3, 1, 2)" if has_channels_last(x, channels) else "x"
        raise ShapeError(
            f"`x` must be floating point: got {x.dtype}. "
            f"Convert 8-bit images with {last}.float() / 255 (color transforms need [0, 1])."
        )
    if 0 in x.shape:
        raise ShapeError(
            f"`x` must hold at least one image of at least one pixel: got shape {tuple(x.shape)}. "
            "Skip empty batches."
        )
    if channels is not None and has_channels_last(x, channels):
        raise ShapeError(
            f"`x` must be (B, C, H, W) with {channels} channels: got shape {tuple(x.shape)}, "
            "whose channels come last. Call x.permute(0, 3, 1, 2) first."
        )
    if channels is not None and x.shape[1] != channels:
        raise ShapeError(
            f"`x` must have {channels} channels: got {x.shape[1]} (shape {tuple(x.shape)}). "
            f"Build the augmenter with in_channels={x.shape[1]}."
        )


def has_channels_last(x: Tensor, channels: int | None = 3) -> bool:
    """Whether a batch is ``(B, H, W, C)``, by the number of channels that there may be.

    Example:
        >>> [has_channels_last(torch.zeros(shape)) for shape in ((2, 8, 8, 3), (2, 3, 8, 8))]
        [True, False]
    """
    if x.ndim != 4 or x.shape[1] == channels:
        return False
    return x.shape[3] == channels or (x.shape[3] in USUAL and x.shape[1] not in USUAL)


def check_finite(value: Tensor, *, name: str, advice: str) -> None:
    """Raise if ``value`` holds a NaN or an infinity.

    On a CPU one sum is enough, for both propagate. On an accelerator the check is queued on the
    device, so that the host does not wait; inside a compiled graph it is left out.
    """
    if torch.compiler.is_compiling():
        return
    if value.device.type != "cpu":
        words = f"`{name}` must be finite: got NaN or infinite values. {advice}"
        torch._assert_async(torch.isfinite(value).all(), words)  # noqa: SLF001
        return
    finite = torch.isfinite(value.detach().float().sum())
    if not finite and (bad := int((~torch.isfinite(value)).sum())):  # else the sum overflowed
        raise NonFiniteError(
            f"`{name}` must be finite: got {bad} NaN or infinite values of {value.numel()}. "
            f"{advice}"
        )


def constant(values: Sequence[float | int], *, like: Tensor) -> Float[Tensor, " n"]:
    """A few numbers on the device and in the precision of ``like``.

    Each is filled in by the device itself: to copy a list there, as ``new_tensor`` does, the host
    would wait until the device has finished its queue.

    Example:
        >>> constant((0.5, 0.25), like=torch.zeros(1, dtype=torch.float64))
        tensor([0.5000, 0.2500], dtype=torch.float64)
    """
    return torch.stack([like.new_full((), value) for value in values])


def per_channel(values: Sequence[float | int], *, like: Tensor) -> Float[Tensor, "1 n 1 1"]:
    """A number for each channel of images."""
    return constant(values, like=like).view(1, -1, 1, 1)


def match_layout(x: Images, out: Rendered) -> Rendered:
    """``out`` in the memory order of ``x``: channels last if it was, so that no model reorders it.

    Inside of a transform images are planes, one per channel: ``grid_sample`` returns them so, and
    arithmetic that mixes one map with three channels is faster on them.
    """
    return out.contiguous(memory_format=_layout(x))


def _layout(x: Tensor) -> torch.memory_format:
    last = not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


def repeat_batch(x: Tensor, n: int) -> Tensor:
    """A batch n times in a row, in the same memory order, which ``Tensor.repeat`` does not keep.

    Example:
        >>> repeat_batch(torch.tensor([1, 2]), 3)
        tensor([1, 2, 1, 2, 1, 2])
        >>> x = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
        >>> repeat_batch(x, 2).is_contiguous(memory_format=torch.channels_last)
        True
    """
    if n == 0:
        return x[:0]
    return x if n == 1 else torch.cat([x] * n)
