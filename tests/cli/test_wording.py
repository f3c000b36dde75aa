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
        ("`phi.width` must be 1.", ["--phi.width", "2"], "`phi.width` must be 1."),
        ('Use reduction="none".', [], 'Use reduction="none".'),
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
