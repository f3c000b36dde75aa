"""A folder of images with one sub-folder per class."""

from collections.abc import Iterator
from pathlib import Path

from instaaug.data.cache import OnBadImage, OnProgress, check_policy
from instaaug.data.decode import IMAGE_ENDINGS
from instaaug.data.labeled import LabeledImages
from instaaug.data.labels import natural_order
from instaaug.data.parts import PARTS, FileEntry, read_files
from instaaug.errors import DataError

__all__ = ["image_files", "read_folder"]

LAYOUT = (
    "Expected is one folder per class, <folder>/<class>/<image>, or the same within parts, "
    "<folder>/train/<class>/<image> and <folder>/test/<class>/<image>."
)


def read_folder(
    path: str | Path,
    *,
    size: int | None = None,
    channels: int | None = None,
    cache_dir: str | Path | None = None,
    on_bad_image: OnBadImage = "error",
    on_progress: OnProgress | None = None,
) -> dict[str, LabeledImages]:
    """The images below a folder, labeled by the name of their class's folder.

    Classes and images come in natural order (2 before 10). A class folder is searched through
    all its sub-folders; hidden files and files with other endings than an image's are passed
    over. If the folder has parts, ``train`` with ``test`` or ``val`` (or ``valid``, or
    ``validation``), they are kept apart: validation images are the test set if there is no other.

    Arguments:
        path: The folder.
        size: Height and width in pixels; None chooses by up to 100 images, at most 224.
        channels: 1 or 3; None takes 1 if up to 100 images are all grayscale, else 3.
        cache_dir: Where decoded images are kept; see `cached_pixels`.
        on_bad_image: Whether an image that cannot be read and a class without images are an
            ``"error"``, or left out and listed (``"skip"``).
        on_progress: Called with the number of images done and of all, while decoding.

    Returns:
        ``{"all": …}``, or ``{"train": …, "test": …}``, perhaps with ``"validation"``.

    Raises:
        DataError: If the folder is missing or not laid out like this, if there are fewer than
            two classes, or a class is only in a part other than ``train``.
    """
    check_policy(on_bad_image)
    folder = Path(path)
    _check_folder(folder)
    entries: list[FileEntry] = []
    skipped: list[str] = []
    for part, place in _parts(folder).items():
        for class_folder in _class_folders(place):
            files = image_files(class_folder)
            entries += [FileEntry(file, part, class_folder.name) for file in files]
            if not files:
                skipped.append(
                    f"The class folder {str(class_folder)!r} was left out: it has no image."
                )
    if skipped and on_bad_image == "error":
        raise DataError(_empty_class_message(skipped))
    if not entries:
        raise DataError(f"{str(folder)!r} must hold images: got none. {LAYOUT}")
    return read_files(
        entries,
        where=repr(str(folder)),
        task="classification",
        size=size,
        channels=channels,
        cache_dir=cache_dir,
        on_bad_image=on_bad_image,
        on_progress=on_progress,
        skipped=skipped,
    )


def image_files(folder: Path) -> list[Path]:
    """All image files below a folder, in natural order; links are followed, but not in circles."""
    files = [p for p in _walk(folder, set()) if p.suffix.lower() in IMAGE_ENDINGS]
    return sorted(files, key=lambda p: [natural_order(s) for s in p.relative_to(folder).parts])


def _walk(folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    status = folder.stat()
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    for path in _visible(folder):
        if path.is_dir():
            yield from _walk(path, seen)
        elif path.is_file() or path.is_symlink():  # a dangling link is a bad image, not none
            yield path


def _visible(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if not _is_hidden(p.name))
    except OSError as error:
        raise DataError(
            f"{str(folder)!r} must be a folder that can be listed: {error.strerror or error}. "
            "Check its permissions."
        ) from error


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"  # what macOS adds to archives


def _check_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    if folder.exists():
        raise DataError(
            f"`path` must be a folder of images: {str(folder)!r} is a file. "
            "Tables end in .csv and arrays in .npz or .npy; other files cannot be read."
        )
    raise DataError(
        f"`path` must be a folder of images: there is no {str(folder)!r}. Check the spelling; "
        f"relative paths start at the working directory."
    )


def _folders(folder: Path) -> list[Path]:
    found = [p for p in _visible(folder) if p.is_dir()]
    return sorted(found, key=lambda p: natural_order(p.name))


def _parts(folder: Path) -> dict[str, Path]:
    """The folder of each part; the folder itself is all for training if it has none."""
    folders = _folders(folder)
    named = [(PARTS[p.name.lower()], p) for p in folders if p.name.lower() in PARTS]
    parts = dict(named)
    only_parts = len(named) == len(folders)
    if not parts or (not only_parts and ("train" not in parts or len(parts) == 1)):
        return {"train": folder}  # "train" may well be a class, next to "car"
    if len(parts) < len(named):
        names = ", ".join(p.name for _, p in named)
        raise DataError(
            f"{str(folder)!r} must have one folder per part: got {names}, of which two are the "
            "same part. Merge or rename them."
        )
    return parts


def _class_folders(place: Path) -> list[Path]:
    folders = _folders(place)
    if folders:
        return folders
    n_images = sum(p.suffix.lower() in IMAGE_ENDINGS for p in _visible(place))
    what = f"{n_images} images directly in it" if n_images else "no folder at all"
    raise DataError(f"{str(place)!r} must hold one folder per class: got {what}. {LAYOUT}")


def _empty_class_message(skipped: list[str]) -> str:
    more = f" {len(skipped)} class folders are empty." if len(skipped) > 1 else ""
    first = skipped[0].replace("was left out: it has no image", "must hold images: got none")
    return f'{first}{more} Remove it, or leave it out with on_bad_image="skip".'
