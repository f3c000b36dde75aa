"""Does learning go on, or stop with a sentence? NaN, infinities and what else numbers can be."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.reliability.trials import Outcome, Trials, summarize
from instaaug import InstaAug, fit_transfer, fit_tta
from instaaug.errors import InstaAugError
from instaaug.transforms import Crop

__all__ = ["DOORS", "IMAGES", "LABELS", "MODELS", "try_door", "try_numbers", "try_training"]

SIDE, N, N_CLASSES, STEPS = 16, 12, 3, 4
CROPS = Crop(levels=((1.0, 1), (0.5, 2)))
PIXELS = {"NaN": float("nan"), "infinity": float("inf"), "1e30": 1e30, "denormal": 1e-40}
Door = Callable[[nn.Module, Tensor, Tensor], list[Tensor]]
"""Learns or predicts from a model, images and labels; gives numbers that should be finite."""


def _random(n: int = N) -> Tensor:
    return torch.rand(n, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))


def _with_pixel(value: float) -> Tensor:
    images = _random()
    images[1, 2, 3, 4] = value
    return images


IMAGES: dict[str, Callable[[], Tensor]] = {
    "usual": _random,
    "one image": lambda: _random(1),
    "the same twice": lambda: _random(1).repeat(2, 1, 1, 1),
    "black": lambda: torch.zeros(N, 3, SIDE, SIDE),
    "white": lambda: torch.ones(N, 3, SIDE, SIDE),
    "all denormal": lambda: torch.full((N, 3, SIDE, SIDE), 1e-40),
    "all 1e30": lambda: torch.full((N, 3, SIDE, SIDE), 1e30),
    **{f"a pixel of {name}": partial(_with_pixel, value) for name, value in PIXELS.items()},
}
LABELS: dict[str, Callable[[int], Tensor]] = {
    "usual": lambda n: torch.arange(n) % N_CLASSES,
    "one class": lambda n: torch.zeros(n, dtype=torch.int64),
}


class _Scaled(nn.Module):
    """A classifier whose logits are multiplied: by nothing, all are equal; by much, infinite."""

    def __init__(self, factor: float = 1.0, n_classes: int = N_CLASSES) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(4, n_classes)
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.head(self.features(x).flatten(1)) * self.factor


MODELS: dict[str, Callable[[], nn.Module]] = {
    "usual": _Scaled,
    "equal logits": lambda: _Scaled(0.0),
    "huge logits": lambda: _Scaled(1e30),
    "infinite logits": lambda: _Scaled(float("inf")),
    "NaN logits": lambda: _Scaled(float("nan")),
    "denormal logits": lambda: _Scaled(1e-40),
    "100,000 classes": lambda: _Scaled(1.0, 100_000),
}


def _draw(_model: nn.Module, x: Tensor, _y: Tensor) -> list[Tensor]:
    batch = InstaAug(CROPS, diversity=(0.1, 0.4))(x, n_samples=2)
    return [batch.inputs, batch.theta, batch.log_prob, batch.entropy]


def _loop(precision: torch.dtype | None = None, **settings: Any) -> Door:
    """The four lines of the README, perhaps in half precision with scaled gradients."""

    def learn(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
        aug = InstaAug(**{"transforms": CROPS, "diversity": (0.1, 0.4), **settings})
        weights = [*model.parameters(), *aug.parameters()]
        optimizer = torch.optim.SGD(weights, lr=1e-3)
        scaler = torch.amp.GradScaler("cpu", enabled=precision is torch.float16)
        for _ in range(STEPS):
            half = nullcontext() if precision is None else torch.autocast("cpu", precision)
            with half:
                batch = aug(x)
                losses = F.cross_entropy(model(batch.inputs), y, reduction="none")
                objective = aug.objective(losses, batch)
            scaler.scale(objective).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return list[Tensor](weights)

    return learn


def _predict(**settings: Any) -> Door:
    def predict(model: nn.Module, x: Tensor, _y: Tensor) -> list[Tensor]:
        aug = InstaAug(CROPS, diversity=(0.1, 0.4))
        with torch.no_grad():
            merged = aug.wrap(model, 4, **settings).eval()(x)
            return [merged] if torch.isfinite(model(x)).all() else []  # a model may say NaN

    return predict


def _fit_tta(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    aug = fit_tta(model, (x, y), CROPS, n_samples=2, steps=STEPS)
    return [*aug.parameters(), aug.wrap(model, 2).eval()(x)]


def _fit_transfer(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    transfer = fit_transfer(model, (x, y), CROPS, n_samples=2, steps=STEPS)
    return [transfer(x)]


DOORS: dict[str, Door] = {
    "aug(x)": _draw,
    "four lines": _loop(),
    "four lines, closed form": _loop(estimator="closed_form"),
    "four lines, ranges": _loop(transforms=["rotation", "brightness"]),
    "four lines, bfloat16": _loop(torch.bfloat16),
    "four lines, float16, scaled": _loop(torch.float16),
    "wrap": _predict(),
    "wrap, by confidence": _predict(merge="confidence"),
    "wrap, until certain": _predict(certainty=0.9),
    "fit_tta": _fit_tta,
    "fit_transfer": _fit_transfer,
}


def try_door(door: Door, model: nn.Module, x: Tensor, y: Tensor) -> Outcome:
    """Whether learning or predicting gives finite numbers, or a sentence of ours."""
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            numbers = door(model, x, y)
    except InstaAugError as error:
        return Outcome("refused", str(error))
    except Exception as error:  # anything else is what we look for
        return Outcome("lost", f"{type(error).__name__}: {str(error)[:200]}")
    if all(torch.isfinite(number.detach()).all() for number in numbers):
        return Outcome("equal")
    return Outcome("lost", "it goes on with numbers that are not finite")


def _cases() -> Iterator[tuple[str, nn.Module, Tensor, Tensor]]:
    for (image, make), (label, targets) in product(IMAGES.items(), LABELS.items()):
        x = make()
        yield f"{image} images, {label} labels", MODELS["usual"](), x, targets(len(x))
    for name, model in MODELS.items():
        yield name, model(), _random(), LABELS["usual"](N)


def try_numbers(trials: int, seed: int, folder: Path) -> list[Trials]:
    """A row per door with all odd numbers, and rows of training runs that meet a NaN."""
    del trials, seed, folder  # every case is tried once
    rows = []
    for name, door in DOORS.items():
        outcomes = {case: try_door(door, model, x, y) for case, model, x, y in _cases()}
        for case, outcome in outcomes.items():
            if outcome.ending == "lost":
                print(f"{name}, {case}: {outcome.words}")
        rows.append(summarize(name, outcomes.values()))
    bad = (3, 5, 7)
    outcomes_of_runs = [try_training(step, value) for step, value in product(bad, PIXELS.values())]
    return [*rows, summarize("train, whose model explodes in a step", outcomes_of_runs)]


def try_training(step: int, value: float) -> Outcome:
    """Train a run whose model multiplies its outputs in a step by something odd.

    It must go on to finite weights, or name the step and keep the last finite checkpoint.
    """
    from instaaug.runs.folder import Run
    from instaaug.runs.settings import TrainSettings
    from instaaug.runs.training import train
    from instaaug.tasks.callbacks import WholeCheckpointIO

    with TemporaryDirectory() as place:
        file, run = Path(place) / "images.npz", Run(Path(place) / "run")
        images = np.random.default_rng(0).integers(0, 256, (24, 8, 8, 3), dtype=np.uint8)
        np.savez(file, images=images, labels=np.arange(24) % 3)
        _Explodes.step, _Explodes.value = step, value
        settings = {
            "data": str(file), "model.name": f"{__name__}:make_exploding", "views.n_views": 2,
            "data.batch_size": 8, "trainer.max_epochs": 4, "trainer.accelerator": "cpu",
            "crop.grid": [[1, 1], [0.5, 2]], "trainer.threads": 1,
        }  # fmt: skip
        outcome = Outcome("equal")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                train(TrainSettings.from_mapping(settings), run.path)
        except InstaAugError as error:
            named = "step" in str(error) or "epoch" in str(error)
            outcome = Outcome("refused" if named else "lost", str(error))
        except Exception as error:  # anything else is what we look for
            return Outcome("lost", f"{type(error).__name__}: {str(error)[:200]}")
        if run.checkpoint.is_file():
            state = WholeCheckpointIO().load_checkpoint(run.checkpoint)["state_dict"]
            if not all(torch.isfinite(t).all() for t in state.values() if t.is_floating_point()):
                return Outcome("lost", "the checkpoint is not finite")
    return outcome


class _Explodes(nn.Module):
    """A classifier that multiplies its outputs once, in a step of training."""

    step, value = 0, 1.0

    def __init__(self, n_outputs: int) -> None:
        super().__init__()
        self.inner, self.calls = nn.Sequential(nn.Flatten(), nn.Linear(192, n_outputs)), 0

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        if not self.training:
            return self.inner(x)
        self.calls += 1
        return self.inner(x) * (self.value if self.calls - 1 == self.step else 1.0)


def make_exploding(n_outputs: int) -> nn.Module:
    """The model of the runs above."""
    return _Explodes(n_outputs)
