"""Runs with a compiled model: the same files, the same numbers, and resumed like any other."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from lightning.pytorch import Callback
from safetensors.torch import load_file
from typing_extensions import override

from instaaug.errors import InstaAugWarning
from instaaug.networks.compiling import compile_training
from instaaug.runs import training
from instaaug.runs.settings import TrainSettings
from tests.runs.conftest import few_sprites
from tests.support.command_line import QUICK

ROOT = Path(__file__).parents[2]
SMALL = TrainSettings.from_mapping(
    {
        "trainer.max_epochs": 2,
        "data.batch_size": 16,
        "data.image_size": 16,
        "views.n_views": 2,
        "trainer.accelerator": "cpu",
    }
)
FILES = ("model.safetensors", "aug.safetensors")


class Stop(Callback):
    """Pulls the plug in the second epoch."""

    @override
    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        if trainer.current_epoch == 1:
            raise RuntimeError("The plug was pulled.")


def in_a_python_of_its_own(call: str, folder: Path) -> str:
    """Without the shape checker that runs in this one, which torch cannot compile."""
    code = f"from tests.runs import test_compiled_run as t; t.{call}"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "default", "-c", code],
        cwd=folder,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
        },
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def setting_of(run: Path) -> object:
    return yaml.safe_load((run / "config.yaml").read_text())["trainer"]["compile"]


def checkpoint_keys(run: Path) -> list[str]:
    return list(torch.load(run / "last.ckpt", weights_only=True)["state_dict"])


@pytest.mark.slow  # two runs
def test_a_compiled_run_leaves_the_same_and_can_be_resumed(tmp_path: Path) -> None:
    said = in_a_python_of_its_own("compare_runs()", tmp_path)
    assert "could not be compiled" not in said
    assert "The .grad attribute" not in said  # torch's, of what torch does when it compiles
    for run in ("compiled", "halves"):
        assert setting_of(tmp_path / run) is True
        assert checkpoint_keys(tmp_path / run) == checkpoint_keys(tmp_path / "plain")
        for file in FILES:
            found, expected = (load_file(tmp_path / name / file) for name in (run, "plain"))
            torch.testing.assert_close(found, expected)


def compare_runs() -> None:
    """Plain, compiled by a backend that is quick, and compiled with an interruption."""
    with pytest.MonkeyPatch.context() as patch:
        few_sprites(patch)
        quick = partial(compile_training, backend="eager")
        patch.setattr(training, "compile_training", quick)
        plain = training.train(SMALL, "plain")
        config = SMALL.override({"trainer.compile": True})
        assert training.train(config, "compiled") == plain
        with pytest.raises(RuntimeError, match="The plug was pulled"):
            training.train(config, "halves", callbacks=[Stop()])
        assert training.resume("halves") == plain
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0


def test_a_run_that_cannot_be_compiled_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> Any:
        raise OSError("no compiler")

    torch.compiler.reset()
    monkeypatch.setattr(training, "compile_training", partial(compile_training, backend=failing))
    config = SMALL.override({"trainer.max_epochs": 1})
    with pytest.warns(InstaAugWarning, match="The model could not be compiled and runs without"):
        found = training.train(config.override({"trainer.compile": True}), tmp_path / "compiled")
    assert found == training.train(config, tmp_path / "plain")


@pytest.mark.slow
def test_the_command_line_compiles(tmp_path: Path) -> None:
    said = in_a_python_of_its_own("train_by_command()", tmp_path)
    assert "could not be compiled" not in said
    assert setting_of(tmp_path / "run") is True


def train_by_command() -> None:
    """A few steps with the real compiler."""
    from instaaug.cli import main

    with pytest.MonkeyPatch.context() as patch:
        few_sprites(patch)
        arguments = (
            "instaaug",
            "train",
            "sprites",
            "--trainer.compile",
            "true",
            "--out",
            "run",
            *QUICK,
        )
        patch.setattr(sys, "argv", list(arguments))
        with pytest.raises(SystemExit) as stop:
            main()
    assert not stop.value.code
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
