"""Trunks and branches trained in earnest, by the workers of a sweep."""

import dataclasses

import pytest

from lab.config.schema import Schedule
from lab.store.identity import NUMERICS, run_id
from lab.store.run_record import Parent, ReadRows, ReadText
from lab.store.run_store import RunStore
from lab.sweep import local
from tests.tiny_run import job, tiny_run, trained

pytestmark = pytest.mark.slow
BASE = tiny_run()
TRUNK = dataclasses.replace(BASE, steps=16, schedule=Schedule("constant", 2 / 16, 1.0))
LEAVES, COOLDOWN = (4, 8), {4: 1, 8: 2}


def jobs_of(store, shards, *, trunk=TRUNK, until=8):
    """The trunk to its pause, and a branch from each of LEAVES."""
    name, length = run_id(trunk), trunk.shape.context_length
    made = [job(trunk, run_id=name, store=store.root, shards=shards, until_step=until, keep_steps=LEAVES)]
    for step in LEAVES:
        branch = dataclasses.replace(
            trunk,
            steps=COOLDOWN[step],
            schedule=Schedule("linear", 0.0, 0.0),
            init_from=f"{name}@{step}",
        )
        read = ReadText(trunk.data_fingerprint, ReadRows(trunk.seed, length, step * trunk.rows))
        parent = Parent(name, step, NUMERICS, step * trunk.rows * length, (read,))
        made.append(job(branch, run_id=run_id(branch), store=store.root, shards=shards, parent=parent))
    return {each.run_id: each for each in made}


def losses(store, run):
    return [line.values["train/loss"] for line in store.metrics(run) if line.kind == "step"]


def test_a_trunk_with_its_branch_is_one_run_that_warms_up_holds_and_decays(tmp_path, shards):
    """wsd with a decay over the last fifth is the same schedule in one run: equal to the last bit."""
    store = RunStore(tmp_path / "runs")
    jobs = jobs_of(store, shards)
    trunk, _, branch = jobs
    states = local.execute(jobs, store, workers=2)
    assert states == {trunk: "paused"} | {name: "finished" for name in jobs if name != trunk}
    whole = dataclasses.replace(
        BASE, steps=10, schedule=Schedule("wsd", 0.2, 0.0, own={"decay_fraction": 0.2})
    )
    trained(whole, run_id="whole", store=store.root, shards=shards, checkpoint_seconds=1e9)
    assert losses(store, trunk) + losses(store, branch) == losses(store, "whole")
    assert store.summary(branch).measured["val/bpb"] == store.summary("whole").measured["val/bpb"]


def test_a_trunk_goes_on_from_its_pause_and_is_trained_again_where_a_checkpoint_is_gone(tmp_path, shards):
    store = RunStore(tmp_path / "runs")
    jobs = jobs_of(store, shards)
    trunk, early, late = jobs
    first = {name: each for name, each in jobs.items() if name != late}
    first[trunk] = dataclasses.replace(first[trunk], until_step=4)
    assert local.execute(first, store, workers=1) == {trunk: "paused", early: "finished"}
    assert local.execute(jobs, store, workers=1)[late] == "finished"
    before, ended = losses(store, trunk), store.summary(early)
    assert len(before) == 8

    store.clear(early)
    for path in (store.folder(trunk) / "checkpoint").glob("4.*"):
        path.unlink()
    assert local.execute(jobs, store, workers=1)[early] == "finished"
    assert losses(store, trunk) == before
    assert store.summary(early).measured == ended.measured


def test_a_paused_trunk_is_not_trained_for_branches_that_have_ended(tmp_path, shards):
    store = RunStore(tmp_path / "runs")
    jobs = jobs_of(store, shards)
    trunk, *branches = jobs
    local.execute(jobs, store, workers=1)
    store.clear(trunk)
    local.execute(jobs, store, workers=1)
    assert losses(store, trunk) == [] and {store.state(name) for name in branches} == {"finished"}


def test_a_branch_of_a_trunk_that_diverged_before_it_has_diverged_too(tmp_path, shards):
    """It enters as a uniform guess would: log2 of 257 bytes is 8.0056 bits a byte."""
    from lab.store.metric import value_at_init

    store = RunStore(tmp_path / "runs")
    wild = dataclasses.replace(TRUNK, optimizer=dataclasses.replace(TRUNK.optimizer, lr=1e30))
    jobs = jobs_of(store, shards, trunk=wild)
    trunk, early, late = jobs
    states = local.execute(jobs, store, workers=2)
    assert set(states.values()) == {"diverged"}
    record = store.record(late)
    assert record.ended.steps == 0 and f"its trunk, run {trunk}, diverged: " in record.ended.reason
    assert value_at_init(record, "val/bpb") == pytest.approx(8.0056, abs=1e-3)
