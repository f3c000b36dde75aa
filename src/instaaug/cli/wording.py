"""Sentences of the library in the words of the command line."""

import re
from collections.abc import Sequence

__all__ = ["name_options"]

OPTIONS = {
    "baseline": "--phi.baseline",
    "conditioning": "--phi.conditioning",
    "estimator": "--phi.estimator",
    "features": "--phi.network",
    "levels": "--crop.grid",
    "merge": "--views.merge",
    "objective": "--phi.objective",
}
"""Options that set an argument of the library, by its name."""


def name_options(sentence: str, typed: Sequence[str]) -> str:
    """Name options where a sentence names arguments.

    An argument that shares the last part of its name with an option that was typed is taken for
    that option.

    Arguments:
        sentence: What is wrong.
        typed: The words of the command.

    Example:
        >>> name_options('Use estimator="auto".', [])
        'Use --phi.estimator auto.'
        >>> name_options("`alpha` must be above 0.", ["--method.alpha", "-1"])
        '`--method.alpha` must be above 0.'
    """
    flags = [word.partition("=")[0] for word in typed if word.startswith("--")]
    known = OPTIONS | {flag.rpartition(".")[2]: flag for flag in flags if "." in flag}

    def set_value(found: re.Match[str]) -> str:
        name, value = found.groups()
        return f"{known[name]} {value}" if name in known else found.group()

    def set_name(found: re.Match[str]) -> str:
        return f"`{known[found[1]]}`" if found[1] in known else found.group()

    return re.sub(r"`(\w+)`", set_name, re.sub(r"(\w+)=\"(\w+)\"", set_value, sentence))
