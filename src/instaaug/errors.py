"""Everything this library raises: each error is also the builtin that a caller would expect."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

__all__ = [
    "ArgumentError",
    "DataError",
    "DiskError",
    "InstaAugError",
    "InstaAugWarning",
    "NonFiniteError",
    "PathwiseGradientError",
    "ShapeError",
    "UnknownNameError",
    "WeightsFileError",
]


class InstaAugError(Exception):
    """Base of all errors of this library."""


class ArgumentError(InstaAugError, ValueError):
    """An argument has a value that cannot work."""


class DataError(InstaAugError, ValueError):
    """Data on disk or in memory cannot be used as it is."""


class DiskError(InstaAugError, OSError):
    """A file could not be written."""


class ShapeError(InstaAugError, ValueError):
    """A tensor has the wrong shape or dtype."""


class NonFiniteError(InstaAugError, ArithmeticError):
    """A NaN or an infinity turned up where a number is needed."""


class PathwiseGradientError(InstaAugError, NotImplementedError):
    """A pathwise gradient was asked of a distribution that has none."""


class WeightsFileError(InstaAugError, ValueError):
    """A file cannot be read as the weights of an augmenter."""


class UnknownNameError(InstaAugError, KeyError):
    """A name is not registered; the message lists what is and suggests the nearest.

    Arguments:
        kind: What the name was meant for.
        name: The name.
        known: All names.
        similar: Those that may have been meant, the likeliest first; found by spelling if absent.

    Example:
        >>> print(UnknownNameError("transform", "rotate", ["crop", "rotation"]))
        There is no transform called 'rotate'. Did you mean 'rotation'? Known: crop, rotation.
    """

    def __init__(
        self, kind: str, name: str, known: Iterable[str], *, similar: Sequence[str] | None = None
    ) -> None:
        names = sorted(known)
        near = get_close_matches(name, names, n=1, cutoff=0.5) if similar is None else similar
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"There is no {kind} called {name!r}.{hint} Known: {', '.join(names)}.")

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show it in quotes


class InstaAugWarning(UserWarning):
    """Something in the user's choices deserves a second look."""
