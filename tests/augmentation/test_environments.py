"""InstaAug where it must work: other dtypes, shapes and layouts, copies, compilers, processes."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from instaaug import AugmentedBatch, InstaAug
from instaaug import transforms as T
from instaaug.parameterizations import Conditioning
from tests.support.ddp_worker import BATCH, N_STEPS, augmenter, train, train_together
from tests.support.forked import exit_codes
from tests.support.models import images, labels

ROOT = Path(__file__).resolve().parents[2]
CROP = T.Crop(levels=((1.0, 1), (0.5, 4)))
EVERYTHING = [CROP, T.Rotation(), T.Flip(), T.HSVJitter()]


def trained(aug: InstaAug, x: Tensor) -> AugmentedBatch:
    """One whole step; raises if anything on the way is not finite."""
    batch = aug(x, n_samples=2, targets=labels(len(x)))
    objective = aug.objective(batch.inputs.square().mean(dim=(1, 2, 3)), batch)
    objective.backward()
    assert objective.isfinite()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in aug.parameters())
    return batch


# --- dtypes, shapes, layouts --------------------------------------------------------------------


@pytest.mark.parametrize("baseline", ["batch", "value", "critic"])
def test_in_double_precision_everything_is_double(baseline: str) -> None:
    aug = InstaAug(EVERYTHING, baseline=baseline).double()  # type: ignore[arg-type]
    batch = trained(aug, images().double())
    parts = (batch.inputs, batch.theta, batch.entropy, batch.log_prob)
    assert {part.dtype for part in parts} == {torch.float64}
    objective = aug.objective(torch.ones(8, dtype=torch.float64), batch)
    assert objective.dtype == torch.float64


def test_double_precision_agrees_with_single() -> None:
    aug, x = InstaAug(EVERYTHING), images()
    single = aug.distribution(x).entropies()
    double = aug.double().distribution(x.double()).entropies()
    torch.testing.assert_close(double.float(), single, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_inputs_keep_a_precision_that_is_not_phis(dtype: torch.dtype) -> None:
    """A model in half precision takes what it gets; φ and the probabilities stay in single."""
    aug, x = InstaAug(EVERYTHING), images()
    batch = trained(aug, x.to(dtype))
    assert batch.inputs.dtype == dtype
    assert {batch.entropy.dtype, batch.log_prob.dtype} == {torch.float32}
    found, expected = (aug.distribution(i).entropies() for i in (x.to(dtype), x))
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0.02)
    views = aug.eval().wrap(torch.nn.Flatten(), n_samples=2)(x.to(dtype))
    assert views.isfinite().all()


@pytest.mark.parametrize("baseline", ["batch", "value", "critic"])
def test_under_autocast_probabilities_keep_single_precision(baseline: str) -> None:
    aug = InstaAug(EVERYTHING, baseline=baseline)  # type: ignore[arg-type]
    with torch.autocast("cpu", torch.bfloat16):
        batch = trained(aug, images())
    parts = (batch.inputs, batch.theta, batch.entropy, batch.log_prob)
    assert {part.dtype for part in parts} == {torch.float32}
    torch.testing.assert_close(
        batch.entropy, aug.distribution(images()).entropies(), atol=0.05, rtol=0.05
    )


def test_channels_last_gives_the_same_result(generator: torch.Generator) -> None:
    aug, x = InstaAug(EVERYTHING), images()
    plain = aug(x, 2, torch.Generator().manual_seed(0))
    last = aug(x.to(memory_format=torch.channels_last), 2, generator)
    torch.testing.assert_close(last.inputs, plain.inputs, atol=1e-5, rtol=1e-5)
    trained(aug, x.to(memory_format=torch.channels_last))


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_any_number_of_channels_can_be_cropped(channels: int) -> None:
    aug = InstaAug([CROP, T.Rotation()], in_channels=channels)
    assert trained(aug, images(channels=channels)).inputs.shape == (8, channels, 16, 16)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (8, 33), (40, 12), (65, 64)])
def test_any_image_size_works(size: tuple[int, int]) -> None:
    batch = trained(InstaAug(EVERYTHING), images(4, 3, *size))
    assert batch.inputs.shape == (8, 3, *size)


def test_one_augmenter_serves_images_of_several_sizes() -> None:
    aug = InstaAug("crop")
    assert [aug(images(1, 3, s, s)).inputs.shape[-1] for s in (16, 64, 96)] == [16, 64, 96]


def test_a_single_image_is_a_batch() -> None:
    trained(InstaAug(EVERYTHING), images(1))


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_the_padding_reaches_the_warp(padding_mode: str, generator: torch.Generator) -> None:
    aug = InstaAug(T.Crop(levels=((1.0, 2),)), padding_mode=padding_mode)  # type: ignore[arg-type]
    batch = aug(torch.ones(4, 3, 8, 8), generator=generator)
    assert bool((batch.inputs == 0).any()) == (padding_mode == "zeros")


# --- copies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("conditioning", ["input", "none", "class"])
def test_a_deep_copy_is_equal_and_independent(conditioning: Conditioning) -> None:
    aug = InstaAug(EVERYTHING, conditioning=conditioning, num_classes=3)
    trained(aug, images())
    twin = copy.deepcopy(aug)
    x, y = images(), labels()
    one, other = (a(x, 2, torch.Generator().manual_seed(1), y) for a in (aug, twin))
    assert torch.equal(one.inputs, other.inputs)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1.0)
        twin.band.weight.add_(1.0)
    again = aug(x, 2, torch.Generator().manual_seed(1), y)
    assert torch.equal(one.inputs, again.inputs)
    assert not torch.equal(aug.band.weight, twin.band.weight)


def test_a_deep_copy_of_a_class_table_reads_its_own_table() -> None:
    aug = InstaAug(T.Rotation(), conditioning="class", num_classes=2).eval()
    twin = copy.deepcopy(aug)
    with torch.no_grad():
        next(twin.parameters()).add_(1.0)
    entropies = [float(a.distribution(images(1)).entropy().detach()) for a in (aug, twin)]
    assert entropies[1] > entropies[0]


@pytest.mark.parametrize("baseline", ["batch", "value", "critic"])
def test_a_state_dict_makes_another_augmenter_equal(baseline: str) -> None:
    aug, other = (InstaAug(EVERYTHING, baseline=baseline) for _ in range(2))  # type: ignore[arg-type]
    aug.band.weight.add_(0.5)
    other.load_state_dict(aug.state_dict())
    one, two = (a(images(), 2, torch.Generator().manual_seed(1)) for a in (aug, other))
    assert torch.equal(one.inputs, two.inputs)
    losses = torch.rand(8)
    assert torch.equal(aug.objective(losses, one), other.objective(losses, two))


# --- compilers and processes --------------------------------------------------------------------


@pytest.mark.slow  # the compiler takes long
def test_a_compiled_step_equals_an_eager_one() -> None:
    """In a Python of its own, without the shape checker that runs in this one."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.support.compile_worker"],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_processes_do_what_one_does_with_the_joined_batch(tmp_path: Path) -> None:
    results = [tmp_path / f"{rank}.safetensors" for rank in range(2)]
    calls = [(rank, 2, tmp_path / "meeting_point", file) for rank, file in enumerate(results)]
    assert exit_codes(train_together, *calls) == [0, 0]
    states = [load_file(result) for result in results]
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())

    alone = augmenter()
    history = torch.stack(train(alone, alone, images(BATCH)))
    assert len(history.unique()) == N_STEPS  # λ did move
    torch.testing.assert_close(states[0].pop("history"), history, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(states[0], dict(alone.state_dict()), atol=1e-5, rtol=1e-4)
