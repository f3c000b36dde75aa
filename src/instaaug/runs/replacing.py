"""Put a new run in the place of another one, which is kept until the new one has begun."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from instaaug.errors import ArgumentError, InstaAugError
from instaaug.files import ASIDE
from instaaug.runs.folder import Run

__all__ = ["replacing"]

FILES = (
    *("config.yaml", "environment.json", "data.json", "results.json", "timing.json"),
    *("aug.safetensors", "model.safetensors", "probe.safetensors", "head.safetensors"),
    *("order.safetensors", "last.ckpt", "metrics.csv", "samples.png", "crops.png"),
    "fit_images.txt",
    *("policy.json", "policy_search.json", "transfer.json", "failure.json"),
    *("eval*.json", "cost_curve*.png", "mlflow.db", f".*{ASIDE}"),
)
FOLDERS = ("table", "report", "tensorboard", "csv", "csv-*", "wandb", "verdict", "mlruns")
N_NAMED = 3


@contextmanager
def replacing(folder: Path) -> Iterator[None]:
    """Make room for a run in the folder of another one, of any kind.

    The other run is put aside. It comes back if the new one is refused before it has begun, and
    is deleted otherwise. What a kill has left aside is cleared away, or comes back, at the next
    call.

    Arguments:
        folder: Of a run, or one that does not exist.

    Raises:
        ArgumentError: If there is anything in the folder that no run has made, or another process
            is at work in it; nothing is deleted then.
    """
    aside = folder.with_name(f".{folder.name}.replaced")
    if aside.is_dir() and not folder.exists():  # killed before the new run had a folder
        aside.rename(folder)
    if not folder.exists():
        yield
        return
    _check(folder)
    with Run(folder).hold():
        if aside.is_dir():  # killed later: the run that is here has replaced it
            shutil.rmtree(aside)
        folder.rename(aside)
    try:
        yield
    finally:
        new = Run(folder)
        if new.facts_file.is_file() or new.table.is_dir():  # it has begun
            shutil.rmtree(aside)
        else:
            shutil.rmtree(folder, ignore_errors=True)  # at most the settings of the new run
            aside.rename(folder)


def _check(folder: Path) -> None:
    """Raise unless the folder holds a run and nothing else."""
    refusal = f"`overwrite` replaces the folder of a run and nothing else: {str(folder)!r}"
    if folder.is_symlink() or not folder.is_dir():
        raise ArgumentError(f"{refusal} is no folder of its own. Choose another one.")
    try:
        Run(folder).read_settings()
    except (FileNotFoundError, InstaAugError):
        raise ArgumentError(f"{refusal} holds no run of ours. Choose another one.") from None
    others = sorted(path.name for path in folder.iterdir() if not _is_ours(path))
    if others:
        more = f" and {len(others) - N_NAMED} more" if len(others) > N_NAMED else ""
        raise ArgumentError(
            f"{refusal} also has {', '.join(others[:N_NAMED])}{more}. Move that elsewhere first."
        )


def _is_ours(path: Path) -> bool:
    names = FOLDERS if path.is_dir() and not path.is_symlink() else FILES
    return any(path.match(name) for name in names)
