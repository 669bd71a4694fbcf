"""How an ablation's report is written from the runs of this store, and what is told of it."""

import json
from pathlib import Path
from typing import Any

from lab.commands import listing, places, run_rows
from lab.config.strict import ConfigError, closest
from lab.store.files import read_record


def told(plan: Any, *, group: str, as_json: bool, with_report: bool = False) -> int:
    """Print what came of a plan; 0 when every run has a result."""
    page = write_report(plan.record, plan.folder) if with_report else None
    rows = run_rows.rows_of(plan, group=group)
    if as_json or not page:
        listing.show(rows, as_json=as_json, columns=run_rows.COLUMNS)
    else:
        print_outcomes(plan.folder)
        print(f"report: {listing.shown(page)}")
    return run_rows.tell_failures(rows)


def write_report(plan: dict[str, Any], folder: Path) -> Path:
    """Write the report of a plan from the runs that the store has; returns the page."""
    from lab.report import write
    from lab.verdict.evidence import exact_lines, run_ids

    store = places.store()
    known = set(store.ids())
    records = [store.record(run_id) for run_id in run_ids(plan) if run_id in known]
    return Path(write(plan, records, folder, exact=exact_lines(places.RESULTS)))


def print_outcomes(folder: Path) -> None:
    """One line a claim, from the folder's verdict; one an arm where no claim was fixed beforehand."""
    verdict = json.loads((folder / "verdict.json").read_text())
    for claim in verdict["claims"]:
        print(f"{claim['id']}: {claim['outcome']}. {claim['why']}")
    for arm in verdict["arms"] if not verdict["claims"] else ():
        mean = arm["bpb"]["mean"] if arm["bpb"] else None
        print(f"{arm['label']}: {'no finished run' if mean is None else f'{mean:.4f} bits a byte'}")


def plans_here(name: str | None = None) -> list[dict[str, Any]]:
    """The plans of the sweeps that ran here, or of one ablation. Raises ConfigError for an unknown name."""
    from lab.plan.ablation import names

    if name is not None and name not in (known := names()):
        raise ConfigError(f"{name}: no such ablation.{closest(name, known)} Known: {', '.join(known)}.")
    paths = sorted((places.RESULTS / "sweeps").glob(f"{name or '*'}/*/plan.json"))
    return [read_record(path, fix="Remove it, then repeat the sweep.") for path in paths]


def never_run(name: str) -> str:
    """The problem of an ablation without a sweep here, and what to do."""
    return f"{name}: no sweep of it has run here. Start one with make sweep-{name}."
