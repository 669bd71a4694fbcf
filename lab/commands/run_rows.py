"""Runs as rows of a listing, and what is said of those that ended early or have no result."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.commands import listing, places
from lab.config.strict import ConfigError
from lab.store.states import RESULT_STATES

if TYPE_CHECKING:
    from lab.plan.job_set import Jobs
    from lab.store.run_store import RunStore

COLUMNS = ("id", "state", "ablation", "arm", "seed", "tokens", "val/bpb")
MENTIONED = 3  # runs that ended early and are named; the others are counted


@dataclass(frozen=True)
class RunRow:
    """One run, planned or started. Its state is one of the store's, or "damaged", with the reason.

    tokens: those it was trained on so far. bpb: bits a byte of the validation text at its end.
    """

    run_id: str
    state: str
    ablation: str
    arm: str | None
    seed: int | None = None
    tokens: int | None = None
    bpb: float | None = None
    reason: str | None = None

    def json(self) -> dict[str, object]:
        """The record that commands print."""
        return {
            "id": self.run_id,
            "state": self.state,
            "ablation": self.ablation,
            "arm": self.arm,
            "seed": self.seed,
            "tokens": self.tokens,
            "val/bpb": self.bpb,
            "reason": self.reason,
        }


def run_row(store: "RunStore", run_id: str, *, group: str, arm: str | None) -> RunRow:
    """The row of one run; without an `arm`, that for which it was first asked."""
    row = RunRow(run_id, "pending", group, arm)
    if not (store.folder(run_id) / "config.json").exists():
        return row
    try:
        summary = store.summary(run_id)
        return replace(
            row,
            state=store.state(run_id),
            arm=arm or store.manifest(run_id).job_type,
            seed=store.config(run_id).seed,
            tokens=summary.tokens if summary and summary.tokens is not None else store.tokens(run_id),
            bpb=summary.bpb if summary else None,
            reason=summary.reason if summary else None,
        )
    except ConfigError as error:
        return replace(row, state="damaged", reason=str(error))


def rows_of(jobs: "Jobs", *, group: str) -> list[RunRow]:
    """The row of every run that was to be trained."""
    store = places.store()
    return [run_row(store, run_id, group=group, arm=job.manifest.job_type) for run_id, job in jobs.items()]


def show_runs(rows: Sequence[RunRow], *, as_json: bool) -> None:
    """Print the rows."""
    listing.show([row.json() for row in rows], as_json=as_json, columns=COLUMNS)


def tell_failures(rows: Sequence[RunRow]) -> int:
    """Say which runs ended early and which have no result; 0 when every run has one."""
    ended_early = [row for row in rows if row.state in RESULT_STATES and row.state != "finished"]
    for row in ended_early[:MENTIONED]:
        print(f"{row.arm}, seed {row.seed}, {row.state}: {row.reason}", file=sys.stderr)
    if len(ended_early) > MENTIONED:
        print(f"... and {len(ended_early) - MENTIONED} more; see lab status", file=sys.stderr)
    failed = [row for row in rows if row.state not in (*RESULT_STATES, "paused")]
    for reason in sorted({row.reason or f"run {row.run_id} is {row.state}" for row in failed}):
        print(f"error: {reason}", file=sys.stderr)
    if failed:
        way_on = "--retry runs them again"
        if any(row.state != "failed" for row in failed):
            way_on = "the same command goes on with those that have not ended, --retry runs failed ones again"
        print(f"error: {len(failed)} of {len(rows)} runs have no result; {way_on}.", file=sys.stderr)
    return 1 if failed else 0
