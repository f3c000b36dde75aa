"""The callback trains φ beside a module of the user's own, whatever that module's batches are."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset
from typing_extensions import override

from instaaug import InstaAug, InstaAugError
from instaaug.adapters.lightning import InstaAugCallback
from instaaug.errors import ArgumentError, DataError, ShapeError
from instaaug.transforms import Crop, Rotation
from tests.support.tiny_training import classifier, labeled_halves, parameters_of
from tests.support.tiny_training import quiet_lightning as quiet


class Plain(LightningModule):
    """A module as anyone writes it, but for losses that are not averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.model = classifier()
        self.seen: list[Tensor] = []

    @override
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        self.seen.append(x.detach())
        losses = F.cross_entropy(self.model(x), y, reduction="none")
        return {"loss": losses.mean(), "losses": losses}

    @override
    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 100)]


def augmenter(transform: Any = None, **settings: Any) -> InstaAug:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return InstaAug(transform or Crop(levels=((1.0, 1), (0.5, 2))), **settings)


def images(n: int = 16) -> tuple[Tensor, Tensor]:
    x, y = labeled_halves(n).__getitems__(range(n))
    return x.float() / 255, y


def loader(n: int = 16, *, size: int = 8) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*images(n)), batch_size=size)


def fit(
    module: LightningModule,
    callbacks: Sequence[Any],
    data: Any = None,
    *,
    epochs: int = 2,
    resumed: Path | None = None,
    **options: Any,
) -> Trainer:
    with quiet():
        trainer = Trainer(
            accelerator="cpu", max_epochs=epochs, callbacks=[*callbacks], logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            **options,
        )  # fmt: skip
        trainer.fit(module, data or loader(), ckpt_path=resumed)
    return trainer


@pytest.mark.parametrize("transform", [None, Rotation()])
def test_it_takes_the_steps_of_a_loop_written_by_hand(transform: Any) -> None:
    """Gradients, λ and both optimizers; a loop draws what the callback draws from its seed."""
    from instaaug.functional.processes import step_generator

    aug, module = augmenter(transform), Plain()
    trainer = fit(module, [InstaAugCallback(aug, learning_rate=0.01, seed=3)])

    mine, model = augmenter(transform), classifier()
    phi = torch.optim.Adam(mine.parameters(), lr=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 100)
    for step, (x, y) in enumerate([*loader(), *loader()]):
        batch = mine(x, generator=step_generator(3, rank=0, step=step))
        mine.objective(F.cross_entropy(model(batch.inputs), y, reduction="none"), batch).backward()
        for each in (phi, optimizer):
            each.step()
            each.zero_grad()
        if step % 2:  # the schedule moves once per epoch
            schedule.step()
    assert parameters_of(aug).equal(parameters_of(mine))
    assert parameters_of(module.model).equal(parameters_of(model))
    assert aug.weight.equal(mine.weight)
    assert not aug.weight.equal(augmenter(transform).weight), "λ moved"
    assert {"aug/entropy/crop", "aug/entropy/rotation"} & trainer.callback_metrics.keys()


def test_a_resumed_fit_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole, aug = Plain(), augmenter()
    fit(whole, [InstaAugCallback(aug)], epochs=4)

    half = fit(Plain(), [InstaAugCallback(augmenter())], epochs=2)
    half.save_checkpoint(tmp_path / "half.ckpt")
    rest, second = Plain(), augmenter()
    callback = InstaAugCallback(second)
    fit(rest, [callback], epochs=4, resumed=tmp_path / "half.ckpt")
    assert callback.n_steps == 8
    for name, tensor in aug.state_dict().items():
        assert tensor.equal(second.state_dict()[name]), name
    assert parameters_of(whole).equal(parameters_of(rest))


def test_gradients_are_accumulated_for_phi_as_for_the_model() -> None:
    """Exact gradients, so that two batches of eight weigh as much as one of sixteen."""
    both = []
    for size, n in ((16, 1), (8, 2)):
        aug = augmenter(estimator="exact", rule="fixed")
        data = loader(size=size)
        fit(Plain(), [InstaAugCallback(aug)], data, epochs=1, accumulate_grad_batches=n)
        both.append(parameters_of(aug))
    assert torch.allclose(both[0], both[1], atol=1e-6)
    assert not torch.allclose(both[0], parameters_of(augmenter(estimator="exact")), atol=1e-4)


def test_mixed_precision_trains_as_full_precision_does_nearly() -> None:
    aug, module = augmenter(), Plain()
    fit(module, [InstaAugCallback(aug)], epochs=1, precision="bf16-mixed")
    full = augmenter()
    fit(Plain(), [InstaAugCallback(full)], epochs=1)
    assert {p.dtype for p in aug.parameters()} == {torch.float32}
    assert not parameters_of(aug).equal(parameters_of(augmenter()))
    assert torch.allclose(parameters_of(aug), parameters_of(full), atol=5e-3)


class Pair(NamedTuple):
    image: Tensor
    label: Tensor


class Rows(Dataset[Any]):
    """Items that are dicts or named tuples."""

    def __init__(self, kind: Any) -> None:
        self.kind, self.pairs = kind, list(zip(*images(), strict=True))

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, i: int) -> Any:
        return self.kind(image=self.pairs[i][0], label=self.pairs[i][1])


class Named(Plain):
    @override
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        pair = batch.values() if isinstance(batch, Mapping) else (batch.image, batch.label)
        return super().training_step(tuple(pair), batch_idx)["losses"]


@pytest.mark.parametrize(("kind", "key"), [(dict, "image"), (Pair, 0)])
def test_batches_may_be_dicts_and_named_tuples(kind: Any, key: Any) -> None:
    aug, module = augmenter(), Named()
    rows: DataLoader[Any] = DataLoader(Rows(kind), batch_size=8)
    fit(module, [InstaAugCallback(aug, inputs=key, n_samples=3)], rows, epochs=1)
    assert [len(x) for x in module.seen] == [24, 24], "targets were repeated along"
    assert not module.seen[0][:8].equal(images()[0][:8])


class Unlabeled(Plain):
    @override
    def training_step(self, batch: Any) -> Any:  # type: ignore[override]  # Lightning allows it
        self.seen.append(batch)
        return self.model(batch).square().mean(dim=1)


def test_a_batch_may_be_the_images_alone() -> None:
    module = Unlabeled()
    only: DataLoader[Any] = DataLoader(images()[0], batch_size=16)  # type: ignore[arg-type]
    fit(module, [InstaAugCallback(augmenter())], only, epochs=1)
    assert not module.seen[0].equal(images()[0])


def test_afterwards_the_module_is_what_it_was() -> None:
    module = Plain()
    fit(module, [InstaAugCallback(augmenter())], epochs=1)
    assert "training_step" not in vars(module)
    module.seen.clear()
    fit(module, [], epochs=1)  # the same module works without the callback
    assert module.seen[0].equal(images()[0][:8])


class Averaged(Plain):
    @override
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return super().training_step(batch, batch_idx)["loss"]


class Manual(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False


class Owner(Plain):
    def __init__(self, aug: nn.Module) -> None:
        super().__init__()
        self.aug = aug


@pytest.mark.parametrize(
    ("make", "options", "error", "words"),
    [
        (Averaged, {}, ShapeError, r"`training_step` must return one loss per input .* tensor\("),
        (Manual, {}, ArgumentError, "`automatic_optimization` must be True .* got False"),
        (Plain, {"inputs": "image"}, DataError, "`inputs` must be .* 'image' for .* a list"),
        (Named, {"inputs": "x"}, DataError, "got 'x' for a batch that is a dict of 'image', "),
    ],
)
def test_what_cannot_work_is_refused(
    make: Any, options: Any, error: type[InstaAugError], words: str
) -> None:
    module = make()
    data = DataLoader(Rows(dict), batch_size=8) if make is Named else loader()
    with pytest.raises(error, match=words):
        fit(module, [InstaAugCallback(augmenter(), **options)], data)
    assert "training_step" not in vars(module)


def test_an_augmenter_with_two_optimizers_is_refused() -> None:
    aug = augmenter()
    with pytest.raises(
        ArgumentError, match=r"`aug` must be trained by one optimizer: got it both"
    ):
        fit(Owner(aug), [InstaAugCallback(aug)])


def test_gradients_that_are_scaled_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with 16-mixed on a GPU; on a CPU Lightning turns that into bf16-mixed."""
    trainer = fit(Plain(), [], epochs=1)
    monkeypatch.setattr(trainer.precision_plugin, "scaler", object(), raising=False)
    with pytest.raises(ArgumentError, match="`precision` 16-mixed scales gradients"):
        InstaAugCallback(augmenter()).on_fit_start(trainer, Plain())


@pytest.mark.filterwarnings("ignore:.*returned `None`")
def test_a_step_that_lightning_skips_teaches_nothing() -> None:
    class Skipping(Plain):
        @override
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return None

    aug = augmenter()
    fit(Skipping(), [InstaAugCallback(aug)], epochs=1)
    assert parameters_of(aug).equal(parameters_of(augmenter()))


@pytest.mark.slow  # starts Python twice
def test_two_processes_have_one_phi(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    subprocess.run(  # noqa: S603
        [sys.executable, "-m", "tests.support.lightning_worker", str(tmp_path)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"},
        timeout=300,
        check=True,
    )
    first, second = (load_file(tmp_path / f"{rank}.safetensors") for rank in range(2))
    own = augmenter().state_dict()
    assert all(first[name].equal(second[name]) for name in own)
    started = [name for name in first if name.startswith("started.")]
    assert not all(first[name].equal(second[name]) for name in started), "they began apart"
    assert not all(first[name].equal(first[name.removeprefix("started.")]) for name in started)
