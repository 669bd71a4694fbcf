"""`lab status`: every run that is planned or was started here, and its state."""

import argparse

from lab.commands import places, run_rows
from lab.commands.arguments import add_json

HELP = "list every run and its state"

arguments = add_json


def run(options: argparse.Namespace, overrides: list[str]) -> int:
    from lab.store.plan_record import load_any

    store = places.store()
    plans = map(load_any, sorted((places.RESULTS / "sweeps").glob("*/*/plan.json")))
    planned = {run_id: (plan.ablation, arm) for plan in plans for run_id, arm in plan.runs_of_arms()}
    known = planned | {run_id: ("train", None) for run_id in store.ids() if run_id not in planned}
    rows = [run_rows.run_row(store, run_id, group=group, arm=arm) for run_id, (group, arm) in known.items()]
    rows.sort(key=lambda row: (row.ablation, row.arm or "", row.seed or 0))
    run_rows.show_runs(rows, as_json=options.json)
    return 0
