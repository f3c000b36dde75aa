"""Which size and how many channels suit a set of image files, judged by their headers."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from instaaug.data.decode import PictureHeader, check_shape, read_header
from instaaug.errors import DataError

__all__ = ["choose_shape", "evenly_spaced", "fitting_size"]

SIZES = (32, 64, 96, 128, 160, 192, 224)
N_HEADERS = 100


def choose_shape(
    paths: Sequence[Path], *, size: int | None, channels: int | None
) -> tuple[int, int]:
    """The size and number of channels asked for; where None was asked for, fitting ones.

    At most 100 headers are read, evenly spaced. The size is `fitting_size` of the short sides;
    one channel is enough if all of the images are grayscale.

    Raises:
        DataError: If none of the headers can be read.
    """
    check_shape(size=size, channels=channels)
    if size is not None and channels is not None:
        return size, channels
    headers: list[PictureHeader] = []
    refused: DataError | None = None
    for index in evenly_spaced(len(paths), N_HEADERS):
        try:
            headers.append(read_header(paths[index]))
        except DataError as error:  # reported with all the others when it is decoded
            refused = refused or error
    if refused is not None and not headers:
        raise refused
    gray = all(header.is_gray for header in headers)
    return (
        size or fitting_size(min(header.height, header.width) for header in headers),
        channels or (1 if gray else 3),
    )


def fitting_size(short_sides: Iterable[int]) -> int:
    """The one of 32, 64, 96, 128, 160, 192 and 224 that is nearest to the median short side.

    Example:
        >>> fitting_size([28, 28, 30])
        32
        >>> fitting_size([480, 600, 1200])
        224
    """
    middle = median(short_sides)
    return min(SIZES, key=lambda size: abs(size - middle))


def evenly_spaced(n: int, most: int) -> list[int]:
    """At most ``most`` of the numbers below ``n``, the first and the last among them.

    Example:
        >>> evenly_spaced(3, 100), evenly_spaced(101, 5)
        ([0, 1, 2], [0, 25, 50, 75, 100])
    """
    if n <= most:
        return list(range(n))
    return np.linspace(0, n - 1, most).round().astype(int).tolist()
