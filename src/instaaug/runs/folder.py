"""A run on disk: all that is needed to repeat it, to resume it, and to use what it made."""

import json
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from math import inf, isfinite
from pathlib import Path
from reprlib import repr  # noqa: A004  # a hostile file may hold a value of any length
from typing import Any

import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from instaaug import __version__
from instaaug.data import DataSplits, channel_statistics
from instaaug.errors import ArgumentError, DataError, WeightsFileError
from instaaug.files import lock_folder, write_atomically, write_text
from instaaug.runs.normalization import read_normalization
from instaaug.runs.settings import (
    FrozenSettings,
    RunSettings,
    TrainSettings,
    TransferSettings,
    TtaSettings,
    read_run_settings,
)
from instaaug.safe_files import read_json
from instaaug.yaml_files import read_yaml

__all__ = ["DataFacts", "Run", "check_outside", "remove_files"]

PACKAGES = ("torch", "lightning", "numpy", "pillow", "safetensors")
MOST_PIXELS = 1 << 14  # of a side
YAML_START, YAML_END = "---\n", "...\n"  # a file that was cut would be valid YAML otherwise
MADE_BY = {"train": "instaaug train", "tta": "instaaug tta fit", "transfer": "instaaug transfer"}


@dataclass(frozen=True)
class DataFacts:
    """What a model must know of the data it was trained on or fitted to; ``data.json``.

    Arguments:
        image_size: Side in pixels of what the model sees.
        channels: Color channels.
        classes: Names of the classes, in the order of the outputs; empty for a regression.
        n_targets: Numbers to predict; the number of classes in a classification.
        mean: Per-channel mean that images in [0, 1] are normalized with; None for none.
        std: Per-channel standard deviation.
        split_hash: Changes when any image changes its side of the split.
        decode_size: Side in pixels that image files are decoded to.
        model_hash: Changes with the weights of a frozen model; empty for a model of the run.
        resemblance: How far validation images are from the nearest training image, as a multiple
            of how far test images are; None where there are none.
    """

    image_size: int
    channels: int
    classes: tuple[str, ...]
    n_targets: int
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    split_hash: str
    decode_size: int = 0
    model_hash: str = ""
    resemblance: float | None = None

    def __post_init__(self) -> None:
        if not self.decode_size:
            object.__setattr__(self, "decode_size", self.image_size)

    @classmethod
    def of(cls, splits: DataSplits, config: TrainSettings | None = None) -> "DataFacts":
        """The facts on the training images.

        Arguments:
            splits: The images.
            config: May give another size to what the model sees, and its own normalization.
        """
        train, config = splits.train, config or TrainSettings()
        channels, height, _ = train.image_shape
        given = read_normalization(config.model.mean, config.model.std, channels)
        mean, std = given or channel_statistics(train)
        n_numbers = train.targets.shape[1] if train.targets.ndim > 1 else 1
        return cls(
            image_size=config.crop.size or height,
            decode_size=height,
            channels=channels,
            classes=train.classes,
            n_targets=len(train.classes) or n_numbers,
            mean=mean,
            std=std,
            split_hash=splits.hash,
            resemblance=splits.resemblance,
        )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "DataFacts":
        """Read back from JSON.

        Raises:
            TypeError: If a value is absent, unknown or of another type. The number of outputs, for
                one, is passed to the function that the settings name as the model.
            ValueError: If values do not fit one another.
        """
        counts, texts = ("image_size", "channels", "n_targets", "decode_size"), ("split_hash",)
        wrong = [name for name in counts if type(values.get(name)) is not int]
        wrong += [name for name in (*texts, "model_hash") if not isinstance(values.get(name), str)]
        for name, kind in {"classes": str, "mean": float, "std": float}.items():
            items = values.get(name)
            if items is None and kind is float and name in values:
                continue
            if not isinstance(items, list) or not all(type(item) is kind for item in items):
                wrong.append(name)
        if not isinstance(values.get("resemblance"), float | None):
            wrong.append("resemblance")
        if wrong:
            raise TypeError(f"its {wrong[0]} is of another type")
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        facts = cls(**values)
        facts._check()
        return facts

    def _check(self) -> None:
        """Raise if these are no facts that a run writes."""
        sides, n = (self.image_size, self.decode_size), self.n_targets
        if not all(1 <= side <= MOST_PIXELS for side in sides) or self.channels not in (1, 3):
            raise ValueError(
                f"it has {self.channels} channels of {sides[0]} and {sides[1]} pixels"
            )
        if n < 1 or (self.classes and n != len(self.classes)):
            raise ValueError(f"it has {n} outputs for {len(self.classes)} classes")
        for numbers in (self.mean, self.std):
            if numbers and (len(numbers) != self.channels or not all(map(isfinite, numbers))):
                raise ValueError(f"its mean or std is {repr(numbers)}")


class Run:
    """The folder of a run, of any kind: one list of files, one reader, one writer.

    ``config.yaml`` every setting, the kind of the run first; ``environment.json`` versions,
    commit, command; ``data.json`` what the model must know of its data; ``results.json`` how good
    it is, ``timing.json`` how long it took; ``aug.safetensors`` the augmenter; ``report/`` the
    page.

    Training adds ``last.ckpt`` to resume from, ``metrics.csv`` a row per epoch,
    ``model.safetensors`` the model, ``order.safetensors`` the order of views at test time where
    one was learned, ``probe.safetensors`` linear probes on features that were learned without
    labels, ``samples.png`` and ``tensorboard/``. Fitting views for a frozen model adds ``table/``
    what the model said of every view, ``fit_images.txt`` hashes of the images that φ has learned
    from, ``policy.json`` the best views on average, ``crops.png`` what φ chooses.
    Evaluating adds ``eval.json`` and ``cost_curve.png``, or ``eval-MODEL.json`` and
    ``cost_curve-MODEL.png`` of another model with the same views.

    Arguments:
        path: The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.yaml"
        self.environment_file = self.path / "environment.json"
        self.facts_file = self.path / "data.json"
        self.results_file = self.path / "results.json"
        self.timing_file = self.path / "timing.json"
        self.augmenter_file = self.path / "aug.safetensors"
        self.order_file = self.path / "order.safetensors"
        self.checkpoint = self.path / "last.ckpt"
        self.metrics = self.path / "metrics.csv"
        self.model_file = self.path / "model.safetensors"
        self.probe_file = self.path / "probe.safetensors"
        self.samples_file = self.path / "samples.png"
        self.table = self.path / "table"
        self.fit_images_file = self.path / "fit_images.txt"
        self.policy_file = self.path / "policy.json"
        self.crops_file = self.path / "crops.png"
        self.scores_file = self.path / "eval.json"
        self.curve_file = self.path / "cost_curve.png"

    def scores_file_of(self, model: str | None) -> Path:
        """Where the scores of another model with the run's views are; its own for None."""
        return self.scores_file if model is None else _named_after(self.scores_file, model)

    def curve_file_of(self, model: str | None) -> Path:
        """Where the figure of these scores is."""
        return self.curve_file if model is None else _named_after(self.curve_file, model)

    @contextmanager
    def hold(self, *, timeout: float = 0.0) -> Iterator[None]:
        """Keep other processes out of the folder, which is made if need be.

        Arguments:
            timeout: Seconds to wait for another process to end.

        Raises:
            ArgumentError: If another process is at work in it.
        """
        in_use = (
            f"`out` must not be in use: another process is at work in {str(self.path)!r}. Wait "
            "until it has ended, or choose another folder."
        )
        with lock_folder(self.path, error=in_use, timeout=timeout):
            yield

    def start(self, config: RunSettings) -> None:
        """Make the folder of a new run; a fit of views goes on with the same fit.

        Raises:
            ArgumentError: If the folder holds another run.
        """
        if not self.config_file.exists():
            text = yaml.safe_dump(config.to_mapping(), sort_keys=False, allow_unicode=True)
            text = f"{YAML_START}{text}{YAML_END}"
            self.checkpoint.unlink(missing_ok=True)  # of a run whose settings are gone
            self.write_json(self.environment_file, environment())
            write_text(self.config_file, text)  # last: it makes a run of the folder
            return
        if isinstance(config, TtaSettings | TransferSettings):
            other = _differences(self.read_settings(), config)
            if not other:
                return
            raise ArgumentError(
                f"`out` must be a new folder, or that of the same fit: {str(self.path)!r} has "
                f"{other}. Choose another folder, or replace what is there by --overwrite."
            )
        raise ArgumentError(
            f"`out` must be a new folder: {str(self.path)!r} holds a run. Go on with it by "
            f"`instaaug resume {shlex.quote(str(self.path))}`, replace it by --overwrite, or "
            "choose another folder."
        )

    @contextmanager
    def fitting(self, config: FrozenSettings) -> Iterator[Callable[[], float]]:
        """Start a fit or go on with it; nothing of a new one stays if it could not begin.

        A mistake in the settings must not occupy the folder. Once outputs of the model are stored,
        the folder is kept, for the same command to go on.

        Arguments:
            config: Every setting.

        Returns:
            What tells the seconds since the start.
        """
        check_outside(self.path, config.data.source)
        with self.hold():
            is_new, started = not self.config_file.exists(), time.monotonic()
            self.start(config)
            try:
                yield lambda: time.monotonic() - started
            except Exception:
                if is_new and not self.table.exists() and not self.facts_file.exists():
                    self.withdraw()
                raise

    def withdraw(self) -> None:
        """Take back what `start` wrote, for a run that could not begin."""
        remove_files([self.config_file, self.environment_file])

    def holds(self, config: RunSettings) -> bool:
        """Whether the run in this folder, finished or not, has these settings."""
        try:
            return self.config_file.is_file() and not _differences(self.read_settings(), config)
        except (ArgumentError, KeyError):  # a run of another version
            return False

    def read_settings(self) -> RunSettings:
        """The settings of the run, whatever its kind."""
        if not self.config_file.is_file():
            raise FileNotFoundError(
                f"There is no run in {str(self.path)!r}: it has no config.yaml. `instaaug train`, "
                "`instaaug tta fit` and `instaaug transfer` make one."
            )
        content = self.config_file.read_bytes()
        start, end = YAML_START.encode(), YAML_END.encode()
        begun = content.startswith(start) or start.startswith(content)  # older files have neither
        if begun and not content.endswith(end):
            raise DataError(
                f"{str(self.config_file)!r} must be as the run wrote it: its end is missing. "
                "Restore it, or begin a new run."
            )
        return read_run_settings(read_yaml(self.config_file), source=str(self.config_file))

    def read_train_settings(self) -> TrainSettings:
        """The settings of a run of ``instaaug train``; raise if it is of another kind."""
        settings = self.read_settings()
        if not isinstance(settings, TrainSettings):
            raise ArgumentError(
                f"`run` must be a folder of `instaaug train`: {str(self.path)!r} is one of "
                f"`{MADE_BY[settings.flatten()['kind']]}`."
            )
        return settings

    def read_tta_settings(self) -> TtaSettings:
        """The settings of a fit of views; raise if the run is of another kind."""
        settings = self.read_settings()
        if not isinstance(settings, TtaSettings):
            raise ArgumentError(
                f"`run` must be the folder of `instaaug tta fit`: {str(self.path)!r} is one of "
                f"`{MADE_BY[settings.flatten()['kind']]}`. Fit views for a model by `instaaug tta "
                "fit MODEL DATA`."
            )
        return settings

    def write_facts(self, facts: DataFacts, fit_images: Sequence[str] | None = None) -> None:
        """Keep what the model must know of its data; raise if a resumed run finds other data.

        Arguments:
            facts: On the data.
            fit_images: Hashes of the images that views are fitted to.
        """
        if fit_images is None and self.facts_file.is_file():
            self.check_split(facts.split_hash)
        self.write_json(self.facts_file, asdict(facts))
        if fit_images is not None:
            write_text(self.fit_images_file, "".join(f"{name}\n" for name in fit_images))

    def read_facts(self) -> DataFacts:
        """What the model must know of its data."""
        content = read_json(self.facts_file)
        try:
            return DataFacts.from_dict(content)
        except (ValueError, TypeError) as error:
            raise DataError(
                f"{str(self.facts_file)!r} must be as the run wrote it: {error}. Restore it, or "
                "begin a new run."
            ) from None

    def read_fit_images(self) -> list[str]:
        """Hashes of the images that φ has learned from."""
        try:
            return self.fit_images_file.read_text(encoding="ascii").split()
        except UnicodeDecodeError:
            raise DataError(
                f"{str(self.fit_images_file)!r} must be as the run wrote it: it is no text. "
                "Restore it, or begin a new run."
            ) from None

    def check_split(self, split_hash: str) -> None:
        """Raise if the data are not those that the run began with: some might be scored."""
        before = self.read_facts().split_hash
        if before != split_hash:
            raise ArgumentError(
                "`data` must be the same as when the run began: the split had the hash "
                f"{before}, now it has {split_hash}. Put the images back, or name other images."
            )

    def write_results(self, results: dict[str, Any], **seconds: float) -> None:
        """Finish the run: ``results.json`` comes last, and only where all else is still there.

        Arguments:
            results: How good it is.
            seconds: How long it took, and its parts.

        Raises:
            DataError: If the folder was removed while the run was at work.
        """
        self.write_json(self.timing_file, seconds)
        for file in (self.config_file, self.environment_file, self.facts_file):
            if not file.is_file():
                raise DataError(
                    f"{str(self.path)!r} must stay as it is while a run is at work: {file.name} "
                    "is gone. Begin again, in this folder or another one."
                )
        self.write_json(self.results_file, results)

    def read_results(self) -> dict[str, Any]:
        """The content of ``results.json``; raise if it is damaged."""
        results = read_json(self.results_file)
        try:
            dict(results.get("validation") or {})
            if "rows" in results or "temperatures" in results:
                _check_temperatures(results["temperatures"])
            return results
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            raise DataError(
                f"{str(self.results_file)!r} must be as the run wrote it: {error}. Restore it, or "
                "begin a new run."
            ) from None

    def read_validation(self) -> dict[str, Any]:
        """What validation images said on views; nothing if they were not asked."""
        found = self.read_results().get("validation") if self.results_file.is_file() else None
        return dict(found or {})

    @staticmethod
    def write_json(path: Path, content: Any) -> None:
        """Write a JSON file, whole or not at all."""
        write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    @staticmethod
    def write_tensors(path: Path, module: nn.Module) -> None:
        """Write the state of a module, without anything that could run code."""
        tensors = {
            k: v.detach().cpu().contiguous().clone() for k, v in module.state_dict().items()
        }
        write_atomically(path, lambda file: file.write(save(tensors)))

    @staticmethod
    def load_tensors(path: Path, module: nn.Module) -> None:
        """Load what `write_tensors` wrote into a module."""
        try:
            module.load_state_dict(load_file(path))
        except (SafetensorError, RuntimeError) as error:
            words = " ".join(str(error).split())[:300]
            raise WeightsFileError(
                f"{str(path)!r} does not fit the settings of its run: {words}"
            ) from None


def _check_temperatures(found: Any) -> None:
    for n, temperature in found.items():
        if int(n) < 0 or not 0 < float(temperature) < inf:
            raise ValueError(f"the temperature of {repr(n)} views is {repr(temperature)}")


def _named_after(file: Path, model: str) -> Path:
    """A file beside this one, with the name of a model in its own."""
    name = re.sub(r"[^\w.-]+", "-", Path(model).name).strip("-.")
    return file.with_name(f"{file.stem}-{name}{file.suffix}")


def _differences(before: RunSettings, now: RunSettings) -> str:
    """The settings that differ, but for those that change nothing in what comes out."""
    first, second = before.flatten(), now.flatten()
    other = [
        f"{name} {first.get(name)} instead of {second.get(name)}"
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name) and name != "threads"
    ]
    return ", ".join(other)


def check_outside(out: Path, source: str) -> None:
    """Raise if a folder for results lies within the images, which would then change."""
    if out.resolve().is_relative_to(source):
        raise ArgumentError(
            f"`out` must lie outside of the images: got {str(out)!r} within {source!r}."
        )


def remove_files(files: Iterable[Path]) -> None:
    """Remove files of a run that could not begin, and their folder if nothing else is in it."""
    for file in files:
        file.unlink(missing_ok=True)
        folder = file.parent
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def environment() -> dict[str, Any]:
    """Versions, commit, command: what else it takes to repeat a run."""
    return {
        "instaaug": __version__,
        "commit": _commit(),
        "command": " ".join(["instaaug", *sys.argv[1:]]),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": torch.get_num_threads(),
        **{name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the library, where it runs from a clone."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
