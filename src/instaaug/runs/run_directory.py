"""A run on disk: what is needed to repeat it, to go on with it, and to use what it made."""

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from instaaug.errors import ArgumentError, DataError, WeightsFileError
from instaaug.files import write_atomically, write_text
from instaaug.runs.build import build_task
from instaaug.runs.data_facts import DataFacts
from instaaug.runs.representing import load_representations
from instaaug.runs.run_files import environment, read_yaml, take_back
from instaaug.runs.settings import TrainSettings
from instaaug.tasks import AugmentedTask, ContrastiveTask

__all__ = ["RunDirectory", "read_yaml"]

PICTURE_HEIGHT = 768


class RunDirectory:
    """The files of a run.

    ``config.yaml`` every setting; ``data.json`` what the model must know of its data;
    ``environment.json`` versions, commit, command; ``last.ckpt`` to go on from;
    ``metrics.csv`` a row per epoch; ``model.safetensors`` and ``aug.safetensors`` what was
    learned; ``probe.safetensors`` what a linear probe made of features that were learned without
    labels; ``results.json`` how good it is; ``tensorboard/`` curves and pictures.

    Arguments:
        path: The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.yaml"
        self.environment_file = self.path / "environment.json"
        self.facts_file = self.path / "data.json"
        self.checkpoint = self.path / "last.ckpt"
        self.metrics = self.path / "metrics.csv"
        self.model_file = self.path / "model.safetensors"
        self.augmenter_file = self.path / "aug.safetensors"
        self.results_file = self.path / "results.json"

    def start(self, config: TrainSettings) -> None:
        """Make the folder for a new run; raise if there is one already."""
        if self.config_file.exists():
            raise ArgumentError(
                f"`out` must be a new folder: {str(self.path)!r} holds a run. Go on with it by "
                f"`instaaug resume {shlex.quote(str(self.path))}`, or choose another folder."
            )
        text = yaml.safe_dump(config.to_mapping(), sort_keys=False, allow_unicode=True)
        write_text(self.config_file, text)
        self._write_json(self.environment_file.name, environment())

    def withdraw(self) -> None:
        """Take back what `start` wrote, for a run that could not begin."""
        take_back([self.config_file, self.environment_file])

    def read_config(self) -> TrainSettings:
        """The settings of the run."""
        if not self.config_file.is_file():
            raise FileNotFoundError(
                f"There is no run in {str(self.path)!r}: it has no config.yaml. "
                "`instaaug train --out FOLDER` makes one."
            )
        return TrainSettings.from_mapping(
            read_yaml(self.config_file), source=str(self.config_file)
        )

    def write_facts(self, facts: DataFacts) -> None:
        """Keep what the model must know of its data; raise if a resumed run finds other data."""
        if self.facts_file.is_file():
            self.check_split(facts.split_hash)
        self._write_json(self.facts_file.name, asdict(facts))

    def check_split(self, split_hash: str) -> None:
        """Raise if the data are not those that the run began with."""
        before = self.read_facts().split_hash
        if before != split_hash:
            raise ArgumentError(
                "`data` must be the same as when the run began: the split had the hash "
                f"{before}, now it has {split_hash}. Put the images back, or start a new run."
            )

    def read_facts(self) -> DataFacts:
        """What the model must know of its data."""
        try:
            return DataFacts.from_dict(json.loads(self.facts_file.read_text(encoding="utf-8")))
        except (ValueError, TypeError, AttributeError) as error:
            raise DataError(
                f"{str(self.facts_file)!r} must be as the run wrote it: {error}. Restore it, or "
                "train again."
            ) from None

    def write_weights(self, task: AugmentedTask) -> None:
        """Write the model and the augmenter, without anything that could run code."""
        if task.augmenter.state_dict():
            saver = getattr(task.augmenter, "save", None)
            if saver is not None:
                saver(self.augmenter_file)
            else:
                self._write_tensors(self.augmenter_file, task.augmenter)
        self._write_tensors(self.model_file, task.model)

    def load_task(self) -> AugmentedTask:
        """The task with its trained weights."""
        if not self.model_file.is_file():
            raise FileNotFoundError(
                f"The run {str(self.path)!r} has not finished: there is no model.safetensors. "
                f"`instaaug resume {shlex.quote(str(self.path))}` goes on with it."
            )
        task = build_task(self.read_config(), self.read_facts())
        _fill(task.model, self.model_file)
        if task.augmenter.state_dict():
            if not self.augmenter_file.is_file():
                raise FileNotFoundError(
                    f"The run {str(self.path)!r} has lost its aug.safetensors, without which its "
                    "augmentation knows nothing."
                )
            _fill(task.augmenter, self.augmenter_file)
        if isinstance(task, ContrastiveTask):
            load_representations(task, self.path)
        return task.eval()

    def write_picture(self, picture: Tensor) -> None:
        """Write ``samples.png`` from values in [0, 1], ``(C, H, W)``, large enough to look at."""
        from PIL import Image

        pixels = (picture * 255).round().byte().cpu().permute(1, 2, 0).numpy().squeeze()
        image = Image.fromarray(pixels)
        factor = max(1, PICTURE_HEIGHT // image.height)
        image = image.resize(
            (factor * image.width, factor * image.height), Image.Resampling.NEAREST
        )
        write_atomically(self.path / "samples.png", lambda file: image.save(file, format="png"))

    def write_results(self, results: dict[str, Any], *, name: str = "results.json") -> None:
        """Write what came out."""
        self._write_json(name, results)

    def _write_json(self, name: str, content: Any) -> None:
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_text(self.path / name, text)

    @staticmethod
    def _write_tensors(path: Path, module: torch.nn.Module) -> None:
        tensors = {
            k: v.detach().cpu().contiguous().clone() for k, v in module.state_dict().items()
        }
        write_atomically(path, lambda file: file.write(save(tensors)))


def _fill(module: torch.nn.Module, path: Path) -> None:
    try:
        tensors = load_file(path)
        module.load_state_dict(tensors)
    except (SafetensorError, RuntimeError) as error:
        words = " ".join(str(error).split())[:300]
        raise WeightsFileError(
            f"{str(path)!r} does not fit the settings of its run: {words}"
        ) from None
