"""φ as a file that other programs run: ONNX or torch.export, checked before it is kept."""

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from typing_extensions import override

from instaaug.augmentation import InstaAug
from instaaug.augmentation.checks import check_inputs
from instaaug.distributions import UniformBox
from instaaug.errors import ArgumentError, InstaAugError
from instaaug.files import write_atomically
from instaaug.functional.warp import warp
from instaaug.networks import FrozenFeatures
from instaaug.networks.model_interface import evaluation_mode
from instaaug.parameterizations import CategoricalFamily, ClosedFormFamily, UniformFamily
from instaaug.shapes import Images, at_least_float32
from instaaug.spaces import Boxes, Interval

__all__ = ["METADATA", "ExportError", "MissingOnnxError", "export_phi"]

FORMAT = "instaaug-phi/1"
METADATA = "instaaug.json"
"""The key of the metadata in an ONNX file, the name of the extra file in a ``.pt2``."""
INPUT = "images"
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")

Parameters = dict[str, Tensor]
Runner = Callable[[Tensor], Parameters]


class ExportError(InstaAugError, RuntimeError):
    """φ cannot be written in this format, or the file gives other outputs than φ."""


class MissingOnnxError(InstaAugError, ImportError):
    """ONNX files need packages that are not installed."""


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
        tolerance: Largest difference of an output, relative to it where it is above 1.

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
    module = _PhiParameters(aug)
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
    _check(module, path, example, tolerance)
    check_inputs(example, channels=aug.settings.in_channels)
    metadata = json.dumps(_metadata(aug, example))
    found = 0.0

    def write(file: IO[bytes]) -> None:
        nonlocal found
        program = _trace(module, example)
        if path.suffix == ".onnx":
            file.write(_onnx_bytes(program, list(module(example)), metadata))
        else:
            with _quiet():
                torch.export.save(program, file, extra_files={METADATA: metadata})
        file.flush()
        data = Path(file.name).read_bytes()
        run = _onnx_runner(data) if path.suffix == ".onnx" else _pt2_runner(data)
        found = _largest_difference(run, module, example, tolerance)

    with evaluation_mode(module), torch.no_grad():
        write_atomically(path, write)
    return found


class _PhiParameters(nn.Module):
    """Images to the parameters of every factor, by name, without branching on their values."""

    def __init__(self, aug: InstaAug) -> None:
        super().__init__()
        self.phi = aug.phi
        self.size = aug.transform.size
        network = aug.phi.network
        self.borrowed = network.model if isinstance(network, FrozenFeatures) else None

    @override
    def forward(self, images: Images) -> Parameters:
        batch = images.shape[0]  # len() would fix the number of images for good
        if self.size is not None and self.size != (images.shape[2], images.shape[3]):
            eye = torch.eye(3, device=images.device, dtype=at_least_float32(images).dtype)
            images = warp(images, eye.expand(batch, 3, 3), size=self.size)
        network = self.phi.network
        if isinstance(network, FrozenFeatures):  # at once: chunks would fix the number, too
            maps = network.maps(network.features_and_outputs(images)[0])
        else:
            maps = self.phi.features(images)
        parameters: Parameters = {}
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


def _check(module: nn.Module, path: Path, example: Tensor, tolerance: float) -> None:
    if path.suffix not in (".onnx", ".pt2"):
        raise ArgumentError(
            f"`path` must end in .onnx or .pt2, which chooses the format: got {str(path)!r}."
        )
    missing = [name for name in ONNX_PACKAGES if find_spec(name) is None]
    if path.suffix == ".onnx" and missing:
        raise MissingOnnxError(
            f"ONNX files need {', '.join(ONNX_PACKAGES)}; not installed: {', '.join(missing)}. "
            "Run: pip install 'instaaug[export]', or write a .pt2 file, which needs torch alone."
        )
    if not tolerance > 0:
        raise ArgumentError(f"`tolerance` must be above 0: got {tolerance}. 1e-4 is usual.")
    elsewhere = {p.device.type for p in module.parameters()} | {example.device.type}
    if elsewhere != {"cpu"}:
        raise ArgumentError(
            "`aug` and `example` must be on the CPU, or the file would ask for the same "
            f"device: got {', '.join(sorted(elsewhere))}. Call aug.cpu() first."
        )


def _trace(module: nn.Module, example: Images) -> ExportedProgram:
    several = example if len(example) > 1 else example.repeat(2, 1, 1, 1)  # 1 would stay 1
    shapes = ({0: Dim("batch")},)
    problem: RuntimeError | None = None
    for strict in (False, True):  # strict understands more Python, len(x) for one, and is slower
        try:
            with _quiet():
                return torch.export.export(
                    module, (several,), dynamic_shapes=shapes, strict=strict
                )
        except RuntimeError as error:
            problem = problem or error
    raise ExportError(
        f"torch.export cannot trace φ: {_first_line(problem)} A network of your own must not "
        "decide by the values that it sees."
    ) from problem


def _onnx_bytes(program: ExportedProgram, names: list[str], metadata: str) -> bytes:
    try:
        with _quiet():
            translated = torch.onnx.export(
                program, dynamo=True, input_names=[INPUT], output_names=names, verbose=False
            )
    except RuntimeError as error:
        raise ExportError(
            f"φ cannot be converted to ONNX: {_first_line(error)} Write a .pt2 file instead."
        ) from error
    assert translated is not None  # noqa: S101  # it is with dynamo=True
    translated.model.metadata_props[METADATA] = metadata
    data: bytes = translated.model_proto.SerializeToString()
    return data


def _onnx_runner(data: bytes) -> Runner:
    runtime = import_module("onnxruntime")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(x: Tensor) -> Parameters:
        outputs = session.run(None, {INPUT: x.numpy()})
        return {name: torch.as_tensor(o) for name, o in zip(names, outputs, strict=True)}

    return run


def _pt2_runner(data: bytes) -> Runner:
    return torch.export.load(io.BytesIO(data)).module()


def _largest_difference(
    run: Runner, module: nn.Module, example: Images, tolerance: float
) -> float:
    """The largest difference over batches of three sizes; raise if it is above the tolerance."""
    found = 0.0
    for batch in (example[:1], example, torch.cat([example.flip(-1), example[:1]])):
        outputs, expected = run(batch), module(batch)
        for name, values in expected.items():
            scale = values.abs().clamp(min=1)
            difference = float(((outputs[name] - values).abs() / scale).max())
            if not difference <= tolerance:
                raise ExportError(
                    f"The file gives other outputs than φ: {name!r} differs by {difference:.2g} "
                    f"for {len(batch)} images, but `tolerance` is {tolerance:.2g}. It was not "
                    "kept. Try the other format, or a larger tolerance."
                )
            found = max(found, difference)
    return found


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


def _first_line(error: Exception | None) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{lines[0].rstrip('.')}." if lines else f"{type(error).__name__}."


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporters' remarks on their own deprecations and on absent packages."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", "No complete tensor found")  # weights used twice
            yield
    finally:
        log.setLevel(level)
