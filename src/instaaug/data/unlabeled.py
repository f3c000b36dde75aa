"""A folder of images that nobody has sorted into classes."""

from pathlib import Path

from instaaug.data.cache import OnBadImage, OnProgress
from instaaug.data.folder import image_files
from instaaug.data.labeled import LabeledImages
from instaaug.data.parts import FileEntry, read_files

__all__ = ["is_unlabeled", "read_unlabeled"]

NOTHING_KNOWN = (0.0,)


def is_unlabeled(path: Path) -> bool:
    """Whether a folder has images directly in it, and no folders that could be classes."""
    visible = [p for p in path.iterdir() if not p.name.startswith(".")]
    return bool(visible) and not any(p.is_dir() for p in visible)


def read_unlabeled(
    path: Path,
    *,
    size: int | None = None,
    channels: int | None = None,
    cache_dir: str | Path | None = None,
    on_bad_image: OnBadImage = "error",
    on_progress: OnProgress | None = None,
) -> dict[str, LabeledImages]:
    """The images in a folder, without classes; all targets are 0.

    Arguments:
        path: The folder.
        size: Height and width in pixels; chosen by the images if None.
        channels: 1 or 3; likewise.
        cache_dir: Where decoded images are kept.
        on_bad_image: Whether an unreadable image is an ``"error"``, or left out and listed.
        on_progress: Called with the number of images done and of all, while decoding.
    """
    return read_files(
        [FileEntry(file, "train", NOTHING_KNOWN) for file in image_files(path)],
        where=repr(str(path)),
        task="regression",
        size=size,
        channels=channels,
        cache_dir=cache_dir,
        on_bad_image=on_bad_image,
        on_progress=on_progress,
    )
