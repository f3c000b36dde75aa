"""The same test images for several runs: nothing is shown that one of them has learned from."""

from collections.abc import Callable, Sequence

from instaaug.data import LabeledImages
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.errors import ArgumentError
from instaaug.runs.frozen_data import image_hashes
from instaaug.runs.subjects import Subject

__all__ = ["shared_inputs"]

OnProgress = Callable[[int, int], None]


def shared_inputs(
    subjects: Sequence[Subject], most: int, on_decode: OnProgress | None = None
) -> tuple[list[LabeledImages], int]:
    """Test images that all runs have in common, once for each run, in the same order.

    Images are the same if their pixels are; runs that see them at different sizes find them by
    their names.

    Arguments:
        subjects: The runs.
        most: How many images to take, from all over those that there are.
        on_decode: Called with the number of files decoded and of all files.

    Returns:
        The images of each run, and how many there were to choose from.

    Raises:
        ArgumentError: If the runs know different classes, or have no test image in common.
    """
    _check_classes(subjects)
    every = [subject.test_images(on_decode) for subject in subjects]
    for keys_of in (image_hashes, _names):
        rows = [_first_rows(keys_of(images)) for images in every]
        common = [key for key in rows[0] if all(key in other for other in rows[1:])]
        if common:
            break
    else:
        raise ArgumentError(
            "`runs` must share test images: these have none in common. Train them on the same "
            "data with the same --seed, which decides the split, or report on each alone."
        )
    chosen = [common[i] for i in evenly_spaced_indices(len(common), most)]
    pairs = zip(every, rows, strict=True)
    return [images.subset([row[key] for key in chosen]) for images, row in pairs], len(common)


def _names(images: LabeledImages) -> list[str]:
    return [images.name(i) for i in range(len(images))] if images.names else []


def _first_rows(keys: Sequence[str]) -> dict[str, int]:
    """Where each key stands first, in the order of the images."""
    rows: dict[str, int] = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, row)
    return rows


def _check_classes(subjects: Sequence[Subject]) -> None:
    first = subjects[0]
    for other in subjects[1:]:
        if other.classes != first.classes:
            raise ArgumentError(
                "`runs` must tell the same classes apart, in the same order: "
                f"{str(first.path)!r} and {str(other.path)!r} do not. Report on each alone."
            )
