"""A published sweep written by hand: one claim, two arms, two seeds."""

import dataclasses
import json

from lab.lecture import claim_test
from lab.lecture import register as notes
from lab.store import plan_record, registration
from tests.synthetic_sweep import sweep, verdict

REGISTERED = "2026-12-01T09:00:00+00:00"


def told(claim, outcome, *, why="because", seeds=2):
    """What a verdict says of a claim, as verdict.json keeps it."""
    return {
        "id": claim,
        "statement": "a statement",
        "source": "a paper",
        "prediction": "reproduced",
        "metric": "val/bpb",
        "predicate": {"superior": {"better": "plain_x4", "worse": "plain_x1", "margin": 0.01}},
        "family": None,
        "outcome": outcome,
        "why": why,
        "parts": [],
        "estimates": [],
        "p_values": None,
        "levels": None,
        "detectable": None,
        "detectable_percent": None,
        "margins_percent": [1.0],
        "seeds": seeds,
        "looks": [seeds],
    }


def publish(
    results,
    claim,
    outcome,
    *,
    setting="nano-stories-cpu",
    why="because",
    seconds=60.0,
    overrides=(),
    ablation="an-ablation",
    protocol=2,
    tokens=307_200,
    direction=None,
):
    """A published sweep whose verdict says `outcome` of `claim`."""
    folder = results / ablation / setting
    (folder / "figures").mkdir(parents=True)
    (folder / "figures" / "final.svg").touch()
    plan, records = sweep({"plain_x1": [1.5, 1.5], "plain_x4": [1.5, 1.5]}, claims=[])
    plan |= {"data": setting.split("-")[1], "overrides": list(overrides), "protocol": protocol}
    for arm in plan["arms"]:
        arm["tokens"] = tokens
    for number, record in enumerate(records):
        record["summary"]["seconds"] = seconds
        record["provenance"] |= {"device": "a CPU", "commit": f"{number % 2}abc"}
        record["counts"] |= {"flops_per_token": 1_000_000}
    found = verdict(plan, records)
    claims = [told(claim, outcome, why=why)]
    if direction:
        claims[0]["direction"] = {
            "name": direction,
            "arm": "plain_x1",
            "against": "plain_x4",
            "points": [],
            "by": "val/bpb",
            "followed": [],
            "slope": 0.0,
            "later_tokens": 8 * tokens,
            "later": {"n": 2, "mean": 0.1, "sd": 0.0, "low": 0.1, "high": 0.1},
        }
    found |= {"claims": claims, "confounds": ["one rate for all"]}
    for name, value in (("verdict.json", found), ("plan.json", plan)):
        (folder / name).write_text(json.dumps(value))
    (folder / "runs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    if protocol == 2:
        rows = {row.id: row.asks for row in notes.register() if claim in row.rests_on}
        rules = registration.of_plan(
            plan_record.load(folder / "plan.json"), rows=rows, search=None, common=()
        )
        test = claim_test.tested().get(claim)
        asked = {claim: test.digest} if test else {}
        registration.save(dataclasses.replace(rules, claims=asked, date=REGISTERED), folder)
