"""φ as a file that other programs run."""

import json
from collections.abc import Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.augmentation import InstaAug
from instaaug.augmentation.checks import check_inputs
from instaaug.distributions import UniformBox
from instaaug.errors import ArgumentError
from instaaug.frozen.program import INPUT, Outputs, save_program
from instaaug.functional.warp import warp
from instaaug.networks import FrozenFeatures
from instaaug.parameterizations import CategoricalFamily, ClosedFormFamily, UniformFamily
from instaaug.shapes import Images, at_least_float32
from instaaug.spaces import Boxes, Interval

__all__ = ["PhiParameters", "export_phi"]

FORMAT = "instaaug-phi/1"


def export_phi(
    aug: InstaAug, path: str | Path, example: Images, *, tolerance: float = 1e-4
) -> float:
    """Write φ alone to a file: images in, the parameters of p(θ | x) out.

    A finite factor gives ``"crop.log_probs"`` ``(B, K)``; an interval gives ``"rotation.low"`` and
    ``"rotation.high"`` ``(B, D)``. The number of images may vary; their height and width are those
    of the example. What else a pipeline in another language needs goes along as JSON under
    :data:`METADATA`: the transforms with size and padding, and for every factor its columns of θ
    with the table of boxes or the admissible range.

    Where φ reads the features of a frozen model, the model is in the file as well.

    The file is read again and run on one image, on the example, and on one image more. Only if all
    outputs agree with φ does it take its place.

    Arguments:
        aug: The augmenter, on the CPU; it is run in evaluation mode and left as it was.
        path: Ends in ``.onnx`` (needs ``pip install 'instaaug[export]'``) or ``.pt2``.
        example: Images as ``aug`` takes them.
        tolerance: Largest difference of an output, relative to the largest of its values where
            that is above 1.

    Returns:
        The largest such difference that was found.

    Raises:
        ExportError: If φ cannot be traced, or outputs differ; ``path`` is as it was before.
        MissingOnnxError: If the packages for ONNX are missing.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from instaaug.transforms import Rotation
        >>> aug = InstaAug(Rotation(), conditioning="none")
        >>> with TemporaryDirectory() as folder:
        ...     difference = export_phi(aug, f"{folder}/phi.pt2", torch.rand(2, 3, 8, 8))
        ...     phi = torch.export.load(f"{folder}/phi.pt2").module()
        >>> difference < 1e-4, list(phi(torch.rand(5, 3, 8, 8)))
        (True, ['rotation.low', 'rotation.high'])
    """
    path = Path(path)
    module = PhiParameters(aug)
    check_inputs(example, channels=aug.settings.in_channels)
    metadata = json.dumps(_metadata(aug, example))
    return save_program(module, path, example, metadata=metadata, tolerance=tolerance)


class PhiParameters(nn.Module):
    """Images to the parameters of every factor, by name, without branching on their values."""

    def __init__(self, aug: InstaAug) -> None:
        super().__init__()
        _check_exportable(aug)
        self.phi = aug.phi
        self.size = aug.transform.size
        network = aug.phi.network
        self.borrowed = network.model if isinstance(network, FrozenFeatures) else None

    @override
    def forward(self, images: Images) -> Outputs:
        batch = images.shape[0]  # len() would fix the number of images for good
        if self.size is not None and self.size != (images.shape[2], images.shape[3]):
            eye = torch.eye(3, device=images.device, dtype=at_least_float32(images).dtype)
            images = warp(images, eye.expand(batch, 3, 3), size=self.size)
        network = self.phi.network
        if isinstance(network, FrozenFeatures):  # at once: chunks would fix the number, too
            maps = network.maps(network.features_and_outputs(images)[0])
        else:
            maps = self.phi.features(images)
        parameters: Outputs = {}
        rows = self.phi.raw(maps, None, 1, shrunk=True)  # one where the input has no say
        for name, family, row in zip(self.phi.names, self.phi.families, rows, strict=True):
            raw = row.expand(batch, -1)
            found = family(raw)
            if isinstance(found, UniformBox):
                low, high = found.ends()
                parameters |= {f"{name}.low": low, f"{name}.high": high}
            else:
                parameters[f"{name}.log_probs"] = found.logits
        return parameters


def _check_exportable(aug: InstaAug) -> None:
    if aug.settings.conditioning == "class":
        raise ArgumentError(
            "`aug` must choose without the class, which is unknown at test time: got "
            'conditioning="class", which then draws at random. Fit one with conditioning="input".'
        )
    if aug.settings.ranges == "latent":
        raise ArgumentError(
            '`aug` must draw from uniform ranges to be exported: got ranges="latent", whose '
            'decoder has no place in the file. Train one with ranges="uniform".'
        )
    if aug.undoing is not None:
        raise ArgumentError(
            f"`aug` must undo nothing to be exported: got undo={aug.settings.undo:g}, whose "
            "network is not in the file. Train one with undo=0, or predict in Python."
        )


def _metadata(aug: InstaAug, example: Tensor) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "input": {"name": INPUT, "shape": ["batch", *example.shape[1:]]},
        "transform": aug.transform.to_config(),
        "size": aug.transform.size,
        "padding_mode": aug.settings.padding_mode,
        "keep_original": aug.settings.keep_original,
        "factors": _describe_factors(aug),
    }


def _describe_factors(aug: InstaAug) -> Mapping[str, Any]:
    """Every factor with its columns of θ, and the table or the range that it chooses from."""
    spaces = aug.transform.spaces
    edges = accumulate((space.size for space in spaces.values()), initial=0)
    described = {}
    for (name, space), learned, (start, stop) in zip(
        spaces.items(), aug.phi.families, pairwise(edges), strict=True
    ):
        factor: dict[str, Any] = {"columns": aug.transform.columns[start:stop]}
        family = learned.family if isinstance(learned, ClosedFormFamily) else learned
        if isinstance(family, CategoricalFamily):
            factor["kind"] = "boxes" if isinstance(space, Boxes) else "choices"
            factor["table"] = family.table.tolist()
            if family.cells is not None and family.center_limits is not None:
                factor["cells"] = family.cells.tolist()
                factor["center_limits"] = family.center_limits.tolist()
        else:
            assert isinstance(family, UniformFamily)  # noqa: S101
            assert isinstance(space, Interval)  # noqa: S101
            factor["kind"] = "interval"
            factor |= {
                key: [getattr(p, key) for p in space.parameters]
                for key in ("low", "high", "identity", "period", "multiplicative")
            }
        described[name] = factor
    return described
