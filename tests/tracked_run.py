"""A run folder as training leaves it, written by hand, and what a dashboard should show of it."""

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from lab.config.strict import read
from lab.store.files import write_atomic
from lab.store.log_line import LogLine
from lab.store.run_record import Summary
from lab.store.run_store import MetricsLog, RunStore
from tests.paths import ROOT

RUN = "0123456789ab"
MARKERS = {
    "WANDB_API_KEY": "k3y" * 13 + "k",
    "LAB_TEST_SECRET": "hunter2-marker",
    "WANDB_RUN_ID": "ambient-run",
}
MANIFEST = {
    "run_id": RUN,
    "numerics": 1,
    "group": "ffn-ratio",
    "job_type": "plain_x4",
    "tags": ["ffn_ratio", "nano", "stories"],
    "counts": {
        "parameters": 1_234_567,
        "body_parameters": 1_000_000,
        "embedding_parameters": 234_567,
        "flops_per_token": 7_000_000,
    },
    "provenance": {
        "commit": None,
        "clean": None,
        "source_hash": "5eed",
        "python": "3.11.9",
        "torch": "2.13.0",
        "device_kind": "cpu",
        "device": "x86_64",
        "cores": 2,
        "threads": 1,
        "started": "2026-12-01T00:00:00+00:00",
    },
}
PUBLISHED = ROOT / "results/norm-placement/nano-stories-cpu-lr/runs.jsonl"
# A configuration as it was published, with a path that nobody else may see.
CONFIG: dict[str, Any] = json.loads(PUBLISHED.read_text().splitlines()[0])["config"]
CONFIG |= {"seed": 2, "data": CONFIG["data"] | {"path": "/home/me/a.txt"}}
SUMMARY = {"state": "finished", "reason": None, "steps": 20, "val/bpb": 1.75, "val/excess_bpb": None}
SAMPLES = [{"prompt": "Once | upon", "text": "a\ntime"}, {"prompt": "Mia", "text": "ran"}]


def lines_of(step: int) -> list[dict[str, Any]]:
    """What training logs at one step: diagnostics at 5, spikes at 7 and 12, evaluations at 10 and 20."""
    base = {"step": step, "tokens": 1000 * step}
    lines = [
        {"kind": "step", **base, "train/loss": 5 - step / 10, "grad/norm": 1.5, "lr": 0.003, "seconds": 0.1}
    ]
    if step == 5:
        lines.append(
            {"kind": "diagnostics", **base, "residual/rms/0": 1.25, "attention/logit_max/0": math.nan}
        )
    if step in (7, 12):
        lines.append({"kind": "spike", **base, "signal": "grad/norm", "value": 9.5, "score": float(step)})
    if step % 10 == 0:
        # The second evaluation is the worse one: the summary's minimum differs from its last value.
        lines.append({"kind": "evaluation", **base, "val/loss": 2.0 + step / 10, "val/bpb": 1.0 + step / 10})
    return lines


def row_of(step: int) -> dict[str, float]:
    """The one W&B row in which step `step` of `lines_of` belongs."""
    row = {"tokens": 1000 * step, "train/loss": 5 - step / 10, "grad/norm": 1.5, "lr": 0.003, "seconds": 0.1}
    row |= {
        5: {"residual/rms/0": 1.25},
        10: {"val/loss": 3.0, "val/bpb": 2.0},
        20: {"val/loss": 4.0, "val/bpb": 3.0},
    }.get(step, {})
    row |= {
        7: {"spike/grad/norm": 7.0, "spike/grad/norm/count": 1},
        12: {"spike/grad/norm": 12.0, "spike/grad/norm/count": 2},
    }.get(step, {})
    return row


def write_run(
    root: Path, *, steps: range, summary: dict[str, Any] | None = None, run_id: str = RUN
) -> RunStore:
    """A run folder as training leaves it; more steps and the summary can be added by a second call."""
    folder = root / run_id
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "manifest.json", json.dumps({**MANIFEST, "run_id": run_id}))
    write_atomic(folder / "config.json", json.dumps(CONFIG))
    lines = [line for step in steps for line in lines_of(step)]
    log = MetricsLog(folder / "metrics.jsonl")
    log.write(LogLine(line.pop("kind"), line.pop("step"), line.pop("tokens"), line) for line in lines)
    log.close()
    if summary:
        end_run(root, summary, run_id=run_id)
    return RunStore(root)


def end_run(root: Path, summary: dict[str, Any], *, run_id: str = RUN) -> None:
    RunStore(root).finish(run_id, read(Summary, summary))


def add_samples(root: Path, *, step: int) -> None:
    with open(root / RUN / "metrics.jsonl", "a") as file:
        for sample in SAMPLES:
            file.write(json.dumps({"kind": "sample", "step": step, "tokens": 1000 * step, **sample}) + "\n")


@pytest.fixture
def ambient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No login of the machine's user, and marked variables that must not get anywhere."""
    for name in [n for n in os.environ if n.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NETRC", raising=False)
    for name, value in MARKERS.items():
        monkeypatch.setenv(name, value)


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
