"""From words to contenders."""

from pathlib import Path

import pytest
from instaaug.runs.augmenters import AUGMENTERS

from instaaug.compare.contenders import Contender, read_contenders
from instaaug.compare.variants import VARIANTS
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.runs.settings import TrainSettings

BASE = TrainSettings.from_mapping({"trainer.max_epochs": 7})


def only(words: str) -> Contender:
    (contender,) = read_contenders(words, BASE)
    return contender


def test_a_method_has_the_shared_settings_otherwise() -> None:
    config = only("random").config(BASE)
    assert (config.method, config.epochs) == ("random", 7)


def test_settings_in_parentheses_are_yaml_and_part_of_the_label() -> None:
    contender = only(' random ( sizes=[0.5, 1.0], padding_mode = "border", flip=true) ')
    assert contender.settings == {
        "method": "random",
        "sizes": [0.5, 1.0],
        "padding_mode": "border",
        "flip": True,
    }
    assert contender.label == "random-sizes-0.5-1.0-padding_mode-border-flip-True"
    assert contender.config(BASE).sizes == (0.5, 1.0)


def test_commas_within_brackets_and_quotes_separate_nothing() -> None:
    several = read_contenders(
        "none,, instaaug(transforms='crop,rotation', diversity={crop: [0.1, 0.2]}), random,", BASE
    )
    assert [c.settings["method"] for c in several] == ["none", "instaaug", "random"]
    assert several[1].config(BASE).diversity == {"crop": (0.1, 0.2)}
    assert several[1].label == "instaaug-transforms-crop-rotation-diversity-crop-0.1-0.2"


def test_an_own_band_replaces_a_shared_one_said_in_the_other_way() -> None:
    base = TrainSettings.from_mapping({"entropy.band": (1.0, 2.0)})
    (contender,) = read_contenders("instaaug(diversity=[0.1, 0.3])", base)
    config = contender.config(base)
    assert (config.entropy, config.diversity) == (None, (0.1, 0.3))


def test_a_file_gives_labels(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "small: {method: random, sizes: [0.2, 0.5]}\nalike: {method: instaaug-shared}\n"
    )
    several = read_contenders(f"none,@{file}", BASE)
    assert [c.label for c in several] == ["none", "small", "alike"]
    assert several[1].config(BASE).sizes == (0.2, 0.5)
    assert several[2].settings == {"method": "instaaug", "conditioning": "none"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: {sizes: [0.2, 0.5]}", "must map labels to settings, `method` among them: 'a' has"),
        ("a: random", "must map labels to settings"),
        ("a: {method: random-crops}", "`method` must be one contender: 'random-crops'"),
        ("../a: {method: none}", r"Labels must be names of new folders .*: got '../a'"),
        ("report: {method: none}", "got 'report'"),
        ("Leaderboard.MD: {method: none}", "got 'Leaderboard.MD'"),
        ("runs.csv: {method: none}", "got 'runs.csv'"),
        ("comparison.json: {method: none}", "got 'comparison.json'"),
        ("a.: {method: none}", "with no dot at the end: got 'a.'"),
        ("nul.x: {method: none}", "got 'nul.x'"),
        ("é" * 101 + ": {method: none}", "at most 200 bytes"),
        ("a: {method: none}\na: {method: random}", "label and setting once: got 'a' twice"),
        ("a: {method: none, flip: true, flip: false}", "got 'flip' twice"),
        ("a: {method: none}\nA: {method: random}", "`methods` must name every contender once"),
    ],
)
def test_files_that_cannot_be_used_say_why(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "f.yaml").write_text(text)
    with pytest.raises(ArgumentError, match=words):
        read_contenders(f"@{tmp_path / 'f.yaml'}", BASE)


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ("nune", UnknownNameError, r"no method or variant called 'nune'. Did you mean 'none'\?"),
        ("none,none", ArgumentError, "every contender once: got 'none' twice"),
        ("", ArgumentError, "`methods` must name at least one method"),
        ("random(sizes=[0.5,1.0)", ArgumentError, r"must close what it opens: \] is missing"),
        ("random(sizes)", ArgumentError, "got 'sizes' in .*: it has no '='"),
        ("random(sizes=[0.5,1.0])x", ArgumentError, "names with settings in parentheses"),
        ("random(size=1)", UnknownNameError, "setting in the contender .*Did you mean 'sizes'"),
        ("random(sizes=5)", ArgumentError, r"`sizes` must be like \[0.5, 0.5\]: got 5"),
        ("random(method=none)", ArgumentError, "`method` must stand before the parentheses"),
        ("none(seed=3)", ArgumentError, "`seed` must be the same for all methods"),
        ("none(test_fraction=0.5)", ArgumentError, "`test_fraction` must be the same for all"),
        ("none(epochs=3)", ArgumentError, "`epochs` must be the same for all methods"),
        ("random(flip=true,flip=false)", ArgumentError, "must give flip once: got it twice"),
        ("random(strength={hue: 1, hue: 0})", ArgumentError, "it has 'hue' twice"),
        ("none(data={a: *b})", ArgumentError, "must have settings like"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_runs(
    given: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        read_contenders(given, BASE)


@pytest.mark.parametrize(
    "name",
    [
        *("model", "width", "stem_stride", "epochs", "batch_size", "test_samples", "loss", "seed"),
        *("accelerator", "devices", "strategy", "nodes", "precision", "data", "split", "lights"),
    ],
)
def test_what_makes_a_comparison_fair_is_the_same_for_all(name: str) -> None:
    own = Contender("mine", {"method": "none", name: getattr(BASE, name)})
    with pytest.raises(ArgumentError, match=f"`{name}` must be the same for all methods"):
        own.config(BASE)


def test_an_unknown_name_lists_methods_and_variants() -> None:
    with pytest.raises(
        UnknownNameError, match=r"Known: .*instaaug-shared, .*none, .*random-crops"
    ):
        read_contenders("what", BASE)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_runs_a_method_that_there_is(name: str) -> None:
    assert name not in AUGMENTERS
    assert VARIANTS[name].sentence.endswith(".")
    several = read_contenders(name, BASE)
    assert [c.label for c in several] == list(VARIANTS[name].members)
    configs = [c.config(BASE) for c in several]
    assert BASE not in configs
    assert all(config.method in AUGMENTERS for config in configs)


def test_sweeps_are_those_of_the_paper() -> None:
    crops = read_contenders("random-crops", BASE)
    assert [c.config(BASE).sizes[0] for c in crops] == [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    members = VARIANTS["random-colors"].members
    hues = [label for label in members if "hue" in label]
    assert hues == [f"random-hue-0.{i}" for i in range(1, 6)]
    assert members["random-hue-0.1"]["strength"] == {"hue": 0.2, "saturation": 0.0, "value": 0.0}
    assert members["random-value-1.0"]["strength"] == {"hue": 0.0, "saturation": 0.0, "value": 1.0}


def test_a_sweep_takes_settings_for_all_its_members() -> None:
    several = read_contenders("random-crops(flip=true)", BASE)
    assert several[0].label == "random-crops-0.3-flip-True"
    assert all(c.config(BASE).flip for c in several)
