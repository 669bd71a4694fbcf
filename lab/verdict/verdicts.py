"""Does a claim hold? One outcome per claim of a plan, with the figures behind it and what confounds them.

Evidence is a plan with the claims of its ablation file, and run records; so a verdict rebuilds from
published lines. Claims and their margins are fixed in YAML before the runs (lab/store/claim.py); the tests
they may ask for are those of lab/verdict/predicates.py; lab/verdict/judgement.py holds them against their
levels. Outcomes: reproduced, contradicted, too small to matter (equivalent within the margin),
inconclusive (with the effect these seeds could have found), not run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from lab.store.claim import Claim
from lab.store.predicate_forms import margin_of
from lab.verdict import seed_noise, stats, wording
from lab.verdict.comparison import Comparison, Statement, compare
from lab.verdict.confounds import confounds
from lab.verdict.course import named_by
from lab.verdict.evidence import METRIC, Evidence, MeasuredArm, is_searched
from lab.verdict.judgement import Judgement, judge
from lab.verdict.outcomes import CONTRADICTED, INCONCLUSIVE, NOT_RUN, REPRODUCED, SMALL
from lab.verdict.verdict_record import (
    ArmAtHorizon,
    ArmLevel,
    ArmVerdict,
    ClaimVerdict,
    PairEstimate,
    PartVerdict,
    SameRateOutcome,
    Triple,
    Verdict,
)

OPEN = "open"


def verdict(evidence: Evidence) -> Verdict:
    """The content of verdict.json: arms with paired estimates, an outcome per claim, and the confounds.

    A pure function of its argument: no clock, no paths, and no outcome depends on the order of the arms.
    """
    plan = evidence.plan
    arms, claims = [_described(arm, evidence) for arm in evidence.arms], _judged(evidence)
    if is_searched(plan):
        arms = [_searched(arm, evidence) for arm in arms]
    if is_searched(plan) and any(arm.runs_same_lr for arm in plan.arms):
        same = evidence.at_one_rate()
        arms = [_at_one_rate(arm, evidence, same) for arm in arms]
        at_one_rate = {found.id: found for found in _judged(same) if found.looks}
        claims = [_with_same_rate(claim, at_one_rate.get(claim.id), evidence) for claim in claims]
    return Verdict(
        format=1,
        ablation=plan.ablation,
        title=plan.title,
        question=plan.question,
        source=plan.source,
        setting=plan.setting,
        seeds=plan.seeds,
        match=plan.match,
        x=plan.x,
        metric=METRIC,
        alike=evidence.alike,
        arms=tuple(arms),
        claims=tuple(claims),
        excluded=evidence.excluded,
        confounds=tuple(confounds(plan, evidence)),
        protocol=plan.protocol,
        horizons=plan.horizons,
    )


def decided(evidence: Evidence) -> bool:
    """Whether further seeds, up to the last look of the ablation, could change no outcome any more.

    A sweep asks this once the runs of a look have ended. Claims that the plan can't speak to, whose runs
    failed, or whose family rests on the search alone, wait for no seed.
    """
    looks, seeds = looks_of(evidence), len(evidence.plan.seeds)
    return seeds >= looks[-1] or (seeds >= looks[0] and not _open_claims(evidence))


def open_arms(evidence: Evidence) -> set[str]:
    """The arms that claims rest on whose outcome further seeds could change."""
    found: set[str] = set()
    for claim in _open_claims(evidence):
        found |= {*claim.needs} | named_by(claim, evidence)
    return found


def _open_claims(evidence: Evidence) -> list[Claim]:
    """Claims that the looks so far leave inconclusive, and that rest on seeds."""
    claims = evidence.plan.claims
    judged = judge(claims, by_metric(evidence), looks_of(evidence))
    return [
        claim
        for claim, j in zip(claims, judged, strict=True)
        if j.outcome == INCONCLUSIVE and j.looks and j.hearing.statements
    ]


def looks_of(evidence: Evidence) -> tuple[int, ...]:
    """After how many seeds the plan's ablation looks; once, at all of them, where its file says nothing."""
    return evidence.plan.looks or (len(evidence.plan.seeds),)


def by_metric(evidence: Evidence) -> dict[str, Evidence]:
    """The evidence by each metric that a claim is about."""
    return {name: evidence.by(name) for name in sorted({claim.metric for claim in evidence.plan.claims})}


def _judged(evidence: Evidence) -> list[ClaimVerdict]:
    of_metric = by_metric(evidence)
    judged = judge(evidence.plan.claims, of_metric, looks_of(evidence))
    return [
        _written(claim, judgement, of_metric[claim.metric])
        for claim, judgement in zip(evidence.plan.claims, judged, strict=True)
    ]


def _p_values(statement: Statement, judgement: Judgement) -> Triple:
    """For: it is true, it is false, its difference is too small; the last two corrected as those of the
    claim are.
    """
    known = judgement.hearing.known
    chances = sum(one.p_small is not None for one in known)
    small = None if statement.p_small is None else min(1.0, chances * statement.p_small)
    return Triple(true=statement.p_true, false=min(1.0, len(known) * statement.p_false), small=small)


def _answer(statement: Statement, judgement: Judgement) -> str:
    """Whether one of several statements holds."""
    if not statement.known:
        return NOT_RUN
    p_values, (if_true, if_false, if_small) = _p_values(statement, judgement), judgement.levels
    if p_values.true <= if_true:
        return "holds"
    if p_values.false <= if_false:
        return "fails"
    return SMALL if p_values.small is not None and p_values.small <= if_small else OPEN


def _written(claim: Claim, judgement: Judgement, evidence: Evidence) -> ClaimVerdict:
    """One claim of verdict.json."""
    hearing, outcome, metric = judgement.hearing, judgement.outcome, evidence.metric
    listed = [(statement, _answer(statement, judgement)) for statement in hearing.statements]
    asked = [margin for part in claim.predicate.parts if (margin := margin_of(part)) is not None]
    margins = {seed_noise.in_numbers(margin, evidence.noise, metric) for margin in asked} - {None}
    asks = outcome == INCONCLUSIVE and not hearing.undecided
    size, words = _detectable(judgement, listed, evidence) if asks else (None, None)
    return ClaimVerdict(
        id=claim.id,
        statement=claim.statement,
        source=claim.source,
        prediction=claim.prediction,
        metric=claim.metric,
        predicate=claim.predicate,
        family=claim.family,
        outcome=outcome,
        why=hearing.undecided or (_why(listed, outcome) if listed else hearing.why),
        parts=tuple(
            PartVerdict(s.text, answer, _p_values(s, judgement) if s.known else None) for s, answer in listed
        ),
        estimates=tuple(_estimated(comparison) for s in hearing.statements for comparison in s.comparisons),
        p_values=_triple(hearing.p_values) if hearing.known else None,
        levels=_triple(judgement.levels) if hearing.known else None,
        detectable=words,
        detectable_percent=100 * size if size is not None and metric.relative else None,
        margins_percent=tuple(sorted(100 * m for m in margins if m is not None)) if metric.relative else (),
        seeds=judgement.seeds,
        looks=judgement.looks,
        direction=hearing.direction,
    )


def _triple(values: tuple[float, float, float]) -> Triple:
    return Triple(true=values[0], false=values[1], small=values[2])


def _estimated(comparison: Comparison) -> PairEstimate:
    metric = comparison.metric
    shown = wording.shown(metric, comparison.estimate) if comparison.ranked else None
    return PairEstimate(
        comparison.arm,
        comparison.against,
        shown if metric.relative else None,
        tuple(arm.name for arm in comparison.diverged),
        difference=None if metric.relative else shown,
        unit=None if metric.relative else metric.unit,
    )


def _detectable(
    judgement: Judgement, listed: Sequence[tuple[Statement, str]], evidence: Evidence
) -> tuple[float | None, str]:
    """Of an inconclusive claim: the smallest difference its seeds find in four of five experiments, and
    the same in words.
    """
    level, seeds = judgement.levels[0] or stats.ALPHA, judgement.seeds
    still_open = [statement for statement, answer in listed if answer == OPEN]
    asked = still_open or judgement.hearing.could_find
    levels = [level / s.chances for s in asked]
    sizes = [
        s.decisive.detectable(2 * own / s.sides, n=seeds)  # that of a two-sided test
        for s, own in zip(asked, levels, strict=True)
        if s.decisive is not None
    ]
    words = [s.could_find for s in asked if s.could_find]
    if not sizes and seeds > 1 and (sd := seed_noise.paired_sd(evidence.noise, evidence.metric)) is not None:
        sizes = [stats.detectable_effect(sd=sd, n=seeds, alpha=level)]
        words.append("by the noise measured beforehand; other arms may vary more than a near twin")
    if not sizes:
        one = "no difference of any size: one seed has no interval"
        early = bool(judgement.looks) and seeds < judgement.looks[0]
        waits = (
            f"not known before {judgement.looks[0]} seeds"
            if early
            else "not known before its runs have ended"
        )
        return None, "; ".join(words) or (one if seeds == 1 else waits)
    size = max(sizes)
    if math.isinf(size):
        unranked = any(s.decisive is not None and not s.decisive.ranked for s in asked)
        reason = (
            "both sides diverged for the same seed, so nothing ranks them"
            if unranked
            else f"{seeds} seeds can't reach the level of {min(levels, default=level):.2g}"
        )
        return None, f"no difference of any size: {reason}"
    return size, "; ".join([wording.amount(evidence.metric, size), *words])


def _why(listed: Sequence[tuple[Statement, str]], outcome: str) -> str:
    """One sentence: the statements that decide the outcome, with their figures."""
    decisive = {
        CONTRADICTED: "fails",
        SMALL: SMALL,
        INCONCLUSIVE: OPEN,
        REPRODUCED: "holds",
    }
    texts = [s.text for s, answer in listed if answer == decisive.get(outcome)] or [s.text for s, _ in listed]
    lead = {
        CONTRADICTED: "this fails: ",
        INCONCLUSIVE: "still open: ",
        SMALL: "the difference is too small: ",
    }
    return lead.get(outcome, "") + "; ".join(texts)


def _with_same_rate(claim: ClaimVerdict, same: ClaimVerdict | None, evidence: Evidence) -> ClaimVerdict:
    """The claim with what it comes to at the common rate, on the seeds that were trained."""
    if same is None or evidence.search is None:
        return claim
    found = SameRateOutcome(evidence.search.common, same.outcome, same.why, same.seeds, same.looks)
    return replace(claim, same_lr=found)


def _searched(arm: ArmVerdict, evidence: Evidence) -> ArmVerdict:
    """The arm with its best rate and how sharp that is."""
    search = evidence.search
    assert search is not None
    return replace(
        arm,
        best_lr=search.best[arm.name],
        interior=search.interior[arm.name],
        lr_sensitivity=search.sensitivity[arm.name],
    )


def _at_one_rate(arm: ArmVerdict, evidence: Evidence, same: Evidence) -> ArmVerdict:
    """The arm with how it does at the rate common to all arms."""
    search = evidence.search
    assert search is not None
    level = _described(same.arm(arm.name), same)
    at_common = ArmLevel(search.common, level.states, level.bpb, level.difference, level.difference_percent)
    return replace(arm, same_lr=at_common)


def _described(arm: MeasuredArm, evidence: Evidence) -> ArmVerdict:
    """One arm of verdict.json; diverged runs enter its level and its difference as their loss before
    training.
    """
    baseline, scores = evidence.baseline, arm.scores
    shared = [] if arm.baseline else sorted(scores.keys() & baseline.scores.keys())
    difference = relative = None
    if shared and (comparison := compare(arm, baseline, evidence.metric)).ranked:
        level = fmean(baseline.scores[seed] for seed in shared)
        beyond = comparison.beyond and comparison.beyond.times(level)
        sample = [scores[seed] - baseline.scores[seed] for seed in shared]
        difference = stats.estimate(sample, beyond=beyond)
        relative = comparison.estimate.times(100)
    states = list(arm.states.values())
    return ArmVerdict(
        arm.name,
        arm.family,
        arm.label,
        arm.x,
        arm.baseline,
        states={state: states.count(state) for state in sorted(set(states))},
        values=arm.values,
        at_init=arm.at_init,
        bpb=stats.estimate(list(scores.values())) if scores else None,
        difference=difference,
        difference_percent=relative,
        path=_path(arm, evidence),
    )


def _path(arm: MeasuredArm, evidence: Evidence) -> tuple[ArmAtHorizon, ...]:
    """How the arm did at each horizon, and against the baseline of the same seeds."""
    found = []
    for number, at in enumerate(arm.path):
        mine, theirs = (one.at_horizon(number) for one in (arm, evidence.baseline))
        against = compare(mine, theirs, evidence.metric)
        apart = against.sample and not arm.baseline
        excess = list(at.excess.values())
        found.append(
            ArmAtHorizon(
                at.tokens,
                bpb=stats.estimate(list(at.scores.values())) if at.scores else None,
                excess_bpb=stats.estimate(excess) if excess else None,
                difference_percent=against.estimate.times(100) if apart else None,
            )
        )
    return tuple(found)
