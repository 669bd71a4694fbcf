"""Intervals and tests against scipy, statistical tables and simulation."""

import math

import numpy as np
import pytest
import scipy.stats

from lab.verdict import stats

A = [1.52, 1.49, 1.55, 1.50, 1.53]
B = [1.50, 1.48, 1.51, 1.49, 1.52]
DIFFERENCES = [a - b for a, b in zip(A, B, strict=True)]


def test_interval_equals_scipys_paired_t_interval():
    ours = stats.estimate(DIFFERENCES)
    theirs = scipy.stats.ttest_rel(A, B).confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
    assert ours.mean == pytest.approx(0.018) and ours.n == 5


def test_half_width_for_three_seeds_by_hand():
    # sd of (-1, 0, 1) is 1, the quantile 4.303 stands in every t table, sqrt(3) = 1.732
    ours = stats.estimate([-1.0, 0.0, 1.0])
    assert ours.high == pytest.approx(4.303 / 1.732, abs=1e-3) and ours.low == -ours.high


@pytest.mark.parametrize(("n", "quantile"), [(2, 12.706), (3, 4.303), (4, 3.182), (5, 2.776), (10, 2.262)])
def test_quantiles_of_the_t_table(n, quantile):
    assert stats.t_quantile(0.975, degrees=n - 1) == pytest.approx(quantile, abs=5e-4)


@pytest.mark.parametrize("than", [-0.02, 0.0, 0.018, 0.03])
def test_one_sided_p_values_equal_scipys(than):
    for ours, side in ((stats.p_greater, "greater"), (stats.p_less, "less")):
        assert ours(DIFFERENCES, than) == pytest.approx(
            scipy.stats.ttest_1samp(DIFFERENCES, than, alternative=side).pvalue
        )


def test_equivalence_is_decided_by_the_90_percent_interval():
    interval = stats.estimate(DIFFERENCES, confidence=0.9)
    just_outside = max(abs(interval.low), abs(interval.high))
    assert (
        stats.p_equivalent(DIFFERENCES, just_outside * 1.0001)
        < 0.05
        < stats.p_equivalent(DIFFERENCES, just_outside * 0.9999)
    )


@pytest.mark.parametrize("n", [4, 8])
def test_a_difference_of_just_the_margin_is_not_above_it(n):
    assert 0.8 - 0.75 > 0.05 and stats.p_greater([0.8 - 0.75] * n, 0.05) == 1.0
    assert -0.4 - -1.4 < 1 and stats.at_least(-0.4 - -1.4, 1.0) and not stats.at_least(0.999, 1.0)


def test_type_one_error_of_the_interval_is_five_percent():
    sample = np.random.default_rng(7).normal(size=(4000, 3))
    missed = [not (e.low <= 0 <= e.high) for e in map(stats.estimate, sample.tolist())]
    assert np.mean(missed) == pytest.approx(0.05, abs=0.01)


def test_detectable_effect_is_found_in_four_of_five_simulated_experiments():
    effect = stats.detectable_effect(sd=0.3, n=4)
    sample = np.random.default_rng(3).normal(effect, 0.3, size=(4000, 4))
    assert np.mean(scipy.stats.ttest_1samp(sample, 0, axis=1).pvalue < 0.05) == pytest.approx(0.8, abs=0.02)


def test_one_seed_has_no_interval_and_proves_nothing():
    assert stats.estimate([0.4]) == stats.Estimate(1, 0.4, None, None, None)
    assert stats.p_greater([0.4], 0.0) == stats.p_less([0.4], 1.0) == 1.0
    assert "no interval" in stats.estimate([0.4]).percent_text()


def test_sample_without_spread():
    ours = stats.estimate([0.1, 0.1, 0.1])
    assert (ours.sd, ours.low, ours.high) == (0.0, 0.1, 0.1)
    assert (stats.p_greater([0.1] * 3, 0.0), stats.p_less([0.1] * 3, 0.0)) == (0.0, 1.0)
    assert (stats.p_greater([0.0] * 3, 0.0), stats.p_less([0.0] * 3, 0.0)) == (1.0, 1.0)
    assert stats.detectable_effect(sd=0.0, n=3) == 0.0


@pytest.mark.parametrize("sample", [[], [1.0, math.nan], [math.inf]])
def test_refuses_what_has_no_mean(sample):
    with pytest.raises(ValueError, match="finite"):
        stats.estimate(sample)


def test_percent_text():
    assert (
        stats.Estimate(3, 0.0123, 0.01, -0.002, 0.0266).percent_text()
        == "+1.23 % (95 % interval -0.20 to +2.66 %)"
    )


@pytest.mark.parametrize("n", [6, 8, 10])
def test_sign_flips_equal_scipys_exact_permutation_test(n):
    sample = np.random.default_rng(n).normal(0.5, 1, n)
    theirs = scipy.stats.permutation_test(
        (sample,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="greater"
    )
    assert stats.p_greater(sample.tolist(), 0.0) == pytest.approx(theirs.pvalue)


def test_six_seeds_of_one_sign_can_reach_one_in_64_and_no_less():
    assert stats.p_greater([0.5, 0.1, 0.2, 0.9, 0.3, 40.0], 0.0) == 1 / 64
    assert stats.p_greater([0.1] * 6, 0.0) == 1 / 64 and stats.p_greater([0.1] * 6, 0.1) == 1.0


def test_interval_of_ten_seeds_is_where_the_sign_flip_test_stops_rejecting():
    sample = np.random.default_rng(1).exponential(size=10).tolist()
    found, step = stats.estimate(sample), 1e-9
    assert stats.p_greater(sample, found.low - step) <= 0.025 < stats.p_greater(sample, found.low + step)
    assert stats.p_less(sample, found.high + step) <= 0.025 < stats.p_less(sample, found.high - step)


def test_regrouping_equals_scipys_exact_permutation_test():
    a, b = [4.0, 5.0, 3.5, 6.0], [3.0, 4.5, 2.0]
    theirs = scipy.stats.permutation_test(
        (a, b), lambda x, y: np.mean(x) - np.mean(y), n_resamples=np.inf, alternative="greater"
    )
    assert stats.p_shuffled(a, b) == pytest.approx(theirs.pvalue)
    assert stats.p_shuffled([2, 3, 4], [1, 0, 1]) == 1 / 20


def test_trends_that_never_break_by_counting_orders():
    assert stats.p_trend([[1, 2, 3], [4, 5, 9], [1, 7, 8]]) == pytest.approx((1 / 6) ** 3)
    assert stats.p_concordant([1.0, 2.0, 5.0, 9.0]) == pytest.approx(1 / 24)
    assert stats.p_concordant([1.0, 1.0, 1.0, 1.0]) == 1.0
    assert stats.p_concordant([1.0, 1.0, 2.0, 3.0]) == pytest.approx(
        2 / 24
    )  # as clear are the orders with both 1s first


def test_page_on_a_worked_example():
    # The example of scipy's documentation: three ways of teaching rated by ten students, L = 133.5, p =
    # 0.0018191.
    table = [
        [3, 4, 3],
        [2, 2, 4],
        [3, 3, 5],
        [1, 3, 2],
        [2, 3, 2],
        [2, 4, 5],
        [1, 2, 4],
        [3, 4, 4],
        [2, 4, 5],
        [1, 3, 4],
    ]
    assert stats.p_trend(table) == pytest.approx(0.0018191, rel=1e-3)


def test_holm_by_hand():
    # Steps: 0.01 against 0.05 / 3, 0.03 against 0.05 / 2 is kept, and so is all that follows.
    assert stats.holm([0.03, 0.01, 0.04]) == pytest.approx([0.025, 0.05 / 3, 0.025])
    assert stats.holm([0.04, 0.01, 0.02]) == pytest.approx([0.05, 0.05 / 3, 0.025])


def test_looks_share_the_level():
    for looks in ([3], [4, 8], [3, 6, 9]):
        levels = stats.look_levels(looks)
        assert sum(levels) == pytest.approx(0.05) and levels == sorted(levels) and min(levels) > 0


def test_no_effect_can_be_found_where_flips_do_not_reach_the_level():
    assert stats.detectable_effect(sd=1.0, n=6, alpha=0.03) == math.inf  # 2 / 64 is 0.031
    assert stats.detectable_effect(sd=1.0, n=6, alpha=0.032) < math.inf
    assert stats.detectable_effect(sd=1.0, n=1) == math.inf


def test_a_negative_unit_swaps_the_ends_of_an_interval():
    turned = stats.estimate([1.0, 2.0, 4.0]).times(-2)
    assert turned.mean == pytest.approx(-14 / 3)
    assert turned.low < turned.mean < turned.high and turned.sd > 0
