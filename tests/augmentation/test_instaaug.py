"""InstaAug as a user meets it: the loop, the layout of samples, randomness, conditioning."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.distributions import RandomBoxes
from instaaug.objectives import Baseline
from instaaug.parameterizations import Conditioning
from instaaug.transforms import TRANSFORMS
from tests.support.models import OwnNetwork, images, labels, small_classifier

SMALL_CROP = T.Crop(levels=((1.0, 1), (0.5, 4)))
EVERYTHING: list[T.Transform | str] = [SMALL_CROP, "rotation", "flip", "hsv_jitter"]
BASELINES = pytest.mark.parametrize("baseline", ["none", "batch", "value", "rloo", "critic"])


def copies_of(x: Tensor, n: int) -> Tensor:
    return torch.cat([x] * n)


# --- the four lines of any training loop --------------------------------------------------------


@pytest.mark.parametrize("transforms", [SMALL_CROP, T.Rotation(), EVERYTHING])
def test_four_lines_in_a_training_loop_lower_the_loss(
    transforms: T.Transform | list[T.Transform | str],
) -> None:
    torch.manual_seed(0)
    x, y = images(24), labels(24)
    x[y == 1] *= 0.5  # something to learn: classes differ in brightness
    x[y == 2] *= 0.1
    model = small_classifier()
    aug = InstaAug(transforms)
    groups: list[dict[str, Any]] = [
        {"params": model.parameters()},
        {"params": aug.parameters(), "lr": 1e-3},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    history = []
    for _ in range(25):
        batch = aug(x)
        losses = F.cross_entropy(model(batch.inputs), y, reduction="none")
        aug.objective(losses, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        history.append(float(losses.mean().detach()))
    assert sum(history[-3:]) < 0.6 * sum(history[:3])


def test_the_loop_moves_every_parameter_of_phi() -> None:
    aug = InstaAug(EVERYTHING)
    before = copy.deepcopy(dict(aug.named_parameters()))
    optimizer = torch.optim.SGD(aug.parameters(), lr=0.1)
    batch = aug(images(8))
    aug.objective(batch.inputs.square().mean(dim=(1, 2, 3)), batch).backward()
    optimizer.step()
    unmoved = [n for n, p in aug.named_parameters() if torch.equal(p, before[n])]
    assert not unmoved


@BASELINES
@pytest.mark.parametrize("transforms", [SMALL_CROP, EVERYTHING, T.LocalColor(levels=((0.5, 4),))])
def test_every_parameter_receives_a_gradient(
    baseline: Baseline, transforms: T.Transform | str | list[T.Transform | str]
) -> None:
    aug = InstaAug(transforms, baseline=baseline)
    batch = aug(images(8), n_samples=32)  # a critic learns from the levels that were drawn
    aug.objective(batch.inputs.square().mean(dim=(1, 2, 3)), batch).backward()
    without = [
        n for n, p in aug.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0
    ]
    assert not without


@pytest.mark.parametrize("conditioning", ["none", "class"])
def test_every_parameter_receives_a_gradient_without_a_network(conditioning: Conditioning) -> None:
    aug = InstaAug(EVERYTHING, conditioning=conditioning, num_classes=3)
    batch = aug(images(9), targets=labels(9))
    aug.objective(batch.inputs.square().mean(dim=(1, 2, 3)), batch).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in aug.parameters())


# --- the layout of samples ----------------------------------------------------------------------


def test_sample_j_of_input_i_is_entry_j_times_b_plus_i() -> None:
    aug = InstaAug(EVERYTHING)
    x = images(3)
    batch = aug(x, n_samples=4)
    for j in range(4):
        for i in range(3):
            alone = aug.transform.apply(x[i : i + 1], batch.theta[j, i : i + 1])
            torch.testing.assert_close(batch.inputs[j * 3 + i], alone[0])


def test_shapes_tell_samples_inputs_and_factors_apart() -> None:
    aug = InstaAug(EVERYTHING)
    batch = aug(images(3), n_samples=4)
    assert (batch.n_samples, batch.batch_size) == (4, 3)
    assert batch.inputs.shape == (12, 3, 16, 16)
    assert batch.theta.shape == (4, 3, 4 + 1 + 2 + 3)  # box, angle, two signs, hsv
    assert batch.log_prob.shape == (4, 3)
    assert batch.entropy.shape == (3, 4)
    assert [f.index.shape for f in batch.score_factors] == [(4, 3), (4, 3)]  # crop, flip


@pytest.mark.parametrize("shape", [(3,), (3, 5), (3, 2, 2)])
def test_targets_of_any_shape_are_repeated_for_every_sample(shape: tuple[int, ...]) -> None:
    targets = torch.rand(shape)
    batch = InstaAug("rotation")(images(3), n_samples=2, targets=targets)
    assert batch.targets is not None
    assert torch.equal(batch.targets, copies_of(targets, 2))


def test_without_targets_there_are_none() -> None:
    assert InstaAug("rotation")(images(2)).targets is None


def test_the_log_probability_is_that_of_the_distribution() -> None:
    aug = InstaAug(EVERYTHING)
    x = images(3)
    batch = aug(x, n_samples=2)
    joint = aug.distribution(x)
    boxes = joint.finite()["crop"]
    expected = sum(f.at_draws(f.log_probs) for f in batch.score_factors)
    for name in ("rotation", "hsv_jitter"):
        expected = expected - joint[name].entropy()  # a uniform density is exp(-H) everywhere
    torch.testing.assert_close(batch.log_prob, expected)
    torch.testing.assert_close(batch.theta[..., :4], boxes.theta(batch.score_factors[0].index))
    torch.testing.assert_close(batch.entropy, joint.entropies())


def test_the_exact_estimator_lays_out_every_choice_of_every_input() -> None:
    aug = InstaAug(SMALL_CROP, estimator="exact")
    batch = aug(images(2), targets=labels(2))
    assert batch.exhaustive
    assert batch.inputs.shape[0] == 17 * 2
    boxes = aug.phi.grids["crop"].boxes
    torch.testing.assert_close(batch.theta, boxes[:, None].expand(17, 2, 4))


def test_the_exact_estimator_draws_in_evaluation() -> None:
    aug = InstaAug(SMALL_CROP, estimator="exact").eval()
    batch = aug(images(2), n_samples=3)
    assert not batch.exhaustive
    assert batch.inputs.shape[0] == 6
    assert (
        aug.train().objective(torch.ones(6), batch).isfinite()
    )  # the batch knows how it was made


# --- randomness and memory ----------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(TRANSFORMS))
def test_a_seeded_generator_makes_the_result_repeatable_to_the_last_bit(name: str) -> None:
    aug, x = InstaAug(name), images(3)
    first, second = (aug(x, 2, torch.Generator().manual_seed(7)) for _ in range(2))
    other = aug(x, 2, torch.Generator().manual_seed(8))
    assert torch.equal(first.inputs, second.inputs)
    assert torch.equal(first.theta, second.theta)
    assert not torch.equal(first.theta, other.theta) or name == "flip"


def test_a_generator_leaves_the_global_randomness_alone(generator: torch.Generator) -> None:
    aug, x = InstaAug(EVERYTHING), images(2)
    before = torch.get_rng_state()
    aug(x, generator=generator)
    assert torch.equal(torch.get_rng_state(), before)


def snapshot(aug: InstaAug) -> dict[str, Any]:
    """Everything that any module of it holds, tensors by value."""
    return {
        f"{path}.{key}": value.clone() if isinstance(value, Tensor) else value
        for path, module in aug.named_modules()
        for key, value in {**vars(module), **module._parameters, **module._buffers}.items()
        if not isinstance(value, dict)
    }


@BASELINES
def test_nothing_is_remembered_between_calls(baseline: Baseline) -> None:
    aug = InstaAug(EVERYTHING, baseline=baseline)
    before = snapshot(aug)
    aug(images(2), n_samples=2)
    after = snapshot(aug)
    assert before.keys() == after.keys()
    changed = [
        key
        for key, value in before.items()
        if not (
            torch.equal(value, after[key]) if isinstance(value, Tensor) else value is after[key]
        )
    ]
    assert not changed


def test_two_batches_may_be_used_in_any_order() -> None:
    aug = InstaAug(SMALL_CROP, rule="fixed")
    first, second = aug(images(4)), aug(images(4, seed=1))
    one, two = torch.rand(4), torch.rand(4)
    forwards = [aug.objective(one, first), aug.objective(two, second)]
    backwards = [aug.objective(two, second), aug.objective(one, first)]
    assert forwards == backwards[::-1]


# --- conditioning -------------------------------------------------------------------------------


def spread_over_inputs(aug: InstaAug, x: Tensor, targets: Tensor | None = None) -> float:
    return float(aug.distribution(x, targets).finite()["crop"].probs.std(dim=0).max().detach())


def test_conditioned_on_the_input_every_input_has_its_own_distribution() -> None:
    assert spread_over_inputs(InstaAug(SMALL_CROP), images(4)) > 0


def test_conditioned_on_nothing_all_inputs_share_one_distribution() -> None:
    aug = InstaAug(SMALL_CROP, conditioning="none")
    assert spread_over_inputs(aug, images(4)) == 0
    assert aug.phi.network is None


def test_conditioned_on_the_class_inputs_of_a_class_share_one_distribution() -> None:
    aug = InstaAug(SMALL_CROP, conditioning="class", num_classes=2)
    with torch.no_grad():
        next(aug.phi.parameters())[1] = torch.arange(17.0)
    y = torch.tensor([0, 1, 0, 1])
    probs = aug.distribution(images(4), y).finite()["crop"].probs
    assert torch.equal(probs[0], probs[2])
    assert not torch.equal(probs[0], probs[1])
    drawn = aug(images(4), targets=y).score_factors[0].log_probs.exp()
    torch.testing.assert_close(drawn, probs)


def test_conditioned_on_the_class_crops_are_random_where_the_class_is_not_known() -> None:
    aug = InstaAug(SMALL_CROP, conditioning="class", num_classes=2).eval()
    crop = aug.distribution(images(4))["crop"]
    assert isinstance(crop, RandomBoxes)
    boxes = crop.theta(crop.sample((50,)))
    assert ((boxes[..., 2:] >= 0.5) & (boxes[..., 2:] <= 2)).all()
    assert (boxes[..., :2].abs() + boxes[..., 2:] / 2 <= 1 + 1e-6).all(), "within the image"


def test_targets_do_not_leak_into_what_is_conditioned_on_the_input() -> None:
    aug, x = InstaAug(SMALL_CROP), images(4)
    logits = [
        aug.distribution(x, targets).finite()["crop"].logits
        for targets in (None, labels(4), torch.rand(4))
    ]
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])


def test_a_network_of_the_users_own_gives_the_features() -> None:
    network = OwnNetwork()
    aug = InstaAug(SMALL_CROP, network=network)
    assert aug.phi.network is network
    assert aug(images(2)).inputs.shape == (2, 3, 16, 16)


def test_names_and_objects_are_interchangeable() -> None:
    by_name, by_object = InstaAug(["crop", "rotation"]), InstaAug([T.Crop(), T.Rotation()])
    assert repr(by_name) == repr(by_object)
    assert by_name.transform == by_object.transform


def test_a_composition_keeps_its_own_normalization() -> None:
    parts = T.Composition((T.Brightness(),), mean=(0.5,) * 3, std=(0.2,) * 3)
    assert InstaAug(parts).transform == parts


# --- what it says of itself ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "learns per input with glance (14,096 parameters), score function with value"),
        ({"conditioning": "none"}, "learns one for all, score function with batch baseline"),
        ({"conditioning": "class", "num_classes": 3}, "learns per class"),
        ({"estimator": "exact"}, "exact gradient, λ by the pi rule"),
        ({"rule": "fixed", "weight": 0.25}, "λ = 0.25"),
        ({"entropy": (1.0, 2.0)}, "17 boxes (whole, 4×4 of 0.5), entropy in [1.00, 2.00] of 2.83"),
    ],
)
def test_the_repr_tells_the_story(settings: dict[str, Any], words: str) -> None:
    text = " ".join(repr(InstaAug(SMALL_CROP, **settings)).split())
    count = sum(p.numel() for p in InstaAug(SMALL_CROP).phi.parameters())
    assert words.replace("14,096", f"{count:,}") in text


@pytest.mark.parametrize(
    ("transforms", "settings", "resolved"),
    [
        (SMALL_CROP, {}, "value"),
        ([SMALL_CROP, "rotation"], {}, "value"),
        ("flip", {"estimator": "score"}, "value"),
        ("rotation", {}, "batch"),
        (SMALL_CROP, {"estimator": "exact"}, "batch"),
        (SMALL_CROP, {"conditioning": "none"}, "batch"),
        (SMALL_CROP, {"conditioning": "class", "num_classes": 2}, "batch"),
        (SMALL_CROP, {"baseline": "rloo"}, "rloo"),
    ],
)
def test_the_baseline_is_chosen_by_what_can_be_predicted_and_saved_as_chosen(
    transforms: Any, settings: dict[str, Any], resolved: str, tmp_path: Path
) -> None:
    aug = InstaAug(transforms, **settings)
    assert aug.settings.baseline == aug.settings.to_config()["baseline"] == resolved
    aug.save(tmp_path / "aug.safetensors")
    assert InstaAug.load(tmp_path / "aug.safetensors").settings.baseline == resolved


def test_the_repr_names_every_factor_and_its_range() -> None:
    text = repr(InstaAug([T.LocalBlur(), T.Rotation(1.5), T.Flip()]))
    for words in (
        "rotation: angle in [-1.5, 1.5]",
        "flip: 2 choices",
        "local_blur.box: 320 boxes",
    ):
        assert words in text
    assert "score function with value baseline and pathwise gradient" in text
    assert "score" not in repr(InstaAug("rotation"))


def test_the_module_has_parameters_but_no_batch_norm() -> None:
    """With BatchNorm, ranges in evaluation had nothing to do with those in training."""
    aug, x = InstaAug(EVERYTHING), images(4)
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in aug.modules())
    trained, evaluated = (aug.train(mode).distribution(x).entropies() for mode in (True, False))
    assert torch.equal(trained, evaluated)
