"""RawFooT: 68 raw foods under 46 lights, cut into patches as the paper does."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from instaaug.data.cache import OnBadImage, OnProgress, cached_pixels
from instaaug.data.labeled import LabeledImages
from instaaug.data.named import Request, find_files, hash_arrays, register_set
from instaaug.errors import ArgumentError, DataError

__all__ = [
    "EASY_LIGHTS",
    "HARD_LIGHTS",
    "choose_lights",
    "group_of_light",
    "is_rawfoot_photo",
    "load_rawfoot",
    "parse_lights",
    "rawfoot_folder",
]

FILE = re.compile(r"(\d{4})-(\d{2})\.png")
D45 = 15
SIDE = 64
ALL_LIGHTS = tuple(range(1, 47))

EASY_LIGHTS: tuple[int, ...] = (1, 2, 3, 4, 10, *range(14, 32))
"""Numbers of the lights that the InstaAug paper calls similar to D45, its training light."""

HARD_LIGHTS: tuple[int, ...] = (*range(5, 10), 11, 12, 13, *range(32, 47))
"""Numbers of all other lights."""

Lights = str | int | Sequence[int]
BELOW = (".", "RawFooT_images")
PATTERNS = (
    "[0-9][0-9][0-9][0-9]-[0-9][0-9].png",
    "[0-9][0-9][0-9][0-9]/[0-9][0-9][0-9][0-9]-[0-9][0-9].png",
)


def rawfoot_folder(place: Path) -> Path | None:
    """The folder at or below ``place`` with photos named as in RawFooT, or None."""
    for folder in (place / below for below in BELOW):
        if any(next(folder.glob(pattern), None) for pattern in PATTERNS):
            return folder
    return None


@register_set(
    "rawfoot",
    "RawFooT: 68 raw foods; trained on patches under daylight of 4500 K, tested under 46 lights.",
    find=rawfoot_folder,
)
def read_rawfoot(
    request: Request,
    train_lights: Lights = D45,
    n_train_lights: int | None = None,
    test_lights: Lights = ALL_LIGHTS,
    train_patches: int = 200,
    test_patches: int = 8,
) -> dict[str, LabeledImages]:
    """The paper's experiment; the options are arguments of `load_rawfoot`."""
    return load_rawfoot(
        request.root,
        train_lights=train_lights,
        n_train_lights=n_train_lights,
        test_lights=test_lights,
        train_patches=train_patches,
        test_patches=test_patches,
        size=request.size,
        cache_dir=request.cache_dir,
        on_bad_image=request.on_bad_image,
        on_progress=request.on_progress,
        seed=request.seed,
    )


def load_rawfoot(
    root: str | Path | None = None,
    *,
    train_lights: Lights = D45,
    n_train_lights: int | None = None,
    test_lights: Lights = ALL_LIGHTS,
    train_patches: int = 200,
    test_patches: int = 8,
    size: int | None = None,
    cache_dir: Path | None = None,
    on_bad_image: OnBadImage = "error",
    on_progress: OnProgress | None = None,
    seed: int = 0,
) -> dict[str, LabeledImages]:
    """Patches of the upper half of each photo for training, of the lower half for the test.

    A patch is a quarter as wide as the photo (200 of 800 pixels), at a random place within its
    half, and scaled to ``size``. Photos are scaled first, to four times ``size``, and patches cut
    from that. The files are ``<food>-<light>.png``, ``0001-01.png`` to ``0068-46.png``, in one
    folder or in one folder for each food.

    The paper draws 200 patches of each photo for either part. A test set of all lights would then
    have 625 600 images, hence the smaller default: 8 of each, 25 024 in all. (RawFooT's own
    protocol, 16 tiles of each photo, has 50 048.)

    Arguments:
        root: Folder of the files; None to look in $INSTAAUG_DATA/rawfoot.
        train_lights: Numbers of the lights to train under, or text such as ``"1-4,7"``; 15 is the
            paper's D45.
        n_train_lights: How many of these are trained under, drawn by the seed; all if None.
        test_lights: Numbers of the lights of the test images; those in `EASY_LIGHTS` and in
            `HARD_LIGHTS`, the paper's two groups, are also scored apart.
        train_patches: Of each photo.
        test_patches: Of each photo.
        size: Height and width of a patch in pixels; 64 if None, as in the paper's public code.
        cache_dir: Where decoded photos are kept; None for the default.
        on_bad_image: ``"error"`` or ``"skip"``.
        on_progress: Called with the number of files done and of all files.
        seed: For the places of the patches, and the lights that are drawn.
    """
    train = choose_lights(train_lights, n_train_lights, seed=seed)
    test = choose_lights(test_lights, argument="test_lights")
    for name, n in (("train_patches", train_patches), ("test_patches", test_patches)):
        if n < 1:
            raise ArgumentError(f"`{name}` must be at least 1 of each photo: got {n}.")
    request = Request(
        "rawfoot",
        root=None if root is None else Path(root),
        size=SIDE if size is None else size,
        cache_dir=cache_dir,
        on_bad_image=on_bad_image,
        on_progress=on_progress,
        seed=seed,
    )
    folder = find_files(
        request,
        rawfoot_folder,
        files="the photos 0001-01.png to 0068-46.png",
        source="Get RawFooT from the project page, "
        "projects.ivl.disco.unimib.it/minisites/rawfoot.",
    )
    photos = _photos(folder)
    return {
        "train": _part(request, folder, photos, lights=train, half=0, n=train_patches),
        "test": _part(request, folder, photos, lights=test, half=1, n=test_patches),
    }


def choose_lights(
    lights: Lights, n_lights: int | None = None, *, seed: int = 0, argument: str = "train_lights"
) -> list[int]:
    """Numbers of lights, all that are named or some of them.

    Arguments:
        lights: A number from 1 to 46, several, or text such as ``"1-4,7"``.
        n_lights: How many of them to draw without replacement; all, in their order, if None.
        seed: Decides the draw.
        argument: What the lights are called, for the error message.

    Example:
        >>> choose_lights("14-16")
        [14, 15, 16]
        >>> len(choose_lights("1-46", 4, seed=0))
        4
    """
    if isinstance(lights, str):
        numbers = parse_lights(lights, argument=argument)
    else:
        numbers = [lights] if isinstance(lights, int) else list(lights)
    wrong = [number for number in numbers if number not in ALL_LIGHTS]
    if wrong or not numbers:
        raise ArgumentError(
            f"`{argument}` must be at least one number from 1 to {len(ALL_LIGHTS)}: got "
            f"{wrong[0] if wrong else 'none'}. RawFooT's project page lists them."
        )
    if n_lights is None:
        return numbers
    if not 1 <= n_lights <= len(set(numbers)):
        raise ArgumentError(
            f"`n_{argument}` must lie in [1, {len(set(numbers))}], for that many lights are named "
            f"in `{argument}`: got {n_lights}. Name more, such as 1-46."
        )
    generator = np.random.default_rng([seed, n_lights])
    return sorted(generator.choice(sorted(set(numbers)), n_lights, replace=False).tolist())


def parse_lights(text: str, *, argument: str = "lights") -> list[int]:
    """Numbers of lights from text.

    Arguments:
        text: Numbers and ranges of them.
        argument: What the lights are called, for the error message.

    Example:
        >>> parse_lights("1-3,7")
        [1, 2, 3, 7]
    """
    numbers: list[int] = []
    try:
        for piece in text.split(","):
            first, _, last = piece.partition("-")
            numbers += range(int(first), int(last or first) + 1)
    except ValueError:
        raise ArgumentError(f"`{argument}` must be numbers such as 1-4,7: got {text!r}.") from None
    return numbers


def group_of_light(number: int) -> str:
    """The paper's group of a light: ``"easy"`` or ``"hard"``."""
    return "easy" if number in EASY_LIGHTS else "hard"


def is_rawfoot_photo(name: str) -> bool:
    """Whether a file, or a patch of it, has a name as in RawFooT.

    Example:
        >>> is_rawfoot_photo("foods/0001-15.png at row 0, column 8"), is_rawfoot_photo("15.png")
        (True, False)
    """
    return FILE.fullmatch(Path(name.partition(" at row ")[0]).name) is not None


def _photos(folder: Path) -> dict[tuple[str, int], Path]:
    """Food and light of every photo."""
    paths = sorted(path for pattern in PATTERNS for path in folder.glob(pattern))
    matches = ((path, FILE.fullmatch(path.name)) for path in paths)
    return {(match[1], int(match[2])): path for path, match in matches if match}


def _part(
    request: Request,
    folder: Path,
    photos: dict[tuple[str, int], Path],
    *,
    lights: Sequence[int],
    half: int,
    n: int,
) -> LabeledImages:
    classes = tuple(sorted({food for food, _ in photos}))
    wanted = [(food, light) for light in lights for food in classes]
    missing = [key for key in wanted if key not in photos]
    if missing:
        food, light = missing[0]
        raise DataError(
            f"`root` must hold every food under every light: {str(folder)!r} lacks "
            f"{food}-{light:02d}.png and {len(missing) - 1} more of {len(wanted)}. Copy them, or "
            "choose other `train_lights` and `test_lights`."
        )
    side = request.size or SIDE
    found = cached_pixels(
        [photos[key] for key in wanted],
        size=4 * side,
        channels=3,
        cache_dir=request.cache_dir,
        on_bad_image=request.on_bad_image,
        on_progress=request.on_progress,
    )
    kept = [wanted[i] for i in found.kept.tolist()]
    corners = _corners(len(kept) * n, side, half=half, seed=request.seed)
    pixels = np.empty((len(corners), side, side, 3), dtype=np.uint8)
    for row, (top, left) in enumerate(corners):
        pixels[row] = found.pixels[row // n, top : top + side, left : left + side]
    targets = torch.tensor([classes.index(food) for food, _ in kept]).repeat_interleave(n)
    return LabeledImages(
        pixels,
        targets,
        classes=classes,
        names=list(_names(kept, corners, n)),
        groups=[group_of_light(light) for _, light in kept for _ in range(n)],
        fingerprint=hash_arrays(found.fingerprint, corners, targets.numpy(), repr(classes)),
        skipped=found.skipped,
    )


def _corners(n: int, side: int, *, half: int, seed: int) -> np.ndarray:
    """Top and left of patches that lie within one half of photos four patches high and wide."""
    generator = np.random.default_rng((seed, half))
    top = generator.integers(0, side, n, endpoint=True) + 2 * side * half
    left = generator.integers(0, 3 * side, n, endpoint=True)
    return np.stack([top, left], axis=1)


def _names(photos: Sequence[tuple[str, int]], corners: np.ndarray, n: int) -> Iterator[str]:
    for row, (top, left) in enumerate(corners.tolist()):
        food, light = photos[row // n]
        yield f"{food}-{light:02d}.png at row {top}, column {left}"
