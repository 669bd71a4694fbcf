"""The search of learning rates carried out: which runs it trains, and the plan that its best rates make.

A plan without horizons tries every rate of the grid (lab/sweep/search.py); one with horizons leaves those
that fall behind (lab/sweep/halving.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.config.strict import ConfigError
from lab.plan import horizons
from lab.plan.ablation import Search
from lab.plan.job_set import Jobs
from lab.plan.planned_arm import PlannedArm, job_of
from lab.plan.planning import Plan
from lab.store.job import Job
from lab.store.plan_record import LowerRate, Rung, RunsBySeed, SearchRecord, tokens_text
from lab.store.run_store import RunStore
from lab.sweep import halving
from lab.sweep import search as rates
from lab.sweep.carry_out import CarryOut, complete
from lab.sweep.search import Records, RunsByRate

LOWER = 10**-0.5  # of the chosen rate, tried at the last horizon


def foretold(plan: Plan) -> str:
    """What a search adds to the plan, in words, before it is known which rates are best."""
    wanted, values = plan.search or Search.standard(), first_rates(plan)
    arms, seeds = len(plan.arms), len(wanted.seeds)
    first, step = arms * len(values) * seeds, arms * seeds
    reached = plan.record.horizons
    later = ""
    if reached:
        last = tokens_text(reached[min(wanted.horizon, len(reached) - 1)])
        which = "those that keep up" if wanted.halving else "all of them"
        later = f" to {tokens_text(reached[0])} tokens, {which} on to {last}"
    return (
        f"search: {first} runs of {arms} arms at {', '.join(map(rates.written, values))} with seeds "
        f"{', '.join(map(str, wanted.seeds))}{later}, {step} more each time an arm is best at an edge, "
        f"at most {rates.MOST_EXTENSIONS} times; {step} between the rates of the grid; then the runs above "
        f"at each arm's best rate{'' if reached else ' and at the common one'}"
    )


def foretold_flops(plan: Plan) -> float:
    """About what the search and the lower rates cost, where no grid grows and half of the rates go on.

    Without horizons the judging seeds are trained at the common rate as well.
    """
    wanted, reached = plan.search or Search.standard(), plan.record.horizons
    tried = len(first_rates(plan)) * len(wanted.seeds)
    flops = 0.0
    for arm in plan.record.arms:
        if reached:
            chosen = reached[min(wanted.horizon, len(reached) - 1)]
            tokens = tried * (reached[0] + chosen) / 2 + len(wanted.seeds) * chosen + reached[-1]
        else:
            tokens = (tried + len(wanted.seeds) + len(plan.record.seeds)) * arm.tokens
        flops += tokens * arm.counts.flops_per_token
    return flops


def first_rates(plan: Plan) -> list[float]:
    """The grid that a search of this plan starts with."""
    wanted = plan.search or Search.standard()
    return rates.grid(common_rate(plan), points=wanted.points, decades=wanted.decades)


def common_rate(plan: Plan) -> float:
    """The learning rate that the baseline is configured with."""
    name = plan.record.baseline.name
    return next(item for item in plan.arms if item.name == name).run.optimizer.lr


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


@dataclass(frozen=True)
class RateSearch:
    """The search of one plan, stage by stage. Every stage raises Incomplete where a run has no result."""

    plan: Plan
    store: RunStore
    carry_out: CarryOut
    results: Path

    @classmethod
    def of(cls, plan: Plan, store: RunStore, carry_out: CarryOut, results: Path) -> RateSearch:
        """Raises ConfigError where the plan can't be searched."""
        refuse_search(plan)
        record = replace(plan.record, setting=f"{plan.record.setting}-lr")
        named = replace(plan, record=record, folder=plan.folder.with_name(record.setting))
        return cls(named, store, carry_out, results)

    @property
    def wanted(self) -> Search:
        return self.plan.search or Search.standard()

    def searched(self) -> Plan:
        """Search, and return the plan that trains each arm at its best rate, and where it has no horizons
        at the common one too; its jobs are those of the search and these.
        """
        return self._over_horizons() if self.plan.record.horizons else self._at_once()

    def with_lower_rates(self) -> Plan:
        """The plan, whose arms have been judged, with one seed of each at the last horizon with a lower rate:
        what was best at an earlier horizon may be too high there.
        """
        record, last = self.plan.record, len(self.plan.record.horizons) - 1
        search = record.search
        assert search is not None
        lower = {arm: [float(rates.written(rate * LOWER))] for arm, rate in search.best.items()}
        jobs, runs = self._jobs(lower, record.seeds[:1], number=last)
        self._train(jobs, {}, f"a lower rate for each arm, to {tokens_text(record.horizons[last])}", jobs)
        found = {}
        for arm, by_rate in runs.items():
            [(rate, of)] = by_rate.items()
            [(seed, name)] = of.items()
            found[arm] = LowerRate(rate, seed, name, rates.loss(self.store.record(name)))
        whole = replace(record, search=replace(search, lower=found))
        return self.plan.with_jobs(self.plan.jobs | jobs, whole)

    def _at_once(self) -> Plan:
        tuning: Jobs = {}
        found, runs = self._first(tuning, number=None)
        chosen = rates.between(found)
        jobs, off_grid = self._jobs({arm: [rate] for arm, rate in chosen.items()}, self.wanted.seeds)
        tuning |= jobs
        both = {arm: of | off_grid.get(arm, {}) for arm, of in runs.items()}
        self._train(jobs, both, _between_title(chosen), tuning)
        found = rates.refined(found, off_grid, self._records(tuning))
        entries, judging = [], Jobs()
        for item, arm in zip(self.plan.arms, self.plan.record.arms, strict=True):
            best = self._seed_jobs(item, found.best[item.name])
            same = self._seed_jobs(item, found.common)
            judging |= best | same
            seeds = self.plan.record.seeds
            at_best, at_common = (dict(zip(seeds, of, strict=True)) for of in (best, same))
            entries.append(replace(arm, runs=at_best, runs_same_lr=at_common, best_lr=found.best[item.name]))
        searched = replace(self.plan.record, search=found, arms=tuple(entries))
        return self.plan.with_jobs(tuning | judging, searched)

    def _over_horizons(self) -> Plan:
        record, wanted, tuning = self.plan.record, self.wanted, Jobs()
        first, runs = self._first(tuning, number=0)
        rungs = [self._rung(0, runs)]
        for number in range(1, min(wanted.horizon, len(record.horizons) - 1) + 1):
            trying: Mapping[str, Sequence[float]] = dict.fromkeys(first.best, first.values)
            if wanted.halving:
                trying = halving.going_on(rungs[-1], first.at_init)
            jobs, runs = self._jobs(trying, wanted.seeds, number=number)
            tuning |= jobs
            count = sum(map(len, trying.values()))
            title = f"search: {count} rates of {len(trying)} arms to {tokens_text(record.horizons[number])}"
            self._train(jobs, runs, title, tuning)
            rungs.append(self._rung(number, runs))
        found = halving.chosen(first, rungs)
        chosen = halving.between(found)
        number = len(rungs) - 1
        jobs, off_grid = self._jobs(
            {arm: [rate] for arm, rate in chosen.items()}, wanted.seeds, number=number
        )
        tuning |= jobs
        both = {arm: of | off_grid.get(arm, {}) for arm, of in runs.items()}
        self._train(jobs, both, _between_title(chosen), tuning)
        found = halving.refined(found, self._rung(number, off_grid))
        entries, judging = [], Jobs()
        for item, arm in zip(self.plan.arms, record.arms, strict=True):
            rate, numbers = found.best[item.name], range(len(record.horizons))
            climb = horizons.climb(_at(item, rate), self._make, seeds=record.seeds, numbers=numbers)
            judging |= climb.jobs
            entries.append(replace(climb.entered(arm), best_lr=rate))
        searched = replace(record, search=found, arms=tuple(entries))
        return self.plan.with_jobs(tuning | judging, searched)

    def _first(self, tuning: Jobs, *, number: int | None) -> tuple[SearchRecord, RunsByRate]:
        """Every arm at every rate of a grid that grows while an arm is best at an edge; `tuning` gets the
        jobs.
        """
        wanted, values = self.wanted, first_rates(self.plan)
        for extension in range(rates.MOST_EXTENSIONS + 1):
            jobs, runs = self._jobs(dict.fromkeys(self._names(), values), wanted.seeds, number=number)
            tuning |= jobs
            listed = ", ".join(map(rates.written, values))
            more = f", extended {extension} time{'s' * (extension > 1)}" if extension else ""
            title = f"search: {len(self.plan.arms)} arms x {len(wanted.seeds)} seeds at {listed}{more}"
            self._train(jobs, runs, title, tuning)
            found = rates.table(
                runs,
                self._records(jobs),
                common=common_rate(self.plan),
                values=values,
                seeds=wanted.seeds,
            )
            wider = rates.extended(values, found.best, decades=wanted.decades)
            if wider == values or extension == rates.MOST_EXTENSIONS:
                break
            values = wider
        return replace(found, extended=extension), runs

    def _jobs(
        self, rates_of: Mapping[str, Sequence[float]], seeds: Sequence[int], *, number: int | None = None
    ) -> tuple[Jobs, RunsByRate]:
        """Arms at rates of their own: runs by themselves, or up to the horizon of that number."""
        jobs: Jobs = {}
        runs: RunsByRate = {}
        for item in self.plan.arms:
            for rate in rates_of.get(item.name, []):
                at_rate, of = _at(item, rate), RunsBySeed()
                if number is None:
                    for seed in seeds:
                        job = self._make(at_rate, seed)
                        jobs[job.run_id], of[seed] = job, job.run_id
                else:
                    climb = horizons.climb(at_rate, self._make, seeds=seeds, numbers=[number])
                    jobs |= climb.jobs
                    of |= climb.branches[-1]
                runs.setdefault(item.name, {})[rate] = of
        return jobs, runs

    def _seed_jobs(self, item: PlannedArm, rate: float) -> Jobs:
        """The jobs of an arm at one rate, by rising seed."""
        made = [self._make(_at(item, rate), seed) for seed in self.plan.record.seeds]
        return {job.run_id: job for job in made}

    def _make(self, item: PlannedArm, seed: int) -> Job:
        record = self.plan.record
        tags = [record.x.key, record.size, record.data]
        return job_of(item, seed=seed, results=self.results, group=record.ablation, tags=tags)

    def _train(self, jobs: Jobs, runs: RunsByRate, title: str, tuning: Jobs) -> None:
        trying = self.plan.with_jobs(jobs, replace(self.plan.record, searching=runs or None))
        self.carry_out(trying, title)
        complete(trying.with_jobs(tuning), jobs, self.store)

    def _rung(self, number: int, runs: RunsByRate) -> Rung:
        names = [name for by_rate in runs.values() for of in by_rate.values() for name in of.values()]
        records = {name: self.store.record(name) for name in names}
        return halving.rung(self.plan.record.horizons[number], runs, records, seeds=self.wanted.seeds)

    def _records(self, jobs: Jobs) -> Records:
        """The records of the runs that end, and don't pause."""
        return {name: self.store.record(name) for name, job in jobs.items() if job.until_step is None}

    def _names(self) -> list[str]:
        return [item.name for item in self.plan.arms]


def _at(item: PlannedArm, rate: float) -> PlannedArm:
    return replace(item, run=rates.at_rate(item.run, rate))


def _between_title(chosen: Mapping[str, float]) -> str:
    listed = ", ".join(f"{arm} {rates.written(rate)}" for arm, rate in chosen.items())
    return f"search: between the rates of the grid {listed or 'none, as all are best at an edge'}"
