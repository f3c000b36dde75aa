"""AdaAug and its variant with boxes, held against loops, laws and tasks with a planted harm."""

from collections.abc import Callable
from math import radians

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from instaaug.augmentation import HeldOutBatch
from instaaug.errors import ArgumentError
from instaaug.methods.ada_augment import (
    ADA_OPERATIONS,
    MOST_ROWS,
    AdaAugment,
    AdaCrops,
    AdaPolicy,
    Candidates,
)
from instaaug.methods.operations import OPERATIONS, Operations, operation_index
from instaaug.networks.model_interface import evaluation_mode
from instaaug.transforms import Crop
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p, uniform_p
from tests.support.models import images, labels, small_classifier

NAMES = list(ADA_OPERATIONS)
LEVELS = [(0.5, 2), (1.0, 1)]
POLICIES: dict[str, Callable[..., AdaPolicy]] = {
    "operations": AdaAugment,
    "boxes": lambda **options: AdaCrops(levels=LEVELS, **options),
}
STEP = 1e-8  # of finite differences: short, or a ReLU may bend within it
EVERY = pytest.mark.parametrize("name", POLICIES)


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def losses_of(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def attached(aug: AdaPolicy, model: nn.Module | None = None, *, scale: float = 3.0) -> nn.Module:
    """The model that is attached; the policy says something else of each input."""
    model = model or small_classifier()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        aug.attach(model)
    assert aug.head is not None
    with torch.no_grad():
        aug.head.weight.mul_(scale)
    return model


def saying(aug: AdaPolicy, raw: Tensor) -> None:
    """Let the policy say the same of every input."""
    attached(aug)
    assert aug.head is not None
    with torch.no_grad():
        aug.head.weight.zero_()
        aug.head.bias.copy_(raw)


def searched(aug: AdaPolicy, model: nn.Module, held_out: HeldOutBatch, seed: int = 0) -> Tensor:
    batch = aug(held_out.inputs[:2], generator=seeded(9))
    return aug.search_objective(model, batch, held_out, losses_of, seeded(seed))


@EVERY
def test_the_search_is_that_of_a_loop_over_images_and_candidates(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features one by one, their slopes along the magnitude by finite differences."""
    aug = POLICIES[name]().double()
    model = attached(aug).double()
    aug.double()
    x, y = images(8).double(), labels(8)  # two parts of 17 candidates
    drawn: list[Candidates] = []
    candidates = aug.candidates

    def recorded(raw: Tensor, generator: Generator | None) -> Candidates:
        drawn.append(candidates(raw, generator))
        return drawn[-1]

    monkeypatch.setattr(aug, "candidates", recorded)
    found = searched(aug, model, HeldOutBatch(x, y))
    assert aug.head is not None
    slopes = torch.autograd.grad(found, [aug.head.weight, aug.head.bias])
    theta = torch.cat([part.theta for part in drawn], dim=1)

    *layers, last = model.children()
    body = nn.Sequential(*layers)
    weight, bias = (p.detach().clone().requires_grad_() for p in aug.head.parameters())
    total = torch.zeros(())
    with evaluation_mode(body):
        for i in range(len(x)):
            said = weight @ body(x[i : i + 1])[0].detach() + bias
            mixed = torch.zeros(32, dtype=torch.float64)
            logits = said[len(said) - len(theta) :]
            for j in range(len(theta)):
                with torch.no_grad():
                    if name == "boxes":
                        image, slope = Crop().apply(x[i : i + 1], theta[j, i : i + 1]), 0.0
                    else:
                        image = Operations(1, "nearest").apply(
                            x[i : i + 1], theta[j, i : i + 1, :2]
                        )
                        slope = (body(image + STEP) - body(image - STEP))[0] / (2 * STEP)
                    feature = body(image)[0]
                magnitude = said[j].sigmoid()
                feature = feature + slope * (magnitude - magnitude.detach())
                k = j if name == "operations" else _box_number(theta[j, i], aug)
                mixed = mixed + logits.softmax(0)[k] * feature
            total = total + losses_of(last(mixed[None]), y[i : i + 1])[0] / len(x)
    expected = torch.autograd.grad(total, [weight, bias])
    torch.testing.assert_close(found, total, atol=1e-9, rtol=0)
    for ours, naive in zip(slopes, expected, strict=True):
        assert (ours - naive).abs().max() <= 1e-5 * naive.abs().max()


def _box_number(box: Tensor, aug: AdaPolicy) -> int:
    assert isinstance(aug, AdaCrops)
    return int((aug.grid.boxes - box).abs().sum(dim=1).argmin())


def test_all_operations_are_explored_at_their_magnitudes() -> None:
    aug = AdaAugment(n_operations=3)
    attached(aug)
    raw = aug.raw(images(200)).detach()
    found = aug.candidates(raw, seeded())
    assert found.theta.shape == (17, 200, 6)
    assert (found.theta[..., 2:] == 0).all()  # two identities follow
    level = raw[:, :17].sigmoid().T
    for j, name in enumerate(NAMES):
        operation, value = found.theta[j, :, 0], found.theta[j, :, 1]
        assert (operation == operation_index(name)).all()
        low, high = ADA_OPERATIONS[name]
        expected = level[j] * (high - low) + low
        if name in ("shear_x", "shear_y", "translate_x", "translate_y", "rotate"):
            torch.testing.assert_close(value.abs(), expected.abs())
            n_turned = int((value.sign() != expected.sign()).sum())
            assert abs(n_turned - 100) <= 5 * 50**0.5  # 6e-7 for a fair coin
        elif name == "cutout":
            torch.testing.assert_close(value - value.floor(), expected, atol=1e-4, rtol=0)
            assert len(value.floor().unique()) > 50
        elif name == "posterize":
            assert torch.equal(value, expected.floor())
        else:
            torch.testing.assert_close(value, expected)


def test_the_operations_and_ranges_are_the_published_ones() -> None:
    assert len(NAMES) == 17
    assert set(NAMES) == set(OPERATIONS) - {"zoom"}
    known = {"rotate": (-radians(30), radians(30)), "translate_x": (-0.45, 0.45)}
    known |= {"solarize": (0, 256), "brightness": (0.1 - 1, 1.9 - 1), "cutout": (0, 0.2)}
    for name, ends in known.items():
        assert ADA_OPERATIONS[name] == pytest.approx(ends)


@EVERY
def test_the_search_leaves_the_model_as_it_was(name: str) -> None:
    aug = POLICIES[name]()
    model = attached(aug)
    model[1].eval()  # type: ignore[index]
    before = {key: value.clone() for key, value in model.state_dict().items()}
    aug(images(4), generator=seeded())
    searched(aug, model, HeldOutBatch(images(5), labels(5))).backward()
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert [part.training for part in model.children()] == [True, False, True, True, True, True]
    assert aug.head is not None
    assert aug.head.weight.grad is not None


@EVERY
def test_the_model_never_sees_many_images_at_once(name: str) -> None:
    aug = POLICIES[name]()
    model = attached(aug)
    rows: list[int] = []
    model.register_forward_pre_hook(lambda _, given: rows.append(len(given[0])))
    searched(aug, model, HeldOutBatch(images(150), labels(150)))
    assert max(rows) <= MOST_ROWS
    assert sum(rows) == 2 + 150 + 150 * aug.n_candidates


def test_boxes_beyond_the_limit_are_explored_in_turns() -> None:
    """Each of 16 boxes is tried for a quarter of 800 images; 5 standard deviations: 6e-7."""
    aug = AdaCrops(levels=[(0.5, 4)], max_explored=4)
    saying(aug, torch.linspace(-3, 3, 16))  # whatever the policy prefers
    raw = aug.raw(images(800)).detach().requires_grad_()
    found = aug.candidates(raw, seeded())
    assert found.theta.shape == (4, 800, 4)
    torch.testing.assert_close(found.weight.sum(dim=0), torch.ones(800))
    match = (found.theta[:, :, None] == aug.grid.boxes).all(dim=-1)
    assert (match.sum(dim=0) <= 1).all()  # no box twice
    counts = match.sum(dim=(0, 1))
    assert ((counts - 200).abs() <= 5 * 150**0.5).all()
    full = raw.softmax(dim=-1)
    tried = torch.einsum("mbk, bk -> mb", match.float(), full)
    torch.testing.assert_close(found.weight, tried / tried.sum(dim=0))


def test_operations_are_drawn_one_after_the_other_without_replacement() -> None:
    """Pearson's test on all ordered pairs; a right sampler fails with ERROR_PROBABILITY."""
    logits = torch.linspace(-3, 3, 17)
    aug = AdaAugment(n_operations=2, temperature=2.0)
    saying(aug, torch.cat([torch.zeros(17), logits]))
    theta = aug.draw(images(200, height=4, width=4), 50, generator=seeded(1)).flatten(0, 1)
    order = torch.tensor([operation_index(name) for name in NAMES])
    first, second = ((theta[:, c, None] == order).float().argmax(dim=1) for c in (0, 2))
    p = (logits / 2).softmax(dim=0).double()
    pairs = p[:, None] * p / (1 - p[:, None])
    pairs.fill_diagonal_(0)
    counts = torch.bincount(first * 17 + second, minlength=17 * 17)
    assert chi_square_p(counts, pairs.flatten()) > ERROR_PROBABILITY


def test_magnitudes_move_by_up_to_delta_and_stay_within_their_range() -> None:
    """Kolmogorov-Smirnov and a binomial count of 5 standard deviations."""
    raw = torch.zeros(34)
    solarize = NAMES.index("solarize")
    raw[17 + solarize] = 100.0  # nothing else is drawn
    aug = AdaAugment(n_operations=1, delta=0.3)
    saying(aug, raw)
    x = images(100, height=4, width=4)
    level = aug.draw(x, 30, generator=seeded(2))[..., 1] / 256
    assert uniform_p((level - 0.2) / 0.6) > ERROR_PROBABILITY
    raw[solarize] = torch.tensor(0.9).logit()
    saying(aug, raw)
    level = aug.draw(x, 30, generator=seeded(2))[..., 1] / 256
    n_clipped = int((level == 1).sum())  # up, and by more than 0.1 of 0.3: one in three
    assert abs(n_clipped - 1000) <= 5 * (3000 * 2 / 9) ** 0.5
    assert level.min() >= 0.6 - 1e-6
    saying(still := AdaAugment(n_operations=1, delta=0.0), raw)
    assert still.draw(x, 2, generator=seeded())[..., 1].sub(0.9 * 256).abs().max() < 1e-3


def test_boxes_follow_the_policy_and_start_as_told() -> None:
    """Pearson's test; a right sampler fails with ERROR_PROBABILITY."""
    aug = AdaCrops(levels=LEVELS, temperature=2.0, initial_entropy=1.0)
    model = small_classifier()
    aug.attach(model)
    assert aug.head is not None
    p = aug.head.bias.detach().softmax(dim=0)
    assert float(torch.special.entr(p).sum()) == pytest.approx(1.0, abs=1e-4)
    assert int(p.argmax()) == 4  # the whole image
    saying(aug, logits := torch.tensor([1.0, -1.0, 0.0, 2.0, 0.5]))
    theta = aug(images(200), 10, seeded()).theta.flatten(0, 1)
    number = (theta[:, None] == aug.grid.boxes).all(dim=-1).float().argmax(dim=1)
    counts = torch.bincount(number, minlength=5)
    assert chi_square_p(counts, (logits / 2).softmax(dim=0)) > ERROR_PROBABILITY
    best = aug.draw(images(3), 2, select="top")
    assert torch.equal(best, aug.grid.boxes[[3, 0], None].expand(2, 3, 4))
    distinct = aug.draw(images(3), 4, generator=seeded())
    assert all(len(distinct[:, i].unique(dim=0)) == 4 for i in range(3))


@EVERY
def test_inputs_have_policies_of_their_own_whatever_else_is_in_the_batch(name: str) -> None:
    aug = POLICIES[name]()
    attached(aug)
    x = images(130)
    raw = aug.raw(x)
    assert (raw[0] - raw[1]).abs().max() > 1e-3
    torch.testing.assert_close(raw[128:], aug.raw(x[128:]), atol=1e-5, rtol=0)


@EVERY
def test_draws_are_repeatable_and_survive_saving(name: str) -> None:
    aug, again = POLICIES[name](), POLICIES[name]()
    model = attached(aug)
    again.attach(model)
    assert set(aug.state_dict()) == {"head.weight", "head.bias"}
    assert len(list(aug.parameters())) == 2  # none of the model's
    again.load_state_dict(aug.state_dict())
    x = images(6)
    one, two = (a(x, 3, seeded(4), labels(6)) for a in (aug, again))
    assert torch.equal(one.inputs, two.inputs)
    assert not one.inputs.requires_grad
    assert torch.equal(one.inputs, aug.render(x.repeat(3, 1, 1, 1), one.theta.flatten(0, 1)))
    assert float(aug.objective(torch.arange(18.0), one)) == 8.5
    assert aug.averages_views


@EVERY
def test_a_policy_needs_a_model_that_fits(name: str) -> None:
    aug = POLICIES[name]()
    with pytest.raises(ArgumentError, match=r"reads its features: got none\. Call attach\(model"):
        aug(images(2))
    attached(aug)
    aug.attach(small_classifier())  # another one of the same width
    narrow = nn.Sequential(nn.Flatten(), nn.Linear(768, 3))
    with pytest.raises(
        ArgumentError, match="must have the 32 features that the policy reads: got "
    ):
        aug.attach(narrow)
    with pytest.raises(ArgumentError, match=r"must make its logits with a final nn\.Linear"):
        POLICIES[name]().attach(nn.Conv2d(3, 2, 3))


def test_impossible_settings_are_refused() -> None:
    for n_operations in (0, 18):
        with pytest.raises(ArgumentError, match="`n_operations` must be a whole number from 1 to"):
            AdaAugment(n_operations=n_operations)
    with pytest.raises(ArgumentError, match=r"`delta` must lie in \[0, 1\], .* got 1.5"):
        AdaAugment(delta=1.5)
    with pytest.raises(ArgumentError, match="`temperature` must be above 0: got 0"):
        AdaCrops(temperature=0.0)
    with pytest.raises(ArgumentError, match="`search_every` must be at least 1: got 0"):
        AdaAugment(search_every=0)
    with pytest.raises(ArgumentError, match=r"`max_explored` must be at least 2, .* got 1"):
        AdaCrops(max_explored=1)


def test_the_settings_can_be_read_from_the_printed_form() -> None:
    words = "2 of 17 operations, temperature 3, magnitudes ± 0.3, search every 3 steps"
    assert repr(AdaAugment()) == f"AdaAugment({words})"
    assert "321 boxes" in repr(AdaCrops())
    assert "17 explored every 3 steps" in repr(AdaCrops())


Data = Callable[[int, Generator], tuple[Tensor, ...]]


def polarity(n: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """A square that is brighter or darker than its surroundings: that is its class."""
    y = torch.randint(2, (n,), generator=generator)
    corner, side = torch.randint(2, 10, (2, n, 1), generator=generator), torch.arange(16)
    down, right = ((side >= c) & (side < c + 5) for c in corner)
    square = (down[:, :, None] & right[:, None, :])[:, None]
    x = 0.5 + 0.35 * (2 * y - 1).view(-1, 1, 1, 1) * square.expand(-1, 3, -1, -1)
    return (x + 0.05 * torch.randn(x.shape, generator=generator)).clamp(0, 1), y


def stripes(n: int, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Noise with stripes in one quarter; the class is their direction. Also which quarter."""
    y, quarter = (
        torch.randint(2, (n,), generator=generator),
        torch.randint(4, (n,), generator=generator),
    )
    x = 0.5 + 0.25 * torch.randn(n, 3, 2, 8, 2, 8, generator=generator)
    lines = (torch.arange(8) % 2).float().expand(8, 8)
    rows = torch.arange(n)
    pattern = torch.where(y[:, None, None] == 1, lines, lines.T)
    x[rows, :, quarter // 2, :, quarter % 2, :] = pattern[:, None].expand(-1, 3, -1, -1)
    return x.clamp(0, 1).reshape(n, 3, 16, 16), y, quarter


def learned(aug: AdaPolicy, data: Data, learning_rate: float) -> None:
    """Train a classifier and its policy together."""
    generator, model = seeded(), small_classifier(2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        aug.attach(model)
    model_steps = torch.optim.Adam(model.parameters(), 1e-2)
    policy_steps = torch.optim.Adam(aug.parameters(), learning_rate)
    for _ in range(50):
        x, y = data(32, generator)[:2]
        held_out = HeldOutBatch(*data(MOST_ROWS // aug.n_candidates, generator)[:2])
        batch = aug(x, 1, generator, y)
        policy_steps.zero_grad()
        aug.search_objective(model, batch, held_out, losses_of, generator).backward()
        policy_steps.step()
        model_steps.zero_grad()
        losses = losses_of(model(batch.inputs), y)
        aug.objective(losses, batch).backward()
        model_steps.step()


def test_a_policy_learns_to_avoid_what_swaps_the_classes() -> None:
    aug = AdaAugment(n_operations=1, temperature=1.0)
    learned(aug, polarity, 3e-3)
    _, probs = aug.policy(polarity(100, seeded(7))[0])
    mean = dict(zip(ADA_OPERATIONS, probs.detach().mean(dim=0).tolist(), strict=True))
    assert mean["invert"] < 0.25 / 17
    assert mean["invert"] < 0.25 * mean["identity"]


def test_a_policy_of_boxes_learns_to_look_where_the_class_is_told() -> None:
    aug = AdaCrops(levels=[(0.5, 2)])
    learned(aug, stripes, 1e-2)
    x, _, quarter = stripes(200, seeded(7))
    own = aug.raw(x).softmax(dim=-1).gather(1, quarter[:, None]).mean()
    assert own > 0.4  # a quarter by chance
