"""The predicates of the protocol on sweeps whose answer a human can read off the numbers."""

import pytest

from lab.config.strict import read
from lab.store import metric
from lab.store.plan_record import SearchRecord
from lab.store.run_record import RunRecord
from lab.verdict import lr_range, wording
from tests.synthetic_sweep import claim, claim_problems, record, search_of, sweep, verdict
from tests.verdict.test_claims import around, judged


@pytest.mark.parametrize(
    ("level", "spread", "outcome"),
    [
        (1.503, 1, "reproduced"),
        (1.56, 1, "contradicted"),
        (1.44, 1, "contradicted"),
        (1.5, 30, "inconclusive"),
    ],
)
def test_equivalent(level, spread, outcome):
    same = claim(equivalent={"among": {"arms": ["plain_x4", "plain_x8"]}, "margin": 0.01})
    values = {"plain_x4": around(1.5), "plain_x8": around(level, spread, turn=1)}
    assert judged(values, same)["outcome"] == outcome


def test_equivalence_is_asked_of_every_pair():
    same = claim(equivalent={"among": {"family": "plain"}, "margin": 0.012})
    values = {"plain_x4": around(1.5), "plain_x8": around(1.51, turn=1), "plain_x16": around(1.52, turn=2)}
    found = judged(values, same)
    assert [e["relative_percent"] is not None for e in found["estimates"]] == [True] * 3
    assert found["outcome"] != "reproduced"  # 1.52 is 1.3 % above 1.50, though each is within 1.2 % of 1.51


RISES = {"along": {"family": "plain"}, "direction": "rises", "margin": 0.005}


@pytest.mark.parametrize(
    ("levels", "outcome"),
    [
        ((1.5, 1.52, 1.54), "reproduced"),
        ((1.54, 1.52, 1.5), "contradicted"),
        ((1.5, 1.54, 1.5), "too small to matter"),  # the ends agree
        ((1.5, 1.47, 1.52), "inconclusive"),
    ],
)
def test_trend_along_x(levels, outcome):
    values = {f"plain_x{2**i}": around(level, turn=i) for i, level in enumerate(levels)}
    assert judged(values, claim(trend=RISES))["outcome"] == outcome


def test_a_clear_trend_below_its_margin_is_too_small():
    values = {
        f"plain_x{2**i}": around(1.5 + i / 500, 0.05, turn=i) for i in range(3)
    }  # the ends are 0.27 % apart
    assert judged(values, claim(trend=RISES))["outcome"] == "too small to matter"


def test_a_trend_over_arms_that_never_learned_is_open():
    values = {f"plain_x{2**i}": ["diverged"] * 3 for i in range(3)}
    plan, records = sweep(values, claims=[claim(trend=RISES)])
    for run in records:  # their first losses rise from arm to arm
        run["curves"]["train"][0][2] = 7 + float(run["run_id"].split("_x")[1].split("-")[0]) / 10
    found = verdict(plan, records)
    assert found["claims"][0]["outcome"] == "inconclusive"
    assert [arm["difference_percent"] for arm in found["arms"]] == [None] * 3


def test_spikes_of_runs_that_diverged_alike_are_compared():
    values = {"plain_x4": ["diverged"] * 3, "plain_x8": ["diverged"] * 3}
    wanted = claim(superior={"better": "plain_x8", "worse": "plain_x4", "margin": 0.1})
    plan, records = sweep(values, claims=[wanted | {"metric": "spikes/grad/norm/score_k4"}])
    for run in records:
        run["summary"]["spikes"]["grad/norm"] |= {
            "score_k4": 0.5 if "x4" in run["run_id"] else 0.1 * (1 + int(run["run_id"][-1]) / 10)
        }
    assert verdict(plan, records)["claims"][0]["outcome"] == "reproduced"


def test_kendall_speaks_for_one_seed_and_page_does_not():
    values = {f"plain_x{2**i}": [1.5 + i / 50] for i in range(4)}
    found = judged(values, claim(trend={**RISES, "test": "kendall"}))
    assert (found["outcome"], found["p_values"]["true"]) == ("reproduced", pytest.approx(1 / 24))
    assert judged(values, claim(trend=RISES))["outcome"] == "inconclusive"


DID = claim(
    did={
        "larger": {"arm": "post_x0", "against": "post_x1"},
        "smaller": {"arm": "pre_x0", "against": "pre_x1"},
        "margin": 0.02,
    }
)


def test_a_difference_of_differences_is_open_where_both_sides_diverged():
    values = {
        "post_x0": ["diverged"] * 3,
        "post_x1": ["diverged"] * 3,
        "pre_x0": [1.6] * 3,
        "pre_x1": [1.5] * 3,
    }
    found = judged(values, DID)
    assert found["outcome"] == "inconclusive" and "both sides diverged for the same seed" in found["why"]
    assert found["detectable"].endswith("nothing ranks them")


@pytest.mark.parametrize(
    ("level", "outcome"), [(1.7, "reproduced"), (1.5, "too small to matter"), (1.35, "contradicted")]
)
def test_difference_of_differences(level, outcome):
    values = {
        "post_x0": around(level),
        "post_x1": around(1.5),
        "pre_x0": around(1.51, turn=1),
        "pre_x1": around(1.5),
    }
    found = judged(values, DID)
    assert found["outcome"] == outcome
    if outcome == "reproduced":  # 13.33 % less 0.67 %
        assert found["estimates"][0]["relative_percent"]["mean"] == pytest.approx(12.67, abs=0.01)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("train/loss", "a is better than b"),
        ("val/bpb/german", "a is better than b"),
        ("val/entropy", "val/entropy of a is higher than that of b"),
        ("gap", "gap of a is lower than that of b"),
    ],
)
def test_only_a_loss_is_called_better(name, words):
    assert wording.beats(metric.named(name), "a", "b") == words


def test_better_than_of_means_over_arms():
    gated = claim(superior={"better": {"family": "gated"}, "worse": {"family": "plain"}, "margin": 0.01})
    values = {"gated_x2": [1.4, 1.41, 1.42], "gated_x4": [1.6, 1.61, 1.62], "plain_x4": [1.65, 1.66, 1.67]}
    found = judged(values, gated)
    assert found["outcome"] == "reproduced" and "the mean of gated is better than plain 4x" in found["why"]
    shown = found["estimates"][0]["relative_percent"]["mean"]
    assert shown == pytest.approx(100 / 3 * (1.65 / 1.5 + 1.66 / 1.51 + 1.67 / 1.52 - 3))


def test_a_family_without_an_arm_in_the_plan_is_not_run():
    gated = claim(superior={"better": {"family": "gated"}, "worse": "plain_x4", "margin": 0.01})
    found = judged({"plain_x4": around(1.5)}, gated)
    assert found["outcome"] == "not run" and "no arm of family gated" in found["why"]


def test_a_metric_that_finished_runs_lack_is_named():
    longer = claim(superior={"better": "plain_x8", "worse": "plain_x4", "margin": 0.01}) | {
        "metric": "longer/4"
    }
    found = judged({"plain_x4": around(1.5), "plain_x8": around(1.4)}, longer)
    assert (found["outcome"], found["why"]) == (
        "not run",
        "runs of plain 4x, plain 8x have ended without longer/4",
    )


def with_skills(values, key):
    """A sweep whose bits per byte are all alike and whose copy skill is as given."""
    plan, records = sweep({name: [1.5] * len(of) for name, of in values.items()})
    listed = [value for of in values.values() for value in of]
    for run, value in zip(records, listed, strict=True):
        run["summary"]["skills"]["copy"][key] = value
    return plan, records


@pytest.mark.parametrize(
    ("key", "better", "shown"), [("accuracy", "plain_x8", -0.2), ("excess", "plain_x4", 0.2)]
)
def test_a_skill_as_the_metric_knows_which_way_is_better(key, better, shown):
    plan, records = with_skills({"plain_x4": [0.6, 0.61, 0.59], "plain_x8": [0.8, 0.81, 0.79]}, key)
    worse = {"plain_x4": "plain_x8", "plain_x8": "plain_x4"}[better]
    wanted = claim(superior={"better": better, "worse": worse, "margin": 0.1}) | {"metric": f"{key}/copy"}
    plan["claims"] = [wanted]
    found = verdict(plan, records)["claims"][0]
    assert found["outcome"] == "reproduced" and found["margins_percent"] == []
    # A reader sees the worse arm less the better one, in the unit of the metric.
    assert found["estimates"][0]["difference"]["mean"] == pytest.approx(shown)
    assert found["estimates"][0]["relative_percent"] is None


def test_the_gap_counts_no_step_for_its_spike():
    """The last tenth of 300 steps, every fifth logged: six losses of 2.0 and, kept for its spike alone,
    one of 8.0.
    """
    one = record("a", 1.5)
    points = [[step, step * 1024, 2.0, 0.5] for step in range(1, 301, 5)] + [[300, 307_200, 2.0, 0.5]]
    one["summary"]["val/loss"] = 2.5
    one["curves"]["train"] = sorted([*points, [288, 294_912, 8.0, 9.0]])
    assert metric.value_of(read(RunRecord, one), "gap") == pytest.approx((2.5 - 2.0) / 2.5)


def test_spikes_as_the_metric():
    assert metric.value_of(read(RunRecord, record("a", 1.5)), "spikes/grad/norm/score_k4") == 0.005
    assert metric.named("spikes/train/loss/p999_over_median").relative is False
    for wrong in ("spikes/grad/norm/score_k5", "excess", "val/bits", "accuracy/"):
        with pytest.raises(ValueError, match="no such metric"):
            metric.named(wrong)


SEARCH = search_of(
    {
        "plain_x4": {"0.001": [2.0] * 3, "0.003": [1.5] * 3, "0.01": [1.7] * 3, "0.03": [1.75, 1.7, None]},
        "plain_x8": {
            "0.001": [1.9] * 3,
            "0.003": [1.5] * 3,
            "0.01": [1.85, None, None],
            "0.03": [None, 1.7, None],
        },
    },
    at_init={"plain_x4": 8.0, "plain_x8": 8.0},
)


def test_stable_range_by_hand():
    # 1.75 is within 20 % of 1.5, 1.85 is not; 1.7 at plain 8x's highest rate lies behind a diverged run and
    # does not count.
    search = read(SearchRecord, SEARCH)
    assert lr_range.measured(search, "plain_x4", "max_stable") == {100: -3, 101: -3, 102: -4}
    assert lr_range.measured(search, "plain_x8", "max_stable") == {100: -5, 101: -5, 102: -5}
    assert lr_range.measured(search, "plain_x4", "width") == {100: 2, 101: 2, 102: 1}
    assert lr_range.cut_off(search) == ["plain_x4"]
    found = lr_range.measured(search, "plain_x4", "sensitivity")
    assert found[102] == pytest.approx((2 + 1.5 + 1.7 + 8) / 4 - 1.5)
    everywhere = read(SearchRecord, search_of({"a": {"0.001": [None], "0.01": [None]}}, at_init={"a": 8.0}))
    assert lr_range.measured(everywhere, "a", "max_stable") == {100: -7}
    assert lr_range.measured(everywhere, "a", "sensitivity") == {}
    assert lr_range.hopeless(everywhere, "a")


def searched(one, other):
    """An outcome for arms whose runs are stable up to the rates of these steps, one number a tuning seed."""
    rates = ("0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03", "0.1")
    losses = {
        name: {rate: [1.5 if step <= last else None for last in ends] for step, rate in enumerate(rates)}
        for name, ends in (("plain_x4", one), ("plain_x8", other))
    }
    wider = {"wider": "plain_x4", "narrower": "plain_x8", "measure": "max_stable", "tolerance": 0.2}
    plan, records = sweep({"plain_x4": [1.5] * 3, "plain_x8": [1.5] * 3}, claims=[claim(lr_range=wider)])
    plan["search"] = search_of(losses)
    return verdict(plan, records)["claims"][0]


@pytest.mark.parametrize(
    ("one", "other", "outcome"),
    [
        ([5, 4, 5], [3, 3, 2], "reproduced"),
        ([2, 2, 2], [3, 4, 3], "contradicted"),
        ([3, 3, 3], [3, 3, 3], "too small to matter"),
        ([4, 4, 3], [3, 3, 3], "inconclusive"),
        ([5, 5], [2, 2], "inconclusive"),  # two seeds an arm reach 1/6
        (
            [6, 6, 6],
            [6, 6, 6],
            "inconclusive",
        ),  # both stable at the highest rate: how far beyond, nobody knows
        ([-1, -1, -1], [-1, -1, -1], "inconclusive"),  # neither stable anywhere
        ([6, 6, 6], [4, 4, 4], "reproduced"),  # at least that far
    ],
)
def test_range_of_learning_rates(one, other, outcome):
    found = searched(one, other)
    assert found["outcome"] == outcome and found["seeds"] == len(one)
    assert (found["detectable"] is not None) == (outcome == "inconclusive")


def test_a_width_that_meets_either_edge_of_the_grid_is_a_bound():
    rates = ("0.001", "0.003", "0.01")
    losses = {
        "low": [1.5, 1.5, None],
        "middle": [2.0, 1.5, None],
        "high": [2.0, 1.5, 1.5],
        "none": [None] * 3,
    }
    found = search_of(
        {arm: {rate: [loss] for rate, loss in zip(rates, of, strict=True)} for arm, of in losses.items()}
    )
    search = read(SearchRecord, found)
    bounds = {
        m: [arm for arm in losses if lr_range.is_bound(search, arm, m)] for m in ("max_stable", "width")
    }
    assert bounds == {"max_stable": ["high", "none"], "width": ["low", "high", "none"]}


def test_sensitivity_is_a_metric_over_the_tuning_seeds():
    better = claim(superior={"better": "plain_x4", "worse": "plain_x8", "margin": 0.1}) | {
        "metric": "lr/sensitivity"
    }
    plan, records = sweep({"plain_x4": [1.5] * 2, "plain_x8": [1.5] * 2}, claims=[better])
    plan["search"] = SEARCH
    found = verdict(plan, records)["claims"][0]
    assert found["seeds"] == 3 and found["estimates"][0]["difference"]["n"] == 3
    del plan["search"]
    assert verdict(plan, records)["claims"][0]["outcome"] == "not run"


def test_an_arm_that_diverged_at_every_rate_is_not_called_steady():
    better = claim(superior={"better": "plain_x4", "worse": "plain_x8", "margin": 0.1}) | {
        "metric": "lr/sensitivity"
    }
    plan, records = sweep({"plain_x4": [1.5] * 2, "plain_x8": [1.5] * 2}, claims=[better])
    losses = {
        "plain_x4": {rate: [None] * 3 for rate in SEARCH["losses"]["plain_x4"]},
        "plain_x8": SEARCH["losses"]["plain_x8"],
    }
    plan["search"] = SEARCH | {"losses": losses}
    found = verdict(plan, records)["claims"][0]
    assert (found["outcome"], found["why"]) == (
        "inconclusive",
        "plain 4x lacks 3 of 3 planned seeds (3 diverged)",
    )


def learning(losses, claim, *, unigram=2.5):
    """The verdict of protocol 2 on a claim about a search with these losses of three seeds."""
    plan, records = sweep({"plain_x4": [1.5] * 2, "plain_x8": [1.5] * 2}, claims=[claim])
    at_init = {"plain_x4": 8.0, "plain_x8": 8.0}
    plan |= {"search": search_of(losses, at_init=at_init) | {"unigram_bpb": unigram}, "protocol": 2}
    return verdict(plan, records)["claims"][0]


WIDER = claim(
    lr_range={"wider": "plain_x4", "narrower": "plain_x8", "measure": "max_stable", "tolerance": 0.2}
)


def test_a_run_that_learnt_nothing_is_not_stable_and_an_arm_of_such_runs_has_no_range():
    """2.6 bits a byte lie above the unigram entropy of 2.5, and within 20 % of themselves."""
    steady = {"0.001": [1.5] * 3, "0.003": [1.5] * 3, "0.01": [1.6] * 3}
    flat = {rate: [2.6] * 3 for rate in steady}
    found = learning({"plain_x4": steady, "plain_x8": flat}, WIDER)
    assert found["outcome"] == "inconclusive"
    assert "plain 8x learnt at no rate of the grid" in found["why"] and found["why"].endswith("has no range")
    rates = read(
        SearchRecord, search_of({"a": steady, "b": flat | {"0.001": [2.4] * 3}}) | {"unigram_bpb": 2.5}
    )
    assert lr_range.measured(rates, "b", "max_stable") == dict.fromkeys((100, 101, 102), -6)
    assert not lr_range.hopeless(rates, "b")


def test_sensitivity_leaves_out_rates_at_which_nothing_learns():
    losses = {
        "a": {"0.001": [2.0], "0.01": [1.5], "0.1": [2.7]},
        "b": {"0.001": [2.6], "0.01": [1.4], "0.1": [None]},
    }
    search = read(SearchRecord, search_of(losses, at_init={"a": 8.0, "b": 8.0}) | {"unigram_bpb": 2.5})
    assert lr_range.measured(search, "a", "sensitivity") == {100: pytest.approx((2.0 + 1.5) / 2 - 1.5)}
    assert lr_range.measured(search, "b", "sensitivity") == {100: pytest.approx((2.6 + 1.4) / 2 - 1.4)}


def test_a_loss_above_that_before_training_counts_as_that():
    search = read(SearchRecord, search_of({"a": {"0.01": [1.5], "0.1": [9.0]}}, at_init={"a": 8.0}))
    assert lr_range.measured(search, "a", "sensitivity") == {100: pytest.approx((1.5 + 8.0) / 2 - 1.5)}


def test_a_difference_of_sensitivity_that_one_rate_makes_is_open():
    steady = claim(superior={"better": "plain_x4", "worse": "plain_x8", "margin": 0.01}) | {
        "metric": "lr/sensitivity"
    }
    even = {
        "0.001": [1.6, 1.61, 1.62],
        "0.003": [1.5] * 3,
        "0.01": [1.7, 1.71, 1.7],
        "0.03": [1.8, 1.81, 1.8],
    }
    rough = even | {"0.03": [2.2, 2.21, 2.2]}
    found = learning({"plain_x4": even, "plain_x8": rough}, steady)
    assert found["outcome"] == "inconclusive" and "reproduced by the rate 0.03 alone" in found["why"]
    rough = even | {"0.03": [2.2, 2.21, 2.2], "0.01": [2.0, 2.01, 2.0]}
    assert learning({"plain_x4": even, "plain_x8": rough}, steady)["outcome"] == "reproduced"


@pytest.mark.parametrize(
    ("holds", "outcome"), [([True, True], "reproduced"), ([True, False], "contradicted"), ([], "not run")]
)
def test_exact_claims_read_their_checks(holds, outcome):
    plan, records = sweep({"plain_x4": [1.5]}, claims=[claim(exact={"claim": "softmax-shift"})])
    lines = [{"claim": "softmax-shift", "check": f"check {i}", "holds": h} for i, h in enumerate(holds)]
    found = verdict(plan, records, exact=[*lines, {"claim": "other", "check": "c", "holds": False}])
    assert found["claims"][0]["outcome"] == outcome


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metric": "val/bpp"}, 'metric = val/bpp: unknown. Did you mean "val/bpb"?'),
        (
            {"metric": "excess/copy", "predicate": {"below_line": {"arm": "plain_x4", "line": "l"}}},
            "Set metric: val/bpb",
        ),
        (
            {"predicate": {"trend": {**RISES, "direction": "up"}}},
            "direction = up: unknown. Known: rises, falls",
        ),
        (
            {"predicate": {"trend": {**RISES, "along": {"arm": "plain_x4"}}}},
            "must be {arms: [NAME, ...]} or {family: NAME}",
        ),
        (
            {"predicate": {"trend": {**RISES, "along": {"arms": ["plain_x4", "plain_65"]}}}},
            "arm plain_65 is not in this file",
        ),
        (
            {"predicate": {"equivalent": {"among": {"family": "gated"}, "margin": 0.1}}},
            "family gated is not in this file",
        ),
        (
            {"predicate": {"equivalent": {"among": {"family": "plain"}, "margin": {"sds": 2}}}},
            "must be a number or {seed_sds: 2}",
        ),
        (
            {
                "predicate": {
                    "did": {
                        "larger": {"arm": "plain_x4"},
                        "smaller": {"arm": "plain_x4", "against": "plain_x4"},
                        "margin": 0.1,
                    }
                }
            },
            "larger = ",
        ),
        (
            {"predicate": {"superior": {"better": {"famly": "plain"}, "worse": "plain_x4", "margin": 0.1}}},
            "better = {'famly': 'plain'}: must be an arm, {arms: [NAME, ...]} or {family: NAME}",
        ),
        (
            {"predicate": {"superior": {"better": {"arms": []}, "worse": "plain_x4", "margin": 0.1}}},
            "better = {'arms': []}: must be",
        ),
        (
            {"predicate": {"superior": {"better": 3, "worse": "plain_x4", "margin": 0.1}}},
            "better = 3: must be an arm",
        ),
        ({"predicate": {"bounded": {"arm": "plain_x4", "below": "1.4"}}}, "below = 1.4: needs a number"),
        ({"famly": "a"}, 'famly: unknown key. Did you mean "family"?'),
    ],
)
def test_what_is_wrong_with_a_claim_is_said(change, words):
    good = claim(trend=RISES)
    assert claim_problems([good], arms=["plain_x4"], families=["plain"]) == []
    assert words in "\n".join(claim_problems([good | change], arms=["plain_x4"], families=["plain"]))
