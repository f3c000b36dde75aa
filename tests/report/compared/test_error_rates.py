"""P-values are what they claim: simulated comparisons of methods without any difference.

A seed shifts the scores of all methods alike, by twice their own spread, so that pairing matters.
Many comparisons at once are computed by numpy and scipy; a few of them are seen to be ours.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy import stats

from instaaug.report.comparison import MethodScores, compare_scores

N_SIMULATED = 100_000
SEED_EFFECT = 2.0
N_CHECKED = 20


@dataclass(frozen=True)
class Simulated:
    """Comparisons: scores of ours, then of the baselines, by seed; and ours less the reference."""

    scores: np.ndarray
    mean: np.ndarray
    p_value: np.ndarray
    half: np.ndarray

    def share(self, sign: int) -> float:
        """How often ours is found better (1) or worse (-1), at 5 %."""
        return float(((self.p_value < 0.05) & (sign * self.mean > 0)).mean())


@cache
def simulated(n_seeds: int, n_baselines: int) -> Simulated:
    """The row of ours against the best of equally good baselines."""
    rng = np.random.default_rng(n_seeds)
    scores = rng.standard_normal((N_SIMULATED, n_baselines + 1, n_seeds))
    scores += SEED_EFFECT * rng.standard_normal((N_SIMULATED, 1, n_seeds))
    best = 1 + scores[:, 1:].mean(axis=2).argmax(axis=1)
    difference = scores[:, 0] - scores[np.arange(N_SIMULATED), best]
    mean = difference.mean(axis=1)
    error = difference.std(axis=1, ddof=1) / n_seeds**0.5
    p_value = 2 * stats.t.sf(np.abs(mean) / error, n_seeds - 1)
    return Simulated(scores, mean, p_value, stats.t.ppf(0.975, n_seeds - 1) * error)


def margin(share: float) -> float:
    """Four standard errors: one seed of a simulation in 16,000 would be off by more."""
    return float(4 * (share * (1 - share) / N_SIMULATED) ** 0.5)


@pytest.mark.parametrize(("n_seeds", "n_baselines"), [(3, 1), (5, 1), (3, 8), (5, 3)])
def test_what_is_simulated_is_what_we_compute(n_seeds: int, n_baselines: int) -> None:
    """With a single baseline, the best is the one that was named."""
    many = simulated(n_seeds, n_baselines)
    for i, scores in enumerate(many.scores[:N_CHECKED].tolist()):
        rows = [
            MethodScores(f"m{k}", dict(enumerate(one)), n_expected=n_seeds, is_ours=k == 0)
            for k, one in enumerate(scores)
        ]
        reference = "m1" if n_baselines == 1 else None
        compared = compare_scores(rows, reference=reference, is_share=False).methods
        (found,) = [method.difference for method in compared if method.runs.is_ours]
        assert found is not None
        assert found.mean == pytest.approx(many.mean[i])
        assert found.p_value == pytest.approx(many.p_value[i])
        ends = (many.mean[i] - many.half[i], many.mean[i] + many.half[i])
        assert found.interval == pytest.approx(ends)


@pytest.mark.parametrize("n_seeds", [3, 5])
def test_with_a_reference_named_before_p_is_uniform(n_seeds: int) -> None:
    """By chance alone, one seed of the simulation in a thousand would fail this."""
    assert stats.kstest(simulated(n_seeds, 1).p_value, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("n_seeds", [3, 5])
def test_intervals_hold_the_truth_as_often_as_they_say(n_seeds: int) -> None:
    many = simulated(n_seeds, 1)
    held = float((np.abs(many.mean) <= many.half).mean())
    assert held == pytest.approx(0.95, abs=margin(0.95))


@pytest.mark.parametrize("n_seeds", [3, 5])
def test_wins_over_the_best_baseline_are_too_rare_and_losses_too_frequent(n_seeds: int) -> None:
    """What the note below the table says of a reference chosen by the scores.

    One side of an honest test has 2.5 % each.
    """
    many = simulated(n_seeds, 3)
    assert many.share(1) < 0.025 - margin(0.025)
    assert many.share(-1) > 0.025 + margin(0.025)


def test_the_rates_in_the_documentation_are_these() -> None:
    """With three seeds and eight baselines, 0.2 % win and 8.1 % lose, rounded to a tenth."""
    many = simulated(3, 8)
    assert many.share(1) == pytest.approx(0.002, abs=0.0005 + margin(0.002))
    assert many.share(-1) == pytest.approx(0.081, abs=0.0005 + margin(0.081))
