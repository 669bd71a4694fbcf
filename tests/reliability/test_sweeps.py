"""Sweeps that are killed, stopped or run twice at once lose nothing, repeat nothing, and end with the
numbers of a calm one.

LAB_KILLS sets the number of kills (default 2), LAB_KILL_SEED how far the sweep is then; a failing seed
repeats its failure.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.store.job import Job
from lab.store.run_record import Summary
from lab.store.run_store import RunStore
from lab.sweep import local as sweeping
from tests.tiny_run import job, tiny_run

pytestmark = pytest.mark.slow

SWEEP = [
    "sweep",
    "confidence",
    "size=nano",
    "size.d_model=32",
    "size.num_layers=2",
    "heads.head_dim=8",
    "size.context_length=64",
    "size.tokens_per_step=256",
    "vocab=bytes",
    "budget.amount=61440",
    "data.stories=200",
    "data.validation_stories=20",
    "evaluation.documents=8",
    "evaluation.choices=0",
    "evaluation.samples=0",
    "engine.checkpoint_seconds=0.3",
    "tracker=none",
    "--seeds",
    "2",
]
FINAL = ("val/bpb", "train/loss", "tokens", "bytes", "spikes", "state")


def start(folder: Path) -> subprocess.Popen:
    """The sweep as a process group of its own, its output appended to `folder`/output."""
    folder.mkdir(exist_ok=True)
    env = os.environ | {"LAB_RESULTS": str(folder / "results"), "LAB_CACHE": str(folder.parent / "cache")}
    with open(folder / "output", "ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "lab", *SWEEP],
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


def logged(folder: Path) -> int:
    """Lines of the logs of all runs, nearly all of them steps."""
    return sum(p.read_bytes().count(b"\n") for p in (folder / "results/runs").glob("*/metrics.jsonl"))


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


@pytest.fixture(scope="module")
def calm(tmp_path_factory) -> Path:
    """The folder of an undisturbed sweep."""
    folder = tmp_path_factory.mktemp("kill") / "calm"
    finish(start(folder), folder)
    assert len(finals(folder)) == 8
    return folder


def test_kills_lose_nothing_and_repeat_nothing(calm, tmp_path):
    folder, finished_before = tmp_path / "killed", {}
    chance = random.Random(int(os.environ.get("LAB_KILL_SEED", "0")))
    kills = sorted(chance.uniform(0.0, 0.9) for _ in range(int(os.environ.get("LAB_KILLS", "2"))))
    for share in kills:  # of all steps, so that a kill lands inside the sweep however fast the machine is
        sweep = start(folder)
        while logged(folder) < share * logged(calm):
            assert sweep.poll() is None, (folder / "output").read_text()
            time.sleep(0.02)
        os.kill(sweep.pid, signal.SIGKILL)
        sweep.wait()
        for run, stamp in finished_before.items():
            assert (folder / f"results/runs/{run}/summary.json").stat().st_mtime_ns == stamp, "trained twice"
        finished_before = {
            p.parent.name: p.stat().st_mtime_ns for p in (folder / "results/runs").glob("*/summary.json")
        }
    finish(start(folder), folder)
    assert finals(folder) == finals(calm)
    assert steps(folder) == steps(calm)
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
    started = {run: s for run, s in steps(folder).items() if s}
    unfinished = [run for run in started if run not in finals(folder)]
    assert unfinished
    for run in unfinished:
        kept = max(int(p.stem) for p in (folder / f"results/runs/{run}/checkpoint").glob("*.json"))
        assert kept == started[run][-1][0], "work after the last checkpoint was lost"


def workers_of(folder: Path) -> list[int]:
    """Processes that hold a run's lock of this folder: those that train."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            for descriptor in (process / "fd").iterdir():
                target = os.readlink(descriptor)
                if target.startswith(str(folder / "results/runs")) and target.endswith("metrics.jsonl"):
                    found.append(int(process.name))
        except OSError:
            continue
    return found


def test_two_sweeps_share_runs_and_a_killed_worker_is_replaced(calm, tmp_path):
    folder = tmp_path / "shared"
    first = start(folder)
    second = start(folder)
    killed = 0
    while first.poll() is None and killed < 2:
        for process in workers_of(folder)[:1]:
            os.kill(process, signal.SIGKILL)
            killed += 1
            time.sleep(1.5)
        time.sleep(0.1)
    finish(first, folder)
    finish(second, folder)
    assert killed == 2
    assert finals(folder) == finals(calm)
    assert steps(folder) == steps(calm)


def test_a_worker_that_always_dies_ends_as_failed_and_the_sweep_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(sweeping, "work", _die_or_finish)
    runs = {
        seed: job(tiny_run(seed=seed), run_id=f"r{seed}", store=tmp_path, shards=tmp_path) for seed in (0, 1)
    }
    states = sweeping.execute({f"r{seed}": j for seed, j in runs.items()}, RunStore(tmp_path), workers=2)
    assert states == {"r0": "failed", "r1": "finished"}
    reason = json.loads((tmp_path / "r0/summary.json").read_text())["reason"]
    assert reason == "killed by signal 9 3 times, as by a lack of memory"
    assert len((tmp_path / "r0/deaths").read_text()) == 3


def _die_or_finish(job: Job) -> None:
    store, run = RunStore(Path(job.store)), job.run_id
    with store.lease(run):
        if run == "r1":
            store.finish(run, Summary(state="finished", reason=None, measured={}))
        else:
            with open(store.folder(run) / "deaths", "a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
