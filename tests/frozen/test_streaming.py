"""Learning from a stream: the same losses as from a table, bounded room, and the same bits."""

import copy
import resource
import shutil
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from typing_extensions import override

from instaaug import InstaAug, fit_tta
from instaaug import transforms as T
from instaaug.errors import ArgumentError
from instaaug.frozen import FrozenViews, NormalizedImages, tabulate
from instaaug.frozen.fit import make_loss
from instaaug.frozen.learning import Learning, TableBatches, view_confidence
from instaaug.frozen.streaming import CHECKPOINT, ImageStream, TablePlan, plan_table
from instaaug.frozen.table import all_views, bytes_per_image, condense
from instaaug.frozen.validation import validate
from instaaug.networks import FrozenFeatures
from instaaug.objectives import ViewObjective
from tests.support.forked import exit_codes
from tests.support.frozen_models import Counting, built
from tests.support.frozen_tables import CROP, data, model_and_views
from tests.support.killed import die
from tests.support.planted import QUARTERS, ColorAverage, hidden_objects

N, K = 120, 5
ROW = 4 * K * 5 + 4 + 4 * 12 * 8 * 8  # five outputs per view, a checksum, class evidence
TABLE = 104
X, Y = data(N)
STEPS_OF_TABLE, STEPS_OF_STREAM = 3, 4


@pytest.fixture(scope="module", autouse=True)
def _unvalidated() -> Iterator[None]:
    """Cross-validation is half of the time of a fit, and before the stream; one test has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("instaaug.frozen.fit.validate", lambda *_, **__: None)
        yield


def fitted(model: nn.Module | None = None, source: Any = (X, Y), **options: Any) -> InstaAug:
    """A quick fit: three steps from a table of 104 images, then four from all 120."""
    chosen: dict[str, Any] = {
        "transform": CROP, "steps": STEPS_OF_TABLE, "n_samples": (2, 3), "batch_size": 32,
        "max_table_bytes": TABLE * ROW,
    }  # fmt: skip
    return fit_tta(model or built("functional ReLU"), source, **chosen | options)


def equal(one: InstaAug, other: InstaAug) -> bool:
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# What goes into the table


def test_a_table_holds_as_many_random_images_as_there_is_room_for() -> None:
    _, views = model_and_views()
    images = NormalizedImages((X, Y))
    each = bytes_per_image(views, images)
    assert tabulate(views, images).outputs.nbytes < N * each
    assert plan_table(views, images, max_bytes=N * each) is None
    plan = plan_table(views, images, max_bytes=N * each - 1)
    assert plan is not None
    assert len(plan.rows.unique()) == N - 1
    few = plan_table(views, images, max_bytes=100 * each, seed=1)
    other = plan_table(views, images, max_bytes=100 * each, seed=2)
    assert few is not None
    assert other is not None
    assert len(few.rows) == 100
    assert not torch.equal(few.rows, other.rows)


def test_the_size_of_a_row_is_what_it_takes() -> None:
    _, views = model_and_views()
    images = NormalizedImages((X, Y))
    table = tabulate(views, images)
    assert table.features is not None
    n_bytes = table.outputs.nbytes + table.features.nbytes + 4 * N  # checksums
    assert bytes_per_image(views, images) * N == n_bytes


def test_too_little_room_is_refused() -> None:
    words = r"`max_table_bytes` must leave room for 100 images, [\d,]+ bytes: got 9,999\."
    with pytest.raises(ArgumentError, match=words):
        fitted(max_table_bytes=9_999)


@pytest.mark.parametrize("passes", [0.0, -1.0, float("inf"), float("nan")])
def test_a_number_of_passes_is_positive(passes: float) -> None:
    with pytest.raises(ArgumentError, match="`passes` must be a number above 0: got"):
        fitted(passes=passes)


def test_the_plan_says_what_will_happen() -> None:
    plan = TablePlan(50_000, 30, 60_000, torch.arange(2000))
    assert str(plan) == (
        "30 views of 50,000 images would take 3 GB: learning from a stream, after a table of "
        "2,000 images."
    )


# What is learned from


def both_batches(aug: InstaAug, model: nn.Module, learning: Learning, **options: Any) -> list[Any]:
    """All images as one batch, from a table and from a stream."""
    images, network = NormalizedImages((X, Y)), aug.phi.network
    reader = network if isinstance(network, FrozenFeatures) else None
    views = FrozenViews(model, aug.transform, all_views(aug), reader)
    table = tabulate(views, images)
    if aug.merge == "confidence":
        object.__setattr__(learning, "confidence", view_confidence(table, aug.sharpness))
    small = condense(table) if options.get("condensed") else table
    stream = ImageStream(views, images, batch_size=N, **options)
    tabulated = TableBatches(aug, small, images, learning)
    return [next(tabulated), next(stream.batches(aug, learning))]


class ManyClasses(nn.Module):
    """A hundred classes, so that outputs are condensed, and stored in half precision."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.map = nn.Conv2d(3, 8, 8, stride=8)
        self.head = nn.Linear(8, 100)

    @override
    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.map(x).mean(dim=(2, 3)))
        return result


OBJECTIVES, FEATURES = ("views", "ensemble", "single"), ("model", "pyramid", "none")
EVERY_PAIR = [
    (objective, features, ("logit", "confidence")[(i + j) % 2])
    for i, objective in enumerate(OBJECTIVES)
    for j, features in enumerate(FEATURES)
]


@pytest.mark.parametrize(("objective", "features", "merge"), EVERY_PAIR)
def test_a_batch_has_the_same_loss_and_gradient_from_a_stream_as_from_a_table(
    objective: ViewObjective, features: Any, merge: str
) -> None:
    model = ManyClasses().eval()
    aug = fitted(model, features=features, steps=1, max_table_bytes=10**9, objective=objective)
    if merge == "confidence":
        aug.set_merging("confidence", 2.0)
    learning = Learning(objective, (2, 3), make_loss(None), batch_size=N)
    batches = both_batches(aug, model, learning, condensed=objective != "single")
    gradients, band = [], copy.deepcopy(aug.band.state_dict())
    for batch in batches:
        aug.zero_grad()
        aug.band.load_state_dict(band)  # every batch moves λ
        loss = learning.loss_of(aug, batch, 1)
        loss.backward()
        flat = [p.grad.flatten() for p in aug.parameters() if p.grad is not None]
        gradients.append(torch.cat([loss.detach()[None], *flat]))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize("passes", [0.5, 1.0, 2.0])
def test_all_images_are_streamed_after_the_table(passes: float) -> None:
    model, steps, seen = Counting(), list[int](), list[tuple[int, int]]()
    fitted(
        model,
        passes=passes,
        on_step=lambda step, _: steps.append(step),
        on_progress=lambda done, total: seen.append((done, total)),
    )
    streamed = {0.5: 64, 1.0: N, 2.0: 2 * N}[passes]
    assert model.n_seen == K * (TABLE + streamed) + 3, "and images to find its map and its size"
    assert len(steps) == STEPS_OF_TABLE + round(passes * STEPS_OF_STREAM)
    assert {total for _, total in seen} == {TABLE + streamed}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == TABLE + streamed


def test_a_fit_says_that_it_streams_and_only_then() -> None:
    plans: list[TablePlan] = []
    fitted(on_plan=plans.append)
    fitted(on_plan=plans.append, max_table_bytes=N * ROW)
    assert [len(plan.rows) for plan in plans] == [TABLE]


def test_what_is_streamed_makes_a_difference() -> None:
    plans: list[TablePlan] = []
    expected = fitted(on_plan=plans.append)
    outside = torch.ones(N, dtype=torch.bool)
    outside[plans[0].rows] = False
    changed = torch.where(outside, (Y + 1) % 5, Y)
    assert int(outside.sum()) == N - TABLE
    assert not equal(fitted(source=(X, changed)), expected)
    assert not equal(fitted(passes=2.0), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"features": "pyramid"},
        {"features": "none"},
        {"objective": "single"},
        {"objective": "ensemble"},
        {"merge": "confidence", "sharpness": 1.0},
        {"loss": lambda o, t: (o[:, 0] - t).square()},
        {"transform": [CROP, T.Flip()], "max_table_bytes": 110 * (ROW + 4 * K * 5)},
    ],
)
def test_any_fit_can_be_streamed(options: dict[str, Any]) -> None:
    model, plans = built("functional ReLU"), list[TablePlan]()
    if "features" in options:
        options = {**options, "max_table_bytes": 110 * (4 * K * 5 + 4)}
    aug = fitted(model, on_plan=plans.append, **options)
    assert len(plans) == 1
    assert aug.wrap(model, 3).eval()(X[:4]).shape == (4, 5)


def test_a_loader_streams_its_data_set(finished: tuple[Path, InstaAug]) -> None:
    _, expected = finished
    dataset = torch.utils.data.TensorDataset(X, Y)
    assert equal(fitted(source=dataset), expected)
    assert equal(fitted(source=DataLoader(dataset, batch_size=7, shuffle=True)), expected)


def test_the_object_of_every_new_image_is_found() -> None:
    """As from a table; here the table holds a sixth of the images and gives but two steps."""
    model = ColorAverage().eval()
    plans: list[TablePlan] = []
    x, y, _ = hidden_objects(600)
    aug = fit_tta(
        model, (x, y), QUARTERS, n_samples=2, steps=2, batch_size=16, learning_rate=0.05,
        max_table_bytes=100 * 3200, on_plan=plans.append,
    )  # fmt: skip
    assert len(plans) == 1
    x, y, quarter = hidden_objects(64, seed=1)
    box = aug.draw(x, 2, select="top")[1]
    assert torch.equal((box[:, 1] > 0) * 2 + (box[:, 0] > 0).long(), quarter)
    assert torch.equal(aug.wrap(model, 2).eval()(x).argmax(dim=1), y)


# Resuming


@pytest.fixture
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every batch."""
    monkeypatch.setattr("instaaug.frozen.streaming.SECONDS_BETWEEN_CHECKPOINTS", 0.0)


def stop_at(step: int) -> Any:
    def on_step(done: int, _: float) -> None:
        if done == step:
            raise KeyboardInterrupt

    return on_step


TWICE: dict[str, dict[str, Any]] = {
    "views": {"passes": 2.0},
    "single": {"passes": 2.0, "objective": "single"},
    "pyramid": {
        "passes": 2.0, "features": "pyramid", "max_table_bytes": 110 * (4 * K * 5 + 4)
    },
}  # fmt: skip


@cache
def uninterrupted(kind: str) -> InstaAug:
    return fitted(**TWICE[kind])


@pytest.mark.usefixtures("_eager")
@pytest.mark.parametrize(
    ("kind", "at"),
    [
        *[("views", at) for at in (1, STEPS_OF_TABLE, STEPS_OF_TABLE + 1, 6, 9)],
        *[(kind, at) for kind in ("single", "pyramid") for at in (STEPS_OF_TABLE + 1, 6)],
    ],
)
def test_an_interrupted_stream_goes_on_to_the_same_bits(
    kind: str, at: int, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        fitted(folder=tmp_path, on_step=stop_at(at), **TWICE[kind])
    steps: list[int] = []
    resumed = fitted(folder=tmp_path, on_step=lambda n, _: steps.append(n), **TWICE[kind])
    assert equal(resumed, uninterrupted(kind))
    assert steps[0] == (at if at > STEPS_OF_TABLE + 1 else 1), "the step that was not saved"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, InstaAug]:
    """A folder with a checkpoint after the last batch, to be copied; and what was fitted."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("instaaug.frozen.streaming.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
        return folder, fitted(folder=folder)


@pytest.mark.usefixtures("_eager")
def test_a_finished_stream_is_not_repeated(
    finished: tuple[Path, InstaAug], tmp_path: Path
) -> None:
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    steps, seen = list[int](), list[tuple[int, int]]()
    again = fitted(
        folder=tmp_path,
        on_step=lambda n, _: steps.append(n),
        on_progress=lambda *done: seen.append(done),
    )
    assert steps == []
    assert seen[-1] == (TABLE + N, TABLE + N)
    assert equal(again, finished[1])


@pytest.mark.usefixtures("_eager")
@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"learning_rate": 1e-3},
        {"n_samples": 2},
        {"passes": 2.0},
        {"merge": "confidence", "sharpness": 1.0},
        {"loss": lambda o, t: (o[:, 0] - t).square()},
        {"source": (X, (Y + 1) % 5)},
        {"model": built("class map")},
    ],
)
def test_a_checkpoint_of_another_fit_is_not_used(
    change: dict[str, Any], finished: tuple[Path, InstaAug], tmp_path: Path
) -> None:
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    assert equal(fitted(folder=tmp_path, **change), fitted(**change))


@pytest.mark.parametrize("content", [b"", b"nothing", None])
def test_a_damaged_checkpoint_is_not_used(
    content: bytes | None, finished: tuple[Path, InstaAug], tmp_path: Path
) -> None:
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    file = tmp_path / CHECKPOINT
    file.write_bytes(file.read_bytes()[:-100] if content is None else content)
    assert equal(fitted(folder=tmp_path), finished[1])


def fit_and_die(folder: Path, at: int) -> None:
    """Be killed, as if by ``kill -9``, at a step."""
    from instaaug.frozen import streaming

    streaming.SECONDS_BETWEEN_CHECKPOINTS = 0.0
    fitted(folder=folder, on_step=lambda step, _: die() if step == at else None)


def test_a_killed_stream_goes_on_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instaaug.frozen.fit.validate", validate)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a fork
    try:
        assert exit_codes(fit_and_die, (tmp_path, 6)) == [-signal.SIGKILL]
        steps: list[int] = []
        resumed = fitted(folder=tmp_path, on_step=lambda step, _: steps.append(step))
        assert steps[0] == 6
        assert resumed.validation is not None
        assert equal(resumed, fitted())
    finally:
        torch.set_num_threads(n_threads)


# Room


class Lazy(Dataset[tuple[Tensor, int]]):
    """Images that are made when they are asked for."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    @override
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        x = torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(index))
        return x, index % 1000


class Wide(nn.Module):
    """A thousand outputs that cost nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 1000)

    @override
    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(x.mean(dim=(2, 3)))
        return result


def fit_in_bounded_memory(folder: Path, n: int, most_mb: float) -> None:
    """Fail if a fit to ``n`` images takes more memory than that, from its first hundred on."""
    table = 100 * (K * 1000 * 2 + 4)
    start: list[float] = []

    def peak_mb() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def on_progress(done: int, _: int) -> None:
        if done >= 300 and not start:
            start.append(peak_mb())

    fit_tta(
        Wide(), Lazy(n), CROP, n_samples=2, features="pyramid", steps=1, batch_size=64,
        folder=folder, max_table_bytes=table, on_progress=on_progress,
    )  # fmt: skip
    grown = peak_mb() - start[0]
    assert grown < most_mb, f"{grown:.1f} MB more for {n} images"


@pytest.mark.slow
def test_neither_memory_nor_disk_grows_with_the_number_of_images(tmp_path: Path) -> None:
    """All outputs of 3,000 images would take 60 MB in single, 30 MB in half precision."""
    calls = [(tmp_path / str(n), n, 10.0) for n in (600, 3000)]
    assert exit_codes(fit_in_bounded_memory, *calls) == [0, 0]
    small, large = (
        sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        for folder, *_ in calls
    )
    assert abs(large - small) < 1000, "one number per file"
    assert large < 100 * (K * 1000 * 2 + 4) + 100_000, "the table, and φ with its optimizer"
