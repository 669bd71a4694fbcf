"""In which stages does a sweep train, and when does it stop adding seeds?

    search     every arm at every learning rate of a grid that may grow, on tuning seeds (lab/sweep/search.py)
    between    each arm that is best inside the grid at one rate more, on the same seeds
    look       the first look's seeds of every arm; then the next look's, unless every claim is decided

Each stage follows from what the store holds of those before, so a sweep that is stopped or killed in any
of them goes on with the same command, and no run is trained twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from lab.config.strict import ConfigError
from lab.plan.ablation import Search
from lab.plan.job_set import Jobs
from lab.plan.planned_arm import PlannedArm, job_of
from lab.plan.planning import Plan
from lab.store import exact_check
from lab.store.job import Job
from lab.store.plan_record import TrainedSeeds
from lab.store.run_store import RunStore
from lab.store.states import RESULT_STATES
from lab.sweep import search as rates
from lab.sweep.search import RunsByRate

CarryOut = Callable[[Plan, str], None]


class Incomplete(Exception):
    """A stage has runs without a result, and what comes next rests on them; `plan` is as far as it is
    known.
    """

    def __init__(self, plan: Plan):
        super().__init__()
        self.plan = plan


def run(
    plan: Plan, store: RunStore, carry_out: CarryOut, *, search: bool, results: Path, stop_early: bool = True
) -> Plan:
    """Carry out the stages of `plan` and return the plan as it came to be, with the jobs of all stages.

    carry_out(plan, title) trains the jobs of one stage and keeps its record. stop_early: let the looks of
    the ablation end the sweep; otherwise all its seeds are trained. Raises Incomplete.
    """
    if search:
        plan = _searched(plan, store, carry_out, results)
    return _looked(plan, store, carry_out, results, stop_early=stop_early)


def first_rates(plan: Plan) -> list[float]:
    """The grid that a search of this plan starts with."""
    wanted = plan.search or Search.standard()
    return rates.grid(_common(plan), points=wanted.points, decades=wanted.decades)


def foretold(plan: Plan) -> str:
    """What a search adds to the plan, in words, before it is known which rates are best."""
    wanted, values = plan.search or Search.standard(), first_rates(plan)
    arms, seeds = len(plan.arms), len(wanted.seeds)
    first, step = arms * len(values) * seeds, arms * seeds
    return (
        f"search: {first} runs of {arms} arms at {', '.join(map(rates.written, values))} with seeds "
        f"{', '.join(map(str, wanted.seeds))}, {step} more each time an arm is best at an edge, at most "
        f"{rates.MOST_EXTENSIONS} times; {step} between the rates of the grid; then the runs above "
        "at each arm's best rate and at "
        "the common one"
    )


def grid_jobs(
    plan: Plan, values: Sequence[float], seeds: Sequence[int], results: Path
) -> tuple[Jobs, RunsByRate]:
    """Every arm at every rate with every seed."""
    return _rate_jobs(plan, {item.name: values for item in plan.arms}, seeds, results)


def _rate_jobs(
    plan: Plan, rates_of: dict[str, Sequence[float]], seeds: Sequence[int], results: Path
) -> tuple[Jobs, RunsByRate]:
    """grid_jobs of arms with rates of their own."""
    jobs: Jobs = {}
    runs: RunsByRate = {}
    for item in plan.arms:
        for rate in rates_of.get(item.name, []):
            for seed in seeds:
                job = _job(item, rate, seed, plan, results)
                jobs.setdefault(job.run_id, job)
                runs.setdefault(item.name, {}).setdefault(rate, {})[seed] = job.run_id
    return jobs, runs


def refuse_search(plan: Plan) -> None:
    """Raises ConfigError where a search of learning rates can't be made of this plan."""
    wanted, problems = plan.search or Search.standard(), []
    fixed = [
        item.name for item in plan.arms if any(t.startswith("optimizer.lr=") for t in item.arm.overrides)
    ]
    if fixed:
        problems.append(f"--search: arm {', '.join(fixed)} sets optimizer.lr itself. Leave --search out.")
    used = sorted(set(wanted.seeds) & set(plan.record.seeds))
    if used:
        problems.append(
            f"--search: tuning seeds {', '.join(map(str, used))} would judge claims too. Use fewer --seeds."
        )
    if problems:
        raise ConfigError(problems)


def _searched(plan: Plan, store: RunStore, carry_out: CarryOut, results: Path) -> Plan:
    """Stage 1, and the plan that trains each arm at its best rate and at the common one."""
    refuse_search(plan)
    wanted, common = plan.search or Search.standard(), _common(plan)
    values, tuning = first_rates(plan), Jobs()
    record = replace(plan.record, setting=f"{plan.record.setting}-lr")
    plan = replace(plan, record=record, folder=plan.folder.with_name(record.setting))
    for extension in range(rates.MOST_EXTENSIONS + 1):
        jobs, runs = grid_jobs(plan, values, wanted.seeds, results)
        tuning |= jobs
        trying = plan.with_jobs(jobs, replace(record, searching=runs))
        listed = ", ".join(map(rates.written, values))
        more = f", extended {extension} time{'s' * (extension > 1)}" if extension else ""
        carry_out(trying, f"search: {len(plan.arms)} arms x {len(wanted.seeds)} seeds at {listed}{more}")
        _complete(trying.with_jobs(tuning), jobs, store)
        found = rates.table(
            runs,
            {name: store.record(name) for name in jobs},
            common=common,
            values=values,
            seeds=wanted.seeds,
        )
        wider = rates.extended(values, found.best, decades=wanted.decades)
        if wider == values or extension == rates.MOST_EXTENSIONS:
            break
        values = wider
    chosen = rates.between(found)
    jobs, off_grid = _rate_jobs(plan, {arm: [rate] for arm, rate in chosen.items()}, wanted.seeds, results)
    tuning |= jobs
    listed = ", ".join(f"{arm} {rates.written(rate)}" for arm, rate in chosen.items())
    both = {arm: of | off_grid.get(arm, {}) for arm, of in runs.items()}
    trying = plan.with_jobs(jobs, replace(record, searching=both))
    carry_out(trying, f"search: between the rates of the grid {listed or 'none, as all are best at an edge'}")
    _complete(trying.with_jobs(tuning), jobs, store)
    found = rates.refined(found, off_grid, {name: store.record(name) for name in tuning})
    entries = []
    judging = Jobs()
    for item, arm in zip(plan.arms, record.arms, strict=True):
        best, same = (_seed_jobs(item, rate, plan, results) for rate in (found.best[item.name], common))
        judging |= best | same
        at_best, at_common = (dict(zip(record.seeds, of, strict=True)) for of in (best, same))
        entries.append(replace(arm, runs=at_best, runs_same_lr=at_common, best_lr=found.best[item.name]))
    searched = replace(record, search=replace(found, extended=extension), arms=tuple(entries))
    return plan.with_jobs(tuning | judging, searched)


def _looked(plan: Plan, store: RunStore, carry_out: CarryOut, results: Path, *, stop_early: bool) -> Plan:
    """The stages of the seeds that judge; stops after the look that decides every claim."""
    from lab.verdict.evidence import gather
    from lab.verdict.verdicts import decided

    seeds, looks, exact = plan.record.seeds, plan.record.looks, exact_check.load(results)
    ends = [look for look in looks if look < len(seeds)] if stop_early else []
    for end in [*ends, len(seeds)]:
        part = first_seeds(plan, seeds[:end])
        carry_out(part, f"{len(part.arms)} arms x {end} seeds, {part.record.setting}")
        _complete(part, part.jobs, store)
        if end == len(seeds):
            break
        records = [store.record(name) for arm in part.record.arms for name in arm.runs.values()]
        if decided(gather(part.record, records, exact=exact)):
            return _stopped(part, end, len(seeds), "further seeds could change no outcome")
    if looks and stop_early:
        return _stopped(part, end, len(seeds), "these were the last of the ablation")
    return part


def _stopped(plan: Plan, seeds: int, of: int, why: str) -> Plan:
    return replace(plan, record=replace(plan.record, stopped=TrainedSeeds(seeds, of, why)))


def first_seeds(plan: Plan, seeds: Sequence[int]) -> Plan:
    """The plan of some of its seeds, with the whole of its search."""
    if tuple(seeds) == plan.record.seeds:
        return plan
    record = plan.record.with_seeds(seeds)
    left = set(plan.record.run_ids()) - set(record.run_ids())
    return plan.with_jobs({name: job for name, job in plan.jobs.items() if name not in left}, record)


def _common(plan: Plan) -> float:
    """The learning rate that the baseline is configured with."""
    name = plan.record.baseline.name
    return next(item for item in plan.arms if item.name == name).run.optimizer.lr


def _seed_jobs(item: PlannedArm, rate: float, plan: Plan, results: Path) -> Jobs:
    """The jobs of an arm at one rate, by rising seed."""
    return {job.run_id: job for seed in plan.record.seeds for job in [_job(item, rate, seed, plan, results)]}


def _job(item: PlannedArm, rate: float, seed: int, plan: Plan, results: Path) -> Job:
    record = plan.record
    searched = replace(item, run=rates.at_rate(item.run, rate))
    tags = [record.x.key, record.size, record.data]
    return job_of(searched, seed=seed, results=results, group=record.ablation, tags=tags)


def _complete(plan: Plan, jobs: Jobs, store: RunStore) -> None:
    if any(store.state(name) not in RESULT_STATES for name in jobs):
        raise Incomplete(plan)
