"""The arms of a plan as rows, with their counts, mismatch and runs, and how long the plan will take."""

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.commands import places
from lab.commands.listing import show
from lab.config.strict import ConfigError
from lab.store.states import END_STATES

if TYPE_CHECKING:
    from lab.plan.planning import Plan
    from lab.store.job import Job
    from lab.store.plan_record import ArmRecord, PlanRecord
    from lab.store.run_store import RunStore
    from lab.verdict.decidable import Decidability
    from lab.verdict.evidence import Evidence

UNMEASURED_FLOPS = {"cpu": 4e10, "cuda": 5e13}  # FLOP/s of one run, until a run here has been timed
COLUMNS = (
    "id",
    "label",
    "state",
    "d_model",
    "layers",
    "heads",
    "d_ff",
    "parameters",
    "body",
    "mismatch",
    "tokens",
    "PFLOP",
)


def show_plan(plan: "Plan", store: "RunStore", *, as_json: bool) -> None:
    """Print arms, counts, mismatch and a time estimate of a plan, without starting anything."""
    arms = plan.record.arms
    show([_row(arm, store) for arm in arms], as_json=as_json, columns=COLUMNS)
    if as_json:
        return
    open_jobs = _open_jobs(plan, store)
    alike = _alike(plan)
    for one in _decidability(plan, alike):
        least = one.problem() or f"claim {one.claim}: can be decided with {one.seeds} seeds"
        told = f"; finds {one.detectable} with 80 % power, by the spread in {_counted(alike)} like this one"
        finds = told if one.detectable and not one.missing else ""
        print(f"{least.rstrip('.')}{finds}.")
    minutes = _minutes(_flops_of(open_jobs), plan, store)
    counted = f"{len(plan.jobs)} runs, {len(open_jobs)} to train"
    print(f"{counted}, about {minutes:.0f} min with {_workers(plan)} at a time")


def minutes_with_search(plan: "Plan", store: "RunStore") -> tuple[float, float]:
    """How long the plan takes from here with a search of rates before it: where the first look of its
    ablation decides everything, and where all seeds are trained.
    """
    from lab.sweep import rate_search, stages

    first = plan.record.looks[0] if plan.record.looks else len(plan.record.seeds)
    parts = [stages.first_seeds(plan, plan.record.seeds[:count]) for count in (first, len(plan.record.seeds))]
    search = rate_search.foretold_flops(plan)
    least, most = (_minutes(search + _flops_of(_open_jobs(part, store)), plan, store) for part in parts)
    return least, most


def _open_jobs(plan: "Plan", store: "RunStore") -> "list[Job]":
    from lab.sweep.local import paused

    jobs = plan.jobs.items()
    return [job for name, job in jobs if store.state(name) not in END_STATES and not paused(job, store)]


def _flops_of(jobs: "list[Job]") -> float:
    return sum(job.tokens * job.manifest.counts.flops_per_token for job in jobs)


def _minutes(flops: float, plan: "Plan", store: "RunStore") -> float:
    return flops / _flops_per_second(store, plan.record.device_kind) / _workers(plan) / 60


def _workers(plan: "Plan") -> int:
    from lab.sweep.local import default_workers

    return plan.work.engine.workers or default_workers(plan.record.device_kind)


def refuse_undecidable(plan: "Plan") -> None:
    """Raises ConfigError for claims that the design can't decide, of a plan with the seeds and arms of its
    file.
    """
    problems = [one.problem() for one in _decidability(plan)]
    found = [problem for problem in problems if problem]
    if found and plan.record.seeds_in_file is None and not plan.record.flags:
        raise ConfigError(found)


def _decidability(plan: "Plan", alike: "Sequence[Evidence]" = ()) -> "list[Decidability]":
    from lab.plan.ablation import Search
    from lab.verdict.decidable import decidability

    wanted = plan.search or Search.standard()
    return decidability(plan.record, tuning_seeds=len(wanted.seeds), alike=alike)


def _alike(plan: "Plan") -> "list[Evidence]":
    """Published sweeps of the size, text and length of this one, which show how far pairs of arms spread."""
    from lab.report.publication import published_folders, published_plan, published_sweep

    def kind(record: "PlanRecord") -> tuple[object, ...]:
        return record.size, record.data, record.device_kind, record.horizons[-1:], record.protocol

    folders = published_folders(places.RESULTS)
    same = [folder for folder in folders if kind(published_plan(folder)) == kind(plan.record)]
    return [published_sweep(folder).evidence(places.RESULTS) for folder in same]


def _counted(alike: "Sequence[Evidence]") -> str:
    return f"{len(alike)} published sweep{'s' * (len(alike) > 1)}"


def _row(arm: "ArmRecord", store: "RunStore") -> dict[str, object]:
    return {
        "id": arm.name,
        "state": ", ".join(sorted({store.state(run_id) for run_id in arm.runs.values()})),
        "label": arm.label,
        "x": arm.x,
        "d_model": arm.shape.d_model,
        "layers": arm.shape.num_layers,
        "heads": f"{arm.shape.num_heads} x {arm.shape.head_dim}",
        "d_ff": arm.shape.d_ff,
        "parameters": arm.counts.parameters,
        "body": arm.counts.body_parameters,
        "mismatch": f"{arm.mismatch:+.2%}",
        "tokens": arm.tokens,
        "PFLOP": _flops(arm) / 1e15,
        "runs": list(arm.runs.values()),
    }


def _flops(arm: "ArmRecord") -> float:
    """Of one run of the arm."""
    return arm.counts.flops_per_token * arm.tokens


def _flops_per_second(store: "RunStore", device: str) -> float:
    """Median speed of the runs that this store has timed on such a device."""
    timed = []
    for run_id in store.ids():
        if (summary := store.summary(run_id)) and summary.tokens_per_second:
            manifest = store.manifest(run_id)
            if manifest.provenance.device_kind == device:
                timed.append(summary.tokens_per_second * manifest.counts.flops_per_token)
    return statistics.median(timed) if timed else UNMEASURED_FLOPS[device]
