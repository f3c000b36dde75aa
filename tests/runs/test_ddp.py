"""Several processes train as one: real ones, started by the real command."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.picture_folders import gray_levels

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300  # seconds; a deadlock shall fail, not hang
TWO = ("--trainer.accelerator", "cpu", "--trainer.devices", "2", "--trainer.strategy", "ddp")


def instaaug(folder: Path, *arguments: str) -> str:
    """Run the command; gives what it printed. Whatever is left of it is ended."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
        "OMP_NUM_THREADS": "1",
        "WITNESS_FOLDER": str(folder),
    }
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "tests.support.watched_command", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output
    return output


def column(steps: list[dict[str, Any]], name: str) -> list[Any]:
    return [step[name] for step in steps]


def read(file: Path) -> Any:
    return json.loads(file.read_text())


CLOSED_FORM = ("--phi.estimator", "closed_form", "--entropy", "[2, 2.5]")
CROSS_FIT = (*CLOSED_FORM, "--phi.signal", "rotating", "--phi.signal_share", "1")


@pytest.mark.slow  # starts Python twice
@pytest.mark.parametrize(
    "phi", [(), CLOSED_FORM, CROSS_FIT], ids=["score", "closed_form", "cross_fit"]
)
def test_two_processes_agree_in_every_step_and_write_one_result(
    phi: tuple[str, ...], tmp_path: Path
) -> None:
    gray_levels(tmp_path / "a.npz", n=62)  # 45 to train on: two steps of 2 × 8, and 13 are left
    settings = (
        "--trainer.max_epochs",
        "2",
        "--data.batch_size",
        "8",
        "--transforms",
        "crop",
        "--trainer.log_every_n_steps",
        "1",
    )
    output = instaaug(tmp_path, "train", "a.npz", *settings, *phi, *TWO)

    first, second = (read(tmp_path / f"{rank}.json") for rank in range(2))
    n_images = [(a["n_images"], b["n_images"]) for a, b in zip(first, second, strict=True)]
    assert n_images == [(8, 8), (8, 8), (7, 6)] * 2
    assert column(first, "parameter") == column(second, "parameter")
    assert column(first, "weight") == column(second, "weight")
    assert len(set(column(first, "parameter"))) == 6  # and they do learn
    assert len({str(weight) for weight in column(first, "weight")}) > 1

    (run,) = (tmp_path / "runs").iterdir()
    assert run.name == "a-instaaug"
    results = read(run / "results.json")
    assert (results["n_train"], results["n_test"], results["steps"]) == (45, 12, 6)
    assert len((run / "metrics.csv").read_text().splitlines()) == 1 + 2  # a row per epoch
    assert output.count("Training instaaug on a.npz") == 1
    assert output.count("Explore what was learned") == 1


@pytest.mark.slow
def test_two_processes_learn_as_well_as_one(tmp_path: Path) -> None:
    settings = (
        "train",
        "sprites",
        "--trainer.max_epochs",
        "3",
        "--data.image_size",
        "16",
        "--optimizer.learning_rate",
        "5e-3",
    )
    instaaug(tmp_path, *settings, "--data.batch_size", "50", "--out", "one")
    instaaug(tmp_path, *settings, "--data.batch_size", "25", "--out", "two", *TWO)
    one, two = (read(tmp_path / run / "results.json") for run in ("one", "two"))
    assert one["split_hash"] == two["split_hash"]
    assert one["steps"] == two["steps"] == 3 * 36
    scores = [run["test"]["plain"]["top1"] for run in (one, two)]
    assert min(scores) > 0.8  # a guess is right in a quarter of the cases
    assert scores[0] == pytest.approx(scores[1], abs=0.1)


@pytest.mark.slow
def test_two_processes_learn_without_labels(tmp_path: Path) -> None:
    gray_levels(tmp_path / "a.npz", n=62)  # the last step of an epoch has 7 images and 6
    settings = (
        "--trainer.max_epochs",
        "2",
        "--data.batch_size",
        "8",
        "--transforms",
        "crop",
        "--trainer.log_every_n_steps",
        "1",
    )
    contrast = ("--task", "contrastive", "--contrastive.hidden", "16")
    instaaug(tmp_path, "train", "a.npz", *settings, *contrast, *TWO)
    first, second = (read(tmp_path / f"{rank}.json") for rank in range(2))
    assert column(first, "parameter") == column(second, "parameter")
    assert len(set(column(first, "parameter"))) == 6
    (run,) = (tmp_path / "runs").iterdir()
    assert {"views", "plain", "augmented"} <= set(read(run / "results.json")["test"])
