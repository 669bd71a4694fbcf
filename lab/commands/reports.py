"""The sweeps that ran here: their plans, how a report is written from the runs of this store, and what is
told of it.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from lab.commands import listing, places, run_rows
from lab.config.strict import ConfigError, closest

if TYPE_CHECKING:
    from lab.plan.planning import Plan
    from lab.store.plan_record import PlanRecord


def told(plan: "Plan", *, as_json: bool) -> int:
    """Write the report of a sweep and print what came of it; 0 when every run has a result."""
    page = write_report(plan.record, plan.folder)
    rows = run_rows.rows_of(plan.jobs, group=plan.record.ablation)
    if as_json:
        run_rows.show_runs(rows, as_json=True)
    else:
        print_outcomes(plan.folder)
        print(f"report: {listing.shown(page)}")
    return run_rows.tell_failures(rows)


def write_report(plan: "PlanRecord", folder: Path) -> Path:
    """Write the report of a plan from the runs that the store has; returns the page."""
    from lab.report import write
    from lab.store import exact_check
    from lab.verdict.evidence import gather

    store = places.store()
    known = set(store.ids())
    records = [store.record(run_id) for run_id in plan.run_ids() if run_id in known]
    return write(gather(plan, records, exact=exact_check.load(places.RESULTS)), folder)


def print_outcomes(folder: Path) -> None:
    """One line a claim, from the folder's verdict; one an arm where no claim was fixed beforehand."""
    from lab.verdict import verdict_record

    verdict = verdict_record.load(folder / "verdict.json")
    for claim in verdict.claims:
        print(f"{claim.id}: {claim.outcome}. {claim.why}")
    for arm in verdict.arms if not verdict.claims else ():
        print(f"{arm.label}: {f'{arm.bpb.mean:.4f} bits a byte' if arm.bpb else 'no finished run'}")


def plans_here(name: str) -> "dict[str, PlanRecord]":
    """The plans of an ablation's sweeps here, by setting. Raises ConfigError for an unknown name."""
    from lab.plan.ablation import names
    from lab.store import plan_record

    if name not in (known := names()):
        raise ConfigError(f"{name}: no such ablation.{closest(name, known)} Known: {', '.join(known)}.")
    plans = map(plan_record.load, sorted((places.RESULTS / "sweeps" / name).glob("*/plan.json")))
    return {plan.setting: plan for plan in plans}


def never_run(name: str) -> str:
    """The problem of an ablation without a sweep here, and what to do."""
    return f"{name}: no sweep of it has run here. Start one with make sweep-{name}."
