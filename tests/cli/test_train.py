"""``instaaug train`` and ``instaaug resume``, on files as people have them."""

import errno
import json
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import yaml
from lightning.pytorch import Callback
from typing_extensions import override

from instaaug.cli.settings import choose_settings
from tests.support.command_line import QUICK, CommandLine
from tests.support.picture_folders import (
    CLASSES,
    KINDS,
    gray_levels,
    mixed_folder,
    plain_folder,
    truncated_jpeg,
)


def results(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "results.json").read_text())
    return content


def nothing_decodes(*_: object, **__: object) -> NoReturn:
    raise AssertionError("A file was decoded again.")


# A folder of images


def test_a_folder_of_every_kind_of_image_trains_and_is_decoded_once(
    instaaug: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pets = mixed_folder(tmp_path / "my pets", n=2 * len(KINDS))
    done = instaaug("train", pets, "--method", "none", *QUICK)
    assert done.code == 0, done.err
    assert "Training none on" in done.out
    assert "top-1" in done.out
    assert "runs/my-pets-none/samples.png" in done.out
    first = results(tmp_path / "runs" / "my-pets-none")
    assert first["n_train"] + first["n_test"] == round(0.9 * 42 + 0.1 * 8)  # 8 of 42 for the test
    assert first["skipped"] == []

    monkeypatch.setattr("instaaug.data.cache.decode_image", nothing_decodes)
    again = instaaug("train", pets, "--method", "none", *QUICK)
    assert again.code == 0, again.err
    assert results(tmp_path / "runs" / "my-pets-none-2") == first


def test_grayscale_files_train_with_one_channel(instaaug: CommandLine, tmp_path: Path) -> None:
    for kind in (KINDS[3], KINDS[5]):  # 8 and 16 bits
        for name, level in CLASSES.items():
            (tmp_path / "gray" / name).mkdir(parents=True, exist_ok=True)
            for number in range(5):
                kind(tmp_path / "gray" / name, level, number)
    assert instaaug("train", "gray", "--out", "run", *QUICK).code == 0
    assert json.loads((tmp_path / "run" / "data.json").read_text())["channels"] == 1


def test_a_table_of_files_and_an_archive_train_too(instaaug: CommandLine, tmp_path: Path) -> None:
    pets = plain_folder(tmp_path / "pets", n=6)
    files = sorted(pets.rglob("*.png"))
    lines = [
        f"{file.relative_to(tmp_path)},{file.parent.name},{i}" for i, file in enumerate(files)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["file,animal,age", *lines]))
    gray_levels(tmp_path / "a.npz")
    table = ("train", "t.csv", "--data.target_column", "animal", "--out", "table", *QUICK)
    assert instaaug(*table, "--method", "random").code == 0
    numbers = ("--data.target_column", "age,age", "--task", "regression", "--out", "numbers")
    assert instaaug("train", "t.csv", *numbers, *QUICK, "--method", "none").code == 0
    assert instaaug("train", "a.npz", "--out", "arrays", *QUICK).code == 0
    assert set(results(tmp_path / "numbers")["test"]["plain"]) == {"rmse", "mae", "r2", "n"}
    assert results(tmp_path / "arrays")["n_test"] == 7  # a fifth of 37


def test_names_with_brackets_are_no_markup(
    instaaug: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # for the path of the folder in one line
    plain_folder(tmp_path / "[bold]pets[/nothing]", n=5)
    done = instaaug("train", "[bold]pets[/nothing]", "--out", "[red]", *QUICK, "--method", "none")
    assert done.code == 0, done.err
    assert "Training none on [bold]pets[/nothing]; the run is in [red]." in done.out
    assert "`instaaug predict '[red]' IMAGES`" in done.out
    shown = instaaug("show", "[red]")
    assert shown.code == 0, shown.err
    assert "[bold]pets[/nothing]" in shown.out


# Settings from a file, from the command line, from both


def test_options_have_priority_over_the_file(instaaug: CommandLine, tmp_path: Path) -> None:
    gray_levels(tmp_path / "a.npz")
    (tmp_path / "my.yaml").write_text(
        "data: {source: a.npz, batch_size: 8}\ntrainer: {max_epochs: 7}\nmethod: random\n"
    )
    typed = ("--trainer.max_epochs", "1", "--transforms", "rotation", "--out", "run")
    assert instaaug("train", "--config", "my.yaml", *typed).code == 0
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["data"]["source"] == str(tmp_path / "a.npz")  # to be found from any folder
    assert config["data"]["batch_size"] == 8
    assert config["trainer"]["max_epochs"] == 1
    assert (config["method"], config["transforms"]) == ({"name": "random"}, ["rotation"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epochs: 3", "There is no setting in my.yaml called 'epochs'. Did you mean 'trainer.max"),
        ("seed: soon", "`seed` must be a whole number, such as 3: got 'soon'. (in my.yaml)"),
        ("seed: [", "`config` must be YAML: 'my.yaml' is not: "),
        ("method: insta", "There is no method called 'insta'. Did you mean 'instaaug'?"),
    ],
)
def test_a_file_of_settings_that_cannot_be_used_is_one_sentence(
    instaaug: CommandLine, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "my.yaml").write_text(text)
    assert instaaug.error("train", "--config", "my.yaml").startswith(words)


def test_a_file_of_settings_that_is_missing_is_named(instaaug: CommandLine) -> None:
    assert instaaug.error("train", "--config", "no.yaml") == "There is no file 'no.yaml'."


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--trainer.max_epochs", "0"), "`--trainer.max_epochs` must be at least 1: got 0."),
        (
            ("--trainer.max_epochs", "soon"),
            "`--trainer.max_epochs` must be a whole number, such as 3: got 'soon'.",
        ),
        (
            ("--crop.grid", "[[1"),
            "`--crop.grid` must be like receptive or [[0.5, 3], ...]: got '[[1'.",
        ),
        (("--method", "insta"), "There is no method called 'insta'. Did you mean 'instaaug'?"),
        (("--method", "mixup", "--method.beta", "1"), "There is no option of mixup called 'beta'"),
        (("--transforms", "rotate"), "There is no transform called 'rotate'. Did you mean "),
        (("--model", "resnet"), "There is no model called 'resnet'."),
        (
            ("--trainer.accelerator", "abacus"),
            "`trainer` must have an accelerator, devices, strategy and precision that",
        ),
        (
            ("--data.channels", "1"),
            "`--data.image_size` and `--data.channels` must be those of 'a.npz', which can",
        ),
        (("--data.test_fraction", "1"), "`--data.test_fraction` must lie in [0, 1): got 1.0."),
        (("--task", "regression", "--phi.conditioning", "class"), "`num_classes` must be"),
        (("--out", "taken/run"), "'taken/run' cannot be used: "),
    ],
)
def test_settings_that_cannot_work_are_one_sentence(
    instaaug: CommandLine, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    gray_levels(tmp_path / "a.npz")
    (tmp_path / "taken").write_text("a file")
    assert instaaug.error("train", "a.npz", *QUICK, *options).startswith(words)
    assert not list(tmp_path.glob("runs/*"))


# Data that cannot be used


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("nosuchset", "There is no data set, folder or file called 'nosuchset'. "),
        (
            "sprits",
            "There is no data set, folder or file called 'sprits'. Did you mean 'sprites'?",
        ),
        ("missing/dir", "There is no folder or file 'missing/dir'."),
        ("cifar10", "`--data.root` must be a folder with data_batch_1.bin to data_batch_5.bin"),
        ("notes.txt", "`DATA` must be a folder, .csv, .npz or .npy: got "),
    ],
)
def test_data_that_are_not_there_are_one_sentence(
    instaaug: CommandLine, tmp_path: Path, data: str, words: str
) -> None:
    (tmp_path / "notes.txt").write_text("not data")
    assert instaaug.error("train", data).startswith(words)


def test_a_truncated_image_stops_training_unless_it_may_be_left_out(
    instaaug: CommandLine, tmp_path: Path
) -> None:
    plain_folder(tmp_path / "pets", n=6)
    truncated_jpeg(tmp_path / "pets" / "cat" / "half.jpg")
    words = instaaug.error("train", "pets", "--out", "run", *QUICK)
    assert "pets/cat/half.jpg' cannot be read as an image: " in words
    assert "1 of 19 images are bad." in words

    skip = ("--data.on_bad_image", "skip", "--method", "none")
    done = instaaug("train", "pets", "--out", "run", *skip, *QUICK)
    assert done.code == 0, done.err
    assert (
        "1 image could not be read and was left out: `skipped` in results.json names it."
        in done.out
    )
    (skipped,) = results(tmp_path / "run")["skipped"]
    assert "pets/cat/half.jpg" in skipped
    assert "truncated" in skipped


def empty_class(folder: Path) -> str:
    plain_folder(folder / "pets", n=3)
    (folder / "pets" / "yak").mkdir()
    return "pets"


def one_class(folder: Path) -> str:
    plain_folder(folder / "more", n=3)
    (folder / "pets").mkdir()
    (folder / "more" / "cat").rename(folder / "pets" / "cat")
    return "pets"


def no_class(folder: Path) -> str:
    plain_folder(folder / "pets", n=3)
    return "pets/cat"


def archive(folder: Path, **arrays: np.ndarray) -> str:
    images = np.zeros((6, 16, 16, 3), dtype=np.float32)
    labels = np.arange(6) % 2
    content: dict[str, Any] = {"images": images, "labels": labels, **arrays}
    np.savez(folder / "a.npz", **content)
    return "a.npz"


def label_out_of_range(folder: Path) -> str:
    return archive(folder, labels=np.array([0, 1, 2, 0, 1, 2]), classes=np.array(["cat", "dog"]))


def negative_label(folder: Path) -> str:
    return archive(folder, labels=np.array([0, 1, -1, 0, 1, 0]))


def nan_image(folder: Path) -> str:
    images = np.zeros((6, 16, 16, 3), dtype=np.float32)
    images[4, 3, 3] = np.nan
    return archive(folder, images=images)


def too_few_labels(folder: Path) -> str:
    return archive(folder, labels=np.arange(5) % 2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (empty_class, ("pets/yak", "must hold images: got none")),
        (one_class, ("A classifier needs at least two classes: got 1 ('cat')",)),
        (no_class, ("pets/cat' must hold one folder per class: got 3 images directly in it",)),
        (label_out_of_range, ("`labels` must be one of the 2 classes: row 2 of `labels` is 2",)),
        (negative_label, ("Class labels must be whole numbers from 0: row 2 of `labels` has -1",)),
        (nan_image, ("`images` must be finite: image 4 has NaN", "--data.on_bad_image skip")),
        (too_few_labels, ("`labels` must have one entry per image: got 5 for 6 images",)),
    ],
)
def test_data_that_make_no_sense_are_one_sentence(
    instaaug: CommandLine, tmp_path: Path, make: Any, words: tuple[str, ...]
) -> None:
    sentence = instaaug.error("train", make(tmp_path), *QUICK)
    assert all(word in sentence for word in words), sentence


def test_an_image_with_nan_can_be_left_out(instaaug: CommandLine, tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((24, 16, 16, 3), dtype=np.float32)
    images[4] = np.nan
    archive(tmp_path, images=images, labels=np.arange(24) % 2)
    skip = ("--data.on_bad_image", "skip", "--method", "none", "--out", "run")
    assert instaaug("train", "a.npz", *skip, *QUICK).code == 0
    assert results(tmp_path / "run")["skipped"] == [
        "Image 4 of `images` was left out: it has NaN or infinite pixels."
    ]


def test_a_run_does_not_go_among_the_images(instaaug: CommandLine, tmp_path: Path) -> None:
    plain_folder(tmp_path / "pets", n=3)
    sentence = instaaug.error("train", "pets", "--out", "pets/run", *QUICK)
    assert sentence.startswith("`out` must lie outside of the images: got 'pets/run'")
    assert not (tmp_path / "pets" / "run").exists()


# A model of one's own

MODELS = """
from torch import nn

number = 3

def good(n):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(n))

def linear(n):
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, n))

def seven(n):
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 7))

def text(n):
    return "a network"

def two(n, m):
    return None
"""


@pytest.fixture
def own_models(tmp_path: Path) -> Iterator[str]:
    gray_levels(tmp_path / "a.npz")
    (tmp_path / "own_models.py").write_text(MODELS)
    yield "own_models"
    sys.modules.pop("own_models", None)


def test_a_function_in_the_working_folder_makes_the_model(
    instaaug: CommandLine, own_models: str
) -> None:
    before = list(sys.path)
    done = instaaug("train", "a.npz", "--model", f"{own_models}:linear", "--out", "run", *QUICK)
    assert done.code == 0, done.err
    assert sys.path == before
    assert instaaug("evaluate", "run").code == 0


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("seven", "`model` must return one logit per class, (2, 3) for 2 images of 3 classes"),
        ("text", "`model` 'own_models:text' must return an nn.Module: got str."),
        ("two", "`model` 'own_models:two' is called with one argument, the number of outputs: "),
        ("number", "`model` 'own_models:number' is called with one argument, the number of out"),
        ("none", "`model` 'own_models:none' must name a function: the module 'own_models' has no"),
    ],
)
def test_a_model_that_cannot_be_used_is_one_sentence(
    instaaug: CommandLine, own_models: str, model: str, words: str
) -> None:
    sentence = instaaug.error("train", "a.npz", "--model", f"{own_models}:{model}", *QUICK)
    assert sentence.startswith(words)


def test_a_module_that_is_missing_is_one_sentence(instaaug: CommandLine, own_models: str) -> None:
    sentence = instaaug.error("train", "a.npz", "--model", "no_such_module:make", *QUICK)
    assert "'no_such_module:make' must name a module that Python can import" in sentence
    assert "No module named 'no_such_module'" in sentence


# A disk without room


def test_a_full_disk_is_one_sentence(
    instaaug: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gray_levels(tmp_path / "a.npz")

    def full(_: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    sentence = instaaug.error("train", "a.npz", "--out", "run", *QUICK)
    assert sentence.startswith("There is no room left for 'run/environment.json': ")
    assert not list(tmp_path.glob("run/*"))


def test_a_disk_that_fills_up_in_training_leaves_a_run_to_go_on_with(
    instaaug: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gray_levels(tmp_path / "a.npz")
    true_sync = os.fsync
    left = iter(range(5))  # environment.json, config.yaml, data.json, metrics.csv, samples.png

    def filling(descriptor: int) -> None:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        true_sync(descriptor)

    monkeypatch.setattr(os, "fsync", filling)
    sentence = instaaug.error("train", "a.npz", "--out", "run", *QUICK)
    assert sentence.startswith("There is no room left for 'run/last.ckpt': ")
    monkeypatch.setattr(os, "fsync", true_sync)
    assert not (tmp_path / "run" / "last.ckpt").exists()
    done = instaaug("resume", "run")
    assert done.code == 0, done.err
    assert results(tmp_path / "run")["steps"] == 4  # 27 images in batches of 8


def test_decoded_images_that_find_no_room_are_one_sentence(
    instaaug: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_folder(tmp_path / "pets", n=3)
    usage = type("usage", (), {"free": 0})
    monkeypatch.setattr("instaaug.data.cache.shutil.disk_usage", lambda _: usage)
    sentence = instaaug.error("train", "pets", *QUICK)
    assert sentence.startswith(
        "`--data.cache_dir` must have room for the decoded images: 9 images"
    )


# Going on


def test_a_finished_run_has_nothing_left_to_do(instaaug: CommandLine, shop: Path) -> None:
    before = (shop / "run" / "results.json").read_bytes()
    done = instaaug("resume", shop / "run")
    assert done.code == 0
    assert "is finished; nothing is left to do." in done.out
    assert (shop / "run" / "results.json").read_bytes() == before


def test_a_folder_with_a_run_is_not_overwritten(instaaug: CommandLine, shop: Path) -> None:
    sentence = instaaug.error("train", shop / "pets", "--out", shop / "run", *QUICK)
    assert f"holds a run. Go on with it by `instaaug resume {shop / 'run'}`" in sentence


@pytest.fixture
def copy(shop: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be overwritten."""
    return Path(shutil.copytree(shop / "run", tmp_path / "copy"))


def test_a_run_is_overwritten_if_that_is_asked_for(
    instaaug: CommandLine, shop: Path, copy: Path
) -> None:
    done = instaaug("train", shop / "pets", "--out", copy, "--overwrite", "--seed", "3", *QUICK)
    assert done.code == 0, done.err
    assert results(copy)["seed"] == 3
    assert [path.name for path in copy.parent.iterdir() if "replaced" in path.name] == []


def test_a_run_stays_if_the_new_one_is_refused(
    instaaug: CommandLine, shop: Path, copy: Path
) -> None:
    before = {path.name: path.stat().st_size for path in copy.iterdir()}
    done = instaaug("train", shop / "pets", "--out", copy, "--overwrite", "--model", "nobody")
    assert done.code == 2
    assert "There is no model called 'nobody'" in done.err
    assert {path.name: path.stat().st_size for path in copy.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "words"),
    [("notes.txt", r"also has notes\.txt\. Move that elsewhere"), (None, "holds no run of ours")],
)
def test_nothing_but_a_run_is_overwritten(
    instaaug: CommandLine, shop: Path, copy: Path, name: str | None, words: str
) -> None:
    if name is None:
        (copy / "config.yaml").unlink()
    else:
        (copy / name).write_text("precious")
    before = sorted(path.name for path in copy.iterdir())
    done = instaaug("train", shop / "pets", "--out", copy, "--overwrite", *QUICK)
    assert done.code == 2
    assert re.search(words, done.err)
    assert sorted(path.name for path in copy.iterdir()) == before


def test_without_a_folder_the_usual_one_is_overwritten(
    instaaug: CommandLine, shop: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        done = instaaug("train", shop / "pets", "--overwrite", "--method", "none", *QUICK)
        assert done.code == 0, done.err
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["pets-none"]


def test_no_run_to_go_on_with_is_one_sentence(instaaug: CommandLine) -> None:
    assert instaaug.error("resume", "nothing").startswith("There is no run in 'nothing'")


def test_two_runs_in_one_process_get_two_folders(instaaug: CommandLine, tmp_path: Path) -> None:
    gray_levels(tmp_path / "a.npz")
    quick = ("a.npz", "--method", "none", *QUICK)
    assert instaaug("train", *quick).code == instaaug("train", *quick).code == 0
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["a-none", "a-none-2"]
    assert "INSTAAUG_OUT" not in os.environ


@pytest.fixture
def own_signals() -> Iterator[None]:
    """What the tests below do to Ctrl-C stays with them."""
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


class Impatient(Callback):
    """Presses Ctrl-C in the first step, so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    @override
    def on_train_batch_start(self, *_: object) -> None:
        for _i in range(self.times):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("own_signals")
def test_ctrl_c_stops_gently_and_says_how_to_go_on(
    instaaug: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gray_levels(tmp_path / "a.npz")
    with monkeypatch.context() as patch:
        patch.setattr("instaaug.cli.train.RichProgress", lambda _: Impatient(1))
        done = instaaug("train", "a.npz", "--out", "my run", *QUICK)
    assert done.code == 130, done.err
    assert re.fullmatch(
        r"Stopped by SIGINT in epoch \d of 1; everything is saved\. "
        r"Go on with `instaaug resume 'my run'`\.\n",
        done.err,
    )
    assert "instaaug predict" not in done.out
    again = instaaug("resume", "my run")
    assert again.code == 0, again.err
    assert results(tmp_path / "my run")["steps"] == 4


@pytest.mark.usefixtures("own_signals")
def test_a_second_ctrl_c_stops_at_once(
    instaaug: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gray_levels(tmp_path / "a.npz")
    monkeypatch.setattr("instaaug.cli.train.RichProgress", lambda _: Impatient(2))
    done = instaaug("train", "a.npz", "--out", "run", *QUICK)
    assert done.code == 130, done.err
    assert "Stopped at once. `instaaug resume run` goes on from the last checkpoint" in done.err
    assert not (tmp_path / "run" / "last.ckpt").exists()


# Does it pay?


def printed_command(text: str, start: str) -> list[str]:
    """The words of a command that was printed in backticks."""
    found = re.search(rf"`({start} [^`]*)`", text)
    assert found is not None
    return shlex.split(found[1])


def test_a_learned_run_ends_with_the_command_that_tells_whether_it_pays(
    instaaug: CommandLine, tmp_path: Path
) -> None:
    pets = plain_folder(tmp_path / "my pets")
    done = instaaug("train", pets, *QUICK, "--out", tmp_path / "a run")
    words = printed_command(done.out, "instaaug compare")
    config = Path(words[words.index("--config") + 1])
    assert choose_settings({}, config).data.source == str(pets)
    assert "instaaug verdict" not in done.out  # there are too few validation images
    plain = instaaug("train", pets, *QUICK, "--method", "none", "--out", tmp_path / "plain")
    assert "instaaug compare" not in plain.out


@pytest.mark.slow
def test_that_command_runs(instaaug: CommandLine, tmp_path: Path) -> None:
    pets = plain_folder(tmp_path / "my pets")
    done = instaaug("train", pets, *QUICK, "--out", tmp_path / "a run")
    _, *arguments = printed_command(done.out, "instaaug compare")
    compared = instaaug(*arguments, "--seeds", "2", "--out", tmp_path / "compared")
    assert compared.code == 0, compared.err
    assert "told apart" in compared.out or "etter than" in compared.out
