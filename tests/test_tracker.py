"""Does W&B get every step of a run once, and can nothing that W&B does reach the sweep?

The real client runs offline and its files are read back with `wandb leet inspect`. What needs a server, or a
client that misbehaves, runs against a stand-in module named wandb that keeps what it is sent in a file.
"""

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lab import mirror as mirror_of_runs
from lab import tracker
from lab.config import ConfigError
from lab.runs import MetricsLog, RunStore, write_atomic

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
    "counts": {"parameters": 1_234_567, "body_parameters": 1_000_000, "flops_per_token": 7_000_000},
    "provenance": {"commit": None, "torch": "2.13.0", "device_kind": "cpu"},
}
CONFIG: dict[str, Any] = {
    "seed": 2,
    "shape": {"d_model": 48, "d_ff": 192},
    "data": {"name": "text", "path": "/home/me/a.txt"},
}
SUMMARY = {"state": "finished", "reason": None, "steps": 20, "val/bpb": 1.75, "val/excess_bpb": None}


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
    log = MetricsLog(folder / "metrics.jsonl")
    log.write(line for step in steps for line in lines_of(step))
    log.close()
    store = RunStore(root)
    if summary:
        store.finish(run_id, summary)
    return store


@pytest.fixture(autouse=True)
def ambient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No login of the machine's user, and marked variables that must not get anywhere."""
    for name in [n for n in os.environ if n.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NETRC", raising=False)
    for name, value in MARKERS.items():
        monkeypatch.setenv(name, value)


def mirror_offline(root: Path, mirror: Path, *, seconds: float = 60.0) -> None:
    follower = tracker.start(root, mirror, [RUN], project="ablation-lab", mode="offline")
    assert follower is not None
    follower.close(timeout=seconds)


def inspect(segment: Path) -> list[dict[str, Any]]:
    """The records of one client file, by the client's own reader."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(next(segment.glob("*.wandb")))]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in answer.stdout.splitlines()]


def rows_in(records: list[dict[str, Any]]) -> list[tuple[int, dict[str, float]]]:
    items = [record["history"] for record in records if record["type"] == "history"]
    return [(i["step"]["num"], {k: v for k, v in i["item"].items() if not k.startswith("_")}) for i in items]


def segments(mirror: Path) -> list[Path]:
    return sorted((mirror / "wandb").glob(f"offline-run-*-{RUN}"))


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_offline_run_reads_back_whole_and_leaks_nothing(tmp_path: Path) -> None:
    root, mirror = tmp_path / "runs", tmp_path / "wandb"
    write_run(root, steps=range(1, 21), summary=SUMMARY)
    before = digests(root)
    mirror_offline(root, mirror)
    assert digests(root) == before

    (segment,) = segments(mirror)
    records = inspect(segment)
    assert rows_in(records) == [(step, row_of(step)) for step in range(1, 21)]

    run = next(record["run"] for record in records if record["type"] == "run")
    assert (run["run_id"], run["project"], run["display_name"]) == (RUN, "ablation-lab", "plain_x4-seed2")
    assert (run["run_group"], run["job_type"]) == ("ffn-ratio", "plain_x4")
    assert sorted(run["tags"]) == ["ffn_ratio", "nano", "stories"]
    config = run["config"]["update"]
    assert (config["parameters"], config["flops_per_token"]) == (1_234_567, 7_000_000)
    assert config["shape"] == {"d_model": 48, "d_ff": 192}
    assert config["data"] == {"name": "text", "path": None, "validation_path": None}

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
    follower = tracker.start(root, mirror, [RUN], project="ablation-lab", mode="offline")
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


@pytest.mark.parametrize("misdeed", ["raise OSError('no network')", "time.sleep(600)", "os._exit(3)"])
def test_a_bad_client_costs_the_sweep_the_close_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, misdeed: str
) -> None:
    stand_in(tmp_path, monkeypatch, on_init=misdeed)
    write_run(tmp_path / "runs", steps=range(1, 5), summary=SUMMARY)
    before = digests(tmp_path / "runs")
    follower = tracker.start(tmp_path / "runs", tmp_path / "mirror", [RUN], project="p", mode="online")
    assert follower is not None
    if "exit" in misdeed:
        assert follower._process.wait(timeout=60) == 3
        follower.announce(["ffffffffffff"])  # the sweep does not know that it is dead
    closer = threading.Thread(target=follower.close)
    closer.start()
    closer.join(timeout=30)  # far from 600 s
    assert not closer.is_alive()
    assert follower._process.poll() is not None
    assert digests(tmp_path / "runs") == before


# ---- the stand-in client; its server: {"<mode> <run id>": {"rows": [[step, row], ...], "exit": exit code}}

STAND_IN = """
    import json, os, pathlib, time
    SERVER = pathlib.Path({server!r})

    def load():
        return json.loads(SERVER.read_text()) if SERVER.exists() else {{}}

    class Run:
        def __init__(self, run_id, mode, folder):
            self.key, self.summary = f"{{mode}} {{run_id}}", {{}}
            self.dir = f"{{folder}}/wandb/run-{{run_id}}/files"
            rows = load().get(self.key, {{"rows": []}})["rows"]
            self.starting_step = rows[-1][0] + 1 if rows else 0
            self.rows = rows

        def log(self, row, step):
            assert not self.rows or step > self.rows[-1][0], "step does not grow"
            self.rows.append([step, row])

        def finish(self, exit_code):
            SERVER.write_text(json.dumps(load() | {{self.key: {{"rows": self.rows, "exit": exit_code}}}}))

        def define_metric(self, *names, **options):
            pass

    def Settings(**options):
        return options

    IN_USE = set()

    def teardown(exit_code):
        IN_USE.clear()

    def init(*, id, mode, dir, **options):
        assert id not in IN_USE, f"run ID {{id}} is in use"  # the real one says so after an init that failed
        IN_USE.add(id)
        {on_init}
        IN_USE.remove(id)
        return Run(id, mode, dir)
"""


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, *, on_init: str = "pass") -> Path:
    """Put a module `wandb` first on the path of this process and its children; returns its server's file."""
    server = folder / "server.json"
    (folder / "path").mkdir()
    (folder / "path" / "wandb.py").write_text(
        textwrap.dedent(STAND_IN).format(server=str(server), on_init=on_init)
    )
    monkeypatch.setenv("PYTHONPATH", str(folder / "path"))
    monkeypatch.syspath_prepend(str(folder / "path"))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    return server


def test_failing_online_falls_back_to_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = stand_in(tmp_path, monkeypatch, on_init="if mode == 'online': raise OSError('no network')")
    write_run(tmp_path / "runs", steps=range(1, 5), summary=SUMMARY)
    follower = tracker.start(tmp_path / "runs", tmp_path / "mirror", [RUN], project="p", mode="auto")
    assert follower is not None
    follower.close(timeout=60)
    sent = json.loads(server.read_text())
    assert list(sent) == [f"offline {RUN}"]
    assert [step for step, _ in sent[f"offline {RUN}"]["rows"]] == [1, 2, 3, 4]
    assert (tmp_path / "mirror" / "follower.log").read_text().count("no network") == 1


def test_follower_of_a_killed_sweep_sends_the_rest_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, root, mirror = stand_in(tmp_path, monkeypatch), tmp_path / "runs", tmp_path / "mirror"
    write_run(root, steps=range(1, 13))
    sweep = """if True:
        import os, pathlib, signal, sys
        from lab import tracker
        root, mirror = map(pathlib.Path, sys.argv[1:3])
        follower = tracker.start(root, mirror, sys.argv[3:], project="p", mode="auto")
        print(follower._process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-c", sweep, str(root), str(mirror), RUN]
    project = Path(__file__).resolve().parents[1]
    killed = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 60
    while is_alive(int(killed.stdout)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(int(killed.stdout))
    (run,) = json.loads(server.read_text()).values()
    assert ([step for step, _ in run["rows"]], run["exit"]) == (list(range(1, 12)), 1)


def is_alive(pid: int) -> bool:
    """Whether a process that is no child of this one still runs; one only waiting to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_sync_sends_what_is_missing_and_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, root, mirror = stand_in(tmp_path, monkeypatch), tmp_path / "runs", tmp_path / "mirror"
    ended = "a" * 12
    write_run(root, steps=range(1, 13))
    write_run(root, steps=range(1, 21), summary={**SUMMARY, "state": "failed"}, run_id=ended)
    assert tracker.sync(root, mirror, project="p") == [
        {"id": RUN, "state": "partial", "sent": 11},
        {"id": ended, "state": "synced", "sent": 20},
    ]
    # The server lost the tail of what it was sent: only it knows, and it is asked.
    content = json.loads(server.read_text())
    del content[f"online {RUN}"]["rows"][9:]
    server.write_text(json.dumps(content))
    write_run(root, steps=range(13, 21), summary=SUMMARY)
    assert tracker.sync(root, mirror, project="p") == [
        {"id": RUN, "state": "synced", "sent": 11},
        {"id": ended, "state": "synced", "sent": 0},
    ]
    again = server.read_bytes()
    assert [result["sent"] for result in tracker.sync(root, mirror, project="p")] == [0, 0]
    assert server.read_bytes() == again
    content = json.loads(again)
    assert content[f"online {RUN}"] == {"rows": [[s, row_of(s)] for s in range(1, 21)], "exit": 0}
    assert content[f"online {ended}"]["exit"] == 1
    assert "WANDB_RUN_ID" not in os.environ


def test_sync_reports_failures_and_does_not_wait_for_a_dead_server_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, on_init="time.sleep(0.2); raise OSError('timed out')")
    for run_id in ("a" * 12, "b" * 12):
        write_run(tmp_path / "runs", steps=range(1, 5), summary=SUMMARY, run_id=run_id)
    quick = tracker.sync(tmp_path / "runs", tmp_path / "mirror", project="p")
    assert [(r["state"], r["reason"]) for r in quick] == [("failed", "timed out")] * 2
    monkeypatch.setattr(tracker, "INIT_SECONDS", 0.1)
    slow = tracker.sync(tmp_path / "runs", tmp_path / "mirror", project="p")
    assert [r["reason"] for r in slow] == ["timed out", "not tried after: timed out"]


def test_sync_needs_a_login_and_a_free_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tracker._sole_writer(tmp_path / "mirror", wait=False), pytest.raises(ConfigError, match="in use"):
        tracker.sync(tmp_path / "runs", tmp_path / "mirror", project="p")
    monkeypatch.delenv("WANDB_API_KEY")
    with pytest.raises(ConfigError, match="WANDB_API_KEY"):
        tracker.sync(tmp_path / "runs", tmp_path / "mirror", project="p")


def test_mode_follows_login_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracker.resolve_mode("auto") == "online"
    monkeypatch.delenv("WANDB_API_KEY")
    assert tracker.resolve_mode("auto") == "offline"
    with pytest.raises(ConfigError, match=r"tracker\.mode = online"):
        tracker.resolve_mode("online")

    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".netrc").write_text("machine api.wandb.ai login user password secret\n")
    assert tracker.resolve_mode("auto") == "online"
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    assert tracker.resolve_mode("auto") == "offline"

    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert tracker.start(tmp_path / "runs", tmp_path / "mirror", [RUN], project="p", mode="auto") is None
    monkeypatch.setenv("WANDB_MODE", "sometimes")
    with pytest.raises(ConfigError, match="WANDB_MODE = sometimes"):
        tracker.resolve_mode("auto")


def test_rows_of_a_growing_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = mirror_of_runs.MetricsTail(path)
    assert list(tail.rows(ended=False)) == []
    text = "".join(json.dumps({"kind": "step", "step": s, "tokens": s}) + "\n" for s in (1, 2, 3))
    with open(path, "w", buffering=1) as file:
        file.write(text[:-9])  # step 3's line is still being written
        file.flush()
        assert list(tail.rows(ended=False)) == [(1, {"tokens": 1})]
        file.write(text[-9:])
        file.flush()
        assert list(tail.rows(ended=False)) == [(2, {"tokens": 2})]
    assert list(tail.rows(ended=True)) == [(3, {"tokens": 3})]
    assert list(tail.rows(ended=True)) == []
    write_atomic(path, text)  # as resumed training does
    assert [step for step, _ in tail.rows(ended=True)] == [1, 2, 3]
    tail.close()
