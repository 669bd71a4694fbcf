"""Can a design decide its claims? The smallest p values, against counts made by hand, and all ablations."""

import math
import statistics

import pytest

from lab.plan import ablation, planned_arm, planning
from lab.plan.budget import TrainingText
from lab.store.claim import Claim
from lab.store.predicate_forms import Predicate
from lab.verdict import seed_noise
from lab.verdict.decidable import decidability, reach, smallest
from lab.verdict.judgement import hear
from tests.synthetic_sweep import evidence, sweep


def claim(predicate, family=None):
    asked = Predicate.from_plain(predicate, where="", problems=[])
    return Claim("c", "", "", "", "val/bpb", (), asked, family)


def equivalents(*arms):
    return {"equivalent": {"among": {"arms": list(arms)}, "margin": 0.01}}


def test_a_test_by_changes_of_sign_has_a_smallest_p_value_and_a_t_test_has_none():
    assert smallest(8) == 1 / 256 and smallest(6) == 1 / 64
    assert smallest(4) == smallest(17) == 0 and smallest(1) == 1


@pytest.mark.parametrize(
    ("predicate", "levels"),
    [
        ({"superior": {"better": "p_x1", "worse": "p_x2", "margin": 0.01}}, (1.0, 1.5, 1.5)),
        ({"superior": {"better": "p_x2", "worse": "p_x1", "margin": 0.01}}, (1.0, 1.5, 1.5)),
        (equivalents("p_x1", "p_x2", "p_x3"), (1.0, 1.0, 1.5)),
        (equivalents("p_x1", "p_x2", "p_x3"), (1.0, 1.0, 1.0)),
        ({"non_inferior": {"arm": "p_x3", "against": {"family": "p"}, "margin": 0.01}}, (1.0, 1.0, 1.5)),
        ({"trend": {"along": {"family": "p"}, "direction": "rises", "margin": 0.01}}, (1.0, 1.5, 2.0)),
        ({"basin": {"family": "p", "inside": [1, 2], "margin": 0.01}}, (1.0, 1.0, 1.5)),
    ],
)
def test_no_evidence_is_clearer_than_the_smallest_p_values(predicate, levels):
    """Eight seeds that all agree reach just what the design says, on the side for which they speak."""
    noise = [seed / 1e5 for seed in range(8)]
    values = {f"p_x{x}": [level + e * x for e in noise] for x, level in zip((1, 2, 3), levels, strict=True)}
    plan, records = sweep(values, claims=[])
    found = evidence(plan, records)
    asked = claim(predicate)
    if_true, if_false, _ = hear(asked, found).p_values
    design = reach(asked, found.plan.arms, 8)
    assert min(if_true - design.true, if_false - design.false) == pytest.approx(0, abs=1e-12)
    assert if_true >= design.true - 1e-12 and if_false >= design.false - 1e-12


def test_three_equivalences_of_three_arms_can_not_be_contradicted_by_8_seeds():
    """3 statements x 3 pairs x 2 sides over 256 changes of sign: 0.0703, above the 0.04 of the last look."""
    arms = evidence(*sweep({f"p_x{x}": [1.0] for x in (1, 2, 3)}, claims=[])).plan.arms
    found = reach(claim({"all": [equivalents("p_x1", "p_x2", "p_x3")] * 3}), arms, 8)
    assert found.false == pytest.approx(18 / 256) and found.true == 1 / 256


def test_ranges_of_rates_are_regroupings_of_tuning_seeds():
    asked = {"wider": "a", "narrower": "b", "measure": "width", "tolerance": 0.2}
    found = reach(claim({"lr_range": asked}), (), 3)
    assert (found.true, found.false) == (1 / 20, 1 / 20)
    assert reach(claim({"lr_range": asked}), (), 4).true == 1 / math.comb(8, 4)


def sets_of_arms():
    """(ablation, optional arms, claims): the claims that an ablation has as it stands, and those that each
    set of optional arms is for.
    """
    for name in ablation.names():
        asked = ablation.load(name)
        optional = [
            tuple(sorted({*one.needs, *one.predicate.arms()} & asked.optional_arms.keys()))
            for one in asked.claims
        ]
        for extra in dict.fromkeys(optional):
            yield name, extra, [c.id for c, of in zip(asked.claims, optional, strict=True) if of == extra]


@pytest.mark.parametrize(("name", "extra", "claims"), list(sets_of_arms()))
def test_every_claim_of_an_ablation_can_be_reproduced_and_contradicted(
    name, extra, claims, tmp_path, monkeypatch
):
    corpus = TrainingText("d", 4.0, 10**9, tokenizer_hash="t")
    monkeypatch.setattr(planned_arm, "prepared", lambda config, **_: (tmp_path, corpus))
    monkeypatch.setattr(planning, "_reference_lines", lambda baseline, reached: ())
    plan = planning.make(name, ["size=nano"], results=tmp_path, cache=tmp_path, extra_arms=extra)
    tuning = len((plan.search or ablation.Search.standard()).seeds)
    found = {one.claim: one.problem() for one in decidability(plan.record, tuning_seeds=tuning)}
    assert {claim: found[claim] for claim in claims} == dict.fromkeys(claims)


def test_what_a_plan_finds_goes_by_the_spread_in_sweeps_like_it():
    """Pooled by hand over two arms; diverged ones have no spread to speak of."""
    base, one, two = [1.0, 1.1, 1.2, 1.3], [1.02, 1.1, 1.25, 1.31], [1.1, 1.2, 1.3, 1.41]
    found = evidence(
        *sweep({"p_x1": base, "p_x2": one, "p_x3": two, "p_x4": [1.0, "diverged", 1.0, 1.0]}, claims=[])
    )
    baseline = next(arm for arm in found.arms if arm.baseline)
    others = [list(arm.values.values()) for arm in found.arms if not arm.baseline and not arm.diverged]
    level = list(baseline.values.values())
    spread = [statistics.variance(b / a - 1 for a, b in zip(level, other, strict=True)) for other in others]
    assert seed_noise.pooled_sd([found]) == pytest.approx(math.sqrt(statistics.fmean(spread)))
    assert seed_noise.pooled_sd([]) is None
