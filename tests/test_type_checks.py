"""In tests every call is checked: shapes by jaxtyping, all other types by beartype alone."""

import pytest
import torch
from beartype.roar import BeartypeCallHintParamViolation
from jaxtyping import TypeCheckError

from instaaug.functional.affine import rotation_matrix
from instaaug.registry import Registry
from instaaug.stats import wilson_interval
from tests.support.unhooked import unhooked


def test_a_wrong_type_is_refused_where_no_shape_is_annotated() -> None:
    with pytest.raises(BeartypeCallHintParamViolation, match="n_right"):
        wilson_interval("3", 4)  # type: ignore[arg-type]


def test_a_wrong_type_is_refused_in_methods() -> None:
    with pytest.raises(BeartypeCallHintParamViolation, match="kind"):
        Registry(3)  # type: ignore[arg-type]


def test_a_wrong_shape_is_refused() -> None:
    with pytest.raises(TypeCheckError, match="typechecking parameter 'angle'"):
        rotation_matrix(torch.zeros(2, 3))


def test_without_the_hook_the_library_speaks() -> None:
    with unhooked(), pytest.raises(TypeError, match="not supported between"):
        wilson_interval("3", 4)  # type: ignore[arg-type]
