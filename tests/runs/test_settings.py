"""Settings: each explained, checked at the door, and the same after a trip through YAML."""

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from instaaug.runs.augmenters import AUGMENTERS

from instaaug.augmentation.at_test_time import Merge
from instaaug.augmentation.settings import Estimator
from instaaug.augmentation.views import Select
from instaaug.data.cache import OnBadImage
from instaaug.data.labels import TaskKind
from instaaug.data.splits import SplitBy
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.functional.warp import PaddingMode
from instaaug.objectives import Baseline, Rule
from instaaug.parameterizations import Conditioning
from instaaug.runs.settings import (
    PANELS,
    TrainSettings,
    setting_help,
    setting_panel,
)
from instaaug.tasks.optimization import OptimizerName, ScheduleName

FIELDS = {item.name: item for item in fields(TrainSettings)}
ODD = TrainSettings.from_mapping(
    {
        "data": "a folder: with, odd #signs/ünï",
        "data.options": ("1-4", "5-12,40"),
        "entropy.band": (3.0, 3.5),
        "data.image_size": 64,
        "data.flip": True,
        "optimizer.weight_decay": 5e-4,
        "data.cache_dir": "~",
    }
)


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_has_a_sentence_and_a_panel(name: str) -> None:
    sentence = setting_help(FIELDS[name])
    assert sentence[0].isupper() or sentence[0].isdigit() or sentence.startswith(("λ", "cpu"))
    assert sentence.endswith(".")
    assert setting_panel(FIELDS[name]) in PANELS


def test_no_panel_is_empty() -> None:
    assert {setting_panel(item) for item in FIELDS.values()} == set(PANELS)


@pytest.mark.parametrize("config", [TrainSettings(), ODD], ids=["defaults", "odd"])
def test_settings_survive_yaml_and_json(config: TrainSettings) -> None:
    through_yaml = yaml.safe_load(yaml.safe_dump(config.to_dict(), allow_unicode=True))
    assert TrainSettings.from_mapping(through_yaml) == config
    assert TrainSettings.from_mapping(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("epochs", 3.0, 3),
        ("epochs", "3", 3),
        ("learning_rate", 1, 1.0),
        ("learning_rate", "1e-3", 0.001),  # YAML 1.1 takes 1e-3 for a string
        ("diversity", [0.06, 0.1], (0.06, 0.1)),
        ("diversity", None, None),
        ("image_size", 32.0, 32),
    ],
)
def test_a_value_takes_the_declared_type(name: str, given: Any, expected: Any) -> None:
    value = getattr(TrainSettings.from_mapping({name: given}), name)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"epochs": 2.5}, r"`epochs` must be like 3: got 2\.5\."),
        ({"epochs": "many"}, r"`epochs` must be like 3: got 'many'\."),
        ({"epochs": True}, r"`epochs` must be like 3: got True\."),
        ({"epochs": None}, r"`epochs` must be like 3: got None\."),
        ({"epochs": [3]}, r"`epochs` must be like 3: got \[3\]\."),
        ({"epochs": float("inf")}, r"`epochs` must be like 3: got inf\."),
        ({"flip": "yes"}, r"`flip` must be like true: got 'yes'\."),
        ({"flip": 1}, r"`flip` must be like true: got 1\."),
        ({"learning_rate": "fast"}, r"`learning_rate` must be like 0\.5: got 'fast'\."),
        ({"data": 5}, r"`data` must be like text: got 5\."),
        ({"model": None}, r"`model` must be like text: got None\."),
        ({"diversity": 0.1}, r"`diversity` must be like \[0\.5, 0\.5\]: got 0\.1\."),
        ({"diversity": [0.1]}, r"`diversity` must be like \[0\.5, 0\.5\]: got \[0\.1\]\."),
        ({"diversity": "ab"}, r"`diversity` must be like \[0\.5, 0\.5\]: got 'ab'\."),
        ({"lights": ["1-4", 5]}, r"`lights` must be like \[text, text\]: got \['1-4', 5\]\."),
        ({"epochs": 0}, r"`epochs` must be at least 1: got 0\."),
        ({"batch_size": 1}, r"`batch_size` must be at least 2: got 1\."),
        ({"image_size": 7}, r"`image_size` must be at least 8: got 7\."),
        ({"weight_decay": -1}, r"`weight_decay` must be at least 0: got -1\.0\."),
        ({"momentum": float("nan")}, r"`momentum` must be at least 0: got nan\."),
        ({"clip": float("inf")}, r"`clip` must be .*: got inf\."),
        ({"seed": -1}, r"`seed` must be at least 0: got -1\."),
        ({"seed": 2**31}, r"`seed` must be at most 2147483647: got 2147483648\."),
        ({"label_smoothing": 2}, r"`label_smoothing` must be at most 1: got 2\.0\."),
        (
            {"diversity": [0.06, 0.1], "entropy": [3, 4]},
            "`diversity` and `entropy` say the same thing: give one of them",
        ),
        (
            {"schedule": "plateau", "validation_fraction": 0},
            '`schedule="plateau"` watches the validation images: got `validation_fraction` 0',
        ),
        (
            {"phi_schedule": "plateau", "validation_fraction": 0},
            "Hold some out, or choose another schedule",
        ),
        (
            {"baseline": "rloo"},
            '`baseline="rloo"` compares samples of an image: got `n_samples` 1',
        ),
        ({"estimator": "exact", "n_samples": 2}, '`estimator="exact"` tries every box: got `n_sa'),
        ({"task": "regression", "merge": "probability"}, '`merge="probability"` needs classes'),
        ({"clip": 1, "precision": "16-mixed"}, "`clip` cannot see through the scaling"),
        ({"method": "adaaug", "precision": "16-mixed"}, "Steps of φ alone cannot see through"),
        ({"method": "mixup", "phi_step": "separate"}, '`phi_step="separate"` needs a method that'),
        (
            {"method": "metaaugment", "phi_step": "separate"},
            '`phi_step="separate"` needs a method',
        ),
        (
            {"method": "adacrops", "search_fraction": 0},
            "`search_fraction` must be above 0 for ada",
        ),
        ({"method": "fast_autoaugment", "task": "regression"}, "`task` must be classification to"),
        ({"train_fraction": 0}, "`train_fraction` must be at least"),
        ({"train_fraction": 1.5}, "`train_fraction` must be at most 1"),
    ],
)
def test_a_value_that_cannot_work_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words + r".* ?\(in my\.yaml\)$"):
        TrainSettings.from_mapping(values, source="my.yaml")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"epoch": 3}, r"no setting in my\.yaml called 'epoch'\. Did you mean 'epochs'\?"),
        ({3: 3}, r"no setting in my\.yaml called '3'"),
        ({"method": "insta"}, r"no method called 'insta'\. Did you mean 'instaaug'\?"),
        ({"rule": None}, r"no rule called 'None'\. .*Known: fixed, multiplicative, pi\."),
        ({"optimizer": ["sgd"]}, r"no optimizer called"),
    ],
)
def test_an_unknown_name_is_refused_with_what_is_known(values: dict[Any, Any], words: str) -> None:
    with pytest.raises(UnknownNameError, match=words):
        TrainSettings.from_mapping(values, source="my.yaml")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("method", tuple(AUGMENTERS)),
        ("task", (*get_args(TaskKind), "contrastive")),
        ("split", get_args(SplitBy)),
        ("on_bad_image", get_args(OnBadImage)),
        ("conditioning", get_args(Conditioning)),
        ("estimator", get_args(Estimator)),
        ("baseline", ("auto", *get_args(Baseline))),
        ("rule", get_args(Rule)),
        ("padding_mode", get_args(PaddingMode)),
        ("merge", get_args(Merge)),
        ("select", get_args(Select)),
        ("optimizer", get_args(OptimizerName)),
        ("phi_optimizer", get_args(OptimizerName)),
        ("schedule", get_args(ScheduleName)),
        ("phi_schedule", get_args(ScheduleName)),
    ],
)
def test_the_choices_are_those_of_the_library(name: str, known: tuple[str, ...]) -> None:
    assert sorted(get_args(FIELDS[name].type)) == sorted(known)


def test_paths_become_absolute_where_there_is_something(tmp_path: Path) -> None:
    (tmp_path / "pets").mkdir()
    found = TrainSettings.from_mapping({"data": "pets", "data.root": "missing"}).located()
    assert (found.data, found.root) == (str(tmp_path / "pets"), "missing")
    assert TrainSettings.from_mapping({"data": "sprites"}).located() == TrainSettings.from_mapping(
        {"data": "sprites"}
    )


@pytest.mark.parametrize("module", ["instaaug.cli.app", "instaaug.runs.config"])
def test_nothing_heavy_is_imported_to_know_the_settings(module: str) -> None:
    heavy = "{'torch', 'lightning', 'numpy', 'yaml', 'PIL'}"
    code = f"import sys, {module}; sys.exit(' '.join({heavy} & set(sys.modules)) or 0)"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
