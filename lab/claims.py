"""Does a claim hold? One outcome per claim of a plan, with the figures behind it and what confounds them.

Input is plain JSON: a plan with the claims of its ablation file, and run records; so a verdict rebuilds from published
lines. Claims and their margins are fixed in YAML before the runs; the tests they may ask for are those of
lab/predicates.py. Outcomes: reproduced, contradicted, too small to matter (the 90 % interval lies inside the margin),
inconclusive (with the effect these seeds could have found), not run.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from lab import stats
from lab.config import closest
from lab.confounds import confounds
from lab.evidence import METRIC, Arm, Evidence, gather, relative_differences
from lab.predicates import ALPHA, PREDICATES, NotRun, Statement, every, some

REPRODUCED, CONTRADICTED, SMALL = "reproduced", "contradicted", "too small to matter"
INCONCLUSIVE, NOT_RUN = "inconclusive", "not run"
CLAIM_KEYS = ("id", "statement", "source", "prediction", "metric", "needs", "predicate")
ARM_KEYS, FAMILY_KEYS = ("arm", "better", "worse"), ("family",)


def problems(claims: Sequence[dict[str, Any]], *, arms: Sequence[str], families: Sequence[str]) -> list[str]:
    """Everything wrong with the claims of an ablation file that has these arms and families; empty when all is well."""
    found = []
    for number, claim in enumerate(claims):
        where = f"claims[{number}]"
        found += [f"{where}.{key}: must be given." for key in CLAIM_KEYS if key not in claim]
        found += [
            f"{where}.{key}: unknown key.{closest(key, CLAIM_KEYS)}" for key in claim if key not in CLAIM_KEYS
        ]
        if claim.keys() != set(CLAIM_KEYS):
            continue
        found += [
            f"{where}.needs = {name}: no such arm.{closest(name, arms)}"
            for name in claim["needs"]
            if name not in arms
        ]
        for name, parameters in _parts(claim["predicate"]):
            found += _predicate_problems(
                f"{where}.predicate.{name}", name, parameters, arms=arms, families=families
            )
    ids = [claim["id"] for claim in claims if "id" in claim]
    return found + [
        f"claims: the id {name} stands twice." for name in sorted(set(ids)) if ids.count(name) > 1
    ]


def verdict(plan: dict[str, Any], records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The content of verdict.json: arms with paired estimates, an outcome per claim, and the confounds.

    A pure function of `plan` and `records`: no clock, no paths, and no outcome depends on the order of the arms.
    The claims must be free of `problems`, which whoever made the plan has checked.
    """
    evidence = gather(plan, records)
    return {
        "format": 1,
        **{
            key: plan[key]
            for key in ("ablation", "title", "question", "source", "setting", "seeds", "match", "x")
        },
        "metric": METRIC,
        "alike": evidence.alike,
        "arms": [_describe(arm, evidence.baseline) for arm in evidence.arms],
        "claims": [_judge(claim, plan, records) for claim in plan["claims"]],
        "excluded": list(evidence.excluded),
        "confounds": confounds(plan, evidence),
    }


def outcome_of(statements: Sequence[Statement]) -> str:
    """The outcome of a claim whose statements must all be true; statements the plan can't speak to are left out."""
    known = [statement for statement in statements if statement.known]
    if not known:
        return NOT_RUN
    if every(statement.p_true for statement in known) <= ALPHA:
        return REPRODUCED
    if some(statement.p_false for statement in known) <= ALPHA:
        return CONTRADICTED
    return SMALL if any(statement.p_small <= ALPHA for statement in known) else INCONCLUSIVE


def _judge(claim: dict[str, Any], plan: dict[str, Any], records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One claim of the plan with its outcome and the figures behind it."""
    evidence = gather(plan, records, metric=claim["metric"])
    statements: list[Statement] = []
    try:
        arms = _arms(claim, evidence)
        incomplete = [arm for arm in arms if arm.missing]
        if incomplete:
            outcome, why = INCONCLUSIVE, "; ".join(_incomplete(arm) for arm in incomplete)
        elif len(plan["seeds"]) == 1:
            outcome, why = INCONCLUSIVE, "single run per arm: no interval, so no verdict"
        else:
            statements = [
                s for name, values in _parts(claim["predicate"]) for s in PREDICATES[name](evidence, **values)
            ]
            outcome = outcome_of(statements)
            why = _why(statements, outcome)
    except NotRun as reason:
        outcome, why = NOT_RUN, str(reason)
    answers = [_answer(statement, statements) for statement in statements]
    limits = [
        s.detectable
        for s, answer in zip(statements, answers, strict=True)
        if answer == "open" and s.detectable is not None
    ]
    return {
        **{key: claim[key] for key in ("id", "statement", "source", "prediction", "metric", "predicate")},
        "outcome": outcome,
        "why": why,
        "parts": [
            {"statement": s.text, "answer": answer} for s, answer in zip(statements, answers, strict=True)
        ],
        "estimates": [comparison.json() for s in statements for comparison in s.comparisons],
        "detectable_percent": 100 * max(limits) if outcome == INCONCLUSIVE and limits else None,
        "margins_percent": sorted(
            {100 * values["margin"] for _, values in _parts(claim["predicate"]) if "margin" in values}
        ),
        "seeds": len(plan["seeds"]),
    }


def _answer(statement: Statement, among: Sequence[Statement]) -> str:
    """Whether one of several statements holds; against it, the same corrected level as for the whole claim counts."""
    if not statement.known:
        return "not run"
    if statement.p_true <= ALPHA:
        return "holds"
    if len([s for s in among if s.known]) * statement.p_false <= ALPHA:
        return "fails"
    return "too small to matter" if statement.p_small <= ALPHA else "open"


def _why(statements: Sequence[Statement], outcome: str) -> str:
    """One sentence: the statements that decide the outcome, with their figures."""
    decisive = {
        CONTRADICTED: "fails",
        SMALL: "too small to matter",
        INCONCLUSIVE: "open",
        REPRODUCED: "holds",
    }
    answers = [(_answer(statement, statements), statement.text) for statement in statements]
    texts = [text for answer, text in answers if answer == decisive.get(outcome)] or [
        text for _, text in answers
    ]
    lead = {
        CONTRADICTED: "this fails: ",
        INCONCLUSIVE: "still open: ",
        SMALL: "the difference is too small: ",
    }
    return lead.get(outcome, "") + "; ".join(texts)


def _describe(arm: Arm, baseline: Arm) -> dict[str, Any]:
    """One arm of verdict.json: level, spread, and paired difference to the baseline over the seeds both finished."""
    level = stats.estimate(list(arm.values.values())).json() if arm.values else None
    shared = [] if arm.baseline else sorted(arm.values.keys() & baseline.values.keys())
    difference = relative = None
    if shared:
        difference = stats.estimate([arm.values[seed] - baseline.values[seed] for seed in shared]).json()
        relative = stats.estimate(relative_differences(arm, baseline)).times(100).json()
    states = list(arm.states.values())
    return {
        **{key: getattr(arm, key) for key in ("name", "family", "label", "x", "baseline")},
        "states": {state: states.count(state) for state in sorted(set(states))},
        "values": {str(seed): value for seed, value in arm.values.items()},
        "bpb": level,
        "difference": difference,
        "difference_percent": relative,
    }


def _arms(claim: dict[str, Any], evidence: Evidence) -> list[Arm]:
    """The arms a claim rests on. Raises NotRun where the plan lacks one or none of them has a result."""
    wanted = set(claim["needs"])
    for _, parameters in _parts(claim["predicate"]):
        wanted |= _mentions(parameters, ARM_KEYS)
        wanted |= {
            arm.name for family in _mentions(parameters, FAMILY_KEYS) for arm in evidence.family(family)
        }
    absent = sorted(wanted - {arm.name for arm in evidence.arms})
    if absent:
        raise NotRun(f"the plan has no arm {', '.join(absent)}; optional arms join by --with NAME")
    arms = [evidence.arm(name) for name in sorted(wanted)]
    if not any(arm.values or arm.diverged for arm in arms):
        raise NotRun("none of its runs has a result yet")
    return arms


def _incomplete(arm: Arm) -> str:
    states = list(arm.missing.values())
    counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    return f"{arm.label} lacks {len(states)} of {len(arm.states)} planned seeds ({counts})"


def _parts(predicate: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """A predicate as (name, parameters) pairs that must all hold: `{name: {...}}` or `{all: [{name: {...}}, ...]}`."""
    listed = predicate["all"] if "all" in predicate else [predicate]
    return [pair for part in listed for pair in part.items()]


def _mentions(parameters: dict[str, Any], keys: Sequence[str]) -> set[str]:
    """What a predicate's parameters, or the rival they stand `against`, name under `keys`."""
    groups = [parameters, parameters.get("against", {})]
    return {group[key] for group in groups for key in keys if key in group}


def _predicate_problems(
    where: str, name: str, parameters: dict[str, Any], *, arms: Sequence[str], families: Sequence[str]
) -> list[str]:
    """Everything wrong with one predicate of a claim."""
    if name not in PREDICATES:
        return [
            f"{where}: unknown predicate.{closest(name, PREDICATES)} Known: all, {', '.join(PREDICATES)}."
        ]
    wanted = list(inspect.signature(PREDICATES[name]).parameters)[1:]
    if sorted(parameters) != sorted(wanted):
        return [f"{where}: has the keys {sorted(parameters)}. It takes exactly {sorted(wanted)}."]
    found = []
    if "margin" in wanted and not 0 < parameters["margin"] < 1:
        found.append(
            f"{where}.margin = {parameters['margin']}: must be a fraction between 0 and 1. Write 0.025 for 2.5 %."
        )
    if "inside" in wanted and not (
        len(parameters["inside"]) == 2 and parameters["inside"][0] <= parameters["inside"][1]
    ):
        found.append(f"{where}.inside = {parameters['inside']}: must be [lowest x, highest x].")
    if "against" in wanted and parameters["against"].keys() not in ({"arm"}, {"family"}):
        found.append(f"{where}.against = {parameters['against']}: must be {{arm: NAME}} or {{family: NAME}}.")
    for keys, known in ((ARM_KEYS, arms), (FAMILY_KEYS, families)):
        unknown = sorted(_mentions(parameters, keys) - set(known))
        found += [f"{where}: {keys[0]} {word} is not in this file.{closest(word, known)}" for word in unknown]
    return found
