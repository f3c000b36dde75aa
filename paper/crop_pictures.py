"""Figures 6 and 8: crops of single images, with and without labels."""

from pathlib import Path

import torch

from instaaug.augmentation.observed import observe
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.report.pictures.crops import draw_crop_comparison
from instaaug.report.theme import save_figure
from instaaug.runs.build import load_task
from instaaug.runs.folder import Run
from instaaug.runs.training import load_splits
from paper import table1, table5
from paper.comparing import ComparedRun, read_runs
from paper.exhibits import SCALES, Exhibit, Findings, MissingData, Plan

__all__ = ["EXHIBITS", "draw_runs", "measure_figure6", "measure_figure8"]

SHOWN = {"instaaug-shared": "InstaAug without input", "instaaug": "InstaAug"}
N_PHOTOS = 4
N_DRAWN = 200


def measure_figure6(plan: Plan) -> Findings:
    """Crops of the runs of Table 1."""
    return _draw(plan, "table1", table1.SETTINGS[plan.scale])


def measure_figure8(plan: Plan) -> Findings:
    """Crops of the runs of Table 5."""
    return _draw(plan, "table5", table5.SETTINGS[plan.scale])


def _draw(plan: Plan, table: str, setting: str) -> Findings:
    folder = plan.folder.parents[1] / table / plan.scale / "runs"
    runs = [run for run in read_runs(folder) if run.method in SHOWN and run.seed == 0]
    if len(runs) < len(SHOWN):
        raise MissingData(f"it shows runs of {table}, which are not there: measure that first.")
    file = plan.folder / f"{table}_crops.png"
    draw_runs(runs, file)
    return Findings((), (), setting, pictures=(file,))


def draw_runs(runs: list[ComparedRun], file: Path) -> None:
    """Draw what runs make of the same test photos, the first of some classes."""
    observed, titles = {}, None
    for run in sorted(runs, key=lambda run: list(SHOWN).index(run.method)):
        kept = Run(run.folder)
        task, splits = load_task(kept), load_splits(kept.read_train_settings())
        targets = splits.test.targets
        labels = evenly_spaced_indices(len(splits.test.classes), N_PHOTOS)
        rows = [int((targets == label).nonzero()[0]) for label in labels]
        images, _ = splits.test.__getitems__(rows)
        titles = [splits.test.classes[int(targets[row])] for row in rows]
        with torch.no_grad():
            observed[SHOWN[run.method]] = observe(
                task.augmenter,
                task.normalize(images),
                N_DRAWN,
                generator=torch.Generator().manual_seed(0),
            )
    save_figure(draw_crop_comparison(observed, titles=titles), file)


EXHIBITS = (
    Exhibit(
        "figure6",
        "Figure 6: crops learned with labels",
        measure_figure6,
        needs=dict.fromkeys(SCALES, "the runs of table1"),
        hours={"laptop": 0.01, "paper": 0.01},
    ),
    Exhibit(
        "figure8",
        "Figure 8: crops learned without labels",
        measure_figure8,
        needs=dict.fromkeys(SCALES, "the runs of table5"),
        hours={"laptop": 0.01, "paper": 0.01},
    ),
)
