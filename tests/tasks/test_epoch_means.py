"""Means over an epoch."""

import pytest
import torch

from instaaug.tasks.task import EpochMeans


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_long_epoch_in_half_precision_has_the_right_mean(dtype: torch.dtype) -> None:
    epoch = EpochMeans()
    for _ in range(2000):
        epoch.add({"loss": torch.tensor(0.5, dtype=dtype, requires_grad=True)})
    assert epoch.means() == {"loss": 0.5}
    assert not epoch.sums["loss"].requires_grad


def test_an_epoch_without_steps_has_no_means() -> None:
    assert EpochMeans().means() == {}
