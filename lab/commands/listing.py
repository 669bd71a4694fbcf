"""What commands print: tables for people, JSON records for machines. Every record of a run carries `id`
and `state`.
"""

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.config.strict import ConfigError
from lab.store.run_store import RunStore
from lab.store.states import END_STATES

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


def show(rows: list[dict[str, Any]], *, as_json: bool, columns: Sequence[str]) -> None:
    """Print records: all of each as JSON, or some of it as a table."""
    if as_json:
        print(json.dumps(rows, indent=1, allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(_cell(row[column])) for column in columns))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def shown(path: Path) -> Path:
    """The path as a user would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def run_row(store: RunStore, run_id: str, *, group: str, arm: str | None) -> dict[str, Any]:
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


def _started(store: RunStore, run_id: str, arm: str | None) -> dict[str, Any]:
    folder = store.folder(run_id)
    summary = store.read(run_id, "summary.json") if (folder / "summary.json").exists() else {}
    return {
        "state": store.state(run_id),
        "arm": arm or store.read(run_id, "manifest.json")["job_type"],
        "seed": store.read(run_id, "config.json")["seed"],
        "tokens": summary["tokens"] if "tokens" in summary else store.tokens(run_id),
        **{key: summary.get(key) for key in ("val/bpb", "reason")},
    }


def print_plan(plan: Any, store: RunStore, *, as_json: bool) -> None:
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


def _flops_per_second(store: RunStore, device: str) -> float:
    """Median speed of the runs that this store has timed on such a device."""
    timed = []
    for run_id in store.ids():
        if (store.folder(run_id) / "summary.json").exists():
            summary, manifest = store.read(run_id, "summary.json"), store.read(run_id, "manifest.json")
            if manifest["provenance"]["device_kind"] == device and summary.get("tokens_per_second"):
                timed.append(summary["tokens_per_second"] * manifest["counts"]["flops_per_token"])
    return statistics.median(timed) if timed else UNMEASURED_FLOPS[device]


def print_outcomes(folder: Path) -> None:
    """One line a claim, from the folder's verdict; one an arm where no claim was fixed beforehand."""
    verdict = json.loads((folder / "verdict.json").read_text())
    for claim in verdict["claims"]:
        print(f"{claim['id']}: {claim['outcome']}. {claim['why']}")
    for arm in verdict["arms"] if not verdict["claims"] else ():
        mean = arm["bpb"]["mean"] if arm["bpb"] else None
        print(f"{arm['label']}: {'no finished run' if mean is None else f'{mean:.4f} bits a byte'}")
