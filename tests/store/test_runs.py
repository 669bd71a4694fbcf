"""Identity and the run store: what names a run, and that no crash or reader loses or mixes anything."""

import dataclasses
import json
import multiprocessing
from pathlib import Path

import pytest

from lab.config.schema import Monitor
from lab.config.strict import ConfigError, plain, read
from lab.report.publication import line_of
from lab.store.curves import halved
from lab.store.files import dumps, read_lines, write_atomic
from lab.store.identity import NUMERICS, run_id
from lab.store.log_line import LogLine
from lab.store.run_record import (
    Curves,
    FirstMovers,
    Mover,
    Often,
    RunRecord,
    Summary,
    TrainPoint,
    ValidationPoint,
)
from lab.store.run_store import RunStore
from tests.paths import ROOT
from tests.tiny_run import COUNTS, DATA, PROVENANCE, job, manifest, tiny_run

FINISHED = Summary(state="finished", reason=None, measured={})


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "runs")


def started(store, **changes):
    with store.lease("r1"):
        store.begin("r1", tiny_run(**changes), manifest("r1"))
    return "r1"


def step(n, loss=1.0):
    return LogLine("step", n, n * 10, {"train/loss": loss, "grad/norm": 1.0, "seconds": 0.1})


def spike(n, value, score):
    return LogLine("spike", n, n, {"signal": "grad/norm", "value": value, "score": score})


def test_identity_ignores_paths_and_neutral_values_and_nothing_else():
    base = tiny_run(data_fingerprint="f", steps=3)
    assert run_id(base) == run_id(
        tiny_run(data_fingerprint="f", steps=3, data=dataclasses.replace(DATA, path="/elsewhere"))
    )
    others = [
        tiny_run(data_fingerprint="g", steps=3),
        tiny_run(data_fingerprint="f", steps=4),
        tiny_run(data_fingerprint="f", steps=3, seed=1),
        tiny_run(data_fingerprint="f", steps=3, norm="layernorm"),
        tiny_run(data_fingerprint="f", steps=3, stability=dataclasses.replace(base.stability, z_loss=1e-4)),
    ]
    assert len({run_id(c) for c in [base, *others]}) == 6


def test_numbers_that_are_not_finite_become_null():
    assert json.loads(dumps({"a": float("nan"), "b": [float("inf"), 1.5]})) == {"a": None, "b": [None, 1.5]}


def test_a_torn_line_and_steps_after_the_checkpoint_are_cut(store):
    run = started(store)
    log = store.open_metrics(run, after=0)
    log.write([step(1), step(2), step(3)])
    log.close()
    path = store.folder(run) / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + b'{"kind": "step", "st')
    assert [line.step for line in store.metrics(run)] == [1, 2, 3]
    store.open_metrics(run, after=2).close()
    assert path.read_text().count("\n") == 2 and [line.step for line in store.metrics(run)] == [1, 2]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("20.pt", b"newe"),
        ("20.pt", b""),
        ("20.pt", b"nexer"),
        ("20.pt", b"newer!"),
        ("20.json", b""),
        ("20.json", b"{}"),
    ],
)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(store, file, content, capsys):
    run = started(store)
    store.save_checkpoint(run, 10, b"old")
    store.save_checkpoint(run, 20, b"newer")
    (store.folder(run) / "checkpoint" / file).write_bytes(content)
    assert store.load_checkpoint(run) == (10, b"old")
    assert "checkpoint 20 of run r1 is damaged" in capsys.readouterr().err


def test_a_run_whose_checkpoints_are_all_damaged_does_not_start_over_unasked(store):
    run = started(store)
    store.save_checkpoint(run, 10, b"old")
    (store.folder(run) / "checkpoint/10.pt").write_bytes(b"o")
    with pytest.raises(ValueError, match="no checkpoint of run r1 verifies"):
        store.load_checkpoint(run)
    store.fail(run, "Traceback", reason="damaged")
    store.reopen(run)
    assert store.load_checkpoint(run) is None and store.state(run) == "pending"


def test_numbers_of_two_kinds_of_machine_do_not_mix(store):
    run = started(store)
    store.open_metrics(run, after=0).close()
    store.save_checkpoint(run, 10, b"old")
    edited = manifest(run, provenance=dataclasses.replace(PROVENANCE, source_hash="b"))
    store.begin(run, tiny_run(), edited)
    assert store.load_checkpoint(run) == (10, b"old")
    assert store.manifest(run).provenance.earlier_source_hashes == ("a",)
    on_cuda = manifest(run, provenance=dataclasses.replace(PROVENANCE, device_kind="cuda"))
    store.begin(run, tiny_run(), on_cuda)
    assert store.load_checkpoint(run) is None and store.metrics(run) == []
    assert store.manifest(run).provenance.device_kind == "cuda"


def test_content_without_a_commit_record_is_no_checkpoint(store):
    run = started(store)
    store.save_checkpoint(run, 10, b"old")
    write_atomic(store.folder(run) / "checkpoint/20.pt", b"newer")
    assert store.load_checkpoint(run) == (10, b"old")


def test_checkpoints_are_kept_by_step_not_by_name(store):
    run = started(store)
    for at in (9000, 10000, 11000):
        store.save_checkpoint(run, at, b"x")
    assert store.checkpoints(run) == [10000, 11000]


def test_checkpoints_to_keep_stay_whatever_comes_later(store):
    run = started(store)
    store.save_checkpoint(run, 5, b"five", keep=True)
    for at in (6, 7, 8):
        store.save_checkpoint(run, at, b"x")
    assert store.checkpoints(run) == [5, 7, 8]
    store.keep_checkpoint(run, 7)
    store.finish(run, FINISHED)
    assert store.checkpoints(run) == [5, 7, 8]
    assert store.read_checkpoint(run, 5) == b"five" and store.read_checkpoint(run, 6) is None
    store.clear(run)
    assert store.checkpoints(run) == [] and list((store.folder(run) / "checkpoint").iterdir()) == []


def _hold(root, holding, release):
    with RunStore(root).lease("r1") as held:
        assert held
        holding.set()
        release.wait(30)


@pytest.mark.slow
def test_states_and_the_lease(store):
    assert store.state("r1") == "pending"
    run = started(store)
    assert store.state(run) == "pending"
    context = multiprocessing.get_context("spawn")
    holding, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(store.root, holding, release))
    other.start()
    assert holding.wait(60)
    assert store.state(run) == "running"
    with store.lease(run) as held:
        assert not held
    other.kill()
    other.join()
    store.open_metrics(run, after=0).close()
    assert store.state(run) == "lost"
    with store.lease(run) as held:
        assert held
    store.fail(run, "Traceback ...", reason="ValueError: no")
    assert store.state(run) == "failed" and (store.folder(run) / "error.txt").read_text() == "Traceback ..."
    store.reopen(run)  # it had no checkpoint to go on from
    assert store.state(run) == "pending"


def test_a_record_is_small_and_keeps_the_largest_spikes(store):
    run = started(store)
    log = store.open_metrics(run, after=0)
    log.write([step(n, loss=1 / 3 + n) for n in range(1, 5001)])
    log.write([spike(n, 1.0, float(n)) for n in range(1, 31)])
    log.close()
    store.finish(run, FINISHED)
    record = store.record(run)
    assert len(dumps(plain(record)).encode()) < 8192
    assert [spike.step for spike in record.curves.spikes] == list(range(11, 31))
    assert {11, 30} <= {point.step for point in record.curves.train}
    assert (record.curves.train[0].step, record.curves.train[-1].step) == (1, 5000)


def test_a_published_line_is_thinned_until_it_fits(store):
    """Twenty evaluations of nine skills and twenty spikes are more than 8 KB by themselves."""
    run = started(store)
    log = store.open_metrics(run, after=0)
    log.write([step(n, loss=1 / 3 + n) for n in range(1, 201)])
    for n in range(10, 201, 10):
        skills = {f"val/excess/skill_{k}": 1 / 7 + k for k in range(9)}
        log.write([LogLine("evaluation", n, n, {"val/loss": 1 / 3, "val/bpb": 1 / 9, **skills})])
        log.write([spike(n, 1 / 3, 9.0)])
    log.close()
    store.finish(run, dataclasses.replace(FINISHED, reason="x" * 2000))
    whole, line = store.record(run), line_of(store.record(run))
    assert len(dumps(plain(whole), separators=(",", ":"))) > 8192 >= len(line.encode())
    published = json.loads(line)
    thin, full = published["curves"], plain(whole)["curves"]
    assert all([points[k][0] for k in (0, -1)] == [10, 200] for points in thin.pop("excess").values())
    assert thin == {name: curve for name, curve in full.items() if name != "excess"}  # verdicts read them
    assert line_of(read(RunRecord, json.loads(line))) == line
    wordy = dataclasses.replace(whole, summary=dataclasses.replace(FINISHED, reason="x" * 9000))
    assert len(line_of(wordy)) > 8192  # words are not cut


def test_a_record_says_what_moved_first_by_the_window_of_its_own_run(store):
    """A window of 5: layer 1's logit rises at step 8, two before the spike. A window of 10 would see no
    step whole.
    """
    run = started(store, monitor=Monitor(1, 5, 4.0, divergence_factor=2.0, divergence_patience=3))
    log = store.open_metrics(run, after=0)
    for n in range(1, 11):
        logits = {
            f"attention/logit_max/{i}": 2.0 + n % 2 + (9.0 if (i, n) == (1, 8) else 0.0) for i in range(3)
        }
        log.write([step(n), LogLine("diagnostics", n, n, logits)])
    log.write([spike(10, 1.0, 9.0)])
    log.close()
    store.finish(run, FINISHED)
    assert store.record(run).curves.first_movers == FirstMovers(
        spikes=Often(1, 1), quiet=Often(0, 0), of=(Mover(2, "attention/logit_max/1"),)
    )
    assert json.loads(dumps(plain(store.record(run))))["curves"]["first_movers"] == {
        "of": [[2, "attention/logit_max/1"]],
        "spikes": [1, 1],
        "quiet": [0, 0],
    }


ASKED = job(tiny_run(), run_id="r1", store=Path(), shards=Path(), group="g").manifest


def published(config):
    return RunRecord(
        run_id=run_id(config),
        state="finished",
        config=config,
        summary=dataclasses.replace(FINISHED, measured={"val/bpb": 1.25}),
        curves=Curves(
            train=(TrainPoint(1, 10, 7.0, 1.0),),
            validation=(ValidationPoint(1, 10, 2.0, 1.25),),
            spikes=(),
            peaks={},
            excess={},
        ),
        numerics=NUMERICS,
        counts=COUNTS,
        provenance=PROVENANCE,
    )


def test_a_published_record_stands_for_a_run_until_the_run_is_trained(store):
    config = tiny_run(data_fingerprint="f")
    record, run = published(config), run_id(config)
    assert store.adopt(dumps(plain(record)), config, ASKED)
    assert store.state(run) == "finished" and store.record(run) == record
    assert store.published_line(run) == dumps(plain(record), separators=(",", ":"))
    assert store.adopted(run) and not store.adopt(dumps(plain(record)), config, ASKED)
    store.clear(run)
    assert store.state(run) == "pending" and not store.adopted(run)


def test_a_record_half_taken_over_is_none(store, monkeypatch):
    config = tiny_run(data_fingerprint="f")
    run = run_id(config)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            store.adopt(dumps(plain(published(config))), config, ASKED)
    assert store.state(run) == "pending" and store.record(run).summary is None
    store.open_metrics(run, after=0).close()
    store.finish(run, Summary(state="diverged", reason="x", measured={}))
    assert store.record(run).state == "diverged"


def test_nothing_temporary_is_left_behind(store):
    run = started(store)
    (store.folder(run) / ".summary.json.99.tmp").write_text("dead")
    with store.lease(run):
        pass
    assert [p.name for p in Path(store.folder(run)).iterdir() if p.name.endswith(".tmp")] == []


def test_a_line_that_a_full_disk_takes_in_part_is_written_whole(store, monkeypatch):
    """A short write is no error of the system's; the rest goes in the next write, or that one fails."""
    run = started(store)
    log = store.open_metrics(run, after=0)
    file = log._file

    class Short:
        def write(self, content):
            return file.write(content[:7])

    monkeypatch.setattr(log, "_file", Short())
    log.write([step(1), step(2)])
    file.close()
    assert [line.step for line in store.metrics(run)] == [1, 2]


def test_the_longest_published_line_has_room_for_groups_of_documents():
    paths = (ROOT / "results").glob("*/*/runs.jsonl")
    lines = [line for path in paths for line in path.read_text().splitlines()]
    record = read(RunRecord, json.loads(max(lines, key=len)))
    groups = tuple(round(1.12345 + n / 100, 5) for n in range(32))
    summary = dataclasses.replace(record.ended, learnt=True, group_bpb=groups, group_excess_bpb=groups)
    line = line_of(dataclasses.replace(record, summary=summary))
    spare = halved(read(RunRecord, json.loads(line)).curves)
    assert len(line) <= 8192 or (spare is None and len(line) < 9000)  # a whole trunk has no points to spare
    assert read(RunRecord, json.loads(line)).ended == summary


@pytest.mark.parametrize("damaged", [b'{"a": 1}\n{"a": \n', b'{"a": 1}\n7\n', b'{"a": 1}\n{"a": "\xff"}\n'])
def test_a_damaged_line_of_a_committed_file_is_named(tmp_path, damaged):
    path = tmp_path / "runs.jsonl"
    assert list(read_lines(path)) == []
    path.write_bytes(damaged)
    with pytest.raises(ConfigError, match="runs.jsonl, line 2: holds no JSON object. Restore"):
        list(read_lines(path))


def test_an_adopted_line_keeps_the_bytes_it_was_published_with(tmp_path):
    """A line from before a key existed lacks it, also where another sweep publishes the run again."""
    store, path = RunStore(tmp_path), ROOT / "results/ffn-gated/nano-stories-cpu-lr/runs.jsonl"
    lines = path.read_text().splitlines()
    old = next(line for line in lines if "label_smoothing" not in line)
    record = read(RunRecord, json.loads(old))
    assert store.adopt(old, record.config, ASKED)
    assert store.published_line(record.run_id) == old != dumps(plain(store.record(record.run_id)))
