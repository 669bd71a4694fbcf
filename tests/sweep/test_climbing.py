"""Trunks, branches and the search over horizons, with losses made up in place of training."""

import math

import pytest

from lab.config.strict import ConfigError
from lab.plan import horizons
from lab.store.plan_record import tokens_text
from lab.store.run_store import RunStore
from lab.sweep import halving, stages
from tests.sweep.climbing_plan import climbed, first_search, rung
from tests.tiny_run import tiny_run


def test_horizons_double_and_a_branch_takes_the_last_fifth_of_the_way_to_its_own(make_climbing):
    plan = make_climbing()
    assert plan.record.horizons == (307_200, 614_400, 1_228_800, 2_457_600, 4_915_200)
    arm = plan.record.baseline
    trunk = plan.jobs[arm.trunks[0]]
    assert (trunk.config.steps, trunk.until_step) == (3840, None)
    assert trunk.keep_steps == (240, 480, 960, 1920, 3840)
    branches = [plan.jobs[of[0]] for of in arm.branches]
    assert [job.config.steps for job in branches] == [60, 120, 240, 480, 960]
    assert [job.config.init_from for job in branches] == [
        f"{trunk.run_id}@{step}" for step in (240, 480, 960, 1920, 3840)
    ]
    assert [job.manifest.parent.tokens + job.tokens for job in branches] == list(plan.record.horizons)
    steps = sum(job.config.steps for job in (trunk, *branches))
    assert steps == 5700 and sum(300 * 2**k for k in range(5)) == 9300


def test_the_rate_is_constant_after_one_warm_up_and_falls_to_0_in_a_branch(make_climbing):
    from lab.train.schedule import factor

    plan = make_climbing()
    trunk, *branches = (
        plan.jobs[of[0]].config for of in (plan.record.baseline.trunks, *plan.record.baseline.branches)
    )
    rate = [factor(step, steps=trunk.steps, schedule=trunk.schedule) for step in range(1, trunk.steps + 1)]
    assert rate[:60] == pytest.approx([step / 60 for step in range(1, 61)])  # 5 % of the third horizon
    assert set(rate[60:]) == {1.0}
    for branch in branches:
        of = [
            factor(step, steps=branch.steps, schedule=branch.schedule) for step in range(1, branch.steps + 1)
        ]
        assert of == pytest.approx([1 - step / branch.steps for step in range(1, branch.steps + 1)])


def test_a_sweep_that_ends_earlier_trains_a_part_of_the_same_runs(make_climbing):
    whole, part, quick = make_climbing(), make_climbing(horizon=1.2e6), make_climbing(quick=True)
    assert part.record.horizons == whole.record.horizons[:3]
    assert part.jobs.keys() < whole.jobs.keys()
    trunk = part.jobs[part.record.baseline.trunks[0]]
    assert trunk.until_step == 960 and trunk.config.steps == 3840
    assert quick.record.horizons == whole.record.horizons[:2] and quick.record.seeds == (0, 1, 2)
    assert [plan.record.setting for plan in (whole, part, quick)] == [
        f"nano-stories-cpu-{at}" for at in ("4.9M", "1.2M", "0.6M")
    ]
    assert part.record.at_horizon(0).baseline.runs == whole.record.baseline.branches[0]


def test_a_horizon_that_there_is_not_is_refused_with_those_that_there_are(make_climbing):
    with pytest.raises(
        ConfigError, match=r"--horizon 1.0M: no such horizon. .* 0.3M, 0.6M, 1.2M, 2.5M, 4.9M"
    ):
        make_climbing(horizon=1e6)
    assert make_climbing(horizon=4.8e6).record.horizons[-1] == 4_915_200


@pytest.mark.parametrize("text", ["schedule=linear", "schedule.final_fraction=0.3", "evaluation.points=3"])
def test_what_no_trunk_would_follow_is_refused_wherever_it_stands(make_climbing, tmp_path, text):
    with pytest.raises(ConfigError, match=rf"{text} \(command line\): ablations/climb.yaml has horizons"):
        make_climbing(text)
    path = tmp_path / "ablations/climb.yaml"
    path.write_text(path.read_text().replace("overrides: [norm=layernorm]", f"overrides: [{text}]"))
    with pytest.raises(ConfigError, match=rf"{text} \(ablations/climb.yaml, arm layernorm\)"):
        make_climbing()


def test_a_longer_warm_up_is_one_of_the_trunk(make_climbing):
    """A tenth of the third horizon's 1,200 steps."""
    from lab.train.schedule import warmup_steps

    plan = make_climbing("schedule.warmup_fraction=0.1")
    trunk = plan.jobs[plan.record.baseline.trunks[0]].config
    assert warmup_steps(trunk.steps, trunk.schedule) == 120


def test_rates_that_fall_behind_stop_and_the_rest_go_on_to_the_horizon_that_chooses(make_climbing, tmp_path):
    """The best rate falls as horizons rise, so what is chosen at the first one would be wrong."""
    plan, store, told = make_climbing(), RunStore(tmp_path / "runs"), []

    def loss(arm, rate, seed, tokens):
        centre = 0.019 if tokens < 1e6 else 0.0075
        return 1.0 + 0.15 * math.log10(rate / centre) ** 2 + seed / 1e4

    done = stages.run(plan, store, climbed(plan, store, loss, told), search=True, results=tmp_path)
    search = done.record.search
    assert [rung.tokens for rung in search.rungs] == list(done.record.horizons[:3])
    first, second, third = (list(rung.losses["rmsnorm"]) for rung in search.rungs)
    assert first == [0.0006, 0.0019, 0.006, 0.019, 0.06]
    assert second == [0.006, 0.019, 0.06]  # half a decade costs 0.0375, a whole one 0.15
    # The neighbour 0.0019 did not come so far: the parabola is that of the first horizon, whose lowest
    # point lies beyond half a step from 0.006.
    assert third == [0.006, 0.019, 0.06, 0.0107]
    assert search.best["rmsnorm"] == 0.006
    assert {run.config.optimizer.lr for run in judged(done, store)} == {0.006}
    lower = search.lower["rmsnorm"]
    assert (lower.lr, lower.seed) == (0.0019, 0)
    assert lower.loss == pytest.approx(loss("", 0.0019, 0, 4_915_200))
    runs = {run for rung in search.rungs for of in rung.runs["rmsnorm"].values() for run in of.values()}
    assert runs <= set(done.record.run_ids())


def judged(plan, store):
    """The records of branches that judge."""
    return [store.record(run) for of in plan.record.baseline.branches for run in of.values()]


def test_a_rate_goes_on_within_5_percent_of_the_best_one():
    at = rung(1, r1=1.0, r2=1.0499, r3=1.0501, r4=None)
    assert halving.going_on(at, {"a": 8.0}) == {"a": [1.0, 2.0]}


def test_the_best_rate_is_that_of_the_last_rung_and_losses_those_that_all_rates_have():
    rungs = [rung(1, r1=1.0, r2=1.1, r4=1.2), rung(2, r1=1.0, r2=0.9)]
    found = halving.chosen(first_search((1.0, 2.0, 4.0)), rungs)
    assert found.best == {"a": 2.0} and found.interior == {"a": True}
    assert found.losses["a"] == rungs[0].losses["a"]
    assert found.rungs == tuple(rungs)


def test_the_rate_between_is_the_lowest_point_of_the_parabola_at_the_last_horizon_with_both_neighbours():
    """Losses are a parabola in log rate around 0.02 at the first horizon; at the second a neighbour lacks."""
    values = (0.001, 0.01, 0.1)

    def of(rate):
        return 1 + 0.1 * math.log10(rate / 0.02) ** 2

    rungs = [
        rung(1, **{f"r{rate}": of(rate) for rate in values}),
        rung(2, **{"r0.01": 0.8, "r0.1": 0.9}),
    ]
    found = halving.chosen(first_search(values), rungs)
    assert halving.between(found) == {"a": 0.02}
    refined = halving.refined(found, rung(2, **{"r0.02": 0.7}))
    assert refined.best == {"a": 0.02} and refined.between["a"].mean == pytest.approx(0.7)
    assert set(refined.rungs[-1].losses["a"]) == {0.01, 0.02, 0.1}


def test_the_horizon_of_an_arm_with_fewer_tokens_a_step_is_the_same():
    assert tokens_text(614_400) == "0.6M" and tokens_text(12_288_000) == "12.3M"
    assert horizons.Ladder(300).cooldown(4) == 960
    assert horizons.scored(tiny_run(), 9).documents == 8 * horizons.scored(tiny_run(), 0).documents


def test_the_time_of_a_plan_counts_trunks_and_every_branch(make_climbing, tmp_path, capsys, monkeypatch):
    """2 arms x 4 seeds x 5,700 steps of 1,024 tokens, at the speed that is assumed before any run."""
    from lab.commands import plan_rows
    from lab.sweep import local

    monkeypatch.setattr(local, "default_workers", lambda device: 1)
    plan = make_climbing()
    plan_rows.show_plan(plan, RunStore(tmp_path / "runs"), as_json=False)
    flops = sum(4 * 5700 * 1024 * arm.counts.flops_per_token for arm in plan.record.arms)
    minutes = flops / plan_rows.UNMEASURED_FLOPS["cpu"] / 60
    assert f"48 runs, 48 to train, about {minutes:.0f} min with 1 at a time" in capsys.readouterr().out
