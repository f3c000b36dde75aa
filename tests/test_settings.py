"""Settings: one meaning in YAML, JSON, Python and a shell, checked when they are made."""
# ruff: noqa: RUF009  # `setting` and `section` make fields; ruff cannot see that

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.runs.settings import TrainSettings
from instaaug.settings import Settings, section, setting, setting_infos
from instaaug.yaml_files import parse_yaml

Pair = tuple[float, float]


@dataclass(frozen=True)
class Crop(Settings):
    title = "Crops"

    grid: tuple[tuple[float, int], ...] = setting(((1.0, 1),), "Boxes.")
    share: float = setting(0.5, "A share.", at_least=0, at_most=1)


@dataclass(frozen=True)
class Method(Settings):
    title = "Method"
    main = "name"
    open = "options"

    name: str = setting("none", "Its name.")
    options: dict[str, Any] = setting({}, "Its own options.")


@dataclass(frozen=True)
class Everything(Settings):
    title = "Run"

    epochs: int = setting(20, "Passes.", at_least=1)
    rate: float = setting(0.1, "A rate.", at_least=0)
    offset: float = setting(0.0, "Any number.")
    flip: bool = setting(False, "Whether to mirror.")
    mode: Literal["near", "far"] = setting("near", "Where.")
    size: int | None = setting(None, "A side.", at_least=8)
    band: Pair | dict[str, Pair] | None = setting(None, "A band, or one per factor.")
    names: tuple[str, ...] = setting(("auto",), "Names.")
    shares: dict[str, float] = setting({}, "Shares by name.")
    root: str | None = setting(None, "A folder.", path=True)
    method: Method = section(Method)
    crop: Crop = section(Crop)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
PAIRS = st.tuples(NUMBERS, NUMBERS)
NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12)
OPTIONS = st.dictionaries(
    NAMES.filter(lambda name: name not in ("name", "options")),
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS | st.lists(NUMBERS, max_size=3),
    max_size=3,
)
EVERYTHING = st.builds(
    Everything,
    epochs=st.integers(1, 10**9),
    rate=st.floats(0, 1e30),
    offset=NUMBERS,
    flip=st.booleans(),
    mode=st.sampled_from(["near", "far"]),
    size=st.none() | st.integers(8, 10**6),
    band=st.none() | PAIRS | st.dictionaries(NAMES, PAIRS, max_size=3),
    names=st.lists(TEXTS, max_size=3).map(tuple),
    shares=st.dictionaries(NAMES, NUMBERS, max_size=3),
    root=st.none() | TEXTS,
    method=st.builds(Method, name=TEXTS, options=OPTIONS),
    crop=st.builds(
        Crop,
        grid=st.lists(st.tuples(NUMBERS, st.integers()), max_size=3).map(tuple),
        share=st.floats(0, 1),
    ),
)


# One meaning


@hypothesis_settings(deadline=None, max_examples=50)
@given(EVERYTHING)
def test_settings_survive_a_mapping_json_and_yaml(settings: Everything) -> None:
    plain = settings.to_mapping()
    assert Everything.from_mapping(plain) == settings
    assert Everything.from_mapping(settings.flatten()) == settings
    assert Everything.from_mapping(json.loads(json.dumps(plain))) == settings
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    assert Everything.from_mapping(yaml.safe_load(text)) == settings


@hypothesis_settings(deadline=None, max_examples=50)
@given(EVERYTHING, EVERYTHING)
def test_all_settings_of_others_override_all(one: Everything, other: Everything) -> None:
    bare = replace(one, method=Method(one.method.name))  # of other options, more would remain
    assert bare.override(other.to_mapping()) == other
    assert bare.override(other.flatten()) == other
    assert one.override({}) == one


def test_dotted_nested_and_bare_names_are_the_same() -> None:
    dotted = Everything.from_mapping({"method.name": "mixup", "crop.share": 0.2})
    assert Everything.from_mapping({"method": {"name": "mixup"}, "crop": {"share": 0.2}}) == dotted
    assert Everything.from_mapping({"method": "mixup", "crop.share": 0.2}) == dotted
    assert (dotted.method.name, dotted.crop.share, dotted.epochs) == ("mixup", 0.2, 20)


def test_an_entry_of_a_mapping_is_named_like_a_setting_and_leaves_the_others() -> None:
    both = {"a": 0.1, "b": 0.2}
    assert Everything.from_mapping({"shares.a": 0.1, "shares.b": "0.2"}).shares == both
    assert Everything.from_mapping({"shares": {"a": 0.1}}, {"shares.b": 0.2}).shares == both
    assert (
        Everything.from_mapping({"shares": {"a": 0.3, "b": 0.2}, "shares.a": 0.1}).shares == both
    )
    assert Everything.from_mapping({"shares.a": 0.3}, {"shares": both}).shares == both
    assert Everything.from_mapping({"shares": {"c": 1}}, {"shares": both}).shares == both
    assert type(Everything.from_mapping({"shares.a": 0.1}).shares) is dict
    typed = TrainSettings.from_mapping({"data.options.n_images": 60, "data.vary.contrast": 0.3})
    assert (typed.data.options, typed.data.vary) == ({"n_images": 60}, {"contrast": 0.3})
    elsewhere = typed.override({"data": "elsewhere", "data.options.n": 3})
    assert elsewhere.data.options == {"n": 3}  # those of another source are dropped


def test_later_layers_win_name_by_name() -> None:
    layers: list[dict[str, Any]] = [
        {"crop": {"share": 0.2}, "epochs": 3},
        {"crop.grid": [[0.5, 2]]},
        {"epochs": 4},
    ]
    found = Everything.from_mapping(*layers)
    assert found == Everything(epochs=4, crop=Crop(grid=((0.5, 2),), share=0.2))


def test_names_that_are_no_settings_are_options_of_an_open_section() -> None:
    found = Everything.from_mapping({"method": {"name": "mixup", "alpha": 0.2}, "method.k": 3})
    assert found.method.options == {"alpha": 0.2, "k": 3}
    assert found.flatten()["method.alpha"] == 0.2
    spelled_out = Everything.from_mapping({"method": {"options": {"alpha": 0.2}, "k": 3}})
    assert spelled_out.method.options == {"options": {"alpha": 0.2}, "k": 3}  # an option like any


def test_infos_name_every_setting_once_and_the_main_one_after_its_section() -> None:
    infos = {info.name: info for info in setting_infos(Everything)}
    assert list(infos)[-3:] == ["method", "crop.grid", "crop.share"]
    assert (infos["method"].path, infos["method"].section) == ("method.name", "Method")
    assert (infos["epochs"].default, infos["epochs"].section) == (20, "Run")
    assert infos["crop.share"].help == "A share."


def test_paths_become_absolute_where_there_is_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pets").mkdir()
    assert Everything(root="pets").with_full_paths().root == str(tmp_path / "pets")
    assert Everything(root="missing").with_full_paths() == Everything(root="missing")


# Types


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("epochs", 3.0, 3),
        ("epochs", "3", 3),
        ("rate", 1, 1.0),
        ("rate", "1e-3", 0.001),  # YAML 1.1 takes 1e-3 for a string
        ("band", [0.06, 0.1], (0.06, 0.1)),
        ("band", {"crop": [1, 2]}, {"crop": (1.0, 2.0)}),
        ("band", None, None),
        ("size", 32.0, 32),
        ("names", "crop", ("crop",)),
        ("root", Path("a"), "a"),
    ],
)
def test_a_value_takes_the_declared_type(name: str, given: Any, expected: Any) -> None:
    value = getattr(Everything.from_mapping({name: given}), name)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"epochs": 2.5}, r"`epochs` must be a whole number, such as 3: got 2\.5\."),
        ({"epochs": "many"}, r"`epochs` must be a whole number, such as 3: got 'many'\."),
        ({"epochs": True}, r"`epochs` must be a whole number, such as 3: got True\."),
        ({"epochs": None}, r"`epochs` must be a whole number, such as 3: got None\."),
        ({"epochs": [3]}, r"`epochs` must be a whole number, such as 3: got \[3\]\."),
        ({"epochs": float("inf")}, r"`epochs` must be a whole number, such as 3: got inf\."),
        ({"flip": "yes"}, r"`flip` must be true or false: got 'yes'\."),
        ({"flip": 1}, r"`flip` must be true or false: got 1\."),
        ({"rate": "fast"}, r"`rate` must be a number, such as 0\.5: got 'fast'\."),
        ({"root": 5}, r"`root` must be text: got 5\."),
        ({"method": None}, r"`method.name` must be text: got None\."),
        ({"band": 0.1}, r"`band` must be like \[0\.5, 0\.5\] or \{name: .*\}: got 0\.1\."),
        ({"band": [0.1]}, r"`band` must be like \[0\.5, 0\.5\] or .*: got \[0\.1\]\."),
        ({"names": ["a", 5]}, r"`names` must be like \[text, \.\.\.\]: got \['a', 5\]\."),
        ({"crop.grid": [0.5, 2]}, r"`crop.grid` must be like \[\[0\.5, 3\], \.\.\.\]: got .*\."),
        ({"crop": 3}, r"`crop` must be settings by name, such as \{grid: \.\.\.\}: got 3\."),
        ({"names": ["x" * 999, 5]}, r"`names` must be like .{1,99}\."),  # and not a page
        ({"epochs": 0}, r"`epochs` must be at least 1: got 0\."),
        ({"size": 7}, r"`size` must be at least 8: got 7\."),
        ({"crop.share": -1}, r"`crop.share` must be at least 0: got -1\.0\."),
        ({"crop.share": 2}, r"`crop.share` must be at most 1: got 2\.0\."),
        ({"rate": float("nan")}, r"`rate` must be at least 0: got nan\."),
        ({"rate": float("inf")}, r"`rate` must be finite: got inf\."),
        ({"rate": 10**400}, r"`rate` must be a number, such as 0\.5: got 10+\.\.\.0+\."),
        ({"size": 10**400}, r"`size` must be finite: got 10+\.\.\.0+\."),
        ({"offset": float("nan")}, r"`offset` must be finite: got nan\."),
    ],
)
def test_a_value_that_cannot_be_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{words} \\(in my\\.yaml\\)$"):
        Everything.from_mapping(values, source="my.yaml")


def test_python_is_checked_like_yaml() -> None:
    with pytest.raises(ArgumentError, match="`share` must be at most 1"):
        Crop(share=2.0)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"epoch": 3}, "setting in my.yaml called 'epoch'. Did you mean 'epochs'?"),
        ({3: 3}, "setting in my.yaml called '3'"),
        ({"crop.shape": 1}, "setting in my.yaml called 'crop.shape'. Did you mean 'crop.share'?"),
        ({"crop": {"shape": 1}}, "called 'crop.shape'. Did you mean 'crop.share'?"),
        ({"epochs.more": 1}, "setting in my.yaml called 'epochs.more'"),
        ({"method.alpha.beta": 1}, "setting in my.yaml called 'method.alpha.beta'"),
        ({"mode": "nera"}, "mode called 'nera'. Did you mean 'near'?"),
        ({"mode": None}, "mode called 'None'. "),
    ],
)
def test_an_unknown_name_is_refused_with_what_is_near(values: dict[Any, Any], words: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        Everything.from_mapping(values, source="my.yaml")
    assert words in str(caught.value)


def test_what_was_read_may_be_changed_and_is_read_as_before() -> None:
    text = "crop: {grid: [[0.5, 2]]}"
    parse_yaml(text, argument="config")["crop"]["grid"].append([1, 1])
    assert parse_yaml(text, argument="config") == {"crop": {"grid": [[0.5, 2]]}}
