"""How the jobs of any plan are carried out: planned, trained, opened again, taken from published lines."""

import argparse
import sys
from typing import Any

from lab.commands import places
from lab.store.states import END_STATES


def planned(options: argparse.Namespace, overrides: list[str], *, elsewhere: bool = False) -> Any:
    """The plan of an ablation as the options ask for it (see `add_planning`), its data prepared."""
    from lab.plan import planning
    from lab.sweep.progress import preparing

    with preparing() as show:
        return planning.make(
            options.name,
            overrides,
            results=places.RESULTS,
            cache=places.CACHE,
            seeds=options.seeds,
            extra_arms=options.extra_arms,
            hold=options.match,
            progress=show,
            elsewhere=elsewhere,
        )


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


def reopen(plan: Any) -> None:
    """Make failed runs, and finished ones of another torch or kind of device, pending again."""
    from lab.store.provenance import provenance
    from lab.store.run_store import LIKENESS

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
    from lab.store.identity import NUMERICS
    from lab.store.provenance import provenance
    from lab.store.run_store import LIKENESS

    store, entered = places.store(), 0
    for record in published_runs(places.RESULTS):
        job = plan.jobs.get(record["run_id"])
        if job is None or record["numerics"] != NUMERICS or store.state(record["run_id"]) != "pending":
            continue
        here = provenance(job["device"])
        if all(record["provenance"][key] == here[key] for key in LIKENESS):
            entered += store.adopt(record, run_config(job["config"]), job["manifest"])
    return entered
