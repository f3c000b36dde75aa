"""Do learned windows beat random ones on signals? OSULeaf and ACSF1, real sets of the UCR archive.

The files are inside the package ``aeon`` (``pip install --no-deps aeon``), which is not imported.
A small fully convolutional network, 100 epochs; a quarter of the training signals choose the
smallest random window and the band of what is learned; then all train again, on all training
signals, and the test set is scored, from the signal and from 10 windows. Half an hour of one core.
"""

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.record import save
from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation import Augmenter
from instaaug.errors import InstaAugError
from instaaug.methods import NoAugmentation, RandomAugmentation
from instaaug.parameterizations import Conditioning
from instaaug.stats import t_interval

__all__ = ["Signals", "main", "read_ts"]

SETS = {"OSULeaf": 1, "ACSF1": 4}
"""By name, how many neighboring values are averaged."""
SEEDS = range(5)
EPOCHS, BATCH, RATE, PHI_RATE, N_VIEWS = 100, 32, 2e-3, 1e-3, 10
SMALLEST = (0.35, 0.5, 0.65, 0.8)
BANDS = ((0.25, 0.45), (0.45, 0.7), (0.7, 0.9))
METHODS_COMPARED = ("none", "random", "learned, for all", "learned, per input")
LEVELS = ((0.35, 16), (0.5, 12), (0.65, 10), (0.8, 8), (1.0, 1))


@dataclass(frozen=True)
class Signals:
    """Signals as images of one row, with their classes."""

    x: Tensor
    y: Tensor

    def subset(self, rows: Tensor) -> "Signals":
        """Some of them."""
        return Signals(self.x[rows], self.y[rows])


def read_ts(text: str) -> tuple[Tensor, list[str]]:
    """Signals ``(N, 1, 1, length)`` and labels of a ``.ts`` file with one channel.

    Example:
        >>> x, labels = read_ts("@problemName two\\n@data\\n1,2,3:up\\n3,2,1:down\\n")
        >>> x.shape, labels
        (torch.Size([2, 1, 1, 3]), ['up', 'down'])
    """
    body = text.lower().split("@data", 1)[1].split()
    rows, labels = zip(*(line.rsplit(":", 1) for line in body), strict=True)
    values = np.array([[float(v) for v in row.split(",")] for row in rows], dtype=np.float32)
    return torch.from_numpy(values)[:, None, None], list(labels)


def load(name: str, part: str) -> Signals:
    """Signals of the part ``"TRAIN"`` or ``"TEST"``, each normalized by itself."""
    found = find_spec("aeon")
    if found is None or found.origin is None:
        raise InstaAugError("the package aeon has the signals: pip install --no-deps aeon.")
    folder = Path(found.origin).parent / "datasets" / "data" / name
    x, labels = read_ts((folder / f"{name}_{part}.ts").read_text())
    classes = sorted(set(labels))
    return Signals(_normalize(x, SETS[name]), torch.tensor([classes.index(c) for c in labels]))


def _normalize(x: Tensor, step: int) -> Tensor:
    x = F.avg_pool2d(x, (1, step))
    return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True).clamp(min=1e-6)


def network(classes: int) -> nn.Module:
    """Three convolutions, averaged over time."""
    layers: list[nn.Module] = [nn.Flatten(2)]  # an image of one row is a signal again
    for before, after, kernel in ((1, 32, 7), (32, 64, 5), (64, 32, 3)):
        layers += [
            nn.Conv1d(before, after, kernel, padding="same", bias=False),
            nn.BatchNorm1d(after),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, classes))


def fit(aug: Augmenter, train: Signals, seed: int) -> nn.Module:
    """Train a network with an augmenter, both changed in place."""
    torch.manual_seed(seed)
    model = network(int(train.y.max()) + 1)
    groups: list[dict[str, Any]] = [{"params": model.parameters()}]
    if learned := list(aug.parameters()):
        groups.append({"params": learned, "lr": PHI_RATE})
    optimizer = torch.optim.Adam(groups, lr=RATE)
    steps = EPOCHS * (len(train.y) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [group["lr"] for group in optimizer.param_groups], total_steps=steps
    )
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(train.y)).split(BATCH)[: len(train.y) // BATCH]:
            batch = aug(train.x[rows], targets=train.y[rows])
            losses = batch.losses(
                lambda y, x=batch.inputs: F.cross_entropy(model(x), y, reduction="none")
            )
            optimizer.zero_grad()
            aug.objective(losses, batch).backward()
            optimizer.step()
            schedule.step()
    return model.eval()


@torch.no_grad()
def score(predict: Callable[[Tensor], Tensor], data: Signals) -> float:
    """Accuracy in percent."""
    torch.manual_seed(0)
    outputs = torch.cat([predict(x) for x in data.x.split(64)])
    return 100 * float((outputs.argmax(1) == data.y).float().mean())


def random_windows(smallest: float) -> Augmenter:
    """Windows of any length from ``smallest`` on."""
    return RandomAugmentation(T.Window(), sizes=(smallest, 1.0))


def learned_windows(band: tuple[float, float], conditioning: Conditioning) -> Augmenter:
    """φ with a band of diversity."""
    return InstaAug(
        T.Window(LEVELS),
        diversity=band,
        conditioning=conditioning,
        network="envelope",
        in_channels=1,
    )


def contenders(method: str) -> dict[str, Callable[[], Augmenter]]:
    """What a method may choose from on validation signals."""
    if method == "none":
        return {"": NoAugmentation}
    if method == "random":
        return {f"from {s:g}": partial(random_windows, s) for s in SMALLEST}
    conditioning: Conditioning = "none" if method == "learned, for all" else "input"
    return {
        f"{low:g} to {high:g} of all windows": partial(learned_windows, (low, high), conditioning)
        for low, high in BANDS
    }


@dataclass(frozen=True)
class Outcome:
    """What a method has chosen on validation signals, and its accuracies in the test."""

    chosen: str
    plain: float
    views: float


def run_method(name: str, method: str, seed: int) -> Outcome:
    """Choose the setting on validation signals, train again on all, score once."""
    train, test = load(name, "TRAIN"), load(name, "TEST")
    order = torch.randperm(len(train.y), generator=torch.Generator().manual_seed(seed))
    n_held = len(order) // 4
    held, inner = train.subset(order[:n_held]), train.subset(order[n_held:])
    options, tried = contenders(method), dict[str, float]()
    for words, make in options.items() if len(options) > 1 else ():
        aug = make()
        model = fit(aug, inner, seed)
        tried[words] = score(aug.eval().wrap(model, N_VIEWS), held)
    best = max(tried, key=tried.__getitem__) if tried else next(iter(options))
    aug = options[best]()
    model = fit(aug, train, seed)
    plain = score(model, test)
    views = score(aug.eval().wrap(model, N_VIEWS), test) if tried else plain
    print(f"{name}, seed {seed}, {method} {best}: {plain:.1f}, {views:.1f}", flush=True)
    return Outcome(best, plain, views)


def main() -> None:
    torch.set_num_threads(1)
    findings: dict[str, dict[str, object]] = {}
    for name in SETS:
        runs = {m: [run_method(name, m, seed) for seed in SEEDS] for m in METHODS_COMPARED}
        findings[name] = {method: _summarize(own, runs["random"]) for method, own in runs.items()}
        print(name, *(f"\n  {method}: {row}" for method, row in findings[name].items()))
    save("signals", {}, findings=findings, epochs=EPOCHS, n_views=N_VIEWS, seeds=list(SEEDS))


def _summarize(own: list[Outcome], random: list[Outcome]) -> dict[str, object]:
    """Means over seeds, and the difference to random windows, paired, with its 95 % interval."""
    gains = [a.views - b.views for a, b in zip(own, random, strict=True)]
    return {
        "plain": statistics.mean(o.plain for o in own),
        "views": statistics.mean(o.views for o in own),
        "above random": [statistics.mean(gains), *t_interval(gains)],
        "seeds": [asdict(o) for o in own],
    }


if __name__ == "__main__":
    main()
