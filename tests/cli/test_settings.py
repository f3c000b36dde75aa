"""Options made from settings: what is typed, and what is near to an unknown name."""

import pytest

from instaaug.cli.settings import read_typed
from instaaug.errors import ArgumentError
from instaaug.runs.settings import TrainSettings, TtaSettings
from instaaug.settings import setting_infos, similar_settings
from tests.support.command_line import CommandLine


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("trainer.max_epochs", "3", 3),
        ("phi.learning_rate", "1e-3", 0.001),
        ("data.flip", "true", True),
        ("data", "2024", "2024"),  # a folder may be called that
        ("data.root", "no", "no"),
        ("crop.grid", "[[0.5, 2], [1, 1]]", [[0.5, 2], [1, 1]]),
        ("entropy", "{crop: [3, 3.5]}", {"crop": [3, 3.5]}),
        ("transforms", "[crop, rotation]", ["crop", "rotation"]),
        ("transforms", "crop,rotation", ["crop", "rotation"]),
        ("transforms", "crop, rotation, flip", ["crop", "rotation", "flip"]),
        ("transforms", "crop", "crop"),
        ("crop.layers", "0,1", [0, 1]),
        ("optimizer.drops", "0.5,0.75", [0.5, 0.75]),
        ("crop.grid", "receptive", "receptive"),
        ("method.sizes", "[0.5, 1]", [0.5, 1]),
    ],
)
def test_text_is_read_as_yaml_unless_the_setting_is_text(
    name: str, text: str, value: object
) -> None:
    assert read_typed(TrainSettings, {name: text}) == {name: value}


def test_text_that_is_not_yaml_is_told_what_it_should_be_like() -> None:
    with pytest.raises(ArgumentError, match=r"`entropy` must be like \[0.5, 0.5\].*: got '\[3,'"):
        read_typed(TrainSettings, {"entropy": "[3,"})


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("epochs", ["trainer.max_epochs"]),
        ("max-epochs", ["trainer.max_epochs"]),
        ("trainer.max_epoch", ["trainer.max_epochs"]),
        ("batch_size", ["data.batch_size"]),
        ("lr", ["optimizer.learning_rate", "phi.learning_rate"]),
        ("weight-decay", ["optimizer.weight_decay"]),
        ("grid", ["crop.grid", "local.grid"]),
        ("padding", ["padding_mode"]),
        ("zzz", []),
    ],
)
def test_an_unknown_name_is_taken_for_the_nearest(typed: str, meant: list[str]) -> None:
    names = [info.name for info in setting_infos(TrainSettings)]
    assert similar_settings(typed, names) == meant


def test_an_unknown_option_is_explained(instaaug: CommandLine) -> None:
    done = instaaug("train", "--epochs", "3")
    assert done.code == 2
    assert "There is no option --epochs. Did you mean --trainer.max_epochs?" in done.err
    done = instaaug("tta", "fit", "model", "data", "--image-size=3")
    assert "There is no option --image-size. Did you mean --model.image_size?" in done.err
    assert "There is no option --zzz." in instaaug("train", "--zzz").err


def test_an_option_of_a_method_needs_a_value(instaaug: CommandLine) -> None:
    assert (
        "Option '--method.alpha' requires an argument." in instaaug("train", "--method.alpha").err
    )


def test_every_setting_of_a_fit_has_an_option(instaaug: CommandLine) -> None:
    words = instaaug("tta", "fit", "--help").out.split()
    names = {info.name for info in setting_infos(TtaSettings)} - {"kind", "model", "data"}
    assert {f"--{name}" for name in names} <= set(words)


@pytest.mark.parametrize("typed", [["--pretrained"], ["--model.pretrained"], ["--pretrained=yes"]])
def test_a_switch_needs_no_value(typed: list[str], instaaug: CommandLine) -> None:
    done = instaaug("train", "sprites", "--data.flip", *typed, "--model", "small_cnn")
    assert done.code == 2
    assert "model.pretrained` is for timm:NAME" in done.err
    assert "got the model 'small_cnn'" in done.err


def test_a_switch_may_have_a_value(instaaug: CommandLine) -> None:
    done = instaaug("train", "sprites", "--pretrained", "no", "--model", "nobody")
    assert "There is no model called 'nobody'" in done.err
