"""Where effects are going: against scipy's lines and tests, and whole verdicts on made-up horizons."""

import dataclasses
import math
import random

import pytest
from scipy import stats as scipy_stats

from lab.store.noise_record import MetricNoise, NoiseRecord
from lab.store.plan_record import Rung, SearchRecord
from lab.verdict.course import direction_of
from lab.verdict.direction import Path, direction, further
from lab.verdict.direction_simulation import courses, share
from lab.verdict.rate_choice import choice_variance
from lab.verdict.stats import Beyond, estimate, p_greater
from lab.verdict.text_error import beyond_seeds
from tests.verdict.climbed import TOKENS, arm_on, climbed


def along(*rows, noise=0.0005, seeds=8, excess=None):
    """A path whose effect has these means at the horizons, with noise that is the same in every call."""
    chance = random.Random(1)
    differences = tuple(tuple(mean + chance.gauss(0, noise) for _ in range(seeds)) for mean in rows)
    return Path("a", "b", TOKENS[: len(rows)], differences, excess)


def test_the_line_of_each_seed_is_that_of_least_squares_read_three_doublings_on():
    of = along(0.05, 0.04, 0.035, 0.02, 0.018, noise=0.004)
    recent = list(zip(*of.differences[-3:], strict=True))
    lines = [scipy_stats.linregress([0, 1, 2], values) for values in recent]
    expected = [values[-1] + 3 * line.slope for values, line in zip(recent, lines, strict=True)]
    assert further(of.differences[-3:]) == pytest.approx(expected)
    found = direction(of)
    assert found.slope == pytest.approx(sum(line.slope for line in lines) / 8)
    interval = scipy_stats.ttest_1samp(expected, 0).confidence_interval(0.95)
    assert found.later.low == pytest.approx(math.expm1(interval.low))
    assert found.later.high == pytest.approx(math.expm1(interval.high))
    assert found.later_tokens == 8 * TOKENS[-1]


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        ((0.05, 0.04, 0.03, 0.03, 0.03), "persists"),
        ((-0.05, -0.04, -0.03, -0.03, -0.03), "persists"),
        ((0.05, 0.04, 0.04, 0.025, 0.01), "reversing"),  # 0.015 less a doubling
        ((0.05, 0.04, 0.04, 0.035, 0.03), "persists"),  # 0.015 are left three doublings on
        ((0.05, 0.04, 0.04, 0.03495, 0.0299), "persists"),
        ((0.05, 0.04, 0.032, 0.028, 0.024), "persists"),
        ((0.04, 0.03, 0.02, 0.016, 0.012), "fading"),  # on the way to 0 in three doublings
        ((0.03, 0.02, 0.01, 0.005, -0.004), "budget-bound"),
        ((0.03, 0.02, 0.0, 0.0, 0.0), "open"),
    ],
)
def test_a_direction_has_the_name_of_its_rule(rows, name):
    assert direction(along(*rows)).name == name


def test_the_line_goes_through_the_excess_where_it_is_known():
    """The loss has a floor that both sides pay, so its ratio says less than that of the excess."""
    excess = tuple(tuple(value for _ in range(8)) for value in (0.3, 0.2, 0.1))
    found = direction(along(0.05, 0.04, 0.03, 0.03, 0.03, excess=excess))
    assert (found.by, found.name) == ("val/excess_bpb", "reversing")
    assert found.later.mean == pytest.approx(math.expm1(0.1 - 3 * 0.1))


def test_two_horizons_or_one_seed_have_no_direction():
    evidence = climbed({"a": [1.0, 0.9], "b": [1.1, 1.0]})
    assert evidence.plan.horizons == TOKENS[:2]
    assert verdict_of(evidence).claims[0].direction is None


def test_a_claim_about_an_arm_that_the_plan_lacks_has_no_direction():
    evidence = climbed({"a": [1.0] * 5, "b": [1.1] * 5})
    alone = dataclasses.replace(evidence, arms=evidence.arms[:1])
    assert direction_of(evidence.plan.claims[0], alone) is None


def verdict_of(evidence):
    from lab.verdict.verdicts import verdict

    return verdict(evidence)


def test_a_claim_that_turns_with_the_budget_is_inconclusive_whatever_the_last_horizon_says():
    """b is 5 % worse than a at first and 1 % better at the end."""
    a = [1.0, 0.9, 0.8, 0.75, 0.7]
    b = [value * ratio for value, ratio in zip(a, (1.05, 1.03, 1.01, 1.0, 0.99), strict=True)]
    claim = verdict_of(climbed({"a": a, "b": b})).claims[0]
    assert claim.direction.name == "budget-bound" and claim.outcome == "inconclusive"
    assert "changes sign with the budget" in claim.why and "-1.00 % at 4.9 M" in claim.why
    assert claim.detectable is None  # more seeds would not decide it


def test_no_worse_than_is_inconclusive_where_the_arm_is_on_the_way_to_be_worse():
    """b is 5 % better than a at first and 0.4 % worse at the end, on the way to more than the 1 % allowed."""
    a = [1.0, 0.9, 0.8, 0.75, 0.7]

    def claim(*ratios):
        b = [value * ratio for value, ratio in zip(a, ratios, strict=True)]
        within = {"non_inferior": {"arm": "b", "against": {"arm": "a"}, "margin": 0.01}}
        return verdict_of(climbed({"a": a, "b": b}, predicate=within)).claims[0]

    turned = claim(0.95, 0.96, 0.97, 0.985, 1.004)
    assert (turned.outcome, turned.direction.name) == ("inconclusive", "budget-bound")
    assert "changes sign with the budget" in turned.why and turned.direction.later.mean > 0.05
    turning = claim(0.95, 0.96, 0.97, 0.98, 0.99)  # 1 % better at the end, less by 1 % a doubling
    assert (turning.outcome, turning.direction.name) == ("inconclusive", "reversing")
    assert claim(0.99, 0.99, 0.99, 0.99, 0.99).outcome == "reproduced"


def test_equivalence_is_neither_reproduced_nor_contradicted_where_the_effect_turns():
    """b is 1 % better than a at the end, less by 1 % a doubling; or +0.2 % turn into -0.2 %."""
    a = [1.0, 0.9, 0.8, 0.75, 0.7]

    def found(*ratios):
        b = [value * ratio for value, ratio in zip(a, ratios, strict=True)]
        alike = {"equivalent": {"among": {"arms": ["a", "b"]}, "margin": 0.009}}
        claim = verdict_of(climbed({"a": a, "b": b}, predicate=alike)).claims[0]
        return claim.outcome, claim.direction.name

    assert found(0.95, 0.96, 0.97, 0.98, 0.99) == ("inconclusive", "reversing")
    assert found(1.002, 1.002, 1.002, 1.0, 0.998) == ("inconclusive", "budget-bound")
    assert found(0.98, 0.98, 0.98, 0.98, 0.98) == ("contradicted", "persists")
    assert found(0.998, 0.998, 0.998, 0.998, 0.998) == ("reproduced", "persists")


def test_a_claim_whose_effect_holds_is_reproduced_and_persists():
    a = [1.0, 0.9, 0.8, 0.75, 0.7]
    claim = verdict_of(climbed({"a": a, "b": [1.04 * value for value in a]})).claims[0]
    assert (claim.outcome, claim.direction.name) == ("reproduced", "persists")
    assert [round(point.effect.mean, 3) for point in claim.direction.points] == [0.04] * 5


def test_a_difference_is_too_small_only_where_what_it_is_heading_for_is_small_too():
    """0.2 % at the last horizon within a margin of 1 %; growing by 0.4 % a doubling it comes to 1.4 %."""
    a = [1.0, 0.9, 0.8, 0.75, 0.7]

    def outcome(*ratios):
        b = [value * ratio for value, ratio in zip(a, ratios, strict=True)]
        return verdict_of(climbed({"a": a, "b": b}, margin=0.01)).claims[0].outcome

    assert outcome(1.002, 1.002, 1.002, 1.002, 1.002) == "too small to matter"
    assert outcome(1.0, 1.0, 0.994, 0.998, 1.002) == "inconclusive"


def test_a_lower_rate_that_is_better_at_the_last_horizon_leaves_a_claim_open():
    a = [1.0, 0.9, 0.8, 0.75, 0.7]
    b = [1.04 * value for value in a]
    better = verdict_of(climbed({"a": a, "b": b}, lower={"b": 0.7 * 1.04 / 1.006})).claims[0]
    assert better.outcome == "inconclusive"
    assert "0.60 % better at the last horizon with a rate of" in better.why
    same = verdict_of(climbed({"a": a, "b": b}, lower={"b": 0.7 * 1.04 / 1.004})).claims[0]
    assert same.outcome == "reproduced"


def test_a_lower_rate_leaves_claims_open_that_name_the_arm_by_its_family():
    """a and b are the arms of family f."""
    a = [1.0, 0.9, 0.8, 0.75, 0.7]
    within = {"non_inferior": {"arm": "a", "against": {"family": "f"}, "margin": 0.01}}
    for loss, outcome in ((0.7, "inconclusive"), (0.7 * 1.04, "reproduced")):
        levels = {"a": a, "b": [1.04 * value for value in a]}
        claim = verdict_of(climbed(levels, predicate=within, lower={"b": loss})).claims[0]
        assert claim.outcome == outcome


def test_a_lower_rate_counts_against_half_of_a_margin_in_seed_sds():
    """2 sd of 0.005 at a mean of 1 are a margin of 1 %."""
    a = [1.0, 0.9, 0.8, 0.75, 0.7]
    asked = {"superior": {"better": "a", "worse": "b", "margin": {"seed_sds": 2}}}
    spread = MetricNoise(5, 1.0, 0.005, 0.003, 0.014, 0.007, None, {}, {})
    for gain, outcome in ((1.006, "inconclusive"), (1.004, "reproduced")):
        levels = {"a": a, "b": [1.04 * value for value in a]}
        evidence = climbed(levels, predicate=asked, lower={"b": 0.7 * 1.04 / gain})
        noise = NoiseRecord(1, (0, 1, 2, 3, 4), evidence.alike, {}, {"val/bpb": spread})
        assert verdict_of(dataclasses.replace(evidence, noise=noise)).claims[0].outcome == outcome


def test_a_lower_rate_that_finished_where_the_chosen_one_diverged_leaves_a_claim_open():
    a = [1.0, 0.9, 0.8, 0.75, 0.7]
    evidence = climbed({"a": a, "b": [1.04 * value for value in a]}, lower={"a": 0.7, "b": 0.7})
    b = evidence.arm("b")
    values = {seed: value for seed, value in b.values.items() if seed > 0}
    diverged = dataclasses.replace(b, values=values, at_init={0: 8.0}, states={**b.states, 0: "diverged"})
    claim = verdict_of(dataclasses.replace(evidence, arms=(evidence.arm("a"), diverged))).claims[0]
    assert claim.outcome == "inconclusive"
    assert "b diverged at the last horizon with a rate of 0.01" in claim.why


def test_the_error_of_the_text_joins_that_of_the_seeds():
    """Variances add, and degrees of freedom are Satterthwaite's."""
    sample, beyond = [0.01, 0.012, 0.009, 0.013], Beyond(4e-5, 31)
    found = estimate(sample, beyond=beyond)
    of_seeds = scipy_stats.tvar(sample) / 4
    whole = of_seeds + 4e-5
    degrees = whole**2 / (of_seeds**2 / 3 + 4e-5**2 / 31)
    half = scipy_stats.t.ppf(0.975, degrees) * math.sqrt(whole)
    assert (found.low, found.high) == pytest.approx((0.011 - half, 0.011 + half))
    expected = scipy_stats.t.sf(0.011 / math.sqrt(whole), degrees)
    assert p_greater(sample, 0, beyond=beyond) == pytest.approx(expected)
    # A little error of the text has many degrees of freedom; it never makes seeds say more than they do.
    assert p_greater(sample, 0, beyond=Beyond(4e-6, 31)) == p_greater(sample, 0)
    assert estimate(sample, beyond=Beyond(1e-9, 31)) == estimate(sample)


def test_the_error_of_the_text_is_that_of_the_mean_over_groups_of_documents():
    """Differences of 1 to 4 % in four groups: sd over sqrt(4), the same for every seed."""
    a, b = (
        arm_on("a", {seed: tuple(math.exp(g / 100) for g in (1, 2, 3, 4)) for seed in (0, 1)}),
        arm_on("b", {seed: (1.0,) * 4 for seed in (0, 1)}),
    )
    found = beyond_seeds([a], [b])
    assert found.variance == pytest.approx(scipy_stats.sem([0.01, 0.02, 0.03, 0.04]) ** 2)
    assert found.degrees == 3


def test_every_interval_of_an_arm_has_the_error_of_the_text_at_every_horizon():
    """b differs by 1 to 7 % over four groups of documents: a standard error of the text of 1.3 %; that of
    seeds is a thousandth of it.
    """
    a, factors = [1.0, 0.9, 0.8, 0.75, 0.7], (1.01, 1.03, 1.05, 1.07)
    levels = {"a": a, "b": [1.04 * value for value in a]}
    arm = verdict_of(climbed(levels, texts={"a": (1.0,) * 4, "b": factors})).arms[1]
    error = scipy_stats.sem([math.log(1.04 * factor) for factor in factors])
    half = 1.04 * error * scipy_stats.t.ppf(0.975, 3)
    for at in (arm.difference_percent, *(point.difference_percent for point in arm.path)):
        assert (at.low, at.high) == pytest.approx((4 - 100 * half, 4 + 100 * half), rel=1e-3)
    mean = 0.7 * 1.0035  # of a over seeds
    expected = mean * (0.04 - half), mean * (0.04 + half)
    assert (arm.difference.low, arm.difference.high) == pytest.approx(expected, rel=1e-3)


def tuned(losses):
    """A search of arm a that chose 0.01 from these losses by rate."""
    seeds = tuple(range(100, 100 + len(losses[0.01])))
    return SearchRecord(
        key="optimizer.lr",
        metric="val/bpb",
        common=0.01,
        values=(0.01, 0.03),
        seeds=seeds,
        arms={},
        losses={},
        at_init={"a": 8.0},
        means={},
        best={"a": 0.01},
        interior={},
        sensitivity={},
        extended=0,
        rungs=(Rung(1, {"a": {}}, {"a": losses}),),
    )


def test_the_choice_of_a_rate_adds_what_other_tuning_seeds_would_have_cost():
    """Of four draws of two seeds two choose each rate alone by one seed twice; mixed draws choose 0.01."""
    search = tuned({0.01: (1.0, 1.1), 0.03: (1.08, 1.04)})
    assert choice_variance(search, "a") == pytest.approx((1.06 / 1.05 - 1) ** 2 / 4)
    assert choice_variance(None, "a") == 0.0


def test_a_choice_by_eight_tuning_seeds_is_drawn_anew_in_every_way():
    """With 0.03 one seed is better by 0.0175 and each other worse by 0.01. Draws with that one three times or
    more (a binomial distribution) choose 0.03, which costs 0.0525 / 8.
    """
    search = tuned({0.01: (1.0,) * 8, 0.03: (0.9825,) + (1.01,) * 7})
    chance = scipy_stats.binom.sf(2, 8, 1 / 8)
    assert choice_variance(search, "a") == pytest.approx(chance * (0.0525 / 8) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("course", courses(), ids=lambda course: course.name)
def test_a_direction_is_wrong_in_at_most_5_percent_of_experiments(course):
    """400 made-up experiments with a fixed seed; two standard errors of 5 % are 2.2 %."""
    found = share(course, experiments=400, seed=0)
    if course.wrong:
        assert found <= 0.072
    else:
        assert found >= {"persists where one of 1 sd holds": 0.1}.get(course.name, 0.5)
