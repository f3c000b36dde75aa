"""A whole predictor as a file that other programs run: images in, merged logits out."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from instaaug.augmentation import InstaAug
from instaaug.augmentation.at_test_time import TestTimeAugmentation
from instaaug.distributions import enumerate_choices
from instaaug.errors import ArgumentError
from instaaug.frozen.export import PhiParameters
from instaaug.frozen.program import INPUT, Outputs, save_program
from instaaug.frozen.table import any_joint, can_tabulate
from instaaug.networks.model_interface import as_input_of, pick_output
from instaaug.shapes import Images, check_images

__all__ = ["OUTPUT", "export_predictor"]

FORMAT = "instaaug-predictor/1"
OUTPUT = "logits"
LEAST = 1e-6  # uniform number that is drawn


def export_predictor(
    predictor: TestTimeAugmentation,
    path: str | Path,
    example: Images,
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    classes: Sequence[str] = (),
    tolerance: float = 1e-4,
) -> float:
    """Write a predictor to one file: φ, the views, the model, merging and temperature.

    The file takes images as the predictor does and gives its output, under the name ``"logits"``.
    The number of images may vary; their height and width are those of the example.

    A file cannot draw at random: where the predictor draws views (``select="sample"``), the noise
    is drawn once and the same for all images. Nor does it stop early.

    It is read again and compared with the predictor before it takes its place.

    Arguments:
        predictor: From ``aug.wrap(model, n_samples)``, on the CPU.
        path: Ends in ``.onnx`` (needs ``pip install 'instaaug[export]'``) or ``.pt2``.
        example: Images as the predictor takes them; in [0, 1] with ``mean`` and ``std``.
        mean: Per channel; subtracted from images in [0, 1] before the predictor sees them.
        std: Per channel; divides what is left.
        classes: Names, in the order of the outputs, which go along in the file.
        tolerance: Largest difference of an output, relative to the largest of its values where
            that is above 1.

    Returns:
        The largest such difference that was found.

    Raises:
        ArgumentError: If views cannot be listed, are merged as maps, or vary in number.
        ExportError: If it cannot be traced, or outputs differ; ``path`` is as it was before.
        MissingOnnxError: If the packages for ONNX are missing.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from instaaug.transforms import Crop
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(192, 10))
        >>> aug = InstaAug(Crop(levels=((1.0, 1), (0.5, 2))), conditioning="none")
        >>> x = torch.rand(2, 3, 8, 8)
        >>> with TemporaryDirectory() as folder:
        ...     difference = export_predictor(aug.wrap(model, 3), f"{folder}/model.pt2", x)
        ...     again = torch.export.load(f"{folder}/model.pt2").module()
        >>> difference < 1e-4, again(torch.rand(5, 3, 8, 8))["logits"].shape
        (True, torch.Size([5, 10]))
    """
    check_images(example)
    metadata = {
        "format": FORMAT,
        "input": {"name": INPUT, "shape": ["batch", *example.shape[1:]]},
        "output": OUTPUT,
        "views": 1 if predictor.whole is not None else predictor.n_samples,
        "merge": predictor.merging.merge,
        "classes": list(classes),
    }
    module: nn.Module = TracedPredictor(predictor)
    if mean is not None and std is not None:
        module = nn.Sequential(_Normalize(mean, std), module)
    return save_program(
        module, Path(path), example, metadata=json.dumps(metadata), tolerance=tolerance
    )


class _Normalize(nn.Module):
    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("std", torch.tensor(std)[:, None, None])

    @override
    def forward(self, images: Images) -> Images:
        return (images - self.mean) / self.std


class TracedPredictor(nn.Module):
    """A predictor whose every step can be traced: nothing is drawn, chunked or stopped early."""

    def __init__(self, predictor: TestTimeAugmentation) -> None:
        super().__init__()
        aug = predictor.augmenter
        if predictor.budget.is_limited or predictor.merging.dense:
            raise ArgumentError(
                "`predictor` must take the same number of views for all images and return no "
                "maps: a file cannot stop early. Leave out `certainty`, `mean_views` and `dense`."
            )
        self.model, self.merging, self.whole = predictor.model, predictor.merging, predictor.whole
        self.render, self.resize = aug.render, aug.resize
        self.undoing = aug.undoing if isinstance(aug, InstaAug) else None  # `resize` calls it
        self.views = None if self.whole is not None else _FixedViews(predictor)

    @override
    def forward(self, images: Images) -> Outputs:
        if self.views is None:
            assert self.whole is not None  # noqa: S101  # there are views otherwise
            outputs = self._outputs(self.resize(images, self.whole.size))
            return {OUTPUT: self.whole.factor * outputs / self.merging.temperature}
        theta, weight = self.views(images)
        repeated = images.repeat(theta.shape[0], 1, 1, 1)
        outputs = self._outputs(self.render(repeated, theta.flatten(0, 1)))
        outputs = outputs.unflatten(0, (theta.shape[0], images.shape[0]))
        return {OUTPUT: self.merging.merge_outputs(outputs, weight)}

    def _outputs(self, x: Tensor) -> Tensor:
        found = pick_output(self.model(as_input_of(self.model, x)), self.merging.output)
        assert isinstance(found, Tensor)  # noqa: S101  # or the predictor itself would fail
        return found


class _FixedViews(nn.Module):
    """θ and probability of the views of every image: the best, or drawn with the same noise."""

    kept: Tensor
    table: Tensor
    original: Tensor
    noise: Tensor

    def __init__(self, predictor: TestTimeAugmentation) -> None:
        super().__init__()
        aug = predictor.augmenter
        if not isinstance(aug, InstaAug) or not can_tabulate(aug):
            raise ArgumentError(
                "`predictor` must choose its views from a table of crops or flips that φ has "
                "learned: this one does not. Export the model alone, or φ by export_phi."
            )
        self.phi, self.plan = PhiParameters(aug), aug.plan
        self.keeps_original = aug.settings.keep_original
        table = enumerate_choices(any_joint(aug)).table
        original = aug.transform.identity(like=table)
        kept = torch.arange(len(table), device=table.device)
        if self.keeps_original:
            kept = kept[(table != original).any(dim=1)]
        self.n_chosen = min(predictor.n_samples - self.keeps_original, len(kept))
        self.register_buffer("kept", kept)
        self.register_buffer("table", table[kept])
        self.register_buffer("original", original)
        noise = torch.zeros(len(kept))
        if predictor.select == "sample":  # the largest sums with Gumbel noise are a draw
            uniform = torch.rand(len(kept), generator=torch.Generator().manual_seed(0))
            noise = -(-uniform.clamp(min=LEAST).log()).log()
        self.register_buffer("noise", noise.to(table))

    @override
    def forward(
        self, images: Images
    ) -> tuple[Float[Tensor, "n batch d"], Float[Tensor, "n batch"]]:
        logits = self._joint_logits(images)[:, self.kept]
        if self.plan is not None:
            logits = self.plan.scores(logits)
        log_probs = logits.log_softmax(dim=1)
        batch = images.shape[0]
        first = self.original.expand(1, batch, -1)
        if not self.n_chosen:
            return first, torch.ones_like(log_probs[:, 0])[None]
        best = (log_probs + self.noise).topk(self.n_chosen, dim=1).indices.movedim(1, 0)
        theta, weight = self.table[best], log_probs.gather(1, best.movedim(0, 1)).exp().T
        if not self.keeps_original:
            return theta, weight
        return torch.cat([first, theta]), torch.cat([weight.amax(dim=0, keepdim=True), weight])

    def _joint_logits(self, images: Images) -> Float[Tensor, "batch k"]:
        parts = list(self.phi(images).values())
        logits = parts[0]
        for part in parts[1:]:
            logits = (logits[:, :, None] + part[:, None, :]).flatten(1)
        return logits
