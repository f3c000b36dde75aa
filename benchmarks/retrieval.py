"""Do averaged features find more of the right products, and do fitted views find more still?

INSTAAUG_DATA names a folder with ``groceries-81``: 5 photos of each product are the gallery, 500
others ask. EfficientNet-Lite0 without its last layer, 128 px, crops cut from 256 px. Views are
fitted on the gallery alone, each photo against the other photos. A quarter of an hour, once: the
features are kept in ``runs/retrieval``.
"""

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, one_hot

from benchmarks.imagenet import SIDE, SIZE, load_model
from benchmarks.record import save
from instaaug import fit_tta
from instaaug.augmentation.settings import as_composition
from instaaug.data import load_data
from instaaug.frozen import DEFAULT_CROPS, FrozenViews, NormalizedImages, ViewTable, tabulate
from instaaug.frozen.table import all_views
from instaaug.parameterizations import CropGrid
from instaaug.stats import t_interval, wilson_interval

__all__ = ["main"]

RUNS = Path(__file__).parents[1] / "runs" / "retrieval"
PER_CLASS, QUERIES, N_DRAWS, SHARPNESS = 5, 500, 10, 0.05
N_VIEWS = (4, 10)
LARGER = 224  # px: the cost of three


class Encoder(nn.Module):
    """The features before the last layer, averaged over places."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        maps: list[Tensor] = []
        layer = self.model.get_submodule("net._avg_pooling")
        hook = layer.register_forward_hook(lambda _, __, out: maps.append(out))
        self.model(x)
        hook.remove()
        return maps[0].flatten(1)


def tables(size: int, rows: Tensor) -> tuple[ViewTable, ViewTable]:
    """Features of some boxes of the gallery and of the queries, shown in ``size`` pixels."""
    root = Path(os.environ["INSTAAUG_DATA"]) / "groceries-81"
    data = load_data(root, size=SIDE, validation_fraction=0.0)
    order = np.random.default_rng(0).permutation(len(data.train))
    left = dict.fromkeys(data.train.targets.tolist(), PER_CLASS)
    gallery: list[int] = []
    for i in map(int, order):
        label = int(data.train.targets[i])
        gallery += [i] * (left[label] > 0)
        left[label] -= 1
    queries = np.random.default_rng(0).permutation(len(data.test))[:QUERIES].tolist()
    encoder = Encoder(load_model("Lite0"))
    views = FrozenViews(encoder, as_composition(DEFAULT_CROPS, size=size), rows)
    parts = {"gallery": (data.train, gallery), "queries": (data.test, queries)}
    found = [
        tabulate(
            views,
            NormalizedImages(images).subset(torch.tensor(index)),
            folder=RUNS / f"{name}-{size}",
        )
        for name, (images, index) in parts.items()
    ]
    return found[0], found[1]


def main() -> None:
    boxes = CropGrid(DEFAULT_CROPS.levels, max_outside=0.0).boxes
    gallery, queries = tables(SIZE, boxes)
    random = torch.Generator().manual_seed(0)
    alone = recalls(gallery, queries, [0])
    findings: dict[str, object] = {"whole image": _told(alone), "gallery": len(gallery)}
    larger = recalls(*tables(LARGER, boxes[:1]), [0])
    findings[f"whole image at {LARGER} px"] = _told(larger)
    order = fitted_order(gallery)
    findings["fitted order"] = order
    for n in N_VIEWS:
        draws = [torch.randperm(30, generator=random)[:n].tolist() for _ in range(N_DRAWS)]
        kept = [[0, *(1 + torch.randperm(29, generator=random)[: n - 1])] for _ in range(N_DRAWS)]
        grid, image_and_grid = (
            torch.stack([recalls(gallery, queries, list(map(int, v))) for v in sets]).mean(dim=0)
            for sets in (draws, kept)
        )
        fitted = recalls(gallery, queries, order[:n])
        findings[f"{n} views"] = {
            "uniform grid, mean of ten draws": float(grid.mean()),
            "image and grid, mean of ten draws": float(image_and_grid.mean()),
            "fitted": _told(fitted),
            "fitted minus whole image at 224 px": t_interval((fitted - larger).tolist()),
            "fitted minus uniform grid": t_interval((fitted - grid).tolist()),
            "fitted minus image and grid": t_interval((fitted - image_and_grid).tolist()),
        }
    everything = list(range(30))
    findings["all 30 boxes"] = _told(recalls(gallery, queries, everything))
    unit = recalls(gallery, queries, everything, normalized=True)
    findings["all 30 boxes, each view normalized first"] = _told(unit)
    print(findings)
    save("retrieval", {}, findings=findings, seed=0, n_views=N_VIEWS, sharpness=SHARPNESS)


def recalls(
    gallery: ViewTable, queries: ViewTable, views: list[int], *, normalized: bool = False
) -> Tensor:
    """For each query, whether the nearest photo of the gallery shows the same product."""
    merged = []
    for table in (queries, gallery):
        features = torch.from_numpy(table.outputs[:, views]).float()
        features = normalize(features, dim=2) if normalized else features
        merged.append(normalize(features.mean(dim=1), dim=1))
    nearest = (merged[0] @ merged[1].T).argmax(dim=1)
    return (gallery.targets[nearest] == queries.targets).float()


def fitted_order(gallery: ViewTable) -> list[int]:
    """Views in the order that ``fit_tta`` learns from the gallery, one for all photos."""
    features = gallery.outputs_of(torch.arange(len(gallery)))
    known = normalize(normalize(features, dim=2).mean(dim=1), dim=1)
    members = one_hot(gallery.targets.long()).float()
    number = torch.arange(len(gallery))

    def loss(outputs: Tensor, index: Tensor) -> Tensor:
        """Cross-entropy of the mean likeness to each product, the photo itself left out."""
        unit, own = normalize(outputs, dim=1), members[index.long()]
        likeness = unit @ (members.T @ known).T
        likeness = likeness - (unit * known[index.long()]).sum(dim=1, keepdim=True) * own
        mean = likeness / (members.sum(dim=0) - own).clamp(min=1)
        return cross_entropy(mean / SHARPNESS, own, reduction="none")

    unseen = torch.zeros(len(gallery), 3, 8, 8)  # the table says all
    aug = fit_tta(
        nn.Linear(1, 1), (unseen, number), DEFAULT_CROPS, features="none", loss=loss,
        table=ViewTable(gallery.outputs, number), n_samples=N_VIEWS,
    )  # fmt: skip
    rows = all_views(aug)
    chosen = aug.draw(unseen[:1], max(N_VIEWS), select="top")[:, 0]
    return [int((rows - theta).abs().sum(dim=1).argmin()) for theta in chosen]


def _told(right: Tensor) -> dict[str, object]:
    n_right = int(right.sum())
    return {"recall@1": n_right / len(right), "interval": wilson_interval(n_right, len(right))}


if __name__ == "__main__":
    main()
