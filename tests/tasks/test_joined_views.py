"""Several processes compare views as one would that had the whole batch; real processes."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from instaaug.tasks.contrastive import gather_views
from tests.support.contrast_worker import compare_own, compared, inputs, weight
from tests.support.forked import exit_codes


def in_processes(folder: Path, counts: list[int]) -> list[dict[str, Tensor]]:
    files = [folder / f"{rank}.safetensors" for rank in range(len(counts))]
    calls = [(rank, counts, folder / "meeting_point", file) for rank, file in enumerate(files)]
    assert exit_codes(compare_own, *calls) == [0] * len(counts)
    return [load_file(file) for file in files]


@pytest.mark.parametrize("counts", [[4, 4], [3, 2]])
def test_two_processes_have_the_losses_of_one_with_the_joined_batch(
    tmp_path: Path, counts: list[int]
) -> None:
    parts = in_processes(tmp_path, counts)
    projection = weight()
    found, _ = compared(inputs(sum(counts)), projection)
    for name, whole in (("losses", found.losses), ("credited", found.credits())):
        torch.testing.assert_close(torch.cat([part[name] for part in parts], dim=1), whole)
    # the mean over processes of the gradients of their means
    means = [losses.mean() for losses in found.losses.split(counts, dim=1)]
    (expected,) = torch.autograd.grad(torch.stack(means).mean(), projection)
    for part in parts:
        torch.testing.assert_close(part["gradient"], expected)


def test_a_single_process_has_its_own_views_alone() -> None:
    z = inputs(3)
    joined, own = gather_views(z)
    assert joined is z
    assert own == slice(0, 3)
