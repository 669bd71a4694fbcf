"""Which arm of a sweep is best, and which are clearly worse than it?

The *best* arm is the one whose mean paired difference to the baseline is lowest. Every other arm is compared
with it by Student's t over the seeds that both have, two-sided, with Holm's levels over these arms at 5 %.
An arm that passes is *clearly worse*; one that doesn't has *no difference found*, and where none passes no
arm is called best. Because the best arm is picked after its losses were seen, some arm is wrongly called
clearly worse in more than 5 % of sweeps whose arms are equal: in 5 % with two arms, 7 % with four, 8 to 9 %
with six (20,000 simulated sweeps each, of 3 to 8 seeds; tests/verdict/test_standing.py has a few of them).
Claims are judged by their own tests, not by this.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.store.plan_record import PlanRecord
from lab.verdict import stats
from lab.verdict.comparison import Comparison, compare
from lab.verdict.evidence import Evidence, MeasuredArm
from lab.verdict.stats import Estimate

BEST, WORSE, NOT_FOUND = "best", "clearly worse", "no difference found"
DIVERGED, UNKNOWN, ONE_SEED = "diverged", "no result", "one seed"


@dataclass(frozen=True)
class Standing:
    """What is said of one arm, and by how much it is worse than the best one, as a fraction; None for that
    arm itself, and where nothing can be compared.
    """

    word: str
    behind: Estimate | None = None


def ranks(plan: PlanRecord) -> bool:
    """Whether reports of the plan say how arms stand: those of protocol 1 stay as they were published."""
    return plan.protocol > 1


def standings(evidence: Evidence) -> dict[str, Standing]:
    """Of every arm by its name, by the metric of the evidence."""
    found = {arm.name: Standing(_without_rank(arm)) for arm in evidence.arms}
    ranked = [arm for arm in evidence.arms if not found[arm.name].word]
    if not ranked:
        return found
    best = min(ranked, key=lambda arm: _level(arm, evidence))
    against = {arm.name: compare(arm, best, evidence.metric) for arm in ranked if arm is not best}
    p_values = [_p_value(comparison) for comparison in against.values()]
    levels = stats.holm(p_values)
    for (name, comparison), p_value, level in zip(against.items(), p_values, levels, strict=True):
        word = WORSE if p_value <= level else NOT_FOUND
        found[name] = Standing(word, comparison.estimate if comparison.sample else None)
    alone = WORSE not in {one.word for one in found.values()}
    return found | {best.name: Standing(NOT_FOUND if alone and against else BEST)}


def _without_rank(arm: MeasuredArm) -> str:
    """Why an arm can't be ranked; empty where it can."""
    if arm.diverged:
        return DIVERGED
    if not arm.scores:
        return UNKNOWN
    return ONE_SEED if len(arm.scores) == 1 else ""


def _level(arm: MeasuredArm, evidence: Evidence) -> float:
    """The mean difference to the baseline over shared seeds; of arms without any, beyond all others."""
    if arm.baseline:
        return 0.0
    against = compare(arm, evidence.baseline, evidence.metric)
    return against.estimate.mean if against.sample else float("inf")


def _p_value(comparison: Comparison) -> float:
    if not comparison.sample or not comparison.ranked:
        return 1.0
    return stats.p_apart(comparison.sample, beyond=comparison.beyond)
