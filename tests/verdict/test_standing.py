"""Which arms are called best and clearly worse: against scipy's test, and how often wrongly."""

import random

import pytest
from scipy import stats as scipy_stats

from lab.config.strict import read
from lab.store.plan_record import PlanRecord
from lab.store.run_record import RunRecord
from lab.verdict import stats
from lab.verdict.evidence import gather
from lab.verdict.standing import BEST, DIVERGED, NOT_FOUND, ONE_SEED, WORSE, standings
from tests.synthetic_sweep import sweep


def words(losses, **options):
    plan, records = sweep(losses, claims=[], **options)
    evidence = gather(read(PlanRecord, plan), [read(RunRecord, one) for one in records])
    return {name: one.word for name, one in standings(evidence).items()}


def test_the_p_value_is_that_of_a_paired_t_test():
    sample = [0.01, 0.03, -0.005, 0.02, 0.012, 0.011, 0.02]
    assert stats.p_apart(sample) == pytest.approx(scipy_stats.ttest_1samp(sample, 0).pvalue)
    assert (
        stats.p_apart([0.1, 0.1, 0.1]) == 0 and stats.p_apart([0.0, 0.0]) == 1 and stats.p_apart([3.0]) == 1
    )


def test_the_lowest_arm_is_best_where_another_is_clearly_behind_it():
    found = words({"f_x1": [1.0, 1.01, 1.02], "f_x2": [0.99, 1.02, 1.0], "f_x4": [1.3, 1.31, 1.33]})
    assert found == {"f_x1": NOT_FOUND, "f_x2": BEST, "f_x4": WORSE}


def test_no_arm_is_best_among_arms_that_seeds_alone_could_part():
    found = words({"f_x1": [1.0, 1.1, 1.2], "f_x2": [1.05, 1.0, 1.25]})
    assert set(found.values()) == {NOT_FOUND}


def test_one_seed_and_divergence_are_no_rank():
    assert set(words({"f_x1": [1.0], "f_x2": [2.0]}).values()) == {ONE_SEED}
    found = words({"f_x1": [1.0, 1.01, 1.02], "f_x2": [0.9, "diverged", 0.92], "f_x4": [1.3, 1.31, 1.33]})
    assert found == {"f_x1": BEST, "f_x2": DIVERGED, "f_x4": WORSE}


@pytest.mark.parametrize(("arms", "seeds", "bound"), [(2, 3, 0.07), (6, 8, 0.11)])
def test_equal_arms_are_seldom_called_clearly_worse(arms, seeds, bound):
    """The docstring's rates, on the rule alone: the best of equal arms against all others."""
    chance, wrong, tries = random.Random(5), 0, 400
    for _ in range(tries):
        levels = [[chance.gauss(0, 1) for _ in range(seeds)] for _ in range(arms)]
        best = min(levels, key=sum)
        p_values = [
            stats.p_apart([a - b for a, b in zip(level, best, strict=True)])
            for level in levels
            if level is not best
        ]
        wrong += any(p <= level for p, level in zip(p_values, stats.holm(p_values), strict=True))
    assert wrong / tries < bound
