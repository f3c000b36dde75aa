"""The registry and the errors it raises."""

import pytest

from instaaug import errors
from instaaug.errors import ArgumentError, InstaAugError, UnknownNameError
from instaaug.registry import Registry
from instaaug.transforms import TRANSFORMS, from_config


@pytest.fixture
def colors() -> Registry[int]:
    registry = Registry[int]("color")
    registry.register("red")(0xFF0000)
    registry.register("blue")(0x0000FF)
    return registry


def test_it_is_a_mapping_in_alphabetical_order(colors: Registry[int]) -> None:
    assert list(colors) == ["blue", "red"]
    assert dict(colors) == {"blue": 0x0000FF, "red": 0xFF0000}
    assert len(colors) == 2
    assert "red" in colors
    assert "green" not in colors


def test_registering_gives_the_thing_back(colors: Registry[int]) -> None:
    assert colors.register("green")(0x00FF00) == 0x00FF00
    assert colors["green"] == 0x00FF00


def test_a_name_is_given_only_once(colors: Registry[int]) -> None:
    words = r"`name` must be new: the color 'red' is registered already\. Choose another name\."
    with pytest.raises(ArgumentError, match=words):
        colors.register("red")(1)
    assert colors["red"] == 0xFF0000


def test_an_unknown_name_gets_the_nearest_and_the_list(colors: Registry[int]) -> None:
    words = r"There is no color called 'rad'\. Did you mean 'red'\? Known: blue, red\."
    with pytest.raises(UnknownNameError, match=words):
        colors["rad"]


def test_a_name_like_no_other_gets_the_list_alone(colors: Registry[int]) -> None:
    words = r"^There is no color called 'xyzzy'\. Known: blue, red\.$"
    with pytest.raises(UnknownNameError, match=words):
        colors["xyzzy"]


@pytest.mark.parametrize(("wrong", "right"), [("rotate", "rotation"), ("hsvjitter", "hsv_jitter")])
def test_a_misspelled_transform_is_suggested(wrong: str, right: str) -> None:
    words = rf"There is no transform called '{wrong}'\. Did you mean '{right}'\? Known: affine, "
    with pytest.raises(UnknownNameError, match=words):
        TRANSFORMS[wrong]
    with pytest.raises(UnknownNameError, match=words):
        from_config({"name": wrong})


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("ArgumentError", ValueError),
        ("ShapeError", ValueError),
        ("NonFiniteError", ArithmeticError),
        ("PathwiseGradientError", NotImplementedError),
        ("WeightsFileError", ValueError),
        ("UnknownNameError", LookupError),
    ],
)
def test_each_error_is_also_the_builtin_a_caller_expects(
    name: str, builtin: type[Exception]
) -> None:
    error = getattr(errors, name)
    assert issubclass(error, InstaAugError)
    assert issubclass(error, builtin)


def test_warnings_can_be_told_apart() -> None:
    assert issubclass(errors.InstaAugWarning, UserWarning)


def test_a_default_is_given_for_an_unknown_name_like_any_mapping() -> None:
    assert Registry[int]("color").get("red", 3) == 3
