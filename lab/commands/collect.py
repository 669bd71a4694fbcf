"""`lab collect`: the runs of a folder of `lab plan --out`, trained elsewhere, merged and reported here."""

import argparse
import sys
from pathlib import Path

from lab.commands import listing, places, reports
from lab.commands.arguments import add_json
from lab.store.files import dumps, read_record, write_atomic
from lab.store.states import RESULT_STATES

HELP = "merge the runs that python -m lab.sweep.away DIR trained, and write their report"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="a folder of lab plan NAME --out DIR, back again"
    )
    add_json(parser)


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.sweep import parcel
    from lab.verdict.evidence import run_ids

    rows, record = parcel.collect(options.folder, places.store()), parcel.plan_of(options.folder)
    page = None
    if "arms" in record and any(row["state"] in RESULT_STATES for row in rows):
        folder = places.RESULTS / "sweeps" / record["ablation"] / record["setting"]
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "plan.json").exists():
            fix = f"Remove it, and collect {listing.shown(options.folder)} again."
            known = read_record(folder / "plan.json", fix=fix)
            ours, theirs = set(run_ids(known)), set(run_ids(record))
            if ours - theirs:
                record = known
            if ours - theirs and theirs - ours:
                print(
                    f"the report is that of the sweep here, which has {len(ours - theirs)} other runs; "
                    "lab sweep with all seeds and arms reports both",
                    file=sys.stderr,
                )
        write_atomic(folder / "plan.json", dumps(record, indent=1))
        page = reports.write_report(record, folder)
    listing.show(rows, as_json=options.json, columns=("id", "state", "arm", "seed", "note"))
    if page and not options.json:
        print(f"report: {listing.shown(page)}")
    return 0 if all(row["state"] in RESULT_STATES for row in rows) else 1
