"""The sweeps that ran here: their plans, how a report is written from the runs of this store, and what is
told of it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lab.commands import answers, places, run_rows
from lab.config.strict import ConfigError, closest

if TYPE_CHECKING:
    from lab.plan.planning import Plan
    from lab.report.answer import Answer
    from lab.store.plan_record import PlanRecord
    from lab.verdict.evidence import Evidence


def told(plan: "Plan", whole: "Callable[[], Plan]", *, as_json: bool) -> int:
    """Write the report of a sweep and print what came of it; 0 when every run has a result.

    whole() plans the same sweep with all seeds and horizons of its ablation.
    """
    found, page = written(plan.record, plan.folder)
    rows = run_rows.rows_of(plan.jobs, group=plan.record.ablation)
    if as_json:
        run_rows.show_runs(rows, as_json=True)
    else:
        answers.show(found, page)
        answers.show_next(plan, whole)
    return run_rows.tell_failures(rows)


def written(plan: "PlanRecord", folder: Path) -> "tuple[Answer, Path]":
    """Write the report of a plan from the runs that the store has; returns its answer and its page."""
    from lab.store import exact_check
    from lab.verdict.evidence import gather

    store = places.store()
    known = set(store.ids())
    records = [store.record(run_id) for run_id in plan.run_ids() if run_id in known]
    return of_evidence(gather(plan, records, exact=exact_check.load(places.RESULTS)), folder)


def of_evidence(evidence: "Evidence", folder: Path) -> "tuple[Answer, Path]":
    """Write the report of a sweep from its evidence; returns its answer and its page."""
    from lab.report import build, write

    report = build(evidence)
    return answers.of_sweep(evidence, report.verdict), write(report, folder)


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
