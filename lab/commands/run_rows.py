"""Runs as rows of a listing, with `id` and `state` first, and what is said of those without a result."""

import sys
from typing import TYPE_CHECKING, Any

from lab.commands import places
from lab.config.strict import ConfigError
from lab.store.states import RESULT_STATES

if TYPE_CHECKING:
    from lab.store.run_store import RunStore

COLUMNS = ("id", "state", "ablation", "arm", "seed", "tokens", "val/bpb")
MENTIONED = 3  # runs that ended early and are named; the others are counted


def run_row(store: "RunStore", run_id: str, *, group: str, arm: str | None) -> dict[str, Any]:
    """The record of one run, planned or started."""
    row = {"id": run_id, "state": "pending", "ablation": group, "arm": arm}
    folder = store.folder(run_id)
    empty = {"seed": None, "tokens": None, "val/bpb": None, "reason": None}
    if not (folder / "config.json").exists():
        return {**row, **empty}
    try:
        return {**row, **_started(store, run_id, arm)}
    except ConfigError as error:
        return {**row, **empty, "state": "damaged", "reason": str(error)}


def _started(store: "RunStore", run_id: str, arm: str | None) -> dict[str, Any]:
    folder = store.folder(run_id)
    summary = store.read(run_id, "summary.json") if (folder / "summary.json").exists() else {}
    return {
        "state": store.state(run_id),
        "arm": arm or store.read(run_id, "manifest.json")["job_type"],
        "seed": store.read(run_id, "config.json")["seed"],
        "tokens": summary["tokens"] if "tokens" in summary else store.tokens(run_id),
        **{key: summary.get(key) for key in ("val/bpb", "reason")},
    }


def rows_of(plan: Any, *, group: str) -> list[dict[str, Any]]:
    """The record of every run of a plan."""
    return [
        run_row(places.store(), run_id, group=group, arm=job["manifest"]["job_type"])
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
