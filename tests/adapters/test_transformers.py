"""Hugging Face's Trainer trains φ, too; where transformers is not installed, this is skipped."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug import InstaAug
from instaaug.errors import ArgumentError, ShapeError, WeightsFileError
from instaaug.transforms import Crop
from tests.support.tiny_training import classifier, labeled_halves, parameters_of

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of other libraries, at each other

N, SIDE, BATCH = 16, 16, 8


class Linear(nn.Module):
    """The least that Hugging Face's Trainer trains."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = classifier(side=SIDE)

    @override
    def forward(self, pixel_values: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.layers(pixel_values)
        return {"logits": logits} | (
            {} if labels is None else {"loss": F.cross_entropy(logits, labels)}
        )


def augmenter(**settings: Any) -> InstaAug:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return InstaAug(Crop(levels=((1.0, 1), (0.5, 2))), **settings)


def rows(names: tuple[str, str] = ("pixel_values", "labels")) -> list[dict[str, Any]]:
    x, y = labeled_halves(N, side=SIDE).__getitems__(range(N))
    pairs = zip(x.float() / 255, y.tolist(), strict=True)
    return [dict(zip(names, pair, strict=True)) for pair in pairs]


def trainer(folder: Path, aug: InstaAug, **options: Any) -> Any:
    from instaaug.adapters.transformers import InstaAugTrainer

    names = ("train_dataset", "optimizers", "compute_loss_func")
    given = {name: options.pop(name) for name in names if name in options}
    arguments = {
        "num_train_epochs": 2, "per_device_train_batch_size": BATCH, "save_strategy": "no",
        "report_to": [], "use_cpu": True, "disable_tqdm": True, "logging_steps": 1,
    }  # fmt: skip
    args = transformers.TrainingArguments(str(folder), **{**arguments, **options})
    return InstaAugTrainer(
        model=Linear(), args=args, aug=aug, **{"train_dataset": rows(), **given}
    )


def test_it_takes_the_steps_of_a_loop_written_by_hand(tmp_path: Path) -> None:
    """With exact gradients, nothing is drawn; the order of the images is the Trainer's own."""
    aug = augmenter(estimator="exact")
    plain = {"learning_rate": 0.01, "max_grad_norm": 0.0, "optim": "sgd", "num_train_epochs": 1}
    made = trainer(tmp_path, aug, lr_scheduler_type="constant", **plain)
    order = [batch["labels"] for batch in made.get_train_dataloader()]
    assert sorted(torch.cat(order).tolist()) == [0] * 8 + [1] * 8
    seen: list[Tensor] = []
    made.aug.register_forward_pre_hook(lambda _, args: seen.append(args[0].clone()))
    made.train()

    images = torch.stack([row["pixel_values"] for row in rows()])
    mine, model = augmenter(estimator="exact"), Linear()
    groups: list[dict[str, Any]] = [
        {"params": model.parameters()},
        {"params": mine.parameters(), "lr": 1e-3},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.01)
    for x in seen:
        y = torch.stack([(images == one).flatten(1).all(dim=1).nonzero()[0, 0] % 2 for one in x])
        batch = mine(x, targets=y)
        logits = model(batch.inputs)["logits"]
        losses = F.cross_entropy(logits, batch.targets, reduction="none")
        mine.objective(losses, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert len(seen) == 2
    assert torch.allclose(parameters_of(aug), parameters_of(mine), atol=1e-6)
    assert torch.allclose(parameters_of(made.model), parameters_of(model), atol=1e-5)
    assert not torch.allclose(
        parameters_of(aug), parameters_of(augmenter(estimator="exact")), atol=1e-5
    )
    assert {"aug/loss", "aug/entropy/crop", "aug/weight/crop"} <= made.state.log_history[0].keys()


def test_training_that_is_resumed_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole = augmenter()
    trainer(tmp_path / "a", whole, save_strategy="epoch").train()
    first = tmp_path / "a" / "checkpoint-2"
    assert not parameters_of(InstaAug.load(first / "aug.safetensors")).equal(parameters_of(whole))
    rest = augmenter()
    trainer(tmp_path / "b", rest).train(resume_from_checkpoint=str(first))
    for name, tensor in whole.state_dict().items():
        assert tensor.equal(rest.state_dict()[name]), name


def test_a_checkpoint_without_phi_is_refused(tmp_path: Path) -> None:
    trainer(tmp_path, augmenter(), save_strategy="epoch", num_train_epochs=1).train()
    file = tmp_path / "checkpoint-2" / "aug.safetensors"
    file.unlink()
    with pytest.raises(FileNotFoundError, match="There is no weights file"):
        trainer(tmp_path, augmenter()).train(resume_from_checkpoint=str(file.parent))
    augmenter(estimator="exact").save(file)
    with pytest.raises(WeightsFileError, match="does not fit its own settings"):
        trainer(tmp_path, augmenter()).train(resume_from_checkpoint=str(file.parent))


def test_gradients_are_accumulated_for_phi_as_for_the_model(tmp_path: Path) -> None:
    both = []
    for size, n_steps in ((16, 1), (8, 2)):
        aug = augmenter(estimator="exact", rule="fixed")
        options = {"per_device_train_batch_size": size, "gradient_accumulation_steps": n_steps}
        trainer(tmp_path, aug, max_grad_norm=0.0, optim="sgd", **options).train()
        both.append(parameters_of(aug))
    assert torch.allclose(both[0], both[1], atol=1e-7)
    begun = parameters_of(augmenter(estimator="exact"))
    assert (both[0] - begun).abs().max() > 1e-5


def test_evaluation_sees_plain_images(tmp_path: Path) -> None:
    made = trainer(tmp_path, augmenter())
    found = made.evaluate(rows())
    with torch.no_grad():
        images = torch.stack([row["pixel_values"] for row in rows()])
        labels = torch.tensor([row["labels"] for row in rows()])
        expected = F.cross_entropy(Linear()(images)["logits"], labels)
    assert found["eval_loss"] == pytest.approx(float(expected), abs=1e-5)


def own_loss(outputs: Any, labels: Tensor, **_: Any) -> Tensor:
    return F.cross_entropy(outputs["logits"], labels)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"compute_loss_func": own_loss}, ArgumentError, "`compute_loss_func` gives one loss"),
        ({"optimizers": "given"}, ArgumentError, "`optimizers` must train φ, too: got an opt"),
        ({"train_dataset": "renamed"}, ShapeError, "`pixel_values` .* labels is missing among "),
    ],
)
def test_what_cannot_work_is_refused(
    options: Mapping[str, Any], error: Any, words: str, tmp_path: Path
) -> None:
    options = dict(options)
    if "optimizers" in options:
        options["optimizers"] = (torch.optim.SGD([torch.nn.Parameter(torch.ones(1))]), None)
    if "train_dataset" in options:
        options["train_dataset"] = rows(("pixel_values", "target"))
        options["remove_unused_columns"] = False
    with pytest.raises(error, match=words):
        trainer(tmp_path, augmenter(), **options).train()
