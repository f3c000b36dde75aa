"""Names for classes: what a configuration file or a weights file may ask for."""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from instaaug.errors import ArgumentError, UnknownNameError

__all__ = ["Registry", "import_object", "working_folder"]


T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """A read-only mapping from names to things, filled by a decorator.

    Example:
        >>> colors = Registry[int]("color")
        >>> _ = colors.register("red")(0xFF0000)
        >>> colors["red"]
        16711680
        >>> colors["rad"]
        Traceback (most recent call last):
        instaaug.errors.UnknownNameError: There is no color called 'rad'. Did you mean 'red'? ...
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._things: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers a thing as ``name``; each name is used once."""

        def file(thing: T) -> T:
            if name in self._things:
                raise ArgumentError(
                    f"`name` must be new: the {self.kind} {name!r} is registered already. "
                    "Choose another name."
                )
            self._things[name] = thing
            return thing

        return file

    def __getitem__(self, name: str) -> T:
        try:
            return self._things[name]
        except KeyError:
            raise UnknownNameError(self.kind, name, self._things) from None

    def __contains__(self, name: object) -> bool:
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._things))

    def __len__(self) -> int:
        return len(self._things)


def import_object(module: str, attribute: str, *, argument: str, kind: str = "function") -> Any:
    """What a module defines, for arguments of the form ``module:attribute``.

    Arguments:
        module: Its full name; modules in the working folder are found too.
        attribute: The name within the module.
        argument: The argument or setting that asks for it, for error messages.
        kind: What is expected, for error messages.

    Example:
        >>> import_object("math", "sqrt", argument="model")(4.0)
        2.0
    """
    given = f"{module}:{attribute}"
    try:
        with working_folder():
            return getattr(importlib.import_module(module), attribute)
    except (ImportError, TypeError) as error:  # a TypeError if it begins with a dot
        raise ArgumentError(
            f"`{argument}` {given!r} must name a module that Python can import: {error}. Run from "
            "its folder, or put that into PYTHONPATH."
        ) from error
    except AttributeError:
        raise ArgumentError(
            f"`{argument}` {given!r} must name a {kind}: the module {module!r} has no "
            f"{attribute!r}."
        ) from None


@contextmanager
def working_folder() -> Iterator[None]:
    """Also find modules in the working folder, after all others; commands do not by default."""
    before = list(sys.path)
    sys.path.append(str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before
