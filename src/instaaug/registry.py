"""Names for classes: what a configuration file or a weights file may ask for."""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from instaaug.errors import ArgumentError, UnknownNameError

__all__ = ["Registry"]


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
        """Return a decorator that files a thing under ``name``; a name is given only once."""

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
