"""From what was typed to contenders."""

from pathlib import Path
from typing import Any

import pytest

from instaaug.compare.contenders import VARIANTS, Contender, read_contenders
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.methods import METHODS
from instaaug.runs.settings import TrainSettings

BASE = TrainSettings.from_mapping({"trainer.max_epochs": 7})


def test_a_method_has_the_shared_settings_otherwise() -> None:
    (contender,) = read_contenders("random", BASE)
    assert contender.full_settings(BASE) == BASE.override({"method": "random"})


def test_settings_of_a_contender_are_part_of_its_label() -> None:
    words = "[{method: random, method.sizes: [0.5, 1.0], padding_mode: border, data.flip: true}]"
    (contender,) = read_contenders(words, BASE)
    assert contender.label == "random-sizes-0.5-1.0-padding_mode-border-data.flip-True"
    settings = contender.full_settings(BASE)
    assert settings.method.options == {"sizes": [0.5, 1.0]}
    assert (settings.padding_mode, settings.data.flip) == ("border", True)


def test_a_list_mixes_names_and_settings() -> None:
    band = {"method": "instaaug", "entropy": {"diversity": {"crop": [0.1, 0.2]}}, "label": "mine"}
    several = read_contenders(["none", band, "random"], BASE)
    assert [c.label for c in several] == ["none", "mine", "random"]
    assert several[1].full_settings(BASE).entropy.diversity == {"crop": (0.1, 0.2)}


def test_an_own_band_replaces_a_shared_one_given_in_nats() -> None:
    base = TrainSettings.from_mapping({"entropy.band": (1.0, 2.0)})
    (contender,) = read_contenders([{"method": "instaaug", "entropy.diversity": [0.1, 0.3]}], base)
    entropy = contender.full_settings(base).entropy
    assert (entropy.band, entropy.diversity) == (None, (0.1, 0.3))


def test_a_file_gives_labels(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "small: {method: {name: random, sizes: [0.2, 0.5]}}\n"
        "alike: {method: instaaug-shared, phi: {rest_epochs: 2}}\n"
    )
    small, alike = read_contenders(str(file), BASE)
    assert (small.label, alike.label) == ("small", "alike")
    assert small.full_settings(BASE).method.options == {"sizes": [0.2, 0.5]}
    phi = alike.full_settings(BASE).phi
    assert (phi.conditioning, phi.rest_epochs) == ("none", 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: {data.flip: true}", "must map labels to settings, `method` among them: 'a' has"),
        ("a: random", "must map labels to settings"),
        ("a: {method: random-crops}", "`method` must be one contender: 'random-crops'"),
        ("../a: {method: none}", r"Labels must be names of new folders .*: got '../a'"),
        ("Leaderboard.MD: {method: none}", "got 'Leaderboard.MD'"),
        ("a.: {method: none}", "with no dot at the end: got 'a.'"),
        ("nul.x: {method: none}", "got 'nul.x'"),
        ("é" * 101 + ": {method: none}", "at most 200 bytes"),
        ("a: {method: none}\na: {method: random}", "every name once: got 'a' twice"),
        ("a: {method: none, data: {flip: true, flip: false}}", "got 'flip' twice"),
        ("a: {method: none}\nA: {method: random}", "`methods` must name every contender once"),
    ],
)
def test_files_that_cannot_be_used_say_why(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "f.yaml").write_text(text)
    with pytest.raises(ArgumentError, match=words):
        read_contenders(str(tmp_path / "f.yaml"), BASE)


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ("nune", UnknownNameError, r"no method or variant called 'nune'. Did you mean 'none'\?"),
        ("none,none", ArgumentError, "every contender once: got 'none' twice"),
        ("[]", ArgumentError, "`methods` must name at least one method"),
        ("[3]", ArgumentError, "`methods` must be names, or settings with a `method` among them"),
        ("3", ArgumentError, "`methods` must be names with commas, or a list"),
        ("[{data.flip: true}]", ArgumentError, "settings with a `method` among them"),
        ("[{method: random, size: 1}]", UnknownNameError, "setting in the contender .*'size'"),
        (
            "[{method: none, data.flip: 5}]",
            ArgumentError,
            r"`data\.flip` must be true or false: got 5",
        ),
        ("[{method: {name: random, sizes: [0.5}]", ArgumentError, "`methods` must be YAML"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_runs(
    given: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        read_contenders(given, BASE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.width", 0.5),
        ("trainer.max_epochs", 3),
        ("data.batch_size", 3),
        ("data.test_fraction", 0.4),
        ("views.n_views", 3),
        ("loss.label_smoothing", 0.1),
        ("seed", 3),
        ("trainer.precision", "bf16-mixed"),
    ],
)
def test_what_makes_a_comparison_fair_is_the_same_for_all(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=f"`{name}` must be the same for all methods"):
        Contender("mine", {"method": "none", name: value}).full_settings(BASE)


def test_an_unknown_name_lists_methods_and_variants() -> None:
    with pytest.raises(
        UnknownNameError, match=r"Known: .*instaaug-shared, .*none, .*random-crops"
    ):
        read_contenders("what", BASE)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_runs_a_method_that_exists(name: str) -> None:
    assert name not in METHODS
    assert VARIANTS[name].sentence.endswith(".")
    several = read_contenders(name, BASE)
    assert [c.label for c in several] == list(VARIANTS[name].members)
    settings = [c.full_settings(BASE) for c in several]
    assert BASE not in settings
    assert all(one.method.name in METHODS for one in settings)


def test_sweeps_have_the_ranges_that_their_sentences_name() -> None:
    crops = read_contenders("random-crops", BASE)
    sizes = [c.full_settings(BASE).method.options["sizes"] for c in crops]
    assert sizes == [[tenths / 10, 1.0] for tenths in range(3, 10)]
    colors = {c.label: c.full_settings(BASE) for c in read_contenders("random-colors", BASE)}
    assert len(colors) == 15
    hues = [label for label in colors if "hue" in label]
    assert hues == [f"random-hue-0.{i}" for i in range(1, 6)]
    strengths = {label: one.method.options["strength"] for label, one in colors.items()}
    assert strengths["random-hue-0.1"] == {"hue": 0.2, "saturation": 0.0, "value": 0.0}
    assert strengths["random-value-1.0"] == {"hue": 0.0, "saturation": 0.0, "value": 1.0}
    grid = VARIANTS["random-color-grid"].members
    assert len(grid) == 216
    best = grid["random-hsv-0.0-0.2-0.8"]["method"]["strength"]  # the paper's best
    assert best == {"hue": 0.0, "saturation": 0.2, "value": 0.8}
    assert grid["random-hsv-0.5-0.0-1.0"]["method"]["strength"]["hue"] == 1.0
