"""A compiled augmenter draws the same and learns the same, and is not compiled in every step."""

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from instaaug import AugmentedBatch, InstaAug
from instaaug.networks.compiling import compile_training
from tests.support.models import images

ROOT = Path(__file__).parents[2]
HOW: dict[str, Callable[..., None]] = {
    "torch": lambda aug, **options: aug.compile(**options),
    "guarded": lambda aug, **options: compile_training(aug, what="the augmenter", **options),
}


@pytest.mark.slow  # compiling takes its time
@pytest.mark.parametrize(
    ("how", "transforms"),
    [
        ("torch", "crop"),
        pytest.param("guarded", "rotation,hsv_jitter", marks=pytest.mark.slow),
    ],
)
def test_a_compiled_augmenter_draws_and_learns_the_same(how: str, transforms: str) -> None:
    """In a Python of its own, without the shape checker that runs in this one."""
    code = f"from tests.augmentation import test_compile as t; t.compare({how!r}, {transforms!r})"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def compare(how: str, transforms: str) -> None:
    """Steps with generators, as tasks take them; the third has the smaller batch of an end."""
    n_graphs: list[int] = [0]

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        n_graphs[0] += 1
        return graph.forward

    torch.manual_seed(0)
    aug = InstaAug(transforms.split(","))
    twin = copy.deepcopy(aug)
    HOW[how](twin, backend=backend)
    counts = []
    for seed, batch in enumerate((7, 7, 5, 7, 5)):
        plain, compiled = (_step(a, images(batch, seed=seed), seed) for a in (aug, twin))
        assert torch.equal(compiled.theta, plain.theta)
        torch.testing.assert_close(compiled.inputs, plain.inputs, atol=1e-5, rtol=0)
        torch.testing.assert_close(twin.band.weight, aug.band.weight)
        for one, other in zip(aug.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(other.grad, one.grad, atol=1e-5, rtol=1e-4)
        counts.append(n_graphs[0])
    assert 0 < counts[0] == counts[1] < counts[2] == counts[4], counts


def _step(aug: InstaAug, x: Tensor, seed: int) -> AugmentedBatch:
    aug.zero_grad()
    batch = aug(x, 2, torch.Generator().manual_seed(seed))
    aug.objective(batch.inputs.square().mean(dim=(1, 2, 3)), batch).backward()
    return batch
