"""Who won, and whether it was chance."""

import pytest

from instaaug.tune.trial_record import TrialRecord
from instaaug.tune.verdict import judge


def trial(number: int, *scores: float, state: str = "complete") -> TrialRecord:
    return TrialRecord(number, state, {}, {}, 1e-3, scores=scores)  # type: ignore[arg-type]


def test_the_error_of_an_accuracy_is_binomial_and_never_zero() -> None:
    assert trial(0, *[1.0] * 80, *[0.0] * 20).error == pytest.approx((0.8 * 0.2 / 100) ** 0.5)
    assert 0.003 < trial(0, *[1.0] * 100).error < 0.007  # half of 1 / (100 + 1)
    assert trial(0, *[0.0] * 100).error == pytest.approx(trial(0, *[1.0] * 100).error)
    assert trial(0, 0.5, 0.7).error == pytest.approx(0.1 / 2**0.5)


def test_images_are_compared_one_by_one_and_trials_counted() -> None:
    """Ten images are better and none worse: 2 / 2¹⁰, times the three trials."""
    before, after = [1.0] * 50 + [0.0] * 50, [1.0] * 60 + [0.0] * 40
    records = [trial(0, *before), trial(1, *after), trial(2, state="pruned"), trial(3, *before)]
    verdict = judge([*records, trial(4, state="failed")])
    assert verdict is not None
    assert verdict.best.number == 1
    assert verdict.difference == pytest.approx(0.1)
    assert verdict.n_tried == 3
    assert verdict.p_value == pytest.approx(3 * 2 / 2**10)
    assert verdict.is_beyond_noise
    assert "60.0 % (s.e. 4.9), against 50.0 % (s.e. 5.0)" in verdict.words("classification")
    assert verdict.words("classification").endswith(
        ": more than chance explains for this seed, on these validation images "
        "(p = 0.0059, corrected for 3 trials); other seeds were not tried."
    )


def test_a_few_images_may_be_luck() -> None:
    verdict = judge([trial(0, 1.0, 0.0, 0.0), trial(1, 1.0, 1.0, 0.0)])
    assert verdict is not None
    assert verdict.p_value == 1.0
    assert not verdict.is_beyond_noise
    assert "which may be chance" in verdict.words("classification")


def test_errors_of_a_regression_are_compared_by_their_mean() -> None:
    """Differences 0.1 ± 0.1 of 100 images are ten standard errors; of 1 ± 10, a tenth of one."""
    before = [0.5] * 100
    clear = judge([trial(0, *before), trial(1, *[0.7, 0.5] * 50)])
    noisy = judge([trial(0, *before), trial(1, *[0.51 + 1, 0.51 - 1] * 50)])
    assert clear is not None
    assert noisy is not None
    assert clear.is_beyond_noise
    assert "p < 0.001" in clear.words("regression")
    assert noisy.p_value == pytest.approx(0.92, abs=0.01)  # 2 Φ(−0.1)


def test_the_default_wins_ties_and_needs_no_comparison() -> None:
    verdict = judge([trial(0, 1.0, 0.0), trial(1, 0.0, 1.0)])
    assert verdict is not None
    assert verdict.is_default
    assert verdict.p_value is None
    assert "no trial beat them" in verdict.words("classification")


def test_a_default_that_failed_is_not_compared() -> None:
    verdict = judge([trial(0, state="failed"), trial(1, 0.0, 1.0)])
    assert verdict is not None
    assert verdict.difference is None
    assert not verdict.is_beyond_noise
    assert "the settings as they were failed" in verdict.words("classification")
    assert judge([trial(0, state="failed")]) is None
