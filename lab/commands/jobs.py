"""How the jobs of any plan are carried out: planned, opened again, taken from published lines, trained."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.commands import places
from lab.store.states import END_STATES

if TYPE_CHECKING:
    from lab.plan.job_set import Jobs, JobSet
    from lab.plan.planning import Plan
    from lab.store.run_record import Provenance


def planned(
    options: argparse.Namespace,
    overrides: list[str],
    *,
    elsewhere: bool = False,
    quick: bool = True,
    first_seed: int = 0,
) -> "Plan":
    """The plan of an ablation as the options ask for it (see `add_planning`), its data prepared.

    quick: end early where nothing else is asked (lab/plan/planning.py). first_seed: of those that judge.
    """
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
            horizon=options.horizon,
            quick=quick,
            first_seed=first_seed,
        )


def tell(accounts: Sequence[str]) -> None:
    """Say what was read of the user's text, on the channel of errors; listings stay clean."""
    for account in accounts:
        print(f"text: {account}", file=sys.stderr)


def reopen(jobs: "Jobs") -> None:
    """Make failed runs, and finished ones of another torch or kind of device, pending again."""
    from lab.store import provenance

    store = places.store()
    for run_id, job in jobs.items():
        state = store.state(run_id)
        if state == "failed":
            store.reopen(run_id)
        elif state in END_STATES:
            if not _mixes(store.manifest(run_id).provenance, provenance.here(job.device)):
                store.clear(run_id)


def adopt(jobs: "Jobs") -> int:
    """Enter published results of runs that have not started here, of the torch and kind of device of here;
    how many.
    """
    from lab.report.publication import published_runs
    from lab.store import provenance
    from lab.store.identity import NUMERICS

    store, entered = places.store(), 0
    for record, line in published_runs(places.RESULTS):
        job = jobs.get(record.run_id)
        if job is None or record.numerics != NUMERICS or store.state(record.run_id) != "pending":
            continue
        if _mixes(record.provenance, provenance.here(job.device)):
            entered += store.adopt(line, job.config, job.manifest)
    return entered


def _mixes(there: "Provenance", here: "Provenance") -> bool:
    """Whether numbers of the one may stand beside numbers of the other."""
    return (there.torch, there.device_kind) == (here.torch, here.device_kind)


def execute(work: "JobSet", *, quiet: bool) -> dict[str, str]:
    """Train jobs with the tracker following and progress shown; returns the state of each run id."""
    from lab.sweep import local
    from lab.sweep.progress import shown
    from lab.track import follower

    store, tracker = places.store(), work.tracker
    following = (
        follower.start(
            places.RESULTS / "runs",
            places.RESULTS / tracker.name,
            list(work.jobs),
            board=tracker.name,
            project=tracker.project,
            mode=tracker.mode,
        )
        if tracker.name != "none"
        else None
    )
    try:
        with shown(quiet=quiet) as show:
            return local.execute(work.jobs, store, workers=work.engine.workers, show=show)
    except local.Stopped:
        print("stopped; every started run is saved. The same command continues.", file=sys.stderr)
        raise KeyboardInterrupt from None
    finally:
        if following:
            following.close()
