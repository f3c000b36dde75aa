"""Models that return more than logits can be trained, and are told which output is meant."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from instaaug.errors import ArgumentError
from instaaug.runs.build import load_task
from instaaug.runs.folder import Run
from instaaug.runs.inference import evaluate_run
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import train
from tests.support.picture_folders import gray_levels

QUICK = {
    "trainer.max_epochs": 1, "trainer.accelerator": "cpu", "data.batch_size": 8,
    "views.n_views": 2, "method": "random", "model": "tests.support.tiny_training:two_heads",
}  # fmt: skip


def settings(**others: Any) -> TrainSettings:
    source = gray_levels(Path("a.npz"), n=40)
    return TrainSettings.from_mapping({**QUICK, "data": str(source), **others})


def test_a_run_trains_and_is_used_by_the_output_that_was_chosen() -> None:
    train(settings(**{"model.output": "opposite"}), "run")
    weights = load_file("run/model.safetensors")
    assert {*weights} == {"main.1.weight", "main.1.bias"}, "names are the model's own"
    x = torch.rand(2, 3, 16, 16)
    layer = torch.nn.functional.linear(
        x.flatten(1), *(weights[f"main.1.{n}"] for n in ("weight",))
    )
    loaded = load_task(Run("run")).model
    assert torch.allclose(loaded(x), -(layer + weights["main.1.bias"]), atol=1e-5)
    assert evaluate_run("run")["plain"]["n"] == 8


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("logit", "got 'logit', but a dict with opposite, logits; choose one by --model.output"),
        ("3", "got '3', but a dict"),
    ],
)
def test_an_output_that_is_not_there_is_refused(key: str, words: str) -> None:
    with pytest.raises(ArgumentError, match=f"`model.output` must be found in .*{words}"):
        train(settings(**{"model.output": key}), "run")
    assert not Path("run/config.yaml").exists()


def test_a_tensor_needs_no_choice() -> None:
    with pytest.raises(ArgumentError, match=r"it returns a tensor; leave --model\.output out"):
        train(settings(model="small_cnn", **{"model.output": "logits"}), "run")
