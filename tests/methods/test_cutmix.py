"""CutMix pastes boxes that follow their law, and counts the pixels that it really pasted."""

from collections import Counter, defaultdict
from itertools import pairwise

import pytest
import torch
from scipy import stats
from torch import Tensor

from instaaug.errors import ArgumentError
from instaaug.methods.cutmix import CutMix
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p
from tests.support.models import images

Box = tuple[int, int, int, int]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def own_share(aug: CutMix, x: Tensor, n_samples: int, *, seed: int = 0) -> Tensor:
    share = aug(x, n_samples, generator=seeded(seed)).own_share
    assert share is not None
    return share


# --- pasting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(16, 16), (7, 12)], ids=str)
def test_mixtures_are_those_of_a_naive_loop(shape: tuple[int, int]) -> None:
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


def test_the_input_is_left_alone_and_receives_its_gradient() -> None:
    x = images(4).requires_grad_()
    before = x.detach().clone()
    CutMix()(x, 2, generator=seeded()).inputs.sum().backward()
    assert torch.equal(x.detach(), before)
    # Every pixel is shown once per sample: by its own image or by its partner.
    torch.testing.assert_close(x.grad, torch.full_like(x, 2.0))


# --- the law of boxes ---------------------------------------------------------------------------


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


@pytest.mark.parametrize(("width", "height", "alpha"), [(4, 4, 1.0), (7, 5, 0.5), (5, 7, 2.0)])
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


@pytest.mark.parametrize("probability", [0.25, 0.5, 1.0])
def test_batches_are_mixed_as_often_as_asked(probability: float) -> None:
    """Pearson's test; a right sampler fails with ERROR_PROBABILITY.

    Boxes narrower than 2 of 16 pixels are empty: (2 / 16)² of them.
    """
    share = own_share(CutMix(probability=probability), torch.rand(2, 1, 16, 16), 2000, seed=6)
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


# --- words and errors ---------------------------------------------------------------------------


def test_the_settings_can_be_read_from_the_printed_form() -> None:
    assert repr(CutMix(probability=0.5)) == "CutMix(alpha 1, probability 0.5)"


@pytest.mark.parametrize("probability", [0.0, -0.5, 1.5, float("nan")])
def test_the_probability_is_one(probability: float) -> None:
    with pytest.raises(ArgumentError, match=r"`probability` must lie in \(0, 1\]: got"):
        CutMix(probability=probability)
