"""Whether learned augmentation pays here: against none and random ranges, on validation images."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from instaaug.augmentation.worth import Gain, accuracy_gain, gain_to_dict
from instaaug.compare.contenders import Contender
from instaaug.compare.runner import ChildRun, OnChange, StartRun, run_contenders
from instaaug.data import LabeledImages
from instaaug.durations import format_duration
from instaaug.errors import ArgumentError, InstaAugError
from instaaug.files import lock_folder
from instaaug.frozen.calibration import fit_temperature
from instaaug.runs.build import kept_settings, transform_names
from instaaug.runs.folder import Run
from instaaug.runs.loaded import load_run
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import load_splits, share_validation
from instaaug.safe_files import read_json

__all__ = ["Verdict", "find_verdict", "judge", "list_baselines"]

SIDES = (0.35, 0.5, 0.25)  # least sides of random crops; those that are best most often first
FEWEST = 40  # validation images that can tell anything
ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class Verdict:
    """What learned augmentation is worth against what is free.

    Arguments:
        n_images: Validation images from which nothing has learned.
        accuracy: By label; ``"learned"`` is the run itself.
        random: Label of the best random range, chosen on half of these images.
        gains: Of the run against ``"none"`` and against that range, with 95 % intervals. Against
            the range, it is judged on the other half.
    """

    n_images: int
    accuracy: Mapping[str, float]
    random: str
    gains: Mapping[str, Gain]

    @property
    def sentence(self) -> str:
        """What to do, and why."""
        difference, (low, high) = self.gains[self.random]
        plain, (plain_low, _) = self.gains["none"]
        found = (
            f"On {self.n_images:,} validation images learned augmentation has "
            f"{self.accuracy['learned']:.1%}, the best random range ({self.random}) "
            f"{self.accuracy[self.random]:.1%}, none {self.accuracy['none']:.1%}; against random "
            f"it is worth {100 * difference:+.1f} points (95 % interval {100 * low:+.1f} to "
            f"{100 * high:+.1f}), against none {100 * plain:+.1f}."
        )
        if low > 0 and plain_low > 0:
            return f"It pays here. {found}"
        if high < 0:
            return f"Use `{self.random}` instead. {found}"
        if plain_low <= 0:
            return f"No augmentation may do as well here. {found}"
        return f"It is no better than random here, as far as these images can tell. {found}"

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "n_images": self.n_images,
            "accuracy": dict(self.accuracy),
            "random": self.random,
            "gains": {name: gain_to_dict(gain) for name, gain in self.gains.items()},
            "sentence": self.sentence,
        }


def list_baselines(
    config: TrainSettings, kept: Mapping[str, Any] | None = None
) -> list[Contender]:
    """No augmentation, and random ranges of the transforms that a run has learned.

    Arguments:
        config: Of the run.
        kept: Settings for what the run has tried on the side and kept, which is free as well.

    Example:
        >>> from instaaug.runs.settings import TrainSettings
        >>> settings = TrainSettings.from_mapping({"transforms": "crop"})
        >>> [contender.label for contender in list_baselines(settings)]
        ['none', 'random-0.35', 'random-0.5', 'random-0.25']
    """
    none, kept = Contender("none", {"method": "none"}), kept or {}
    if "crop" not in transform_names(config):
        return [none, Contender("random", {"method": "random", **kept})]
    ranges = {side: {"name": "random", "sizes": [side, 1.0]} for side in SIDES}
    return [
        none,
        *(Contender(f"random-{side:g}", {"method": own, **kept}) for side, own in ranges.items()),
    ]


def find_verdict(
    path: str | Path,
    *,
    budget: float | None = None,
    start: StartRun = ChildRun,
    on_change: OnChange | None = None,
    on_message: Callable[[str], None] | None = None,
) -> Verdict:
    """Train what a finished run has to beat, and compare them on validation images.

    Baselines are trained like the run: the same images, model, epochs and seed, in its folder
    ``verdict``; what is there is not trained again. Random ranges come with what the run has tried
    on the side and kept. All predict as ``predict`` would.

    Arguments:
        path: Folder of a run of ``instaaug``.
        budget: Seconds that the baselines may take, if each takes as long as the run did: as many
            random ranges as fit are tried.
        start: Starts the run in a folder.
        on_change: Called with the progress of all runs.
        on_message: Called with sentences for the user.

    Raises:
        ArgumentError: If the run has nothing to be judged by, or the budget is too small.
        Interrupted: After Ctrl-C, when every run has saved itself.
    """
    run = Run(path)
    config = _check_run(run)
    images = share_validation(config, load_splits(config))[1]
    if images is None or len(images) < FEWEST:
        n = 0 if images is None else len(images)
        raise ArgumentError(
            f"`run` must have at least {FEWEST} validation images that nothing has learned from: "
            f"got {n}. Train with a larger --data.validation_fraction."
        )
    kept = kept_settings(run.read_results().get("tried", {}), run.read_facts().channels)
    contenders = list_baselines(config, kept)
    each = float(read_json(run.timing_file)["seconds"])
    if budget is not None:
        n = int(budget // each)
        if n < 2:
            raise ArgumentError(
                f"`budget` must be at least {format_duration(2 * each)}, the time of two "
                f"runs like this one: got {format_duration(budget)}."
            )
        contenders = contenders[:n]
    if on_message is not None:
        on_message(
            f"Training {', '.join(c.label for c in contenders)} for comparison: about "
            f"{format_duration(each * len(contenders))}."
        )
    folder = run.path / "verdict"
    in_use = f"`run` must not be in use: another verdict is being found in {str(folder)!r}."
    with lock_folder(folder, error=in_use):
        runs = run_contenders(
            config, contenders, [config.seed], folder, start=start, on_change=on_change
        )
        if failed := [r for r in runs if r.status != "done"]:
            raise InstaAugError(
                f"{failed[0].label} has not finished: {failed[0].sentence or 'it was stopped'}"
            )
        logits = {r.label: _predict(r.folder, images) for r in runs}
        verdict = judge({"learned": _predict(run.path, images), **logits}, images.targets.long())
        run.write_json(folder / "verdict.json", verdict.to_dict())
    return verdict


def _check_run(run: Run) -> TrainSettings:
    config = run.read_settings()
    if not isinstance(config, TrainSettings) or config.task != "classification":
        raise ArgumentError(
            f"`run` must be a classification of `instaaug train`: {str(run.path)!r} is not. Fits "
            "of views and heads print a verdict by themselves."
        )
    if not config.method.name.startswith("instaaug"):
        raise ArgumentError(
            f"`run` must have learned its augmentation: that in {str(run.path)!r} has the method "
            f"{config.method.name}."
        )
    return config


@torch.no_grad()
def _predict(folder: Path, images: LabeledImages) -> Float[Tensor, "images classes"]:
    """Outputs for all images, as ``instaaug predict`` gives them."""
    predict = load_run(folder).make_predictor(None, None)
    parts = [range(len(images))[i : i + ROWS_AT_ONCE] for i in range(0, len(images), ROWS_AT_ONCE)]
    return torch.cat([predict(images.__getitems__(rows)[0])[0].cpu() for rows in parts])


def judge(logits: Mapping[str, Float[Tensor, "images classes"]], targets: Tensor) -> Verdict:
    """Compare outputs of the run with those of the baselines.

    The best random range is the most likely one on each half of the images; on the other half the
    run is compared with it, so that it gains nothing from having been chosen.

    Arguments:
        logits: By label; ``"learned"`` is the run, ``"none"`` is without augmentation.
        targets: The right classes.
    """
    right = {label: z.argmax(dim=1) == targets for label, z in logits.items()}
    ranges = [label for label in logits if label not in ("learned", "none")]
    halves = [torch.arange(first, len(targets), 2) for first in (0, 1)]
    rival = torch.zeros_like(right["none"])
    for chosen, judged in (halves, halves[::-1]):
        best = min(ranges, key=lambda label: _nll(logits[label][chosen], targets[chosen]))
        rival[judged] = right[best][judged]
    named = min(ranges, key=lambda label: _nll(logits[label], targets))
    return Verdict(
        len(targets),
        {label: _share(hits) for label, hits in right.items()},
        named,
        {
            "none": accuracy_gain(right["learned"], right["none"]),
            named: accuracy_gain(right["learned"], rival),
        },
    )


def _nll(logits: Tensor, targets: Tensor) -> float:
    return float(F.cross_entropy(logits / fit_temperature(logits, targets), targets))


def _share(hits: Bool[Tensor, " images"]) -> float:
    return float(hits.double().mean())
