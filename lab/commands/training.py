"""`lab train`, and how the jobs of any plan are carried out and told of."""

import argparse
import sys
from typing import Any

from lab import listing, places
from lab.commands.runs import write_report
from lab.config import ConfigError
from lab.runs import END_STATES, LIKENESS, NUMERICS, RESULT_STATES

MENTIONED = 3


def train(options: argparse.Namespace, overrides: list[str]) -> int:
    if options.cfg or options.info:
        return _hydra(options, overrides)
    from lab.compose import expand
    from lab.plan import make_single
    from lab.progress import preparing

    points = expand(overrides) if options.multirun else [overrides]
    with preparing() as show:
        plan = make_single(points, results=places.RESULTS, cache=places.CACHE, progress=show)
    print(f"{len(plan.jobs)} to train: {plan.record['setting']}", file=sys.stderr)
    if options.retry:
        reopen(plan)
    execute(plan, quiet=options.json)
    return told(plan, group="train", options=options)


def _hydra(options: argparse.Namespace, overrides: list[str]) -> int:
    """Hydra's own --cfg and --info on the same tree, after our own check of the overrides."""
    import hydra

    from lab.compose import CONF, Override, checked, machine_defaults

    flags = [f"--{flag}={value}" for flag, value in (("cfg", options.cfg), ("info", options.info)) if value]
    written = [Override(text) for text in overrides]
    texts, _, problems = checked([*machine_defaults(written), *written])
    if problems:
        raise ConfigError(problems)
    sys.argv = ["lab train", *texts, "hydra.run.dir=.", "hydra.output_subdir=null", *flags]
    hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(lambda config: None)()
    return 0


def execute(plan: Any, *, quiet: bool) -> dict[str, str]:
    """Train a plan's jobs with the tracker following and progress shown."""
    from lab import sweep, tracker
    from lab.progress import shown

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
        print(
            f"error: {len(failed)} of {len(rows)} runs have no result; --retry runs them again.",
            file=sys.stderr,
        )
    return 1 if failed else 0


def reopen(plan: Any) -> None:
    """Make failed runs, and finished ones of another torch or kind of device, pending again."""
    from lab.provenance import provenance

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
    """Enter published results of runs that have not started here, of the torch and kind of device of here; how many."""
    from lab.config import run_config
    from lab.provenance import provenance
    from lab.publish import published_runs

    store, entered = places.store(), 0
    for record in published_runs(places.RESULTS):
        job = plan.jobs.get(record["run_id"])
        if job is None or record["numerics"] != NUMERICS or store.state(record["run_id"]) != "pending":
            continue
        here = provenance(job["device"])
        if all(record["provenance"][key] == here[key] for key in LIKENESS):
            entered += store.adopt(record, run_config(job["config"]), job["manifest"])
    return entered
