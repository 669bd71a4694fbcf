"""`lab publish`: the only writer of results/<ablation>/<setting>/, from which any clone rebuilds a report.

`lab sweep --published` takes the runs in them for its own.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.config.strict import ConfigError
from lab.report import build, write_record
from lab.store.curves import halved
from lab.store.files import dumps, read_lines, write_atomic
from lab.store.run_store import RunStore
from lab.store.states import END_STATES, RESULT_STATES
from lab.verdict.evidence import exact_lines, run_ids

MAX_LINE_BYTES = 8192


def publish(plan: dict[str, Any], store: RunStore, results: Path) -> Path:
    """Write runs.jsonl, plan.json, verdict, report and figures of one sweep; a run published before keeps
    its bytes.

    Raises ConfigError where the sweep is unfinished or would take seeds or arms away from what is
    published.
    """
    folder = results / plan["ablation"] / plan["setting"]
    path = folder / "runs.jsonl"
    before = path.read_text().splitlines() if path.exists() else []
    kept = {
        record["run_id"]: line
        for line, record in zip(before, read_lines(path), strict=True)
        if record["state"] != "failed"
    }
    planned = run_ids(plan)
    lost = [run_id for run_id in kept if run_id not in planned]
    open_runs = [run_id for run_id in planned if run_id not in kept and store.state(run_id) not in END_STATES]
    where = f"{plan['ablation']} {plan['setting']}"
    if open_runs:
        raise ConfigError(
            f"{where}: {len(open_runs)} of {len(planned)} runs have not ended. Continue the sweep first."
        )
    if lost:
        raise ConfigError(
            f"{where}: {len(lost)} published runs are not in this sweep. Run it with the seeds and arms of "
            f"{folder / 'plan.json'} and more, or delete that folder first."
        )
    for run_id in planned:
        if run_id not in kept:
            kept[run_id] = line_of(store.record(run_id))
    lines = [kept[run_id] for run_id in dict.fromkeys(planned)]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(line + "\n" for line in lines))
    write_atomic(folder / "plan.json", dumps(plan, indent=1))
    write_record(build(plan, [json.loads(line) for line in lines], exact=exact_lines(results)), folder)
    return folder


def line_of(record: dict[str, Any]) -> str:
    """A record as one line, its curves of skills thinned until it has MAX_LINE_BYTES or less, or no points
    to spare.
    """
    thinner: dict[str, Any] | None = record["curves"]
    while thinner is not None:
        record = record | {"curves": thinner}
        line = dumps(record, separators=(",", ":"))
        thinner = halved(thinner) if len(line.encode()) > MAX_LINE_BYTES else None
    return line


def published_runs(results: Path) -> Iterator[dict[str, Any]]:
    """The record of every published run that has a result. Raises ConfigError for a line that is no record."""
    for path in sorted(results.glob("*/*/runs.jsonl")):
        yield from (record for record in read_lines(path) if record["state"] in RESULT_STATES)


def published(results: Path, name: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Plan and records of every published sweep of an ablation."""
    for folder in published_folders(results, name):
        yield json.loads((folder / "plan.json").read_text()), list(read_lines(folder / "runs.jsonl"))


def published_folders(results: Path, name: str = "*") -> list[Path]:
    """The folder of every published sweep, or of those of one ablation."""
    return sorted(path.parent for path in results.glob(f"{name}/*/plan.json"))
