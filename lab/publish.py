"""`lab publish`: the only writer of tracked files, results/<ablation>/<setting>/, from which any clone rebuilds a report."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.report import write
from lab.runs import END_STATES, RunStore, dumps, write_atomic

MAX_LINE_BYTES = 8192


def publish(plan: dict[str, Any], store: RunStore, results: Path) -> Path:
    """Write runs.jsonl, plan.json, verdict, report and figures of one sweep. A run published before keeps its bytes."""
    folder = results / plan["ablation"] / plan["setting"]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "runs.jsonl"
    kept = (
        {json.loads(line)["run_id"]: line for line in path.read_text().splitlines()} if path.exists() else {}
    )
    lines = []
    for arm in plan["arms"]:
        for run_id in arm["runs"].values():
            if run_id not in kept and store.state(run_id) in END_STATES:
                kept[run_id] = dumps(store.record(run_id), separators=(",", ":"))
                if len(kept[run_id].encode()) > MAX_LINE_BYTES:
                    raise AssertionError(f"record of run {run_id} takes {len(kept[run_id].encode())} bytes")
            if run_id in kept and kept[run_id] not in lines:
                lines.append(kept[run_id])
    write_atomic(path, "".join(line + "\n" for line in lines))
    write_atomic(folder / "plan.json", dumps(plan, indent=1))
    write(plan, [json.loads(line) for line in lines], folder)
    return folder


def published(results: Path, name: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]], Path]]:
    """(plan, records, folder) of every published sweep of an ablation."""
    for path in sorted((results / name).glob("*/plan.json")):
        lines = (path.parent / "runs.jsonl").read_text().splitlines()
        yield json.loads(path.read_text()), [json.loads(line) for line in lines], path.parent
