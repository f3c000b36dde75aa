"""The folder of a test-time augmentation that was fitted for a frozen model."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import log
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from instaaug.augmentation import InstaAug
from instaaug.errors import ArgumentError, DataError
from instaaug.files import write_text
from instaaug.frozen import FrozenViews
from instaaug.networks import FrozenFeatures
from instaaug.runs.frozen_model import FrozenModel, ModelSource, build_model, find_model
from instaaug.runs.run_files import environment, read_yaml, take_back
from instaaug.runs.settings import TtaSettings

__all__ = ["FittedViews", "FrozenFacts", "FrozenRun", "Predictor", "model_hash"]

Predictor = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From images to logits before any temperature, and the number of views of each."""


@dataclass(frozen=True)
class FrozenFacts:
    """What must be known of model and images to use a fitted augmenter; ``data.json``.

    Arguments:
        size: Side in pixels of what the model sees.
        side: Side that images are decoded to.
        channels: Color channels.
        classes: Names, in the order of the model's outputs.
        model_hash: Changes with the model's weights.
        split_hash: Changes when any image changes its side of the split.
    """

    size: int
    side: int
    channels: int
    classes: tuple[str, ...]
    model_hash: str
    split_hash: str


@dataclass(frozen=True)
class FittedViews:
    """A frozen model, the augmenter that was fitted for it, and temperatures.

    Arguments:
        config: The settings of the fit.
        facts: What it found.
        source: Where the model comes from.
        model: The model.
        aug: The augmenter.
        temperatures: By the number of views, from the images of the fit.
    """

    config: TtaSettings
    facts: FrozenFacts
    source: ModelSource
    model: FrozenModel
    aug: InstaAug
    temperatures: Mapping[int, float]

    def predictor(
        self, n_views: int, *, certainty: float | None = None, mean_views: float | None = None
    ) -> Predictor:
        """A function from images as the model takes them to logits, and the views they took.

        No temperature divides the logits; but certainty is judged with the largest one of so many
        views or fewer, so that an image is not done too soon.
        """
        few = [n for n in self.temperatures if n <= n_views] or [n_views]
        cautious = max(self.temperature(n) for n in few)
        wrapped = self.aug.wrap(
            self.model.module,
            n_views,
            output=self.model.output,
            temperature=cautious,
            certainty=certainty,
            mean_views=mean_views,
        ).eval()

        @torch.no_grad()
        def predict(x: Tensor) -> tuple[Tensor, Tensor]:
            logits, counts = wrapped.outputs_and_counts(x.to(next(self.aug.parameters()).device))
            return logits.cpu() * cautious, counts.cpu()

        return predict

    def calibrated(self, logits: Tensor, counts: Tensor) -> Tensor:
        """Logits divided by the temperature of the number of views that each image took."""
        divisors = [self.temperature(count) for count in counts.tolist()]
        return logits / logits.new_tensor(divisors)[:, None]

    def temperature(self, n_views: float | int) -> float:
        """The temperature of a number of views, or of the nearest number that has one."""
        return self.temperatures[min(self.temperatures, key=lambda n: abs(log(n / n_views)))]


class FrozenRun:
    """The files of a fit.

    ``config.yaml`` every setting; ``data.json`` what must be known of model and images;
    ``fit_images.txt`` hashes of the images that φ has learned from; ``environment.json`` versions,
    commit, command; ``table/`` what the model said of every view; ``aug.safetensors`` φ;
    ``policy.json`` the best views on average; ``crops.png`` what φ chooses; ``results.json`` the
    gain; ``eval.json`` and ``cost_curve.png`` from ``instaaug tta eval``.

    Arguments:
        path: The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.yaml"
        self.environment_file = self.path / "environment.json"
        self.facts_file = self.path / "data.json"
        self.fit_images_file = self.path / "fit_images.txt"
        self.table = self.path / "table"
        self.augmenter_file = self.path / "aug.safetensors"
        self.policy_file = self.path / "policy.json"
        self.crops_file = self.path / "crops.png"
        self.results_file = self.path / "results.json"
        self.scores_file = self.path / "eval.json"
        self.curve_file = self.path / "cost_curve.png"

    def start(self, config: TtaSettings) -> None:
        """Make the folder of a new fit, or go on with the same fit; raise if it holds another."""
        if not self.config_file.exists():
            text = yaml.safe_dump(config.to_mapping(), sort_keys=False, allow_unicode=True)
            write_text(self.config_file, text)
            self.write_json(self.environment_file, environment())
            return
        before = self.read_config()
        if other := _differences(before, config):
            raise ArgumentError(
                f"`out` must be a new folder, or that of the same fit: {str(self.path)!r} has "
                f"{other}. Choose another folder."
            )

    def holds(self, config: TtaSettings) -> bool:
        """Whether this is the folder of the same fit, finished or not."""
        try:
            return self.config_file.is_file() and not _differences(self.read_config(), config)
        except (ArgumentError, KeyError):  # a run of another kind, or of another version
            return False

    def withdraw(self) -> None:
        """Take back what `start` wrote, for a fit that could not begin."""
        take_back([self.config_file, self.environment_file])

    def read_config(self) -> TtaSettings:
        """The settings of the fit."""
        if not self.config_file.is_file():
            raise FileNotFoundError(
                f"There is no fit in {str(self.path)!r}: it has no config.yaml. "
                "`instaaug tta fit MODEL DATA --out FOLDER` makes one."
            )
        values = read_yaml(self.config_file)
        if values.get("kind", "train") == "train":
            raise ArgumentError(
                f"`run` must be the folder of `instaaug tta fit`: {str(self.path)!r} is one of "
                f"`instaaug train`. Fit views for its model by `instaaug tta fit {self.path} "
                "DATA`."
            )
        return TtaSettings.from_mapping(values, source=str(self.config_file))

    def write_facts(self, facts: FrozenFacts, fit_images: Sequence[str]) -> None:
        """Keep what must be known, and the hashes of the images that φ learns from."""
        self.write_json(self.facts_file, asdict(facts))
        write_text(self.fit_images_file, "".join(f"{name}\n" for name in fit_images))

    def read_facts(self) -> FrozenFacts:
        """What must be known of model and images."""
        try:
            values = json.loads(self.facts_file.read_text(encoding="utf-8"))
            values["classes"] = tuple(str(name) for name in values["classes"])
            wrong = [f.name for f in fields(FrozenFacts) if not _fits(f.type, values[f.name])]
            if wrong:
                raise TypeError(f"its {wrong[0]} is of another type")
            return FrozenFacts(**values)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"{str(self.facts_file)!r} must be as the fit wrote it: {error}. Restore it, or "
                "fit again."
            ) from None

    def read_fit_images(self) -> list[str]:
        """Hashes of the images that φ has learned from."""
        return self.fit_images_file.read_text(encoding="ascii").split()

    def read_results(self) -> dict[str, Any]:
        """What came out of the fit."""
        try:
            results = json.loads(self.results_file.read_text(encoding="utf-8"))
            _ = [(int(row["views"]), float(row["temperature"])) for row in results["rows"]]
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(
                f"{str(self.results_file)!r} must be as the fit wrote it: {error}. Restore it, or "
                "fit again."
            ) from None
        return dict(results)

    def check_split(self, split_hash: str) -> None:
        """Raise if the images are not those of the fit: some it learned from might be scored."""
        before = self.read_facts().split_hash
        if before != split_hash:
            raise ArgumentError(
                f"`data` must be the same as in the fit: the split had the hash {before}, now it "
                f"has {split_hash}. Put the images back, or name others: those that φ has "
                "learned from are left out."
            )

    def load(self) -> FittedViews:
        """The model and the augmenter that was fitted for it.

        Raises:
            FileNotFoundError: If the fit has not finished.
            ArgumentError: If the model is another one now.
        """
        config = self.read_config()
        if not self.results_file.is_file() or not self.augmenter_file.is_file():
            lost = "results.json" if self.augmenter_file.is_file() else "aug.safetensors"
            raise FileNotFoundError(
                f"The fit in {str(self.path)!r} has not finished: there is no {lost}. The same "
                "`instaaug tta fit` again goes on with it."
            )
        facts = self.read_facts()
        source = find_model(config.model.name)
        model = build_model(source, config, len(facts.classes))
        network = None
        if config.phi.features == "model":
            network = FrozenFeatures(
                model.module, size=facts.size, in_channels=facts.channels, output=model.output
            )
        aug = InstaAug.load(self.augmenter_file, network=network).eval()
        aug = aug.to(next((p.device for p in model.module.parameters()), "cpu"))
        if (now := model_hash(model.module, aug)) != facts.model_hash:
            raise ArgumentError(
                f"`model` must be the one that φ was fitted for: {config.model.name!r} had the "
                f"hash {facts.model_hash}, now it has {now}. Does it load its weights? If it was "
                "trained further, fit again."
            )
        rows = self.read_results()["rows"]
        temperatures = {int(row["views"]): float(row["temperature"]) for row in rows}
        return FittedViews(config, facts, source, model, aug, temperatures)

    @staticmethod
    def write_json(path: Path, content: Any) -> None:
        """Write a JSON file, whole or not at all."""
        write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def model_hash(module: nn.Module, aug: InstaAug) -> str:
    """Sixteen hex digits that change with the model's state."""
    return FrozenViews(module, aug.transform, aug.transform.identity()).fingerprint[:16]


def _differences(before: TtaSettings, now: TtaSettings) -> str:
    """The settings that differ, but for those that change nothing in what comes out."""
    pairs = zip(before.flatten().items(), now.flatten().values(), strict=True)
    other = [f"{k} {a} instead of {b}" for (k, a), b in pairs if a != b and k != "threads"]
    return ", ".join(other)


def _fits(kind: Any, value: Any) -> bool:
    return type(value) is (kind if kind in (int, str) else tuple)
