"""Compare the crops that a run learned with the objects in its test images."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.augmentation import InstaAug
from instaaug.data import LabeledImages
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.distributions import CategoricalTheta
from instaaug.errors import ArgumentError, DataError
from instaaug.files import write_text
from instaaug.networks.model_interface import evaluation_mode
from instaaug.report.records import read_record
from instaaug.report.theme import MissingPlottingError, save_figure
from instaaug.runs.loaded import LoadedRun, load_run
from paper.objects.boxes import Fractions, object_boxes
from paper.objects.findings import Findings, describe_findings, find_objects
from paper.objects.pictures import draw_object_crops, draw_objects, evenly_sized

__all__ = ["ObjectSearch", "crop_probabilities", "search_objects"]

CROP = "crop"
AT_ONCE = 64
FEWEST = 3  # images
N_PICTURES = 8
RANKS = (
    " The fit was taught an order of views: its probabilities say which come first, not how often."
)


@dataclass(frozen=True)
class ObjectSearch:
    """What was found, and written.

    Arguments:
        findings: The numbers of every image.
        words: What they mean, in plain sentences.
        n_without_box: Test images that have no box, and were left out.
        files: What was written; no pictures without matplotlib.
    """

    findings: Findings
    words: str
    n_without_box: int
    files: list[Path]


def search_objects(
    path: str | Path,
    *,
    boxes: str | Path | None = None,
    n_images: int | None = None,
    out: str | Path | None = None,
) -> ObjectSearch:
    """Compare the learned crops of a run's test images with the boxes of their objects.

    Writes ``objects.json``, and ``objects.png``, ``objects.svg`` and ``object_crops.png``.

    Arguments:
        path: The folder of a finished run of either kind.
        boxes: A CSV file with the columns path, left, top, right and bottom; by default the boxes
            of Tiny-ImageNet.
        n_images: Most test images to look at, from all over those with a box; all by default.
        out: Where to write; ``objects`` in the run's folder by default.

    Raises:
        ArgumentError: If the run has learned no distribution over crop boxes.
    """
    if n_images is not None and n_images < FEWEST:
        raise ArgumentError(f"`n_images` must be at least {FEWEST}: got {n_images}.")
    folder = Path(path) / "objects" if out is None else Path(out)
    run = load_run(path)
    _crop_augmenter(run)
    every = run.load_test_images(None)
    known = object_boxes(every, read_record(path).config, boxes)
    if len(known) < FEWEST:
        raise DataError(
            f"`boxes` must tell of {FEWEST} test images or more: they tell of {len(known)} of "
            f"{len(every)}. Add boxes."
        )
    rows = list(known)
    rows = [rows[i] for i in evenly_spaced_indices(len(rows), n_images or len(rows))]
    images, objects = every.subset(rows), _normalize_boxes([known[row] for row in rows])
    probs, table = crop_probabilities(run, images)
    findings = find_objects(probs, table, objects)
    n_without = len(every) - len(known)
    words = describe_findings(findings) + (RANKS if run.ranks_views else "")
    content = {
        "run": str(path),
        "boxes": "Tiny-ImageNet's own" if boxes is None else str(boxes),
        "n_test": len(every),
        "n_without_box": n_without,
        "in_words": words,
        **findings.to_json(),
    }
    files = [folder / "objects.json"]
    write_text(files[0], json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    with suppress(MissingPlottingError):
        files += _write_pictures(folder, images, (probs, table, objects), findings)
    return ObjectSearch(findings, words, n_without, files)


@torch.no_grad()
def crop_probabilities(
    run: LoadedRun, images: LabeledImages
) -> tuple[Float[Tensor, "n k"], Float[Tensor, "k 4"]]:
    """How probable every box is for every image, and the boxes.

    What is learned per class is asked for with the true class.

    Arguments:
        run: The run.
        images: Of its kind.
    """
    aug = _crop_augmenter(run)
    by_class = aug.settings.conditioning == "class"
    parts, table = [], torch.zeros(0, 4)
    with evaluation_mode(aug):
        for start in range(0, len(images), AT_ONCE):
            rows = range(start, min(start + AT_ONCE, len(images)))
            pixels, targets = images.__getitems__(rows)
            x = run.prepare(pixels.to(run.device))
            joint = aug.distribution(x, targets.to(run.device) if by_class else None)
            factor = joint[CROP]
            if not isinstance(factor, CategoricalTheta):
                raise ArgumentError(
                    "`run` must choose crops from boxes that stay in place: those in "
                    f"{str(run.path)!r} move. Train with --transforms crop."
                )
            parts.append(factor.logits.double().softmax(dim=-1).expand(len(x), -1).cpu())
            table = factor.table.double().cpu()
    return torch.cat(parts), table


def _crop_augmenter(run: LoadedRun) -> InstaAug:
    aug = run.augmenter
    if not isinstance(aug, InstaAug):
        raise ArgumentError(
            "`run` must have learned a distribution over crops: the augmenter in "
            f"{str(run.path)!r} is {type(aug).__name__}. Name a run of the method instaaug."
        )
    if CROP not in aug.finite:
        raise ArgumentError(
            f"`run` must have learned which boxes to crop: that in {str(run.path)!r} has the "
            f"factors {', '.join(aug.phi.names)}. Train with --transforms crop."
        )
    return aug


def _normalize_boxes(boxes: list[Fractions]) -> Float[Tensor, "n 4"]:
    """Center x, center y, width and height in the frame in which the image is (0, 0, 2, 2)."""
    left, top, right, bottom = torch.tensor(boxes, dtype=torch.float64).unbind(dim=1)
    columns = [left + right - 1, top + bottom - 1, 2 * (right - left), 2 * (bottom - top)]
    return torch.stack(columns, dim=1)


def _write_pictures(
    folder: Path, images: LabeledImages, numbers: tuple[Tensor, Tensor, Tensor], found: Findings
) -> list[Path]:
    probs, table, objects = numbers
    chart = draw_objects(found)
    chosen = evenly_sized(found.object_side, N_PICTURES)
    pixels, targets = images.__getitems__(chosen)
    titles = [images.classes[int(t)] for t in targets] if images.classes else None
    sheet = draw_object_crops(
        pixels.float() / 255, probs[chosen], table, objects[chosen], probs.mean(dim=0),
        titles=titles,
    )  # fmt: skip
    files = [folder / name for name in ("objects.png", "objects.svg", "object_crops.png")]
    for drawing, file in zip((chart, chart, sheet), files, strict=True):
        save_figure(drawing, file)
    return files
