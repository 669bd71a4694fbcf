"""What is still to be run for the ledger, and in which order? The cheapest first, published lines counted
as done.

A piece of work is one command: `lab publish NAME SETTING` of a sweep that has ended here, `lab
verify-exact`, `lab measure CLAIM` or `lab sweep NAME`. A sweep serves all the claims of its ablation; what
it still lacks is estimated from the runs that have not ended and the pace of the published ones. A sweep
is stopped where the budget ends and goes on the next time; one that has ended is published, and the ledger
is written at the end.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.lecture import ledger
from lab.lecture import ledger_page as page
from lab.lecture.ledger import ROOT, Row, flops, seconds_per_flop, tested
from lab.store.run_store import RunStore
from lab.store.states import END_STATES, STOPPED
from lab.verdict.evidence import conditions, run_ids
from lab.verdict.outcomes import DECIDED, INCONCLUSIVE

LEAST_MINUTES = 1.0  # a sweep is not begun for less
VERIFY_MINUTES, MEASURE_MINUTES = 1.0, 1.0  # before either has run here


@dataclass(frozen=True)
class Work:
    """One command of `lab`, the claims it speaks to, and about how many core-minutes it takes."""

    command: tuple[str, ...]
    claims: tuple[str, ...]
    minutes: float


def open_work(rows: Sequence[Row], results: Path, *, root: Path = ROOT) -> list[Work]:
    """Everything that could still be run, cheapest first."""
    work = []
    missing = [row["id"] for row in rows if row["kind"] == "exact" and not row["evidence"]]
    if missing:
        work.append(Work(("verify-exact",), tuple(missing), VERIFY_MINUTES))
    for row in rows:
        kinds = {item["kind"] for item in row["evidence"]}
        if row["kind"] in ("init", "cost") and row["kind"] not in kinds:
            work.append(Work(("measure", row["id"]), (row["id"],), MEASURE_MINUTES))
    work += _sweeps(rows, results, root)
    return sorted(work, key=lambda item: (item.minutes, item.command))


def _sweeps(rows: Sequence[Row], results: Path, root: Path) -> list[Work]:
    """Sweeps of ablations with a claim that neither a published nor a local verdict answers."""
    evidence = [item for row in rows for item in row["evidence"]] + ledger.beyond_register(results, root=root)
    answered = {item["claim"] for item in evidence if _answers(item["outcome"])}
    pace = seconds_per_flop(results)
    minutes_a_run = flops("nano", root) * pace / 60 if pace else 1.0
    by_ablation: dict[str, list[str]] = {}
    for claim, test in tested(root).items():
        by_ablation.setdefault(test["ablation"], []).append(claim)
    work = []
    for name, claims in by_ablation.items():
        searched, seeds = (tested(root)[claims[0]][key] for key in ("search", "seeds"))
        local, ended = _local(results, name, searched=searched, seeds=seeds)
        ended = max(ended, _published(results, name, searched=searched))
        work += [Work(("publish", name, setting), tuple(told), 0.0) for setting, told in local.items()]
        wanted = [claim for claim in claims if claim not in answered.union(*local.values())]
        if not wanted:
            continue
        extra = sorted({arm for claim in wanted for arm in tested(root)[claim]["needs"]})
        tests = [tested(root)[claim] for claim in wanted]
        command = ("sweep", name, *(part for arm in extra for part in ("--with", arm)))
        command += ("--search",) if tests[0]["search"] else ()
        command += ("--published", "size=nano", "data=stories")
        left = max(max(test["runs"] for test in tests) - ended, 1) * minutes_a_run
        if (stated := tests[0]["core_minutes"]) is not None:
            left = max(stated - ended * minutes_a_run, minutes_a_run)
        work.append(Work(command, tuple(wanted), round(left, 2)))
    return work


def _answers(outcome: str) -> bool:
    return outcome in (*DECIDED, INCONCLUSIVE)


def _local(results: Path, name: str, *, searched: bool, seeds: int) -> tuple[dict[str, list[str]], int]:
    """Claims of an ablation that unpublished sweeps at nano on stories have answered here, by setting; how
    many runs have ended.

    Where its claims rest on a search of learning rates, sweeps without one don't count; nor do those with
    conditions of their own, nor an inconclusive outcome of fewer seeds than the ablation asks for.
    """
    store, ended = RunStore(results / "runs"), 0
    answered: dict[str, list[str]] = {}
    for path in sorted((results / "sweeps" / name).glob("nano-stories-*/plan.json")):
        plan: dict[str, Any] = json.loads(path.read_text())
        if (searched and not (plan.get("search") or plan.get("searching"))) or conditions(plan, ()):
            continue
        runs = run_ids(plan)
        done = sum(store.state(run_id) in END_STATES for run_id in runs)
        ended = max(ended, done)
        public = results / name / path.parent.name / "plan.json"
        if public.exists() and set(runs) <= set(run_ids(json.loads(public.read_text()))):
            continue
        verdict = path.parent / "verdict.json"
        if done == len(runs) and verdict.exists() and "searching" not in plan:
            final = plan.get("stopped") or len(plan["seeds"]) >= seeds
            claims = json.loads(verdict.read_text())["claims"]
            found = [
                claim["id"]
                for claim in claims
                if claim["outcome"] in DECIDED or (final and claim["outcome"] == INCONCLUSIVE)
            ]
            answered |= {path.parent.name: found} if found else {}
    return answered, ended


def _published(results: Path, name: str, *, searched: bool) -> int:
    """How many runs of an ablation at nano on stories are published."""
    plans = [json.loads(path.read_text()) for path in (results / name).glob("nano-stories-*/plan.json")]
    return max((len(run_ids(plan)) for plan in plans if bool(plan.get("search")) == searched), default=0)


def run(work: Sequence[Work], results: Path, *, budget: float) -> int:
    """Run `budget` core-minutes of work, cheapest first; the exit status of the first command that fails,
    else 0.
    """
    left, status = budget, 0
    for number, item in enumerate(work):
        sweep = item.command[0] == "sweep"
        if left < (min(LEAST_MINUTES, item.minutes) if sweep else item.minutes):
            claims = sum(len(open_.claims) for open_ in work[number:])
            print(
                f"stopped: {len(work) - number} left, for {claims} claims; the next, lab {' '.join(item.command[:2])}, needs about "
                f"{item.minutes:.1f} core-minutes: make claims BUDGET={math.ceil(item.minutes)}"
            )
            break
        print(
            f"lab {' '.join(item.command)}: about {item.minutes:.1f} of {left:.1f} core-minutes", flush=True
        )
        ended, spent = _carried_out(item.command, minutes=left if sweep else None)
        left = max(0.0, left - spent)
        if ended is None:
            print(
                f"stopped: {len(work) - number} left, this one among them; the same command goes on with it"
            )
            break
        if item.command[0] == "publish":
            continue  # what is refused was told, and nothing else waits for it
        if ended:
            status = ended
            break
        if sweep:
            _carried_out(("publish", item.command[1], _newest(item.command[1], results)), minutes=None)
    else:
        print(f"nothing left to run; {left:.1f} core-minutes unspent")
    for path in page.write(ledger.rows(results), ledger.beyond_register(results), results):
        print(path, file=sys.stderr)
    return status


def _carried_out(command: Sequence[str], *, minutes: float | None) -> tuple[int | None, float]:
    """The exit status of a command of `lab`, None where it was stopped at so many core-minutes; and how
    many it took.

    A command holds all cores while it runs: its runs are processes of a server, whose CPU time no one can
    wait for.
    """
    cores, began = len(os.sched_getaffinity(0)), time.monotonic()
    with subprocess.Popen([sys.executable, "-m", "lab", *command]) as process:
        try:
            status: int | None = process.wait(None if minutes is None else minutes * 60 / cores)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            status = None if (code := process.wait()) == STOPPED else code
    return status, (time.monotonic() - began) * cores / 60


def _newest(name: str, results: Path) -> str:
    """The setting of the sweep of an ablation that has just ended."""
    plans = (results / "sweeps" / name).glob("*/plan.json")
    return max(plans, key=lambda path: path.stat().st_mtime).parent.name
