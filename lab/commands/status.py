"""`lab status`: every run that is planned or was started here, and its state."""

import argparse

from lab.commands import listing, places, reports, run_rows
from lab.commands.arguments import add_json

HELP = "list every run and its state"

arguments = add_json


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.verdict.evidence import runs_of_arms

    planned = {
        run_id: (plan["ablation"], arm) for plan in reports.plans_here() for run_id, arm in runs_of_arms(plan)
    }
    known = planned | {run_id: ("train", None) for run_id in places.store().ids() if run_id not in planned}
    rows = [
        run_rows.run_row(places.store(), run_id, group=group, arm=arm)
        for run_id, (group, arm) in known.items()
    ]
    rows.sort(key=lambda row: (row["ablation"], row["arm"] or "", row["seed"] or 0))
    listing.show(rows, as_json=options.json, columns=run_rows.COLUMNS)
    return 0
