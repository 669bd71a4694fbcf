"""The cost of a verdict, by hand."""

import dataclasses

from lab.store.run_record import Parent
from tests.bench import verdict_cost
from tests.verdict.climbed import TOKENS, climbed


def test_a_trunk_counts_once_and_as_far_as_a_branch_left_it():
    """Two branches of a fifth of their horizons, of a trunk that the later one left at four fifths."""
    evidence = climbed({"a": [1.0, 0.9], "b": [1.1, 1.0]})
    records = []
    for k, name in enumerate(("a-0-0", "a-1-0")):
        record = evidence.run_records[name]
        summary = dataclasses.replace(record.ended, tokens=TOKENS[k] // 5)
        parent = Parent("trunk", 240 * 2**k, 2, TOKENS[k] * 4 // 5, ())
        records.append(dataclasses.replace(record, summary=summary, parent=parent))
    per_token = records[0].counts.flops_per_token
    found = verdict_cost.of_sweep(tuple(records))
    assert found.runs == 2
    assert found.pflop * 1e15 == per_token * (TOKENS[0] // 5 + TOKENS[1] // 5 + TOKENS[1] * 4 // 5)
    assert verdict_cost.of_grid(evidence.plan).runs == 2 * 5 * 8
