"""Studies: ranges as written, successive halving whose runs go on, killed studies that repeat, and one
tiny real one.
"""

import json
import math

import pytest

from lab import cli
from lab.commands import places
from lab.config.strict import ConfigError, plain
from lab.plan import planned_arm
from lab.plan.budget import TrainingText
from lab.store.files import dumps
from lab.store.identity import NUMERICS
from lab.store.log_line import STEP
from lab.store.run_record import Curves, RunRecord, Summary, ValidationPoint
from lab.store.run_store import RunStore
from lab.sweep import space
from lab.sweep import study as tune
from lab.sweep.space import Range, parsed
from lab.sweep.trials import Trials
from tests.tiny_run import PROVENANCE

LR = Range("optimizer.lr", "log", 1e-4, 1e-1)
DEPTH = Range("size.num_layers", "int", 1, 4)


def test_ranges_are_told_from_plain_overrides():
    ranges, rest = parsed(
        ["optimizer.lr=log:1e-4:1e-1", "size=nano", "size.num_layers=int:1:4:2", "data.path=a:b"]
    )
    assert ranges == [LR, Range("size.num_layers", "int", 1, 4, 2)] and rest == ["size=nano", "data.path=a:b"]
    assert LR.grid() == pytest.approx([10 ** (-4 + 0.75 * k) for k in range(5)], rel=1e-5)
    assert Range("k", "lin", 0, 1, 3).grid() == [0, 0.5, 1] and DEPTH.grid() == [1, 2, 3, 4]
    [depth], _ = parsed(["size.num_layers=int:1:4:1"])
    assert [depth.override(value) for value in (*depth.grid(), depth.high)] == [
        "size.num_layers=1",
        "size.num_layers=4",
    ]
    assert LR.override(0.0123456789) == "optimizer.lr=0.0123457" and DEPTH.override(3) == "size.num_layers=3"


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["a=log:0:1"], "must start above 0"),
        (["a=lin:2:1"], "lower end must be below"),
        (["a=int:1:2.5"], "whole numbers"),
        (["a=log:x:1"], "not a number"),
        (["a=lin:1"], "two ends"),
        (["a=lin:0:1", "a=log:1:2"], "two ranges"),
        (["size=nano"], "no key has a range"),
        (["a=lin:0:1:0"], "1 point or more"),
        (["a=lin:0:inf"], "must be below"),
        (["a=step:32:96"], "a step. Write a=step:LOW:HIGH:STEP"),
        (["a=step:32:100:32"], "no number of steps of 32 leads from 32 to 100"),
        (["a=lin:0.9999990:0.9999994"], "both ends are 0.999999 to 6 digits"),
    ],
)
def test_faulty_ranges_are_refused_with_the_fix(texts, words):
    with pytest.raises(ConfigError, match=words):
        parsed(texts)


def test_steps_are_all_the_whole_numbers_from_end_to_end():
    [width], _ = parsed(["size.d_model=step:32:128:32"])
    assert width.grid() == [32, 64, 96, 128]
    assert [width.at(share) for share in (0.0, 0.3, 0.6, 0.999, 1.0)] == [32, 64, 96, 128, 128]
    kind = width.distribution()
    assert (kind.low, kind.high, kind.step) == (32, 128, 32) and width.override(64.0) == "size.d_model=64"


def test_a_torn_end_of_a_journal_is_cut_off_and_a_damaged_line_named(tmp_path, capsys):
    first = tune.open_study("s", storage=None, folder=tmp_path, about={"a": 1})
    first.tell(first.ask({"k": LR.distribution()}), 1.0)
    path = tmp_path / "s.journal"
    whole = path.read_bytes()
    first.tell(first.ask({"k": LR.distribution()}), 2.0)
    path.write_bytes(path.read_bytes()[:-9])
    again = tune.open_study("s", storage=None, folder=tmp_path, about={"a": 1})
    assert "torn last line was cut off" in capsys.readouterr().err
    assert again.trials[0].value == 1.0 and again.trials[1].state.name == "RUNNING"
    again.tell(again.ask({"k": LR.distribution()}), 3.0)
    third = tune.open_study("s", storage=None, folder=tmp_path, about={"a": 1})
    assert third.trials[2].value == 3.0 and path.read_bytes().startswith(whole)
    path.write_bytes(whole.replace(b"{", b"[", 1))
    with pytest.raises(ConfigError, match=r"s\.journal, line 1: damaged\. Restore the file"):
        tune.open_study("s", storage=None, folder=tmp_path, about={"a": 1})


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("st.db", r"--storage st\.db: Could not parse SQLAlchemy URL"),
        ("sqlite:////proc/none/st.db", "unable to open database file"),
        (
            "postgresql://me:secret@host/db",
            r"--storage postgresql://me:\*\*\*@host/db: Failed to import DB access module",
        ),
    ],
)
def test_a_database_that_cannot_be_opened_is_refused(tmp_path, url, words):
    with pytest.raises(ConfigError, match=words) as refused:
        tune.open_study("s", storage=url, folder=tmp_path, about={})
    assert "secret" not in str(refused.value) and "sqlite:///FILE.db" in str(refused.value)


class Synthetic:
    """Loss = distance to lr 1e-2 in decades plus a part that shrinks with the step; lr above 0.05
    diverges.
    """

    def __init__(self, kill_at=math.inf, flips=False):
        self.calls: list[tuple[tuple, int]] = []
        self.kill_at, self.flips = kill_at, flips

    def __call__(self, points, step):
        if len(self.calls) >= self.kill_at:
            raise KeyboardInterrupt
        self.calls.append((tuple(sorted(points)), step))
        return {number: self.loss(point, step) for number, point in points.items()}

    def loss(self, point, step):
        rate = point["optimizer.lr"]
        if rate > 0.05:
            return 9.0
        away = abs(math.log10(rate) + 2)
        return (2 - away if self.flips and step < 60 else 1 + away) + 10 / step


def study(folder, name="s", **about):
    return tune.open_study(name, storage=None, folder=folder, about=about)


RUNGS = tune.Rungs.of(100, points=5, factor=2)


def searched(
    folder, score, *, name="s", sampler="tpe", trials=16, ranges=(LR,), seed=0, rungs=RUNGS, batch=8
):
    with tune.owner(name, folder):
        return tune.search(
            study(folder, name),
            ranges,
            score,
            sampler=sampler,
            seed=seed,
            trials=trials,
            batch=batch,
            rungs=rungs,
        )


def test_rungs_are_steps_at_which_a_run_is_evaluated():
    assert RUNGS.steps == (20, 40, 100)
    assert tune.Rungs.of(300, points=9, factor=3).steps == (33, 100, 300)
    assert tune.Rungs.of(300, points=5, factor=None).steps == (300,)


def test_each_rung_keeps_the_best_half_and_those_alone_go_on(tmp_path):
    score = Synthetic()
    found = searched(tmp_path, score)
    assert [(len(numbers), step) for numbers, step in score.calls] == 2 * [(8, 20), (4, 40), (2, 100)]
    states = [row["state"] for row in found.trials]
    assert states.count("complete") == 4 and states.count("pruned") == 12
    first, second = score.calls[0], score.calls[1]
    losses = {n: score.loss(found.trials[n]["params"], 20) for n in first[0]}
    assert set(second[0]) == set(sorted(losses, key=lambda n: losses[n])[:4])
    assert abs(math.log10(found.best["params"]["optimizer.lr"]) + 2) < 0.5
    assert [at["changed"] for at in found.order] == [0, 0] and found.order[0]["pairs"] == 6


def test_a_change_of_order_after_a_rung_is_counted(tmp_path):
    found = searched(tmp_path, Synthetic(flips=True))
    early = {at["step"]: (at["changed"], at["pairs"]) for at in found.order}
    assert early[20][0] == early[20][1] > 0  # by construction every pair turns round between step 40 and 100


def test_a_study_repeats_from_its_seed_and_a_killed_one_ends_the_same(tmp_path):
    def params(found):
        return [(row["state"], row["params"]) for row in found.trials if row["state"] != "fail"]

    whole = searched(tmp_path / "a", Synthetic())
    assert params(searched(tmp_path / "b", Synthetic())) == params(whole)
    assert params(searched(tmp_path / "c", Synthetic(), seed=1)) != params(whole)
    for kill_at in (1, 4):
        folder = tmp_path / f"killed{kill_at}"
        with pytest.raises(KeyboardInterrupt):
            searched(folder, Synthetic(kill_at=kill_at))
        again = searched(folder, Synthetic())
        assert params(again) == params(whole)
        failed = [row for row in again.trials if row["state"] == "fail"]
        retried = [row["retry_of"] for row in again.trials if row["retry_of"] is not None]
        assert len(failed) == 8 and retried == [int(row["id"]) for row in failed]
    done = Synthetic()
    searched(tmp_path / "a", done)
    assert done.calls == []


@pytest.mark.parametrize("sampler", ["grid", "sobol"])
def test_fixed_points_are_each_tried_once(tmp_path, sampler):
    found = searched(
        tmp_path,
        Synthetic(),
        sampler=sampler,
        trials=20,
        ranges=(LR, DEPTH),
        rungs=tune.Rungs.of(100, points=5, factor=None),
    )
    points = [tuple(row["params"].values()) for row in found.trials]
    assert len(points) == len(set(points)) == 20 and {row["state"] for row in found.trials} == {"complete"}
    if sampler == "grid":
        assert set(points) == {(rate, depth) for rate in LR.grid() for depth in DEPTH.grid()}
    assert {depth for _, depth in points} == {1, 2, 3, 4}


def test_diverged_trials_teach_and_failed_ones_are_told_as_failed(tmp_path):
    class Fails(Synthetic):
        def loss(self, point, step):
            return None if point["optimizer.lr"] < 1e-3 else super().loss(point, step)

    found = searched(
        tmp_path, Fails(), sampler="grid", trials=5, rungs=tune.Rungs.of(100, points=5, factor=None)
    )
    by_rate = {row["params"]["optimizer.lr"]: (row["state"], row["value"]) for row in found.trials}
    rates = LR.grid()
    assert by_rate[rates[0]] == by_rate[rates[1]] == ("fail", None) and by_rate[rates[-1]] == (
        "complete",
        9.0,
    )


def test_a_study_whose_trials_fail_tries_others_and_says_so(tmp_path):
    """The last of each batch fails at its first rung: the next values are new ones, and nothing is scored
    for nobody.
    """

    class Fails(Synthetic):
        def __call__(self, points, step):
            assert points
            found = super().__call__(points, step)
            return found | {number: None for number in found if number % 8 == 7}

    found = searched(tmp_path / "a", Fails(), trials=20)
    rates = [row["params"]["optimizer.lr"] for row in found.trials]
    assert len(set(rates)) == len(rates) and found.stopped is None
    assert [row["state"] for row in found.trials].count("fail") == 2 and len(found.trials) == 22
    assert "2 of 22 trials failed" in tune.told(found)[0]
    nothing = searched(tmp_path / "b", lambda points, step: dict.fromkeys(points), sampler="grid", trials=5)
    assert nothing.best is None and len(nothing.trials) == 5
    again = searched(
        tmp_path / "b", lambda points, step: pytest.fail("no point is left"), sampler="grid", trials=5
    )
    assert len(again.trials) == 5
    late = searched(
        tmp_path / "c", lambda points, step: {n: 1.0 if n > 5 else None for n in points}, trials=4, batch=1
    )
    assert [row["state"] for row in late.trials].count("complete") == 4 and late.stopped is None
    never = searched(tmp_path / "d", lambda points, step: dict.fromkeys(points), trials=4, batch=1)
    assert len(never.trials) == 8 and "stopped: none of the last 8 trials could be trained" in tune.told(
        never
    )


def test_importances_name_what_they_rest_on(tmp_path):
    found = searched(
        tmp_path,
        Synthetic(),
        sampler="sobol",
        trials=16,
        ranges=(LR, DEPTH),
        rungs=tune.Rungs.of(100, points=5, factor=None),
    )
    assert found.importances["evaluator"] == "PedAnovaImportanceEvaluator"
    assert found.importances["weights"]["optimizer.lr"] > found.importances["weights"]["size.num_layers"]
    assert any("PED-ANOVA" in line for line in tune.told(found))


def test_one_study_has_one_owner_and_one_question(tmp_path):
    study(tmp_path, space=[LR.json()])
    study(tmp_path, space=[LR.json()])
    with pytest.raises(ConfigError, match="made with other space"):
        study(tmp_path, space=[DEPTH.json()])
    with tune.owner("s", tmp_path), pytest.raises(ConfigError, match="another process is tuning it"):
        with tune.owner("s", tmp_path):
            pass
    with pytest.raises(ConfigError, match="letters, digits"):
        tune.check_name("../x")


@pytest.mark.slow
def test_a_real_study_continues_promoted_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(places, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(places, "CACHE", tmp_path / "cache")
    command = [
        "tune",
        "first",
        "optimizer.lr=log:1e-3:3e-2",
        "size=nano",
        "size.num_layers=1",
        "budget.amount=10240",
        "data.stories=200",
        "data.validation_stories=12",
        "evaluation.documents=4",
        "evaluation.samples=0",
        "tracker=none",
        "--sampler",
        "grid",
        "--trials",
        "4",
        "--batch",
        "4",
        "--json",
    ]
    assert cli.main(command) == 0
    found = json.loads(capsys.readouterr().out)[0]
    assert [row["state"] for row in found["trials"]].count("complete") == 1
    store = places.store()
    steps = sorted((store.metrics(run)[-1].step, store.state(run)) for run in store.ids())
    # rungs at 1, 2 and 5 of 5 evaluations of 10 steps
    assert steps == [(2, "pruned"), (2, "pruned"), (4, "pruned"), (10, "finished")]
    ended = next(run for run in store.ids() if store.state(run) == "finished")
    logged = [line.step for line in store.metrics(ended) if line.kind == STEP]
    assert logged == list(range(1, 11))
    rates = [line.number("lr") for line in store.metrics(ended) if line.kind == STEP]
    assert rates[-1] == pytest.approx(
        0.1 * store.record(ended).config.optimizer.lr
    )  # one horizon in every rung
    assert found["best"]["value"] == pytest.approx(store.record(ended).ended.bpb)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "results/runs").rglob("metrics.jsonl")}
    assert cli.main(command) == 0
    assert before == {
        path: path.stat().st_mtime_ns for path in (tmp_path / "results/runs").rglob("metrics.jsonl")
    }


def prepare_nothing(monkeypatch, folder):
    """Plans without prepared data."""
    corpus = TrainingText("d", 4.0, 10**9, tokenizer_hash="t")
    monkeypatch.setattr(planned_arm, "prepared", lambda config, **_: (folder, corpus))


def test_runs_of_other_lengths_are_judged_after_as_large_a_share(tmp_path, monkeypatch):
    """At equal FLOPs a model of 8 layers trains for fewer steps than one of 2; its rung is the evaluation
    of the same number.
    """
    prepare_nothing(monkeypatch, tmp_path)
    carried = []
    [depth], _ = parsed(["size.num_layers=int:2:8"])
    trials = Trials(
        ["size=nano", "budget=flops", "budget.amount=1e12", "tracker=none"],
        [depth],
        RunStore(tmp_path / "runs"),
        results=tmp_path,
        cache=tmp_path,
        carry_out=carried.append,
    )
    rungs = tune.Rungs.of(trials.steps, points=trials.points, factor=2)
    trials.score({0: {depth.key: 2}, 1: {depth.key: 8}}, rungs.steps[0])
    jobs = {job.config.shape.num_layers: job for job in carried[0].jobs.values()}
    assert jobs[2].until_step == rungs.steps[0]
    steps = jobs[8].config.steps
    assert steps < jobs[2].config.steps
    assert jobs[8].until_step in {round(steps * k / trials.points) for k in range(1, trials.points)}
    shares = [job.until_step / job.config.steps for job in jobs.values()]
    assert shares[0] == pytest.approx(shares[1], abs=1 / steps)


def trials_of(folder, ranges, *, carry_out, asked=()):
    return Trials(
        ["size=nano", "tracker=none", *asked],
        ranges,
        RunStore(folder / "runs"),
        results=folder,
        cache=folder,
        carry_out=carry_out,
    )


def test_a_point_that_no_run_can_have_fails_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        planned_arm, "prepared", lambda config, **_: (tmp_path, TrainingText("d", 4.0, 10**9, "t"))
    )
    carried = []
    ranges, _ = parsed(["schedule.warmup_fraction=lin:0:0.85", "schedule.decay_fraction=lin:0.1:1"])
    trials = trials_of(tmp_path, ranges, carry_out=carried.append, asked=["schedule=wsd"])
    keys = [found.key for found in ranges]
    points = {3: dict(zip(keys, (0.1, 0.2), strict=True)), 4: dict(zip(keys, (0.8, 0.9), strict=True))}
    assert trials.score(points, trials.steps) == {3: None, 4: None}
    assert [len(plan.jobs) for plan in carried] == [1] and "trial 4: schedule" in capsys.readouterr().err


def test_a_result_taken_from_published_lines_stays_one(tmp_path, monkeypatch):
    """A study reads its early losses off the published curve; it trains and removes nothing."""
    monkeypatch.setattr(
        planned_arm, "prepared", lambda config, **_: (tmp_path, TrainingText("d", 4.0, 10**9, "t"))
    )
    trials = trials_of(tmp_path, [LR], carry_out=lambda plan: None)
    point = {0: {LR.key: 1e-2}}
    [(name, job)] = trials.plan(point).jobs.items()
    evaluated = [round(trials.steps * k / 5) for k in range(1, 6)]
    record = RunRecord(
        run_id=name,
        state="finished",
        config=job.config,
        summary=Summary(state="finished", reason=None, measured={"val/bpb": 2.512345678}),
        curves=Curves(
            train=(),
            validation=tuple(ValidationPoint(at, k, 1.0, 3.0 - k / 10) for k, at in enumerate(evaluated, 1)),
            spikes=(),
            peaks={},
            excess={},
        ),
        numerics=NUMERICS,
        counts=job.manifest.counts,
        provenance=PROVENANCE,
    )
    assert trials.store.adopt(dumps(plain(record)), job.config, job.manifest)
    assert trials.score(point, evaluated[1]) == {0: 2.8}
    assert trials.score(point, trials.steps) == {0: 2.512345678}
    trials.drop(point)
    assert trials.store.state(name) == "finished" and trials.store.adopted(name)


def test_help_says_how_ranges_are_written(capsys):
    with pytest.raises(SystemExit):
        cli.main(["tune", "--help"])
    assert "log:1e-4:3e-2" in capsys.readouterr().out and space.KINDS == ("log", "lin", "int", "step")
