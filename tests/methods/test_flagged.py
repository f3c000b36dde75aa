"""Flagged images change and others do not, whether only they are computed or all."""

import pytest
import torch
from torch import Tensor

from instaaug.methods.flagged import changed_where
from tests.support.images import random_images

FACTORS = torch.tensor([2.0, 3.0, 5.0, 7.0])


@pytest.fixture(params=["some", "all"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a device is not to be asked for a number, all images are computed."""
    if request.param == "all":
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)


def multiplied(some: Tensor, rows: Tensor | slice) -> Tensor:
    return some * FACTORS[rows, None, None, None]


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("pattern", ["0000", "0110", "1001", "1111"])
def test_each_flagged_image_changes_by_its_own_row(pattern: str) -> None:
    x = random_images(4).requires_grad_()
    before = x.detach().clone()
    flags = torch.tensor([flag == "1" for flag in pattern])
    factors = torch.where(flags, FACTORS, 1.0)[:, None, None, None]
    out = changed_where(flags, x, multiplied)
    assert torch.equal(out, before * factors)
    assert torch.equal(x, before)
    (slope,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(slope, factors.expand_as(x))


def test_on_a_processor_only_flagged_images_are_computed() -> None:
    seen = []

    def noted(some: Tensor, rows: Tensor | slice) -> Tensor:
        seen.append(len(some))
        return some

    for pattern in ([True, False, True], [False, False, False], [True, True, True]):
        changed_where(torch.tensor(pattern), random_images(3), noted)
    assert seen == [2, 3]
