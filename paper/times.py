"""The appendix on time: what a step of training costs, with the paper's φ and with ours."""

from time import process_time

import numpy as np
import torch

from instaaug.compare.contenders import read_contenders
from instaaug.compare.step_times import measure_step_costs
from instaaug.data import DataSplits, LabeledImages
from instaaug.runs.settings import TrainSettings
from instaaug.yaml_files import read_yaml
from paper.comparing import CONFIGS
from paper.exhibits import SCALES, Exhibit, Findings, Plan, Row, Score
from paper.kept import given_settings

__all__ = ["EXHIBITS", "load", "measure"]

RANDOM_SECONDS = 0.15  # per step on the paper's card; all that it reports is divided by it
LINES = (
    ("random crop", "random", Score(1.0)),
    ("AdaAug, exploitation", None, Score(1.0)),
    ("AdaAug, with its search", "adaaug", None),
    ("InstaAug, the paper's φ", "instaaug-paper", Score(0.25 / RANDOM_SECONDS)),
    ("InstaAug, our φ, learned from the loss", "instaaug-loss", None),
    ("InstaAug, our default", "instaaug", None),
)
SETTINGS = {
    "laptop": "images of 64 pixels, PreActResNet-18 of width 0.5 as model and as the paper's φ, "
    "batches of 50, one thread; steps of all methods in turns, median over 24 steps each.",
    "paper": "images of 64 pixels, PreActResNet-18 of width 1, batches of 100; steps of all "
    "methods in turns, median over 24 steps each.",
}
SHRUNK = {"model.width": 0.5, "data.batch_size": 50, "trainer.threads": 1}
N_IMAGES, N_CLASSES, SIDE = 1200, 10, 64


def load(seed: int) -> DataSplits:
    """Images of noise in the size of Tiny-ImageNet, as a data source.

    Arguments:
        seed: Of the noise.
    """
    generator = np.random.default_rng(seed)

    def draw(n: int) -> LabeledImages:
        pixels = generator.integers(0, 256, (n, SIDE, SIDE, 3), dtype=np.uint8)
        classes = tuple(map(str, range(N_CLASSES)))
        return LabeledImages(pixels, torch.arange(n) % N_CLASSES, classes=classes)

    return DataSplits(draw(N_IMAGES), draw(N_IMAGES // 4), draw(N_IMAGES // 4), name="noise")


def measure(plan: Plan) -> Findings:
    """Time steps of real training on generated images, one of each method in turn."""
    changes = SHRUNK if plan.scale == "laptop" else {}
    base = TrainSettings.from_mapping(
        read_yaml(CONFIGS / "times" / "base.yaml"),
        {**changes, **given_settings(plan)},
        source="configs/times/base.yaml",
    )
    contenders = read_contenders(str(CONFIGS / "times" / "methods.yaml"), base)
    runs = {c.label: c.full_settings(base) for c in contenders}
    as_wide = {"phi.width": base.model.width}  # the paper's φ has the model's own network
    runs["instaaug-paper"] = runs["instaaug-paper"].override(as_wide)
    started = process_time()
    costs = measure_step_costs(runs, base)
    unit = costs["random"].median
    rows = [
        Row(name, (Score(costs[label].median / unit) if label in costs else None,), (reported,))
        for name, label, reported in LINES
    ]
    return Findings(
        columns=("time of a step / random crop",),
        rows=tuple(rows),
        setting=SETTINGS[plan.scale],
        unit="ratio",
        seconds=process_time() - started,
    )


EXHIBITS = (
    Exhibit(
        "times",
        "Appendix: the time of a step",
        measure,
        needs=dict.fromkeys(SCALES, "nothing: images are generated"),
        hours={"laptop": 0.1, "paper": 0.1},
        seeds={"laptop": 1, "paper": 1},
        differs=("The paper's are seconds per iteration on one 1080 Ti, divided by 0.15 s.",),
        verdict="A φ as large as the model doubles the cost of a step, in the paper it adds two "
        "thirds; ours adds a tenth.",
    ),
)
