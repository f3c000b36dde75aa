"""Folders as runs leave them, without training anything."""

import json
from pathlib import Path
from typing import Any

import yaml

__all__ = ["SETTINGS", "full_settings", "write_run"]

FULL_NAMES = {
    "data": "data.source", "test_fraction": "data.test_fraction", "model": "model.name",
    "method": "method.name", "sizes": "method.sizes", "strength": "method.strength",
    "entropy": "entropy.band", "diversity": "entropy.diversity", "rule": "entropy.rule",
    "weight": "entropy.weight", "loss": "loss.regression", "epochs": "trainer.max_epochs",
    "threads": "trainer.threads",
}  # fmt: skip


def full_settings(**settings: Any) -> dict[str, Any]:
    """Settings by their full names, from short ones."""
    return {FULL_NAMES.get(name, name): value for name, value in settings.items()}


SETTINGS = {
    "kind": "train",
    **full_settings(
        data="sprites", task="classification", method="instaaug", transforms="crop", entropy=None,
        rule="pi", weight=0.1, sizes=[0.25, 1.0], loss="squared", epochs=2, seed=0, threads=1,
    ),
}  # fmt: skip


def write_run(
    folder: Path,
    *,
    plain: Any = None,
    augmented: Any = None,
    learned: Any = None,
    **settings: Any,
) -> Path:
    """A finished run of ``instaaug train`` with these scores, or an unfinished one without."""
    folder.mkdir(parents=True)
    nested: dict[str, Any] = {}
    for name, value in (SETTINGS | full_settings(**settings)).items():
        group, _, key = name.rpartition(".")
        (nested.setdefault(group, {}) if group else nested)[key] = value
    (folder / "config.yaml").write_text(yaml.safe_dump(nested), encoding="utf-8")
    test = {"plain": plain, "augmented": augmented, "learned": learned}
    test = {name: value for name, value in test.items() if value is not None}
    if test:
        (folder / "results.json").write_text(json.dumps({"seed": 0, "test": test}))
    return folder
