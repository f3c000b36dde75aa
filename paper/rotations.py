"""Figure 5: how far Mario and Iggy may be turned, as Augerino and InstaAug have learned it."""

import os
from dataclasses import asdict
from functools import partial
from math import pi
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from instaaug.cli.demo import make_panel
from instaaug.data import load_mario_iggy
from instaaug.report.pictures.rotation import ArcPanel, draw_rotation_arcs
from instaaug.report.theme import save_figure
from instaaug.runs.rotation import RotationMethod, RotationSettings, learn_rotations
from paper.exhibits import SCALES, Exhibit, Findings, Plan, Row, Scale, Score
from paper.kept import change_numbers, keep

__all__ = ["EXHIBITS", "measure"]

LINES: dict[RotationMethod, str] = {
    "augerino": "Augerino",
    "instaaug-shared": "InstaAug without input",
    "instaaug": "InstaAug",
}
DRAWN = ("augerino", "instaaug")
SIZES: dict[Scale, RotationSettings] = {
    "laptop": RotationSettings(),
    "paper": RotationSettings(n_train=10_000, n_test=5_000, n_steps=1580, batch_size=128),
}
"""The paper names no sizes; those at its scale are of the experiment's source, Augerino's."""


def measure(plan: Plan) -> Findings:
    """Learn ranges with every method and seed, and compare them with the ideal ones."""
    settings = change_numbers(SIZES[plan.scale], plan)
    name, sprites = _sprites()
    rows, panels, seconds = [], [], 0.0
    for method, title in LINES.items():
        runs = [
            keep(
                plan.folder / f"{method}_{seed}.json",
                {"sprites": name, **asdict(settings)},
                partial(_run, method, seed, sprites, settings),
            )
            for seed in range(plan.seeds)
        ]
        seconds += sum(run["seconds"] for run in runs)
        columns = (
            [100 * run["iou"] for run in runs],
            [run["mean_width"] * 180 / pi for run in runs],
            [100 * run["accuracy"] for run in runs],
        )
        rows.append(Row(title, tuple(Score.of(column) for column in columns), (None,) * 3))
        if method in DRAWN:
            panels.append(_panel(runs[0]["panel"]))
    picture = plan.folder / "figure5.png"
    save_figure(draw_rotation_arcs(panels), picture)
    return Findings(
        columns=("overlap with the ideal range (%)", "width (°)", "accuracy (%)"),
        rows=tuple(rows),
        setting=f"{name}, {settings.n_train:,} images turned by up to 45°, {settings.n_steps:,} "
        f"steps of {settings.batch_size}; Augerino with rate {settings.augerino_learning_rate:g} "
        f"and weight {settings.augerino_weight:g}.",
        unit="overlap (%), width (°), accuracy (%)",
        seconds=seconds,
        notes=("The ideal range is 180° wide and differs from image to image.",),
        pictures=(picture,),
    )


def _sprites() -> tuple[str, Tensor | None]:
    """The paper's two sprites if they are at hand, else those of the library."""
    file = Path(os.environ.get("INSTAAUG_DATA", "")) / "mario-iggy" / "images.npz"
    return (
        ("Mario and Iggy", load_mario_iggy(file)) if file.is_file() else ("built-in sprites", None)
    )


def _run(
    method: RotationMethod, seed: int, sprites: Tensor | None, settings: RotationSettings
) -> dict[str, Any]:
    torch.set_num_threads(1)  # these models are so small that a second thread mostly waits
    result = learn_rotations(method, seed=seed, sprites=sprites, settings=settings)
    shown = vars(make_panel(result)) if seed == 0 else {}
    panel = {k: v.tolist() if isinstance(v, Tensor) else v for k, v in shown.items()}
    return {**result.summary(), "panel": panel}


def _panel(kept: dict[str, Any]) -> ArcPanel:
    fields: dict[str, Any] = {
        name: torch.tensor(value) if isinstance(value, list) else value
        for name, value in kept.items()
    }
    return ArcPanel(**fields)


EXHIBITS = (
    Exhibit(
        "figure5",
        "Figure 5: learned rotations of Mario and Iggy",
        measure,
        needs=dict.fromkeys(SCALES, "mario-iggy; without it, built-in sprites"),
        hours={"laptop": 0.15, "paper": 1.0},
        seeds={"laptop": 5, "paper": 10},
        differs=(
            "The paper shows arcs and no number. Augerino has the rate and the middle one of the "
            "three weights of its own experiment with these images.",
        ),
        verdict="As in the paper: Augerino's one symmetric range is a part of what most images "
        "allow, InstaAug's ranges end close to where the class changes.",
    ),
)
