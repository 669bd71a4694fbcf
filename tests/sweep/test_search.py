"""The search of learning rates and the looks, on runs whose losses are written down instead of trained."""

import json
import math
import shutil
from dataclasses import replace

import pytest

from lab.config.strict import ConfigError, plain, read
from lab.plan import ablation as questions
from lab.plan import planned_arm, planning
from lab.plan.budget import TrainingText
from lab.report import build, write
from lab.store.claim import Claim
from lab.store.identity import NUMERICS
from lab.store.log_line import LogLine
from lab.store.plan_record import OffGrid, SearchRecord
from lab.store.run_record import SpikeSummary, Summary
from lab.store.run_store import RunStore
from lab.sweep import rate_search, search
from lab.sweep import stages as staged
from lab.sweep.carry_out import Incomplete
from lab.verdict import lr_range, verdicts
from lab.verdict.evidence import gather
from tests.paths import THREE_NORMS
from tests.synthetic_sweep import claim
from tests.tiny_run import PROVENANCE

INIT = 7.0  # nats a token before training
SPIKES = SpikeSummary(window=100, threshold=4.0, events=0, score_k4=0.0, score_k7=0.0, p999_over_median=1.0)


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """`lab(name, *overrides, **options)`: a plan without prepared data, and the store that its runs go to."""
    corpus = TrainingText("d", 4.0, 10**9, tokenizer_hash="t")
    monkeypatch.setattr(planned_arm, "prepared", lambda config, **_: (tmp_path, corpus))
    monkeypatch.setattr(planning, "_reference_lines", lambda baseline, reached: ())
    folder = shutil.copytree(questions.ABLATIONS, tmp_path / "questions")
    shutil.copy(THREE_NORMS, folder / "norm.yaml")
    monkeypatch.setattr(questions, "ABLATIONS", folder)
    monkeypatch.setattr(questions, "ROOT", tmp_path)
    store = RunStore(tmp_path / "runs")
    return store, lambda name, *overrides, **options: planning.make(
        name, ["size=nano", *overrides], results=tmp_path, cache=tmp_path, **options
    )


def begin(store, job, *, provenance=PROVENANCE):
    """Start a run, whose lease the caller holds."""
    manifest = job.manifest.started(job.run_id, numerics=NUMERICS, provenance=provenance)
    store.begin(job.run_id, job.config, manifest)


def end(store, job, bpb, *, provenance=PROVENANCE):
    """A run in the store that ended with `bpb`, None for one that diverged at its third step."""
    run = job.run_id
    with store.lease(run):
        begin(store, job, provenance=provenance)
        log = store.open_metrics(run, after=0)
        nats = [INIT, 5.0, (bpb or 2.0)]
        log.write(
            LogLine(
                "step",
                step,
                step * 1024,
                {"bytes": step * 4096, "train/loss": loss, "grad/norm": 1.0, "lr": 0.1, "seconds": 0.1},
            )
            for step, loss in enumerate(nats, 1)
        )
        log.close()
        summary = Summary(
            state="finished" if bpb else "diverged",
            reason=None if bpb else "not finite",
            steps=3,
            tokens=3072,
            bytes=12288,
            seconds=1.0,
            unigram_bpb=2.6,
            spikes={"grad/norm": SPIKES, "train/loss": SPIKES},
            measured={
                "train/loss": nats[-1],
                "val/loss": bpb and 2 * bpb,
                "val/bpb": bpb,
                "val/bytes": 100 if bpb else None,
                "val/excess_bpb": None,
                "val/floor_bpb": None,
            },
        )
        store.finish(run, summary)


def trainer(store, loss, told=None, *, provenance=lambda: PROVENANCE):
    """A carry_out that ends each open run with loss(arm, rate, seed); `told` collects (title, runs
    trained).
    """

    def carry_out(part, title):
        part.save()
        fresh = [job for run, job in part.jobs.items() if store.state(run) == "pending"]
        for job in fresh:
            config = job.config
            bpb = loss(job.manifest.job_type, config.optimizer.lr, config.seed)
            end(store, job, bpb, provenance=provenance())
        if told is not None:
            told.append((title, len(fresh)))

    return carry_out


def rate_of(store, run):
    return store.record(run).config.optimizer.lr


def judged(plan, store):
    """The verdict of a plan by the runs in the store."""
    records = [store.record(run) for run in plan.record.run_ids()]
    return plain(verdicts.verdict(gather(plan.record, records)))


def valley(centre, *, wall=math.inf):
    """bpb on the learning rate: best at `centre`, diverged from `wall` on."""
    return lambda rate, seed=0: (
        None if rate >= wall else 1.0 + 0.1 * math.log10(rate / centre) ** 2 + seed / 1000
    )


def test_the_grid_is_half_decades_around_the_common_rate_and_grows_by_one_step():
    assert search.grid(0.006, points=5, decades=0.5) == [0.0006, 0.0019, 0.006, 0.019, 0.06]
    assert search.extended([1e-3, 1e-2, 1e-1], {"a": 1e-2, "b": 1e-1}, decades=1.0) == [1e-3, 1e-2, 1e-1, 1.0]
    assert search.extended([1e-3, 1e-2], {"a": 1e-2, "b": 1e-3}, decades=1.0) == [1e-4, 1e-3, 1e-2, 0.1]
    assert search.extended([1e-3, 1e-2, 1e-1], {"a": 1e-2}, decades=1.0) == [1e-3, 1e-2, 1e-1]


def test_one_rate_more_is_tried_where_the_parabola_of_an_arm_is_lowest(lab, tmp_path):
    """The losses are parabolas in log rate, so the rate found is the centre, also where the rate above it
    diverges.
    """
    store, make = lab
    arms = {"rmsnorm": valley(0.01), "layernorm": valley(0.009, wall=0.012), "none": valley(0.006)}
    told = []
    plan = staged.run(
        make("norm", seeds=2),
        store,
        trainer(store, lambda arm, rate, seed: arms[arm](rate, seed), told),
        search=True,
        results=tmp_path,
    )
    found = plan.record.search
    assert told[1][0] == "search: between the rates of the grid rmsnorm 0.01, layernorm 0.009, none 0.006"
    assert [count for _, count in told] == [3 * 5 * 2, 2 * 2, 2 * 2 + 3 * 2]
    assert found.best == {"rmsnorm": 0.01, "layernorm": 0.009, "none": 0.006}
    assert found.between["rmsnorm"] == OffGrid(lr=0.01, losses=(1.1, 1.101), mean=pytest.approx(1.1005))
    assert set(found.losses["rmsnorm"]) == {0.0006, 0.0019, 0.006, 0.019, 0.06}
    written = plain(plan.record)["search"]  # rates are keys of JSON as short as they can be
    assert set(written["losses"]["rmsnorm"]) == {"0.0006", "0.0019", "0.006", "0.019", "0.06"}
    used = {arm.name: rate_of(store, arm.runs[0]) for arm in plan.record.arms}
    assert used == found.best and set(plan.record.run_ids()) == set(plan.jobs) == set(store.ids())


def test_the_rate_more_stays_within_half_a_step_and_is_the_best_one_where_too_few_learn():
    def lowest(*losses, values=(0.001, 0.01, 0.1, 1.0)):
        of_rate = {rate: (loss,) for rate, loss in zip(values, losses, strict=True)}
        means = {rate: 9.0 if loss is None else loss for rate, (loss,) in of_rate.items()}
        best = min(means, key=means.get)
        found = SearchRecord(
            key="optimizer.lr",
            metric="val/bpb",
            common=0.01,
            values=values,
            seeds=(100,),
            arms={},
            losses={"a": of_rate},
            at_init={"a": 9.0},
            means={"a": means},
            best={"a": best},
            interior={"a": values[0] < best < values[-1]},
            sensitivity={},
            extended=0,
        )
        return search.between(found).get("a")

    assert lowest(3.0, 1.0, 1.0, 3.0) == pytest.approx(10**-1.5, rel=1e-2)
    assert lowest(5.0, 3.0, 1.2, None) == 0.316  # falling all the way: half a step up
    assert lowest(None, 1.2, 3.0, 5.0) == 0.00316
    assert lowest(5.0, 3.0, 1.2, 8.0) == 0.316  # not diverged, but hardly better than before training
    assert lowest(4.0, 3.6, 1.2, None) == 0.316  # falling ever faster
    assert lowest(None, 1.0, None, 5.0) == 0.01 and lowest(2.0, 1.0, None, None) == 0.01
    assert lowest(1.0, 1.0, 1.0, 1.0) is None  # the first of equals is at the edge
    # A common rate of many digits: the one more would have its key, and be another run.
    assert lowest(2.0, 1.0, 2.0, 3.0, values=(0.001, 0.010004, 0.1, 1.0)) == 0.010004


def test_each_arm_is_judged_at_its_own_best_rate_and_at_the_common_one(lab, tmp_path):
    store, make = lab
    best = {"rmsnorm": valley(0.006), "layernorm": valley(0.019, wall=0.05), "none": valley(0.0019)}
    told = []
    plan = staged.run(
        make("norm", seeds=3),
        store,
        trainer(store, lambda arm, rate, seed: best[arm](rate, seed), told),
        search=True,
        results=tmp_path,
    )
    found = plan.record.search
    assert found.best == {"rmsnorm": 0.006, "layernorm": 0.019, "none": 0.0019}
    assert found.interior == dict.fromkeys(best, True) and found.extended == 0
    # By hand: the two seeds of the diverged rate count as the loss of step 1, 7 nats a token of 4 bytes.
    at_init = INIT / math.log(2) / 4
    losses = [best["layernorm"](rate) + 0.1005 for rate in (0.0006, 0.0019, 0.006, 0.019)] + [at_init]
    assert found.losses["layernorm"][0.06] == (None, None)
    assert found.sensitivity["layernorm"] == pytest.approx(sum(losses) / 5 - min(losses), rel=0.05)
    assert plan.record.setting == "nano-stories-cpu-lr" and plan.folder.name == "nano-stories-cpu-lr"
    assert [count for _, count in told] == [
        3 * 5 * 2,
        0,  # the centres are rates of the grid
        3 * 3 + 2 * 3,
    ]  # the baseline's best is the common rate
    arms = {arm.name: arm for arm in plan.record.arms}
    assert {name: rate_of(store, arm.runs[0]) for name, arm in arms.items()} == found.best
    assert {name: arm.best_lr for name, arm in arms.items()} == found.best
    assert arms["rmsnorm"].runs == arms["rmsnorm"].runs_same_lr
    assert {rate_of(store, run) for arm in arms.values() for run in arm.runs_same_lr.values()} == {0.006}
    tuning = {run for of in found.arms.values() for by in of.values() for run in by.values()}
    judging = {run for arm in arms.values() for run in (*arm.runs.values(), *arm.runs_same_lr.values())}
    assert not tuning & judging and set(plan.record.run_ids()) == tuning | judging == set(store.ids())


def test_the_same_command_goes_on_wherever_it_was_killed(lab, tmp_path):
    store, make = lab

    class Killed(Exception):
        pass

    def loss(arm, rate, seed):
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        return valley(0.01)(rate, seed)

    trained, plan = [], None
    for at in (7, 20, 5, 50):  # the third within the rates off the grid
        left = at
        try:
            plan = staged.run(
                make("norm", seeds=2), store, trainer(store, loss), search=True, results=tmp_path
            )
        except Killed:
            trained.append(at)
    assert plan is not None and trained == [7, 20, 5]
    assert len(plan.jobs) == len(store.ids()) == 3 * 5 * 2 + 3 * 2 + 2 * 3 * 2
    assert sum(trained) + 50 - left == len(store.ids())  # each run once
    again = []
    staged.run(make("norm", seeds=2), store, trainer(store, loss, again), search=True, results=tmp_path)
    assert [count for _, count in again] == [0, 0, 0]


def test_a_best_rate_at_the_edge_extends_the_grid_for_all_arms_twice_at_most(lab, tmp_path):
    store, make = lab
    slow = {"rmsnorm": valley(0.006), "layernorm": valley(0.2), "none": valley(5.0)}
    plan = staged.run(
        make("norm", seeds=2),
        store,
        trainer(store, lambda arm, rate, seed: slow[arm](rate, seed)),
        search=True,
        results=tmp_path,
    )
    found = plan.record.search
    assert found.values == (0.0006, 0.0019, 0.006, 0.019, 0.06, 0.19, 0.601) and found.extended == 2
    assert {len(of) for of in found.losses.values()} == {7}
    assert found.interior == {"rmsnorm": True, "layernorm": True, "none": False}
    listed = judged(plan, store)["confounds"]
    assert any("the grid was extended 2 times" in line for line in listed)
    assert [line for line in listed if "edge of the grid" in line] == [
        "The best rate is at the edge of the grid, so a better one may lie beyond: none 0.601."
    ]
    assert not any("not searched" in line for line in listed)


@pytest.mark.slow
def test_the_report_shows_both_differences_and_the_curve(lab, tmp_path):
    store, make = lab
    best = {"rmsnorm": valley(0.006), "layernorm": valley(0.019, wall=0.05), "none": valley(0.0019)}
    plan = staged.run(
        make("norm", seeds=3),
        store,
        trainer(store, lambda arm, rate, seed: best[arm](rate, seed)),
        search=True,
        results=tmp_path,
    )
    better = {"superior": {"better": "rmsnorm", "worse": "layernorm", "margin": 0.001}}
    asked = replace(plan.record, claims=(read(Claim, claim(**better) | {"metric": "val/bpb"}),))
    records = [store.record(run) for run in asked.run_ids()]
    page = write(build(gather(asked, records)), tmp_path / "page")
    verdict = json.loads((tmp_path / "page/verdict.json").read_text())
    arm = next(arm for arm in verdict["arms"] if arm["name"] == "layernorm")
    assert arm["best_lr"] == 0.019 and arm["difference"]["mean"] == pytest.approx(0.0, abs=1e-4)
    assert arm["same_lr"]["difference"]["mean"] == pytest.approx(0.1 * math.log10(0.019 / 0.006) ** 2)
    text = (tmp_path / "page/REPORT.md").read_text()
    (found,) = verdict["claims"]  # the lowest points of the valleys are level
    assert (found["outcome"], found["same_lr"]["outcome"]) == ("too small to matter", "reproduced")
    assert "at one rate of 0.006 for all arms: reproduced; RMSNorm is better than LayerNorm" in text
    assert "best learning rate" in text and "difference at 0.006" in text and "SEARCH=1" in text
    assert (tmp_path / "page/figures/rates.svg").stat().st_size > 2000 and "rates" in page.read_text()
    assert (tmp_path / "page/report.html").exists()


def test_predicates_on_ranges_of_rates_read_the_search(lab, tmp_path):
    store, make = lab
    walls = {"rmsnorm": valley(0.006, wall=0.1), "layernorm": valley(0.006, wall=0.01), "none": valley(0.006)}
    plan = staged.run(
        make("norm", seeds=1),
        store,
        trainer(store, lambda arm, rate, seed: walls[arm](rate)),
        search=True,
        results=tmp_path,
    )
    wide = lr_range.measured(plan.record.search, "rmsnorm", "max_stable")
    narrow = lr_range.measured(plan.record.search, "layernorm", "max_stable")
    assert [wide[seed] - narrow[seed] for seed in (100, 101)] == pytest.approx(
        [2.0, 2.0]
    )  # 0.06 against 0.006


def test_a_failed_run_of_the_search_stops_before_anything_rests_on_it(lab, tmp_path):
    store, make = lab
    carry_out = trainer(store, lambda arm, rate, seed: 1.0)

    def fails(part, title):
        first = next(iter(part.jobs))
        with store.lease(first):
            begin(store, part.jobs[first])
            store.fail(first, "Traceback", reason="out of memory")
        carry_out(part, title)

    with pytest.raises(Incomplete) as stopped:
        staged.run(make("norm", seeds=1), store, fails, search=True, results=tmp_path)
    record = stopped.value.plan.record
    assert record.search is None and len(record.run_ids()) == 30 + 3


def test_runs_of_two_versions_of_torch_pick_no_learning_rate(lab, tmp_path):
    store, make = lab
    machine = PROVENANCE
    carry_out = trainer(store, lambda arm, rate, seed: 1.0, provenance=lambda: machine)

    def upgraded(part, title):
        nonlocal machine
        carry_out(part, title)
        machine = replace(machine, torch="2.14.0")

    with pytest.raises(ConfigError, match=r"differ in torch \(2.13.0, 2.14.0\).*--retry trains those"):
        staged.run(make("norm", seeds=1), store, upgraded, search=True, results=tmp_path)


def test_what_cannot_be_searched_is_refused(lab, tmp_path, monkeypatch):
    _, make = lab
    with pytest.raises(ConfigError, match="tuning seeds 100, 101 would judge claims too"):
        rate_search.refuse_search(make("norm", seeds=120))
    assert questions.Search.standard() == questions.Search(5, 0.5, [100, 101], horizon=2, halving=True)
    problems = "\n".join(questions.Search(4, 0.0, [1, 100, 100], horizon=2, halving=True).problems(judging=3))
    for words in (
        "points = 4: must be odd",
        "decades = 0:",
        "must be different",
        "among those that judge, 0 to 2",
    ):
        assert words in problems


LOOKS = "\nlooks: [4, 8]\n"
CLAIM = """claims:
  - {id: c, statement: s, source: s, prediction: p, metric: val/bpb, needs: [],
     predicate: {superior: {better: rmsnorm, worse: none, margin: 0.001}}}
"""


@pytest.mark.parametrize(("clear", "seeds"), [(True, 4), (False, 8)])
def test_a_sweep_stops_after_the_look_that_decides_every_claim(lab, tmp_path, monkeypatch, clear, seeds):
    store, make = lab
    folder = tmp_path / "ablations"
    folder.mkdir()
    text = (questions.ABLATIONS / "norm.yaml").read_text()
    text = text[: text.index("claims:")].replace("seeds: 3", "seeds: 8") + CLAIM + LOOKS
    (folder / "mine.yaml").write_text(text)
    monkeypatch.setattr(questions, "ABLATIONS", folder)
    monkeypatch.setattr(questions, "ROOT", tmp_path)

    def loss(arm, rate, seed):
        noise = (-1) ** seed * 1e-4 if clear else (-1) ** seed * 0.02
        return 1.0 + (0.03 + noise if arm == "none" else 0.0) + seed / 100

    told = []
    plan = staged.run(make("mine"), store, trainer(store, loss, told), search=False, results=tmp_path)
    assert plan.record.seeds == tuple(range(seeds)) and len(plan.jobs) == 3 * seeds == len(store.ids())
    assert (plan.record.stopped.seeds, plan.record.stopped.of) == (seeds, 8)
    listed = judged(plan, store)
    assert (listed["claims"][0]["seeds"], listed["claims"][0]["outcome"] == "reproduced") == (seeds, True)
    assert any(line.startswith(f"{seeds} of at most 8 seeds were trained") for line in listed["confounds"])
    again = []
    staged.run(make("mine"), store, trainer(store, loss, again), search=False, results=tmp_path)
    assert sum(count for _, count in again) == 0
