from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.signatures import check_arguments, parameter_hints


class Method:
    def __init__(
        self,
        *,
        alpha: float = 1.0,
        count: int = 1,
        flag: bool = False,
        mode: Literal["near", "far"] = "near",
        size: int | tuple[int, int] | None = None,
        strength: float | Mapping[str, float] = 1.0,
        levels: Sequence[tuple[float, int]] = (),
        names: list[str] | None = None,
        number: int | float = 0,
        anything: Any = None,
    ) -> None: ...


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("alpha", 2, 2.0),
        ("count", 3, 3),
        ("count", 2**53 + 1, 2**53 + 1),  # which no float is
        ("count", str(2**53 + 1), 2**53 + 1),
        ("flag", True, True),
        ("mode", "far", "far"),
        ("size", 8, 8),
        ("size", [8, 9], (8, 9)),
        ("size", None, None),
        ("strength", 1, 1.0),
        ("strength", {"hue": 1}, {"hue": 1.0}),
        ("levels", [[0.5, 2], [1, 1]], ((0.5, 2), (1.0, 1))),
        ("names", ["a"], ("a",)),
        ("number", 1, 1),
        ("anything", {1, 2}, {1, 2}),
    ],
)
def test_values_get_the_declared_type(name: str, given: Any, expected: Any) -> None:
    (value,) = check_arguments(Method, {name: given}, owner="x").values()
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("alpha", "x", r"a number, such as 0\.5: got 'x'"),
        ("alpha", True, r"a number, such as 0\.5: got True"),
        ("count", 1.5, r"a whole number, such as 3: got 1\.5"),
        ("flag", 1, "true or false: got 1"),
        ("mode", "middle", "one of near, far: got 'middle'"),
        ("size", [8], r"like 3 or \[3, 3\]: got \[8\]"),
        ("strength", {"hue": "x"}, r"like 0\.5 or \{name: 0\.5\}: got"),
        ("levels", "abc", r"like \[\[0\.5, 3\], \.\.\.\]: got 'abc'"),
        ("names", [1], r"like \[text, \.\.\.\]: got \[1\]"),
    ],
)
def test_another_type_is_refused_with_the_name_of_the_setting(
    name: str, given: Any, wanted: str
) -> None:
    with pytest.raises(ArgumentError, match=rf"^`method\.{name}` must be {wanted}"):
        check_arguments(Method, {name: given}, owner="x", prefix="method.")


def test_unknown_names_are_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match=r"no option of x called 'alfa'.*mean 'alpha'"):
        check_arguments(Method, {"alfa": 1}, owner="x")


def test_a_function_without_arguments_has_no_options() -> None:
    with pytest.raises(ArgumentError, match=r"none must be left without options.*got alpha"):
        check_arguments(lambda: None, {"alpha": 1}, owner="none")


def test_star_arguments_have_no_name_of_their_own() -> None:
    def function(a: int, *rest: int, b: str, **more: int) -> None: ...

    assert parameter_hints(function) == {"a": int, "b": str}
