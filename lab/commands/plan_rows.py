"""The arms of a plan as rows, with their counts, mismatch and runs, and how long the plan will take."""

import statistics
from typing import TYPE_CHECKING, Any

from lab.commands.listing import show
from lab.store.states import END_STATES

if TYPE_CHECKING:
    from lab.store.run_store import RunStore

UNMEASURED_FLOPS = {"cpu": 4e10, "cuda": 5e13}  # FLOP/s of one run, until a run here has been timed
PLAN_COLUMNS = (
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


def show_plan(plan: Any, store: "RunStore", *, as_json: bool) -> None:
    """Arms, counts, mismatch and a time estimate of a plan that starts nothing."""
    rows = []
    for arm in plan.record["arms"]:
        counts, shape, ids = arm["counts"], arm["shape"], list(arm["runs"].values())
        rows.append(
            {
                "id": arm["name"],
                "state": ", ".join(sorted({store.state(i) for i in ids})),
                "label": arm["label"],
                "x": arm["x"],
                "d_model": shape["d_model"],
                "layers": shape["num_layers"],
                "heads": f"{shape['num_heads']} x {shape['head_dim']}",
                "d_ff": shape["d_ff"],
                "parameters": counts["parameters"],
                "body": counts["body_parameters"],
                "mismatch": f"{arm['mismatch']:+.2%}",
                "tokens": arm["tokens"],
                "PFLOP": counts["flops_per_token"] * arm["tokens"] / 1e15,
                "runs": ids,
            }
        )
    show(rows, as_json=as_json, columns=PLAN_COLUMNS)
    if as_json:
        return
    from lab.sweep.local import default_workers

    device = plan.record["device_kind"]
    workers = plan.engine.workers or default_workers(device)
    open_runs = {run_id for run_id in plan.jobs if store.state(run_id) not in END_STATES}
    work = sum(row["PFLOP"] * 1e15 * len(open_runs.intersection(row["runs"])) for row in rows)
    minutes = work / _flops_per_second(store, device) / workers / 60
    print(
        f"{len(plan.jobs)} runs, {len(open_runs)} to train, about {minutes:.0f} min with {workers} at a time"
    )


def _flops_per_second(store: "RunStore", device: str) -> float:
    """Median speed of the runs that this store has timed on such a device."""
    timed = []
    for run_id in store.ids():
        if (store.folder(run_id) / "summary.json").exists():
            summary, manifest = store.read(run_id, "summary.json"), store.read(run_id, "manifest.json")
            if manifest["provenance"]["device_kind"] == device and summary.get("tokens_per_second"):
                timed.append(summary["tokens_per_second"] * manifest["counts"]["flops_per_token"])
    return statistics.median(timed) if timed else UNMEASURED_FLOPS[device]
