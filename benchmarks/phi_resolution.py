"""Does φ learn less when it looks at 32 pixels instead of 64?

A glyph of 12 pixels lies somewhere in 64 × 64 pixels of clutter; its shape is the class. Only a
crop that shows the glyph helps, so that what φ should learn is known: where the glyph is. Measured
are the probability that a drawn crop holds the whole glyph, the same if all images had their mean
distribution (all that can be known without looking), and the accuracy.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from multiprocessing import get_context

import torch
from jaxtyping import Bool, Float
from rich.console import Console
from rich.table import Table
from torch import Generator, Tensor
from torch.nn import functional as F

from benchmarks.record import save
from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.networks import FeatureNetwork, PreActTrunk, SmallCNN

__all__ = ["main"]

NETWORKS: Mapping[str, Callable[[], FeatureNetwork | str]] = {
    "glance": lambda: "glance",
    "glance, but at all 64 pixels": lambda: PreActTrunk(channels=(8, 32), strides=(1, 2)),
    "pyramid": lambda: "pyramid",
}
SEEDS = range(5)
SIDE, GLYPH, CLASSES = 64, 12, 4
N_TRAIN, N_TEST, STEPS, BATCH = 4000, 1000, 1200, 64
N_VIEWS = 10
N_PROCESSES = 2


@dataclass(frozen=True)
class Glyphs:
    """Images, the shape in each, and the middle of it in the normalized frame."""

    images: Float[Tensor, "n 3 64 64"]
    classes: Tensor
    centers: Float[Tensor, "n 2"]


@dataclass(frozen=True)
class Outcome:
    """What one run learned."""

    network: str
    seed: int
    crops_with_glyph: float
    without_looking: float
    accuracy: float
    accuracy_of_views: float
    entropy: float
    cpu_seconds: float


def shapes() -> Float[Tensor, "4 12 12"]:
    """Plus, cross, ring, stripes."""
    masks = torch.zeros(CLASSES, GLYPH, GLYPH)
    masks[0, 4:8], masks[0, :, 4:8] = 1, 1
    i = torch.arange(GLYPH)
    masks[1] = ((i[:, None] - i).abs() < 3) | ((i[:, None] + i - GLYPH + 1).abs() < 3)
    masks[2], masks[2, 3:9, 3:9] = 1, 0
    masks[3, 1::4], masks[3, 2::4] = 1, 1
    return masks


def glyphs(n: int, generator: Generator) -> Glyphs:
    clutter = F.interpolate(torch.rand(n, 3, 16, 16, generator=generator), SIDE, mode="bilinear")
    noise = torch.rand(n, 3, SIDE, SIDE, generator=generator)
    classes = torch.randint(CLASSES, (n,), generator=generator)
    corners = torch.randint(SIDE - GLYPH + 1, (n, 2), generator=generator)
    colors = 0.5 + 0.5 * torch.rand(n, 3, 1, 1, generator=generator)
    images = 0.6 * clutter + 0.25 * noise
    for image, mask, (row, column), color in zip(
        images, shapes()[classes], corners.tolist(), colors, strict=True
    ):
        place = image[:, row : row + GLYPH, column : column + GLYPH]
        place.copy_(torch.where(mask > 0, color, place))
    centers = (corners.flip(1) + GLYPH / 2) / (SIDE / 2) - 1
    return Glyphs(images, classes, centers)


def shows_glyph(boxes: Float[Tensor, "k 4"], centers: Float[Tensor, "n 2"]) -> Bool[Tensor, "n k"]:
    room = (boxes[:, 2:] - 2 * GLYPH / SIDE) / 2
    return ((centers[:, None] - boxes[:, :2]).abs() <= room).all(dim=-1)


def learned(network: str, seed: int) -> Outcome:
    generator = torch.Generator().manual_seed(seed)
    train, test = glyphs(N_TRAIN, generator), glyphs(N_TEST, generator)
    torch.manual_seed(seed)
    model, aug = SmallCNN(CLASSES), InstaAug(T.Crop(), network=NETWORKS[network]())
    optimizer = torch.optim.Adam([*model.parameters(), *aug.parameters()], lr=1e-3)
    started = time.process_time()
    for _ in range(STEPS):
        rows = torch.randint(N_TRAIN, (BATCH,), generator=generator)
        batch = aug(train.images[rows], generator=generator)
        losses = F.cross_entropy(model(batch.inputs), train.classes[rows], reduction="none")
        aug.objective(losses, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    cpu_seconds = time.process_time() - started
    predictor = aug.wrap(model, N_VIEWS).eval()
    with torch.no_grad():
        crops = aug.distribution(test.images).finite()["crop"]
        helps = shows_glyph(crops.table, test.centers).float()
        outputs = {"alone": model(test.images), "views": predictor(test.images, generator)}
    right = {
        k: float((o.argmax(dim=1) == test.classes).float().mean()) for k, o in outputs.items()
    }
    return Outcome(
        network=network,
        seed=seed,
        crops_with_glyph=float((crops.probs * helps).sum(dim=1).mean()),
        without_looking=float((crops.probs.mean(dim=0) * helps).sum(dim=1).mean()),
        accuracy=right["alone"],
        accuracy_of_views=right["views"],
        entropy=float(crops.entropy().mean()),
        cpu_seconds=cpu_seconds,
    )


def show(outcomes: Mapping[str, list[Outcome]]) -> None:
    measures = ("crops_with_glyph", "without_looking", "accuracy_of_views", "accuracy")
    table = Table(title="A glyph in clutter: mean of five seeds (least)", title_justify="left")
    for heading in ("network of φ", *(m.replace("_", " ") for m in measures)):
        table.add_column(heading)
    for network, runs in outcomes.items():
        columns = ([getattr(run, measure) for run in runs] for measure in measures)
        table.add_row(network, *(f"{statistics.mean(c):.3f} ({min(c):.3f})" for c in columns))
    Console().print(table)


def main() -> None:
    torch.set_num_threads(1)
    pairs = [(network, seed) for network in NETWORKS for seed in SEEDS]
    with get_context("spawn").Pool(
        N_PROCESSES, initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        done = pool.starmap(learned, pairs, chunksize=1)
    show({network: [run for run in done if run.network == network] for network in NETWORKS})
    runs = [asdict(run) for run in done]
    save("phi_resolution", {}, findings={"runs": runs}, steps=STEPS, batch=BATCH, side=SIDE)
