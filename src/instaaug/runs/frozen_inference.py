"""Use a fit: predict files with learned views, or hand φ to another program."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from instaaug.errors import ArgumentError
from instaaug.frozen import StaticPolicy, export_phi
from instaaug.runs.frozen_run import FrozenRun
from instaaug.runs.predicted_files import class_columns, predicted_rows

__all__ = ["export_frozen", "predict_frozen"]

N_EXAMPLES = 2


def predict_frozen(
    path: str | Path,
    images: Sequence[str | Path],
    *,
    n_views: int | None = None,
    certainty: float | None = None,
    n_top: int = 1,
    skip_bad: bool = False,
) -> Iterator[dict[str, Any]]:
    """Predict image files one chunk at a time; probabilities are calibrated.

    Arguments:
        path: The folder of the fit.
        images: Files, or folders whose images are taken.
        n_views: Views per image, at most; by default the largest number that it was fitted for.
        certainty: Probability of the top class at which an image needs no further view; the rows
            then say how many it took.
        n_top: Most probable classes to list.
        skip_bad: Whether a file that cannot be read gets a row with the reason, not an error.
    """
    fitted = FrozenRun(path).load()
    facts, classes = fitted.facts, fitted.facts.classes
    n_most = max(fitted.config.views.counts) if n_views is None else n_views
    predict = fitted.predictor(n_most, certainty=certainty)

    def columns(logits: Tensor | None, count: int | None) -> dict[str, Any]:
        views = {} if certainty is None else {"views": count}
        return {**class_columns(logits, classes, n_top), **views}

    def rows_of(pixels: Tensor) -> list[dict[str, Any]]:
        logits, counts = predict(fitted.model.prepared(pixels))
        pairs = zip(fitted.calibrated(logits, counts), counts.tolist(), strict=True)
        return [columns(row, count) for row, count in pairs]

    yield from predicted_rows(
        images,
        rows_of,
        without=columns(None, None),
        size=facts.side,
        channels=facts.channels,
        skip_bad=skip_bad,
    )


def export_frozen(path: str | Path, file: str | Path) -> float | None:
    """Write φ as a file for other programs, or the best views on average.

    Arguments:
        path: The folder of the fit.
        file: Ends in ``.onnx`` or ``.pt2`` for φ, in ``.json`` for the policy.

    Returns:
        The largest difference between φ here and in the file; None for a policy.
    """
    run, file = FrozenRun(path), Path(file)
    if file.suffix not in (".onnx", ".pt2", ".json"):
        raise ArgumentError(
            "`file` must end in .onnx or .pt2 for φ, or in .json for the policy: got "
            f"{str(file)!r}."
        )
    fitted = run.load()
    if file.suffix == ".json":
        if not run.policy_file.is_file():
            raise ArgumentError(
                f"`file` cannot be a policy: φ of {str(run.path)!r} gives ranges, of which none "
                "is the best. Write φ itself, to a .onnx or .pt2 file."
            )
        if file.resolve() != run.policy_file.resolve():
            StaticPolicy.load(run.policy_file).save(file)
        return None
    fitted.model.module.cpu()
    facts, generator = fitted.facts, torch.Generator().manual_seed(fitted.config.seed)
    shape = (N_EXAMPLES, facts.channels, facts.side, facts.side)
    pixels = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    return export_phi(fitted.aug.cpu(), file, fitted.model.prepared(pixels))
