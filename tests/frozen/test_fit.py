"""Fitting φ for a frozen model: what comes out, what it depends on, and what it does not."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from typing_extensions import override

from instaaug import InstaAug, fit_tta
from instaaug import transforms as T
from instaaug.data import LabeledImages
from instaaug.errors import ShapeError
from instaaug.frozen import FrozenViews, NormalizedImages, tabulate
from instaaug.frozen.table import all_views
from instaaug.networks import FrozenFeatures
from tests.support.frozen_models import Counting, Returning, built
from tests.support.frozen_tables import AT_ONCE, CROP, N, data
from tests.support.models import OwnNetwork, images, labels

X, Y = data()
K = 5
SOME = ["functional ReLU", "class map", "hidden layer", "class token", "channels last", "dict",
        "one number"]  # fmt: skip

pytestmark = pytest.mark.usefixtures("_small_batches")


def fitted(model: nn.Module | None = None, source: Any = (X, Y), **options: Any) -> InstaAug:
    """A quick fit of five views."""
    chosen: dict[str, Any] = {"transform": CROP, "steps": 2, "n_samples": (2, 3)} | options
    return fit_tta(model or built("functional ReLU"), source, **chosen)


def weights(aug: InstaAug) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in aug.state_dict().items()}


def equal(one: InstaAug, other: InstaAug) -> bool:
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# --- what comes out -----------------------------------------------------------------------------


def test_the_result_is_ready_for_test_time_augmentation() -> None:
    model = Counting()
    aug = fitted(model)
    assert not aug.training
    assert aug.settings.keep_original
    assert aug.select == "top"
    model.n_seen = 0
    assert aug.wrap(model, 3).eval()(X).shape == (N, 5)
    assert model.n_seen == 3 * N


def test_the_rule_of_merging_is_a_part_of_the_result(tmp_path: Path) -> None:
    model, file = built("functional ReLU"), tmp_path / "aug.safetensors"
    aug = fitted(model, merge="confidence", sharpness=2.0, features="none")
    assert (aug.merge, aug.sharpness) == ("confidence", 2.0)
    aug.set_merging("confidence", 10.0, calibration=0.05)  # or this model is sure of nothing
    aug.save(file)
    read = InstaAug.load(file)
    assert read.merging == aug.merging
    told = aug.wrap(model, 3, merge="confidence", sharpness=10.0).eval()(X)
    torch.testing.assert_close(read.eval().wrap(model, 3).eval()(X), told)
    assert not torch.allclose(aug.wrap(model, 3, merge="logit").eval()(X), told)


def test_learning_knows_how_views_are_merged() -> None:
    plain, sharp = fitted(merge="logit"), fitted(merge="confidence", sharpness=5.0)
    assert plain.merge == "logit"
    assert not equal(plain, sharp)


def test_outputs_that_are_no_classes_are_averaged_plainly() -> None:
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs[:, 0] - targets).square()

    assert fitted(loss=loss).merge == "logit"


def test_the_model_sees_every_view_of_every_image_once() -> None:
    model = Counting()
    fitted(model, steps=9)
    assert model.n_seen == K * N + 2, "and two images of noise, to find its last map"


@pytest.mark.parametrize("name", SOME)
def test_any_architecture_can_be_fitted(name: str) -> None:
    model = built(name)
    if name == "one number":
        options: dict[str, Any] = {"loss": lambda o, t: (o - t).square()}
    else:
        options = {"source": (X, labels(N, 3))}
    aug = fitted(model, **options)
    assert len(aug.wrap(model, 3).eval()(X)) == N


@pytest.mark.parametrize("wrap", [lambda z: z[:, 0], lambda z: z[:, :2], lambda z: {"y": z[:, 0]}])
def test_regression_can_be_fitted(wrap: Any) -> None:
    model = Returning(wrap).eval()
    output = (lambda o: o["y"]) if isinstance(wrap(torch.zeros(1, 5)), dict) else None
    found: list[float] = []
    aug = fitted(
        model,
        loss=lambda o, t: (o.reshape(len(o), -1) - t[:, None]).square().mean(dim=1),
        output=output,
        on_step=lambda _, loss: found.append(loss),
    )
    assert all(loss > 0 for loss in found)
    assert len(aug.wrap(model, 2, output=output).eval()(X)) == N


@pytest.mark.parametrize(
    ("transform", "features"),
    [
        ([CROP, T.Flip()], "model"),
        ([CROP, T.Flip()], "pyramid"),
        ([CROP, T.Flip()], "none"),
        ([CROP, T.Rotation(0.3)], "model"),
        ([CROP, T.Rotation(0.3)], "pyramid"),
        (T.Crop(((0.5, 2),)), "model"),
        (T.Crop(((1.0, 1), (0.5, 2)), jitter=True), "model"),
        ([T.HSVJitter(), CROP], "model"),
    ],
)
def test_any_transform_can_be_fitted(transform: Any, features: Any) -> None:
    model = built("functional ReLU")
    aug = fitted(model, transform=transform, features=features, batch_size=8)
    x = X[:4]
    theta = aug.draw(x, 3, select="top")
    assert torch.equal(aug.render(x, theta[0]), x), "the first view is the image as it is"
    assert aug.wrap(model, 3).eval()(x).shape == (4, 5)


def test_all_views_at_once_leave_nothing_to_learn_and_nothing_breaks() -> None:
    aug = fitted(transform=T.Flip(), n_samples=10, steps=2)
    assert aug.draw(X[:2], 4, select="top").shape == (4, 2, 2)


def test_own_networks_learn_and_the_model_is_asked_for_views_only() -> None:
    torch.manual_seed(0)
    model, network = Counting(), OwnNetwork()
    before = {name: p.clone() for name, p in network.named_parameters()}
    fitted(model, features=network)
    assert model.n_seen == K * N
    assert all(not torch.equal(before[name], p) for name, p in network.named_parameters())


def test_larger_images_are_shown_at_the_size_of_the_model() -> None:
    model = built("flattened")  # takes nothing but 32 × 32
    large = images(12, height=64, width=48)
    aug = fitted(model, (large, labels(12)), size=32)
    assert aug.wrap(model, 3).eval()(large).shape == (12, 5)


def test_what_is_seen_is_standardized_for_ranges_too() -> None:
    network = fitted(transform=T.Rotation()).phi.network
    assert isinstance(network, FrozenFeatures)
    seen, _ = network.features_and_outputs(X)
    values = ((seen - network.mean) / network.std).movedim(1, 0).flatten(1)
    torch.testing.assert_close(values.mean(dim=1), torch.zeros(12), atol=0.05, rtol=0)


def test_steps_are_reported_and_the_loss_falls() -> None:
    losses: list[tuple[int, float]] = []
    fitted(steps=20, learning_rate=0.05, on_step=lambda *numbers: losses.append(numbers))
    assert [number for number, _ in losses] == list(range(1, 21))
    assert losses[-1][1] < losses[0][1]


# --- what it depends on -------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [CROP, T.Rotation(0.5), [CROP, T.Rotation(0.5)]])
def test_the_seed_decides_all_and_the_random_state_is_left_alone(transform: Any) -> None:
    state = torch.get_rng_state()
    first = fitted(transform=transform, batch_size=6, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    again = fitted(transform=transform, batch_size=6, seed=3)
    assert equal(first, again)
    assert not equal(first, fitted(transform=transform, batch_size=6, seed=4))


@pytest.mark.parametrize("features", ["model", "pyramid", "none"])
def test_a_table_from_before_changes_nothing(features: Any, tmp_path: Path) -> None:
    in_memory = fitted(features=features, batch_size=6)
    made = fitted(features=features, batch_size=6, folder=tmp_path)
    used = fitted(features=features, batch_size=6, folder=str(tmp_path))
    assert equal(in_memory, made)
    assert equal(in_memory, used)


def test_data_that_draw_random_numbers_do_not_change_the_order_of_learning(tmp_path: Path) -> None:
    """A table that is there already is not made, so that fewer of them are drawn."""

    class Drawing(Dataset[Any]):
        def __len__(self) -> int:
            return N

        @override
        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            torch.rand(1)
            return X[index], Y[index]

    made = fitted(source=Drawing(), batch_size=6, folder=tmp_path)
    assert equal(fitted(source=Drawing(), batch_size=6, folder=tmp_path), made)
    assert equal(fitted(batch_size=6), made)


def test_an_interrupted_fit_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    def interrupt(done: int, _: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(Counting(), folder=tmp_path, on_progress=interrupt)
    model = Counting()
    resumed = fitted(model, folder=tmp_path)
    assert model.n_seen == 2 + K * (N - AT_ONCE) + K
    assert equal(resumed, fitted(Counting()))


def test_a_table_can_be_handed_over() -> None:
    model = Counting()
    expected = fitted(model)
    assert isinstance(expected.phi.network, FrozenFeatures)
    views = FrozenViews(model, expected.transform, all_views(expected), expected.phi.network)
    table = tabulate(views, NormalizedImages((X, Y)))
    model.n_seen = 0
    assert equal(fitted(model, table=table), expected)
    assert model.n_seen == 2, "images of noise, to find its last map"
    with pytest.raises(ShapeError, match=r"a column per view, \(20, 5\): got \(10, 5\)"):
        fitted(model, table=table.subset(torch.arange(10)))


def pixels() -> Tensor:
    return (X * 255).round().byte()


SOURCES: dict[str, Any] = {
    "pair": (pixels(), Y),
    "shuffled loader": DataLoader(TensorDataset(pixels(), Y), batch_size=7, shuffle=True),
    "labeled images": LabeledImages(pixels().permute(0, 2, 3, 1).numpy(), Y, tuple("abcde")),
}


@pytest.mark.parametrize("source", SOURCES)
def test_where_the_images_come_from_changes_nothing(source: str) -> None:
    expected = fitted(source=(pixels().float() / 255, Y), batch_size=6)
    assert equal(fitted(source=SOURCES[source], batch_size=6), expected)


def test_images_are_normalized_for_the_model() -> None:
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    channels = [torch.tensor(v)[:, None, None] for v in (mean, std)]
    normalized = (pixels().float() / 255 - channels[0]) / channels[1]
    aug = fitted(source=(pixels(), Y), mean=mean, std=std)
    assert equal(aug, fitted(source=(normalized, Y)))
    assert aug.transform.mean == mean


def test_learning_does_not_loop_over_images() -> None:
    """Twice the images, the same number of steps: as many calls of the loss."""
    counts = []
    for n in (4, 8):
        calls = 0

        def loss(outputs: Tensor, targets: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            return nn.functional.cross_entropy(outputs, targets, reduction="none")

        fitted(source=(X[:n], Y[:n]), loss=loss)
        counts.append(calls)
    assert counts[0] == counts[1], "however many images: they are tried in blocks"
