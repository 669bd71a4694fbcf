"""What is still to be run for the ledger: cheapest first, within its budget, nothing paid twice."""

import dataclasses
import json
import subprocess
import time

import pytest

from lab.lecture import claim_test, ledger, register, worklist
from tests.paths import ROOT
from tests.published_sweep import publish, told
from tests.synthetic_sweep import sweep, verdict

RESULTS = ROOT / "results"


def plan_of(runs, *, seeds=2, overrides=()):
    """A plan with the runs of each of its arms by seed."""
    plan, _ = sweep({f"plain_x{number}": [1.5] * seeds for number in range(max(len(runs), 1))})
    arms = [arm | {"runs": of} for arm, of in zip(plan["arms"], runs, strict=False)]
    return plan | {"arms": arms, "seeds": list(range(seeds)), "overrides": list(overrides), "protocol": 2}


def verdict_of(outcomes):
    """A verdict on claims with an outcome each."""
    plan, records = sweep({"plain_x1": [1.5, 1.5], "plain_x4": [1.5, 1.5]}, claims=[])
    return verdict(plan, records) | {"claims": [told(claim, outcome) for claim, outcome in outcomes.items()]}


def work_in(results):
    return worklist.open_work(ledger.load(results), results)


def test_a_claim_that_moved_is_judged_with_fresh_seeds(tmp_path, monkeypatch):
    publish(tmp_path, "zloss-heavy-confidence", "reproduced", ablation="confidence")
    (sweep_,) = [item for item in work_in(tmp_path) if item.command[:2] == ("sweep", "confidence")]
    assert "--fresh-seeds" not in sweep_.command and "zloss-heavy-confidence" not in sweep_.claims
    rows = [dataclasses.replace(row, says=f"{row.says} So.") for row in register.register()]
    monkeypatch.setattr("lab.lecture.finding.register", lambda: rows)
    (sweep_,) = [item for item in work_in(tmp_path) if item.command[:2] == ("sweep", "confidence")]
    assert "--fresh-seeds" in sweep_.command and "zloss-heavy-confidence" in sweep_.claims


def test_what_protocol_1_published_is_open_and_its_folder_is_left_alone(tmp_path):
    """Fresh seeds have a folder of their own; so have horizons, with any seeds."""
    for claim, ablation in (("zloss-heavy-confidence", "confidence"), ("dff-ratio-basin", "ffn-ratio")):
        publish(tmp_path, claim, "reproduced", ablation=ablation, protocol=1)
    for claim, ablation, fresh in (
        ("zloss-heavy-confidence", "confidence", True),
        ("dff-ratio-basin", "ffn-ratio", False),
    ):
        [item] = [item for item in work_in(tmp_path) if item.command[:2] == ("sweep", ablation)]
        assert claim in item.claims and ("--fresh-seeds" in item.command) is fresh


@pytest.mark.slow
def test_todo_is_cheapest_first_and_published_lines_are_done(tmp_path):
    work = work_in(tmp_path)
    assert [item.minutes for item in work] == sorted(item.minutes for item in work)
    commands = [item.command for item in work]
    assert ("verify-exact",) in commands and ("measure", "depth-latency") in commands
    assert any(command[:2] == ("sweep", "confidence") for command in commands)
    here = work_in(RESULTS)
    assert ("verify-exact",) not in [item.command for item in here]
    listed = {claim for item in here for claim in item.claims}
    assert "depth-latency" not in listed and "dff-ratio-basin" in listed  # which protocol 1 alone has judged
    publish(tmp_path, "zloss-heavy-confidence", "reproduced")
    (sweep_,) = [item for item in work_in(tmp_path) if item.command[:2] == ("sweep", "confidence")]
    assert "zloss-heavy-confidence" not in sweep_.claims and sweep_.command[2:] == (
        "--published",
        "size=nano",
        "data=stories",
    )


def test_what_ended_here_is_not_paid_again(tmp_path):
    def minutes():
        work = work_in(tmp_path)
        return next((item.minutes for item in work if item.command[:2] == ("sweep", "confidence")), None)

    before, folder = minutes(), tmp_path / "sweeps/confidence/nano-stories-cpu"
    folder.mkdir(parents=True)
    runs = [{"0": f"a{arm}", "1": f"b{arm}"} for arm in range(3)]
    (folder / "plan.json").write_text(json.dumps(plan_of(runs, seeds=3)))
    for arm in range(3):
        run = tmp_path / f"runs/a{arm}"
        run.mkdir(parents=True)
        (run / "summary.json").write_text('{"state": "finished", "reason": null}')
    assert minutes() == pytest.approx(before - 3 * 1.0)  # a minute a run before any was published
    claims = [claim for claim, test in claim_test.tested().items() if test.ablation == "confidence"]
    (folder / "verdict.json").write_text(json.dumps(verdict_of(dict.fromkeys(claims, "reproduced"))))
    assert minutes() is not None  # three runs are still open
    for arm in range(3):
        run = tmp_path / f"runs/b{arm}"
        run.mkdir()
        (run / "summary.json").write_text('{"state": "diverged", "reason": null}')
    assert minutes() is None
    [item] = [item for item in work_in(tmp_path) if item.command[0] == "publish"]
    assert item.command == ("publish", "confidence", "nano-stories-cpu") and item.minutes == 0.0
    assert set(item.claims) == set(claims)
    public = tmp_path / "confidence/nano-stories-cpu/plan.json"
    public.parent.mkdir(parents=True)
    for published, open_ in ((runs[:2], True), (runs, False)):
        public.write_text(json.dumps(plan_of(published)))
        listed = worklist.open_work(ledger.Ledger((), (), None), tmp_path)
        assert any(item.command[:2] == ("publish", "confidence") for item in listed) is open_


@pytest.mark.parametrize(
    ("setting", "seeds", "outcome", "overrides", "open_"),
    [
        ("nano-stories-cpu", 8, "inconclusive", ["size=nano", "tracker=none"], False),
        ("nano-stories-cpu", 1, "inconclusive", [], True),
        ("nano-stories-cpu-a1b2c3", 3, "reproduced", ["optimizer.lr=1e-5"], True),
        ("pico-stories-cpu", 3, "reproduced", [], True),
    ],
)
def test_a_toy_sweep_answers_no_claim(tmp_path, setting, seeds, outcome, overrides, open_):
    folder = tmp_path / "sweeps/confidence" / setting
    folder.mkdir(parents=True)
    plan = plan_of([], seeds=seeds, overrides=overrides)
    (folder / "plan.json").write_text(json.dumps(plan))
    outcomes = dict.fromkeys(claim_test.tested(), outcome)
    (folder / "verdict.json").write_text(json.dumps(verdict_of(outcomes)))
    work = work_in(tmp_path)
    assert any(item.command[:2] == ("sweep", "confidence") for item in work) is open_


def test_the_budget_is_kept_and_a_failure_ends_the_run(monkeypatch, capsys, tmp_path):
    ran: list[str] = []
    monkeypatch.setattr(
        worklist, "_carried_out", lambda command, *, minutes: (ran.append(command[0]) or 0, 2.0)
    )
    work = [
        worklist.Work((name,), (), minutes)
        for name, minutes in (("a", 1.0), ("b", 1.5), ("c", 2.0), ("d", 9.0))
    ]
    assert worklist.run(work, tmp_path, budget=5.0) == 0
    assert ran == ["a", "b"]
    assert (
        "2 left, for 0 claims; the next, lab c, needs about 2.0 core-minutes: make claims BUDGET=2\n"
        in capsys.readouterr().out
    )
    assert "not run" in (tmp_path / "LEDGER.md").read_text()
    monkeypatch.setattr(
        worklist, "_carried_out", lambda command, *, minutes: (ran.append(command[0]) or 3, 2.0)
    )
    assert worklist.run(work, tmp_path, budget=5.0) == 3 and ran[-1] == "a"


def test_a_sweep_that_has_ended_is_published_and_a_refusal_stops_nothing(monkeypatch, tmp_path):
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        worklist,
        "_carried_out",
        lambda command, *, minutes: (ran.append(command) or 2 * (command[0] == "publish"), 0.1),
    )
    plan = tmp_path / "sweeps/norm/nano-stories-cpu/plan.json"
    plan.parent.mkdir(parents=True)
    plan.write_text("{}")
    work = [
        worklist.Work(("publish", "bias", "nano-stories-cpu"), (), 0.0),
        worklist.Work(("sweep", "norm"), (), 1.0),
    ]
    assert worklist.run(work, tmp_path, budget=5.0) == 0
    assert ran == [
        ("publish", "bias", "nano-stories-cpu"),
        ("sweep", "norm"),
        ("publish", "norm", "nano-stories-cpu"),
    ]


def test_a_sweep_is_stopped_where_the_budget_ends(monkeypatch, capsys, tmp_path):
    given: list[float | None] = []
    monkeypatch.setattr(
        worklist, "_carried_out", lambda command, *, minutes: (given.append(minutes), minutes)
    )
    work = [worklist.Work(("sweep", "norm"), (), 82.0), worklist.Work(("sweep", "bias"), (), 90.0)]
    assert worklist.run(work, tmp_path, budget=10.0) == 0
    assert given == [10.0] and "2 left, this one among them" in capsys.readouterr().out


@pytest.mark.parametrize("status", [130, 0])
def test_a_command_at_the_end_of_its_budget_is_interrupted_and_may_still_end_well(
    monkeypatch, tmp_path, status
):
    started, told = tmp_path / "started", tmp_path / "told"
    slow = f"""
import pathlib, signal, sys, time
def stop(*_):
    pathlib.Path({str(told)!r}).touch()
    sys.exit({status})
signal.signal(signal.SIGINT, stop)
pathlib.Path({str(started)!r}).touch()
time.sleep(600)
"""
    real = subprocess.Popen

    def begun(words):
        process = real([words[0], "-c", slow])
        while not started.exists():
            time.sleep(0.01)
        return process

    monkeypatch.setattr(subprocess, "Popen", begun)
    ended, spent = worklist._carried_out(["sweep", "norm"], minutes=0.01)
    assert told.exists() and ended == (None if status == 130 else 0) and spent >= 0.01
