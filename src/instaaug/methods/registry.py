"""Methods by name, or the user's own."""

from collections.abc import Callable
from typing import Any

from typing_extensions import override

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.registry import Registry, import_object

__all__ = ["METHODS", "find_method"]


class _Methods(Registry[type[Augmenter]]):
    """A registry that sets the ``method_name`` of every method."""

    @override
    def register(self, name: str) -> Callable[[type[Augmenter]], type[Augmenter]]:
        file = super().register(name)

        def register(method: type[Augmenter]) -> type[Augmenter]:
            method.method_name = name
            return file(method)

        return register


METHODS: Registry[type[Augmenter]] = _Methods("method")
"""All methods by the name that settings give them, filled by ``@METHODS.register("name")``."""

METHODS.register("instaaug")(InstaAug)


def find_method(name: str) -> type[Augmenter]:
    """The class of a method.

    Arguments:
        name: A registered name, or ``package.module:Class`` for a method of your own, which may
            lie in the working folder.

    Raises:
        UnknownNameError: If no method has that name.
        ArgumentError: If there is no such class, or if it is not an augmenter.

    Example:
        >>> find_method("mixup").__name__
        'MixUp'
        >>> find_method("instaaug.methods:CutMix").__name__
        'CutMix'
        >>> find_method("mixin")
        Traceback (most recent call last):
        instaaug.errors.UnknownNameError: There is no method called 'mixin'. Did you mean ...
    """
    module, _, attribute = name.rpartition(":")
    if not module:
        if name not in METHODS:
            raise UnknownNameError("method", name, [*METHODS, "module:Class"])
        return METHODS[name]
    method: Any = import_object(module, attribute, argument="method", kind="class")
    if not (isinstance(method, type) and issubclass(method, Augmenter)):
        got = method.__name__ if isinstance(method, type) else f"a {type(method).__name__}"
        raise ArgumentError(
            f"`method` {name!r} must be a subclass of Augmenter: got {got}. Derive the class from "
            "instaaug.methods.SimpleAugmenter, or from Augmenter itself."
        )
    return method
