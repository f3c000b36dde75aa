"""Where does φ look? Twelve photos that it has not seen, as ``docs/frozen_crops.jpg``.

φ is fitted on the photos of imagenet-val-2000 that ``frozen.py`` scores, for EfficientNet-Lite0;
the photos shown are the first of a seeded shuffle of nips2017-1000 (CC-BY 2.0; the authors are
named in ``docs/frozen_crops.md``).
"""

import csv
import os
from pathlib import Path

import torch

from benchmarks.frozen import fit, photos, right, table
from instaaug import InstaAug
from instaaug.frozen import NormalizedImages
from instaaug.report.pictures.crops import draw_crops
from instaaug.report.theme import save_figure
from instaaug.runs.view_scores import merge_tabulated_outputs

__all__ = ["main"]

DOCS = Path(__file__).parents[1] / "docs"
N_PHOTOS = 12
SIZE = 128
ENTROPY = (1.5, 2.5)  # nats


def main() -> None:
    torch.set_num_threads(1)
    rows = torch.arange(len(photos("other").data))
    aug = fit("other", SIZE, rows, objective="single", entropy=ENTROPY)
    draw(aug, DOCS / "frozen_crops.jpg")


def draw(aug: InstaAug, path: Path) -> None:
    unseen = photos("nips")
    order = torch.randperm(len(unseen.data), generator=torch.Generator().manual_seed(0))
    rows = order[:N_PHOTOS]
    data, known = unseen.data.subset(rows.numpy()), table("nips", SIZE)[0].subset(rows)
    images = NormalizedImages(data)
    merged = merge_tabulated_outputs(aug, known, images, (1, 10), aug.merging)
    words = {1.0: "right", 0.0: "wrong"}
    titles = [
        f"whole image {words[one]}, 10 views {words[ten]}"
        for one, ten in zip(*(right(merged[n], known.targets) for n in (1, 10)), strict=True)
    ]
    x = images.first(N_PHOTOS)
    with torch.no_grad():
        others = aug.other_choices(aug.distribution(x))
    drawing = draw_crops(x, others.probs, others.table, size=(SIZE, SIZE), titles=titles)
    save_figure(drawing, path, dpi=100)
    write_credits([unseen.names[i] for i in rows.tolist()])


def write_credits(names: list[str]) -> None:
    path = Path(os.environ["INSTAAUG_DATA"]) / "nips2017-1000" / "images.csv"
    with path.open(newline="") as file:
        known = {row["ImageId"]: row for row in csv.DictReader(file)}
    lines = [
        "# Credits of the photos in frozen_crops.jpg",
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
