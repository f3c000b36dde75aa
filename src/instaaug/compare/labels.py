"""Names of contenders, which are names of folders as well, on every system."""

import re
from collections.abc import Iterable

from instaaug.errors import ArgumentError

__all__ = ["OWN_FILES", "check_labels", "label_from"]

OWN_FILES = (
    "comparison.json", "leaderboard.md", "leaderboard.csv", "leaderboard.tex", "runs.csv", "report"
)  # fmt: skip
"""What a comparison writes beside the folders of its contenders."""

LABEL = re.compile(r"\w(?:[\w.+-]*[\w+-])?")
MOST_BYTES = 200
DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")  # of Windows, whatever follows


def label_from(words: str) -> str:
    """A label that can stand for a method with its settings.

    Example:
        >>> label_from("random-sizes=[0.5, 1.0]")
        'random-sizes-0.5-1.0'
    """
    return re.sub(r"[^\w.+]+", "-", words).strip("-.")[:100].rstrip("-.")


def check_labels(labels: Iterable[str]) -> None:
    """Raise unless all can be folders side by side.

    Raises:
        ArgumentError: If one is no name of a folder, is in use, or comes twice.
    """
    seen: set[str] = set()
    for label in labels:
        known = label.casefold()  # some file systems take other letters for the same
        if (
            not LABEL.fullmatch(label)
            or len(label.encode("utf-8", "surrogateescape")) > MOST_BYTES
            or known in OWN_FILES
            or DEVICES.fullmatch(known)
        ):
            raise ArgumentError(
                "Labels must be names of new folders on every system, of letters, digits, dots "
                f"and dashes, at most {MOST_BYTES} bytes, with no dot at the end: got "
                f"{label[:MOST_BYTES]!r}."
            )
        if known in seen:
            raise ArgumentError(
                f"`methods` must name every contender once: got {label!r} twice. Give one of them "
                "other settings, or labels of their own in a file, `@file.yaml`."
            )
        seen.add(known)
