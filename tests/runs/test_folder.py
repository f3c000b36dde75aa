"""The files of a run: complete, readable again, and harmless whatever somebody put into them."""

import csv
import json
import pickle
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import yaml
from lightning.pytorch import Callback, LightningModule, Trainer
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor
from typing_extensions import override

from instaaug.data import load_data
from instaaug.errors import ArgumentError, DataError, InstaAugError, WeightsFileError
from instaaug.runs.build import load_task
from instaaug.runs.folder import DataFacts, Run
from instaaug.runs.settings import TrainSettings, TtaSettings
from instaaug.runs.training import resume, train
from instaaug.tasks import AugmentedTask, make_predictor
from instaaug.yaml_files import read_yaml
from tests.runs.conftest import few_sprites

CONFIG = TrainSettings.from_mapping(
    {
        "trainer.max_epochs": 1,
        "data.batch_size": 16,
        "data.image_size": 16,
        "views.n_views": 2,
        "transforms": "crop",
        "trainer.accelerator": "cpu",
    }
)
FACTS = DataFacts(16, 3, ("a", "b"), 2, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2), "0123456789abcdef")


class Finished(NamedTuple):
    run: Run
    task: AugmentedTask
    results: dict[str, Any]


class Catch(Callback):
    """Holds on to the task that is trained."""

    task: AugmentedTask

    @override
    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, AugmentedTask)
        self.task = pl_module


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    out, catch = tmp_path_factory.mktemp("runs") / "a run", Catch()
    with pytest.MonkeyPatch.context() as patch:
        few_sprites(patch)
        patch.setattr("sys.argv", ["/secret/bin/instaaug", "train", "--trainer.max_epochs", "1"])
        results = train(CONFIG, out, callbacks=[catch])
    return Finished(Run(out), catch.task, results)


@pytest.fixture
def run(finished: Finished, tmp_path: Path) -> Run:
    """A copy that a test may spoil."""
    shutil.copytree(finished.run.path, tmp_path / "copy")
    return Run(tmp_path / "copy")


def images() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (5, 3, 16, 16), generator=generator, dtype=torch.uint8)


# What a run knows of its data


def test_facts_survive_json() -> None:
    assert DataFacts.from_dict(json.loads(json.dumps(asdict(FACTS)))) == FACTS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_targets", "touch hacked"),  # what a model named os:system would be called with
        ("n_targets", 2.0),
        ("n_targets", True),
        ("image_size", None),
        ("channels", "3"),
        ("classes", "cat"),
        ("classes", ["cat", 1]),
        ("mean", [0.5, "0.4", 0.3]),
        ("std", 0.1),
        ("split_hash", 7),
        ("resemblance", "0.9"),
    ],
)
def test_facts_of_another_type_are_refused(name: str, value: Any) -> None:
    values = json.loads(json.dumps(asdict(FACTS))) | {name: value}
    with pytest.raises(TypeError, match=f"its {name} is of another type"):
        DataFacts.from_dict(values)


def test_facts_with_an_unknown_name_are_refused() -> None:
    values = json.loads(json.dumps(asdict(FACTS))) | {"more": 1}
    with pytest.raises(TypeError, match="unexpected keyword argument 'more'"):
        DataFacts.from_dict(values)


def test_facts_are_those_of_the_training_images() -> None:
    splits = load_data("sprites", size=16)
    facts = DataFacts.of(splits)
    pixels = splits.train.__getitems__(range(len(splits.train)))[0].double() / 255
    assert (facts.image_size, facts.channels, facts.n_targets) == (16, 3, 4)
    assert facts.classes == splits.test.classes
    torch.testing.assert_close(
        torch.tensor(facts.mean, dtype=torch.float64),
        pixels.mean(dim=(0, 2, 3)),
        atol=1e-6,
        rtol=0,
    )
    assert facts.split_hash == splits.hash


def test_facts_of_a_regression_count_its_numbers() -> None:
    facts = DataFacts.of(load_data("sprite-angle", size=16, task="regression"))
    assert (facts.classes, facts.n_targets) == ((), 1)


# What a run writes


def test_a_finished_run_has_all_its_files_and_none_half_written(finished: Finished) -> None:
    assert {path.name for path in finished.run.path.iterdir()} == {
        *("config.yaml", "data.json", "environment.json", "last.ckpt", "metrics.csv"),
        *("model.safetensors", "aug.safetensors", "results.json", "samples.png", "timing.json"),
        "tensorboard",
    }


def test_the_files_say_what_was_returned(finished: Finished) -> None:
    run = finished.run
    assert run.read_settings() == CONFIG
    assert json.loads(run.results_file.read_text()) == finished.results
    assert run.read_facts().split_hash == finished.results["split_hash"]
    assert json.loads((run.path / "timing.json").read_text())["seconds"] > 0
    with run.metrics.open() as file:
        (row,) = csv.DictReader(file)
    assert int(row["step"]) == finished.results["steps"] == 3  # 43 images in batches of 16
    with Image.open(run.path / "samples.png") as picture:
        assert min(picture.size) >= 8 * 2 * 16  # eight rows of 16 pixels, enlarged to be seen


def test_the_environment_knows_versions_and_the_command_but_no_place(finished: Finished) -> None:
    environment = json.loads((finished.run.path / "environment.json").read_text())
    assert environment["command"] == "instaaug train --trainer.max_epochs 1"
    assert environment["torch"] == torch.__version__
    text = json.dumps(environment)
    assert "/" not in text
    assert "\\" not in text


@pytest.mark.parametrize("n_samples", [0, 3])
def test_a_loaded_task_gives_the_outputs_of_the_trained_one(
    finished: Finished, n_samples: int
) -> None:
    loaded = load_task(finished.run)
    assert not loaded.training
    before, after = (make_predictor(t, n_samples=n_samples) for t in (finished.task, loaded))
    assert torch.equal(before(images()), after(images()))


# Beginning


def test_a_folder_that_holds_a_run_is_refused_and_left_as_it_is(run: Run) -> None:
    before = run.config_file.read_bytes()
    with pytest.raises(ArgumentError, match=r"'.*copy' holds a run\. Go on with it by `instaaug"):
        train(CONFIG.override({"seed": 1}), run.path)
    assert run.config_file.read_bytes() == before
    assert run.model_file.is_file()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": "spirits"}, r"no data set, folder or file called 'spirits'\. .*'sprites'"),
        ({"data": "no/such/folder"}, "There is no folder or file 'no/such/folder'"),
        ({"model": "resnet"}, "There is no model called 'resnet'"),
        ({"transforms": "rotate"}, "There is no transform called 'rotate'"),
        (
            {"trainer.precision": "7-bit"},
            "precision that suit this machine. Lightning says: Precision",
        ),
        (
            {"trainer.accelerator": "abacus"},
            "must have an accelerator, .* Lightning says: .*'abacus'",
        ),
    ],
)
def test_a_run_that_cannot_begin_does_not_take_the_folder(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises((InstaAugError, FileNotFoundError), match=words):
        train(CONFIG.override({**changes}), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_was_in_the_folder_before_stays(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InstaAugError, match="no model called"):
        train(CONFIG.override({"model": "resnet"}), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_facts_may_be_written_again_but_not_others(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write_facts(FACTS)
    run.write_facts(FACTS)
    with pytest.raises(ArgumentError, match="had the hash 0123456789abcdef, now it has other"):
        run.write_facts(replace(FACTS, split_hash="other"))
    assert run.read_facts() == FACTS


def test_a_run_goes_on_with_its_own_images_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instaaug.data.sprites.N_TRAIN", 40)
    run.results_file.unlink()
    with pytest.raises(ArgumentError, match="`data` must be the same as when the run began"):
        resume(run.path)


# Files that somebody spoiled


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no run in '.*': it has no config.yaml"):
        Run(tmp_path).read_settings()


def test_a_run_without_weights_has_not_finished(run: Run) -> None:
    run.model_file.unlink()
    with pytest.raises(FileNotFoundError, match=r"has not finished: .* `instaaug resume .*copy`"):
        load_task(run)


@pytest.mark.parametrize(
    "text",
    [
        "data: !!python/object/apply:os.system ['touch hacked']",
        "!!python/object/apply:os.system ['touch hacked']: 1",
        "data: !!python/name:os.system",
        "data: !!python/object/new:pathlib.Path [hacked]",
    ],
)
def test_settings_that_name_code_are_refused_and_nothing_runs(
    run: Run, tmp_path: Path, text: str
) -> None:
    run.config_file.write_text(text)
    with pytest.raises(ArgumentError, match=r"`config` must be YAML: .* could not determine a"):
        load_task(run)
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: [1", "`config` must be YAML: .* is not: "),
        (b"\xff\xfe", "`config` must be YAML: .* is not UTF-8"),
        (b"- epochs", "`config` must be lines of `setting: value`: .* holds list"),
        (b"epochs", "`config` must be lines of `setting: value`: .* holds str"),
        (
            b"trainer.max_epochs: -3",
            r"`trainer.max_epochs` must be at least 1: got -3\. \(in .*config\.yaml\)",
        ),
        (b"epochs: " + b"[" * 60_000, "`config` must be YAML: .* aliases or is deep"),
        (b"a: &a 1\nb: *a", "`config` must be YAML: .* aliases or is deep"),
        (b"#" * 100_000, "`config` must be YAML: .* has 100,000 characters"),
        (b"3: 3", r"no setting in .*config\.yaml called '3'"),
    ],
)
def test_settings_that_cannot_be_read_are_refused(
    tmp_path: Path, content: bytes, words: str
) -> None:
    run = Run(tmp_path)
    run.config_file.write_bytes(content)
    with pytest.raises(InstaAugError, match=words):
        run.read_settings()


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("# nothing yet\n")
    assert read_yaml(tmp_path / "config.yaml") == {}
    assert Run(tmp_path).read_settings() == TrainSettings()


SPOILED_FACTS: tuple[dict[str, Any], ...] = (
    {"n_targets": "2"},
    {"n_targets": -1},
    {"n_targets": 10**9},
    {"n_targets": 10**9, "classes": []},
    {"channels": 10**9},
    {"image_size": 10**9},
    {"decode_size": 10**400},
    {"decode_size": -1},
    {"mean": [0.5]},
    {"std": [0.2, 0.2, float("nan")]},
)


@pytest.mark.parametrize(
    "content",
    [
        *("{", "[]", "{}", "3", "[" * 100_000),
        *(json.dumps({**asdict(FACTS), **changes}) for changes in SPOILED_FACTS),
    ],
)
def test_facts_that_were_spoiled_are_refused(run: Run, content: str) -> None:
    run.facts_file.write_text(content)
    words = r"data\.json' must be as the run wrote it|does not fit the settings of its run"
    with pytest.raises((DataError, WeightsFileError), match=words):
        load_task(run)


@pytest.mark.parametrize("width", [10**5, 10**12, 10**30])
def test_settings_that_ask_for_more_weights_than_there_are_are_refused(
    run: Run, width: int
) -> None:
    settings = CONFIG.override({"model.width": width}).to_mapping()
    run.config_file.write_text(yaml.safe_dump(settings))
    with pytest.raises(WeightsFileError, match="does not fit the settings of its run: "):
        load_task(run)


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        "[]",
        '{"validation": "x"}',
        '{"validation": [1]}',
        '{"rows": []}',
        '{"rows": [], "temperatures": []}',
        '{"temperatures": null}',
        '{"rows": [], "temperatures": {"1": 0}}',
        '{"rows": [], "temperatures": {"1": NaN}}',
        '{"rows": [], "temperatures": {"-1": 1}}',
        f'{{"rows": [], "temperatures": {{"1": {10**400}}}}}',
    ],
)
def test_results_that_were_spoiled_are_refused(run: Run, content: str) -> None:
    run.results_file.write_text(content)
    with pytest.raises(DataError, match=r"results\.json' must be as the run wrote it"):
        run.read_results()


def test_images_of_a_fit_that_are_no_text_are_refused(run: Run) -> None:
    run.fit_images_file.write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"fit_images\.txt' must be as the run wrote it: it is no"):
        run.read_fit_images()


def test_a_hostile_run_cannot_call_a_function_with_words_of_its_own(
    run: Run, tmp_path: Path
) -> None:
    settings = {**CONFIG.to_mapping(), "model": "os:system"}
    run.config_file.write_text(yaml.safe_dump(settings))
    facts = json.loads(run.facts_file.read_text())
    run.facts_file.write_text(json.dumps({**facts, "n_targets": "touch hacked"}))
    with pytest.raises(DataError, match="its n_targets is of another type"):
        load_task(run)
    assert not (tmp_path / "hacked").exists()


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


FILES = pytest.mark.parametrize("name", ["model.safetensors", "aug.safetensors"])


@FILES
def test_a_pickle_instead_of_weights_is_refused_and_not_unpacked(
    run: Run, tmp_path: Path, name: str
) -> None:
    (run.path / name).write_bytes(pickle.dumps(Bomb(tmp_path / "hacked")))
    with pytest.raises(WeightsFileError, match=rf"{name}' does not fit the settings of its run"):
        load_task(run)
    assert not (tmp_path / "hacked").exists()


@FILES
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_truncated_weights_are_refused(run: Run, name: str, share: float) -> None:
    content = (run.path / name).read_bytes()
    (run.path / name).write_bytes(content[: int(share * len(content))])
    with pytest.raises(WeightsFileError, match=rf"{name}' does not fit the settings of its run"):
        load_task(run)


@FILES
def test_weights_of_other_shapes_are_refused(run: Run, name: str) -> None:
    tensors = load_file(run.path / name)
    save_file({key: torch.zeros(*t.shape, 2) for key, t in tensors.items()}, run.path / name)
    with pytest.raises(WeightsFileError, match="size mismatch"):
        load_task(run)


@FILES
def test_weights_that_lack_a_tensor_are_refused(run: Run, name: str) -> None:
    tensors = load_file(run.path / name)
    tensors.pop(min(tensors))
    save_file(tensors, run.path / name)
    with pytest.raises(WeightsFileError, match="Missing key"):
        load_task(run)


def test_a_checkpoint_with_code_in_it_is_not_unpacked(run: Run, tmp_path: Path) -> None:
    run.results_file.unlink()
    torch.save({"state_dict": Bomb(tmp_path / "hacked")}, run.checkpoint)
    with pytest.raises(Exception, match=r"(?i)weights.only|checkpoint"):
        resume(run.path)
    assert not (tmp_path / "hacked").exists()


def test_a_folder_becomes_a_run_when_all_else_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(
        "instaaug.runs.folder.write_text", lambda path, _: written.append(path.name)
    )
    Run(tmp_path / "run").start(CONFIG)
    assert written == ["environment.json", "config.yaml"]


def test_a_run_is_finished_when_all_else_is_there(finished: Finished) -> None:
    times = {file.name: file.stat().st_mtime_ns for file in finished.run.path.glob("*.*")}
    assert times.pop("results.json") >= max(times.values())


def test_a_run_whose_folder_was_removed_meanwhile_is_not_finished(run: Run) -> None:
    run.results_file.unlink()
    run.config_file.unlink()
    words = r"'.*copy' must stay as it is while a run is at work: config\.yaml is gone\. Begin"
    with pytest.raises(DataError, match=words):
        run.write_results({}, seconds=1.0)
    assert not run.results_file.exists()


def test_a_new_run_does_not_go_on_with_the_checkpoint_of_another(run: Run) -> None:
    run.config_file.unlink()
    run.start(CONFIG)
    assert not run.checkpoint.exists()


def test_settings_that_were_cut_anywhere_are_never_taken_for_others(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.start(CONFIG)
    whole = run.config_file.read_bytes()
    for n in range(len(whole)):
        run.config_file.write_bytes(whole[:n])
        with pytest.raises(
            DataError, match=r"'.*config\.yaml' must be as the run wrote it: its end"
        ):
            run.read_settings()
    run.config_file.write_bytes(whole.removeprefix(b"---\n").removesuffix(b"...\n"))
    assert run.read_settings() == CONFIG  # as earlier versions wrote it


def test_a_run_goes_on_with_as_many_processes_as_it_began_with(run: Run) -> None:
    run.results_file.unlink()
    run.config_file.write_text(run.config_file.read_text().replace("epochs: 1", "epochs: 2"))
    state = torch.load(run.checkpoint, weights_only=True)
    state["progress"]["random_state"] = state["progress"]["random_state"].repeat(2, 1)
    torch.save(state, run.checkpoint)
    words = (
        "must be those that the run began with: its checkpoint is of 2 processes, and there are"
    )
    with pytest.raises(ArgumentError, match=words):
        resume(run.path)


def test_a_finished_run_is_not_repeated(finished: Finished) -> None:
    before = finished.run.checkpoint.stat().st_mtime_ns
    assert resume(finished.run.path) == finished.run.read_results()
    assert finished.run.checkpoint.stat().st_mtime_ns == before


def test_a_run_is_trained_by_one_process_at_a_time(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    words = r"`out` must not be in use: another process is at work in '.*run'\. Wait until"
    with run.hold():
        with pytest.raises(ArgumentError, match=words):
            train(CONFIG, run.path)
        run.start(CONFIG)
        with pytest.raises(ArgumentError, match=words):
            resume(run.path)


def test_a_fit_is_made_by_one_process_at_a_time(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    settings = TtaSettings.from_mapping({"model": "a:b", "data": "photos"})
    with (
        run.hold(),
        pytest.raises(ArgumentError, match="another process is at work in"),
        run.fitting(settings),
    ):
        raise AssertionError("It has begun.")
