"""The arms of a plan as rows, with their counts, mismatch and runs, and how long the plan will take."""

import statistics
from typing import TYPE_CHECKING

from lab.commands.listing import show
from lab.config.strict import ConfigError
from lab.store.states import END_STATES

if TYPE_CHECKING:
    from lab.plan.planning import Plan
    from lab.store.plan_record import ArmRecord
    from lab.store.run_store import RunStore
    from lab.verdict.decidable import Decidability

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
    from lab.sweep.local import default_workers, paused

    device, engine = plan.record.device_kind, plan.work.engine
    workers = engine.workers or default_workers(device)
    open_jobs = [
        job
        for run_id, job in plan.jobs.items()
        if store.state(run_id) not in END_STATES and not paused(job, store)
    ]
    flops = sum(job.tokens * job.manifest.counts.flops_per_token for job in open_jobs)
    minutes = flops / _flops_per_second(store, device) / workers / 60
    for one in _decidability(plan):
        least = one.problem() or f"claim {one.claim}: can be decided with {one.seeds} seeds"
        finds = f"; finds {one.detectable} with 80 % power" if one.detectable and not one.missing else ""
        print(f"{least.rstrip('.')}{finds}.")
    print(
        f"{len(plan.jobs)} runs, {len(open_jobs)} to train, about {minutes:.0f} min with {workers} at a time"
    )


def refuse_undecidable(plan: "Plan") -> None:
    """Raises ConfigError for claims that the design can't decide, of a plan with the seeds and arms of its
    file.
    """
    problems = [one.problem() for one in _decidability(plan)]
    found = [problem for problem in problems if problem]
    if found and plan.record.seeds_in_file is None and not plan.record.flags:
        raise ConfigError(found)


def _decidability(plan: "Plan") -> "list[Decidability]":
    from lab.plan.ablation import Search
    from lab.verdict.decidable import decidability

    return decidability(plan.record, tuning_seeds=len((plan.search or Search.standard()).seeds))


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
