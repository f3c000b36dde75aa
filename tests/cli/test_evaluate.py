"""``instaaug evaluate``: the run's own test images, or others."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.support.command_line import CommandLine
from tests.support.picture_folders import plain_folder


def test_the_own_test_images_give_the_results_of_training(
    instaaug: CommandLine, shop: Path, tmp_path: Path
) -> None:
    done = instaaug("evaluate", shop / "run", "--json", "new/scores.json")
    assert done.code == 0, done.err
    assert "On 7 test images" in done.out
    results = json.loads((shop / "run" / "results.json").read_text())
    assert json.loads((tmp_path / "new" / "scores.json").read_text()) == results["test"]


def test_another_folder_is_scored_as_a_whole(
    instaaug: CommandLine, shop: Path, tmp_path: Path
) -> None:
    plain_folder(tmp_path / "others", n=3)
    done = instaaug("evaluate", shop / "run", "others", "--json", "scores.json")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "scores.json").read_text())["plain"]["n"] == 9


def test_classes_are_matched_by_name_not_by_number(
    instaaug: CommandLine, shop: Path, tmp_path: Path
) -> None:
    plain_folder(tmp_path / "all", n=4)
    shutil.copytree(tmp_path / "all", tmp_path / "two")
    shutil.rmtree(tmp_path / "two" / "cat")  # now "dog" is the first class of the folder
    scores = {}
    for name in ("all", "two"):
        instaaug("evaluate", shop / "run", name, "--views", 0, "--json", f"{name}.json")
        scores[name] = json.loads((tmp_path / f"{name}.json").read_text())["plain"]
    run = instaaug("predict", shop / "run", "two", "--views", 0).out.splitlines()[1:]
    right = sum(line.split(",")[0].split("/")[1] == line.split(",")[1] for line in run)
    assert scores["two"]["n"] == len(run) == 8
    assert scores["two"]["top1"] == pytest.approx(right / 8)


def test_no_views_means_no_augmentation(instaaug: CommandLine, shop: Path) -> None:
    done = instaaug("evaluate", shop / "run", "--views", 0)
    assert "the image" in done.out
    assert "2 views" not in done.out


def test_an_unknown_class_is_one_sentence(
    instaaug: CommandLine, shop: Path, tmp_path: Path
) -> None:
    plain_folder(tmp_path / "others", n=3)
    (tmp_path / "others" / "ibis").rename(tmp_path / "others" / "yak")
    assert instaaug.error("evaluate", shop / "run", "others") == (
        "`data` must have the classes that the model knows: yak is new. It knows cat, dog, ibis."
    )


def test_images_that_came_since_are_one_sentence(
    instaaug: CommandLine, shop: Path, tmp_path: Path
) -> None:
    shutil.copytree(shop / "pets", tmp_path / "pets")
    shutil.copytree(shop / "run", tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace(str(shop / "pets"), "pets"))
    assert instaaug("evaluate", "run").code == 0  # moved, but the same
    (tmp_path / "pets" / "cat" / "rgb 0.png").unlink()
    assert instaaug.error("evaluate", "run").startswith(
        "`data` must be the same as when the run began: the split had the hash "
    )


def test_arrays_of_another_size_are_one_sentence(
    instaaug: CommandLine, shop: Path, tmp_path: Path
) -> None:
    images, labels = np.zeros((6, 20, 20, 3), dtype=np.uint8), np.arange(6) % 3
    classes = np.array(["cat", "dog", "ibis"])
    np.savez(tmp_path / "a.npz", images=images, labels=labels, classes=classes)
    assert "20 pixels and 3 channels, got 16 and 3." in instaaug.error(
        "evaluate", shop / "run", "a.npz"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing",), "There is no run in 'nothing': it has no config.yaml."),
        (("RUN", "missing/dir"), "There is no folder or file 'missing/dir'."),
        (("RUN", "--json", "RUN"), "cannot be used: "),
    ],
)
def test_what_is_not_there_is_one_sentence(
    instaaug: CommandLine, shop: Path, arguments: tuple[str, ...], words: str
) -> None:
    given = [str(shop / "run") if argument == "RUN" else argument for argument in arguments]
    assert words in instaaug.error("evaluate", *given)
