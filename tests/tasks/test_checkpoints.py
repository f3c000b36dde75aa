"""A run that is killed or interrupted ends, once resumed, as if nothing had happened."""

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from instaaug.errors import DiskError, WeightsFileError
from instaaug.runs import training
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import train
from instaaug.tasks import BatchLoader, Checkpoints, Interrupted, WholeCheckpointIO
from tests.support.forked import exit_codes
from tests.support.killed import At, save_and_die, train_and_die
from tests.support.tiny_training import fit, labeled_halves, supervised
from tests.support.unhooked import unhooked

PRODUCTS = ("results.json", "metrics.csv", "model.safetensors", "samples.png")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
DATA = labeled_halves(32)

# 60 images: 48 to train on, in steps of 8, after 12 for test and 4 for validation are held out.
RECIPES: dict[str, dict[str, Any]] = {
    "instaaug": {
        "transforms": ["crop", "rotation"],
        "model": "small_cnn",
        "phi.network": "preact_resnet18_bn",  # with statistics, and a plateau with a memory
        "phi.width": 0.03,
        "phi.schedule": "plateau",
        "entropy.per": "total",
        "entropy.rule": "multiplicative",
    },
    "dropout": {
        "method": "random",
        "transforms": ["rotation"],
        "model": "tests.support.tiny_training:dropout_classifier",
        "data.flip": True,
        "data.vary": {"brightness": 0.3},
    },
    "accumulate": {
        "transforms": ["rotation"],
        "model": "small_cnn",
        "trainer.accumulate_grad_batches": 2,
        "pretrain_epochs": 1,
        "phi.schedule": "cosine",
    },
}
EVERY_RECIPE = pytest.mark.parametrize("recipe", RECIPES)
N_PER_EPOCH = 6


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Sums in another number of threads would differ in their last bits."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = labeled_halves(60, side=16)
    path = tmp_path_factory.mktemp("data") / "halves.npz"
    np.savez(path, images=data.images, labels=data.targets.numpy())
    return path


@pytest.fixture(scope="module")
def settings_of(archive: Path) -> dict[str, dict[str, Any]]:
    shared = {
        "data.source": str(archive),
        "trainer.max_epochs": 3,
        "data.batch_size": 7,
        "views.n_views": 2,
        "trainer.accelerator": "cpu",
        "trainer.threads": 1,
    }
    return {name: {**shared, **recipe} for name, recipe in RECIPES.items()}


@pytest.fixture(scope="module")
def uninterrupted(
    settings_of: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, bytes]]:
    """What each recipe makes if nothing happens."""
    made = {}
    for name, settings in settings_of.items():
        out = tmp_path_factory.mktemp("reference") / name
        train(TrainSettings.from_mapping({**settings}), out)
        made[name] = products(out)
    return made


def resume(out: Path, **options: Any) -> None:
    with unhooked():  # YAML has lists where the settings have tuples
        training.resume(out, **options)


def products(out: Path) -> dict[str, bytes]:
    made = {name: (out / name).read_bytes() for name in PRODUCTS}
    if (out / "aug.safetensors").exists():  # whose header has its two entries in any order
        for name, tensor in load_file(out / "aug.safetensors").items():
            made[f"aug.{name}"] = tensor.numpy().tobytes()
    return made


# --- killed while training ----------------------------------------------------------------------

KILLS = {
    "before there is any checkpoint": ("batch end", 2, 5.0),
    "in the middle of the second epoch": ("batch end", N_PER_EPOCH + 3, 5.0),
    "there, with a checkpoint after every step": ("batch end", N_PER_EPOCH + 3, 0.0),
    "after the validation of the first epoch": ("validation end", N_PER_EPOCH, 0.0),
    "when the second epoch is written down but not saved": ("epoch end", 2 * N_PER_EPOCH, 0.0),
    "when the second epoch is saved": ("epoch start", 2 * N_PER_EPOCH, 5.0),
    "when nothing is left but to write the results": ("train end", 3 * N_PER_EPOCH, 5.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("kill", KILLS)
def test_a_killed_run_is_resumed_as_if_nothing_had_happened(
    kill: str,
    settings_of: dict[str, dict[str, Any]],
    uninterrupted: dict[str, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    hook, n_steps, minutes = KILLS[kill]
    settings = {**settings_of["instaaug"], "trainer.checkpoint_minutes": minutes}
    killed = exit_codes(train_and_die, (settings, str(tmp_path / "run"), hook, n_steps))
    assert killed == [-signal.SIGKILL]
    assert not (tmp_path / "run" / "results.json").exists()
    resume(tmp_path / "run")
    assert products(tmp_path / "run") == uninterrupted["instaaug"]


# --- asked to stop ------------------------------------------------------------------------------


def raises_signal(number: int, *, times: int = 1) -> Callable[[], None]:
    def act() -> None:
        for _ in range(times):
            signal.raise_signal(number)

    return act


@pytest.mark.parametrize(
    ("recipe", "n_steps"),
    [
        ("instaaug", N_PER_EPOCH + 3),
        *[("dropout", n) for n in (N_PER_EPOCH, 3 * N_PER_EPOCH)],
        ("accumulate", 1),
    ],
)
def test_an_interrupted_run_is_resumed_as_if_nothing_had_happened(
    recipe: str,
    n_steps: int,
    settings_of: dict[str, dict[str, Any]],
    uninterrupted: dict[str, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    epoch = (n_steps - 1) // N_PER_EPOCH + 1
    stop = At("batch end", n_steps, raises_signal(signal.SIGINT))
    with pytest.raises(Interrupted, match=rf"Stopped by SIGINT in epoch {epoch} of 3; everything"):
        train(
            TrainSettings.from_mapping({**settings_of[recipe]}), tmp_path / "run", callbacks=[stop]
        )
    progress = torch.load(tmp_path / "run" / "last.ckpt", weights_only=True)["progress"]
    accumulate = RECIPES[recipe].get("trainer.accumulate_grad_batches", 1)
    assert progress["n_steps"] == -(-n_steps // accumulate) * accumulate
    resume(tmp_path / "run")
    assert products(tmp_path / "run") == uninterrupted[recipe]


def test_a_run_interrupted_twice_is_resumed_twice(
    settings_of: dict[str, dict[str, Any]],
    uninterrupted: dict[str, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    first, second = (
        At("batch end", n, raises_signal(signal.SIGTERM)) for n in (2, N_PER_EPOCH + 4)
    )
    with pytest.raises(Interrupted, match="Stopped by SIGTERM in epoch 1 of 3"):
        train(
            TrainSettings.from_mapping({**settings_of["dropout"]}),
            tmp_path / "run",
            callbacks=[first],
        )
    with pytest.raises(Interrupted, match="Stopped by SIGTERM in epoch 2 of 3"):
        resume(tmp_path / "run", callbacks=[second])
    resume(tmp_path / "run")
    assert products(tmp_path / "run") == uninterrupted["dropout"]


@EVERY_RECIPE
def test_the_recipes_make_what_they_promise(
    recipe: str, uninterrupted: dict[str, dict[str, bytes]]
) -> None:
    """Else the comparisons above would compare nothing."""
    learns = RECIPES[recipe].get("method") != "random"
    assert ("aug.band.weight" in uninterrupted[recipe]) == learns
    rows = uninterrupted[recipe]["metrics.csv"].decode().splitlines()
    assert [row.split(",")[1] for row in rows] == ["step", "6", "12", "18"]


# --- signals ------------------------------------------------------------------------------------


def stopped_by(path: Path, times: int, number: int = signal.SIGINT) -> None:
    act = At("batch end", 2, raises_signal(number, times=times))
    fit(supervised(), BatchLoader(DATA, 8, seed=0), callbacks=[act, Checkpoints(path)])


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_saves_and_stops(tmp_path: Path, number: int) -> None:
    before = [signal.getsignal(s) for s in SIGNALS]
    with pytest.raises(Interrupted, match=f"Stopped by {signal.Signals(number).name} in epoch 1"):
        stopped_by(tmp_path / "last.ckpt", 1, number)
    assert (tmp_path / "last.ckpt").is_file()
    assert [signal.getsignal(s) for s in SIGNALS] == before


def test_the_second_signal_stops_at_once(tmp_path: Path) -> None:
    """Lightning turns the KeyboardInterrupt into an exit."""
    before = [signal.getsignal(s) for s in SIGNALS]
    with pytest.raises(SystemExit, match="1") as caught:
        stopped_by(tmp_path / "last.ckpt", 2)
    assert isinstance(caught.value.__context__, KeyboardInterrupt)
    assert not (tmp_path / "last.ckpt").exists()
    assert [signal.getsignal(s) for s in SIGNALS] == before


@pytest.mark.parametrize("fails", [False, True])
def test_handlers_are_given_back_after_a_run(tmp_path: Path, *, fails: bool) -> None:
    def act() -> None:
        seen.append(signal.getsignal(signal.SIGINT))
        if fails:
            raise RuntimeError("something else")

    seen: list[Any] = []
    before = [signal.getsignal(s) for s in SIGNALS]
    callbacks = [At("batch end", 2, act), Checkpoints(tmp_path / "last.ckpt")]
    task = supervised()
    if fails:
        with pytest.raises(RuntimeError, match="something else"):
            fit(task, BatchLoader(DATA, 8, seed=0), callbacks=callbacks)
    else:
        fit(task, BatchLoader(DATA, 8, seed=0), callbacks=callbacks)
    assert seen[0] not in before
    assert [signal.getsignal(s) for s in SIGNALS] == before


def test_a_run_outside_of_the_main_thread_does_without_signals(tmp_path: Path) -> None:
    def run() -> None:
        fit(supervised(), BatchLoader(DATA, 8, seed=0), callbacks=[Checkpoints(path)])

    path = tmp_path / "last.ckpt"
    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert path.is_file()


# --- files --------------------------------------------------------------------------------------


def test_a_kill_while_writing_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    path, io = tmp_path / "last.ckpt", WholeCheckpointIO()
    io.save_checkpoint({"value": torch.ones(3)}, path)
    assert exit_codes(save_and_die, (str(path), 2.0)) == [-signal.SIGKILL]
    assert io.load_checkpoint(path)["value"].tolist() == [1, 1, 1]
    leftovers = [p.name for p in tmp_path.iterdir() if p.name not in ("last.ckpt", "whole")]
    assert len(leftovers) == 1  # else nobody was killed while writing
    assert leftovers[0].startswith(".")
    assert not leftovers[0].endswith(".ckpt")


def test_what_a_kill_left_behind_is_not_taken_for_a_checkpoint(
    settings_of: dict[str, dict[str, Any]],
    uninterrupted: dict[str, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    """Half a checkpoint, and no whole one: the run begins anew."""
    out = tmp_path / "run"
    stop = At("batch end", 2, raises_signal(signal.SIGINT))
    with pytest.raises(Interrupted, match="in epoch 1"):
        train(TrainSettings.from_mapping({**settings_of["dropout"]}), out, callbacks=[stop])
    content = (out / "last.ckpt").read_bytes()
    (out / "last.ckpt").unlink()
    (out / ".last.ckpt.0123abcd.part").write_bytes(content[: len(content) // 2])
    resume(out)
    assert products(out) == uninterrupted["dropout"]


def test_a_full_disk_is_told_and_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    path, io, really_open = tmp_path / "last.ckpt", WholeCheckpointIO(), Path.open

    def open_full(self: Path, mode: str = "r", **_: Any) -> IO[Any]:
        if mode != "wb":
            return really_open(self, mode)
        self.touch()
        return really_open(Path("/dev/full"), "wb")

    io.save_checkpoint({"value": torch.ones(3)}, path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", open_full)
        with pytest.raises(DiskError, match=r"There is no room left for '.*last\.ckpt'"):
            io.save_checkpoint({"value": torch.zeros(10**5)}, path)
    assert io.load_checkpoint(path)["value"].tolist() == [1, 1, 1]
    assert [p.name for p in tmp_path.iterdir()] == ["last.ckpt"]


def test_a_checkpoint_holds_nothing_that_could_run_code(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    fit(supervised(), BatchLoader(DATA, 8, seed=0), callbacks=[Checkpoints(path)])
    assert torch.load(path, weights_only=True)["progress"]["n_steps"] == 4


@pytest.mark.parametrize(("minutes", "at_steps"), [(0.0, [1, 2, 3, 4]), (60.0, [4])])
def test_checkpoints_are_made_when_they_are_due(
    tmp_path: Path, minutes: float, at_steps: list[int]
) -> None:
    path, made = tmp_path / "last.ckpt", []

    class Noting(WholeCheckpointIO):
        def save_checkpoint(self, checkpoint: dict[str, Any], *_: Any, **__: Any) -> None:
            made.append(checkpoint["progress"]["n_steps"])

    fit(
        supervised(),
        BatchLoader(DATA, 8, seed=0),
        callbacks=[Checkpoints(path, minutes=minutes)],
        plugins=[Noting()],
    )
    assert made == at_steps


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"no checkpoint", b"PK\x03\x04", b"\x80\x02.", b"\x80\x02J\x01", b"\x80\x02h\x05."),
        *(b"\x80\x02K\x01Q.", b"\x80\x7f.", b"\x80\x02(" + b"(" * 10_000),
    ],
)
def test_a_checkpoint_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "last.ckpt"
    path.write_bytes(content)
    with pytest.raises(
        WeightsFileError, match=r"last\.ckpt' cannot be read .* start the run over"
    ):
        WholeCheckpointIO().load_checkpoint(path)
