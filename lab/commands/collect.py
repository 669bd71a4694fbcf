"""`lab collect`: the runs of a folder of `lab plan --out`, trained elsewhere, merged and reported here."""

import argparse
import sys
from pathlib import Path

from lab.commands import listing, places, reports
from lab.commands.arguments import add_json
from lab.store.states import RESULT_STATES

HELP = "merge the runs that python -m lab.sweep.away DIR trained, and write their report"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="a folder of lab plan NAME --out DIR, back again"
    )
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.sweep import parcel

    collected, page = parcel.collect(options.folder, places.store()), None
    if any(run.state in RESULT_STATES for run in collected):
        page = _report(options.folder)
    rows = [
        {"id": run.run_id, "state": run.state, "arm": run.arm, "seed": run.seed, "note": run.note}
        for run in collected
    ]
    listing.show(rows, as_json=options.json, columns=("id", "state", "arm", "seed", "note"))
    if page and not options.json:
        print(f"report: {listing.shown(page)}")
    return 0 if all(run.state in (*RESULT_STATES, "paused") for run in collected) else 1


def _report(folder: Path) -> Path:
    """Write the report of the folder's sweep; where a sweep here has runs that it lacks, that of the sweep
    here.
    """
    from lab.store import plan_record
    from lab.sweep import parcel

    record = parcel.plan_of(folder)
    home = places.RESULTS / "sweeps" / record.ablation / record.setting
    if (home / "plan.json").exists():
        fix = f"Remove it, and collect {listing.shown(folder)} again."
        known = plan_record.load(home / "plan.json", fix=fix)
        ours, theirs = set(known.run_ids()), set(record.run_ids())
        if ours - theirs and theirs - ours:
            print(
                f"the report is that of the sweep here, which has {len(ours - theirs)} other runs; "
                "lab sweep with all seeds and arms reports both",
                file=sys.stderr,
            )
        if ours - theirs:
            record = known
    plan_record.save(record, home)
    return reports.written(record, home)[1]
