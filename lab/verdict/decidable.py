"""Can the design of an ablation decide its claims at all, whatever comes out?

A test by changes of sign has no p value below 1/2^n, an exact regrouping of tuning seeds none below one
over the number of regroupings, and what a claim asks of many pairs multiplies it. The bar is the level of
the last look, shared by the claims of a family as if none of the others were decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lab.store import predicate_forms as forms
from lab.store.claim import Claim
from lab.store.metric import named
from lab.store.plan_record import ArmRecord, PlanRecord
from lab.verdict import seed_noise, stats, wording
from lab.verdict.evidence import Evidence
from lab.verdict.outcomes import CONTRADICTED, REPRODUCED

MOST_SEEDS = 64  # tried to name a number that would do


@dataclass(frozen=True)
class Reach:
    """The smallest p values that a claim, or one statement of it, can reach: that it is true, and that it is
    false.
    """

    true: float
    false: float


@dataclass(frozen=True)
class Decidability:
    """What the design of a plan can make of one claim.

    reach, level: the smallest p values, and what they are held against. detectable: the smallest effect that
    the last look finds with 80 % power, by how far pairs of arms spread from seed to seed in sweeps of this
    size, text and length, in words; None where there are none. needs: the fewest seeds at which the claim
    could be both reproduced and contradicted; None where no number of them up to MOST_SEEDS is enough.
    """

    claim: str
    seeds: int
    reach: Reach
    level: float
    detectable: str | None
    needs: int | None

    @property
    def missing(self) -> list[str]:
        """The outcomes that can't be reached."""
        reached = ((REPRODUCED, self.reach.true), (CONTRADICTED, self.reach.false))
        return [outcome for outcome, p_value in reached if p_value > self.level]

    def problem(self) -> str | None:
        """What is wrong with the design, and the fix."""
        if not self.missing:
            return None
        best = max(self.reach.true, self.reach.false)
        fix = f"It needs {self.needs} seeds." if self.needs else "No number of seeds is enough."
        return (
            f"claim {self.claim}: can't be {' or '.join(self.missing)} with {self.seeds} seeds: its p value "
            f"is {best:.2g} at best, above the level of {self.level:.2g}. {fix}"
        )


def decidability(
    plan: PlanRecord, *, tuning_seeds: int, alike: Sequence[Evidence] = ()
) -> list[Decidability]:
    """Of each claim whose arms the plan has. tuning_seeds: of the search that claims on ranges rest on.

    alike: sweeps of the same size, text and length that have ended.
    """
    names = {arm.name for arm in plan.arms}
    present = [claim for claim in plan.claims if {*claim.needs, *claim.predicate.arms()} <= names]
    return [_of_claim(claim, plan, present, tuning_seeds, alike) for claim in present]


def _of_claim(
    claim: Claim,
    plan: PlanRecord,
    claims: Sequence[Claim],
    tuning_seeds: int,
    alike: Sequence[Evidence],
) -> Decidability:
    searched = all(isinstance(part, forms.LearningRateRange) for part in claim.predicate.parts)
    level = _level(claim, claims, () if searched else plan.looks)
    seeds = tuning_seeds if searched else len(plan.seeds)

    def enough(n: int) -> bool:
        found = reach(claim, plan.arms, n)
        return max(found.true, found.false) <= level

    needs = next((n for n in range(seeds, MOST_SEEDS + 1) if enough(n)), None)
    return Decidability(
        claim.id, seeds, reach(claim, plan.arms, seeds), level, _detectable(claim, plan, level, alike), needs
    )


def _level(claim: Claim, claims: Sequence[Claim], looks: Sequence[int]) -> float:
    family = [other for other in claims if (other.family or "") == (claim.family or "")]
    return stats.look_levels(looks)[-1] / len(family) if looks else stats.ALPHA / len(family)


def _detectable(claim: Claim, plan: PlanRecord, level: float, alike: Sequence[Evidence]) -> str | None:
    metric = named(claim.metric)
    sd = seed_noise.pooled_sd([evidence.by(claim.metric) for evidence in alike])
    if sd is None:
        return None
    size = stats.detectable_effect(sd=sd, n=len(plan.seeds), alpha=level)
    return None if math.isinf(size) else wording.amount(metric, size)


def reach(claim: Claim, arms: Sequence[ArmRecord], seeds: int) -> Reach:
    """The smallest p values of a claim by so many seeds; all of its statements must be true, one false is
    enough.
    """
    found = [one for part in claim.predicate.parts for one in REACHES[type(part)](part, arms, seeds)]
    return Reach(
        max(one.true for one in found),
        min(1.0, len(found) * min(one.false for one in found)),
    )


def smallest(seeds: int) -> float:
    """Of one-sided tests of paired differences (lab/verdict/stats.py)."""
    if seeds < 2:
        return 1.0
    return 2.0**-seeds if stats.FLIPS_FROM <= seeds <= stats.FLIPS_TO else 0.0


def _times(seeds: int, *, true: int, false: int) -> Reach:
    p_value = smallest(seeds)
    return Reach(min(1.0, true * p_value), min(1.0, false * p_value))


def _contrast(part: forms.Part, arms: Sequence[ArmRecord], seeds: int) -> list[Reach]:
    return [_times(seeds, true=2, false=2)]


def _single(part: forms.Part, arms: Sequence[ArmRecord], seeds: int) -> list[Reach]:
    return [_times(seeds, true=1, false=1)]


def _equivalent(part: forms.Equivalent, arms: Sequence[ArmRecord], seeds: int) -> list[Reach]:
    pairs = math.comb(len(_group(part.among, arms)), 2)
    return [_times(seeds, true=1, false=2 * pairs)]


def _non_inferior(part: forms.NonInferior, arms: Sequence[ArmRecord], seeds: int) -> list[Reach]:
    rivals = [arm for arm in _group(part.against, arms) if arm.name != part.arm]
    return [_times(seeds, true=1, false=len(rivals))]


def _basin(part: forms.Basin, arms: Sequence[ArmRecord], seeds: int) -> list[Reach]:
    family = [arm for arm in arms if arm.family == part.family]
    inside = sum(arm.x is not None and part.inside.holds(arm.x) for arm in family)
    outside, others = len(family) - inside, len(family) - 1
    return [
        _times(seeds, true=1, false=inside * others),
        _times(seeds, true=inside, false=outside),
        _times(seeds, true=outside * others, false=1),
    ]


def _trend(part: forms.Trend, arms: Sequence[ArmRecord], seeds: int) -> list[Reach]:
    count = len(_group(part.along, arms))
    if count < 3 or seeds < 2:
        return [Reach(1.0, 1.0)]
    best = (
        stats.p_concordant(range(count)) if part.test == "kendall" else stats.p_trend([range(count)] * seeds)
    )
    return [Reach(best, best)]


def _lr_range(part: forms.LearningRateRange, arms: Sequence[ArmRecord], seeds: int) -> list[Reach]:
    best = 1 / math.comb(2 * seeds, seeds)
    return [Reach(best, best)]


def _exact(part: forms.Exact, arms: Sequence[ArmRecord], seeds: int) -> list[Reach]:
    return [Reach(0.0, 0.0)]


def _group(group: forms.Group, arms: Sequence[ArmRecord]) -> list[ArmRecord]:
    if group.family is not None:
        return [arm for arm in arms if arm.family == group.family]
    return [arm for arm in arms if arm.name in group.arms]


REACHES: dict[type[forms.Part], Callable[..., Iterable[Reach]]] = {
    forms.Superior: _contrast,
    forms.DifferenceOfDifferences: _contrast,
    forms.Equivalent: _equivalent,
    forms.NonInferior: _non_inferior,
    forms.Basin: _basin,
    forms.Trend: _trend,
    forms.LearningRateRange: _lr_range,
    forms.BelowLine: _single,
    forms.Bounded: _single,
    forms.Exact: _exact,
}
