"""Methods are sorted, ranked and tested against one reference, seed by seed."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.report.comparison import (
    ComparedMethod,
    MethodComparison,
    MethodScores,
    SeedDifference,
    compare_scores,
    describe_outcome,
    seed_difference,
)
from tests.support.compared import ROWS, runs

N_SIMULATED = 100_000
SEED_EFFECT = 2.0
N_CHECKED = 20


def test_only_seeds_that_both_have_are_compared() -> None:
    found = seed_difference({0: 0.5, 1: 0.7, 5: 0.9}, {5: 0.8, 1: 0.5, 2: 0.0})
    assert found == seed_difference({1: 0.7, 5: 0.9}, {1: 0.5, 5: 0.8})
    assert found.n == 2
    assert found.mean == pytest.approx(0.15)


def test_no_common_seed_and_a_single_one_have_no_p_value() -> None:
    assert seed_difference({0: 0.5}, {1: 0.5}) == SeedDifference(0)
    assert seed_difference({0: 0.75, 1: 0.1}, {0: 0.5}) == SeedDifference(1, 0.25)


def test_equal_scores_have_a_p_value_of_one() -> None:
    scores = {0: 0.61, 1: 0.63, 2: 0.59}
    in_single = {seed: float(np.float32(score)) for seed, score in scores.items()}
    for other in (scores, in_single):
        assert seed_difference(scores, other) == SeedDifference(3, 0.0, (0.0, 0.0), 1.0)


def test_a_difference_that_never_varies_has_no_p_value_whatever_rounding_does() -> None:
    """0.62 - 0.61 and 0.74 - 0.73 are not the same float."""
    found = seed_difference({0: 0.62, 1: 0.74, 2: 0.51}, {0: 0.61, 1: 0.73, 2: 0.50})
    assert found.is_constant
    assert found.mean == pytest.approx(0.01)
    assert (found.interval, found.p_value) == (None, None)


def test_one_image_of_a_hundred_thousand_is_not_rounding() -> None:
    found = seed_difference({0: 0.5, 1: 0.5, 2: 0.50001}, {0: 0.5, 1: 0.5, 2: 0.5})
    assert found.p_value == pytest.approx(stats.ttest_1samp([0, 0, 1], 0).pvalue, abs=1e-9)


def test_swapping_two_methods_changes_the_sign_alone() -> None:
    a, b = {0: 0.5, 1: 0.6, 2: 0.8}, {0: 0.4, 1: 0.65, 2: 0.7}
    one, other = seed_difference(a, b), seed_difference(b, a)
    assert one.mean == pytest.approx(-(other.mean or 0))
    assert one.p_value == pytest.approx(other.p_value)


def by_name(comparison: MethodComparison) -> dict[str, ComparedMethod]:
    return {method.runs.name: method for method in comparison.methods}


def ranks(comparison: MethodComparison) -> dict[str, int | None]:
    return {method.runs.name: method.rank for method in comparison.methods}


def test_the_best_is_first_and_those_without_a_score_are_last() -> None:
    assert ranks(compare_scores(ROWS)) == {
        "ours": 1,
        "without input": 2,
        "random": 3,
        "mixup": None,
        "none": 4,
        "broken": None,
        "later": None,
    }
    assert list(ranks(compare_scores(ROWS))) == [
        *("ours", "without input", "random", "mixup", "none", "broken", "later")
    ]


def test_errors_are_sorted_the_other_way() -> None:
    found = compare_scores(ROWS, higher_is_better=False)
    assert list(ranks(found)) == [
        *("none", "mixup", "random", "without input", "ours", "broken", "later")
    ]
    assert found.reference == "none"


def test_equals_share_a_rank() -> None:
    rows = [runs("c", 0.3, 0.2, 0.1), runs("b", 0.1, 0.2, 0.3), runs("a", 0, 0, 0)]
    assert ranks(compare_scores(rows)) == {"b": 1, "c": 1, "a": 3}


def test_the_reference_is_the_best_baseline_that_has_finished() -> None:
    ahead = MethodScores("lucky", {0: 0.99, 1: 0.99}, n_expected=3)
    found = compare_scores([*ROWS, ahead])
    assert (found.reference, found.is_selected) == ("random", True)
    assert found.methods[0].runs.name == "lucky"


def test_without_a_finished_baseline_there_is_no_reference() -> None:
    found = compare_scores([ROWS[2], ROWS[4]])
    assert (found.reference, found.is_selected, found.n_tested) == (None, False, 0)
    assert all(method.difference is None for method in found.methods)


@pytest.mark.parametrize("reference", ["none", "ours", "mixup", "later"])
def test_any_method_can_be_named_as_the_reference(reference: str) -> None:
    found = compare_scores(ROWS, reference=reference)
    assert (found.reference, found.is_selected) == (reference, False)
    scores = by_name(found)[reference].runs.scores
    for name, method in by_name(found).items():
        wanted = None if name == reference else seed_difference(method.runs.scores, scores)
        assert method.difference == wanted


def test_all_rows_with_a_p_value_are_adjusted_for_each_other() -> None:
    methods = by_name(compare_scores(ROWS))
    p = {n: m.difference.p_value for n, m in methods.items() if m.difference and m.runs.scores}
    assert sorted(p) == ["mixup", "none", "ours", "without input"]
    smallest = min(p, key=lambda name: p[name] or 0)
    assert methods[smallest].holm == pytest.approx(4 * (p[smallest] or 0))
    untested = ("random", "broken", "later")
    assert [methods[name].holm for name in untested] == [None] * 3


def test_one_seed_has_a_mean_and_no_error() -> None:
    found = compare_scores([runs("a", 0.5, n_expected=1), runs("b", 0.7, n_expected=1)])
    assert [(m.runs.mean, m.runs.error, m.holm) for m in found.methods] == [
        (0.7, None, None),
        (0.5, None, None),
    ]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"scores": {0: float("nan")}}, "`scores` must be finite: got nan for 'x' with seed 0"),
        ({"failures": {0: "x"}}, "`failures` must be of seeds without a score: got seed 0"),
        ({"n_expected": 0}, "`n_expected` must count all runs, at least one: got 0"),
        ({"failures": {1: "x"}}, "`n_expected` must count all runs, .* of which 2 have ended"),
        ({"plain": {0: float("inf")}}, "`plain` must be finite: got inf for 'x' with seed 0"),
        ({"n_views": 0}, "`n_views` must be at least 1: got 0 for 'x'"),
        ({"step_cost": 0.0}, "`step_cost` must be a finite ratio above 0: got 0.0"),
        ({"name": "\n\u200b"}, "`name` must have letters that can be seen"),
    ],
)
def test_runs_that_do_not_add_up_are_refused(settings: dict[str, Any], words: str) -> None:
    usual: dict[str, Any] = {"name": "x", "scores": {0: 0.5}, "n_expected": 1}
    with pytest.raises(ArgumentError, match=words):
        MethodScores(**usual | settings)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "`rows` must hold a method"),
        ([runs("a", 0.5), runs("a", 0.5)], "`rows` must have a name each: got 'a' for two"),
        (
            [runs("a b", 0.5), runs("a\nb", 0.5)],
            "`rows` must have a label each: got 'a b' for two",
        ),
        ([runs("a", 0.6, plain=[55.0])], r"shares in \[0, 1\]: got 55.0 for 'a' with seed 0"),
        ([runs("a", 61.5)], r"shares in \[0, 1\]: got 61.5 for 'a' with seed 0. Divide"),
    ],
)
def test_rows_that_cannot_be_compared_are_refused(rows: list[MethodScores], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        compare_scores(rows)


def test_an_unknown_reference_is_explained() -> None:
    with pytest.raises(UnknownNameError, match=r"no method called 'randm'. Did you mean 'random'"):
        compare_scores(ROWS, reference="randm")


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


def outcome(ours: list[float], *, reference: str = "random", **settings: Any) -> str:
    random = [0.60, 0.62, 0.61]
    rows = [
        MethodScores(name, dict(enumerate(scores)), n_expected=len(scores))
        for name, scores in (("random", random[: len(ours)]), ("ours", ours))
    ]
    return describe_outcome(compare_scores(rows, reference=reference, **settings))


def test_the_outcome_names_what_is_better_beyond_chance() -> None:
    assert outcome([0.70, 0.72, 0.715]).startswith(
        "Better than random: ours is +10.2 points (95 %"
    )


def test_the_outcome_names_what_is_worse() -> None:
    words = outcome([0.50, 0.52, 0.515])
    assert words.startswith("No method is better than random beyond chance with 3 seeds; ours is")
    assert words.endswith("Worse than random: ours.")


def test_noise_is_called_that() -> None:
    assert outcome([0.61, 0.62, 0.60]).startswith("No method can be told apart from random with 3")


def test_less_is_better_for_errors() -> None:
    words = outcome([0.70, 0.72, 0.715], higher_is_better=False, is_share=False, measure="error")
    assert "Worse than random: ours." in words


def test_one_seed_tells_nothing() -> None:
    assert outcome([0.9]) == "One seed cannot tell methods apart: give `--seeds 3` or more."
