"""What the features of a contrastive run are good for: fitted once, kept in its folder."""

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save

from instaaug.data import LabeledImages
from instaaug.errors import WeightsFileError
from instaaug.files import write_atomically
from instaaug.runs.settings import TrainSettings
from instaaug.scores import ContrastTally
from instaaug.tasks import BatchLoader, ContrastiveTask, make_predictor
from instaaug.tasks.representation import Representation, collect_features

__all__ = ["fit_representations", "load_representations", "score_representations"]

FILE = "probe.safetensors"


def fit_representations(
    task: ContrastiveTask, train: LabeledImages, config: TrainSettings, folder: Path
) -> None:
    """Fit probes to features of the training images, plain and averaged; write them.

    Images without classes, or of a single one, have nothing to be told apart by.

    Arguments:
        task: Its encoder is trained; it gets the probes.
        train: Images that it was trained on.
        config: Every setting.
        folder: Of the run.
    """
    if len(train.classes) < 2:
        return
    kinds = {"plain": 0}
    if task.augmenter.averages_views:
        kinds["augmented"] = config.views.n_views
    for kind, n_samples in kinds.items():
        features, targets = _features(task, train, config, n_samples)
        task.representations[kind] = Representation.fit(
            features, targets, num_classes=len(train.classes), seed=config.seed
        )
    tensors = {
        f"{kind}.{name}": tensor.contiguous()
        for kind, fitted in task.representations.items()
        for name, tensor in fitted.tensors().items()
    }
    write_atomically(folder / FILE, lambda file: file.write(save(tensors)))


def load_representations(task: ContrastiveTask, folder: Path) -> None:
    """Give a task the probes of its run, if images had classes."""
    path = folder / FILE
    if not path.is_file():
        return
    try:
        tensors = load_file(path)
        for kind in dict.fromkeys(name.partition(".")[0] for name in tensors):
            parts = {n.removeprefix(f"{kind}."): t for n, t in tensors.items()}
            task.representations[kind] = Representation.from_tensors(parts)
    except (SafetensorError, RuntimeError, KeyError, ValueError) as error:
        words = " ".join(str(error).split())[:200]
        raise WeightsFileError(f"{str(path)!r} is not as the run wrote it: {words}") from None


def score_representations(
    task: ContrastiveTask, data: LabeledImages, config: TrainSettings, *, n_samples: int
) -> dict[str, Any]:
    """Scores of the probes, of nearest neighbors, and of the views themselves.

    Arguments:
        task: With its probes, if there are any.
        data: Images to score on.
        config: Every setting.
        n_samples: Samples whose features are averaged; 0 for none.
    """
    tally = ContrastTally()
    for number, (x, _) in enumerate(BatchLoader(data, config.data.batch_size)):
        task.eval().compare_views(x, number, tally)
    results: dict[str, Any] = {"views": tally.scores()}
    if not task.representations:
        return results
    results["plain"] = task.representations["plain"].scores(*_features(task, data, config, 0))
    if n_samples and "augmented" in task.representations:
        averaged = _features(task, data, config, n_samples)
        scores = task.representations["augmented"].scores(*averaged)
        results["augmented"] = {**scores, "n_samples": n_samples}
    return results


def _features(
    task: ContrastiveTask, data: LabeledImages, config: TrainSettings, n_samples: int
) -> tuple[Any, Any]:
    encode = make_predictor(
        task,
        n_samples=n_samples,
        select=config.views.select,
        seed=config.seed,
        model=task.model.encoder,
    )
    return collect_features(encode, BatchLoader(data, config.data.batch_size))
