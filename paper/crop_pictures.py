"""Figures 6 and 8: crops of single images, with and without labels."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from instaaug.augmentation.observed import Observed, observe
from instaaug.data.labeled import LabeledImages, evenly_spaced_indices
from instaaug.report.pictures.crops import draw_crop_comparison
from instaaug.report.theme import save_figure
from instaaug.runs.folder import Run
from paper import table1, table5
from paper.comparing import read_runs
from paper.exhibits import SCALES, Exhibit, Findings, MissingData, Plan

__all__ = ["EXHIBITS", "measure_figure6", "measure_figure8", "observe_runs"]

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
    folders = {
        SHOWN[method]: run.folder for method in SHOWN for run in runs if run.method == method
    }
    observed, titles = observe_runs(folders, _first_of_classes, n_samples=N_DRAWN)
    file = plan.folder / f"{table}_crops.png"
    save_figure(draw_crop_comparison(observed, titles=titles), file)
    return Findings((), (), setting, pictures=(file,))


def _first_of_classes(test: LabeledImages) -> list[int]:
    """The first photo of each of some classes."""
    labels = evenly_spaced_indices(len(test.classes), N_PHOTOS)
    return [int((test.targets == label).nonzero()[0]) for label in labels]


def observe_runs(
    runs: Mapping[str, Path],
    choose: Callable[[LabeledImages], Sequence[int]],
    *,
    n_samples: int,
) -> tuple[dict[str, Observed], list[str]]:
    """What runs make of the same test photos, and the classes of these.

    Arguments:
        runs: By name, the folders of runs on the same data.
        choose: Gives the indices of photos to look at.
        n_samples: Draws of each photo.
    """
    from instaaug.runs.build import load_task  # Lightning takes its time
    from instaaug.runs.training import load_splits

    observed, titles = {}, list[str]()
    for name, folder in runs.items():
        run = Run(folder)
        task, test = load_task(run), load_splits(run.read_train_settings()).test
        images, targets = test.__getitems__(list(choose(test)))
        titles = [test.classes[int(label)] for label in targets]
        with torch.no_grad():
            observed[name] = observe(
                task.augmenter,
                task.normalize(images),
                n_samples,
                generator=torch.Generator().manual_seed(0),
            )
    return observed, titles


EXHIBITS = (
    Exhibit(
        "figure6",
        "Figure 6: crops learned with labels",
        measure_figure6,
        needs=dict.fromkeys(SCALES, "the runs of table1"),
        hours={"laptop": 0.01, "paper": 0.01},
        verdict="As in the paper, InstaAug draws fewer large crops than one distribution for all. "
        "Where they lie differs a little from photo to photo, their sizes hardly: φ knows little "
        "of single images here.",
    ),
    Exhibit(
        "figure8",
        "Figure 8: crops learned without labels",
        measure_figure8,
        needs=dict.fromkeys(SCALES, "the runs of table5"),
        hours={"laptop": 0.01, "paper": 0.01},
        verdict="The paper's crops take up what is salient; ours, after 708 steps, are large and "
        "in the middle of every photo, with input as without: pairs of these are the easiest to "
        "match. How much they overlap objects is measured in docs/contrastive.md.",
    ),
)
