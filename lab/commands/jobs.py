"""How the jobs of any plan are carried out and told of: trained, taken from published lines, opened again,
listed, reported.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from lab.commands import listing, places
from lab.store.identity import NUMERICS
from lab.store.run_store import LIKENESS
from lab.store.states import END_STATES, RESULT_STATES

MENTIONED = 3


def execute(plan: Any, *, quiet: bool) -> dict[str, str]:
    """Train a plan's jobs with the tracker following and progress shown."""
    from lab.sweep import local as sweep
    from lab.sweep.progress import shown
    from lab.track import follower as tracker

    store = places.store()
    follower = (
        tracker.start(
            places.RESULTS / "runs",
            places.RESULTS / plan.tracker.name,
            list(plan.jobs),
            board=plan.tracker.name,
            project=plan.tracker.project,
            mode=plan.tracker.mode,
        )
        if plan.tracker.name != "none"
        else None
    )
    try:
        with shown(quiet=quiet) as show:
            return sweep.execute(plan.jobs, store, workers=plan.engine.workers, show=show)
    except sweep.Stopped:
        print("stopped; every started run is saved. The same command continues.", file=sys.stderr)
        raise KeyboardInterrupt from None
    finally:
        if follower:
            follower.close()


def told(plan: Any, *, group: str, options: argparse.Namespace, with_report: bool = False) -> int:
    """Print what came of a plan; 0 when every run has a result."""
    page = write_report(plan.record, plan.folder) if with_report else None
    rows = outcomes(plan, group=group)
    if options.json or not page:
        listing.show(rows, as_json=options.json, columns=("id", "state", "arm", "seed", "tokens", "val/bpb"))
    else:
        listing.print_outcomes(plan.folder)
        print(f"report: {listing.shown(page)}")
    return tell_failures(rows)


def outcomes(plan: Any, *, group: str) -> list[dict[str, Any]]:
    """The record of every run of a plan."""
    return [
        listing.run_row(places.store(), run_id, group=group, arm=job["manifest"]["job_type"])
        for run_id, job in plan.jobs.items()
    ]


def tell_failures(rows: list[dict[str, Any]]) -> int:
    """Say which runs ended early and which have no result; 0 when every run has one."""
    ended_early = [row for row in rows if row["state"] in RESULT_STATES and row["state"] != "finished"]
    for row in ended_early[:MENTIONED]:
        print(f"{row['arm']}, seed {row['seed']}, {row['state']}: {row['reason']}", file=sys.stderr)
    if len(ended_early) > MENTIONED:
        print(f"... and {len(ended_early) - MENTIONED} more; see lab status", file=sys.stderr)
    failed = [row for row in rows if row["state"] not in RESULT_STATES]
    for reason in sorted({row["reason"] or f"run {row['id']} is {row['state']}" for row in failed}):
        print(f"error: {reason}", file=sys.stderr)
    if failed:
        open_ = any(row["state"] != "failed" for row in failed)
        way_on = (
            "the same command goes on with those that have not ended, --retry runs failed ones again"
            if open_
            else "--retry runs them again"
        )
        print(f"error: {len(failed)} of {len(rows)} runs have no result; {way_on}.", file=sys.stderr)
    return 1 if failed else 0


def reopen(plan: Any) -> None:
    """Make failed runs, and finished ones of another torch or kind of device, pending again."""
    from lab.store.provenance import provenance

    store = places.store()
    for run_id, job in plan.jobs.items():
        here = provenance(job["device"])
        state = store.state(run_id)
        if state == "failed":
            store.reopen(run_id)
        elif state in END_STATES:
            there = store.read(run_id, "manifest.json")["provenance"]
            if any(there[key] != here[key] for key in LIKENESS):
                store.clear(run_id)


def adopt(plan: Any) -> int:
    """Enter published results of runs that have not started here, of the torch and kind of device of here;
    how many.
    """
    from lab.config.schema import run_config
    from lab.report.publication import published_runs
    from lab.store.provenance import provenance

    store, entered = places.store(), 0
    for record in published_runs(places.RESULTS):
        job = plan.jobs.get(record["run_id"])
        if job is None or record["numerics"] != NUMERICS or store.state(record["run_id"]) != "pending":
            continue
        here = provenance(job["device"])
        if all(record["provenance"][key] == here[key] for key in LIKENESS):
            entered += store.adopt(record, run_config(job["config"]), job["manifest"])
    return entered


def write_report(plan: dict[str, Any], folder: Path) -> Path:
    """Write the report of a plan from the runs that the store has; returns the page."""
    from lab.report import write
    from lab.verdict.evidence import exact_lines, run_ids

    store = places.store()
    known = set(store.ids())
    records = [store.record(run_id) for run_id in run_ids(plan) if run_id in known]
    return Path(write(plan, records, folder, exact=exact_lines(places.RESULTS)))
