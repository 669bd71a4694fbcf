"""A sweep killed at random times and continued with the same command loses nothing and repeats nothing.

LAB_KILLS sets the number of kills (default 3), LAB_KILL_SEED their times; a failing seed repeats its failure.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

SWEEP = [
    "sweep", "norm", "size=nano", "size.d_model=32", "size.num_layers=2", "heads.head_dim=8", "size.context_length=64",
    "size.tokens_per_step=256", "vocab=bytes", "budget.amount=102400", "data.stories=200", "data.validation_stories=20",
    "evaluation.documents=8", "engine.checkpoint_seconds=0.3", "tracker=none", "--seeds", "2",
]  # fmt: skip
FINAL = ("val/bpb", "train/loss", "tokens", "bytes", "spikes", "state")


def start(folder: Path) -> subprocess.Popen:
    """The sweep as a process group of its own, its output appended to `folder`/output."""
    folder.mkdir(exist_ok=True)
    env = os.environ | {"LAB_RESULTS": str(folder / "results"), "LAB_CACHE": str(folder.parent / "cache")}
    with open(folder / "output", "ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "lab.cli", *SWEEP],
            env=env,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def finish(sweep: subprocess.Popen, folder: Path) -> str:
    """Wait for the sweep to succeed; returns what all sweeps of the folder printed."""
    code = sweep.wait(timeout=300)
    output = (folder / "output").read_text()
    errors = [p.read_text() for p in (folder / "results/runs").glob("*/error.txt")]
    assert code == 0, "\n".join([output, *errors])
    return output


def finals(folder: Path) -> dict[str, dict]:
    summaries = {
        p.parent.name: json.loads(p.read_text()) for p in (folder / "results/runs").glob("*/summary.json")
    }
    return {run: {key: s[key] for key in FINAL} for run, s in summaries.items()}


def steps(folder: Path) -> dict[str, list[str]]:
    found = {}
    for path in (folder / "results/runs").glob("*/metrics.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found[path.parent.name] = [(m["step"], m["train/loss"].hex()) for m in lines if m["kind"] == "step"]
    return found


def alive(folder: Path) -> list[str]:
    """Processes whose command line or open sweep still names the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder / "results").encode() in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


def test_kills_lose_nothing_and_repeat_nothing(tmp_path):
    finish(start(tmp_path / "undisturbed"), tmp_path / "undisturbed")
    expected = finals(tmp_path / "undisturbed")
    assert len(expected) == 6

    folder, finished_before = tmp_path / "killed", {}
    chance = random.Random(int(os.environ.get("LAB_KILL_SEED", "0")))
    for _ in range(int(os.environ.get("LAB_KILLS", "3"))):
        sweep = start(folder)
        try:
            sweep.wait(timeout=chance.uniform(3.0, 16.0))
        except subprocess.TimeoutExpired:
            os.kill(sweep.pid, signal.SIGKILL)
            sweep.wait()
        for run, stamp in finished_before.items():
            assert (folder / f"results/runs/{run}/summary.json").stat().st_mtime_ns == stamp, "trained twice"
        finished_before = {
            p.parent.name: p.stat().st_mtime_ns for p in (folder / "results/runs").glob("*/summary.json")
        }
    finish(start(folder), folder)
    assert finals(folder) == expected
    assert steps(folder) == steps(tmp_path / "undisturbed")
    deadline = time.monotonic() + 20
    while alive(folder) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert alive(folder) == []
    assert [p for p in folder.rglob("*.tmp")] == []


def test_ctrl_c_saves_every_started_run_and_says_how_to_go_on(tmp_path):
    folder = tmp_path / "stopped"
    sweep = start(folder)
    while not any(len(s) > 20 for s in steps(folder).values()):
        assert sweep.poll() is None, (folder / "output").read_text()
        time.sleep(0.2)
    os.killpg(sweep.pid, signal.SIGINT)
    code, output = sweep.wait(timeout=60), (folder / "output").read_text()
    assert code == 130 and "The same command continues" in output and "Traceback" not in output
    logged = {run: s for run, s in steps(folder).items() if s}
    unfinished = [run for run in logged if run not in finals(folder)]
    assert unfinished
    for run in unfinished:
        kept = max(int(p.stem) for p in (folder / f"results/runs/{run}/checkpoint").glob("*.json"))
        assert kept == logged[run][-1][0], "work after the last checkpoint was lost"
