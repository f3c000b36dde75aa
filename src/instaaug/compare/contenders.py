"""Which methods take part in a comparison: from what was typed to labels and settings."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.methods import METHODS
from instaaug.runs.build import check_method
from instaaug.runs.settings import TrainSettings
from instaaug.yaml_files import parse_yaml, read_yaml

__all__ = [
    "RESERVED_NAMES",
    "VARIANTS",
    "Contender",
    "Variant",
    "check_labels",
    "make_label",
    "read_contenders",
]

SHARED = ("data.", "model.", "loss.", "trainer.", "views.n_views", "crop.size", "seed", "task")
NOT_SHARED = (
    "data.flip",
    "data.vary",
    "data.held_out_fraction",
    "trainer.gradient_clip_val",
    "trainer.accumulate_grad_batches",
)
YAML_SUFFIXES = (".yaml", ".yml")

RESERVED_NAMES = (
    "comparison.json", "leaderboard.md", "leaderboard.csv", "leaderboard.tex", "runs.csv", "report"
)  # fmt: skip
"""What a comparison writes beside the folders of its contenders."""

LABEL = re.compile(r"\w(?:[\w.+-]*[\w+-])?")
MAX_LABEL_BYTES = 200
WINDOWS_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")


@dataclass(frozen=True)
class Contender:
    """One row of a comparison.

    Arguments:
        label: Its name in tables, and that of its folder.
        settings: What it changes in the settings that all contenders share.
        chosen: What it changes in turn because validation images said so.
    """

    label: str
    settings: Mapping[str, Any]
    chosen: Mapping[str, Any] = field(default_factory=dict)

    def full_settings(self, base: TrainSettings) -> TrainSettings:
        """Every setting of its runs.

        Raises:
            ArgumentError: If it changes a setting that must be the same for a fair comparison.

        Example:
            >>> mine = Contender("mine", {"method": "random", "method.sizes": [0.5, 1.0]})
            >>> mine.full_settings(TrainSettings()).method
            MethodSettings(name='random', options={'sizes': [0.5, 1.0]})
        """
        source = f"the contender {self.label}"
        settings = base.override(self.settings, source=source)
        settings = settings.override(self.chosen, source=source)
        before, after = base.flatten(), settings.flatten()
        for name, value in after.items():
            if name.startswith(SHARED) and name not in NOT_SHARED and before[name] != value:
                raise ArgumentError(
                    f"`{name}` must be the same for all methods: the contender {self.label} has "
                    f"{value!r}, the others {before[name]!r}. Set it for the whole comparison."
                )
        return settings


@dataclass(frozen=True)
class Variant:
    """A name for certain settings of a method, or for a sweep over several.

    Arguments:
        sentence: A one-line description.
        members: By label, what each contender changes in the shared settings.
    """

    sentence: str
    members: Mapping[str, Mapping[str, Any]]


def _crop_sweep() -> dict[str, dict[str, Any]]:
    smallest = [tenths / 10 for tenths in range(3, 10)]
    return {
        f"random-crops-{s}": {"method": {"name": "random", "sizes": [s, 1.0]}} for s in smallest
    }


def _color_sweep() -> dict[str, dict[str, Any]]:
    """One parameter at a time; hue is a share of the circle, so that 0.5 is all of it."""
    largest = {"hue": 0.5, "saturation": 1.0, "value": 1.0}
    off = dict.fromkeys(largest, 0.0)
    return {
        f"random-{name}-{round(share * limit, 1)}": {
            "method": {"name": "random", "strength": {**off, name: share}},
            "transforms": "hsv_jitter",
        }
        for name, limit in largest.items()
        for share in (0.2, 0.4, 0.6, 0.8, 1.0)
    }


def _color_grid() -> dict[str, dict[str, Any]]:
    """The paper's sweep: hue 0 to 0.5 by 0.1, saturation and value 0 to 1 by 0.2."""
    fifths = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    return {
        f"random-hsv-{hue / 2:.1f}-{saturation}-{value}": {
            "method": {
                "name": "random",
                "strength": {"hue": hue, "saturation": saturation, "value": value},
            },
            "transforms": "hsv_jitter",
        }
        for hue, saturation, value in product(fifths, repeat=3)
    }


def _variant(
    name: str, sentence: str, settings: Mapping[str, Any], *, method: str = "instaaug"
) -> dict[str, Variant]:
    return {name: Variant(sentence, {name: {"method": method, **settings}})}


VARIANTS: Mapping[str, Variant] = {
    **_variant(
        "instaaug-uniform",
        "InstaAug without LRP: place and size of a crop as independent intervals.",
        {"transforms": "uniform_crop"},
    ),
    **_variant(
        "instaaug-vae",
        "InstaAug without LRP: place and size of a crop decoded from a Gaussian.",
        {"transforms": "uniform_crop", "phi.ranges": "latent"},
    ),
    **_variant(
        "instaaug-shared",
        "InstaAug without the input: one learned distribution for all images.",
        {"phi.conditioning": "none"},
    ),
    **_variant(
        "instaaug-class",
        "InstaAug with one learned distribution per class.",
        {"phi.conditioning": "class"},
    ),
    **_variant(
        "instaaug-fixed",
        "InstaAug with a λ that is not adapted.",
        {"entropy.rule": "fixed"},
    ),
    **_variant(
        "instaaug-separate",
        "InstaAug with φ trained in a pass of its own, as in the authors' code.",
        {"phi.step": "separate"},
    ),
    **_variant(
        "instaaug-loss",
        "InstaAug that looks for views of low loss, as in the paper.",
        {"phi.goal": "loss"},
    ),
    **_variant(
        "instaaug-closed",
        "InstaAug in closed form: the loss of every box is predicted.",
        {"phi.estimator": "closed_form", "phi.goal": "loss"},
    ),
    **_variant(
        "instaaug-held-out",
        "The same, learned from images that are kept from the model for a while.",
        {"phi.estimator": "closed_form", "phi.goal": "loss", "phi.signal": "held_out"},
    ),
    **_variant(
        "augerino-crops",
        "Augerino with ranges of place and size of crops.",
        {"transforms": "uniform_crop"},
        method="augerino",
    ),
    **_variant(
        "augerino-color",
        "Augerino with ranges of hue, saturation and value.",
        {"transforms": "hsv_jitter"},
        method="augerino",
    ),
    "random-crops": Variant(
        "Random crops; smallest sides from 0.3 to 0.9: seven runs.", _crop_sweep()
    ),
    "random-colors": Variant(
        "Random hue, saturation or value, each from a fifth to all of its range: 15 runs.",
        _color_sweep(),
    ),
    "random-color-grid": Variant(
        "Random hue up to 0, 0.1 … 0.5, saturation and value up to 0, 0.2 … 1, each with each, as "
        "in the paper: 216 runs.",
        _color_grid(),
    ),
}
"""The paper's ablations, and sweeps over hand-set ranges, for `instaaug list methods`."""


def read_contenders(methods: str | Sequence[Any], base: TrainSettings) -> list[Contender]:
    """The contenders that were asked for, checked.

    Arguments:
        methods: A list of names of methods or variants, and of settings, ``method`` among them;
            or text that is such a list in YAML, names with commas, or a YAML file that maps labels
            to settings.
        base: The settings that all contenders share.

    Raises:
        ArgumentError: If one of them cannot run, or if two have the same label.
        UnknownNameError: If there is no such method, variant or setting.

    Example:
        >>> crops = {"method": {"name": "random", "sizes": [0.5, 1.0]}}
        >>> [contender.label for contender in read_contenders(["none", crops], TrainSettings())]
        ['none', 'random-sizes-0.5-1.0']
        >>> [contender.label for contender in read_contenders("none, mixup", TrainSettings())]
        ['none', 'mixup']
    """
    if isinstance(methods, str) and methods.endswith(YAML_SUFFIXES):
        contenders = list(_read_file(Path(methods)))
    else:
        contenders = [one for item in _list_items(methods) for one in _read_item(item)]
    if not contenders:
        raise ArgumentError("`methods` must name at least one method: got none.")
    check_labels([contender.label for contender in contenders])
    for contender in contenders:
        check_method(contender.full_settings(base))
    return contenders


def make_label(text: str) -> str:
    """A label, which is also a folder name, for a method with its settings.

    Example:
        >>> make_label("random-sizes=[0.5, 1.0]")
        'random-sizes-0.5-1.0'
    """
    return re.sub(r"[^\w.+]+", "-", text).strip("-.")[:100].rstrip("-.")


def check_labels(labels: Iterable[str]) -> None:
    """Raise unless all can be folders side by side, on every system.

    Raises:
        ArgumentError: If one cannot name a folder, is reserved, or comes twice.
    """
    seen: set[str] = set()
    for label in labels:
        folded = label.casefold()  # some file systems ignore case
        if (
            not LABEL.fullmatch(label)
            or len(label.encode("utf-8", "surrogateescape")) > MAX_LABEL_BYTES
            or folded in RESERVED_NAMES
            or WINDOWS_DEVICES.fullmatch(folded)
        ):
            raise ArgumentError(
                "Labels must be names of new folders on every system, of letters, digits, dots "
                f"and dashes, at most {MAX_LABEL_BYTES} bytes, with no dot at the end: got "
                f"{label[:MAX_LABEL_BYTES]!r}."
            )
        if folded in seen:
            raise ArgumentError(
                f"`methods` must name every contender once: got {label!r} twice. Give one of them "
                "other settings, or a `label` of its own."
            )
        seen.add(folded)


def _list_items(methods: str | Sequence[Any]) -> Sequence[Any]:
    parsed = parse_yaml(methods, argument="methods") if isinstance(methods, str) else methods
    if isinstance(parsed, str):
        return [name.strip() for name in parsed.split(",") if name.strip()]
    if isinstance(parsed, Mapping):
        return [parsed]
    if not isinstance(parsed, list | tuple):
        raise ArgumentError(
            "`methods` must be names with commas, or a list such as [none, {method: random, "
            f"method.sizes: [0.5, 1.0]}}]: got {str(methods)[:100]!r}."
        )
    return parsed


def _read_item(item: Any) -> Iterator[Contender]:
    """The contenders that an item of the list stands for; several for the name of a sweep."""
    if isinstance(item, str):
        for label, settings in _find_members(item).items():
            yield Contender(label, settings)
        return
    if not isinstance(item, Mapping) or "method" not in item:
        raise ArgumentError(
            "`methods` must be names, or settings with a `method` among them, such as {method: "
            f"random, method.sizes: [0.5, 1.0]}}: got {str(item)[:100]!r}."
        )
    own = {name: value for name, value in item.items() if name != "label"}
    label = str(item.get("label") or make_label("-".join(_label_parts(own))))
    yield Contender(label, _resolve_variant(own, label))


def _read_file(path: Path) -> Iterator[Contender]:
    for label, settings in read_yaml(path).items():
        if not isinstance(settings, dict) or "method" not in settings:
            raise ArgumentError(
                f"{str(path)!r} must map labels to settings, `method` among them: {str(label)!r} "
                "has none. Write `mine: {method: {name: random, sizes: [0.5, 1.0]}}`."
            )
        yield Contender(str(label), _resolve_variant(settings, str(label)))


def _find_members(name: str) -> Mapping[str, Mapping[str, Any]]:
    """By label, the settings of all contenders that a name stands for."""
    if name in VARIANTS:
        return VARIANTS[name].members
    if name not in METHODS and ":" not in name:
        raise UnknownNameError("method or variant", name, [*METHODS, *VARIANTS])
    return {make_label(name): {"method": name}}


def _resolve_variant(settings: Mapping[str, Any], label: str) -> Mapping[str, Any]:
    """The settings; if their method is the name of a variant, with the variant's settings."""
    name = settings["method"]
    if not isinstance(name, str) or name not in VARIANTS:
        return settings
    members = VARIANTS[name].members
    if len(members) > 1:
        raise ArgumentError(
            f"`method` must be one contender: {name!r}, of {label}, is {len(members)} of them. "
            "Name it in `methods` itself."
        )
    rest = {key: value for key, value in settings.items() if key != "method"}
    return {**next(iter(members.values())), **rest}


def _label_parts(settings: Mapping[str, Any]) -> Iterator[str]:
    """The method's name, then its settings and their values."""
    for name, value in settings.items():
        if name == "method" and isinstance(value, Mapping):
            yield str(value.get("name", ""))
            yield from _label_parts({k: v for k, v in value.items() if k != "name"})
        elif name == "method":
            yield str(value)
        else:
            yield f"{name.removeprefix('method.')}={_label_value(value)}"


def _label_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "-".join(f"{k}-{_label_value(v)}" for k, v in value.items())
    return "-".join(map(_label_value, value)) if isinstance(value, list) else str(value)
