"""Which difference of a claim has a direction, and what leaves it open whatever the last horizon says?"""

from __future__ import annotations

from collections.abc import Callable

from lab.store import predicate_forms as forms
from lab.store.claim import Claim
from lab.store.plan_record import tokens_text
from lab.store.predicate_forms import margin_of
from lab.verdict import lr_range, seed_noise
from lab.verdict.direction import UNDECIDED, Direction, direction, path, worst
from lab.verdict.evidence import EXCESS, METRIC, Evidence, MeasuredArm
from lab.verdict.predicates import level, side

LOWER_RATE_SHARE = 0.5  # of a margin, by which a lower rate may be better at the last horizon
Sides = tuple[list[MeasuredArm], list[MeasuredArm]]


def direction_of(claim: Claim, evidence: Evidence) -> Direction | None:
    """Where the difference that a claim is about is going; of several the one that says least for it. None
    for claims that are not about a loss, or about arms that the plan lacks, and without three horizons.
    """
    absent = claim.predicate.arms() - {arm.name for arm in evidence.arms}
    if claim.metric not in (METRIC, EXCESS) or absent:
        return None
    found = [SIDES[type(part)](part, evidence) for part in claim.predicate.parts if type(part) in SIDES]
    paths = [path(*sides) for sides in found if sides is not None]
    return worst(direction(along) for along in paths if along is not None)


def undecided(claim: Claim, evidence: Evidence, found: Direction | None) -> str:
    """Why a claim is inconclusive whatever the last horizon says; empty where nothing is in the way."""
    if found and found.name in UNDECIDED:
        return found.text()
    return _lower_rate(claim, evidence) or _no_range(claim, evidence)


def _no_range(claim: Claim, evidence: Evidence) -> str:
    """Why ranges of rates can't be compared: an arm learns at none of them; empty where all learn."""
    search = evidence.search
    if search is None or search.unigram_bpb is None or evidence.plan.protocol == 1:
        return ""
    parts = [part for part in claim.predicate.parts if isinstance(part, forms.LearningRateRange)]
    names = sorted({name for part in parts for name in (part.wider, part.narrower)} & search.losses.keys())
    hopeless = [evidence.arm(name).label for name in names if lr_range.hopeless(search, name)]
    if not hopeless:
        return ""
    tokens = tokens_text(search.rungs[-1].tokens if search.rungs else evidence.plan.baseline.tokens)
    return f"{' and '.join(hopeless)} learnt at no rate of the grid in {tokens} tokens, and has no range"


def _lower_rate(claim: Claim, evidence: Evidence) -> str:
    """Why an arm's best rate at the last horizon is not known; empty where a lower one is no better there."""
    search = evidence.search
    asked = [m for part in claim.predicate.parts if (m := margin_of(part)) is not None]
    found = [seed_noise.in_numbers(margin, evidence.noise, evidence.metric) for margin in asked]
    margins = [margin for margin in found if margin is not None]
    if search is None or not search.lower or not margins or claim.metric != METRIC:
        return ""
    for name in sorted(named_by(claim, evidence) & search.lower.keys()):
        lower, arm = search.lower[name], evidence.arm(name)
        chosen = arm.scores.get(lower.seed)
        if chosen is None or lower.loss is None:
            continue
        if lower.seed in arm.diverged:
            return (
                f"{arm.label} diverged at the last horizon with a rate of {search.best[name]:g}, which was "
                f"best at an earlier one, and finished with {lower.lr:g} (seed {lower.seed}), so its best "
                "rate there is not known"
            )
        gain = chosen / lower.loss - 1
        if gain > LOWER_RATE_SHARE * min(margins):
            return (
                f"{arm.label} is {100 * gain:.2f} % better at the last horizon with a rate of {lower.lr:g} "
                f"than with {search.best[name]:g}, which was best at an earlier one (seed {lower.seed}): "
                "more than half the margin, so its best rate there is not known"
            )
    return ""


def named_by(claim: Claim, evidence: Evidence) -> set[str]:
    """The arms that a claim names, one by one or by their family."""
    families = [evidence.family(family) for family in claim.predicate.families()]
    return claim.predicate.arms() | {arm.name for family in families for arm in family}


def _superior(part: forms.Superior, evidence: Evidence) -> Sides | None:
    if not evidence.chosen(part.worse) or not evidence.chosen(part.better):
        return None
    return [side(evidence, part.worse)], [side(evidence, part.better)]


def _non_inferior(part: forms.NonInferior, evidence: Evidence) -> Sides | None:
    subject = evidence.arm(part.arm)
    rivals = [arm for arm in evidence.chosen(part.against) if arm is not subject]
    return ([subject], [min(rivals, key=level)]) if rivals else None


def _equivalent(part: forms.Equivalent, evidence: Evidence) -> Sides | None:
    arms = sorted(evidence.chosen(part.among), key=level)
    return ([arms[-1]], [arms[0]]) if len(arms) > 1 else None


def _basin(part: forms.Basin, evidence: Evidence) -> Sides | None:
    family = [arm for arm in evidence.family(part.family) if arm.x is not None]
    inside = [arm for arm in family if arm.x is not None and part.inside.holds(arm.x)]
    outside = [arm for arm in family if arm not in inside]
    if not inside or not outside:
        return None
    return [max(outside, key=level)], [min(inside, key=level)]


def _trend(part: forms.Trend, evidence: Evidence) -> Sides | None:
    arms = evidence.chosen(part.along)
    return ([arms[-1]], [arms[0]]) if len(arms) > 1 else None


def _did(part: forms.DifferenceOfDifferences, evidence: Evidence) -> Sides | None:
    pairs = (part.larger, part.smaller)
    a, b, c, d = (evidence.arm(name) for pair in pairs for name in (pair.arm, pair.against))
    return [a, d], [b, c]


SIDES: dict[type[forms.Part], Callable[..., Sides | None]] = {
    forms.Superior: _superior,
    forms.NonInferior: _non_inferior,
    forms.Equivalent: _equivalent,
    forms.Basin: _basin,
    forms.Trend: _trend,
    forms.DifferenceOfDifferences: _did,
}
