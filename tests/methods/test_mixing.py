"""MixUp blends as its formula says, with shares that follow their law.

What it has in common with CutMix is tested here for both.
"""

from collections import Counter, defaultdict
from itertools import pairwise, permutations

import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional as F

import instaaug
from instaaug.augmentation import AugmentedBatch
from instaaug.augmentation.observed import observe
from instaaug.errors import ArgumentError, ShapeError
from instaaug.methods import METHODS
from instaaug.methods.mixing import CutMix, MixingAugmenter, MixUp, PixelMixer, draw_beta
from instaaug.tasks import BatchLoader, Optimization
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p
from tests.support.models import images, labels, small_classifier
from tests.support.tiny_training import fit, labeled_halves, supervised

BOTH = pytest.mark.parametrize("method", [MixUp, CutMix])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def own_share(batch: AugmentedBatch) -> Tensor:
    assert batch.own_share is not None
    return batch.own_share


def soft_labels(batch: AugmentedBatch, num_classes: int) -> Tensor:
    """Rows of class probabilities, filled in one by one."""
    assert batch.targets is not None
    assert batch.partner_targets is not None
    soft = torch.zeros(len(batch.inputs), num_classes)
    for row, share in enumerate(own_share(batch).tolist()):
        soft[row, batch.targets[row]] += share
        soft[row, batch.partner_targets[0, row]] += 1 - share
    return soft


@pytest.mark.parametrize("alpha", [0.2, 50.0])
def test_shares_follow_the_beta_law(alpha: float) -> None:
    """Kolmogorov-Smirnov; a right sampler fails with ERROR_PROBABILITY."""
    share = draw_beta(alpha, (20_000,), like=torch.zeros(()), generator=seeded())
    law = stats.beta(alpha, alpha)
    assert stats.kstest(share.numpy(), law.cdf).pvalue > ERROR_PROBABILITY


def test_small_shares_follow_the_beta_law_of_a_small_alpha() -> None:
    """Kolmogorov-Smirnov; a right sampler fails with ERROR_PROBABILITY.

    For such an α, many of the shares above 1/2 are so near 1 that float64 rounds them to it.
    """
    share = draw_beta(0.05, (20_000,), like=torch.zeros(()), generator=seeded())
    low, law = share[share < 0.5], stats.beta(0.05, 0.05)
    assert abs(len(low) / len(share) - 0.5) < 5 * 0.5 / len(share) ** 0.5
    assert stats.kstest(low.numpy(), lambda s: 2 * law.cdf(s)).pvalue > ERROR_PROBABILITY


@pytest.mark.parametrize("alpha", [0.2, 2.0])
@pytest.mark.parametrize("per_input", [False, True])
def test_the_shares_of_mixtures_have_mean_and_variance_of_the_law(
    alpha: float, *, per_input: bool
) -> None:
    """Within five standard errors: a right sampler fails with 6e-7 each."""
    n = 4000
    n_samples, n_inputs = (1, n) if per_input else (n, 1)
    x = torch.zeros(n_inputs, 1, 1, 1)
    share = own_share(
        MixUp(alpha=alpha, per_input=per_input)(x, n_samples, generator=seeded(1))
    ).double()
    variance = 1 / (4 * (2 * alpha + 1))
    squares = (share - 0.5).square()
    assert abs(share.mean() - 0.5) < 5 * (variance / n) ** 0.5
    assert abs(squares.mean() - variance) < 5 * squares.std() / n**0.5


@pytest.mark.parametrize(("alpha", "expected"), [(1e-6, {0.0, 1.0}), (1e6, {0.5})])
def test_the_ends_of_the_law_are_numbers(alpha: float, expected: set[float]) -> None:
    share = draw_beta(alpha, (200,), like=torch.zeros(()), generator=seeded())
    assert {round(value, 2) for value in share.tolist()} == expected


def test_a_batch_has_one_share_and_every_input_one_if_asked() -> None:
    x = images(6)
    together = own_share(MixUp()(x, 3, generator=seeded())).view(3, 6)
    apart = own_share(MixUp(per_input=True)(x, 3, generator=seeded()))
    assert (together == together[:, :1]).all()
    assert len(set(together[:, 0].tolist())) == 3
    assert len(set(apart.tolist())) == 18


@pytest.mark.parametrize("per_input", [False, True])
@pytest.mark.parametrize("n_samples", [1, 3])
def test_mixtures_are_those_of_a_naive_loop(n_samples: int, *, per_input: bool) -> None:
    x, y = images(5), torch.rand(5, 2, generator=seeded(7))
    batch = MixUp(per_input=per_input)(x, n_samples, generator=seeded(2), targets=y)
    assert batch.targets is not None
    assert batch.partner_targets is not None
    for j in range(n_samples):
        for i in range(5):
            share, partner = batch.theta[j, i].tolist()
            row = 5 * j + i
            blend = share * x[i] + (1 - share) * x[int(partner)]
            torch.testing.assert_close(batch.inputs[row], blend)
            assert float(own_share(batch)[row]) == share
            assert torch.equal(batch.targets[row], y[i])
            assert torch.equal(batch.partner_targets[0, row], y[int(partner)])


def test_a_whole_share_is_the_image_to_the_last_bit() -> None:
    x = images(8)
    batch = MixUp(alpha=1e-6, per_input=True)(x, generator=seeded())
    partner = batch.theta[0, :, 1].long()
    whole = own_share(batch) == 1
    assert 0 < whole.sum() < 8
    assert torch.equal(batch.inputs[whole], x[whole])
    assert torch.equal(batch.inputs[~whole], x[partner[~whole]])


def test_the_input_is_left_alone_and_receives_its_gradient() -> None:
    x = images(4).requires_grad_()
    before = x.detach().clone()
    MixUp()(x, 2, generator=seeded()).inputs.sum().backward()
    assert torch.equal(x.detach(), before)
    # Every image is there once for itself and once as a partner, with shares that add up to 1.
    torch.testing.assert_close(x.grad, torch.full_like(x, 2.0))


@BOTH
def test_losses_are_the_cross_entropy_of_soft_labels(method: type[PixelMixer]) -> None:
    aug, model = method(alpha=1.0), small_classifier().eval()
    batch = aug(images(6), 2, generator=seeded(3), targets=labels(6))
    outputs = model(batch.inputs)
    losses = batch.losses(lambda y: F.cross_entropy(outputs, y, reduction="none"))
    expected = F.cross_entropy(outputs, soft_labels(batch, 3), reduction="none")
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(aug.objective(losses, batch), expected.mean())


@BOTH
def test_losses_of_regressions_are_mixed_too(method: type[PixelMixer]) -> None:
    y = torch.rand(5, 2, generator=seeded(1))
    batch = method(alpha=1.0)(images(5), generator=seeded(), targets=y)
    losses = batch.losses(lambda target: target.square().sum(dim=1))  # the model says 0
    for i in range(5):
        share, other = float(own_share(batch)[i]), y[int(batch.theta[0, i, -1])]
        expected = share * y[i].square().sum() + (1 - share) * other.square().sum()
        torch.testing.assert_close(losses[i], expected)


@BOTH
def test_partners_are_a_permutation_drawn_uniformly(method: type[PixelMixer]) -> None:
    """Pearson's test on the 6 orders of 3; a right sampler fails with ERROR_PROBABILITY."""
    theta = method(alpha=1.0).draw(images(3), 3000, generator=seeded(5))
    drawn = Counter(tuple(row) for row in theta[..., -1].int().tolist())
    counts = torch.tensor([drawn[order] for order in permutations(range(3))])
    assert counts.sum() == 3000
    assert chi_square_p(counts, torch.full((6,), 1 / 6)) > ERROR_PROBABILITY


@BOTH
def test_an_image_alone_is_its_own_partner(method: type[PixelMixer]) -> None:
    x = images(1)
    torch.testing.assert_close(method(alpha=1.0)(x, 3).inputs, x.repeat(3, 1, 1, 1))


@BOTH
def test_without_targets_there_are_shares_alone(method: type[PixelMixer]) -> None:
    batch = method(alpha=1.0)(images(4), 2)
    assert batch.targets is None
    assert batch.partner_targets is None
    assert own_share(batch).shape == (8,)
    assert batch.log_prob.shape == (2, 4)
    assert batch.entropy.shape == (4, 0)
    with pytest.raises(ArgumentError, match="`targets` must be given"):
        batch.losses(lambda y: y)


@BOTH
def test_a_seeded_generator_makes_everything_repeatable(method: type[PixelMixer]) -> None:
    aug, x = method(alpha=1.0), images(6)
    before = torch.get_rng_state()
    one, two, other = (aug(x, 2, generator=seeded(seed)) for seed in (4, 4, 5))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one.inputs, two.inputs)
    assert torch.equal(one.theta, aug.draw(x, 2, generator=seeded(4)))
    assert not torch.equal(one.inputs, other.inputs)


@BOTH
def test_nothing_is_mixed_at_test_time(method: type[PixelMixer]) -> None:
    aug, model, x = method(alpha=1.0), small_classifier().eval(), images(5)
    assert not aug.averages_views
    assert aug.canonical(x) is x
    assert torch.equal(aug.render(x, aug.draw(x, 1)[0]), x)
    torch.testing.assert_close(aug.wrap(model, 3)(x), model(x))


@BOTH
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_precision_of_images_is_kept(method: type[PixelMixer], dtype: torch.dtype) -> None:
    assert method(alpha=1.0)(images(4).to(dtype), 2).inputs.dtype == dtype


@BOTH
@pytest.mark.parametrize("channels", [1, 5])
def test_any_number_of_channels_will_do(method: type[PixelMixer], channels: int) -> None:
    x = images(4, channels, height=6, width=9)
    assert method(alpha=1.0)(x, 2).inputs.shape == (8, channels, 6, 9)


@BOTH
def test_there_is_nothing_to_learn_or_to_save(method: type[PixelMixer]) -> None:
    aug = method(alpha=0.3)
    assert isinstance(aug, nn.Module)
    assert list(aug.parameters()) == []
    assert aug.state_dict() == {}
    assert "alpha 0.3" in repr(aug)


@BOTH
def test_the_plot_shows_the_views_of_test_time(method: type[PixelMixer]) -> None:
    aug, x = method(alpha=1.0), images(2)
    seen = observe(aug, x, 3)
    assert torch.equal(seen.samples, x.expand(3, -1, -1, -1, -1))
    words = [text.get_text() for text in instaaug.plot(aug, x, 3).texts]
    assert words[:2] == ["input", "samples"]


@BOTH
@pytest.mark.parametrize("alpha", [0.0, -1.0, float("inf"), float("nan")])
def test_alpha_is_positive(method: type[PixelMixer], alpha: float) -> None:
    with pytest.raises(ArgumentError, match=r"`alpha` must be a number from 1e-06 to 1e\+06: got"):
        method(alpha=alpha)


@BOTH
def test_targets_of_other_inputs_are_refused(method: type[PixelMixer]) -> None:
    with pytest.raises(ShapeError, match=r"`targets` must have one entry per input: got 3 for 2"):
        method(alpha=1.0)(images(2), targets=labels(3))


Box = tuple[int, int, int, int]


def cutmix_shares(aug: CutMix, x: Tensor, n_samples: int, *, seed: int = 0) -> Tensor:
    share = aug(x, n_samples, generator=seeded(seed)).own_share
    assert share is not None
    return share


@pytest.mark.parametrize("shape", [(16, 16), (7, 12)], ids=str)
def test_mixtures_are_those_of_a_naive_loop_over_pixels(shape: tuple[int, int]) -> None:
    height, width = shape
    x = images(4, height=height, width=width)
    batch = CutMix()(x, 6, generator=seeded(3))
    assert batch.own_share is not None
    for j in range(6):
        for i in range(4):
            left, right, top, bottom, partner = (int(v) for v in batch.theta[j, i])
            expected, n_pasted = x[i].clone(), 0
            for row in range(height):
                for column in range(width):
                    if top <= row < bottom and left <= column < right:
                        expected[:, row, column] = x[partner, :, row, column]
                        n_pasted += 1
            assert torch.equal(batch.inputs[4 * j + i], expected)
            share = 1 - n_pasted / (height * width)
            assert float(batch.own_share[4 * j + i]) == pytest.approx(share, abs=1e-6)


def test_every_pixel_is_of_one_of_two_images() -> None:
    x = torch.arange(5.0).view(5, 1, 1, 1).expand(5, 3, 9, 11)
    batch = CutMix()(x, 8, generator=seeded(1))
    assert batch.own_share is not None
    partner = batch.theta[..., -1].flatten()
    own = torch.arange(5.0).repeat(8)
    is_own = batch.inputs == own.view(-1, 1, 1, 1)
    assert (is_own | (batch.inputs == partner.view(-1, 1, 1, 1))).all()
    other = own != partner
    measured = is_own[other].float().mean(dim=(1, 2, 3))
    torch.testing.assert_close(measured, batch.own_share[other])
    assert (measured < 1).any()


def test_the_inputs_of_a_sample_share_a_box_and_samples_do_not() -> None:
    theta = CutMix().draw(images(5), 6, generator=seeded())
    assert (theta[..., :4] == theta[:, :1, :4]).all()
    assert len({tuple(row) for row in theta[:, 0, :4].tolist()}) > 3


def test_the_input_is_left_alone_and_receives_its_part_of_the_gradient() -> None:
    x = images(4).requires_grad_()
    before = x.detach().clone()
    CutMix()(x, 2, generator=seeded()).inputs.sum().backward()
    assert torch.equal(x.detach(), before)
    # Every pixel is shown once per sample: by its own image or by its partner.
    torch.testing.assert_close(x.grad, torch.full_like(x, 2.0))


def law_of_boxes(width: int, height: int, alpha: float) -> dict[Box, float]:
    """The probability of every box, by going through all sides and centers.

    The sides are the whole numbers below w·s and h·s, with s² = 1 - λ from Beta(α, α); s is cut
    where one of them changes.
    """
    below = stats.beta(alpha, alpha).cdf
    cuts = sorted({k / n for n in (width, height) for k in range(n + 1)})
    law: dict[Box, float] = defaultdict(float)
    for low, high in pairwise(cuts):
        middle = (low + high) / 2
        half_width, half_height = int(width * middle) // 2, int(height * middle) // 2
        prob = float(below(high**2) - below(low**2)) / (width * height)
        for x in range(width):
            for y in range(height):
                left, right = max(x - half_width, 0), min(x + half_width, width)
                top, bottom = max(y - half_height, 0), min(y + half_height, height)
                law[left, right, top, bottom] += prob
    return law


@pytest.mark.parametrize(("width", "height", "alpha"), [(4, 4, 1.0), (7, 5, 0.5)])
def test_boxes_follow_their_law(width: int, height: int, alpha: float) -> None:
    """Pearson's test; a right sampler fails with ERROR_PROBABILITY."""
    law = law_of_boxes(width, height, alpha)
    assert sum(law.values()) == pytest.approx(1)
    x = torch.zeros(1, 1, height, width)
    theta = CutMix(alpha=alpha).draw(x, 20_000, generator=seeded(2))
    drawn = Counter(tuple(box) for box in theta[:, 0, :4].int().tolist())
    assert set(drawn) <= set(law)
    counts = torch.tensor([drawn[box] for box in law])
    assert chi_square_p(counts, torch.tensor(list(law.values()))) > ERROR_PROBABILITY


def test_the_mean_share_is_that_of_the_closed_form() -> None:
    """Within five standard errors and the width of a pixel: a right sampler fails with 6e-7.

    For α = 1 the side s of the box has the density 2s. Of a side whose center is uniform on
    [0, 1], s - s²/4 lies inside on average. So ∫ 2s (s - s²/4)² ds = 1/2 - 1/5 + 1/48 is pasted.
    """
    side, n = 2000, 20_000
    x = torch.zeros(1, 1, 1, 1).expand(1, 1, side, side)
    left, right, top, bottom = (
        CutMix().draw(x, n, generator=seeded(4))[:, 0, :4].double().unbind(1)
    )
    pasted = (right - left) * (bottom - top) / side**2
    expected = 1 / 2 - 1 / 5 + 1 / 48
    assert abs(pasted.mean() - expected) < 5 * pasted.std() / n**0.5 + 2 / side


@pytest.mark.parametrize("probability", [0.25, 1.0])
def test_batches_are_mixed_as_often_as_asked(probability: float) -> None:
    """Pearson's test; a right sampler fails with ERROR_PROBABILITY.

    Boxes narrower than 2 of 16 pixels are empty: (2 / 16)² of them.
    """
    share = cutmix_shares(CutMix(probability=probability), torch.rand(2, 1, 16, 16), 2000, seed=6)
    per_batch = share.view(2000, 2)
    assert torch.equal(per_batch[:, 0], per_batch[:, 1])
    n_mixed = int((per_batch[:, 0] < 1).sum())
    mixed = probability * (1 - (2 / 16) ** 2)
    counts, probs = torch.tensor([n_mixed, 2000 - n_mixed]), torch.tensor([mixed, 1 - mixed])
    assert chi_square_p(counts, probs) > ERROR_PROBABILITY


def test_a_batch_that_is_not_mixed_stays_as_it_is() -> None:
    x = images(4)
    batch = CutMix(probability=0.5)(x, 40, generator=seeded())
    assert batch.own_share is not None
    whole = batch.own_share == 1
    assert 0 < whole.sum() < len(whole)
    assert torch.equal(batch.inputs[whole], x.repeat(40, 1, 1, 1)[whole])


def test_the_settings_can_be_read_from_the_printed_form() -> None:
    assert repr(CutMix(probability=0.5)) == "CutMix(alpha 1, probability 0.5)"


@pytest.mark.parametrize("probability", [0.0, -0.5, 1.5, float("nan")])
def test_the_probability_is_one(probability: float) -> None:
    with pytest.raises(ArgumentError, match=r"`probability` must lie in \(0, 1\]: got"):
        CutMix(probability=probability)


MIXING = sorted(name for name, method in METHODS.items() if issubclass(method, MixingAugmenter))


@pytest.mark.slow
@pytest.mark.parametrize("method", [*MIXING, "mixmo"])
def test_two_classes_are_learned_from_mixtures(method: str) -> None:
    train, test = labeled_halves(64, side=16), labeled_halves(64, side=16, seed=1)
    options = {"group": 8} if method == "comixup" else {}
    aug = METHODS[method].build({}, options)
    task = supervised(
        aug,
        model=small_classifier(2),
        optimization=Optimization("sgd", 0.05),
        mean=(0.3,),
        std=(0.2,),
    )
    fit(task, BatchLoader(train, 16, seed=0), epochs=20)
    x, y = test.__getitems__(list(range(len(test))))
    with torch.no_grad():
        assert (task.eval()(x).argmax(dim=1) == y).float().mean() > 0.9
