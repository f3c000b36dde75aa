"""In tests every call is checked by beartype, shapes among all the rest."""

from dataclasses import dataclass

import pytest
import torch
from beartype import beartype
from beartype.roar import BeartypeCallHintParamViolation, BeartypeCallHintReturnViolation
from jaxtyping import Float, jaxtyped
from torch import Tensor

from instaaug.functional.affine import rotation_matrix
from instaaug.functional.warp import warp
from instaaug.registry import Registry
from instaaug.spaces import Parameter
from instaaug.stats import wilson_interval
from tests.support.unhooked import unhooked


def test_a_wrong_type_is_refused_where_no_shape_is_annotated() -> None:
    with pytest.raises(BeartypeCallHintParamViolation, match="n_right"):
        wilson_interval("3", 4)  # type: ignore[arg-type]


def test_a_wrong_type_is_refused_in_methods() -> None:
    with pytest.raises(BeartypeCallHintParamViolation, match="kind"):
        Registry(3)  # type: ignore[arg-type]


def test_a_wrong_shape_is_refused() -> None:
    with pytest.raises(BeartypeCallHintParamViolation, match="2 dimensions, not the 1 expected"):
        rotation_matrix(torch.zeros(2, 3))


def test_lengths_of_the_same_axis_are_compared_within_a_call_and_not_between_calls() -> None:
    warp(torch.zeros(2, 3, 4, 4), torch.eye(3).expand(2, 3, 3))
    with pytest.raises(BeartypeCallHintParamViolation, match="matrix"):
        warp(torch.zeros(5, 3, 4, 4), torch.eye(3).expand(2, 3, 3))
    warp(torch.zeros(5, 3, 4, 4), torch.eye(3).expand(5, 3, 3))


def test_an_axis_that_is_named_twice_has_one_length() -> None:
    @jaxtyped(typechecker=beartype)
    def trace(x: Float[Tensor, "n n 2"]) -> float:
        return float(x.sum())

    for _ in range(2):  # what passed once is checked in another way
        assert trace(torch.ones(3, 3, 2)) == 18
        for shape in ((3, 4, 2), (3, 3, 1), (3, 3), (3, 3, 2, 1)):
            with pytest.raises(BeartypeCallHintParamViolation, match="trace"):
                trace(torch.ones(shape))
        with pytest.raises(BeartypeCallHintParamViolation, match="dtype"):
            trace(torch.ones(3, 3, 2, dtype=torch.long))


def test_what_is_returned_is_compared_with_what_was_passed() -> None:
    @jaxtyped(typechecker=beartype)
    def without_first(x: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        return x[1:]

    with pytest.raises(BeartypeCallHintReturnViolation, match="without_first"):
        without_first(torch.zeros(3))


def test_the_fields_of_dataclasses_are_checked_and_compared() -> None:
    @jaxtyped(typechecker=beartype)
    @dataclass
    class Pair:
        first: Float[Tensor, " n"]
        second: Float[Tensor, " n"]

    Pair(torch.zeros(2), torch.ones(2))
    with pytest.raises(BeartypeCallHintParamViolation, match="second"):
        Pair(torch.zeros(2), torch.ones(3))
    with pytest.raises(BeartypeCallHintParamViolation, match="learned"):
        Parameter("hue", -1.0, 1.0, learned="yes")  # type: ignore[arg-type]


def test_without_the_hook_the_library_speaks() -> None:
    with unhooked(), pytest.raises(TypeError, match="not supported between"):
        wilson_interval("3", 4)  # type: ignore[arg-type]
