"""What did each arm of a plan measure, seed by seed?

`gather` joins a plan with run records into arms whose values pair by seed. Only like runs pair: equal
mathematics (NUMERICS), device kind, precision, torch version, data and scored text. Where records differ
in those, the largest group is kept; the others are excluded and named, never averaged in. A run that never
evaluated is not unlike for that.

A diverged run enters as what it had before training (lab/store/metric.py) and is never dropped. A run that
failed, was lost, was pruned or has not ended leaves its arm incomplete: the planned seeds are the sample,
and no verdict rests on part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TypeVar

from lab.store.exact_check import ExactCheck
from lab.store.metric import SEARCHED, Metric, named, value_at_init, value_of
from lab.store.noise_record import NoiseRecord
from lab.store.plan_record import ArmRecord, PlanRecord, SearchRecord
from lab.store.predicate_forms import Group
from lab.store.run_record import Likeness, RunRecord, likeness
from lab.verdict import lr_range
from lab.verdict.rate_choice import choice_variance

METRIC, EXCESS = "val/bpb", "val/excess_bpb"
T = TypeVar("T")
Groups = dict[int, tuple[float, ...]]  # by seed


@dataclass(frozen=True)
class AtHorizon:
    """What an arm measured at one horizon, seed by seed: bits a byte, those of finished runs above the exact
    floor, and those of groups of the validation documents.
    """

    tokens: int
    scores: dict[int, float]
    excess: dict[int, float]
    groups: Groups

    def only(self, seeds: Sequence[int]) -> AtHorizon:
        scores, excess = _kept(self.scores, seeds), _kept(self.excess, seeds)
        return AtHorizon(self.tokens, scores, excess, _kept(self.groups, seeds))


@dataclass(frozen=True)
class MeasuredArm:
    """One arm: the state of every planned seed, the records that may be paired, and the metric of its runs.

    `states` maps seed to run state ("excluded" for a run unlike the others, "spared" for one that no open
    claim needed); `values` maps seed to metric and
    holds finished runs only, `at_init` those that diverged; `x` is None on an axis without numbers; `records`
    maps seed to the record of every run that is neither pending nor excluded. `path` has the horizons of a
    plan with some, the last one too. Under protocol 2 `groups` has bits a byte of groups of the validation
    documents by seed, and `choice_variance` what the choice of its rate adds to that of its relative loss.
    """

    name: str
    family: str
    label: str
    x: float | None
    baseline: bool
    states: dict[int, str]
    records: dict[int, RunRecord]
    values: dict[int, float]
    at_init: dict[int, float] = field(default_factory=dict)
    path: tuple[AtHorizon, ...] = ()
    groups: Groups = field(default_factory=dict)
    choice_variance: float = 0.0

    @property
    def scores(self) -> dict[int, float]:
        """What each seed enters a test with."""
        return self.values | self.at_init

    @property
    def diverged(self) -> set[int]:
        return {seed for seed, state in self.states.items() if state == "diverged"}

    @property
    def missing(self) -> dict[int, str]:
        """Seeds without a number to enter with, and their state."""
        return {seed: state for seed, state in self.states.items() if seed not in self.scores}

    def at_horizon(self, number: int) -> MeasuredArm:
        """The arm as it was at that horizon, to compare levels; `values` has what every seed entered with."""
        at = self.path[number]
        return replace(self, values=at.scores, at_init={}, path=(), groups=at.groups)

    def only(self, seeds: Sequence[int]) -> MeasuredArm:
        """The arm as if just these seeds had been planned."""
        return replace(
            self,
            states=_kept(self.states, seeds),
            records=_kept(self.records, seeds),
            values=_kept(self.values, seeds),
            at_init=_kept(self.at_init, seeds),
            path=tuple(at.only(seeds) for at in self.path),
            groups=_kept(self.groups, seeds),
        )


@dataclass(frozen=True)
class Excluded:
    """A run that is unlike those that are paired, and in what."""

    run_id: str
    arm: str
    seed: int
    reason: str


@dataclass(frozen=True)
class Evidence:
    """The arms of a plan by one metric, what their paired runs have in common, and the runs left out.

    `seeds` are those of the values, in the order they join; `alike` is None where nothing ran; `noise` is
    None where it was measured on runs unlike these; `exact` maps claims to their checks.
    """

    plan: PlanRecord
    run_records: dict[str, RunRecord]
    arms: tuple[MeasuredArm, ...]
    metric: Metric
    seeds: tuple[int, ...]
    alike: Likeness | None = None
    excluded: tuple[Excluded, ...] = ()
    noise: NoiseRecord | None = None
    exact: dict[str, list[ExactCheck]] = field(default_factory=dict)

    @property
    def baseline(self) -> MeasuredArm:
        return next(arm for arm in self.arms if arm.baseline)

    @property
    def lines(self) -> dict[str, float]:
        """Bits per byte of the plan's reference lines by their labels."""
        return {line.label: line.bpb for line in self.plan.reference_lines}

    @property
    def search(self) -> SearchRecord | None:
        return self.plan.search

    def arm(self, name: str) -> MeasuredArm:
        return next(arm for arm in self.arms if arm.name == name)

    def family(self, name: str) -> list[MeasuredArm]:
        """The arms of a family by rising x, so that nothing depends on the order they are listed in."""
        return sorted(
            (arm for arm in self.arms if arm.family == name),
            key=lambda arm: (arm.x is None, arm.x or 0.0, arm.name),
        )

    def chosen(self, group: Group) -> list[MeasuredArm]:
        """The arms of a group of a claim."""
        return self.family(group.family) if group.family is not None else [self.arm(a) for a in group.arms]

    def only(self, seeds: Sequence[int]) -> Evidence:
        """The evidence as if just these seeds had been planned."""
        if tuple(seeds) == self.seeds:
            return self
        return replace(self, arms=tuple(arm.only(seeds) for arm in self.arms), seeds=tuple(seeds))

    def by(self, metric: str) -> Evidence:
        """The same arms measured by another metric; one of the search of learning rates has the search's
        seeds.
        """
        if metric == self.metric.name:
            return self
        if metric.startswith(SEARCHED):
            return self._by_search(metric)
        return replace(self, arms=tuple(_remeasured(arm, metric) for arm in self.arms), metric=named(metric))

    def without_rate(self, rate: float) -> Evidence:
        """The evidence by a metric of the search as if a rate of its grid had not been tried."""
        search = self.search and self.search.without(rate)
        return replace(self, plan=replace(self.plan, search=search))._by_search(self.metric.name)

    def at_one_rate(self) -> Evidence:
        """The evidence of a searched plan as if every arm had been trained with the common learning rate."""
        return _joined(self.plan.at_one_rate(), self.run_records, self.metric.name, self.exact)

    def at_horizon(self, number: int) -> Evidence:
        """The evidence of a plan with horizons as if it had ended at the one of that number."""
        return _joined(self.plan.at_horizon(number), self.run_records, self.metric.name, self.exact)

    def _by_search(self, metric: str) -> Evidence:
        search = self.search
        seeds = search.seeds if search else ()
        arms = []
        for arm in self.arms:
            tried = search is not None and arm.name in search.losses
            values = (
                lr_range.measured(search, arm.name, metric.removeprefix(SEARCHED)) if search and tried else {}
            )
            known = search is not None and search.unigram_bpb is not None
            without = ("learnt at no rate" if known else "diverged") if tried else "pending"
            states = {seed: "finished" if seed in values else without for seed in seeds}
            arms.append(replace(arm, states=states, values=values, at_init={}, records={}))
        return replace(self, arms=tuple(arms), metric=named(metric), seeds=seeds)


def gather(plan: PlanRecord, records: Iterable[RunRecord], *, exact: Iterable[ExactCheck] = ()) -> Evidence:
    """The evidence of `plan` in `records` by bits per byte; records of runs outside the plan are ignored."""
    checks: dict[str, list[ExactCheck]] = {}
    for check in exact:
        checks.setdefault(check.claim, []).append(check)
    found = _joined(plan, {record.run_id: record for record in records}, METRIC, checks)
    return _with_paths(found) if plan.horizons else found


def _with_paths(evidence: Evidence) -> Evidence:
    """The evidence with what every arm measured at each horizon."""
    horizons = evidence.plan.horizons
    at = [evidence.at_horizon(number) for number in range(len(horizons))]
    excess = [found.by(EXCESS) for found in at]
    return replace(
        evidence,
        arms=tuple(
            replace(
                arm,
                path=tuple(
                    AtHorizon(tokens, found.arms[i].scores, above.arms[i].values, found.arms[i].groups)
                    for tokens, found, above in zip(horizons, at, excess, strict=True)
                ),
            )
            for i, arm in enumerate(evidence.arms)
        ),
    )


def _kept(of: dict[int, T], seeds: Sequence[int]) -> dict[int, T]:
    return {seed: value for seed, value in of.items() if seed in seeds}


def _joined(
    plan: PlanRecord, by_id: dict[str, RunRecord], metric: str, exact: dict[str, list[ExactCheck]]
) -> Evidence:
    planned = {run_id for arm in plan.arms for run_id in arm.runs.values()}
    kinds = {run_id: likeness(by_id[run_id]) for run_id in sorted(planned & by_id.keys())}
    alike = _largest_group(list(kinds.values()))
    arms, excluded = [], []
    for arm in plan.arms:
        states: dict[int, str] = {}
        used: dict[int, RunRecord] = {}
        for seed in plan.seeds:
            run_id = arm.runs.get(seed, "")
            if not run_id:
                states[seed] = "spared"
            elif run_id not in by_id or alike is None:
                states[seed] = "pending"
            elif not kinds[run_id].fits(alike):
                states[seed] = "excluded"
                excluded.append(Excluded(run_id, arm.name, seed, _differs(kinds[run_id], alike)))
            else:
                states[seed] = by_id[run_id].state
                if states[seed] not in ("pending", "running"):
                    used[seed] = by_id[run_id]
        measured = _remeasured(_unmeasured(arm, states, used), metric)
        if plan.protocol > 1:
            variance = choice_variance(plan.search, arm.name)
            measured = replace(measured, groups=_groups(used), choice_variance=variance)
        arms.append(measured)
    return Evidence(
        plan,
        by_id,
        tuple(arms),
        named(metric),
        plan.seeds,
        alike=alike,
        excluded=tuple(excluded),
        noise=_fitting(plan.noise, alike),
        exact=exact,
    )


def _groups(records: dict[int, RunRecord]) -> Groups:
    """The losses of groups of validation documents of the runs that finished."""
    return {
        seed: record.summary.group_bpb
        for seed, record in records.items()
        if record.summary and record.state == "finished" and record.summary.group_bpb
    }


def _unmeasured(arm: ArmRecord, states: dict[int, str], used: dict[int, RunRecord]) -> MeasuredArm:
    return MeasuredArm(
        arm.name, arm.family, arm.label, arm.x, arm.baseline, states=states, records=used, values={}
    )


def _remeasured(arm: MeasuredArm, metric: str) -> MeasuredArm:
    """The same runs by a metric."""
    values, at_init = (
        {
            seed: value
            for seed, record in arm.records.items()
            if arm.states[seed] == state and (value := measure(record, metric)) is not None
        }
        for state, measure in (("finished", value_of), ("diverged", value_at_init))
    )
    return replace(arm, values=values, at_init=at_init)


def _differs(kind: Likeness, alike: Likeness) -> str:
    return "; ".join(f"{key} {value}, not {theirs}" for key, value, theirs in kind.unlike(alike))


def is_searched(plan: PlanRecord) -> bool:
    """Whether each arm of the plan trains at its own best rate."""
    return plan.search is not None and bool(plan.search.best)


def conditions(plan: PlanRecord, records: Iterable[RunRecord]) -> list[str]:
    """What sets a sweep apart from others of its size and data: overrides of all arms, and stories of the
    recipe before knobs.
    """
    found = plan.unusual()
    if any(record.config.data.name == "stories" and record.config.data.grammar is None for record in records):
        found.append("the first recipe of stories")
    return found


def pooled(arms: Sequence[MeasuredArm], label: str) -> MeasuredArm:
    """Several arms as one, whose score is their mean within a seed; it diverged where one of them did."""
    first, shared = arms[0], set.intersection(*(set(arm.scores) for arm in arms))
    if len(arms) == 1:
        return first
    diverged = set.union(*(arm.diverged for arm in arms))
    scores = {seed: fmean(arm.scores[seed] for arm in arms) for seed in sorted(shared)}
    return MeasuredArm(
        name="+".join(arm.name for arm in arms),
        family=first.family,
        label=label,
        x=None,
        baseline=False,
        states={seed: "diverged" if seed in diverged else "finished" for seed in scores},
        records={},
        values={seed: score for seed, score in scores.items() if seed not in diverged},
        at_init={seed: score for seed, score in scores.items() if seed in diverged},
        path=tuple(_pooled_at([arm.path[k] for arm in arms]) for k in range(len(first.path))),
        groups=_pooled_groups([arm.groups for arm in arms]),
        choice_variance=sum(arm.choice_variance for arm in arms) / len(arms) ** 2,
    )


def _pooled_at(of: Sequence[AtHorizon]) -> AtHorizon:
    """The means within each seed that all of them have."""
    scores, excess = (
        {seed: fmean(one[seed] for one in listed) for seed in set.intersection(*map(set, listed))}
        for listed in ([at.scores for at in of], [at.excess for at in of])
    )
    return AtHorizon(of[0].tokens, scores, excess, _pooled_groups([at.groups for at in of]))


def _pooled_groups(of: Sequence[Groups]) -> Groups:
    """The means of each group within each seed that all of them have."""
    return {
        seed: tuple(map(fmean, zip(*(groups[seed] for groups in of), strict=False)))
        for seed in set.intersection(*map(set, of))
    }


def relative_differences(a: MeasuredArm, b: MeasuredArm) -> list[float]:
    """a / b - 1 per seed that both arms finished, by rising seed: what a figure can draw."""
    return [a.values[seed] / b.values[seed] - 1 for seed in sorted(a.values.keys() & b.values.keys())]


def _fitting(noise: NoiseRecord | None, alike: Likeness | None) -> NoiseRecord | None:
    """The noise of the plan, unless its runs are known to be unlike those that are paired."""
    return noise if noise and (alike is None or alike.fits(noise.alike)) else None


def _largest_group(kinds: list[Likeness]) -> Likeness | None:
    """The likeness most runs fit; ties go to the last in text order, so that the choice is reproducible."""
    if not kinds:
        return None
    counts = Counter(kinds)
    sizes = {group: sum(count for kind, count in counts.items() if kind.fits(group)) for group in counts}
    return max(sizes, key=lambda group: (sizes[group], group.text()))
