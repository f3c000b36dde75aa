"""``instaaug tta``: fit views for a frozen model, score them, predict with them, export them."""

import csv
import io
import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from instaaug.data import LabeledImages
from instaaug.data.decode import decode_image
from instaaug.frozen import StaticPolicy
from instaaug.runs.folder import Run
from instaaug.runs.frozen_model import image_hashes
from instaaug.runs.inference import predict_files
from instaaug.runs.loaded import load_run
from instaaug.runs.settings import TtaSettings
from instaaug.runs.tta import fit_frozen, load_fitted
from tests.support.command_line import QUICK_FIT, SPOTTER, CommandLine
from tests.support.forked import exit_codes
from tests.support.killed import fit_and_die
from tests.support.picture_folders import truncated_jpeg
from tests.support.spots import COLORS, spot_folder

SETTINGS: dict[str, dict[str, Any]] = {
    "model": {"image_size": 16}, "crop": {"grid": [[1, 1], [0.5, 2]]},
    "views": {"counts": [2, 4]}, "phi": {"steps": 60},
}  # fmt: skip
FEW_STEPS = ("--phi.steps", "2")
FILES = {
    "config.yaml", "environment.json", "data.json", "fit_images.txt", "table", "aug.safetensors",
    "policy.json", "crops.png", "results.json", "timing.json",
}  # fmt: skip


@pytest.fixture(autouse=True)
def undrawn(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One figure of crops is enough."""
    monkeypatch.setattr("instaaug.runs.tta.crops_figure", lambda *_: None)


@pytest.fixture
def spots(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INSTAAUG_CACHE", str(place / "cache"))
    return place / "spots"


@pytest.fixture
def fit(place: Path, spots: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    shutil.copytree(place / "fit", tmp_path / "fit")
    return tmp_path / "fit"


def content(file: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(file.read_text())
    return values


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def must_not(*_: object, **__: object) -> NoReturn:
    raise AssertionError("This should not have been called.")


# Fit


def test_a_fit_leaves_everything_behind_and_says_what_it_gained(place: Path) -> None:
    assert {path.name for path in (place / "fit").iterdir()} == FILES
    results = content(place / "fit" / "results.json")
    assert results["n_fit"] + results["n_test"] == 72
    assert (results["n_test"], results["n_views"]) == (36, 5)
    image, two, four = results["rows"]
    assert [row["views"] for row in results["rows"]] == [1, 2, 4]
    assert image["accuracy"] < 0.8 < two["accuracy"]  # the right quarter is found
    assert all(row["low"] <= row["accuracy"] <= row["high"] for row in results["rows"])
    assert {"nll", "ece", "nll_after", "ece_after", "temperature"} <= four.keys()
    assert image["cost"] + 3 == pytest.approx(four["cost"])  # φ is counted in both
    settings = yaml.safe_load((place / "fit" / "config.yaml").read_text())
    assert settings["kind"] == "tta"
    assert settings["model"]["name"] == SPOTTER
    assert settings["data"]["source"] == str(place / "spots")
    for section, values in SETTINGS.items():
        assert values.items() <= settings[section].items()
    assert StaticPolicy.load(place / "fit" / "policy.json").n == 4


def test_the_table_is_printed_with_the_classes_and_what_to_do_next(place: Path) -> None:
    words = (place / "printed.txt").read_text()
    fit = place / "fit"
    assert "φ has learned from 5 views of each of 36 images." in words
    assert f"The model's outputs are {', '.join(COLORS)}, in this order." in words
    assert "On 36 held-out images" in words
    accuracy = content(fit / "results.json")["rows"][1]["accuracy"]
    cost = content(fit / "results.json")["rows"][1]["cost"]
    assert f"│ 2 views         │ {cost:>4.3g} │ {accuracy:>8.1%} │" in words
    assert "Cost is in multiply-adds; 1 is a pass of the whole image." in words
    assert f"Look at {fit / 'crops.png'}; all numbers are in {fit / 'results.json'}." in words
    assert f"`instaaug evaluate {fit}`" in words
    assert f"`instaaug predict {fit} IMAGES`" in words
    assert "chance" not in words


def test_a_finished_fit_is_told_again_and_not_repeated(
    instaaug: CommandLine, fit: Path, spots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instaaug.runs.tta.fit_views", must_not)
    done = instaaug("tta", "fit", SPOTTER, spots, "--out", fit, *QUICK_FIT)
    assert done.code == 0, done.err
    assert "On 36 held-out images" in done.out
    sentence = instaaug.error("tta", "fit", SPOTTER, spots, "--out", fit, *QUICK_FIT, "--seed", 1)
    assert "'seed'" not in sentence
    assert "fit' has seed 0 instead of 1. Choose another folder, or replace" in sentence


def test_a_fit_is_overwritten_if_that_is_asked_for(
    instaaug: CommandLine, spots: Path, fit: Path
) -> None:
    command = ("tta", "fit", SPOTTER, spots, "--out", fit, *QUICK_FIT, "--overwrite", "--seed")
    done = instaaug(*command, "1")
    assert done.code == 0, done.err
    assert yaml.safe_load((fit / "config.yaml").read_text())["seed"] == 1
    (fit / "notes.txt").write_text("precious")
    done = instaaug(*command, "2")
    assert "also has notes.txt" in done.err
    assert yaml.safe_load((fit / "config.yaml").read_text())["seed"] == 1


def test_the_default_folder_is_found_again_by_the_same_command(
    instaaug: CommandLine, spots: Path, tmp_path: Path
) -> None:
    few = ("--data.limit", 12, *QUICK_FIT, "--views", 2, *FEW_STEPS)
    command = ("tta", "fit", SPOTTER, spots, *few)
    first = instaaug(*command)
    assert first.code == 0, first.err
    assert "in runs/spots-tta." in first.out
    before = (tmp_path / "runs" / "spots-tta" / "aug.safetensors").stat().st_mtime_ns
    assert "in runs/spots-tta." in instaaug(*command).out
    assert (tmp_path / "runs" / "spots-tta" / "aug.safetensors").stat().st_mtime_ns == before
    assert "in runs/spots-tta-2." in instaaug(*command, "--data.test_fraction", 0).out
    everything = content(tmp_path / "runs" / "spots-tta-2" / "results.json")
    assert (everything["n_fit"], everything["n_test"]) == (12, 0)
    assert "DATA" in instaaug(*command, "--data.test_fraction", 0).out
    nothing_left = instaaug.error("evaluate", "runs/spots-tta-2")
    assert nothing_left.startswith("`data` must be given: the fit held no image out.")


def test_a_killed_fit_goes_on_and_ends_with_the_same_weights(
    instaaug: CommandLine, place: Path, spots: Path, tmp_path: Path
) -> None:
    settings = {**SETTINGS, "model": {"name": SPOTTER, "image_size": 16}, "data": str(spots)}
    assert exit_codes(fit_and_die, (settings, "fit", 32)) == [-signal.SIGKILL]
    assert content(tmp_path / "fit" / "table" / "table.json")["n_done"] == 32
    unfinished = instaaug.error("predict", "fit", spots)
    assert unfinished.startswith("The fit in 'fit' has not finished: there is no aug.safetensors.")
    done = instaaug("tta", "fit", SPOTTER, spots, "--out", "fit", *QUICK_FIT)
    assert done.code == 0, done.err
    for name in ("results.json", "policy.json", "data.json"):
        assert (tmp_path / "fit" / name).read_bytes() == (place / "fit" / name).read_bytes(), name
    weights, whole = (load_file(at / "fit" / "aug.safetensors") for at in (tmp_path, place))
    assert weights.keys() == whole.keys()
    assert all(torch.equal(weights[name], whole[name]) for name in whole)


def test_more_images_than_a_table_holds_are_streamed(
    instaaug: CommandLine, spots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instaaug.frozen.streaming.FEWEST_ROWS", 8)
    room = ("--data.max_table_gb", "0.0003")
    done = instaaug("tta", "fit", SPOTTER, spots, "--out", "fit", *QUICK_FIT, *room)
    assert done.code == 0, done.err
    words = r"5 views of (\d+) images would take \S+ GB: learning from a stream, after a table of"
    found = re.search(rf"{words} (\d+) images\.", " ".join(done.out.split()))
    assert found, done.out
    n_images, n_table = map(int, found.groups())
    assert content(tmp_path / "fit" / "results.json")["n_fit"] == n_images
    assert content(tmp_path / "fit" / "table" / "table.json")["n_rows"] == n_table < n_images
    files = (tmp_path / "fit" / "table").glob("*.npy")
    assert sum(file.stat().st_size for file in files) < 301_000
    assert instaaug("evaluate", "fit", "--baselines", "grid", "--views", "2").code == 0


def test_ctrl_c_keeps_what_the_model_has_said(
    instaaug: CommandLine, spots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[int] = []

    def impatient(config: TtaSettings, out: Path, *, on_table: Any, **others: Any) -> Any:
        def watched(done: int, total: int) -> None:
            reports.append(done)
            if len(reports) == 2:
                raise KeyboardInterrupt

        return fit_frozen(config, out, on_table=watched, **others)

    monkeypatch.setattr("instaaug.cli.train.fit_frozen", impatient)
    shared = (*QUICK_FIT, *FEW_STEPS, "--phi.features", "none")
    command = ("tta", "fit", SPOTTER, spots, "--out", "fit", *shared)
    stopped = instaaug(*command)
    assert stopped.code == 130
    assert stopped.err.startswith("Stopped. The same command continues")
    assert instaaug(*command).code == 0
    assert reports[:3] == [0, 32, 32]  # the second time it begins with the 33rd image


@pytest.mark.parametrize(("function", "output"), [("as_dict", "scores"), ("as_pair", "1")])
def test_a_model_that_returns_more_than_logits_is_told_which(
    instaaug: CommandLine, spots: Path, place: Path, function: str, output: str
) -> None:
    model = f"tests.support.spots:{function}"
    more = ("--model.output", output, "--data.limit", 12, *FEW_STEPS)
    done = instaaug("tta", "fit", model, spots, "--out", "fit", *QUICK_FIT, *more)
    assert done.code == 0, done.err
    assert instaaug("predict", "fit", spots / "red" / "0.png").code == 0


def test_the_objective_of_the_paper_can_be_asked_for(
    instaaug: CommandLine, spots: Path, tmp_path: Path
) -> None:
    paper = ("--phi.objective", "single", "--entropy", "[1, 1.2]", "--phi.network", "glance")
    few = ("--data.limit", 12, *QUICK_FIT, *FEW_STEPS)
    done = instaaug("tta", "fit", SPOTTER, spots, "--out", "fit", *paper, *few)
    assert done.code == 0, done.err
    fitted = load_fitted(Run(tmp_path / "fit"))
    assert fitted.aug.settings.network == "glance"
    assert fitted.aug.limits == {"crop": (1.0, 1.2)}
    unknown = ("--phi.network", "glans", "--out", "other")
    sentence = instaaug.error("tta", "fit", SPOTTER, spots, *unknown, *few)
    assert "called 'glans'. Did you mean 'glance'?" in sentence


def test_ranges_are_learned_too(instaaug: CommandLine, spots: Path, tmp_path: Path) -> None:
    few = ("--data.limit", 12, "--model.image_size", 16, *FEW_STEPS)
    learned = ("--transforms", "[rotation, hsv_jitter]", "--views", "[2, 3]")
    done = instaaug("tta", "fit", SPOTTER, spots, "--out", "fit", *learned, *few)
    assert done.code == 0, done.err
    made = {path.name for path in (tmp_path / "fit").iterdir()}
    assert FILES - made == {"policy.json", "crops.png", "table"}
    sentence = instaaug.error("export", "fit", "policy.json")
    assert sentence.startswith("`file` cannot be a policy: φ of 'fit' gives ranges")
    done = instaaug("evaluate", "fit", "--views", "1,2,3", "--baselines", "image")
    assert done.code == 0, done.err


def test_a_run_of_ours_is_a_model_and_its_training_images_are_left_alone(
    instaaug: CommandLine, shop: Path, tmp_path: Path
) -> None:
    pets = ("--crop.grid", "[[1, 1], [0.5, 2]]", "--views", "2", *FEW_STEPS)
    done = instaaug("tta", "fit", shop / "run", shop / "pets", "--out", "fit", *pets)
    assert done.code == 0, done.err
    trained = content(shop / "run" / "results.json")
    results = content(tmp_path / "fit" / "results.json")
    assert results["n_fit"] + results["n_test"] == trained["n_test"]
    facts = Run(tmp_path / "fit").read_facts()
    assert (facts.image_size, facts.decode_size, facts.classes) == (16, 32, ("cat", "dog", "ibis"))
    assert "in this order" not in done.out  # the run knows its classes


# Errors that newcomers make


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("no_such_module:make", "`model` 'no_such_module:make' must name a module that Python"),
        ("tests.support.spots:nothing", "`model` 'tests.support.spots:nothing' must name a func"),
        ("tests.support.spots:no_model", "`model` 'tests.support.spots:no_model' must return an"),
        ("tests.support.spots:as_dict", "`model` must return logits: got a dict with scores, los"),
        ("tests.support.spots:four_outputs", "`model` has 4 outputs, but there are 3 classes: "),
        ("tests.support.spots:without_weights", "`model` 'tests.support.spots:without_weights' c"),
        ("tests.support.spots:of_pixels", "`model` must have a feature map or tokens"),
        ("timm:resnet18", "`model` 'timm:resnet18' needs timm, which is not installed."),
        ("resnet18", "`model` must be a module:function that returns a trained model, timm:NAME"),
        (".", "There is no run in "),
    ],
)
def test_a_model_that_cannot_be_used_is_one_sentence_and_leaves_nothing(
    instaaug: CommandLine, spots: Path, tmp_path: Path, model: str, words: str
) -> None:
    sentence = instaaug.error("tta", "fit", model, spots, "--out", "fit", *QUICK_FIT)
    assert sentence.startswith(words)
    assert not (tmp_path / "fit").exists()


def test_images_of_one_class_are_one_sentence(
    instaaug: CommandLine, spots: Path, tmp_path: Path
) -> None:
    shutil.copytree(spots / "red", tmp_path / "only" / "red")
    sentence = instaaug.error("tta", "fit", SPOTTER, "only", *QUICK_FIT)
    assert sentence.startswith("A classifier needs at least two classes: got 1 ('red').")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--crop.grid", "1-1"), "`--crop.grid` must be like [[0.5, 3], ...]: got '1-1'."),
        (("--crop.grid", "[[1.5, 1]]"), "`--crop.grid` must be pairs of a size in (0, 1]"),
        (("--views", "[1, 4]"), "`views` must be whole numbers from 2 on"),
        (("--views", "few"), "`--views` must be like [3, ...]: got 'few'."),
        (("--model.mean", "0.5"), "`--model.mean` and `--model.std` must be given both"),
        (("--data.test_fraction", "1"), "`--data.test_fraction` must lie in [0, 1): got 1.0."),
        (("--data.limit", "1"), "`--data.limit` must be at least 2: got 1."),
        (("--transforms", "rotate"), "There is no transform called 'rotate'. Did you mean"),
        (
            ("--transforms", "rotation", "--phi.objective", "views"),
            "`--phi.objective views` needs views",
        ),
        (("--model.classes", "absent.txt"), "'absent.txt' cannot be used: No such file"),
        (("--out", "SPOTS/fit"), "`out` must lie outside of the images"),
    ],
)
def test_a_setting_that_cannot_work_is_one_sentence(
    instaaug: CommandLine, spots: Path, options: tuple[str, ...], words: str
) -> None:
    given = [option.replace("SPOTS", str(spots)) for option in options]
    command = ("--model.image_size", 16, "--data.limit", 8, "--phi.steps", 1, *given)
    assert instaaug.error("tta", "fit", SPOTTER, spots, *command).startswith(words)


def test_classes_in_another_order_are_told_by_a_file(
    instaaug: CommandLine, spots: Path, tmp_path: Path
) -> None:
    """The model's outputs are taken for green, red, blue: it is wrong almost everywhere."""
    (tmp_path / "names.txt").write_text("green\nred\nblue\n")
    few = ("--model.classes", "names.txt", "--data.limit", 30, "--phi.steps", 2)
    done = instaaug("tta", "fit", SPOTTER, spots, "--out", "fit", *QUICK_FIT, *few)
    assert done.code == 0, done.err
    assert "Check --model.classes, --model.mean, --model.std and --model.image_size." in done.out
    assert "in this order" not in done.out
    assert Run(tmp_path / "fit").read_facts().classes == ("green", "red", "blue")
    (tmp_path / "names.txt").write_text("green\nred\npurple\n")
    sentence = instaaug.error("tta", "fit", SPOTTER, spots, "--out", "new", *QUICK_FIT, *few)
    assert sentence.startswith("`data` must have the classes that the model knows: blue is new.")


# Eval


def test_scores_stand_beside_those_of_other_methods(
    instaaug: CommandLine, place: Path, fit: Path
) -> None:
    done = instaaug("evaluate", fit, "--views", "1,2,5")
    assert done.code == 0, done.err
    scores = content(fit / "eval.json")
    rows = {(row["name"], row["views"]): row for row in scores["rows"]}
    assert scores["n"] == 36
    assert {views for name, views in rows if name == "learned views"} == {2, 5}
    assert ("five crop", 5) in rows
    assert not any(name == "ten crop" for name, _ in rows)  # beyond the budget
    image, two, _ = content(fit / "results.json")["rows"]
    assert rows["the image alone", 1]["accuracy"] == image["accuracy"]
    assert rows["learned views", 2]["accuracy"] == two["accuracy"]
    for row in rows.values():
        assert f"{row['accuracy']:.1%}" in done.out
    first = scores["comparisons"][0]
    ours = rows["learned views", 2]
    rivals = [
        row["accuracy"]
        for (name, _), row in rows.items()
        if row["cost"] <= ours["cost"] and "learned" not in name
    ]
    assert first["difference"] == pytest.approx(two["accuracy"] - max(rivals))
    assert first["only_learned"] - first["only_best"] == pytest.approx(first["difference"] * 36)
    assert 0 < first["p_value"] <= 1
    assert "only here right" in done.out
    assert (fit / "cost_curve.png").is_file()
    assert f"Look at {fit / 'cost_curve.png'}; all numbers are in {fit / 'eval.json'}." in done.out


def test_certain_images_get_fewer_views_and_all_rows_can_be_calibrated(
    instaaug: CommandLine, fit: Path
) -> None:
    options = ("--certainty", "0.5,0.9", "--mean_views", "1.5", "--calibrate")
    done = instaaug("evaluate", fit, "--views", "4", "--baselines", "flips", *options)
    assert done.code == 0, done.err
    rows = content(fit / "eval.json")["rows"]
    views = {row["name"]: row["views"] for row in rows}
    assert 1 <= views["learned views until 0.5 certain"] < 4
    assert views["learned views until 0.5 certain"] <= views["learned views until 0.9 certain"]
    assert views["learned views, 1.5 on average"] == 1.5
    assert views["image and mirror image"] == 2
    assert all("temperature" in row and "nll_after" in row for row in rows)
    assert "NLL after T" in done.out
    fitted = content(fit / "results.json")["rows"][2]
    (ours,) = (row for row in rows if row["name"] == "learned views")
    assert (ours["temperature"], ours["nll_after"]) == pytest.approx(
        (fitted["temperature"], fitted["nll_after"]), rel=1e-3
    )


def test_another_model_may_use_the_views(instaaug: CommandLine, fit: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("red\ngreen\nblue\n")
    other = "tests.support.spots:in_another_order"
    options = ("--model", other, "--model.classes", "names.txt", "--model.image_size", 16)
    command = ("evaluate", fit, "--views", "4", "--baselines", "none")
    own = instaaug(*command)
    assert own.code == 0, own.err
    done = instaaug(*command, *options)
    assert done.code == 0, done.err
    assert f"{other} predicts from views that were fitted for {SPOTTER}, and not" in done.out
    assert "Nothing is calibrated for it; --calibrate does that." in done.out
    assert "Cost is in multiply-adds; 1 is a pass of the whole image." in done.out
    file = fit / "eval-tests.support.spots-in_another_order.json"
    assert f"all numbers are in {file}." in done.out
    assert content(file)["rows"][0]["accuracy"] == pytest.approx(
        content(fit / "eval.json")["rows"][0]["accuracy"]
    )
    sentence = instaaug.error("evaluate", fit, "--model.classes", "names.txt")
    assert sentence.startswith("`--model.classes` describes another model: got no --model.")


def test_images_of_the_fit_are_left_out_of_other_images(
    instaaug: CommandLine, fit: Path, spots: Path, tmp_path: Path
) -> None:
    command = ("evaluate", fit, "--views", "2", "--baselines", "none")
    instaaug(*command)
    own = content(fit / "eval.json")
    done = instaaug(*command[:2], spots, *command[2:])
    assert "36 images are left out: φ has learned from them." in done.out
    other = content(fit / "eval.json")
    assert (other["n"], other["n_left_out"], own["n_left_out"]) == (36, 36, 0)
    assert other["rows"] == own["rows"]
    new = spot_folder(tmp_path / "new", 4, seed=1)
    assert "left out" not in instaaug(*command[:2], new, *command[2:]).out
    assert content(fit / "eval.json")["n"] == 12


def test_there_must_be_images_that_were_not_learned_from(
    instaaug: CommandLine, fit: Path, spots: Path, tmp_path: Path
) -> None:
    learned = set((fit / "fit_images.txt").read_text().split())
    for file in sorted(spots.rglob("*.png")):
        if file_hash(file) in learned:
            target = tmp_path / "old" / file.parent.name / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    sentence = instaaug.error("evaluate", fit, "old")
    assert sentence.startswith("`data` must hold images that φ has not learned from: all 36")


def file_hash(file: Path) -> str:
    pixels = decode_image(file, size=32, channels=3)[None]
    return image_hashes(LabeledImages(pixels, torch.zeros(1, dtype=torch.long), ("a", "b")))[0]


def test_other_images_in_the_place_of_the_own_are_noticed(
    instaaug: CommandLine, place: Path, fit: Path, tmp_path: Path
) -> None:
    settings = yaml.safe_load((fit / "config.yaml").read_text())
    settings["data"]["source"] = str(spot_folder(tmp_path / "other", 24, seed=2))
    (fit / "config.yaml").write_text(yaml.safe_dump(settings))
    sentence = instaaug.error("evaluate", fit)
    assert sentence.startswith(
        "`data` must be the same as when the run began: the split had the hash "
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--views", "few"), "`views` must be whole numbers with commas, such as 1,4,10: got"),
        (("--baselines", "ten"), "There is no baseline called 'ten'. Did you mean 'ten_crop'?"),
        (("--certainty", "high"), "`certainty` must be one number, or several with commas"),
        (("--certainty", "1.5"), "`certainty` must be a probability in (0, 1]: got 1.5."),
        (("--mean_views", "0.5"), "`mean_views` must be at least 1"),
    ],
)
def test_an_evaluation_that_cannot_work_is_one_sentence(
    instaaug: CommandLine, place: Path, spots: Path, options: tuple[str, ...], words: str
) -> None:
    assert instaaug.error("evaluate", place / "fit", *options).startswith(words)


# Folders that are not whole


@pytest.mark.parametrize("name", ["aug.safetensors", "results.json"])
def test_a_fit_without_its_weights_has_not_finished(
    instaaug: CommandLine, fit: Path, spots: Path, name: str
) -> None:
    (fit / name).unlink()
    sentence = instaaug.error("predict", fit, spots)
    assert sentence.endswith(
        f"has not finished: there is no {name}. The same `instaaug tta fit` again goes on with it."
    )


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("data.json", "{}", "data.json' must be as the run wrote it: its image_size"),
        (
            "results.json",
            '{"rows": [{}]}',
            "results.json' must be as the run wrote it: 'temperatures'.",
        ),
        ("aug.safetensors", "junk", "aug.safetensors' is no readable safetensors file"),
        ("config.yaml", "madel: x", "There is no setting in "),
    ],
)
def test_a_spoiled_file_is_one_sentence(
    instaaug: CommandLine, fit: Path, spots: Path, name: str, text: str, words: str
) -> None:
    (fit / name).write_text(text)
    assert words in instaaug.error("predict", fit, spots)


def test_a_model_that_forgets_its_weights_is_noticed(
    instaaug: CommandLine, spots: Path, tmp_path: Path
) -> None:
    few = ("--data.limit", 8, "--out", "fit", *QUICK_FIT, *FEW_STEPS)
    assert instaaug("tta", "fit", "tests.support.spots:untrained", spots, *few).code == 0
    sentence = instaaug.error("predict", "fit", spots)
    assert sentence.startswith("`model` must be the one that φ was fitted for: ")
    assert "Does it load its weights?" in sentence


# Predict


def test_predictions_are_a_table(
    instaaug: CommandLine, place: Path, spots: Path, tmp_path: Path
) -> None:
    done = instaaug("predict", place / "fit", spots, "--views", 2)
    assert done.code == 0, done.err
    rows = table(done.out)
    assert list(rows[0]) == ["path", "label", "probability", "error"]
    right = [Path(row["path"]).parent.name == row["label"] for row in rows]
    assert len(rows) == 72
    assert np.mean(right) > 0.8
    instaaug("predict", place / "fit", spots, "--views", 2, "--out", "p.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [{k: str(v) for k, v in line.items()} for line in lines] == rows


def test_one_view_is_the_model_itself_calibrated(
    instaaug: CommandLine, place: Path, spots: Path
) -> None:
    """32 pixels become 16 by averaging, and the model only averages."""
    fitted = load_fitted(Run(place / "fit"))
    file = spots / "blue" / "1.png"
    (row,) = predict_files(place / "fit", [file], n_views=1, n_top=3)
    pixels = torch.from_numpy(decode_image(file, size=32, channels=3)).permute(2, 0, 1)[None]
    small = torch.nn.functional.avg_pool2d(pixels / 255, 2)
    logits = fitted.model.module(small)[0] / fitted.temperature(1)
    probs = dict(zip(COLORS, logits.softmax(dim=0).tolist(), strict=True))
    for suffix in ("", "_2", "_3"):
        assert row[f"probability{suffix}"] == pytest.approx(probs[row[f"label{suffix}"]], abs=1e-4)


def test_early_stopping_adds_a_column(instaaug: CommandLine, place: Path, spots: Path) -> None:
    alone = predict_files(place / "fit", [spots / "red"], n_views=1)
    enough = sorted(row["probability"] for row in alone)[12]  # for half of the images
    command = ("predict", place / "fit", spots / "red", "--certainty", enough)
    rows = table(instaaug(*command, "--top", 2).out)
    names = ["path", "label", "probability", "label_2", "probability_2", "views", "error"]
    assert list(rows[0]) == names
    views = [int(row["views"]) for row in rows]
    assert 1 == min(views) < max(views) <= 4
    doubtful = [float(r["probability"]) for r, n in zip(rows, views, strict=True) if n < 4]
    assert min(doubtful) >= enough - 1e-5


def test_a_bad_file_is_listed_or_stops(
    instaaug: CommandLine, place: Path, spots: Path, tmp_path: Path
) -> None:
    truncated_jpeg(tmp_path / "half.jpg")
    command = ("predict", place / "fit", "half.jpg")
    assert "cannot be read as an image" in instaaug.error(*command)
    done = instaaug(*command, "--on_bad_image", "skip", "--certainty", 0.9)
    (row,) = table(done.out)
    assert (row["label"], row["views"]) == ("", "")
    assert "`out` must end in .csv or .jsonl" in instaaug.error(*command, "--out", "p.txt")


# Export


@pytest.mark.slow  # docs/frozen.md has the same commands, tests/frozen what they write
def test_phi_and_the_policy_leave_for_other_programs(
    instaaug: CommandLine, fit: Path, spots: Path, tmp_path: Path
) -> None:
    done = instaaug("export", fit, "phi.pt2", "--part", "phi")
    assert done.code == 0, done.err
    assert done.out.startswith("φ is in phi.pt2; read back, its outputs differ by ")
    phi = torch.export.load("phi.pt2").module()
    log_probs = phi(torch.rand(3, 3, 32, 32))["crop.log_probs"]
    assert log_probs.shape == (3, 5)
    assert torch.allclose(log_probs.exp().sum(dim=1), torch.ones(3), atol=1e-5)

    assert instaaug("export", fit, "new/views.json").code == 0
    assert StaticPolicy.load("new/views.json") == StaticPolicy.load(fit / "policy.json")
    there = instaaug("export", fit, fit / "policy.json")
    assert there.out == f"The best views on average are in {fit / 'policy.json'}.\n"
    sentence = instaaug.error("export", fit, "phi.txt")
    assert sentence.startswith("`file` must end in .onnx or .pt2, or in .json")
    said = instaaug("export", fit, "model.pt2", "--views", 3)
    assert said.out.startswith("The predictor is in model.pt2; read back"), said.err
    x = torch.rand(3, 3, 32, 32)
    module = load_run(fit).make_module(3).eval()
    logits = torch.export.load("model.pt2").module()(x)["logits"]
    torch.testing.assert_close(logits, module(x), atol=1e-4, rtol=0)
    sentence = instaaug.error("export", fit, "model.pt2", "--tolerance", "0")
    assert "`tolerance` must be above 0" in sentence
