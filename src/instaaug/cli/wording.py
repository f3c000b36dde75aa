"""Sentences of the library in the words of the command line."""

import re
from collections.abc import Collection, Sequence

from instaaug.runs.settings import TrainSettings, TransferSettings, TtaSettings
from instaaug.settings import setting_infos

__all__ = ["name_options"]

OPTIONS = {
    "baseline": "--phi.baseline",
    "cache_dir": "--data.cache_dir",
    "conditioning": "--phi.conditioning",
    "estimator": "--phi.estimator",
    "features": "--phi.network",
    "levels": "--crop.grid",
    "merge": "--views.merge",
    "objective": "--phi.objective",
    "on_bad_image": "--data.on_bad_image",
    "options": "--data.options",
    "path_column": "--data.path_column",
    "root": "--data.root",
    "source": "DATA",
    "target_column": "--data.target_column",
    "test_fraction": "--data.test_fraction",
    "validation_fraction": "--data.validation_fraction",
}
"""Options that set an argument of the library, by its name."""

TRAINING = {"channels": "--data.channels", "size": "--data.image_size", "task": "--task"}
FROZEN = {"channels": "--model.channels", "size": "--data.decode_size"}
BY_COMMAND = {"train": TRAINING, "compare": TRAINING, "tune": TRAINING, "tta": FROZEN}
"""Options that set an argument in one way or another, by the command."""


def name_options(sentence: str, typed: Sequence[str]) -> str:
    """Name options where a sentence names arguments.

    An argument that shares the last part of its name with an option that was typed is taken for
    that option. Settings are named as options if one of them was typed.

    Arguments:
        sentence: What is wrong.
        typed: The words of the command, its own name first.

    Example:
        >>> name_options('Use estimator="auto".', [])
        'Use --phi.estimator auto.'
        >>> name_options("`alpha` must be above 0.", ["--method.alpha", "-1"])
        '`--method.alpha` must be above 0.'
        >>> name_options("`model.mean` and `model.std` go together.", ["--model.mean", "0.5"])
        '`--model.mean` and `--model.std` go together.'
    """
    flags = [word.partition("=")[0] for word in typed if word.startswith("--")]
    known = OPTIONS | BY_COMMAND.get(typed[0] if typed else "", {})
    known |= {flag.rpartition(".")[2]: flag for flag in flags if "." in flag}

    def set_value(found: re.Match[str]) -> str:
        name, value = found.groups()
        return f"{known[name]} {value}" if name in known else found.group()

    def set_name(found: re.Match[str]) -> str:
        return f"`{known[found[1]]}`" if found[1] in known else found.group()

    sentence = re.sub(r"`(\w+)`", set_name, re.sub(r"(\w+)=\"(\w+)\"", set_value, sentence))
    return _name_settings(sentence, flags)


def _name_settings(sentence: str, flags: Collection[str]) -> str:
    """Settings of a section as options, where a sentence names one that was typed."""
    options = {
        name: f"--{info.name}"
        for kind in (TrainSettings, TtaSettings, TransferSettings)
        for info in setting_infos(kind)
        for name in (info.path, info.name)
        if "." in name
    }
    if not any(options.get(name) in flags for name in re.findall(r"`([\w.]+)`", sentence)):
        return sentence
    options |= {flag.removeprefix("--"): flag for flag in flags}
    sentence = sentence.removesuffix(" (in the settings)")
    return re.sub(r"`([\w.]+)`", lambda found: f"`{options.get(found[1], found[1])}`", sentence)
