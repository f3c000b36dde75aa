"""P-values are what they claim: simulated comparisons of methods without any difference.

A seed shifts the scores of all methods alike, by twice their own spread, so that pairing matters.
"""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from instaaug.report.compared.comparison import ComparedMethod, compare_scores
from instaaug.report.compared.method_scores import MethodScores

N_SIMULATED = 2000
N_BASELINES = 3
SEED_EFFECT = 2.0


@cache
def simulated(n_seeds: int, n_baselines: int, reference: str | None) -> list[ComparedMethod]:
    """The row of ours in comparisons in which all methods are equally good."""
    rng = np.random.default_rng(n_seeds)
    shape = (N_SIMULATED, n_baselines + 1, n_seeds)
    shared = SEED_EFFECT * rng.standard_normal((N_SIMULATED, 1, n_seeds))
    found = []
    for scores in (shared + rng.standard_normal(shape)).tolist():
        rows = [
            MethodScores(f"m{i}", dict(enumerate(one)), n_expected=n_seeds, is_ours=i == 0)
            for i, one in enumerate(scores)
        ]
        compared = compare_scores(rows, reference=reference, is_share=False)
        found += [method for method in compared.methods if method.runs.is_ours]
    return found


def share(methods: list[ComparedMethod], sign: int) -> float:
    """How often ours is found better (1) or worse (-1), at 5 %."""
    found = [m.difference for m in methods if m.difference is not None]
    assert len(found) == len(methods)
    return sum(
        x.p_value is not None and x.mean is not None and x.p_value < 0.05 and sign * x.mean > 0
        for x in found
    ) / len(found)


@pytest.mark.parametrize("n_seeds", [3, 5])
def test_with_a_reference_named_before_p_is_uniform(n_seeds: int) -> None:
    """By chance alone, one seed of the simulation in a thousand would fail this."""
    methods = simulated(n_seeds, 1, "m1")
    p_values = [m.difference.p_value for m in methods if m.difference is not None]
    assert len(p_values) == N_SIMULATED
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("n_seeds", [3, 5])
def test_intervals_hold_the_truth_as_often_as_they_say(n_seeds: int) -> None:
    """Four standard errors of the share: one seed in 16,000 would fail this by chance."""
    ends = [m.difference.interval for m in simulated(n_seeds, 1, "m1") if m.difference is not None]
    held = np.mean([low <= 0 <= high for low, high in filter(None, ends)])
    assert held == pytest.approx(0.95, abs=4 * (0.95 * 0.05 / N_SIMULATED) ** 0.5)


@pytest.mark.parametrize("n_seeds", [3, 5])
def test_wins_over_the_best_baseline_are_too_rare_and_losses_too_frequent(n_seeds: int) -> None:
    """What the note below the table says of a reference chosen by the scores.

    One side of an honest test has 2.5 % each. The bounds are four standard errors from it, which
    an honest test would pass once in 30,000 seeds.
    """
    methods = simulated(n_seeds, N_BASELINES, None)
    margin = 4 * (0.025 * 0.975 / N_SIMULATED) ** 0.5
    assert share(methods, 1) < 0.025 - margin
    assert share(methods, -1) > 0.025 + margin
