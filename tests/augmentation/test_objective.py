"""The objective of a whole augmenter: its value, its gradient, and what moves λ."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from instaaug import AugmentedBatch, InstaAug
from instaaug import transforms as T
from instaaug.errors import InstaAugWarning
from instaaug.objectives import Baseline, Rule
from tests.support.models import images
from tests.support.unhooked import unhooked

CROP = T.Crop(levels=((1.0, 1), (0.5, 2)))
N_BOXES = 5


@pytest.fixture
def _fast() -> Iterator[None]:
    """Hundreds of steps, whose shapes other tests check."""
    with unhooked():
        yield


FAST = pytest.mark.usefixtures("_fast")


# --- value --------------------------------------------------------------------------------------


def test_with_the_pathwise_gradient_the_objective_is_loss_minus_weighted_entropy() -> None:
    aug = InstaAug("rotation", weight=0.3, rule="fixed", per="factor")
    batch = aug(images(2), n_samples=3)
    losses = torch.arange(6.0)
    expected = 2.5 - 0.3 * batch.entropy.mean()
    torch.testing.assert_close(aug.objective(losses, batch), expected)


def test_every_factor_has_its_own_weight() -> None:
    aug = InstaAug(["rotation", "scale"], rule="fixed", per="factor")
    aug.band.weight.copy_(torch.tensor([0.5, 2.0]))
    batch = aug(images(3))
    rotation, scale = batch.entropy.mean(dim=0)
    expected = 1.0 - 0.5 * rotation - 2.0 * scale
    torch.testing.assert_close(aug.objective(torch.ones(3), batch), expected)


def test_the_exact_objective_is_the_mean_over_all_boxes_by_their_probability() -> None:
    aug = InstaAug(CROP, estimator="exact", weight=0.0, rule="fixed")
    batch = aug(images(2))
    table = torch.rand(N_BOXES, 2)
    probs = batch.score_factors[0].log_probs.exp()
    expected = (probs.T * table).sum(dim=0).mean()
    torch.testing.assert_close(aug.objective(table.flatten(), batch), expected)


@pytest.mark.parametrize("shape", [(6,), (6, 1), (3, 2)])
def test_losses_may_come_flat_or_by_sample(shape: tuple[int, ...]) -> None:
    aug = InstaAug(CROP, rule="fixed")
    batch = aug(images(2), n_samples=3)
    losses = torch.rand(6)
    assert aug.objective(losses.view(shape), batch) == aug.objective(losses, batch)


def test_losses_by_sample_need_not_be_contiguous() -> None:
    aug = InstaAug(CROP, rule="fixed")
    batch = aug(images(2), n_samples=3)
    by_input = torch.rand(2, 3)
    expected = aug.objective(by_input.T.flatten(), batch)
    torch.testing.assert_close(aug.objective(by_input.T, batch), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.long])
def test_losses_of_any_dtype_are_taken(dtype: torch.dtype) -> None:
    aug = InstaAug(CROP, rule="fixed")
    batch = aug(images(2))
    losses = torch.tensor([1, 2])
    torch.testing.assert_close(
        aug.objective(losses.to(dtype), batch),
        aug.objective(losses.float(), batch),
        check_dtype=False,
    )


# --- gradient -----------------------------------------------------------------------------------


def mean_gradient(
    aug: InstaAug, loss: Callable[[AugmentedBatch], Tensor], n_samples: int, n_draws: int = 100
) -> tuple[Tensor, Tensor]:
    """Mean and standard error of the gradient of all parameters, over independent batches."""
    x = images(48, height=2, width=2)
    estimates = []
    for seed in range(n_draws):
        batch = aug(x, n_samples, torch.Generator().manual_seed(seed))
        parts = torch.autograd.grad(aug.objective(loss(batch), batch), list(aug.parameters()))
        estimates.append(torch.cat([part.flatten() for part in parts]))
    stacked = torch.stack(estimates)
    return stacked.mean(dim=0), stacked.std(dim=0) / n_draws**0.5


@FAST
@pytest.mark.parametrize(
    ("baseline", "n_samples"), [("none", 4), ("batch", 1), ("batch", 4), ("rloo", 4)]
)
def test_crop_and_rotation_together_are_learned_without_bias(
    baseline: Baseline, n_samples: int
) -> None:
    """The loss a_k cos(angle + c_k) of box k has its expectation in closed form.

    Five standard errors, of 100 batches, in each of 7 components: fails by chance with
    probability 2e-5.
    """
    torch.manual_seed(0)
    aug = InstaAug(
        [CROP, T.Rotation(2.0)], conditioning="none", baseline=baseline, rule="fixed", weight=0.0
    )
    height, phase = torch.tensor([3.0, 1.0, 2.0, 1.5, 0.5]), torch.arange(5) * 0.7

    def loss(batch: AugmentedBatch) -> Tensor:
        box, angle = batch.score_factors[0].index, batch.theta[..., 4]
        return (height[box] * (angle + phase[box]).cos()).flatten()

    def expected_loss(logits: Tensor, ends: Tensor) -> Tensor:
        low, high = -2 * ends[0].sigmoid(), 2 * ends[1].sigmoid()
        integral = (high + phase).sin() - (low + phase).sin()
        return (logits.softmax(-1) * height * integral / (high - low)).sum()

    parameters = [p.detach().requires_grad_() for p in aug.parameters()]
    truth = torch.cat(torch.autograd.grad(expected_loss(*parameters), parameters))
    mean, error = mean_gradient(aug, loss, n_samples)
    assert (error < 0.1 * truth.abs().max()).all()
    assert ((mean - truth).abs() < 5 * error).all()


def grads_by_name(aug: InstaAug, value: Tensor) -> set[str]:
    value.backward()
    return {n for n, p in aug.named_parameters() if p.grad is not None and p.grad.any()}


def test_the_value_touches_nothing_but_its_own_head() -> None:
    aug = InstaAug(CROP, baseline="value")
    value = aug(images(4)).value
    assert value is not None
    assert grads_by_name(aug, value.square().sum()) == {
        "baseline_heads.value_head.linear.weight",
        "baseline_heads.value_head.linear.bias",
    }


def test_the_critic_touches_nothing_but_its_own_heads() -> None:
    aug = InstaAug([CROP, "flip"], baseline="critic")
    critics = [factor.critic for factor in aug(images(4)).score_factors]
    assert critics[0] is not None
    assert critics[1] is not None
    touched = grads_by_name(aug, critics[0].square().sum() + critics[1].square().sum())
    assert {name.split(".")[1] for name in touched} == {"critics"}
    assert {name.split(".")[2] for name in touched} == {"crop", "flip"}


@FAST
@pytest.mark.parametrize("baseline", ["value", "critic"])
def test_a_baseline_learns_to_predict_the_loss(baseline: Baseline) -> None:
    """Images that are bright on the left cost 3, the others 1."""
    torch.manual_seed(0)
    aug = InstaAug(CROP, baseline=baseline, width=2.0)
    x = images(8) * 0.1
    x[:4, :, :, :8] += 0.9
    x[4:, :, :, 8:] += 0.9
    losses = torch.tensor([3.0] * 4 + [1.0] * 4)
    heads = list(aug.baseline_heads.parameters())
    optimizer = torch.optim.Adam(heads, lr=0.01)
    for _ in range(100):
        batch = aug(x)
        aug.objective(losses, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    batch = aug(x)
    factor = batch.score_factors[0]
    predicted = batch.value if factor.critic is None else factor.at_draws(factor.critic)[0]
    assert predicted is not None
    torch.testing.assert_close(predicted.detach(), losses, atol=0.3, rtol=0)


@FAST
def test_phi_learns_the_box_that_costs_least() -> None:
    torch.manual_seed(0)
    aug = InstaAug(CROP, rule="fixed", weight=0.0, conditioning="none")
    optimizer = torch.optim.SGD(aug.parameters(), lr=1.0)
    x = images(32, height=2, width=2)
    for _ in range(60):
        batch = aug(x)
        losses = (batch.score_factors[0].index != 3).float().flatten()
        aug.objective(losses, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert aug.distribution(x[:1]).finite()["crop"].probs[0, 3] > 0.9


# --- what moves λ -------------------------------------------------------------------------------


def outside_of_its_band() -> tuple[InstaAug, AugmentedBatch]:
    aug = InstaAug(CROP, entropy=(0.1, 0.2))
    aug.band.low.fill_(1.5)
    aug.band.high.fill_(1.6)
    return aug, aug(images(4))


def test_the_objective_moves_the_weight_in_training() -> None:
    aug, batch = outside_of_its_band()
    aug.objective(torch.ones(4), batch)
    assert aug.band.weight > 0.5
    error = 1.5 - batch.entropy.mean().detach()
    torch.testing.assert_close(aug.band.weight, 0.1 + 1.002 * error[None])


def test_the_new_weight_is_used_at_once() -> None:
    aug = InstaAug("rotation", entropy=(1.0, 1.5))
    aug.band.low.fill_(1.7)
    aug.band.high.fill_(1.8)
    batch = aug(images(4))
    assert batch.part_entropy is not None
    objective = aug.objective(torch.zeros(4), batch)
    expected = -(aug.band.weight * batch.part_entropy.mean(dim=0)).sum()
    torch.testing.assert_close(objective, expected)


def test_evaluation_does_not_move_the_weight() -> None:
    aug, batch = outside_of_its_band()
    with pytest.warns(InstaAugWarning, match=r"λ does not move. Call aug.train\(\) before"):
        aug.eval().objective(torch.ones(4), batch)
    assert aug.band.weight == pytest.approx(0.1)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_gradients_the_weight_does_not_move(context: Callable[[], torch.no_grad]) -> None:
    aug, _ = outside_of_its_band()
    with context():
        batch = aug(images(4))
        aug.objective(torch.ones(4), batch)
    assert aug.band.weight == pytest.approx(0.1)


def test_augmenting_alone_does_not_move_the_weight() -> None:
    aug, _ = outside_of_its_band()
    aug(images(4), n_samples=3)
    assert aug.band.weight == pytest.approx(0.1)


@FAST
@pytest.mark.parametrize("rule", ["pi", "multiplicative"])
@pytest.mark.parametrize("start", [0.4, 1.55])
def test_training_brings_the_entropy_into_the_band(rule: Rule, start: float) -> None:
    torch.manual_seed(0)
    aug = InstaAug(CROP, entropy=(start - 0.05, start + 0.05), rule=rule, conditioning="none")
    aug.band.low.fill_(0.9)
    aug.band.high.fill_(1.1)
    optimizer = torch.optim.SGD(aug.parameters(), lr=1.0)
    x = images(32, height=2, width=2)
    entropies = []
    for _ in range(300):
        batch = aug(x)
        losses = batch.score_factors[0].index.float().flatten() / N_BOXES
        aug.objective(losses, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        entropies.append(float(batch.entropy.mean().detach()))
    assert all(0.8 < entropy < 1.2 for entropy in entropies[-100:])
