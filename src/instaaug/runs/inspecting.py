"""Draw what a run makes of some image files: what ``instaaug inspect`` calls."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from instaaug.errors import ArgumentError
from instaaug.methods import NoAugmentation
from instaaug.methods.mixing import MixingAugmenter
from instaaug.report.pictures.inputs import draw_inputs
from instaaug.report.pictures.rows import MOST_INPUTS
from instaaug.report.theme import save_figure
from instaaug.runs.observing import observed_images
from instaaug.runs.predicted_files import decoded_files, image_paths
from instaaug.runs.subjects import find_subject

__all__ = ["inspect_files"]


def inspect_files(
    path: str | Path, images: Sequence[str | Path], out: str | Path | None, *, n_samples: int = 8
) -> list[Path]:
    """Draw the learned distributions of image files, and samples of them.

    Arguments:
        path: The folder of a run.
        images: Files, or folders whose images are taken.
        out: The picture; by default ``report/inspect.png`` in the run's folder.
        n_samples: Samples of each image.

    Returns:
        The pictures that were written: more than one if there are many images.
    """
    if n_samples < 1:
        raise ArgumentError(f"`n_samples` must be at least 1: got {n_samples}.")
    files = image_paths(images)
    subject = find_subject(path)
    if isinstance(subject.augmenter, NoAugmentation | MixingAugmenter):
        raise ArgumentError(
            f"`run` must change single images: that in {str(path)!r} leaves them as they are. "
            "Name one of another method, such as instaaug or random."
        )
    target = Path(path) / "report" / "inspect.png" if out is None else Path(out)
    written = []
    for part, file in zip(_parts(files), _numbered(target, len(files)), strict=False):
        pixels, _ = decoded_files(
            part, size=subject.size, channels=subject.channels, skip_bad=False
        )
        seen = observed_images(subject, pixels, n_samples)
        save_figure(draw_inputs(seen, titles=[_title(image) for image in part]), file)
        written.append(file)
    return written


def _title(image: Path) -> str:
    """The name of a file, with what is no text made visible."""
    return image.name.encode("utf-8", "replace").decode()


def _parts(files: Sequence[Path]) -> Iterator[Sequence[Path]]:
    """As many at a time as one figure holds."""
    for start in range(0, len(files), MOST_INPUTS):
        yield files[start : start + MOST_INPUTS]


def _numbered(target: Path, n: int) -> Iterator[Path]:
    yield target
    for number in range(2, n + 1):
        yield target.with_name(f"{target.stem}-{number}{target.suffix}")
