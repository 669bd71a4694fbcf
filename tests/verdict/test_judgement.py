"""Families of claims, looks, and margins that refer to noise: which level decides, and when a sweep may
stop.
"""

import pytest
import scipy.stats

from lab.store.claim import look_problems
from tests import synthetic_sweep
from tests.paths import THREE_NORMS
from tests.synthetic_sweep import claim, decided, sweep, verdict
from tests.verdict.test_claims import BETTER


def pair(differences):
    """Two arms whose paired relative differences are as given."""
    return {"plain_x4": [1.0] * len(differences), "plain_x64": [1 + d for d in differences]}


def found(values, *which, looks=None, noise=None):
    plan, records = sweep(values, claims=list(which))
    plan |= {"looks": looks} if looks else {}
    plan |= {"noise": noise} if noise else {}
    return plan, records, verdict(plan, records)["claims"]


def noise_of(numbers):
    return synthetic_sweep.noise_of(**{"val/bpb": numbers})


CLEAR = [0.04, 0.05, 0.06]


def test_claims_of_a_family_share_the_level_and_others_do_not():
    listed = [
        BETTER,
        BETTER | {"id": "two"},
        BETTER | {"id": "three"},
        BETTER | {"id": "apart", "family": "other"},
    ]
    p_value = scipy.stats.ttest_1samp(CLEAR, 0).pvalue
    assert p_value < 0.05 / 3
    assert [c["outcome"] for c in found(pair(CLEAR), *listed)[2]] == ["reproduced"] * 4
    weaker = [0.038, 0.05, 0.062]
    p_value = scipy.stats.ttest_1samp(weaker, 0).pvalue
    assert 0.05 / 3 < p_value < 0.05
    judged = found(pair(weaker), *listed)[2]
    assert [c["outcome"] for c in judged] == ["inconclusive"] * 3 + ["reproduced"]
    assert judged[0]["levels"]["true"] == pytest.approx(0.05 / 3) and judged[3]["levels"]["true"] == 0.05
    assert judged[0]["p_values"]["true"] == pytest.approx(p_value)


def test_a_claim_that_was_not_run_costs_the_others_nothing():
    absent = BETTER | {"id": "absent", "needs": ["plain_x128"]}
    _, _, listed = found(pair([0.035, 0.05, 0.065]), BETTER, absent)  # p = 0.029
    assert [c["outcome"] for c in listed] == ["reproduced", "not run"]


def test_the_first_look_asks_more_and_stops_a_decided_sweep():
    sure = [0.049, 0.05, 0.051, 0.05]
    plan, records, listed = found(pair(sure), BETTER, looks=[4, 8])
    assert listed[0]["outcome"] == "reproduced" and listed[0]["levels"]["true"] == pytest.approx(0.01)
    assert decided(plan, records)
    spread = [0.05 - 0.0222, 0.05 + 0.0222, 0.05 - 0.0222, 0.05 + 0.0222]
    plan, records, listed = found(pair(spread), BETTER, looks=[4, 8])
    assert 0.01 < scipy.stats.ttest_1samp(spread, 0).pvalue < 0.05
    assert listed[0]["outcome"] == "inconclusive" and not decided(plan, records)
    plan, records, listed = found(pair(2 * spread), BETTER, looks=[4, 8])
    assert listed[0]["outcome"] == "reproduced" and listed[0]["p_values"]["true"] == 2 / 256
    assert listed[0]["levels"]["true"] == pytest.approx(0.04) and decided(plan, records)


def test_a_claim_keeps_what_an_earlier_look_decided():
    _, _, listed = found(pair([0.049, 0.05, 0.051, 0.05, -0.3, 0.3, -0.2, 0.2]), BETTER, looks=[4, 8])
    assert (listed[0]["outcome"], listed[0]["seeds"]) == ("reproduced", 4)


def test_seeds_between_looks_change_nothing_and_too_few_decide_nothing():
    _, _, listed = found(pair([0.049, 0.05, 0.051, 0.05, -0.3, 0.3]), BETTER, looks=[4, 8])
    assert listed[0]["seeds"] == 4
    plan, records, listed = found(pair([0.049, 0.05, 0.051]), BETTER, looks=[4, 8])
    assert (
        listed[0]["outcome"] == "inconclusive"
        and "first look is at 4 seeds; the plan has 3" in listed[0]["why"]
    )
    assert not decided(plan, records)


def test_failed_runs_and_absent_arms_wait_for_no_seed():
    values = pair([0.05, 0.04, 0.06, 0.05])
    values["plain_x64"][1] = "failed"
    absent = BETTER | {"id": "absent", "needs": ["plain_x128"]}
    plan, records, listed = found(values, BETTER, absent, looks=[4, 8])
    assert [c["outcome"] for c in listed] == ["inconclusive", "not run"] and decided(plan, records)


def test_a_claim_on_the_search_alone_waits_for_no_seed_and_an_absent_arm_is_not_run_before_the_first_look():
    steady = BETTER | {"id": "steady", "metric": "lr/sensitivity", "family": "rates"}
    plan, records = sweep(pair([0.05, 0.04, 0.06, 0.05]), claims=[steady])
    losses = {
        "plain_x4": {"0.001": [1.5, 1.9], "0.01": [1.4, 1.3]},
        "plain_x64": {"0.001": [1.8, 1.6], "0.01": [1.4, 1.3]},
    }
    plan |= {
        "looks": [4, 8],
        "search": synthetic_sweep.search_of(losses, at_init={"plain_x4": 8.0, "plain_x64": 8.0}),
    }
    assert verdict(plan, records)["claims"][0]["outcome"] == "inconclusive"
    assert decided(plan, records)
    absent = BETTER | {"id": "absent", "needs": ["plain_x128"]}
    assert found(pair([0.05, 0.04, 0.06]), absent, looks=[4, 8])[2][0]["outcome"] == "not run"


def test_two_parts_that_are_each_nearly_small_share_the_level():
    both = BETTER | {
        "predicate": {
            "all": [
                BETTER["predicate"],
                {"superior": {"better": "plain_x4", "worse": "plain_x8", "margin": 0.01}},
            ]
        }
    }
    near = [-0.004, 0.0, 0.005]
    values = {**pair(near), "plain_x8": [1 + d for d in near]}
    listed = found(values, both)[2][0]
    alone = found(pair(near), BETTER)[2][0]["p_values"]["small"]
    assert 0.025 < alone < 0.05 and listed["p_values"]["small"] == pytest.approx(2 * alone)
    assert listed["outcome"] == "inconclusive" and [p["answer"] for p in listed["parts"]] == ["open", "open"]
    assert listed["detectable_percent"] > 0


def test_what_could_be_found_counts_the_arms_among_which_it_is_looked_for():
    """The best p value of 8 seeds is 1/256. Three arms outside with four rivals each make 12 chances, so
    12/256 against 0.05/6.
    """
    basin = claim(basin={"family": "plain", "inside": [1, 4], "margin": 0.001})
    others = [basin | {"id": f"other {n}", "needs": ["plain_x1"]} for n in range(5)]
    wiggle = [0.001, -0.001] * 4
    values = {f"plain_x{x}": [1.0 + d for d in wiggle] for x in (1, 2)}
    values |= {f"plain_x{x}": [1.5 - d for d in wiggle] for x in (32, 64, 128)}
    listed = found(values, basin, *others)[2][0]
    assert listed["outcome"] == "inconclusive" and listed["parts"][2]["answer"] == "open"
    assert (
        listed["detectable"] == "no difference of any size: 8 seeds can't reach the level of 0.00069"
    )  # 0.05/6/12


def test_every_inconclusive_claim_says_what_could_be_found():
    spread = [0.01, -0.01, 0.02]
    failed = pair(spread)
    failed["plain_x64"][2] = "failed"
    for values in (pair(spread), failed):
        _, _, listed = found(values, BETTER)
        assert listed[0]["outcome"] == "inconclusive" and 1 < listed[0]["detectable_percent"] < 20
    _, _, listed = found(pair([0.05]), BETTER)
    assert listed[0]["detectable"].startswith("no difference of any size: one seed")


def test_a_margin_in_seed_standard_deviations_of_the_baseline():
    margin = claim(superior={"better": "plain_x4", "worse": "plain_x64", "margin": {"seed_sds": 2}})
    measured = noise_of({"n": 8, "seed_sd": 0.02, "paired_sd": 0.01})
    _, _, listed = found(pair(CLEAR), margin, noise=measured)  # a mean of 5 % against 2 x 2 %
    assert listed[0]["outcome"] == "reproduced" and listed[0]["margins_percent"] == [pytest.approx(4.0)]
    measured["metrics"]["val/bpb"]["seed_sd"] = 0.03
    assert found(pair(CLEAR), margin, noise=measured)[2][0]["outcome"] != "reproduced"
    measured["metrics"]["val/bpb"]["n"] = 3
    for noise in (measured, None):
        _, _, listed = found(pair(CLEAR), margin, noise=noise)
        assert listed[0]["outcome"] == "not run" and "run lab noise first" in listed[0]["why"]


def test_a_margin_below_two_standard_errors_is_named():
    plan, records = sweep(pair(CLEAR), claims=[BETTER])  # a margin of 1 %
    plan["noise"] = noise_of({"n": 8, "seed_sd": 0.02, "paired_sd": 0.01})
    [line] = [c for c in verdict(plan, records)["confounds"] if c.startswith("superior:")]
    assert "margin of 1 % is below 1.15 %" in line  # 2 x 0.01 / sqrt(3)
    plan["claims"] = [
        claim(superior={"better": "plain_x4", "worse": "plain_x64", "margin": {"seed_sds": 0.5}})
    ]
    [line] = [c for c in verdict(plan, records)["confounds"] if c.startswith("superior:")]
    assert "margin of 1 % is below 1.15 %" in line  # half of 2 %
    plan["noise"]["metrics"]["val/bpb"]["paired_sd"] = 0.008
    assert not [c for c in verdict(plan, records)["confounds"] if c.startswith("superior:")]


def test_where_an_arm_has_no_result_the_noise_says_what_its_seeds_could_find():
    values = {"plain_x4": [1.0, 1.01, 0.99, 1.0], "plain_x64": ["failed"] * 4}
    [one] = found(values, BETTER, noise=noise_of({"n": 8, "seed_sd": 0.02, "paired_sd": 0.01}))[2]
    shift = one["detectable_percent"] / 1 * 4**0.5  # in standard errors of 1 %
    power = scipy.stats.nct.sf(scipy.stats.t.ppf(0.975, 3), 3, shift)
    assert one["outcome"] == "inconclusive" and power == pytest.approx(0.8, abs=1e-3)
    assert "by the noise measured beforehand" in one["detectable"]


@pytest.mark.parametrize(
    ("looks", "words"), [([8, 4], "must rise"), ([1, 8], "must rise"), ([4, 6], "last must be seeds = 8")]
)
def test_looks_of_an_ablation_file_are_checked(looks, words):
    assert words in "\n".join(look_problems(looks, seeds=8))
    assert look_problems([4, 8], seeds=8) == look_problems([], seeds=8) == []


def test_an_ablation_file_may_fix_looks(tmp_path, monkeypatch):
    from lab.config.strict import ConfigError
    from lab.plan import ablation

    assert ablation.load("heads").looks == []
    text = THREE_NORMS.read_text().replace("seeds: 3", "seeds: 8")
    monkeypatch.setattr(ablation, "ROOT", tmp_path)
    monkeypatch.setattr(ablation, "ABLATIONS", tmp_path)
    (tmp_path / "good.yaml").write_text(text + "looks: [4, 8]\n")
    (tmp_path / "bad.yaml").write_text(text + "looks: [4, 6]\n")
    assert ablation.load("good").looks == [4, 8]
    with pytest.raises(ConfigError, match=r"looks = \[4, 6\]: the last must be seeds = 8"):
        ablation.load("bad")
