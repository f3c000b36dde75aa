"""Are mirror images of boxes worth twice the table? 60 views against 30, EfficientNet-Lite0.

Both are fitted with the defaults on the 1,000 photos of nips2017 at 128 px, crops cut from 256 px,
and scored on the 1,300 photos of imagenet-val-2000 that nothing was chosen on. Half an hour
of one core; see ``imagenet.py`` for what must be there.
"""

import os
from typing import Any

import torch
from torch import Tensor

from benchmarks.imagenet import SIZE, load_model, nips_photos, other_photos
from benchmarks.record import save
from instaaug import InstaAug, fit_tta
from instaaug.frozen import DEFAULT_CROPS, NormalizedImages
from instaaug.stats import bootstrap_interval
from instaaug.transforms import Flip, Transform

__all__ = ["main"]

COUNTS = (2, 4, 10)
ROWS = 64
CHOICES: dict[str, tuple[Transform, ...]] = {
    "30 boxes": (DEFAULT_CROPS,),
    "30 boxes and their mirror images": (DEFAULT_CROPS, Flip()),
}


@torch.no_grad()
def right(aug: InstaAug, images: NormalizedImages, labels: Tensor, n: int) -> Tensor:
    """Which photos are told from n views, the same number for all."""
    predictor = aug.wrap(load_model("Lite0"), n).eval()
    outputs = torch.cat([predictor(x) for x, _ in images.batches(ROWS)])
    return outputs.argmax(dim=1) == labels


def main() -> None:
    if "INSTAAUG_DATA" not in os.environ:
        print("mirrored_views is skipped: INSTAAUG_DATA names no folder with ImageNet's photos.")
        return
    torch.set_num_threads(1)
    model, others = load_model("Lite0"), other_photos()
    images, labels = NormalizedImages(others.data), others.data.targets
    found: dict[str, Any] = {}
    correct: dict[tuple[str, int], Tensor] = {}
    for name, transforms in CHOICES.items():
        aug = fit_tta(model, nips_photos().data, transforms, size=SIZE, n_samples=COUNTS, sizes=())
        for n in COUNTS:
            correct[name, n] = right(aug, images, labels, n).double()
        scores = {n: float(correct[name, n].mean()) for n in COUNTS}
        found[name] = {"accuracy": scores, "validation": aug.validation.to_dict()}
        print(name, {n: f"{100 * a:.1f}" for n, a in scores.items()}, flush=True)
    plain, mirrored = CHOICES
    gains = {}
    for n in COUNTS:
        pairs = (correct[mirrored, n] - correct[plain, n]).numpy()
        low, high = bootstrap_interval(lambda x: x.mean(axis=1), pairs)
        gains[n] = {"difference": float(pairs.mean()), "low": low, "high": high}
    print("mirrored − plain:", gains)
    save("mirrored_views", {}, findings={**found, "mirrored − plain": gains}, photos=len(labels))


if __name__ == "__main__":
    main()
