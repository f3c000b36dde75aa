"""The table of views: right, whatever the chunks; resumed, reused or begun again as it must be."""

import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError, NonFiniteError, ShapeError
from instaaug.frozen import FrozenViews, NormalizedImages, table
from instaaug.frozen.table import ViewTable, check_table, tabulate
from instaaug.networks import FrozenFeatures
from tests.support.forked import exit_codes
from tests.support.frozen_models import Returning, Snapshot, built
from tests.support.frozen_tables import (
    AT_ONCE,
    ROWS,
    N,
    data,
    model_and_views,
    tabulate_and_die,
)

K = 3

pytestmark = pytest.mark.usefixtures("_small_batches")


def naive(views: FrozenViews, x: Tensor) -> Tensor:
    """One image and one view at a time."""
    with torch.no_grad():
        rows = [
            [views.model(views.transform.apply(x[i : i + 1], row[None])) for row in views.rows]
            for i in range(len(x))
        ]
    return torch.stack([torch.cat(row) for row in rows])


def made(views: FrozenViews, folder: Path | None = None, **options: Any) -> ViewTable:
    return tabulate(views, NormalizedImages(data()), folder=folder, **options)


def same(one: ViewTable, other: ViewTable) -> bool:
    assert one.features is not None
    assert other.features is not None
    return (
        np.array_equal(one.outputs, other.outputs)
        and np.array_equal(one.features, other.features)
        and torch.equal(one.targets, other.targets)
    )


# --- what is in it ------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [1, 7, 32])
def test_the_table_holds_what_a_naive_loop_finds(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "AT_ONCE", at_once)
    model, views = model_and_views()
    x, y = data(10)
    found = tabulate(views, NormalizedImages((x, y)))
    assert model.n_seen == K * 10
    everything = torch.arange(10)
    torch.testing.assert_close(found.outputs_of(everything), naive(views, x), atol=1e-5, rtol=1e-4)
    assert views.features is not None
    torch.testing.assert_close(
        found.features_of(everything),
        views.features.features_and_outputs(x)[0],
        atol=1e-4,
        rtol=1e-3,
    )
    assert torch.equal(found.targets, y)


def test_progress_is_reported() -> None:
    _, views = model_and_views()
    reports: list[tuple[int, int]] = []
    made(views, on_progress=lambda *numbers: reports.append(numbers))
    assert reports == [(0, N), (8, N), (16, N), (N, N)]


def test_a_model_in_training_mode_is_asked_in_evaluation_mode_and_not_touched() -> None:
    model, views = model_and_views(built("functional ReLU"))
    expected = made(views)
    model.train()
    model.model.get_submodule("head").eval()
    before = Snapshot(model)
    assert same(made(views), expected)
    assert Snapshot(model) == before


def test_features_of_another_model_do_not_speak_for_this_one() -> None:
    _, views = model_and_views(built("class map"))
    other = FrozenFeatures(built("functional ReLU"), size=32)
    x = data(4)[0]
    outputs, seen = replace(views, features=other).outputs(x)
    torch.testing.assert_close(outputs, naive(views, x), atol=1e-5, rtol=1e-4)
    assert seen is not None
    assert torch.equal(seen, other.features_and_outputs(x)[0])


@pytest.mark.parametrize(
    ("wrap", "output", "shape"),
    [
        (lambda z: z[:, 0], None, ()),
        (lambda z: z[:, :2], None, (2,)),
        (lambda z: z[:, :, None].expand(-1, -1, 2), None, (5, 2)),
        (lambda z: {"logits": z}, None, (5,)),
        (lambda z: (z, z.mean()), None, (5,)),
        (lambda z: {"scores": z}, lambda o: o["scores"], (5,)),
    ],
)
def test_outputs_of_any_form_are_kept(wrap: Any, output: Any, shape: tuple[int, ...]) -> None:
    _, views = model_and_views(Returning(wrap).eval(), reads=False, output=output)
    found = made(views)
    assert found.outputs.shape == (N, K, *shape)
    assert found.outputs.dtype == np.float32, "few numbers are kept as they are"
    assert found.features is None


@pytest.mark.parametrize(
    ("wrap", "got"),
    [(lambda z: z.mean(), r"\(\)"), (lambda z: z[:1], r"\(1, 5\)"), (lambda z: {"a": z}, "dict")],
)
def test_outputs_without_a_row_per_input_are_refused(wrap: Any, got: str) -> None:
    _, views = model_and_views(Returning(wrap).eval(), reads=False)
    with pytest.raises(ShapeError, match=f"a tensor with one row per input, 8 here: got {got}"):
        made(views)


class Wide(nn.Module):
    """Twenty outputs, in proportion to the brightness of the image."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    @override
    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x.mean(dim=(1, 2, 3))[:, None] * torch.arange(1.0, 21.0)


@pytest.mark.parametrize("folder", [True, False])
@pytest.mark.parametrize(
    ("brightness", "kind", "precision"),
    [
        ((1.0, 1.0), np.float16, 1e-3),
        ((99.0, 99.0), np.float32, 1e-5),
        ((1.0, 1e6), np.float32, 1e-3),
    ],
)
def test_numbers_that_half_precision_cannot_hold_are_kept_in_single_precision(
    brightness: tuple[float, float], kind: type, precision: float, folder: bool, tmp_path: Path
) -> None:
    """Also where only a later batch has them; what was rounded before stays so."""
    _, views = model_and_views(Wide(), reads=False)
    x, y = data()
    x = torch.cat([x[:12] * brightness[0], x[12:] * brightness[1]])
    found = tabulate(views, NormalizedImages((x, y)), folder=tmp_path if folder else None)
    assert found.outputs.dtype == kind
    everything = found.outputs_of(torch.arange(N))
    torch.testing.assert_close(everything, naive(views, x), rtol=precision, atol=0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_outputs_that_are_no_numbers_are_refused_with_the_images_named(value: float) -> None:
    class Sick(nn.Module):
        n = 0

        @override
        def forward(self, x: Tensor) -> Tensor:
            self.n += 1
            return torch.full((len(x), 20), value if self.n > K else 1.0)

    _, views = model_and_views(Sick(), reads=False)
    with pytest.raises(NonFiniteError, match=r"`model\(x\)` must be finite.*images 8 to 15"):
        made(views)


def test_a_loss_that_does_not_fit_is_known_after_the_first_batch() -> None:
    model, views = model_and_views()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        assert (outputs.shape, targets.shape) == ((8, 5), (8,))
        raise RuntimeError("does not fit")

    with pytest.raises(RuntimeError, match="does not fit"):
        made(views, loss=loss)
    assert model.n_seen == K * AT_ONCE


# --- going on, and beginning again --------------------------------------------------------------


def test_a_killed_fit_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    assert exit_codes(tabulate_and_die, (tmp_path, AT_ONCE)) == [-signal.SIGKILL]
    model, views = model_and_views()
    found = made(views, tmp_path)
    assert model.n_seen == K * (N - AT_ONCE) + K, "what is missing, and the first image as a test"
    assert same(found, made(model_and_views()[1]))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_table_leaves_the_model_as_it_was(
    error: type[BaseException], tmp_path: Path
) -> None:
    model, views = model_and_views()
    model.train()
    before = Snapshot(model)

    def report(done: int, _: int) -> None:
        if done:
            raise error

    with pytest.raises(error):
        made(views, tmp_path, on_progress=report)
    assert Snapshot(model) == before
    model.n_seen = 0
    made(views, tmp_path)
    assert model.n_seen == K * (N - AT_ONCE) + K


def test_a_finished_table_is_used_again(tmp_path: Path) -> None:
    first = made(model_and_views()[1], tmp_path)
    model, views = model_and_views()
    reports: list[int] = []
    again = made(views, tmp_path, on_progress=lambda done, _: reports.append(done))
    assert model.n_seen == K
    assert reports == [N]
    assert same(first, again)


def changed_weights(_: Tensor, views: FrozenViews) -> tuple[Tensor, FrozenViews]:
    with torch.no_grad():
        next(views.model.parameters()).flatten()[0] += 1e-4
    return data()[0], views


def changed_pixel(x: Tensor, views: FrozenViews) -> tuple[Tensor, FrozenViews]:
    x = x.clone()
    x[7, 2, 31, 31] += 1e-3
    return x, views


def changed_code(x: Tensor, views: FrozenViews) -> tuple[Tensor, FrozenViews]:
    views.model.register_forward_hook(lambda _, __, out: 2 * out)
    return x, views


CHANGES: dict[str, Any] = {
    "weights": changed_weights,
    "buffers": lambda x, v: (x, (v.model.model.norm.running_mean.add_(1e-3), v)[1]),
    "rows": lambda x, v: (x, replace(v, rows=ROWS * torch.tensor([1, 1, 1, 0.99]))),
    "order of rows": lambda x, v: (x, replace(v, rows=ROWS[[0, 2, 1]])),
    "padding_mode": lambda x, v: (x, replace(v, padding_mode="border")),
    "size": lambda x, v: (x, replace(v, transform=replace(v.transform, size=(40, 40)))),
    "features": lambda x, v: (x, replace(v, features=None)),
    "last pixel": changed_pixel,
    "order of images": lambda x, v: (x.flip(0), v),
    "output": lambda x, v: (x, replace(v, output=lambda z: z.flip(1))),
    "shape of the output": lambda x, v: (x, replace(v, output=lambda z: z[:, :3])),
    "code of the model": changed_code,
}


@pytest.mark.parametrize(
    ("change", "finished"),
    [*((change, True) for change in CHANGES), ("weights", False), ("last pixel", False)],
)
def test_whatever_has_changed_the_table_is_made_anew(
    change: str, finished: bool, tmp_path: Path
) -> None:
    x, y = data()
    _, views = model_and_views()

    def report(done: int, _: int) -> None:
        if done and not finished:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        tabulate(views, NormalizedImages((x, y)), folder=tmp_path, on_progress=report)
    _, views = model_and_views()
    x, views = CHANGES[change](x, views)
    expected = tabulate(views, NormalizedImages((x, y)))
    found = tabulate(views, NormalizedImages((x, y)), folder=tmp_path)
    assert np.array_equal(found.outputs, expected.outputs)


def test_other_targets_are_taken_from_the_data(tmp_path: Path) -> None:
    _, views = model_and_views()
    made(views, tmp_path)
    x, y = data()
    again = tabulate(views, NormalizedImages((x, y.flip(0))), folder=tmp_path)
    assert torch.equal(again.targets, y.flip(0))


@pytest.mark.parametrize(
    ("name", "forged"),
    [
        ("outputs", np.zeros((N, K, 9), np.float32)),
        ("outputs", np.zeros((N, K, 5), np.float32)),
        ("features", np.zeros((N, 12, 8, 8), np.int64)),
        ("checksums", np.zeros((N, 2), np.float32)),
    ],
)
def test_forged_arrays_begin_again(name: str, forged: np.ndarray, tmp_path: Path) -> None:
    made(model_and_views()[1], tmp_path)
    np.save(tmp_path / f"{name}.npy", forged)
    assert same(made(model_and_views()[1], tmp_path), made(model_and_views()[1]))


def test_a_second_fit_in_the_same_folder_is_told_to_wait(tmp_path: Path) -> None:
    _, views = model_and_views()

    def meanwhile(done: int, _: int) -> None:
        if done == AT_ONCE:
            with pytest.raises(ArgumentError, match="must not be in use by another fit"):
                made(views, tmp_path)

    first = made(views, tmp_path, on_progress=meanwhile)
    assert same(made(views, tmp_path), first)


def test_a_table_that_is_still_read_survives_another_in_its_folder(tmp_path: Path) -> None:
    first = made(model_and_views()[1], tmp_path)
    kept = np.array(first.outputs)
    made(model_and_views(built("functional ReLU", seed=1))[1], tmp_path)
    assert np.array_equal(first.outputs, kept)


# --- small things -------------------------------------------------------------------------------


def test_a_subset_has_the_rows_it_was_asked_for() -> None:
    whole = made(model_and_views()[1])
    rows = torch.tensor([3, 1, 17])
    part = whole.subset(rows)
    assert torch.equal(part.outputs_of(torch.arange(3)), whole.outputs_of(rows))
    assert torch.equal(part.features_of(torch.arange(3)), whole.features_of(rows))
    assert torch.equal(part.targets, whole.targets[rows])


def test_a_table_of_something_else_is_refused() -> None:
    _, views = model_and_views()
    whole, images = made(views), NormalizedImages(data())
    check_table(whole, views, images)
    with pytest.raises(ShapeError, match=r"a column per view, \(20, 3\): got \(2, 3\)"):
        check_table(whole.subset(torch.arange(2)), views, images)
    with pytest.raises(ShapeError, match=r"\(20, 2\): got \(20, 3\)"):
        check_table(whole, replace(views, rows=ROWS[:2]), images)
    with pytest.raises(ShapeError, match=r"the model.s features, 12 channels.*got none"):
        check_table(replace(whole, features=None), views, images)
    other = FrozenFeatures(built("flattened"), size=32)
    with pytest.raises(ShapeError, match=r"the model.s features, 10 channels.*got 12"):
        check_table(whole, replace(views, features=other), images)


def test_extra_state_of_a_module_counts_for_the_fingerprint() -> None:
    class Extra(nn.Module):
        extra = 1

        @override
        def get_extra_state(self) -> Any:
            return {"extra": self.extra}

        @override
        def forward(self, x: Tensor) -> Tensor:
            return x.mean(dim=(2, 3))

    _, views = model_and_views(Extra(), reads=False)
    before = views.fingerprint
    assert views.fingerprint == before
    Extra.extra = 2
    assert views.fingerprint != before
