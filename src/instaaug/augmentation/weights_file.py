"""Weights on disk: safetensors with the settings as JSON beside them; reading executes nothing."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import index
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from instaaug.augmentation.settings import InstaAugSettings
from instaaug.errors import InstaAugError, WeightsFileError
from instaaug.files import write_atomically
from instaaug.networks import make_network
from instaaug.parameterizations import CropGrid
from instaaug.spaces import Choices, Interval, Space

__all__ = ["FORMAT", "load_tensors", "parse_settings", "read", "wrap_errors", "write"]

FORMAT = "instaaug/1"
PICKLE_OPENINGS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
EXPECTED_ERRORS = (  # of settings that make no sense
    InstaAugError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
)


def write(path: Path, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """Write tensors and settings; a reader never sees half a file."""
    metadata = {"format": FORMAT, "settings": json.dumps(config)}
    contiguous = {
        name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()
    }
    write_atomically(path, lambda file: file.write(save(contiguous, metadata)))


def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The settings and the tensors of a weights file."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no weights file {str(path)!r}.")
    with path.open("rb") as file:
        opening = file.read(9)
    # Eight bytes of length come first, which may look like anything; the header is JSON.
    if opening.startswith(PICKLE_OPENINGS) and opening[8:] != b"{":
        raise WeightsFileError(
            f"{str(path)!r} is a pickle, which can run any code when it is loaded, and is "
            "refused. Where it comes from a source you trust, load it there with torch.load(..., "
            "weights_only=True), put it into an InstaAug with load_state_dict, and call save()."
        )
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise WeightsFileError(
            f"{str(path)!r} is no readable safetensors file ({error}). It may be cut short; "
            "save it again."
        ) from error
    if metadata.get("format") != FORMAT:
        raise WeightsFileError(
            f"{str(path)!r} was not written by InstaAug.save: its format is "
            f"{metadata.get('format')!r}, this version reads {FORMAT!r}."
        )
    with wrap_errors(path):
        config = json.loads(metadata.get("settings", ""))
    return config, tensors


@contextmanager
def wrap_errors(path: Path) -> Iterator[None]:
    """Raise a WeightsFileError that names the file for any error that its settings cause."""
    try:
        yield
    except EXPECTED_ERRORS as error:
        raise WeightsFileError(
            f"{str(path)!r} holds settings that make no augmenter: {error}"
        ) from error


def parse_settings(path: Path, config: Any, tensors: Mapping[str, Tensor]) -> InstaAugSettings:
    """The settings that ``config`` describes, unless they ask for more numbers than there are.

    Sizes are compared before anything is made, so that a few bytes cannot fill the memory.
    """
    with wrap_errors(path):
        settings = InstaAugSettings.from_config(config)
        n_needed = _least_numbers(settings)
    n_held = sum(t.numel() for t in tensors.values())
    if n_needed > n_held:
        raise WeightsFileError(
            f"{str(path)!r} does not fit its own settings: they ask for more numbers than the "
            f"{n_held:,} that it holds. Save it again."
        )
    return settings


def _least_numbers(settings: InstaAugSettings) -> int:
    """A lower bound on the numbers in an augmenter's state: the heads' biases and the network."""
    spaces = settings.transform.spaces.values()
    n_raw = sum(_n_raw(space, settings.given_grid(space)) for space in spaces)
    n_raw += 0 if settings.plan is None else settings.plan.n_numbers
    if settings.conditioning == "class":
        return n_raw * index(settings.num_classes or 1)  # a list times a number is a list
    if settings.conditioning == "none" or settings.network in ("own", "model"):
        return n_raw
    with torch.device("meta"):
        network = make_network(
            settings.network, in_channels=settings.in_channels, width=settings.width
        )
    return n_raw + sum(p.numel() for p in network.parameters())


def _n_raw(space: Space, grid: CropGrid | None) -> int:
    if isinstance(space, Interval):
        return 2 * space.size
    if isinstance(space, Choices):
        return len(space.rows)
    return sum(n * n for _, n in space.levels) if grid is None else len(grid)


def load_tensors(path: Path, module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load the tensors of a file into a module; raise unless names and shapes agree."""
    own = module.state_dict()
    missing, surplus = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    shapes = [
        f"{name} is {tuple(tensors[name].shape)} instead of {tuple(own[name].shape)}"
        for name in own.keys() & tensors.keys()
        if tensors[name].shape != own[name].shape
    ]
    problems = [f"missing {name}" for name in missing]
    problems += [f"surplus {name}" for name in surplus] + sorted(shapes)
    if problems:
        raise WeightsFileError(
            f"{str(path)!r} does not fit its own settings: {'; '.join(problems[:3])}"
            f"{' and more' if len(problems) > 3 else ''}. Load it with the same network."
        )
    module.load_state_dict(dict(tensors))
