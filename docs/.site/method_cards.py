"""Write docs/methods: a card for every method, in the order of what, picture, use, settings, cost.

What is written by hand is in ``method_cards.yaml``; settings are those of the class, costs those
that were measured. ``--check`` says whether the pages are what this would write.
"""

import argparse
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from instaaug.augmentation import Augmenter, HeldOutLearner
from instaaug.files import write_text
from instaaug.methods import METHODS
from instaaug.yaml_files import read_yaml

__all__ = ["render_all", "setting_of"]

ROOT = Path(__file__).parents[2]
PARTS = Path(__file__).with_name("method_cards.yaml")
FOLDER = ROOT / "docs/methods"
BY_DATA = ("mean", "std", "in_channels", "num_classes")
BY_SETTING = {
    "transforms": "transforms",
    "padding_mode": "padding_mode",
    "size": "crop.size",
    "loose": "crop.loose",
    "undo": "phi.undo",
    "levels": "crop.grid",
    "max_outside": "crop.max_outside",
    "entropy": "entropy",
    **{name: f"entropy.{name}" for name in ("diversity", "per", "rule", "weight", "factor")},
    **{name: f"phi.{name}" for name in ("conditioning", "network", "width", "estimator")},
    **{name: f"phi.{name}" for name in ("sizes", "ranges", "baseline")},
}
"""Constructor arguments that a run fills from settings that all methods share."""


def render_all() -> dict[Path, str]:
    """Every page, by its path."""
    families: dict[str, dict[str, Any]] = read_yaml(PARTS)  # type: ignore[assignment]
    cards = {name: parts for family in families.values() for name, parts in family.items()}
    if unequal := cards.keys() ^ METHODS.keys():
        raise SystemExit(f"{PARTS.name} must have every method once: look at {sorted(unequal)}.")
    pages = {FOLDER / f"{name}.md": _card(name, parts) for name, parts in cards.items()}
    return {ROOT / "docs/methods.md": _overview(families), **pages}


def setting_of(method: type[Augmenter], argument: str) -> str | None:
    """The setting by which a run fills an argument; empty if the data do, None for Python only."""
    if argument == "grid":
        return None
    if argument in BY_DATA:
        return ""
    shared = argument in BY_SETTING and argument not in method.own_options
    return BY_SETTING[argument] if shared else f"method.{argument}"


def _overview(families: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [
        "# All methods",
        "",
        "A card for each method of `instaaug list methods`: what it does, a picture, how to use",
        "it, its settings, what it costs, and when to take another.",
        "[Comparing methods](compare.md) tells which is best on your data.",
        "",
    ]
    for family, cards in families.items():
        lines += [f"## {family}", "", "| method | what it does | step |", "| --- | --- | --- |"]
        for name, parts in cards.items():
            measured = _measured_step(name, parts)
            cost = "not measured" if measured is None else f"{measured:.2f}×"
            sentence = inspect.getdoc(METHODS[name]).split("\n")[0]  # type: ignore[union-attr]
            lines.append(f"| [{parts['title']}](methods/{name}.md) | {sentence} | {cost} |")
        lines.append("")
    lines += [
        "Step: the time of a training step, in steps without augmentation; each card says where",
        "it was measured. Written by `python docs/.site/method_cards.py`.",
    ]
    return "\n".join([*lines, ""])


def _card(name: str, parts: Mapping[str, Any]) -> str:
    method = METHODS[name]
    sections = [
        f"# {parts['title']}",
        parts["what"].strip(),
        _picture(name, parts),
        f"{_facts(name, method)}",
        "## How to use it",
        *([parts["needs"]] if "needs" in parts else []),
        f"```python\n{_python(method, parts)}\n```",
        f"```console\n{_command(name, parts)}\n```",
        "## Settings",
        *_settings(method),
        "## Cost",
        *_costs(name, method, parts),
        "## When not",
        "\n".join(f"- {reason}" for reason in parts["when_not"]),
        *_references(method),
    ]
    return "\n\n".join(sections) + "\n"


def _picture(name: str, parts: Mapping[str, Any]) -> str:
    seen = f" {parts['seen']}" if "seen" in parts else ""
    caption = f"On the left two generated scenes, then six draws for each.{seen}"
    epochs = parts.get("epochs", "ten")
    return (
        f"![{parts['title']}: two scenes and six draws for each]({name}.jpg)\n\n"
        f"*{caption} After {epochs} epochs on 1,200 such scenes, figures upright and "
        "upside-down; "
        f"`python docs/.site/method_pictures.py {name}`.*"
    )


def _facts(name: str, method: type[Augmenter]) -> str:
    by_name = f"`--method {name}`"
    needs = [
        "labels" * method.needs_labels,
        "images that are kept from the model" * method.needs_held_out,
        "a search before training" * method.needs_search,
    ]
    tested = "the average of views" if method.averages_views else "the image"
    return (
        f"{by_name}, `{_home(method)}.{method.__name__}`. For {_listed(sorted(method.tasks))}"
        f"{' learning' * (method.tasks == {'contrastive'})}. "
        f"Beyond a loss it needs {_listed([need for need in needs if need]) or 'nothing'}. "
        f"Tested on {tested}."
    )


def _home(method: type[Augmenter]) -> str:
    return "instaaug" if method.method_name == "instaaug" else "instaaug.methods"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _python(method: type[Augmenter], parts: Mapping[str, Any]) -> str:
    if "python" in parts:
        return f">>> import torch\n{parts['python'].rstrip()}\n"
    lines = [
        "import torch",
        "from torch.nn import functional as F",
        f"from {_home(method)} import {method.__name__}",
        "from instaaug.networks import SmallCNN",
        "model, x, y = SmallCNN(10), torch.rand(8, 3, 32, 32), torch.arange(8) % 10",
        'losses_of = lambda outputs, y: F.cross_entropy(outputs, y, reduction="none")',
        "",
        f"aug = {parts['make']}",
    ]
    if method.adapt is not Augmenter.adapt:
        lines.append("model = aug.adapt(model)  # two stems, two heads")
    if method.attach is not Augmenter.attach and method.method_name != "instaaug":
        lines.append("aug.attach(model)  # it reads the model's features")
    lines.append("batch = aug(x, targets=y)")
    if issubclass(method, HeldOutLearner):
        lines.insert(2, "from instaaug.augmentation import HeldOutBatch")
        lines += [
            "others = HeldOutBatch(torch.rand(8, 3, 32, 32), y)  # kept from the model",
            "aug.search_objective(model, batch, others, losses_of).backward()  # for aug alone",
        ]
    lines += ["aug.objective(aug.losses(model, batch, losses_of), batch).backward()"]
    shown = [f">>> {line}" if line else "" for line in lines]
    if method.averages_views:
        shown += [
            "",
            ">>> with torch.no_grad():  # test-time augmentation",
            "...     aug.wrap(model, n_samples=10).eval()(x).shape",
            "torch.Size([8, 10])",
        ]
    return "\n".join([*shown, ""])


def _command(name: str, parts: Mapping[str, Any]) -> str:
    by_name = parts.get("command", name)
    words = f"--method {by_name} {parts['options']}".strip()
    return (
        f"$ instaaug train {words} --trainer.max_epochs 1 --out runs/{name}\n"
        f"Training {by_name} on sprites; the run is in runs/{name}.\n..."
    )


def _settings(method: type[Augmenter]) -> Iterator[str]:
    described = _described_arguments(method)
    rows, by_data, in_python = [], [], []
    for argument in inspect.signature(method).parameters.values():
        name, setting = argument.name, setting_of(method, argument.name)
        if setting == "":
            by_data.append(f"`{name}`")
        elif setting is None:
            in_python.append(f"`{name}`: {described[name]}")
        else:
            rows.append(f"- `{name}` (`--{setting}`{_default(argument)}): {described[name]}")
    yield "\n".join(rows)
    if in_python:
        yield f"In Python alone, {' '.join(in_python)}"
    if by_data:
        yield f"The data say {_listed(by_data)} on the command line."
    if any(
        (setting_of(method, name) or "").startswith(("crop.grid", "phi.")) for name in described
    ):
        yield (
            "Defaults are those in Python; the command line has its own for settings that all "
            "methods share, see `instaaug train --help`."
        )


def _default(argument: inspect.Parameter) -> str:
    if argument.default is inspect.Parameter.empty:
        return ", to be given"
    if argument.default is None:
        return ""
    value = argument.default
    return f", default `{value:.4g}`" if isinstance(value, float) else f", default `{value!r}`"


def _described_arguments(method: type[Augmenter]) -> dict[str, str]:
    """What the docstring says of each argument, as Markdown."""
    text = inspect.getdoc(method) or ""
    section = re.search(r"^Arguments:\n((?:(?: +.*)?\n)+)", text, re.MULTILINE)
    found = re.findall(
        r"^    (\w+): ((?:.*\n)(?:     +.*\n)*)", section[1] if section else "", re.MULTILINE
    )
    return {name: _markdown(words) for name, words in found}


def _markdown(words: str) -> str:
    words = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", " ".join(words.split()))
    return words.replace("``", "`")


def _costs(name: str, method: type[Augmenter], parts: Mapping[str, Any]) -> Iterator[str]:
    lines = [*_step_costs(name, parts)]
    yield "\n".join(f"- {line}" for line in lines) if lines else "Its step was not measured."
    if method.averages_views:
        yield "At test time, n views cost n passes through the model, beside drawing them."


def _measured_step(name: str, parts: Mapping[str, Any]) -> float | None:
    """The cost of a step in steps without augmentation, from the first source that has it."""
    for question in ("leaderboard", "contrastive"):
        if row := _row(question, parts.get(question, name)):
            return float(row["step cost"])
    found = _in_words(name)
    return None if found is None else float(found)


def _step_costs(name: str, parts: Mapping[str, Any]) -> Iterator[str]:
    if row := _row("leaderboard", parts.get("leaderboard", name)):
        none, random = (_score(_row("leaderboard", other)) for other in ("none", "random"))
        yield (
            f"A step took {row['step cost']:.2f} times one without augmentation, and "
            f"{row['views']} view{'s' * (row['views'] > 1)} had {_score(row)} (no augmentation "
            f"{none}, random crops {random}): 30 classes of Tiny-ImageNet at 48 pixels, "
            "PreActResNet-18 with 8 channels, 16 epochs, three seeds; "
            "[leaderboard.json](../../benchmarks/results/leaderboard.json)."
        )
    if row := _row("contrastive", parts.get("contrastive", name)):
        yield (
            f"In contrastive learning a step took {row['step cost']:.2f} times one without "
            f"augmentation, and a linear probe on 10 views had {_score(row)} (random crops "
            f"{_score(_row('contrastive', 'random-crop'))}): 30 classes of Tiny-ImageNet at 32 "
            "pixels, 12 epochs, three seeds; "
            "[contrastive.json](../../benchmarks/results/contrastive.json)."
        )
    yield from _paper_times(name)
    if found := _in_words(name):
        yield (
            f"A step took {found} times one without augmentation: PreActResNet-18 of width 0.25, "
            "32 pixels, batches of 100, one core; "
            "[Comparing methods](../compare.md#where-we-differ-from-a-source)."
        )


def _paper_times(name: str) -> Iterator[str]:
    """What ``python -m paper times`` measured."""
    published = json.loads((ROOT / "paper/results/times.json").read_text())
    titles = {"instaaug": "InstaAug, ", "adaaug": "AdaAug, "}
    for row in published["rows"]:
        if name in titles and row["name"].startswith(titles[name]) and row["ours"][0]:
            yield (
                f"{row['name']}: a step took {row['ours'][0]['mean']:.2f} times one with random "
                "crops, PreActResNet-18 of width 0.5 at 64 pixels; "
                "[times.json](../../paper/results/times.json)."
            )


def _row(question: str, label: str) -> dict[str, Any] | None:
    results = json.loads((ROOT / f"benchmarks/results/{question}.json").read_text())
    rows = {row["method"]: row for row in results["findings"]["methods"]}
    return rows.get(label)


def _score(row: Mapping[str, Any] | None) -> str:
    assert row is not None  # noqa: S101  # the published results have it
    return f"{100 * row['mean']:.1f} ± {100 * row['standard error']:.1f} %"


def _in_words(name: str) -> str | None:
    """The number that docs/compare.md gives for methods that no published file has."""
    text = (ROOT / "docs/compare.md").read_text()
    sentence = re.search(r"^A step costs .*$", text, re.MULTILINE)
    found = re.search(rf"([\d.]+) \(`{name}`", sentence[0] if sentence else "")
    return found[1] if found else None


def _references(method: type[Augmenter]) -> Iterator[str]:
    """The sources, each a title and an address."""
    text = inspect.getdoc(method) or ""
    section = re.search(r"^References:\n((?:(?: +.*)?\n)+)", text, re.MULTILINE)
    if section:
        lines = re.findall(r"\| (.*)", section[1])
        joined = re.sub(r"(https?://\S+)", r"<\1>.\n", " ".join(lines))
        yield "## Source"
        yield "\n".join(f"- {line.strip()}" for line in joined.splitlines() if line.strip())


def main() -> None:
    """Write the pages, or say which would change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it would")
    check = parser.parse_args().check
    pages = render_all()
    stale = [
        path for path, page in pages.items() if not path.is_file() or path.read_text() != page
    ]
    stale += [path for path in FOLDER.glob("*.md") if path not in pages]
    if check and stale:
        names = ", ".join(sorted(path.name for path in stale))
        sys.exit(f"{names} must be what the methods say: run `python docs/.site/method_cards.py`.")
    if not check:
        for path, page in pages.items():
            write_text(path, page)


if __name__ == "__main__":
    main()
