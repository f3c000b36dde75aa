"""The register of data sets that have a name, and where their files are looked for."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from instaaug.data.cache import OnBadImage, OnProgress
from instaaug.data.labeled import LabeledImages
from instaaug.registry import Registry

__all__ = ["DATASETS", "NamedSet", "Request", "located", "named_set"]


@dataclass(frozen=True)
class Request:
    """What a caller wants of a named set.

    Arguments:
        name: The set's name.
        root: Folder of its files; None to look in the usual places.
        size: Height and width of the images in pixels; None for the set's own.
        cache_dir: Where decoded images are kept; None for the default.
        on_bad_image: ``"error"`` or ``"skip"``; see `cached_pixels`.
        on_progress: Called with the number of files done and of all files.
        seed: For sets that are drawn at random.
    """

    name: str
    root: Path | None = None
    size: int | None = None
    cache_dir: Path | None = None
    on_bad_image: OnBadImage = "error"
    on_progress: OnProgress | None = None
    seed: int = 0


Reader = Callable[[Request], dict[str, LabeledImages]]


@dataclass(frozen=True)
class NamedSet:
    """A data set with a name.

    Arguments:
        name: As in `DATASETS`.
        description: One sentence.
        read: Gives the parts of the set.
        needs_files: Whether it needs files that this library does not bring along.
    """

    name: str
    description: str
    read: Reader
    needs_files: bool = True

    def load(
        self,
        root: str | Path | None = None,
        *,
        size: int | None = None,
        cache_dir: str | Path | None = None,
        on_bad_image: OnBadImage = "error",
        on_progress: OnProgress | None = None,
        seed: int = 0,
    ) -> dict[str, LabeledImages]:
        """The parts of the set: "train" and "test", or "all" where there is no official split."""
        request = Request(
            self.name,
            root=None if root is None else Path(root),
            size=size,
            cache_dir=None if cache_dir is None else Path(cache_dir),
            on_bad_image=on_bad_image,
            on_progress=on_progress,
            seed=seed,
        )
        return self.read(request)


DATASETS = Registry[NamedSet]("data set")
"""Every named set: ``DATASETS["sprites"].load()``."""


def named_set(
    name: str, description: str, *, needs_files: bool = True
) -> Callable[[Reader], Reader]:
    """Register the function below as the reader of a set."""

    def register(read: Reader) -> Reader:
        DATASETS.register(name)(NamedSet(name, description, read, needs_files=needs_files))
        return read

    return register


def located(
    request: Request,
    find: Callable[[Path], Path | None],
    *,
    files: str,
    source: str,
    also: Sequence[Path] = (),
) -> Path:
    """The folder of a set's files.

    Without a root, $INSTAAUG_DATA/<name> is tried, then ``also``.

    Arguments:
        request: Its name and root count.
        find: Gives the folder with the files, at or below a folder, or None.
        files: What is looked for, in words.
        source: Where to get it, a sentence.
        also: Further places, where packages put it.

    Raises:
        FileNotFoundError: If the files are in none of the places.
    """
    places = _places(request, also)
    for place in places:
        found = find(place) if place.exists() else None
        if found is not None:
            return found
    raise FileNotFoundError(
        f"`root` must be a folder with {files}: {_looked(places)}. {source} Name its folder with "
        f"--root, or set INSTAAUG_DATA to the folder that contains {request.name!r}."
    )


def _places(request: Request, also: Sequence[Path]) -> list[Path]:
    if request.root is not None:
        return [request.root.expanduser()]
    base = os.environ.get("INSTAAUG_DATA")
    return [*([Path(base).expanduser() / request.name] if base else []), *also]


def _looked(places: Sequence[Path]) -> str:
    if not places:
        return "none was given, and INSTAAUG_DATA is not set"
    states = ["lacks them" if place.exists() else "does not exist" for place in places]
    return ", ".join(f"{str(p)!r} {state}" for p, state in zip(places, states, strict=True))
