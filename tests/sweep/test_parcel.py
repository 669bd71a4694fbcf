"""Runs that travel: trained elsewhere with torch and numpy alone, they are what they would be here, and
come back unharmed.
"""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lab.config.schema import Engine, Tracker
from lab.config.strict import ConfigError, read
from lab.plan import branch
from lab.plan.job_set import JobSet
from lab.plan.planning import Plan
from lab.store.identity import run_id
from lab.store.log_line import STEP
from lab.store.plan_record import PlanRecord
from lab.store.run_store import RunStore
from lab.sweep import away as worker
from lab.sweep import parcel
from lab.train.worker import work
from tests.hand_shards import write_shards
from tests.paths import ROOT
from tests.synthetic_sweep import sweep
from tests.tiny_run import job, tiny_run

pytestmark = pytest.mark.slow

# What pip brings along with torch and numpy, and nothing else.
BESIDE = """
    torch torchgen functorch numpy sympy mpmath networkx jinja2 markupsafe fsspec filelock typing_extensions
    triton setuptools
"""
GUARD = f"""
import sys
from importlib.machinery import PathFinder

BESIDE = {BESIDE.split()!r}

class Guard:
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target)
        origin = str(spec.origin or spec.submodule_search_locations) if spec else ""
        beside = "site-packages" in origin and name.partition(".")[0] not in BESIDE
        return None if beside else spec

sys.meta_path[:] = [Guard if finder is PathFinder else finder for finder in sys.meta_path]
"""


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    chance = random.Random(0)
    documents = [[chance.randrange(98, 108) for _ in range(chance.randrange(20, 60))] for _ in range(24)]
    vocabulary = [b"", *(bytes([n]) for n in range(256))]
    path = tmp_path_factory.mktemp("shards") / "s"
    return write_shards(path, documents[:20], documents[20:], vocabulary=vocabulary)


def plan_of(jobs, *, ablation="train", setting="tiny"):
    record, _ = sweep({"plain_x4": [1.0]})
    made = read(PlanRecord, record | {"ablation": ablation, "setting": setting})
    engine, tracker = Engine(1, "cpu", 300.0, None), Tracker("none", "lab", "online")
    work = JobSet(setting, {job.run_id: job for job in jobs}, engine, tracker)
    return Plan(made, Path(), work, arms=(), search=None)


def job_of(run, shards, store, **changes):
    return job(run, run_id=run_id(run), store=store.root, shards=shards, **changes)


def elsewhere(folder, *flags, guard: Path | None = None) -> subprocess.Popen:
    """The worker as on another machine; with `guard`, one that has torch and numpy only."""
    if guard:
        guard.mkdir(exist_ok=True)
        (guard / "sitecustomize.py").write_text(GUARD)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, filter(None, (guard, ROOT))))}
    return subprocess.Popen(
        [sys.executable, "-m", "lab.sweep.away", str(folder), *flags],
        cwd=folder,
        env=env,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def final(store, name):
    state = torch.load(io.BytesIO(store.load_checkpoint(name)[1]), weights_only=True)
    return {key: value.tolist() for key, value in state["model"].items()}


def steps(store, name):
    return [(line.step, line.number("train/loss")) for line in store.metrics(name) if line.kind == STEP]


def test_the_guard_keeps_packages_out(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(GUARD)
    for name, code in (("hydra", 1), ("rich", 1), ("tokenizers", 1), ("scipy", 1), ("numpy", 0)):
        done = subprocess.run(
            [sys.executable, "-c", f"import {name}"], env={"PYTHONPATH": str(tmp_path)}, capture_output=True
        )
        assert done.returncode == code, name


def test_trained_elsewhere_and_killed_on_the_way_runs_are_what_they_are_here(shards, tmp_path):
    here, home = RunStore(tmp_path / "here"), RunStore(tmp_path / "home")
    base = tiny_run(data_fingerprint="f")
    for store in (here, home):
        work(job_of(base, shards, store, keep_every=5))
    asked = tiny_run(data_fingerprint="f", steps=5, init_from=f"{run_id(base)}@5")
    run, about = branch.resolve(asked, home, tokenizer_hash="t", source="")
    child = job_of(run, shards, home, parent=about)
    usual = job_of(tiny_run(data_fingerprint="f", steps=100), shards, home, checkpoint_seconds=0.1)
    parcel.pack(plan_of([usual, child]), tmp_path / "out", home)
    assert str(tmp_path) not in (tmp_path / "out/jobs.json").read_text(), "a path of this machine left it"

    moved = tmp_path / "moved"
    (tmp_path / "out").rename(moved)
    away, killed = parcel.store_of(moved), elsewhere(moved, guard=tmp_path / "guard")
    deadline = time.monotonic() + 120
    while not away.checkpoints(usual.run_id) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert away.state(usual.run_id) == "lost"
    assert [row.note for row in parcel.collect(moved, home)] == ["not collected", "not collected"]

    again = elsewhere(moved, guard=tmp_path / "guard")
    output, _ = again.communicate(timeout=120)
    assert again.returncode == 0, output
    assert [row.note for row in parcel.collect(moved, home)] == ["collected", "collected"]
    for of_run in (usual, child):
        work(replace(of_run, store=str(here.root)))
        name = of_run.run_id
        assert f"{name} arm seed 0: {here.state(name)}" in output
        assert home.state(name) == here.state(name) and steps(home, name) == steps(here, name)
        assert final(home, name) == final(here, name)
    assert home.ids() == here.ids()


@pytest.fixture
def trained(shards, tmp_path):
    """A folder whose one run has ended, and the store it belongs to."""
    home = RunStore(tmp_path / "home")
    of_run = job_of(tiny_run(data_fingerprint="f", steps=3), shards, home)
    parcel.pack(plan_of([of_run]), tmp_path / "out", home)
    work(replace(of_run, store=str(tmp_path / "out/runs")))
    return tmp_path / "out", home, of_run.run_id


def test_collecting_again_or_over_a_run_of_ones_own_changes_nothing(trained):
    folder, home, name = trained
    parcel.collect(folder, home)
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in home.root.rglob("*.*")}
    row = parcel.collect(folder, home)[0]
    assert row.note == f"kept the run here, {home.state(name)}"
    assert before == {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in home.root.rglob("*.*")}


@pytest.mark.parametrize("state", ["lost", "failed"])
def test_a_result_takes_the_place_of_a_run_without_one(trained, state):
    folder, home, name = trained
    with home.lease(name):
        row = parcel.collect(folder, home)[0]
        assert (row.note, row.state) == ("kept the run here, running", "running")
    (home.folder(name) / "metrics.jsonl").write_text('{"kind": "step", "step": 1, "tokens": 96}\n')
    if state == "failed":
        home.fail(name, "Traceback", reason="out of memory")
    assert home.state(name) == state
    row = parcel.collect(folder, home)[0]
    assert row.note == "collected" and row.state == home.state(name) == parcel.store_of(folder).state(name)
    assert steps(home, name) == steps(parcel.store_of(folder), name)
    assert not (home.folder(name) / "error.txt").exists()


def test_checkpoints_that_others_start_from_stay(trained):
    folder, home, name = trained
    with home.lease(name):
        home.save_checkpoint(name, 1, b"old")
        home.save_checkpoint(name, 2, b"ours", keep=True)
    assert parcel.collect(folder, home)[0].note == "collected"
    assert home.checkpoints(name) == [2, 3] and home.read_checkpoint(name, 2) == b"ours"
    assert home.load_checkpoint(name) == parcel.store_of(folder).load_checkpoint(name)


def test_runs_that_have_a_result_at_home_do_not_travel(trained, shards, tmp_path):
    folder, home, name = trained
    parcel.collect(folder, home)
    other = tiny_run(data_fingerprint="f", steps=2)
    jobs = [job_of(run, shards, home) for run in (tiny_run(data_fingerprint="f", steps=3), other)]
    parcel.pack(plan_of(jobs), tmp_path / "second", home)
    assert list(parcel.jobs_of(tmp_path / "second")[0]) == [run_id(other)]


def spoil(folder, name, what):
    run = folder / "runs" / name
    if what == "checkpoint":
        path = next((run / "checkpoint").glob("*.pt"))
        path.write_bytes(path.read_bytes()[:-9] + b"damaged!!")
    elif what == "metrics":
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        (run / "metrics.jsonl").write_text("".join(line for line in lines if '"step": 2,' not in line))
    elif what == "config":
        config = json.loads((run / "config.json").read_text())
        (run / "config.json").write_text(json.dumps(config | {"seed": 7}))
    else:
        (run / "manifest.json").unlink()


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("checkpoint", "checkpoint 3 is damaged"),
        ("metrics", "metrics.jsonl has 2 of 3 steps"),
        ("config", "config.json is that of another run"),
        ("manifest", "manifest.json: cannot be read"),
    ],
)
def test_a_run_that_was_damaged_on_the_way_is_not_taken_over(trained, what, message):
    folder, home, name = trained
    spoil(folder, name, what)
    with pytest.raises(ConfigError, match=message):
        parcel.collect(folder, home)
    assert [p.name for p in home.root.iterdir()] == [name] and home.state(name) == "pending"
    assert not (home.folder(name) / "config.json").exists()


def test_a_folder_of_something_else_is_left_alone(trained, shards, tmp_path):
    folder, home, name = trained
    of_run = job_of(tiny_run(data_fingerprint="f", steps=3), shards, home)
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.tex").write_text("precious")
    with pytest.raises(ConfigError, match="exists and holds no plan. Give a new folder"):
        parcel.pack(plan_of([of_run]), other, home)
    assert [p.name for p in other.iterdir()] == ["chapter.tex"]
    with pytest.raises(ConfigError, match="holds the plan of train tiny"):
        parcel.pack(plan_of([of_run], setting="large"), folder, home)
    parcel.pack(plan_of([of_run]), folder, home)
    assert parcel.store_of(folder).state(name) in ("finished", "diverged")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "jobs.json").unlink(), "jobs.json: cannot be read"),
        (
            lambda f: (f / "jobs.json").write_text('{"jobs": [{}]}'),
            "jobs.json: jobs[0].run_id: must be given. Write it again with lab plan --out.",
        ),
        (lambda f: (f / "shards/s/train.bin").write_bytes(b"x"), "train.bin: 1 bytes"),
        (lambda f: alter(f, seed=5), "planned by another version of this code"),
        (lambda f: alter(f, device="cuda"), "engine.device = cuda (jobs.json): no such device here"),
    ],
    ids=["missing", "empty", "shards", "version", "device"],
)
def test_the_worker_refuses_what_it_cannot_train(trained, change, message, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    change(trained[0])
    assert worker.main([str(trained[0])]) == 2
    error = capsys.readouterr().err
    assert message in error and error.startswith("error: ")


def alter(folder, *, device=None, **config):
    content = json.loads((folder / "jobs.json").read_text())
    content["jobs"][0]["config"] |= config
    content["jobs"][0] |= {"device": device} if device else {}
    (folder / "jobs.json").write_text(json.dumps(content))


def test_an_old_torch_is_refused(trained, monkeypatch, capsys):
    monkeypatch.setattr(torch, "__version__", "2.10.1+cu128")
    assert worker.main([str(trained[0])]) == 2
    assert "torch 2.10.1+cu128: is too old. Install 2.11 or newer." in capsys.readouterr().err
