"""``instaaug list`` and ``instaaug show``."""

from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from instaaug.cli.terminal import print_words
from instaaug.data.cache import default_cache_dir, list_cache
from instaaug.runs.settings import RunSettings, read_run_settings
from instaaug.settings import plain_value, setting_infos
from instaaug.yaml_files import read_yaml

__all__ = ["run_cache", "run_list", "run_show"]


def run_list(kind: str | None) -> None:
    """Print the names of one kind of thing, or of all, with a sentence on each."""
    console = Console()
    kinds: Mapping[str, Callable[[], dict[str, str]]] = {
        "transforms": _transforms,
        "models": _models,
        "data": _data,
        "methods": _methods,
    }
    for name in [kind] if kind else kinds:
        table = Table(title=name, title_justify="left", show_header=False, box=None)
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        for key, sentence in sorted(kinds[name]().items()):
            table.add_row(key, Text(sentence))
        console.print(table)


def run_cache(*, clear: bool) -> None:
    """Print where decoded images are and how large they are; remove them if asked to."""
    folder = default_cache_dir()
    files = list_cache(folder)
    size = sum(file.stat().st_size for file in files)
    sets = sum(file.suffix == ".npy" for file in files)
    words = f"{sets} set{'s' * (sets != 1)} of decoded images, {size / 1e6:,.1f} MB"
    console = Console()
    if not clear:
        print_words(console, f"{folder} has {words}. `instaaug cache --clear` removes them.")
        return
    for file in files:
        file.unlink(missing_ok=True)
    print_words(console, f"Removed from {folder}: {words}. They are made again when needed.")


def run_show(config: Path) -> None:
    """Print every setting of a YAML file or a run, by section."""
    settings = _read_settings(config)
    infos = {info.path: info for info in setting_infos(type(settings))}
    console, tables = Console(), {}
    for path, value in settings.flatten().items():
        info = infos.get(path)
        if info is not None:
            title, words, default = info.section, info.help, plain_value(info.default)
        else:  # a method's own option, which follows the other settings of its section
            words, default = "An option of the method.", None
        if title not in tables:
            tables[title] = Table(title=title, title_justify="left", show_header=False, box=None)
        shown = Text("" if value is None else str(value))
        if value != default:
            shown = Text(f"{shown} *", style="bold green")
        tables[title].add_row(Text(path, style="bold"), shown, Text(words, style="dim"))
    for table in tables.values():
        console.print(table)
    console.print(Text("* differs from the default"))


def _read_settings(config: Path) -> RunSettings:
    if config.is_dir():
        from instaaug.runs.folder import Run

        return Run(config).read_settings()
    return read_run_settings(read_yaml(config), source=str(config))


def _first_sentence(thing: object) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0]


def _transforms() -> dict[str, str]:
    from instaaug.transforms import TRANSFORMS

    return {name: _first_sentence(kind) for name, kind in TRANSFORMS.items()}


def _models() -> dict[str, str]:
    from instaaug.networks import MODELS

    own = {
        "timm:NAME": "Any model of timm, where it is installed.",
        "module:function": "Your own function of the number of outputs that returns an nn.Module.",
    }
    return {name: _first_sentence(make) for name, make in MODELS.items()} | own


def _data() -> dict[str, str]:
    from instaaug.data import DATASETS

    own = {
        "FOLDER": "Images of any size, one folder per class, perhaps within train/ and test/.",
        "FILE.csv": "A table of paths and labels.",
        "FILE.npz": "Arrays of images and labels.",
    }
    return {name: named.description for name, named in DATASETS.items()} | own


def _methods() -> dict[str, str]:
    from instaaug.compare.contenders import VARIANTS
    from instaaug.methods import METHODS

    sentences = {name: _first_sentence(method) for name, method in METHODS.items()}
    return sentences | {name: f"{v.sentence} (compare)" for name, v in VARIANTS.items()}
