"""Does W&B get every step of a run once? The real client runs offline; `wandb leet inspect` reads its
files back.
"""

import importlib.util
import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from lab.store.files import write_atomic
from lab.store.run_store import RunStore
from lab.track import follower as tracker
from lab.track.metrics_tail import MetricsTail, StepRow
from tests import tracked_run
from tests.tracked_run import CONFIG, MARKERS, RUN, SUMMARY, add_samples, digests, end_run, row_of, write_run

CORE = Path(str(importlib.util.find_spec("wandb").origin)).parent / "bin/wandb-core"

ambient = tracked_run.ambient
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ambient")]


def mirror_offline(root: Path, mirror: Path, *, seconds: float = 60.0) -> None:
    follower = tracker.start(root, mirror, [RUN], board="wandb", project="ablation-lab", mode="offline")
    assert follower is not None
    follower.close(timeout=seconds)


def inspect(segment: Path) -> list[dict[str, Any]]:
    """The records of one client file, by the client's own reader; its Python part takes seconds to load."""
    file = next(segment.glob("*.wandb"))
    reader = [str(CORE), "leet", "inspect", "--no-observability", "--json"]
    command = [*reader, "--run-file", str(file), str(segment)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in answer.stdout.splitlines()]


def rows_in(records: list[dict[str, Any]]) -> list[tuple[int, dict[str, float]]]:
    """(step, numbers) of each row; fields of media have a dot, the client's own an underscore."""
    items = [record["history"] for record in records if record["type"] == "history"]
    return [
        (i["step"]["num"], {k: v for k, v in i["item"].items() if k[0] != "_" and "." not in k})
        for i in items
    ]


def segments(mirror: Path) -> list[Path]:
    return sorted((mirror / "wandb").glob(f"offline-run-*-{RUN}"))


def test_offline_run_reads_back_whole_and_leaks_nothing(tmp_path: Path) -> None:
    root, mirror = tmp_path / "runs", tmp_path / "wandb"
    write_run(root, steps=range(1, 21))
    add_samples(root, step=20)
    end_run(root, SUMMARY)
    before = digests(root)
    mirror_offline(root, mirror)
    assert digests(root) == before

    (segment,) = segments(mirror)
    records = inspect(segment)
    assert rows_in(records) == [(step, row_of(step)) for step in range(1, 21)]

    last = [record["history"]["item"] for record in records if record["type"] == "history"][-1]
    assert (last["samples._type"], last["samples.nrows"], last["layers._type"]) == (
        "table-file",
        2,
        "image-file",
    )
    table = json.loads((segment / "files" / last["samples.path"]).read_text())
    assert table["columns"] == ["arm", "seed", "tokens", "prompt", "text"]
    assert table["data"][1] == ["plain_x4", 2, 20000, "Mia", "ran"]

    run = next(record["run"] for record in records if record["type"] == "run")
    assert (run["run_id"], run["project"], run["display_name"]) == (RUN, "ablation-lab", "plain_x4-seed2")
    assert (run["run_group"], run["job_type"]) == ("ffn-ratio", "plain_x4")
    assert sorted(run["tags"]) == ["ffn_ratio", "nano", "stories"]
    config = run["config"]["update"]
    assert (config["parameters"], config["flops_per_token"]) == (1_234_567, 7_000_000)
    assert {**config["shape"], **CONFIG["shape"]} == config["shape"]
    assert config["data"] == {**CONFIG["data"], "path": None, "validation_path": None}

    metrics = [record["metric"] for record in records if record["type"] == "metric"]
    axes = {metric.get("name", metric.get("glob_name")): metric.get("step_metric") for metric in metrics}
    assert axes == {"tokens": None, "*": "tokens", "val/bpb": "tokens", "val/loss": "tokens"}

    summary: dict[str, Any] = {}
    for record in records:
        if record["type"] == "summary":
            summary |= record["summary"]["update"]
    assert summary["val/bpb"] == {"min": 2.0}
    assert (summary["final/state"], summary["final/val/bpb"]) == ("finished", 1.75)
    assert records[-1]["exit"]["exit_code"] == 0

    written = b"".join(path.read_bytes() for path in mirror.rglob("*") if path.is_file())
    # The runs folder is on the follower's command line: where it shows up, that was recorded.
    secrets = [*MARKERS.values(), CONFIG["data"]["path"], str(root)]
    assert [secret for secret in secrets if secret.encode() in written] == []


def test_restart_goes_on_after_the_last_mirrored_step(tmp_path: Path) -> None:
    root, mirror = tmp_path / "runs", tmp_path / "wandb"
    write_run(root, steps=range(1, 13))
    mirror_offline(root, mirror)
    # Training is resumed from a checkpoint at step 8, so steps 9 to 12 are logged a second time.
    RunStore(root).open_metrics(RUN, after=8).close()
    write_run(root, steps=range(9, 21), summary={**SUMMARY, "state": "diverged"})
    mirror_offline(root, mirror)
    mirror_offline(root, mirror)  # nothing is left to mirror

    first, second = [inspect(segment) for segment in segments(mirror)]
    # Step 12 was held back: its evaluation could still have been to come.
    assert [step for step, _ in rows_in(first)] == list(range(1, 12))
    assert rows_in(second) == [(step, row_of(step)) for step in range(12, 21)]
    assert [records[-1]["exit"]["exit_code"] for records in (first, second)] == [1, 1]


def test_killed_follower_leaves_neither_a_hole_nor_a_double(tmp_path: Path) -> None:
    root, mirror = tmp_path / "runs", tmp_path / "wandb"
    write_run(root, steps=range(1, 13))
    follower = tracker.start(root, mirror, [RUN], board="wandb", project="ablation-lab", mode="offline")
    assert follower is not None
    deadline = time.monotonic() + 60
    while not (mirror / "mirrored.json").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    follower._process.send_signal(signal.SIGKILL)
    follower.close()

    write_run(root, steps=range(13, 21), summary=SUMMARY)
    mirror_offline(root, mirror)
    (segment,) = segments(mirror)
    assert rows_in(inspect(segment)) == [(step, row_of(step)) for step in range(1, 21)]


def test_rows_of_a_growing_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = MetricsTail(path)
    assert list(tail.rows(ended=False)) == []
    text = "".join(json.dumps({"kind": "step", "step": s, "tokens": s}) + "\n" for s in (1, 2, 3))
    with open(path, "w", buffering=1) as file:
        file.write(text[:-9])  # step 3's line is still being written
        file.flush()
        assert list(tail.rows(ended=False)) == [StepRow(1, 1, {})]
        file.write(text[-9:])
        file.flush()
        assert list(tail.rows(ended=False)) == [StepRow(2, 2, {})]
    assert list(tail.rows(ended=True)) == [StepRow(3, 3, {})]
    assert list(tail.rows(ended=True)) == []
    write_atomic(path, text)  # as resumed training does
    assert [row.step for row in tail.rows(ended=True)] == [1, 2, 3]
    tail.close()
