"""Made-up evidence of a plan over horizons: two arms whose losses are known at each of them."""

import dataclasses

from lab.config.strict import read
from lab.store.claim import Claim
from lab.store.plan_record import LowerRate, PlanRecord, Rung, SearchRecord
from lab.store.predicate_forms import Predicate
from lab.store.run_record import RunRecord
from lab.verdict.evidence import Evidence, MeasuredArm, gather
from lab.verdict.simulation import PlainPredicate
from tests.synthetic_sweep import record, sweep

TOKENS = tuple(307_200 * 2**k for k in range(5))
SEEDS = 8


def climbed(
    levels: dict[str, list[float]],
    *,
    margin: float = 0.01,
    lower: dict[str, float] | None = None,
    predicate: PlainPredicate | None = None,
    texts: dict[str, tuple[float, ...]] | None = None,
) -> Evidence:
    """Arms a and b with these levels at the horizons; b is claimed to be worse, unless another predicate is
    given. Seeds differ by up to 0.8 %, which pairing removes but for a hundredth of it.

    lower: final losses of arms at the last horizon with a lower rate, for seed 0. texts: of arms, how many
    times their loss they have on each group of documents.
    """
    count = len(levels["a"])
    plan_values, _ = sweep({f"f_x{number}": [1.0] * SEEDS for number, _ in enumerate(levels)}, claims=[])
    plan = read(PlanRecord, plan_values)
    arms, records = [], []
    for number, (name, values) in enumerate(levels.items()):
        branches = []
        for k, level in enumerate(values):
            runs = {seed: f"{name}-{k}-{seed}" for seed in range(SEEDS)}
            branches.append(runs)
            for seed, run in runs.items():
                wobble = 1 + seed / 1000 + number * ((seed * 7) % 5 - 2) / 1e5
                one = read(RunRecord, record(run, level * wobble))
                if texts:
                    groups = tuple(level * wobble * factor for factor in texts[name])
                    one = dataclasses.replace(one, summary=dataclasses.replace(one.ended, group_bpb=groups))
                records.append(one)
        arm = dataclasses.replace(
            plan.arms[number], name=name, label=name, runs=branches[-1], branches=tuple(branches)
        )
        arms.append(arm)
    worse = {"superior": {"better": "a", "worse": "b", "margin": margin}}
    asked = Predicate.from_plain(predicate or worse, where="", problems=[])
    assert asked is not None
    claims = (Claim("c", "", "", "", "val/bpb", (), asked),)
    plan = dataclasses.replace(
        plan,
        arms=tuple(arms),
        claims=claims,
        protocol=2,
        horizons=TOKENS[:count],
        search=_search(lower) if lower else None,
    )
    return gather(plan, records)


def _search(lower: dict[str, float]) -> SearchRecord:
    losses = {arm: {0.003: (1.0, 1.0), 0.01: (0.9, 0.9)} for arm in "ab"}
    return SearchRecord(
        key="optimizer.lr",
        metric="val/bpb",
        common=0.003,
        values=(0.003, 0.01),
        seeds=(100, 101),
        arms={},
        losses=losses,
        at_init=dict.fromkeys("ab", 8.0),
        means={},
        best=dict.fromkeys("ab", 0.01),
        interior=dict.fromkeys("ab", True),
        sensitivity=dict.fromkeys("ab", None),
        extended=0,
        rungs=(Rung(1, {"a": {}, "b": {}}, losses),),
        lower={arm: LowerRate(0.00316, 0, f"lower-{arm}", loss) for arm, loss in lower.items()},
    )


def arm_on(name: str, groups: dict[int, tuple[float, ...]]) -> MeasuredArm:
    """An arm of which only the losses of groups of documents are known."""
    states = dict.fromkeys(groups, "finished")
    return MeasuredArm(name, "f", name, None, False, states, {}, dict.fromkeys(groups, 1.0), groups=groups)
