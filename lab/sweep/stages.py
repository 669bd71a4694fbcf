"""In which stages does a sweep train, and when does it stop adding seeds?

    search     every arm at every learning rate of a grid that may grow, on tuning seeds; over horizons those
               that keep up go on to the next (lab/sweep/rate_search.py)
    between    each arm that is best inside the grid at one rate more, on the same seeds
    look       the first look's seeds of every arm; then the next look's, unless every claim is decided, over
               horizons of the arms alone that an open claim needs
    lower      over horizons, one seed of each arm at the last of them with a lower rate

Each stage follows from what the store holds of those before, so a sweep that is stopped or killed in any
of them goes on with the same command, and no run is trained twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from lab.plan.planning import Plan
from lab.store import exact_check
from lab.store.plan_record import PlanRecord, TrainedSeeds
from lab.store.run_record import RunRecord
from lab.store.run_store import RunStore
from lab.sweep.carry_out import CarryOut, complete
from lab.sweep.rate_search import RateSearch


def run(
    plan: Plan,
    store: RunStore,
    carry_out: CarryOut,
    *,
    search: bool,
    results: Path,
    stop_early: bool = True,
    register: Callable[[Plan], None] = lambda plan: None,
) -> Plan:
    """Carry out the stages of `plan` and return the plan as it came to be, with the jobs of all stages.

    carry_out(plan, title) trains the jobs of one stage and keeps its record. stop_early: let the looks of
    the ablation end the sweep; otherwise all its seeds are trained. register(plan) notes the rules before
    the first run that judges. Raises Incomplete.
    """
    if not search:
        register(plan)
        return _looked(plan, store, carry_out, results, stop_early=stop_early)
    searching = RateSearch.of(plan, store, carry_out, results)
    plan = searching.searched()
    register(plan)
    plan = _looked(plan, store, carry_out, results, stop_early=stop_early)
    if len(plan.record.horizons) > searching.wanted.horizon + 1:
        plan = replace(searching, plan=plan).with_lower_rates()
    return plan


def _looked(plan: Plan, store: RunStore, carry_out: CarryOut, results: Path, *, stop_early: bool) -> Plan:
    """The stages of the seeds that judge; stops after the look that decides every claim."""
    from lab.verdict.evidence import gather
    from lab.verdict.verdicts import decided, open_arms

    seeds, looks, exact = plan.record.seeds, plan.record.looks, exact_check.load(results)
    ends = [look for look in looks if look < len(seeds)] if stop_early else []
    needed: set[str] = set()
    for before, end in pairwise([0, *ends, len(seeds)]):
        part = first_seeds(plan, seeds[:end])
        if before and plan.record.horizons:
            part = _without(part, needed, seeds=seeds[:before])
        carry_out(part, f"{len(part.arms)} arms x {end} seeds, {part.record.setting}")
        complete(part, part.jobs, store)
        if end == len(seeds):
            break
        evidence = gather(part.record, _judging(part, store), exact=exact)
        needed = open_arms(evidence)
        if decided(evidence):
            return _stopped(part, end, len(seeds), "further seeds could change no outcome")
    if looks and stop_early:
        return _stopped(part, end, len(seeds), "these were the last of the ablation")
    return part


def _stopped(plan: Plan, seeds: int, of: int, why: str) -> Plan:
    return replace(plan, record=replace(plan.record, stopped=TrainedSeeds(seeds, of, why)))


def first_seeds(plan: Plan, seeds: Sequence[int]) -> Plan:
    """The plan of some of its seeds, with the whole of its search."""
    return _cut_to(plan, plan.record.with_seeds(seeds))


def _without(plan: Plan, needed: set[str], *, seeds: Sequence[int]) -> Plan:
    """The plan whose arms that no open claim needs keep the seeds that they have."""
    record = plan.record
    short = record.with_seeds(seeds)
    arms = tuple(arm if arm.baseline or arm.name in needed else short.arm(arm.name) for arm in record.arms)
    return _cut_to(plan, replace(record, arms=arms))


def _cut_to(plan: Plan, record: PlanRecord) -> Plan:
    """The plan with a record that has some of its runs, and without the jobs of the others."""
    left = set(plan.record.run_ids()) - set(record.run_ids())
    return plan.with_jobs({name: job for name, job in plan.jobs.items() if name not in left}, record)


def _judging(plan: Plan, store: RunStore) -> list[RunRecord]:
    """The records of the runs that judge."""
    return [store.record(name) for name in sorted(plan.record.judging_ids())]
