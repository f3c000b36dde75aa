"""Images made by formula, and the distance between two."""

import torch
from torch import Tensor


def random_images(
    batch: int = 2,
    *,
    channels: int = 3,
    height: int = 16,
    width: int = 16,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Tensor:
    """Noise in [0, 1): every pixel differs from its neighbors."""
    shape = (batch, channels, height, width)
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def smooth_images(
    batch: int = 2, *, height: int = 48, width: int = 48, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Waves in [0, 1] without any symmetry, slow enough that interpolation hardly blurs them."""
    y = torch.linspace(-1, 1, height, dtype=dtype)[:, None]
    x = torch.linspace(-1, 1, width, dtype=dtype)
    waves = [
        torch.sin((1.3 + 0.4 * c) * x + (0.7 - 0.5 * c) * y + 0.9 * b + 0.4)
        * torch.cos(0.8 * y - x)
        for b in range(batch)
        for c in range(3)
    ]
    return torch.stack(waves).view(batch, 3, height, width) * 0.45 + 0.5


def dot_image(
    point: tuple[float, float], *, height: int, width: int, radius: float = 2.0
) -> Tensor:
    """A soft bright dot centered at ``point`` = (x, y) of the normalized frame, on black."""
    y = (torch.arange(height, dtype=torch.float64) * 2 + 1) / height - 1
    x = (torch.arange(width, dtype=torch.float64) * 2 + 1) / width - 1
    down = (y - point[1]) * height / 2
    right = (x - point[0]) * width / 2
    return torch.exp(-(right**2 + down[:, None] ** 2) / (2 * radius**2)).view(1, 1, height, width)


def center_of_mass(image: Tensor) -> Tensor:
    """Where the brightness of each channel sits, as (x, y) of the normalized frame."""
    height, width = image.shape[-2:]
    y = (torch.arange(height, dtype=image.dtype) * 2 + 1) / height - 1
    x = (torch.arange(width, dtype=image.dtype) * 2 + 1) / width - 1
    mass = image.sum(dim=(-2, -1))
    return torch.stack(
        [(image * x).sum(dim=(-2, -1)) / mass, (image * y[:, None]).sum(dim=(-2, -1)) / mass], -1
    )


def interior(image: Tensor, margin: int) -> Tensor:
    """The image without its margin, where what lies outside has no say."""
    return image[..., margin:-margin, margin:-margin]


def largest_difference(a: Tensor, b: Tensor) -> float:
    """The largest absolute difference of two tensors of one shape."""
    assert a.shape == b.shape, f"{tuple(a.shape)} is not {tuple(b.shape)}"
    return float((a.double() - b.double()).abs().max())
