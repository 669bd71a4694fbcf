"""The answer of a sweep fits a terminal, and says of each arm and claim what the verdict found."""

import dataclasses
import re

import pytest

from lab.config.strict import read
from lab.report.answer import WIDTH, answer, lines
from lab.report.rerun import command, further
from lab.store.plan_record import PlanRecord
from lab.store.run_record import RunRecord
from lab.verdict.evidence import gather
from lab.verdict.verdicts import verdict
from tests.synthetic_sweep import BASIN, sweep
from tests.verdict.climbed import climbed


def told(evidence, **published):
    return lines(answer(evidence, verdict(evidence), published))


def test_arms_stand_with_their_differences_at_the_horizons():
    levels = {"a": [2.0, 1.5, 1.2, 1.1, 1.0], "b": [2.4, 1.65, 1.236, 1.133, 1.03]}
    text = told(climbed(levels), c="open, 4 seeds")
    assert text[1].split()[:7] == ["arm", "bits/byte", "0.3M", "1.2M", "2.5M", "at", "4.9M,"]
    assert text[2].split()[0] == "a" and text[2].endswith("best") and "baseline" in text[2]
    b = text[3].split()
    assert b[0] == "b" and float(b[1]) == pytest.approx(1.03 * 1.0035, abs=1e-3)
    assert [float(value) for value in b[2:6]] == pytest.approx([20, 3, 3, 3], abs=0.1)
    assert text[3].endswith("clearly worse")
    assert text[4].startswith("At 4.9M tokens a is best. Clearly worse: b by 3.0 % (")
    assert "c: reproduced, persists (published: open, 4 seeds)" in "\n".join(text)


def test_many_arms_and_claims_fit_one_screen():
    losses = {f"plain_x{n}": [1.0 + n / 300, 1.03 + n / 600, 1.0] for n in (1, 2, 4, 6, 8, 32)}
    claims = [BASIN | {"id": f"basin-{n}"} for n in range(4)]
    plan, records = sweep(losses, claims=claims)
    evidence = gather(read(PlanRecord, plan), [read(RunRecord, one) for one in records])
    text = told(evidence)
    assert len(text) <= 25 and max(map(len, text)) <= WIDTH
    assert re.search(r"basin-0: inconclusive\. plain \d+x against plain \d+x: [+-]", "\n".join(text))


def test_no_difference_is_an_answer():
    plan, records = sweep({"f_x1": [1.0, 1.1, 1.2], "f_x2": [1.05, 1.0, 1.25]}, claims=[])
    evidence = gather(read(PlanRecord, plan), [read(RunRecord, one) for one in records])
    assert "no difference was found between f 1x and f 2x; it is" in "\n".join(told(evidence))


def test_an_open_claim_says_what_it_would_take():
    text = "\n".join(told(climbed({"a": [2.0, 1.5, 1.2, 1.1, 1.0], "b": [1.8, 1.4, 1.2, 1.13, 1.02]})))
    assert "needs longer runs: the effect changes its sign" in text


def test_the_next_command_keeps_what_was_asked_and_leaves_out_how_far():
    plan, _ = sweep({"f_x1": [1.0, 1.1], "f_x2": [1.1, 1.2]}, claims=[])
    record = dataclasses.replace(read(PlanRecord, plan), ablation="mine", size="micro", data="stories")
    asked = dataclasses.replace(
        record, overrides=("size=micro", "optimizer.eps=1e-7"), flags=("--with f_x2",)
    )
    assert further(asked) == "make sweep-mine SIZE=micro SEARCH=1 ARGS='--with f_x2 optimizer.eps=1e-7'"
    assert command(record) == "make sweep-mine SIZE=micro DATA=stories SEEDS=2"
