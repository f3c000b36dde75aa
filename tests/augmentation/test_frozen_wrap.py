"""Test-time augmentation with a φ that reads the model's own features: what it costs and gives."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation.at_test_time import Merge
from instaaug.augmentation.views import Select
from instaaug.errors import ShapeError
from instaaug.networks import FrozenFeatures
from tests.support.frozen_models import Counting, Returning, Snapshot, built
from tests.support.models import images
from tests.support.operators import Counter

CROP = T.Crop(levels=((1.0, 1), (0.6, 3)))
X = images(5, height=48, width=48)


def reading(model: nn.Module, *, keep_original: bool = True, **features: Any) -> InstaAug:
    torch.manual_seed(0)
    network = FrozenFeatures(model, size=32, **features)
    aug = InstaAug(CROP, network=network, size=32, keep_original=keep_original, select="top")
    return aug.eval()


def naive(aug: InstaAug, model: nn.Module, x: Tensor, n: int) -> Tensor:
    """The mean over the model's outputs for n views, one at a time."""
    theta = aug.draw(x, n, select="top")
    return torch.stack([model(aug.render(x, row)) for row in theta]).mean(dim=0)


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("chunk_size", [None, 2])
def test_the_model_runs_n_times_per_input(n: int, chunk_size: int | None) -> None:
    model = Counting()
    aug = reading(model)
    expected = naive(aug, model, X, n)
    model.n_seen = model.largest = 0
    result = aug.wrap(model, n, chunk_size=chunk_size).eval()(X)
    assert model.n_seen == n * len(X)
    assert model.largest <= (chunk_size or 32)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-4)


def test_no_more_than_32_images_go_through_the_model_at_once() -> None:
    model = Counting()
    aug = reading(model)
    model.n_seen = model.largest = 0
    aug.wrap(model, 2).eval()(images(70, height=32, width=32))
    assert (model.n_seen, model.largest) == (140, 32)


def test_with_an_early_stop_the_first_view_is_not_repeated_either() -> None:
    model = Counting()
    aug = reading(model)
    model.n_seen = 0
    _, n_views = aug.wrap(model, 6, mean_views=2.4).eval().outputs_and_counts(X)
    assert model.n_seen == int(n_views.sum()) == 12


def test_around_another_model_both_run() -> None:
    """φ's own model once per input, the other one n times: it has not seen view 0."""
    own, other = Counting(), Counting(built("class map"))
    aug = reading(own)
    expected = naive(aug, other, X, 4)
    own.n_seen = other.n_seen = 0
    result = aug.wrap(other, 4).eval()(X)
    assert (own.n_seen, other.n_seen) == (len(X), 4 * len(X))
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-4)


def test_around_another_model_the_own_one_is_not_touched() -> None:
    """It is no part of the predictor, whose eval() does not reach it."""
    own, other = built("functional ReLU").train(), built("class map")
    aug = reading(own)
    before = Snapshot(own)
    aug.wrap(other, 3).eval()(X)
    assert Snapshot(own) == before


def test_without_the_original_all_views_are_rendered() -> None:
    model = Counting()
    aug = reading(model, keep_original=False)
    expected = naive(aug, model, X, 3)
    model.n_seen = 0
    result = aug.wrap(model, 3).eval()(X)
    assert model.n_seen == 4 * len(X)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("merge", ["logit", "probability", "weighted"])
@pytest.mark.parametrize("select", ["sample", "top"])
def test_every_rule_takes_the_first_view_as_it_takes_the_others(
    merge: Merge, select: Select
) -> None:
    """Around a copy of the model, which renders view 0 itself, the result is the same."""
    model = built("functional ReLU")
    copied = nn.Sequential(model)
    aug = reading(model)
    results = [
        aug.wrap(m, 4, merge=merge, select=select).eval()(X, torch.Generator().manual_seed(0))
        for m in (model, copied)
    ]
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-4)


def test_the_output_that_wrap_asks_for_need_not_be_the_one_that_phi_reads() -> None:
    model = Returning(lambda z: {"scores": z, "twice": 2 * z}).eval()
    aug = reading(model, output=lambda o: o["scores"])
    once = aug.wrap(model, 3, output=lambda o: o["scores"]).eval()(X)
    twice = aug.wrap(model, 3, output=lambda o: o["twice"]).eval()(X)
    torch.testing.assert_close(twice, 2 * once)


@pytest.mark.parametrize(
    ("returned", "got"), [(lambda z: {"a": z}, "dict"), (lambda z: z.mean(), r"\(\)")]
)
def test_an_output_that_cannot_be_merged_is_refused(returned: Any, got: str) -> None:
    model = Returning(lambda z: z).eval()
    aug = reading(model)
    model.wrap = returned
    aug.phi.network._output = lambda _: torch.zeros(len(X), 5)  # type: ignore[union-attr]
    with pytest.raises(ShapeError, match=f"one row per input, 5 here: got {got}"):
        aug.wrap(model, 3).eval()(X)


@pytest.mark.parametrize("read", ["compiled", "plain"])
def test_a_compiled_model_is_recognized_as_the_same(read: str) -> None:
    model = built("functional ReLU")
    compiled: Any = torch.compile(model, backend="eager")
    aug = reading(compiled if read == "compiled" else model)
    for asked in (model, compiled):
        first = aug.views(X, 3, model=asked).first
        torch.testing.assert_close(first, model(aug.transform.resize(X)))


def test_half_precision_models_are_averaged_in_single_precision() -> None:
    model = built("functional ReLU").to(torch.bfloat16)
    result = reading(model).wrap(model, 4).eval()(X)
    assert result.dtype == torch.float32


def test_the_gradient_of_the_input_knows_every_view() -> None:
    """As for an attack on the predictor: without the first view it would be a third too small."""
    model = built("functional ReLU")
    aug = reading(model)
    x = X.clone().requires_grad_()
    (found,) = torch.autograd.grad(aug.wrap(model, 3).eval()(x).sum(), x)
    (expected,) = torch.autograd.grad(naive(aug, model, x, 3).sum(), x)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-3)


def test_the_number_of_operators_does_not_depend_on_the_number_of_inputs() -> None:
    model = built("functional ReLU")
    predictor = reading(model).wrap(model, 3, chunk_size=100).eval()
    counts = []
    for batch in (4, 16):
        x = images(batch, height=32, width=32)
        with torch.no_grad(), Counter() as counter:
            predictor(x)
        counts.append(counter.total)
    assert counts[0] == counts[1]
