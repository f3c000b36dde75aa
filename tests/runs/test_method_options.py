"""Options of a method: from text to what its signature declares, or a sentence."""

from collections.abc import Sequence
from typing import Any, Literal

import pytest
from instaaug.runs.method_options import method_options

from instaaug.errors import ArgumentError, UnknownNameError


class Method:
    def __init__(
        self,
        *,
        alpha: float = 1.0,
        k: int = 2,
        lazy: bool = False,
        mode: Literal["fast", "slow"] = "fast",
        most: int | None = None,
        name: str = "",
        mean: Sequence[float] | None = None,
    ) -> None: ...


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        (" , ", {}),
        ("alpha=0.2", {"alpha": 0.2}),
        ("alpha = 1, k=3 ", {"alpha": 1.0, "k": 3}),
        ("lazy=true,mode=slow", {"lazy": True, "mode": "slow"}),
        ("most=5,name=1=2", {"most": 5, "name": "1=2"}),
    ],
)
def test_every_value_has_the_declared_type(text: str, options: dict[str, Any]) -> None:
    found = method_options(text, Method)
    assert found == options
    assert [type(v) for v in found.values()] == [type(v) for v in options.values()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("alpha", "must be like"),
        ("alpha=", "must be like"),
        ("alpha=much", "give alpha as float: got 'much'"),
        ("k=1.5", "give k as int: got '1.5'"),
        ("lazy=1", "give lazy as bool"),
        ("mode=quick", "give mode as 'fast', 'slow'"),
        ("k=1,k=2", "k twice"),
    ],
)
def test_what_does_not_fit_is_named(text: str, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        method_options(text, Method)


def test_only_simple_arguments_that_nobody_else_gives_are_options() -> None:
    for name in ("mean", "alpha", "beta"):
        with pytest.raises(UnknownNameError, match="option of Method"):
            method_options(f"{name}=1", Method, but=("alpha",))
    with pytest.raises(ArgumentError, match="must be empty for Method"):
        method_options("alpha=1", Method, but=("alpha", "k", "lazy", "mode", "most", "name"))
