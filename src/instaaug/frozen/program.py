"""A module as a file that other programs run: ONNX or torch.export, checked before it is kept."""

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from instaaug.errors import ArgumentError, InstaAugError
from instaaug.files import write_atomically
from instaaug.networks.model_interface import evaluation_mode
from instaaug.shapes import Images

__all__ = ["INPUT", "METADATA", "ExportError", "MissingOnnxError", "Outputs", "save_program"]

METADATA = "instaaug.json"
"""The key of the metadata in an ONNX file, the name of the extra file in a ``.pt2``."""
INPUT = "images"
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")

Outputs = dict[str, Tensor]
Runner = Callable[[Tensor], Outputs]


class ExportError(InstaAugError, RuntimeError):
    """What is to be exported cannot be written, or the file gives other outputs than it."""


class MissingOnnxError(InstaAugError, ImportError):
    """ONNX files need packages that are not installed."""


def save_program(
    module: nn.Module,
    path: Path,
    example: Images,
    *,
    metadata: str,
    tolerance: float,
) -> float:
    """Write a module from images to named outputs; the number of images may vary.

    The file is read again and run on one image, on the example, and on one image more. Only if all
    outputs agree with the module's does it take its place.

    Arguments:
        module: On the CPU; it is run in evaluation mode and left as it was.
        path: Ends in ``.onnx`` or ``.pt2``.
        example: Images as the module takes them; height and width are fixed by them.
        metadata: What goes along, as JSON.
        tolerance: Largest difference of an output, relative to the largest of its values where
            that is above 1.

    Returns:
        The largest such difference that was found.

    Raises:
        ExportError: If the module cannot be traced, or outputs differ; ``path`` is as it was.
        MissingOnnxError: If the packages for ONNX are missing.
    """
    _check(module, path, example, tolerance)
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
            "What is exported and `example` must be on the CPU, or the file would ask for the "
            f"same device: got {', '.join(sorted(elsewhere))}. Call .cpu() first."
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
        f"torch.export cannot trace it: {_first_line(problem)} A network of your own must not "
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
            f"It cannot be converted to ONNX: {_first_line(error)} Write a .pt2 file instead."
        ) from error
    assert translated is not None  # noqa: S101  # it is with dynamo=True
    translated.model.metadata_props[METADATA] = metadata
    data: bytes = translated.model_proto.SerializeToString()
    return data


def _onnx_runner(data: bytes) -> Runner:
    runtime = import_module("onnxruntime")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(x: Tensor) -> Outputs:
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
            scale = values.abs().amax().clamp(min=1)
            difference = float((outputs[name] - values).abs().amax() / scale)
            if not difference <= tolerance:
                raise ExportError(
                    f"The file gives other outputs: {name!r} differs by {difference:.2g} "
                    f"for {len(batch)} images, but `tolerance` is {tolerance:.2g}. It was not "
                    "kept. Try the other format, or a larger tolerance."
                )
            found = max(found, difference)
    return found


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
