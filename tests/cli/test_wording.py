"""Errors of the library name options on the command line."""

from pathlib import Path

import pytest

from instaaug.cli.wording import name_options
from tests.support.command_line import QUICK, QUICK_FIT, SPOTTER, CommandLine
from tests.support.spots import spot_folder


@pytest.mark.parametrize(
    ("sentence", "typed", "wanted"),
    [
        ('`merge="a"` needs b.', [], "`--views.merge a` needs b."),
        ("`levels` must be pairs.", [], "`--crop.grid` must be pairs."),
        ("`width` must be 1.", ["--phi.width=2"], "`--phi.width` must be 1."),
        ("`width` must be 1.", ["--model.width", "2"], "`--model.width` must be 1."),
        ("`width` must be 1.", [], "`width` must be 1."),
        ("`out` must be new.", ["--out", "a"], "`out` must be new."),
        ("`phi.width` must be 1.", ["--phi.width", "2"], "`--phi.width` must be 1."),
        ("`phi.width` must be 1.", ["--config", "a.yaml"], "`phi.width` must be 1."),
        ("`views.counts` must be 1.", ["--views", "2"], "`--views` must be 1."),
        ("`model` must be good.", ["--model", "my:own"], "`model` must be good."),
        ("`phi.step` is 1. (in the settings)", ["--phi.step=2"], "`--phi.step` is 1."),
        ("`phi.step` is 1. (in a.yaml)", ["--phi.step=2"], "`--phi.step` is 1. (in a.yaml)"),
        (
            "`crop.layers` belongs to `crop.grid`.",
            ["--crop.layers", "[1]"],
            "`--crop.layers` belongs to `--crop.grid`.",
        ),
        ('Use reduction="none".', [], 'Use reduction="none".'),
        ("`size` must be 8.", ["train"], "`--data.image_size` must be 8."),
        ("`size` must be 8.", ["train", "--crop.size", "4"], "`--crop.size` must be 8."),
        ("`size` must be 8.", ["tta", "fit"], "`--data.decode_size` must be 8."),
        ('Choose task="regression".', ["compare"], "Choose --task regression."),
        ('Use on_bad_image="skip".', [], "Use --data.on_bad_image skip."),
        ("`source` must be a folder.", ["train"], "`DATA` must be a folder."),
    ],
)
def test_arguments_become_options(sentence: str, typed: list[str], wanted: str) -> None:
    assert name_options(sentence, typed) == wanted


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--crop.grid", "[[0, 2]]"), "`--crop.grid` must be pairs of a size"),
        (
            ("--transforms", "[rotation]", "--phi.objective", "views"),
            "`--phi.objective views` needs views that can be listed: ",
        ),
        (("--model.channels", "2"), "`--model.channels` must be 1 (grayscale) or 3 (RGB)"),
    ],
)
def test_a_fit_that_is_refused_names_options(
    instaaug: CommandLine, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    spot_folder(tmp_path / "spots", 3)
    sentence = instaaug.error("tta", "fit", SPOTTER, "spots", *QUICK_FIT, *options)
    assert sentence.startswith(words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--method", "mixup", "--method.alpha", "-1"), "`--method.alpha` must be a number"),
        (("--method", "mixup", "--method.alfa", "1"), "There is no option of mixup called 'alfa'"),
        (("--phi.width", "100"), "`--phi.width` must lie in (0, 64]"),
        (("--phi.estimator", "pathwise"), "CategoricalTheta has no pathwise gradient"),
        (("--task", "contrastive", "--contrastive.temperature", "0"), "must be above 0: got 0.0"),
        (
            ("--optimizer.schedule", "plateau", "--optimizer.drop_factor", "2"),
            "`factor` must lie in (0, 1) for the schedule 'plateau': got 2.0",
        ),
        (("--phi.network", "basic_cnn"), "`x` must have at least 31 × 31 pixels"),
        (("--data.channels", "2"), "`--data.channels` must be 1 (grayscale) or 3 (RGB)"),
        (("--data.test_fraction", "1"), "`--data.test_fraction`"),
    ],
)
def test_training_is_refused_before_it_is_announced(
    instaaug: CommandLine, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    spot_folder(tmp_path / "spots", 6)
    done = instaaug("train", "spots", *QUICK, *options)
    assert done.code == 2
    assert done.out == ""
    assert words in done.err
