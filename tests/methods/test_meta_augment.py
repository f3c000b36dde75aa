"""MetaAugment weighs images by what learning from them would do, and draws accordingly."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.augmentation import AugmentedBatch, HeldOutBatch
from instaaug.errors import ArgumentError
from instaaug.methods.meta_augment import Call, MetaAugment, PairSampler, look_ahead_loss
from instaaug.methods.operations import OPERATIONS, RAND_OPERATIONS, operation_index
from tests.support.frozen_models import Pooled, Snapshot, Transformer
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p

SIDE, K = 16, 14


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 5, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(4, 2),
    )  # fmt: skip


def losses_of(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def attached(model: nn.Module, **settings: float) -> MetaAugment:
    torch.manual_seed(1)
    aug = MetaAugment(**settings)  # type: ignore[arg-type]
    aug.attach(model)
    return aug


def spots(n: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """Class 1 has a spot that is brighter than the rest, class 0 a darker one."""
    generator = seeded(seed)
    y = torch.randint(2, (n,), generator=generator)
    x = torch.full((n, 3, SIDE, SIDE), 0.4)
    x[:, :, 5:11, 5:11] += torch.where(y == 1, 0.3, -0.3)[:, None, None, None]
    return x + 0.04 * torch.rand(x.shape, generator=generator), y


def batch_with(*steps: tuple[str, float], side: int = SIDE) -> AugmentedBatch:
    theta = torch.tensor([float(v) for n, value in steps for v in (operation_index(n), value)])
    return AugmentedBatch(
        inputs=torch.zeros(1, 3, side, side), targets=None, theta=theta.view(1, 1, 4),
        log_prob=torch.zeros(1, 1), entropy=torch.zeros(1, 0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "slot"),
    [
        ("rotate", -torch.pi / 6, 11.0),
        ("rotate", torch.pi / 12, 6.0),
        ("color", -0.09, 2.0),
        ("shear_x", 0.0, 1.0),
        ("solarize", 255.0, 1.0),
        ("solarize", 0.0, 11.0),
        ("posterize", 8.0, 1.0),
        ("posterize", 6.0, 6.0),
        ("translate_y", 7 / 16, 11.0),
        ("identity", 0.0, 11.0),
        ("auto_contrast", 0.0, 11.0),
        ("equalize", 0.0, 11.0),
    ],
)
def test_an_embedding_has_the_magnitude_in_the_slot_of_its_operation(
    name: str, value: float, slot: float
) -> None:
    """By hand: 1 + 10 times the share of the strongest; 11 for what has no magnitude."""
    aug, place = MetaAugment(), RAND_OPERATIONS.index(name)
    for position in (0, 1):
        steps = [("brightness", 0.9), ("brightness", 0.9)]
        steps[position] = (name, value)
        expected = torch.zeros(2, K)
        expected[1 - position, RAND_OPERATIONS.index("brightness")] = 11
        expected[position, place] = slot
        found = aug.embedding(batch_with(*steps))
        torch.testing.assert_close(found, expected.view(1, 28), atol=1e-4, rtol=0)


def test_magnitudes_are_uniform_and_the_pair_can_be_read_back() -> None:
    aug = MetaAugment()
    batch = aug(torch.zeros(3000, 3, SIDE, SIDE), generator=seeded())
    slots = aug.embedding(batch).view(-1, 2, K)
    pairs = aug.pairs(batch)
    assert torch.equal((slots > 0).long().argmax(dim=2), pairs)
    names = [OPERATIONS[int(i)] for i in batch.theta[0, :, 0]]
    assert [RAND_OPERATIONS[int(i)] for i in pairs[:, 0]] == names
    rotate = slots[..., RAND_OPERATIONS.index("rotate")]
    tenth = ((rotate[rotate > 0] - 1).clamp(max=9.999)).long()
    counts = torch.bincount(tenth, minlength=10)
    assert chi_square_p(counts, torch.full((10,), 0.1)) > ERROR_PROBABILITY


def test_the_objective_is_the_weighted_mean_of_a_plain_loop() -> None:
    model = small_model()
    aug = attached(model)
    batch = aug(spots(5, seed=0)[0], n_samples=2, generator=seeded(), targets=torch.ones(5).long())
    losses = torch.rand(10, generator=seeded(3)).requires_grad_()
    assert aug.policy is not None
    one, other, last = aug.policy.of_features, aug.policy.of_embedding, aug.policy.weight
    embedding, raw = aug.embedding(batch), []
    with torch.no_grad():
        features = nn.Sequential(*list(model)[:-1]).eval()(batch.inputs)  # type: ignore[call-overload]
        for f, e in zip(features, embedding, strict=True):
            hidden = torch.cat([F.relu(one.weight @ f + one.bias), F.relu(other(e))])
            raw.append(float(1 / (1 + torch.exp(-(last.weight @ hidden + last.bias)))))
    expected = sum(w * v for w, v in zip(raw, losses.tolist(), strict=True)) / sum(raw)
    objective = aug.objective(losses, batch)
    assert objective.item() == pytest.approx(expected, rel=1e-5)
    assert aug.weights(batch).sum().item() == pytest.approx(1.0)
    assert max(raw) - min(raw) > 0.01
    objective.backward()
    assert all(p.grad is None for p in aug.parameters())  # training losses teach it nothing


def test_the_policy_descends_what_a_real_step_would_leave() -> None:
    """Finite differences along random directions, with an optimizer on a copy of the model."""
    model = small_model().double()
    aug = attached(model, inner_learning_rate=0.5).double()
    x, y = spots(8, seed=0)
    batch = aug(x.double(), generator=seeded(), targets=y)
    held_x, held_y = spots(8, seed=1)
    held_out = HeldOutBatch(held_x.double(), held_y)
    assert aug.policy is not None
    parameters = list(aug.policy.parameters())
    before = Snapshot(model)
    objective = aug.search_objective(model, batch, held_out, losses_of, generator=seeded())
    slopes = torch.autograd.grad(objective, parameters)
    assert Snapshot(model) == before
    state = {name: value.clone() for name, value in model.state_dict().items()}

    def left() -> float:
        twin = small_model().double()
        twin.load_state_dict(state)
        optimizer = torch.optim.SGD(twin.parameters(), lr=0.5)
        raw = aug.raw_weights(batch).detach()
        (raw / raw.sum() * losses_of(twin(batch.inputs), y)).sum().backward()
        optimizer.step()
        for name, buffer in twin.named_buffers():
            buffer.copy_(state[name])
        with torch.no_grad():
            return float(losses_of(twin.eval()(held_out.inputs), held_y).mean())

    assert objective.item() == pytest.approx(left(), rel=1e-10)
    for seed in range(3):
        generator = seeded(seed)
        ways = [torch.randn(p.shape, generator=generator).double() for p in parameters]
        here = nn.utils.parameters_to_vector(parameters).detach().clone()
        ends = []
        for sign in (1, -1):
            there = here + sign * 1e-4 * torch.cat([way.flatten() for way in ways])
            nn.utils.vector_to_parameters(there, parameters)
            ends.append(left())
        nn.utils.vector_to_parameters(here, parameters)
        expected = sum(float((s * w).sum()) for s, w in zip(slopes, ways, strict=True))
        assert (ends[0] - ends[1]) / 2e-4 == pytest.approx(expected, rel=1e-3)


def test_an_operation_that_swaps_the_classes_weighs_less_and_is_drawn_less() -> None:
    """Solarize, from about a third of its strength on, makes a bright spot dark."""
    model = small_model()
    aug = attached(model, inner_learning_rate=0.2, refresh_every=40)
    held_x, held_y = spots(64, seed=100)
    held_out = HeldOutBatch(held_x, held_y)
    learns = torch.optim.Adam(model.parameters(), lr=0.02)
    searches = torch.optim.Adam(aug.parameters(), lr=0.01)
    for step in range(20):  # a model that knows nothing yet cannot tell what harms it
        x, y = spots(48, seed=1000 + step)
        learns.zero_grad()
        losses_of(model(x), y).mean().backward()
        learns.step()
    for step in range(40):
        x, y = spots(48, seed=step)
        batch = aug(x, generator=seeded(step), targets=y)
        searches.zero_grad()
        aug.search_objective(model, batch, held_out, losses_of).backward()
        searches.step()
        learns.zero_grad()
        aug.objective(losses_of(model(batch.inputs), y), batch).backward()
        learns.step()
    planted = RAND_OPERATIONS.index("solarize")
    x, y = spots(600, seed=500)
    batch = aug(x, generator=seeded(500), targets=y)
    with torch.no_grad():
        raw = aug.raw_weights(batch)
    strong = aug.embedding(batch).view(-1, 2, K)[:, :, planted].amax(dim=1) > 6
    assert raw[strong].mean() < 0.8 * raw[~strong].mean()
    pairs = aug.sampler.probs
    of_planted = (pairs[planted].mean() + pairs[:, planted].mean()) / 2
    assert of_planted < 0.9 / K**2
    numbers = aug.monitor(batch)
    assert numbers["policy/diversity"] < 1
    assert numbers["policy/weight"].item() == pytest.approx(raw.mean().item())


def test_pairs_are_drawn_by_their_mean_weight_over_the_latest_periods() -> None:
    """Against a plain list of what happened."""
    sampler = PairSampler(3, epsilon=0.2, period=2, n_periods=2)
    history: list[tuple[int, int, float]] = []
    generator = seeded()
    for step in range(9):
        pairs = torch.randint(3, (5, 2), generator=generator)
        weights = torch.rand(5, generator=generator)
        sampler.record(pairs, weights)
        history += [(int(a), int(b), float(w)) for (a, b), w in zip(pairs, weights, strict=True)]
        if step % 2 == 1:
            latest = history[-20:]  # two periods of two batches of five
            means = torch.ones(3, 3)
            for a in range(3):
                for b in range(3):
                    found = [w for i, j, w in latest if (i, j) == (a, b)]
                    means[a, b] = sum(found) / len(found) if found else 1.0
            expected = 0.8 * means / means.sum() + 0.2 / 9
        if step > 0:
            torch.testing.assert_close(sampler.probs, expected)
        else:
            assert torch.equal(sampler.probs, torch.full((3, 3), 1 / 9))


def test_draws_follow_the_probabilities() -> None:
    """Pearson's test; a right sampler fails with ERROR_PROBABILITY."""
    sampler = PairSampler(3, epsilon=0.1, period=1, n_periods=1)
    every = torch.cartesian_prod(torch.arange(3), torch.arange(3))
    sampler.record(every, torch.arange(9) / 9)
    pairs = sampler.draw((40, 100), generator=seeded(), device=torch.device("cpu"))
    counts = torch.bincount((3 * pairs[..., 0] + pairs[..., 1]).flatten(), minlength=9)
    assert chi_square_p(counts, 0.9 * torch.arange(9) / 36 + 0.1 / 9) > ERROR_PROBABILITY


def test_weights_of_nothing_leave_the_uniform_share() -> None:
    sampler = PairSampler(2, epsilon=0.1, period=1, n_periods=1)
    sampler.record(torch.cartesian_prod(torch.arange(2), torch.arange(2)), torch.zeros(4))
    assert torch.isfinite(sampler.probs).all()
    drawn = sampler.draw((1, 4), generator=seeded(), device=torch.device("cpu"))
    assert drawn.shape == (1, 4, 2)


@pytest.mark.parametrize("training", [True, False])
def test_only_training_is_taken_down(training: bool) -> None:
    aug = attached(small_model(), refresh_every=1).train(training)
    batch = aug(spots(4, seed=0)[0], generator=seeded(), targets=torch.ones(4).long())
    aug.objective(torch.rand(4), batch)
    assert int(aug.sampler.n_batches) == int(training)
    assert float(aug.sampler.counts.sum()) == 4 * training
    with torch.no_grad():
        aug.objective(torch.rand(4), batch)
    assert int(aug.sampler.n_batches) == int(training)


def test_what_was_learned_survives_saving(tmp_path: Path) -> None:
    model = small_model()
    aug = attached(model, refresh_every=1)
    batch = aug(spots(40, seed=0)[0], generator=seeded(), targets=torch.ones(40).long())
    aug.objective(torch.rand(40), batch)
    save_file(aug.state_dict(), tmp_path / "policy.safetensors")
    torch.manual_seed(9)
    again = MetaAugment(refresh_every=1)
    again.attach(model)
    again.load_state_dict(load_file(tmp_path / "policy.safetensors"))
    assert not torch.equal(again.sampler.probs, torch.full((K, K), 1 / K**2))
    one, other = (a(batch.inputs, 2, generator=seeded(7)) for a in (aug, again))
    assert torch.equal(one.inputs, other.inputs)
    assert torch.equal(aug.weights(one), again.weights(other))


def test_the_model_is_no_part_of_it_and_a_known_one_keeps_the_policy() -> None:
    model = small_model()
    aug = attached(model)
    mine = {id(p) for p in model.parameters()}
    assert not mine & {id(p) for p in aug.parameters()}
    assert {name.split(".")[0] for name in aug.state_dict()} == {"policy", "sampler"}
    policy = aug.policy
    aug.attach(small_model())
    assert aug.policy is policy
    with pytest.raises(ArgumentError, match=r"`model` must have the \d+ features that the policy"):
        aug.attach(nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE**2, 2)))
    assert aug.policy is policy


def test_pictures_need_no_model_but_learning_does() -> None:
    aug = MetaAugment()
    batch = aug(spots(2, seed=0)[0], n_samples=3, generator=seeded())
    assert batch.inputs.shape == (6, 3, SIDE, SIDE)
    with pytest.raises(ArgumentError, match=r"without features\. Call attach\(model\)"):
        aug.objective(torch.rand(6), batch)


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"`inner_learning_rate` must be positive: got 0\.0"):
        MetaAugment(inner_learning_rate=0.0)
    for epsilon in (0.0, 1.5):
        with pytest.raises(ArgumentError, match=r"`epsilon` must lie in \(0, 1\]"):
            MetaAugment(epsilon=epsilon)
    with pytest.raises(ArgumentError, match="`search_every` must be a number of steps"):
        MetaAugment(search_every=0)
    with pytest.raises(ArgumentError, match="`refresh_every` must be a number of steps"):
        MetaAugment(refresh_every=0)


def test_it_is_tested_on_inputs_as_they_are() -> None:
    assert not MetaAugment.averages_views
    words = "pairs of 14 operations, weighted after one step ahead"
    assert words in repr(MetaAugment())


N, LEARNING_RATE, WIDTH = 6, 0.3, 1e-5


class Attentive(nn.Module):
    """Calls torch's fused attention, whose fast form has no forward derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Conv2d(3, 8, 8, stride=8)
        self.head = nn.Linear(8, 5)

    @override
    def forward(self, x: Tensor) -> Tensor:
        t = self.tokens(x).flatten(2).transpose(1, 2)
        result: Tensor = self.head(F.scaled_dot_product_attention(t, t, t).mean(dim=1))
        return result


def partly_frozen() -> nn.Module:
    model = Pooled()
    model.stem.requires_grad_(False)
    return model


def smooth() -> nn.Module:
    """Finite differences want no kinks; training has BatchNorm and dropout."""
    return Pooled(activation=F.gelu)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "BatchNorm and dropout": smooth,
    "partly frozen": partly_frozen,
    "transformer": lambda: Transformer(class_token=True),
    "fused attention": Attentive,
}
EVERY = pytest.mark.parametrize("name", MODELS)


class Problem:
    """A model in training, and inputs of both kinds, in double precision."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(0)
        self.model = MODELS[name]().double().train()
        for _ in range(3):  # so that evaluation is not like nothing was ever seen
            self.model(torch.rand(8, 3, 32, 32).double())
        self.x, self.y = torch.rand(N, 3, 32, 32).double(), torch.randint(5, (N,))
        self.held_x, self.held_y = torch.rand(4, 3, 32, 32).double(), torch.randint(5, (4,))
        self.weights = torch.rand(N).double() + 0.1

    def losses(self, call: Call) -> Tensor:
        return F.cross_entropy(call(self.x), self.y, reduction="none")

    def held_out_losses(self, call: Call) -> Tensor:
        return F.cross_entropy(call(self.held_x), self.held_y, reduction="none")

    def look_ahead(self, weights: Tensor) -> Tensor:
        return look_ahead_loss(
            self.model, weights, self.losses, self.held_out_losses, learning_rate=LEARNING_RATE
        )

    def taken(self, weights: Tensor) -> float:
        """The same with an optimizer, on a copy of the model."""
        model, state = copy.deepcopy(self.model), torch.get_rng_state()
        learned = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(learned, lr=LEARNING_RATE)
        total = torch.zeros(())
        outputs = model(self.x)
        for i in range(N):
            total = total + weights[i] * F.cross_entropy(outputs[i : i + 1], self.y[i : i + 1])
        total.backward()
        optimizer.step()
        torch.set_rng_state(state)
        for (_, buffer), (_, original) in zip(
            model.named_buffers(), self.model.named_buffers(), strict=True
        ):
            buffer.copy_(original)
        with torch.no_grad():
            return float(F.cross_entropy(model.eval()(self.held_x), self.held_y))


@EVERY
def test_value_and_gradient_are_those_of_steps_that_are_taken(name: str) -> None:
    problem = Problem(name)
    weights = problem.weights.clone().requires_grad_()
    loss = problem.look_ahead(weights)
    assert loss.item() == pytest.approx(problem.taken(problem.weights), rel=1e-12)
    (found,) = torch.autograd.grad(loss, weights)
    for i in range(N):
        nudge = WIDTH * F.one_hot(torch.tensor(i), N)
        rise = problem.taken(problem.weights + nudge) - problem.taken(problem.weights - nudge)
        assert found[i].item() == pytest.approx(rise / (2 * WIDTH), rel=1e-4, abs=1e-8)


@EVERY
def test_the_model_is_left_as_it_was(name: str) -> None:
    problem = Problem(name)
    before, state = Snapshot(problem.model), torch.get_rng_state()
    problem.look_ahead(problem.weights.requires_grad_()).backward()
    assert Snapshot(problem.model) == before
    assert torch.equal(torch.get_rng_state(), state)


def test_it_works_where_gradients_are_off() -> None:
    problem = Problem("BatchNorm and dropout")
    with torch.no_grad():
        value = problem.look_ahead(problem.weights)
    assert value.item() == pytest.approx(problem.taken(problem.weights), rel=1e-12)


def test_a_step_that_changes_no_loss_has_no_gradient() -> None:
    """The head's bias learns alone, and the training losses do not depend on it."""
    problem = Problem("partly frozen")
    problem.model.requires_grad_(False)
    head = problem.model.get_submodule("head")
    assert isinstance(head, nn.Linear)
    head.bias.requires_grad_()
    weights = problem.weights.requires_grad_()
    loss = look_ahead_loss(
        problem.model,
        weights,
        lambda call: call(problem.x).diff(dim=1).sum(dim=1) * 0 + 1,
        problem.held_out_losses,
        learning_rate=LEARNING_RATE,
    )
    assert torch.equal(torch.autograd.grad(loss, weights)[0], torch.zeros(N).double())
