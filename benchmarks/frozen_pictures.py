"""Where does φ look? Twelve photos that it has not seen, as pictures in ``docs``.

``frozen_crops.jpg`` has the single-view loss, ``frozen_views.jpg`` the loss that knows n.

φ is fitted on imagenet-val-2000 for EfficientNet-Lite0; the photos are the first of a seeded
shuffle of nips2017-1000 (CC-BY 2.0; the authors are named in ``docs/frozen_crops.md``).
"""

import csv
import os
from pathlib import Path
from typing import Any

import torch

from benchmarks.frozen import N_FOLDS, Scored, order_of
from benchmarks.frozen_views import box_table, boxes
from benchmarks.imagenet import SIZE, Photos, load_model, photos
from instaaug import InstaAug
from instaaug.frozen import DEFAULT_CROPS, ViewTable, fit_tta
from instaaug.report.pictures.crops import draw_crops
from instaaug.report.theme import save_figure

__all__ = ["main"]

DOCS = Path(__file__).parents[1] / "docs"
N_PHOTOS = 12
PICTURES: dict[str, dict[str, Any]] = {
    "frozen_crops": {"objective": "single", "entropy": (1.5, 2.5)},
    "frozen_views": {},
}


def main() -> None:
    torch.set_num_threads(1)
    p = photos(N_FOLDS)
    model = load_model("Lite0")
    table = box_table("Lite0", model, p)
    fit = p.scored.nonzero().flatten()
    data = p.data.subset(fit.numpy())
    known = table.subset(fit)
    for name, settings in PICTURES.items():
        aug = fit_tta(model, data, DEFAULT_CROPS, size=SIZE, table=known, **settings)
        draw(aug, p, table, DOCS / f"{name}.jpg")


def draw(aug: InstaAug, p: Photos, table: ViewTable, path: Path) -> None:
    unseen = (~p.scored).nonzero().flatten()
    order = torch.randperm(len(unseen), generator=torch.Generator().manual_seed(0))
    rows = unseen[order[:N_PHOTOS]]
    x, labels = p.data.__getitems__(rows.tolist())
    x = x.float() / 255
    chosen = order_of(aug, table, rows)
    scored = Scored(table, rows)
    right = {n: scored.logits(chosen, n).argmax(dim=1) == labels for n in (1, 10)}
    words = {True: "right", False: "wrong"}
    titles = [
        f"whole image {words[bool(one)]}, 10 views {words[bool(ten)]}"
        for one, ten in zip(right[1], right[10], strict=True)
    ]
    with torch.no_grad():
        probs = aug.distribution(x)["crop"].probs
    probs[:, 0] = 0.0  # the whole image is always looked at: it is not a choice
    probs = probs / probs.sum(dim=1, keepdim=True)
    drawing = draw_crops(x, probs, boxes(), size=(SIZE, SIZE), titles=titles)
    save_figure(drawing, path, dpi=100)
    write_credits([p.names[i] for i in rows.tolist()])


def write_credits(names: list[str]) -> None:
    path = Path(os.environ["INSTAAUG_DATA"]) / "nips2017-1000" / "images.csv"
    with path.open(newline="") as file:
        known = {row["ImageId"]: row for row in csv.DictReader(file)}
    lines = [
        "# Credits of the photos in frozen_crops.jpg and frozen_views.jpg",
        "",
        "All are under [CC-BY 2.0](https://creativecommons.org/licenses/by/2.0/), cut to a square "
        "and scaled. Down the left column, then down the right one:",
        "",
    ]
    for name in names:
        row = known[Path(name).stem]
        lines.append(f"- {row['Author']}: [original]({row['OriginalLandingURL']})")
    (DOCS / "frozen_crops.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
