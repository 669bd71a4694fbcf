"""What is still to be run for the ledger? The cheapest first; what was published counts as done.

A piece of work is one command: `lab publish NAME SETTING` of a sweep that has ended here, `lab
verify-exact`, `lab measure CLAIM` or `lab sweep NAME`. A sweep serves all the claims of its ablation; what
it still lacks is estimated from the runs that have not ended and the pace of the published ones. A sweep
is stopped where the budget ends and goes on the next time; one that has ended is published, and the ledger
is written at the end.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.lecture import ledger, ledger_page
from lab.lecture.claim_test import ClaimTest, tested
from lab.lecture.core_minutes import flops
from lab.lecture.ledger import Ledger
from lab.report.publication import RESTORE
from lab.store import plan_record
from lab.store.identity import PROTOCOL
from lab.store.run_store import RunStore
from lab.store.states import END_STATES, STOPPED
from lab.verdict import verdict_record
from lab.verdict.evidence import conditions
from lab.verdict.outcomes import DECIDED, INCONCLUSIVE

LEAST_MINUTES = 1.0  # a sweep is not begun for less
VERIFY_MINUTES, MEASURE_MINUTES = 1.0, 1.0  # before either has run here


@dataclass(frozen=True)
class Work:
    """One command of `lab`, the claims it speaks to, and about how many core-minutes it takes."""

    command: tuple[str, ...]
    claims: tuple[str, ...]
    minutes: float


@dataclass(frozen=True)
class LocalSweeps:
    """What the unpublished sweeps of an ablation at nano on stories came to here.

    answered: the claims that each has answered, by setting. ended: how many runs have ended, of the sweep
    that got furthest.
    """

    answered: dict[str, tuple[str, ...]]
    ended: int


def open_work(known: Ledger, results: Path) -> list[Work]:
    """Everything that could still be run, cheapest first."""
    work = []
    missing = [row.id for row in known.rows if row.kind == "exact" and not row.evidence]
    if missing:
        work.append(Work(("verify-exact",), tuple(missing), VERIFY_MINUTES))
    for row in known.rows:
        kinds = {one.kind for one in row.evidence}
        if row.kind in ("init", "cost") and row.kind not in kinds:
            work.append(Work(("measure", row.id), (row.id,), MEASURE_MINUTES))
    work += _sweeps(known, results)
    return sorted(work, key=lambda item: (item.minutes, item.command))


def _sweeps(known: Ledger, results: Path) -> list[Work]:
    """Sweeps of ablations with a claim that neither a published nor a local verdict answers."""
    findings = [one for row in known.rows for one in row.evidence] + [*known.beyond_register]
    outdated = {one.claim for one in findings if one.outdated}
    told = [one for one in findings if one.decides and not one.outdated]
    answered = {one.claim for one in told if one.outcome in (*DECIDED, INCONCLUSIVE)}
    minutes_a_run = flops("nano") * known.pace / 60 if known.pace else 1.0
    by_ablation: dict[str, dict[str, ClaimTest]] = {}
    for claim, test in tested().items():
        by_ablation.setdefault(test.ablation, {})[claim] = test
    work = []
    for name, tests in by_ablation.items():
        any_test = next(
            iter(tests.values())
        )  # tests of one ablation share its seeds, search and core-minutes
        local = _local(
            results,
            name,
            searched=any_test.searched,
            seeds=any_test.seeds,
            horizons=any_test.horizons,
        )
        ended = max(local.ended, _published(results, name, searched=any_test.searched))
        work += [Work(("publish", name, setting), ids, 0.0) for setting, ids in local.answered.items()]
        wanted = [claim for claim in tests if claim not in answered.union(*local.answered.values())]
        if not wanted:
            continue
        extra = sorted({arm for claim in wanted for arm in tests[claim].needs})
        command = ("sweep", name, *(part for arm in extra for part in ("--with", arm)))
        command += ("--search",) if any_test.searched else ()
        anew = outdated & {*wanted} or (not any_test.horizons and _held_by_an_earlier_protocol(results, name))
        command += ("--fresh-seeds",) if anew else ()
        command += ("--published", "size=nano", "data=stories")
        left = max(max(tests[claim].runs for claim in wanted) - ended, 1) * minutes_a_run
        if any_test.core_minutes is not None:
            left = max(any_test.core_minutes - ended * minutes_a_run, minutes_a_run)
        work.append(Work(command, tuple(wanted), round(left, 2)))
    return work


def _local(results: Path, name: str, *, searched: bool, seeds: int, horizons: int) -> LocalSweeps:
    """The unpublished sweeps of an ablation.

    Where its claims rest on a search of learning rates, sweeps without one don't count; nor do those with
    conditions of their own, by an earlier protocol or to an earlier horizon, nor an inconclusive outcome of
    fewer seeds than the ablation asks for.
    """
    store, ended = RunStore(results / "runs"), 0
    answered: dict[str, tuple[str, ...]] = {}
    for path in sorted((results / "sweeps" / name).glob("nano-stories-*/plan.json")):
        plan = plan_record.load(path)
        if (searched and not (plan.search or plan.searching)) or conditions(plan, ()):
            continue
        if plan.protocol != PROTOCOL or len(plan.horizons) < horizons:
            continue
        runs = plan.run_ids()
        done = sum(store.state(run_id) in END_STATES for run_id in runs)
        ended = max(ended, done)
        public = results / name / path.parent.name / "plan.json"
        if public.exists() and set(runs) <= set(plan_record.load(public, fix=RESTORE).run_ids()):
            continue
        verdict = path.parent / "verdict.json"
        if done == len(runs) and verdict.exists() and plan.searching is None:
            final = plan.stopped is not None or len(plan.seeds) >= seeds
            found = tuple(
                claim.id
                for claim in verdict_record.load(verdict).claims
                if claim.outcome in DECIDED or (final and claim.outcome == INCONCLUSIVE)
            )
            answered |= {path.parent.name: found} if found else {}
    return LocalSweeps(answered, ended)


def _held_by_an_earlier_protocol(results: Path, name: str) -> bool:
    """Whether the folders that an ablation without horizons would be published in are taken, for good."""
    paths = (results / name).glob("nano-stories-cpu*/plan.json")
    return any(plan_record.load(path, fix=RESTORE).protocol < PROTOCOL for path in paths)


def _published(results: Path, name: str, *, searched: bool) -> int:
    """How many runs of an ablation at nano on stories are published."""
    paths = (results / name).glob("nano-stories-*/plan.json")
    plans = [plan_record.load(path, fix=RESTORE) for path in paths]
    alike = [p for p in plans if (p.search is not None) == searched and p.protocol == PROTOCOL]
    return max((len(plan.run_ids()) for plan in alike), default=0)


def run(work: Sequence[Work], results: Path, *, budget: float) -> int:
    """Run `budget` core-minutes of work, cheapest first, and write the ledger.

    Returns the exit status of the first command that fails, else 0.
    """
    left, status = budget, 0
    for number, item in enumerate(work):
        sweep = item.command[0] == "sweep"
        if left < (min(LEAST_MINUTES, item.minutes) if sweep else item.minutes):
            claims = sum(len(open_.claims) for open_ in work[number:])
            print(
                f"stopped: {len(work) - number} left, for {claims} claims; the next, lab "
                f"{' '.join(item.command[:2])}, needs about {item.minutes:.1f} core-minutes: make claims "
                f"BUDGET={math.ceil(item.minutes)}"
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
    print(ledger_page.write(ledger.load(results), results), file=sys.stderr)
    return status


def _carried_out(command: Sequence[str], *, minutes: float | None) -> tuple[int | None, float]:
    """(exit status of a command of `lab`, or None where it was stopped at so many minutes; core-minutes).

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
