"""Does a claim hold? One outcome per claim of a plan, with the figures behind it and what confounds them.

Input is plain JSON: a plan with the claims of its ablation file, and run records; so a verdict rebuilds
from published lines. Claims and their margins are fixed in YAML before the runs
(lab/verdict/claim_schema.py); the tests they may ask for are those of lab/verdict/predicates.py;
lab/verdict/judgement.py holds them against their levels. Outcomes: reproduced, contradicted, too small to
matter (equivalent within the margin), inconclusive (with the effect these seeds could have found), not
run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lab.verdict import seed_noise as noise
from lab.verdict import stats
from lab.verdict.claim_schema import parts
from lab.verdict.comparison import Statement, compare
from lab.verdict.confounds import confounds
from lab.verdict.evidence import METRIC, Arm, Evidence, at_one_rate, gather, is_searched
from lab.verdict.judgement import Judgement, judge, margin_of
from lab.verdict.outcomes import CONTRADICTED, INCONCLUSIVE, NOT_RUN, REPRODUCED, SMALL

EVIDENCE = dict[str, Evidence]  # by metric
OPEN = "open"


def verdict(
    plan: dict[str, Any], records: Sequence[dict[str, Any]], *, exact: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """The content of verdict.json: arms with paired estimates, an outcome per claim, and the confounds.

    A pure function of its arguments: no clock, no paths, and no outcome depends on the order of the arms.
    The claims must be free of `problems`, which whoever made the plan has checked. exact: lines of
    results/exact.jsonl.
    """
    evidence, of_metric = gather(plan, records), _by_metric(plan, records, exact)
    judged = judge(plan["claims"], of_metric, looks_of(plan))
    of_rate, same = {}, {}
    if is_searched(plan):
        of_rate, same = _at_one_rate(plan, records), _claims_at_one_rate(plan, records, exact)
    return {
        "format": 1,
        **{
            key: plan[key]
            for key in ("ablation", "title", "question", "source", "setting", "seeds", "match", "x")
        },
        "metric": METRIC,
        "alike": evidence.alike,
        "arms": [_describe(arm, evidence) | of_rate.get(arm.name, {}) for arm in evidence.arms],
        "claims": [
            _written(claim, judgement, of_metric[claim["metric"]]) | same.get(claim["id"], {})
            for claim, judgement in zip(plan["claims"], judged, strict=True)
        ],
        "excluded": list(evidence.excluded),
        "confounds": confounds(plan, evidence),
    }


def decided(
    plan: dict[str, Any], records: Sequence[dict[str, Any]], *, exact: Sequence[dict[str, Any]] = ()
) -> bool:
    """Whether further seeds, up to the last look of the ablation, could change no outcome any more.

    A sweep asks this once the runs of a look have ended. Claims that the plan can't speak to, whose runs
    failed, or whose family rests on the search alone, wait for no seed.
    """
    looks, seeds = looks_of(plan), len(plan["seeds"])
    if seeds >= looks[-1]:
        return True
    judged = judge(plan["claims"], _by_metric(plan, records, exact), looks)
    return seeds >= looks[0] and all(
        j.outcome != INCONCLUSIVE or not j.looks or not j.hearing.statements for j in judged
    )


def looks_of(plan: dict[str, Any]) -> list[int]:
    """After how many seeds the plan's ablation looks; once, at all of them, where its file says nothing."""
    return plan.get("looks") or [len(plan["seeds"])]


def _by_metric(
    plan: dict[str, Any], records: Sequence[dict[str, Any]], exact: Sequence[dict[str, Any]]
) -> EVIDENCE:
    names = sorted({claim["metric"] for claim in plan["claims"]})
    return {name: gather(plan, records, metric=name, exact=exact) for name in names}


def _p_values(statement: Statement, judgement: Judgement) -> tuple[float, float, float | None]:
    """For: it is true, it is false, its difference is too small; the last two corrected as those of the
    claim are.
    """
    known = judgement.hearing.known
    chances = sum(one.p_small is not None for one in known)
    small = None if statement.p_small is None else min(1.0, chances * statement.p_small)
    return statement.p_true, min(1.0, len(known) * statement.p_false), small


def _answer(statement: Statement, judgement: Judgement) -> str:
    """Whether one of several statements holds."""
    if not statement.known:
        return NOT_RUN
    for answer, p_value, level in zip(
        ("holds", "fails", SMALL),
        _p_values(statement, judgement),
        judgement.levels,
        strict=True,
    ):
        if p_value is not None and p_value <= level:
            return answer
    return OPEN


def _written(claim: dict[str, Any], judgement: Judgement, evidence: Evidence) -> dict[str, Any]:
    """One claim of verdict.json."""
    hearing, outcome = judgement.hearing, judgement.outcome
    listed = [(statement, _answer(statement, judgement)) for statement in hearing.statements]
    margins = {margin_of(parameters, evidence) for _, parameters in parts(claim["predicate"])} - {None}
    p_values = _named(hearing.p_values) if hearing.known else None
    size, words = _detectable(judgement, listed, evidence) if outcome == INCONCLUSIVE else (None, None)
    return {
        **{key: claim[key] for key in ("id", "statement", "source", "prediction", "metric", "predicate")},
        "family": claim.get("family"),
        "outcome": outcome,
        "why": _why(listed, outcome) if listed else hearing.why,
        "parts": [
            {
                "statement": s.text,
                "answer": answer,
                "p_values": _named(_p_values(s, judgement)) if s.known else None,
            }
            for s, answer in listed
        ],
        "estimates": [comparison.json() for s in hearing.statements for comparison in s.comparisons],
        "p_values": p_values,
        "levels": _named(judgement.levels) if p_values else None,
        "detectable": words,
        "detectable_percent": 100 * size if size is not None and evidence.metric.relative else None,
        "margins_percent": sorted(100 * m for m in margins if m is not None)
        if evidence.metric.relative
        else [],
        "seeds": judgement.seeds,
        "looks": list(judgement.looks),
    }


def _named(values: tuple[float, float, float | None]) -> dict[str, float | None]:
    return dict(zip(("true", "false", "small"), values, strict=True))


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
    if not sizes and seeds > 1 and (sd := noise.paired_sd(evidence.noise, evidence.metric)) is not None:
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
    return size, "; ".join([evidence.metric.amount(size), *words])


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


def _at_one_rate(plan: dict[str, Any], records: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each arm of a searched plan: its best rate, how sharp that is, and how it does at the rate common
    to all arms.
    """
    search, evidence = plan["search"], gather(at_one_rate(plan), records)
    return {
        arm.name: {
            "best_lr": search["best"][arm.name],
            "interior": search["interior"][arm.name],
            "lr_sensitivity": search["sensitivity"][arm.name],
            "same_lr": {
                "lr": search["common"],
                **{
                    key: _describe(arm, evidence)[key]
                    for key in ("states", "bpb", "difference", "difference_percent")
                },
            },
        }
        for arm in evidence.arms
    }


def _claims_at_one_rate(
    plan: dict[str, Any], records: Sequence[dict[str, Any]], exact: Sequence[dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Of each claim on seeds of a searched plan: what it comes to with all arms at the common rate, on the
    seeds that were trained.
    """
    same = at_one_rate(plan)
    evidence = _by_metric(same, records, exact)
    judged = judge(plan["claims"], evidence, looks_of(plan))
    written = [
        _written(claim, judgement, evidence[claim["metric"]])
        for claim, judgement in zip(plan["claims"], judged, strict=True)
        if judgement.looks
    ]
    kept = ("outcome", "why", "seeds", "looks")
    return {
        one["id"]: {"same_lr": {"lr": plan["search"]["common"], **{key: one[key] for key in kept}}}
        for one in written
    }


def _describe(arm: Arm, evidence: Evidence) -> dict[str, Any]:
    """One arm of verdict.json: level, spread, and paired difference to the baseline over the seeds both have.

    There is none where both diverged for the same seed. Diverged runs enter both as their loss before
    training, which `at_init` lists; `values` has the finished ones.
    """
    baseline, scores = evidence.baseline, arm.scores
    shared = [] if arm.baseline else sorted(scores.keys() & baseline.scores.keys())
    difference = relative = None
    if shared and compare(arm, baseline, evidence.metric).ranked:
        difference = stats.estimate([scores[seed] - baseline.scores[seed] for seed in shared]).json()
        relative = stats.estimate(compare(arm, baseline, evidence.metric).sample).times(100).json()
    states = list(arm.states.values())
    return {
        **{key: getattr(arm, key) for key in ("name", "family", "label", "x", "baseline")},
        "states": {state: states.count(state) for state in sorted(set(states))},
        "values": {str(seed): value for seed, value in arm.values.items()},
        "at_init": {str(seed): value for seed, value in arm.at_init.items()},
        "bpb": stats.estimate(list(scores.values())).json() if scores else None,
        "difference": difference,
        "difference_percent": relative,
    }
