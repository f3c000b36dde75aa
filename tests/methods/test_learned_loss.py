"""The learned loss: its candidates, its choice, its training."""

from itertools import pairwise
from math import pi

import pytest
import torch
from scipy import stats
from torch import Tensor

from instaaug.errors import ArgumentError, NonFiniteError, ShapeError
from instaaug.functional import pixel_operations as P
from instaaug.methods import LearnedLoss
from instaaug.methods.learned_loss import (
    CANDIDATES,
    MIRROR,
    LossPredictor,
    RankTraining,
    _choose,
    hard_ranks,
    ranking_loss,
    shrink,
    soft_ranks,
)
from instaaug.transforms import Rotation, Scale
from tests.support.images import largest_difference, random_images
from tests.support.models import images, small_classifier
from tests.support.unhooked import unhooked

N = len(CANDIDATES)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def made(seed: int = 0, **settings: float) -> LearnedLoss:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LearnedLoss(**settings)  # type: ignore[arg-type]


def random_scores(n: int, seed: int = 0) -> Tensor:
    return (2 * torch.randn(n, N, generator=seeded(seed))).softmax(dim=-1)


# --- candidates ---------------------------------------------------------------------------------


def test_the_candidates_are_those_of_the_paper() -> None:
    x, aug = random_images(2, height=32, width=32), LearnedLoss()
    theta = aug.candidate_theta(x)
    assert theta.shape == (12, 2, 2)

    def all_of(value: float) -> Tensor:
        return torch.full((2,), value)

    def geometric(transform: Rotation | Scale, value: float) -> Tensor:
        return transform.apply(x, all_of(value)[:, None], padding_mode="reflection")

    expected = [
        x,
        geometric(Rotation(), -pi / 9),
        geometric(Rotation(), pi / 9),
        geometric(Scale(), 0.8),
        geometric(Scale(), 1.2),
        P.autocontrast(x),
        *[P.sharpness(x, all_of(factor)) for factor in (0.2, 0.5, 3.0, 4.0)],
        *[P.saturation(x, all_of(factor)) for factor in (0.5, 2.0)],
    ]
    for row, other in zip(theta, expected, strict=True):
        assert largest_difference(aug.render(x, row), other) <= 1e-5
    assert all(largest_difference(a, b) > 0.01 for a, b in pairwise(expected))


def test_all_candidates_can_be_rendered_at_once() -> None:
    x, aug = images(3), LearnedLoss()
    theta = aug.candidate_theta(x)
    together = aug.render(x.repeat(N, 1, 1, 1), theta.flatten(0, 1)).unflatten(0, (N, 3))
    alone = torch.stack([aug.render(x, row) for row in theta])
    assert largest_difference(together, alone) <= 1e-6


def test_in_the_mirror_the_rotations_change_places() -> None:
    x, aug = random_images(2, height=24, width=40), LearnedLoss()
    for row, other in zip(aug.candidate_theta(x), aug.candidate_theta(x)[list(MIRROR)],
                          strict=True):  # fmt: skip
        seen_in_mirror = aug.render(x.flip(-1), row).flip(-1)
        assert largest_difference(seen_in_mirror, aug.render(x, other)) <= 1e-5


def test_normalization_padding_and_size_are_honored() -> None:
    x, mean, std = images(3, height=32, width=32), (0.2, 0.3, 0.4), (0.5, 0.6, 0.7)
    m, s = (torch.tensor(v).view(1, 3, 1, 1) for v in (mean, std))
    plain, normalized = LearnedLoss(), LearnedLoss(mean=mean, std=std)
    black, small = LearnedLoss(padding_mode="zeros"), LearnedLoss(size=(16, 20))
    for row in plain.candidate_theta(x):
        out = plain.render(x, row)
        again = normalized.render((x - m) / s, row) * s + m
        assert largest_difference(again, out) <= 1e-5
        with unhooked():  # the shape checker wants one size
            assert small.render(x, row).shape == (3, 3, 16, 20)
    zoomed_out = plain.candidate_theta(x)[3]
    assert (black.render(x + 0.01, zoomed_out)[:, :, 0] == 0).all()
    assert (plain.render(x + 0.01, zoomed_out)[:, :, 0] > 0).all()


# --- the choice ---------------------------------------------------------------------------------


def chosen_naively(scores: list[float], n: int, threshold: float) -> list[int]:
    order = sorted(range(len(scores)), key=lambda k: -scores[k])
    taken = [order[i % len(order)] for i in range(n)]
    return [0 if scores[k] < threshold * scores[0] else k for k in taken]


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0, 2.5])
@pytest.mark.parametrize("n", [1, 4, 12, 17])
def test_the_best_are_taken_unless_they_stay_below_the_threshold(n: int, threshold: float) -> None:
    scores = random_scores(40)
    expected = [chosen_naively(row, n, threshold) for row in scores.tolist()]
    assert _choose(scores, n, threshold).tolist() == expected


def chosen_as_in_the_source(scores: list[float], n: int, threshold: float) -> list[int]:
    """One by one: a candidate that was taken is struck off, the unchanged input never is."""
    left, taken = list(scores), []
    for _ in range(n):
        best = max(range(len(left)), key=left.__getitem__)
        if left[best] < threshold * left[0]:
            best = 0
        if best != 0:
            left[best] = 0.0
        taken.append(best)
    return taken


@pytest.mark.parametrize(("threshold", "theirs"), [(1.0, 0.0), (1.0, 0.7), (1.0, 1.0), (2.0, 2.0)])
def test_a_threshold_of_one_is_what_the_source_does_with_any_up_to_one(
    threshold: float, theirs: float
) -> None:
    scores = random_scores(60, seed=1)
    expected = [chosen_as_in_the_source(row, 6, theirs) for row in scores.tolist()]
    assert _choose(scores, 6, threshold).tolist() == expected


def test_scores_are_averaged_with_the_mirror_image_whose_rotations_are_swapped() -> None:
    aug, x = made(), images(5, height=64, width=64)
    straight = aug.predictor(x).softmax(dim=-1)
    mirrored = aug.predictor(x.flip(-1)).softmax(dim=-1)
    for i in range(5):
        there = mirrored[i].tolist()
        there[1], there[2] = there[2], there[1]
        expected = (straight[i] + torch.tensor(there)) / 2
        torch.testing.assert_close(aug.scores(x)[i], expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(aug.scores(x.flip(-1)), aug.scores(x)[:, MIRROR])
    torch.testing.assert_close(aug.scores(x).sum(dim=-1), torch.ones(5))


def test_draws_are_the_chosen_candidates() -> None:
    aug, x = made(threshold=0.0), images(6)
    theta = aug.draw(x, 5)
    index = _choose(aug.scores(x), 5, 0.0)
    assert torch.equal(theta, aug.table[index.T])
    assert torch.equal(theta, aug.draw(x, 5, select="top", generator=seeded()))
    assert len({tuple(row) for row in theta[:, 0].tolist()}) == 5


def test_no_chance_is_left_in_training_mode() -> None:
    aug, x = made(threshold=0.0), images(6)
    assert torch.equal(aug.train().scores(x), aug.eval().scores(x))


def test_a_wrapped_model_averages_probabilities() -> None:
    aug, model, x = made(threshold=0.0), small_classifier().eval(), images(5)
    theta = aug.draw(x, 4)
    mean = torch.stack([model(aug.render(x, row)).softmax(dim=-1) for row in theta]).mean(dim=0)
    torch.testing.assert_close(aug.wrap(model)(x), mean.log(), atol=1e-5, rtol=1e-5)
    logits = torch.stack([model(aug.render(x, row)) for row in theta]).mean(dim=0)
    out = aug.wrap(model, 4, merge="logit", chunk_size=2)(x)
    torch.testing.assert_close(out, logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", [(64, 64), (32, 48), (200, 130)], ids=str)
def test_the_predictor_sees_64_pixels(shape: tuple[int, int]) -> None:
    x = random_images(2, height=shape[0], width=shape[1])
    small = shrink(x)
    assert small.shape == (2, 3, 64, 64)
    assert abs(float(small.mean() - x.mean())) < 0.01  # averaged, not picked
    if shape[0] > 128:
        assert small.std() < 0.7 * x.std()


# --- ranks --------------------------------------------------------------------------------------


def test_ranks_are_scipys() -> None:
    losses = torch.randint(6, (20, N), generator=seeded()).float()  # with ties
    expected = torch.from_numpy(stats.rankdata(losses.numpy(), axis=1)).float()
    assert torch.equal(hard_ranks(losses), expected)


def test_soft_ranks_are_ranks_when_scores_lie_far_apart() -> None:
    scores = torch.randn(20, N, generator=seeded())
    torch.testing.assert_close(soft_ranks(1e4 * scores), hard_ranks(-scores), atol=1e-3, rtol=0)
    torch.testing.assert_close(soft_ranks(scores).sum(dim=-1), torch.full((20,), N * (N + 1) / 2))
    assert torch.equal(soft_ranks(torch.zeros(1, N)), torch.full((1, N), (N + 1) / 2))


def test_the_ranking_loss_is_the_mean_over_large_errors() -> None:
    scores, losses = torch.randn(30, N, generator=seeded()), torch.rand(30, N, generator=seeded(1))
    terms = []
    for s, losses_of_image in zip(scores.tolist(), losses.tolist(), strict=True):
        true = stats.rankdata(losses_of_image)
        for i in range(N):
            others = [s[j] for j in range(N) if j != i]
            soft = 1 + sum(float(torch.sigmoid(torch.tensor(o - s[i]))) for o in others)
            squared = ((soft - true[i]) / N) ** 2
            terms.append(squared if squared > 0.05 else 0.0)
    assert 0.1 < sum(term > 0 for term in terms) / len(terms) < 0.9
    assert float(ranking_loss(scores, losses)) == pytest.approx(sum(terms) / len(terms), rel=1e-4)


def test_scores_in_the_right_order_cost_nothing() -> None:
    losses = torch.rand(10, N, generator=seeded())
    assert ranking_loss(-30 * losses, losses) == 0
    assert ranking_loss(30 * losses, losses) > 0.1


# --- training -----------------------------------------------------------------------------------


def planted(n: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Images with one of three visible marks, losses that depend on it, and what is best.

    Darker to the left: turned by -20° is best. Darker to the right: by 20°. Neither: saturated.
    """
    random = seeded(seed)
    mark = torch.randint(3, (n,), generator=random)
    slope = torch.tensor([1.0, -1.0, 0.0])[mark].view(n, 1, 1, 1)
    noise = 0.3 * torch.rand(n, 3, 64, 64, generator=random)
    x = noise + 0.35 + slope * torch.linspace(-0.3, 0.3, 64)
    best = torch.tensor([1, 2, 11])[mark]
    losses = 1 + torch.rand(n, N, generator=random)
    losses[torch.arange(n), best] = torch.rand(n, generator=random)
    return x, losses, best


def test_it_learns_which_candidate_suits_what_it_sees() -> None:
    aug = made(width=1.0)
    x, losses, _ = planted(64, 1)
    history = aug.fit(x, losses, epochs=8, batch_size=16, generator=seeded())
    assert len(history) == 8
    assert history[-1] < 0.9 * history[0]
    fresh, _, best = planted(60, 2)
    chosen = _choose(aug.scores(fresh), 1, 0.0)[:, 0]
    assert (chosen == best).float().mean() > 0.95  # 1 in 12 by chance
    theta = aug.draw(fresh, 1)[0]
    assert (theta == aug.table[best]).all(dim=-1).float().mean() > 0.95


def test_batches_serve_as_well_as_one_tensor_and_a_seed_makes_it_repeatable() -> None:
    x, losses, _ = planted(12, 1)
    large = torch.nn.functional.interpolate(x, scale_factor=2)
    before = torch.get_rng_state()
    fits = []
    for given in (large, (large[i : i + 5] for i in (0, 5, 10)), list(large.split(6))):
        aug = made(width=1.0)
        history = aug.fit(given, losses, epochs=2, batch_size=8, generator=seeded(3))
        fits.append((history, aug.scores(x)))
    for history, scores in fits[1:]:
        assert history == pytest.approx(fits[0][0], rel=1e-4)
        torch.testing.assert_close(scores, fits[0][1], atol=1e-4, rtol=0)
    assert torch.equal(before, torch.get_rng_state())


def test_the_weights_become_their_running_average() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        predictor = LossPredictor(N, width=0.5)
    x, losses, _ = planted(8, 1)
    training = RankTraining(predictor, MIRROR, learning_rate=0.01, n_steps=2, generator=seeded())
    start = predictor.linear.weight.detach().clone()
    training.epoch(x, losses, 8)
    first = predictor.linear.weight.detach().clone()
    training.epoch(x, losses, 8)
    second = predictor.linear.weight.detach().clone()
    assert not torch.equal(start, first)
    training.finish()
    after_one = 0.1 * start + 0.9 * first  # 1 / 10 of the old one at first
    expected = 2 / 11 * after_one + 9 / 11 * second
    torch.testing.assert_close(predictor.linear.weight.detach(), expected, atol=1e-6, rtol=1e-5)


def test_training_mirrors_images_together_with_their_losses() -> None:
    x, losses, _ = planted(40, 1)
    training = RankTraining(
        LossPredictor(N, width=0.5), MIRROR, learning_rate=0.01, n_steps=1, generator=seeded()
    )
    n_mirrored = 0
    for images_seen, table in training._mirrored_batches(x, losses, 16):
        for image, row in zip(images_seen, table, strict=True):
            (i,) = (losses.sum(dim=-1) - row.sum()).abs().argmin(keepdim=True).tolist()
            mirrored = torch.equal(image, x[i].flip(-1))
            assert mirrored or torch.equal(image, x[i])
            assert torch.equal(row, losses[i, list(MIRROR)] if mirrored else losses[i])
            n_mirrored += mirrored
    assert 5 <= n_mirrored <= 35  # a fair coin leaves this with probability 2e-6


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [-0.1, float("nan"), float("inf")])
def test_a_threshold_is_a_number_of_at_least_zero(threshold: float) -> None:
    with pytest.raises(ArgumentError, match="`threshold` must be a number of at least 0: got "):
        LearnedLoss(threshold=threshold)


@pytest.mark.parametrize("shape", [(3, 12), (4, 11), (48,)], ids=str)
def test_the_table_has_a_row_per_image_and_a_column_per_candidate(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"`losses` must be \(4, 12\), a row per image and a col"):
        made(width=0.5).fit(images(4), torch.zeros(shape), epochs=1)


def test_the_table_is_finite() -> None:
    losses = torch.zeros(4, N)
    losses[2, 3] = torch.inf
    with pytest.raises(NonFiniteError, match="`losses` must be finite: got 1 NaN or infinite"):
        made(width=0.5).fit(images(4), losses, epochs=1)


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"batch_size": 0}, {"learning_rate": 0.0}])
def test_training_takes_at_least_a_step(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match="`epochs` and `batch_size` must be at least 1, `lear"):
        made(width=0.5).fit(images(4), torch.zeros(4, N), **wrong)  # type: ignore[arg-type]


def test_images_have_the_channels_that_were_announced() -> None:
    with pytest.raises(ShapeError, match="`x` must have 3 channels: got 1"):
        made(width=0.5).scores(images(4, channels=1))
