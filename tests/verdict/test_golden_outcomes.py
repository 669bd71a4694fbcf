"""Golden outcomes: what every rule that decides a verdict makes of made-up experiments. They move only when a
rule does.

If a change means to alter one, raise PROTOCOL in lab/store/identity.py first; then
`LAB_WRITE_GOLDEN=1 python -m pytest -n 0 tests/verdict/test_golden_outcomes.py` writes them anew. What is
published stays under the protocol that judged it. If it does not mean to, it has a bug.
"""

import json
import os
import random
from pathlib import Path

import pytest

from lab.config.strict import read
from lab.lecture import ledger
from lab.lecture.finding import Finding
from lab.lecture.register import RegisteredClaim
from lab.store.identity import PROTOCOL
from lab.store.plan_record import SearchRecord
from lab.sweep import halving, search
from lab.verdict import direction_simulation, lr_range, simulation
from lab.verdict.evidence import METRIC
from lab.verdict.judgement import judge
from lab.verdict.outcomes import STATES
from tests.sweep.climbing_plan import first_search, rung
from tests.synthetic_sweep import search_of
from tests.verdict.climbed import climbed

TABLE = Path(__file__).with_name("golden_outcomes.json")
EXPERIMENTS = 12


def of_predicates():
    """Every predicate at its boundary and where it is true: the first letters of outcomes."""
    found = {}
    for case in simulation.cases():
        claim, chance = simulation._claim(case.name, case.predicate), random.Random(str(case.looks))
        for where, made in (("boundary", case.boundary), ("true", case.alternative)):
            evidence = [made(chance, case.looks[-1]) for _ in range(EXPERIMENTS)]
            outcomes = [judge([claim], {METRIC: one}, case.looks)[0].outcome for one in evidence]
            found[f"{case.name}, {case.seeds} seeds, {where}"] = " ".join(o[:5] for o in outcomes)
    return found


def of_directions():
    chance = random.Random(0)
    return {
        course.name: " ".join(direction_simulation._name(course.effects, chance) for _ in range(EXPERIMENTS))
        for course in direction_simulation.courses()
    }


def of_claims_over_horizons():
    """Claims whose effect holds, fades, turns, is small, and whose rate was too high at the last horizon."""
    a = [1.0, 0.9, 0.8, 0.75, 0.7]

    def outcome(*ratios, **asked):
        b = [value * ratio for value, ratio in zip(a, ratios, strict=True)]
        evidence = climbed({"a": a, "b": b}, **asked)
        judged = judge(evidence.plan.claims, {METRIC: evidence}, (8,))[0]
        going = judged.hearing.direction
        return f"{judged.outcome}, {going.name if going else None}"

    return {
        "holds": outcome(1.04, 1.04, 1.04, 1.04, 1.04),
        "fades": outcome(1.08, 1.06, 1.045, 1.03, 1.015),
        "turns": outcome(1.05, 1.03, 1.01, 1.0, 0.99),
        "small": outcome(1.002, 1.002, 1.002, 1.002, 1.002),
        "small and growing": outcome(1.0, 1.0, 0.994, 0.998, 1.002),
        "a lower rate is better": outcome(1.04, 1.04, 1.04, 1.04, 1.04, lower={"b": 0.7}),
    }


def of_searches():
    values = (0.001, 0.003, 0.01, 0.03, 0.1)
    losses = (1.2, 1.06, 1.0, 1.04, None)
    first = rung(1, **{f"r{rate}": loss for rate, loss in zip(values, losses, strict=True)})
    last = rung(4, **{"r0.01": 0.8, "r0.03": 0.81})
    found = halving.chosen(first_search(values), [first, last])
    return {
        "grid": search.grid(0.006, points=5, decades=0.5),
        "extended": search.extended([1e-3, 1e-2, 1e-1], {"a": 1e-3, "b": 1e-1}, decades=0.5),
        "going on": halving.going_on(first, {"a": 8.0}),
        "best": found.best,
        "between": halving.between(found),
        "sensitivity": found.sensitivity,
    }


def of_ranges():
    """Ranges of rates and sensitivities of arms that learn everywhere, at some rates, and nowhere."""
    rates = ("0.001", "0.003", "0.01", "0.03")
    losses = {
        "everywhere": dict(zip(rates, ([1.6], [1.5], [1.6], [1.75]), strict=True)),
        "somewhere": dict(zip(rates, ([2.6], [1.5], [1.7], [None]), strict=True)),
        "nowhere": dict.fromkeys(rates, [2.6]),
    }
    known = search_of(losses, at_init=dict.fromkeys(losses, 8.0)) | {"unigram_bpb": 2.5}
    of = read(SearchRecord, known)
    return {
        f"{arm}, {measure}": list(lr_range.measured(of, arm, measure).values())
        for arm in losses
        for measure in ("max_stable", "width", "sensitivity")
    }


def of_rows():
    """The state of a row of the ledger from the outcomes of its claim, a part and one against it."""
    claim = RegisteredClaim("x", says="", notes="", papers=(), kind="trained", parts=("y",), against=("z",))
    asked = [None, *STATES[:4]]

    def state(own, part, against):
        outcomes = {"x": own, "y": part, "z": against}
        evidence = [
            Finding(name, "trained", outcome, why="", where="", conditions=(), protocol=PROTOCOL)
            for name, outcome in outcomes.items()
            if outcome
        ]
        return ledger.state(claim, evidence)

    return {f"{x}; {y}; {z}": state(x, y, z) for x in asked for y in asked for z in asked}


RULES = {
    "predicates": of_predicates,
    "directions": of_directions,
    "claims over horizons": of_claims_over_horizons,
    "searches": of_searches,
    "ranges": of_ranges,
    "rows": of_rows,
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_no_rule_moves_without_its_protocol(rule):
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    found = json.loads(json.dumps(RULES[rule]()))
    if os.environ.get("LAB_WRITE_GOLDEN") and (table.get("protocol") != PROTOCOL or rule not in table):
        kept = table if table.get("protocol") == PROTOCOL else {}
        TABLE.write_text(json.dumps({"protocol": PROTOCOL, **kept, rule: found}, indent=1) + "\n")
        return
    assert table["protocol"] == PROTOCOL
    assert found == table[rule]
