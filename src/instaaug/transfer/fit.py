"""From a frozen backbone and labeled images to a classifier of their classes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Shaped
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.utils.data import Subset
from typing_extensions import override

from instaaug.augmentation import InstaAug, TestTimeAugmentation
from instaaug.augmentation.worth import gain_to_dict
from instaaug.data.cache import OnProgress
from instaaug.errors import ArgumentError, DataError, WeightsFileError
from instaaug.files import write_atomically, write_text
from instaaug.frozen import (
    DEFAULT_CROPS,
    FrozenViews,
    NormalizedImages,
    ViewTable,
    fit_tta,
    tabulate,
)
from instaaug.frozen.images import TrainingData
from instaaug.frozen.table import all_views
from instaaug.frozen.validation import Validation
from instaaug.networks import FrozenFeatures
from instaaug.networks.backbone import Backbone, FeatureClassifier
from instaaug.networks.frozen_features import N_EVIDENCE, class_evidence
from instaaug.networks.model_interface import Output
from instaaug.safe_files import read_json
from instaaug.transfer.learning import BoxFeatures, LearnedHead, learn_head
from instaaug.transforms import Transform

__all__ = ["Transfer", "fit_transfer"]

FORMAT = "instaaug-transfer/1"
HEAD, AUGMENTER, RESULTS = "head.safetensors", "aug.safetensors", "transfer.json"
ROWS_AT_ONCE = 64
MOST_NUMBERS = 1 << 26  # of an image

Pixels = Shaped[Tensor, "batch channels height width"]
"""Images of 8 bits, or numbers in [0, 1]."""


class Transfer(nn.Module):
    """A frozen backbone, a linear head, and the views that it predicts from.

    Arguments:
        classifier: Backbone and head: images to logits, without views.
        augmenter: Chooses views.
        n_views: Views per image.
        mean: Per-channel mean that images in [0, 1] are normalized with.
        std: Per-channel standard deviation.
        temperatures: What divides logits from so many views; 1 if absent.
        results: What was tried on images that were left out, and what was chosen; for JSON.
    """

    def __init__(
        self,
        classifier: FeatureClassifier,
        augmenter: InstaAug,
        *,
        n_views: int,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        temperatures: Mapping[int, float] | None = None,
        results: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.classifier, self.augmenter = classifier, augmenter
        self.n_views, self.mean, self.std = n_views, mean, std
        self.temperatures = {} if temperatures is None else dict(temperatures)
        self.results = {} if results is None else results
        self.eval()

    @override
    def forward(self, images: Pixels) -> Float[Tensor, "batch classes"]:
        """Logits of images as the data had them: 8-bit, or numbers in [0, 1]."""
        return self.predictor(self.n_views)(self.prepare(images))

    def predictor(self, n_views: int, *, mean_views: float | None = None) -> TestTimeAugmentation:
        """The classifier with so many views of each image; it takes normalized images.

        Arguments:
            n_views: Views per image, at most.
            mean_views: Views per image on average, spent where they help most.
        """
        temperature = self.temperatures.get(n_views, 1.0)
        return self.augmenter.wrap(
            self.classifier, n_views, temperature=temperature, mean_views=mean_views
        ).eval()

    def prepare(self, images: Pixels) -> Float[Tensor, "batch channels height width"]:
        """Images, normalized as the backbone expects."""
        no_targets = torch.zeros(len(images))
        return NormalizedImages((images, no_targets), mean=self.mean, std=self.std).first(
            len(images)
        )

    def save(self, folder: str | Path) -> None:
        """Write the head, the views and the results; the backbone is not written."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        head = {
            k: v.detach().cpu().contiguous() for k, v in self.classifier.head.state_dict().items()
        }
        write_atomically(folder / HEAD, lambda file: file.write(save(head)))
        self.augmenter.save(folder / AUGMENTER)
        notes = {
            "format": FORMAT,
            "n_views": self.n_views,
            "mean": self.mean,
            "std": self.std,
            "image_shape": self.classifier.backbone.image_shape,
            "use_output": self.classifier.backbone.use_output,
            "temperatures": {str(n): t for n, t in self.temperatures.items()},
            "results": self.results,
        }
        write_text(folder / RESULTS, json.dumps(notes, indent=2) + "\n")

    @classmethod
    def load(
        cls, folder: str | Path, backbone: nn.Module, *, output: Output | None = None
    ) -> "Transfer":
        """Read what :meth:`save` wrote; nothing in the files is executed.

        Arguments:
            folder: Where it was saved.
            backbone: The network that it was fitted for.
            output: Picks the tensor out of what the network returns.
        """
        folder = Path(folder)
        notes = read_json(folder / RESULTS)
        if notes.get("format") != FORMAT:
            raise WeightsFileError(
                f"{str(folder / RESULTS)!r} was not written by Transfer.save: its format is "
                f"{notes.get('format')!r}, this version reads {FORMAT!r}."
            )
        try:
            channels, height, width = map(int, notes["image_shape"])
            if min(channels, height, width) < 1 or channels * height * width > MOST_NUMBERS:
                raise ValueError(f"images of shape {notes['image_shape']}")
            temperatures = {int(n): float(t) for n, t in notes["temperatures"].items()}
            known = {name: notes[name] for name in ("mean", "std", "results")}
            n_views, use_output = int(notes["n_views"]), bool(notes["use_output"])
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            words = " ".join(str(error).split())[:200]
            raise WeightsFileError(
                f"{str(folder / RESULTS)!r} must be as Transfer.save wrote it: {words}."
            ) from None
        try:
            features = Backbone(
                backbone, image_shape=(channels, height, width), output=output,
                use_output=use_output,
            )  # fmt: skip
            tensors = load_file(folder / HEAD)
            classifier = FeatureClassifier(features, len(tensors["bias"]))
            classifier.head.load_state_dict(tensors)
        except (SafetensorError, RuntimeError, KeyError) as error:
            words = " ".join(str(error).split())[:200]
            raise WeightsFileError(
                f"{str(folder / HEAD)!r} does not fit the backbone: {words}. Load it with the "
                "network that it was fitted for."
            ) from None
        reader = _make_reader(classifier)
        augmenter = InstaAug.load(folder / AUGMENTER, network=reader).eval()
        return cls(classifier, augmenter, n_views=n_views, temperatures=temperatures, **known)


def fit_transfer(
    backbone: nn.Module,
    data: TrainingData,
    transform: Transform | str | Sequence[Transform | str] = DEFAULT_CROPS,
    *,
    num_classes: int | None = None,
    n_samples: int | Sequence[int] = (4, 10),
    size: int | tuple[int, int] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    output: Output | None = None,
    use_output: bool = False,
    merge: Literal["logit", "confidence", "auto"] = "auto",
    sharpness: float | None = None,
    steps: int = 100,
    seed: int = 0,
    folder: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> Transfer:
    """Learn a classifier from the features of a network that stays as it is.

    The network is run once on every box of every image. From the stored features a linear head is
    learned on the exact expectation over boxes, and which views to predict from; how boxes are
    weighted, the weight decay and the views are chosen on images that were left out.

    Arguments:
        backbone: A classifier with a linear layer at its end, or a network that gives features
            ``(B, E)``, maps ``(B, E, h, w)`` or tokens ``(B, T, E)``. It is not changed.
        data: Labeled images, all of one shape: a pair of tensors, a ``Dataset`` or a
            ``DataLoader``.
        transform: What views there may be; 30 boxes by default.
        num_classes: How many classes there are; the largest target and one by default.
        n_samples: How many views will be merged; the largest number is what the result takes.
        size: Side, or height and width, that the network takes. Larger images keep their detail
            in crops, up to twice the side.
        mean: Per-channel mean that images in [0, 1] are to be normalized with.
        std: Per-channel standard deviation that images in [0, 1] are to be normalized with.
        output: Picks the tensor out of what the network returns.
        use_output: Whether to take the network's output for features even where its last layer is
            linear.
        merge: How logits of views become one: ``"logit"``, their mean; ``"confidence"``, with
            weights that fall with the entropy of each prediction; ``"auto"``, what suits.
        sharpness: How much confidence counts; chosen if absent.
        steps: Steps in which φ learns the views of each image; more take more time.
        seed: Decides where learning the views starts.
        folder: Where to keep the features, so that an interrupted pass goes on. They take two
            bytes per number: 120 kB per image for 30 boxes and 1280 features.
        on_progress: Called with the number of images whose features are stored, and of all.

    Returns:
        A module: images to logits, from the largest number of views in ``n_samples``.

    Example:
        >>> from instaaug.networks import PreActResNet18
        >>> images, labels = torch.rand(8, 3, 32, 32), torch.arange(8) % 2
        >>> from instaaug.transforms import Crop
        >>> crops = Crop(((1.0, 1), (0.5, 2)))
        >>> backbone = PreActResNet18(10, width=0.0625)
        >>> transfer = fit_transfer(backbone, (images, labels), crops, n_samples=3, steps=5)
        >>> transfer(images).shape, transfer.classifier(images).shape
        (torch.Size([8, 2]), torch.Size([8, 2]))
    """
    images = NormalizedImages(data, mean=mean, std=std)
    channels, *own_size = images.image_shape
    height, width = own_size if size is None else (size, size) if isinstance(size, int) else size
    counts = (n_samples,) if isinstance(n_samples, int) else tuple(n_samples)
    features = Backbone(
        backbone, image_shape=(channels, height, width), output=output, use_output=use_output
    )
    draft = InstaAug(
        transform, conditioning="none", in_channels=channels, mean=mean, std=std, size=size,
        keep_original=True, select="top",
    )  # fmt: skip
    rows = all_views(draft)
    reader = _make_reader(FeatureClassifier(features, 2), evidence=False)
    views = FrozenViews(features, draft.transform, rows, reader)
    kept_in = None if folder is None else Path(folder)
    table = tabulate(views, images, folder=kept_in, on_progress=on_progress)
    classifier = FeatureClassifier(features, _count_classes(table.targets, num_classes))
    boxes = BoxFeatures(
        table.outputs, table.targets, _sides(draft, rows), classifier.head.out_features
    )
    learned = learn_head(boxes, counts=counts)
    learned.head.copy_to(classifier.head, learned.axes)
    if learned.logits is None:
        for parameter in draft.phi.parameters():
            parameter.data.zero_()  # all boxes are equally probable
        augmenter = draft
    else:
        augmenter = _fit_views(
            classifier, images, transform, cross_fitted_table(learned, table, classifier),
            learned.counted, counts=counts, size=size, merge=merge, sharpness=sharpness,
            steps=steps, seed=seed,
        )  # fmt: skip
    found = augmenter.validation
    return Transfer(
        classifier, augmenter, n_views=max(counts), mean=mean, std=std,
        temperatures=learned.temperatures if found is None else found.temperatures,
        results=_describe(learned, len(table), found),
    )  # fmt: skip


def cross_fitted_table(
    learned: LearnedHead, table: ViewTable, classifier: FeatureClassifier
) -> ViewTable:
    """Logits of every view, and what φ reads, by heads that have not learned from the image.

    Arguments:
        learned: The heads by fold.
        table: Features of every view, and maps of the whole images.
        classifier: Tells whether its head can be asked at every place of the map.
    """
    assert learned.logits is not None  # noqa: S101  # asked only where there are folds
    evidence = table.features
    reader = _make_reader(classifier)
    if evidence is not None and reader is not None and reader.place.has_classes:
        parts = torch.zeros(len(table), N_EVIDENCE, *evidence.shape[2:])
        for fold, head in enumerate(learned.heads):
            weight, bias = head.on_features(learned.axes)
            for rows in (learned.folds == fold).nonzero()[:, 0].split(ROWS_AT_ONCE):
                maps = table.features_of(rows)
                parts[rows] = class_evidence(maps, learned.logits[rows, 0], weight, bias)
        evidence = parts.numpy()
    return ViewTable(learned.logits.numpy(), table.targets, evidence)


def _fit_views(
    classifier: FeatureClassifier,
    images: NormalizedImages,
    transform: Transform | str | Sequence[Transform | str],
    table: ViewTable,
    judged: Bool[Tensor, " n"],
    *,
    counts: Sequence[int],
    size: int | tuple[int, int] | None,
    merge: Literal["logit", "confidence", "auto"],
    sharpness: float | None,
    steps: int,
    seed: int,
) -> InstaAug:
    """Which views to merge, learned from a table of left-out images."""
    rows = judged.nonzero()[:, 0]
    return fit_tta(
        classifier, Subset(images.dataset, rows.tolist()), transform,
        n_samples=sorted({max(n, 2) for n in counts}),
        features="none" if table.features is None else "model", size=size, mean=images.mean,
        std=images.std, merge=merge, sharpness=sharpness, steps=steps, seed=seed,
        table=table.subset(rows),
    )  # fmt: skip


def _make_reader(classifier: FeatureClassifier, *, evidence: bool = True) -> FrozenFeatures | None:
    """What reads maps of the whole image for φ; None if the backbone has none."""
    channels, height, width = classifier.backbone.image_shape
    try:
        return FrozenFeatures(
            classifier, size=(height, width), in_channels=channels, evidence=evidence
        )
    except ArgumentError:
        return None


def _sides(aug: InstaAug, rows: Float[Tensor, "k d"]) -> Float[Tensor, " k"]:
    """Side of the box of each view, as a share of the image's; 1 without crops."""
    columns = [
        i for i, name in enumerate(aug.transform.columns) if name.endswith(("width", "height"))
    ]
    return rows[:, columns].amax(dim=1) / 2 if columns else torch.ones(len(rows))


def _count_classes(targets: Tensor, num_classes: int | None) -> int:
    found = targets.unique()
    if targets.is_floating_point() or targets.ndim != 1 or int(found.min()) < 0:
        raise DataError(
            "`data` must give a class per image, whole numbers from 0 on: got "
            f"{targets.dtype} of shape {tuple(targets.shape)}."
        )
    if len(found) < 2:
        raise DataError(
            f"`data` must have images of two classes or more: all {len(targets)} are of class "
            f"{int(found[0])}. Add images of other classes."
        )
    most = int(found.max()) + 1
    if num_classes is not None and num_classes < most:
        raise ArgumentError(
            f"`num_classes` must be at least {most}, for that is the largest class and one: got "
            f"{num_classes}."
        )
    return num_classes or most


def _describe(learned: LearnedHead, n_images: int, found: Validation | None) -> dict[str, Any]:
    """What was tried, what was chosen, and what an image's own weights were worth."""
    gain = learned.input_gain
    return {
        "n_images": n_images,
        "views": None if found is None else found.to_dict(),
        "n_folds": len(learned.heads),
        "chosen": None if learned.chosen is None else learned.chosen.to_dict(),
        "candidates": [candidate.to_dict() for candidate in learned.candidates],
        "input_gain": None
        if gain is None
        else dict(zip(("nats", "low", "high"), gain, strict=True)),
        "gains": {name: gain_to_dict(gain) for name, gain in learned.gains.items()},
    }
