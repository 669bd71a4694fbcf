"""Which learning rates does a search try, and which one does each arm train with?

Stage 1 trains every arm at every rate of one grid with tuning seeds that judge nothing; while an arm is
best at an edge, the grid grows there by one step for all arms, MOST_EXTENSIONS times at most. Then each
arm that is best inside it tries one rate more, where its losses say that the lowest lies. Stage 2 trains
the seeds that judge, at the best rate of each arm and at the common one, which the baseline is configured
with. A diverged run counts as its loss before training.

What came of it is a SearchRecord (lab/store/plan_record.py).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from lab.config.schema import RunConfig
from lab.config.strict import ConfigError
from lab.store.metric import value_at_init, value_of
from lab.store.plan_record import OffGrid, RunsBySeed, SearchRecord
from lab.store.run_record import RunRecord, likeness
from lab.store.states import RESULT_STATES
from lab.verdict import lr_range

KEY = "optimizer.lr"
METRIC = "val/bpb"
RunsByRate = dict[str, dict[float, RunsBySeed]]  # by arm
Records = Mapping[str, RunRecord]  # by run id
MOST_EXTENSIONS = 2
DIGITS = 3  # of a rate


def written(rate: float) -> str:
    """A rate as a key of JSON and as an override."""
    return f"{rate:.{DIGITS}g}"


def grid(common: float, *, points: int, decades: float) -> list[float]:
    """An odd number of rates, `decades` apart, around the common one."""
    half = points // 2
    return [_step(common, k * decades) if k else common for k in range(-half, half + 1)]


def extended(values: Sequence[float], best: dict[str, float], *, decades: float) -> list[float]:
    """The grid with one step more at each edge that is best for some arm; as it was where none is."""
    low = [_step(values[0], -decades)] if values[0] in best.values() else []
    high = [_step(values[-1], decades)] if values[-1] in best.values() else []
    return [*low, *values, *high]


def between(found: SearchRecord) -> dict[str, float]:
    """Of each arm with a best rate inside the grid, the rate where a parabola in log rate through three
    losses is lowest.

    These are the best one and those beside it. A rate where a run diverged, or lost half of what training
    gained, speaks of where learning ends and not of the slope before it; the next one on the other side
    takes its place. At most half a step from the best rate, and at it where the losses are level or too
    few are left.
    """
    return {arm: lowest(found, arm) for arm in found.best if found.interior[arm]}


def lowest(found: SearchRecord, arm: str) -> float:
    """The rate where the parabola of one arm is lowest, see `between`."""
    values, means, best = found.values, found.means[arm], found.best[arm]
    half = (means[best] + found.at_init[arm]) / 2
    learnt = [all(loss is not None and loss < half for loss in found.losses[arm][rate]) for rate in values]
    at = values.index(best)
    if learnt[at - 1] and learnt[at + 1]:
        beside = [at - 1, at + 1]
    else:
        beside = [at - 1, at - 2] if learnt[at - 1] else [at + 1, at + 2]
    if min(beside) < 0 or max(beside) >= len(values) or not all(learnt[i] for i in [at, *beside]):
        return best
    (one, rise), (other, climb) = (
        (math.log10(values[i] / best), means[values[i]] - means[best]) for i in beside
    )
    curvature = (climb / other - rise / one) / (other - one)
    slope = rise / one - curvature * one
    low, high = (math.log10(values[i] / best) / 2 for i in (at - 1, at + 1))
    if curvature > 0:
        decades = min(max(-slope / (2 * curvature), low), high)
    else:
        decades = (high if slope < 0 else low) if slope else 0.0
    rate = _step(best, decades)
    return best if written(rate) == written(best) else rate


def table(
    runs: RunsByRate, records: Records, *, common: float, values: Sequence[float], seeds: Sequence[int]
) -> SearchRecord:
    """The search of a plan from its runs and the record of each.

    Raises ConfigError for a run that neither finished nor diverged, whose loss is not known, and for runs
    that are not alike.
    """
    comparable(records)
    losses: dict[str, dict[float, tuple[float | None, ...]]] = {}
    at_init: dict[str, float] = {}
    for arm, by_rate in runs.items():
        starts = [value_at_init(records[name], METRIC) for of in by_rate.values() for name in of.values()]
        known = [value for value in starts if value is not None]
        if not known:
            raise ConfigError(f"arm {arm}: no run of its search logged a loss.")
        at_init[arm] = fmean(known)
        losses[arm] = {rate: tuple(loss(records[of[seed]]) for seed in seeds) for rate, of in by_rate.items()}
    means = {
        arm: {rate: fmean(entered(loss, at_init[arm]) for loss in of) for rate, of in by_rate.items()}
        for arm, by_rate in losses.items()
    }
    best = {arm: min(of, key=lambda rate: (of[rate], rate)) for arm, of in means.items()}
    found = SearchRecord(
        KEY,
        METRIC,
        common,
        tuple(values),
        tuple(seeds),
        arms=runs,
        losses=losses,
        at_init=at_init,
        means=means,
        best=best,
        interior={arm: values[0] < rate < values[-1] for arm, rate in best.items()},
        sensitivity={},
        extended=0,
        unigram_bpb=_unigram(records),
    )
    return with_sensitivity(found)


def _unigram(records: Records) -> float | None:
    """What all runs of the search know of their text; None where one doesn't."""
    known = {record.summary.unigram_bpb if record.summary else None for record in records.values()}
    return known.pop() if len(known) == 1 else None


def with_sensitivity(found: SearchRecord) -> SearchRecord:
    """The search with what each arm loses, over the grid, beside its best rate."""
    sensitivity = {arm: fmean(of) if (of := _sensitivities(found, arm)) else None for arm in found.losses}
    return dataclasses.replace(found, sensitivity=sensitivity)


def refined(found: SearchRecord, runs: RunsByRate, records: Records) -> SearchRecord:
    """The search with what each arm's rate off the grid gave; `runs` has one rate an arm, `records` those
    of the whole search. Raises ConfigError as `table` does.
    """
    comparable(records)
    arms, best, tried = dict(found.arms), dict(found.best), {}
    for arm, by_rate in runs.items():
        [(rate, of)] = by_rate.items()
        losses = tuple(loss(records[of[seed]]) for seed in found.seeds)
        mean = fmean(entered(loss, found.at_init[arm]) for loss in losses)
        tried[arm] = OffGrid(rate, losses, mean)
        arms[arm] = arms[arm] | by_rate
        if mean < found.means[arm][best[arm]]:
            best[arm] = rate
    return dataclasses.replace(found, arms=arms, between=tried, best=best)


def at_rate(run: RunConfig, rate: float) -> RunConfig:
    """The same run with another learning rate."""
    return dataclasses.replace(run, optimizer=dataclasses.replace(run.optimizer, lr=rate))


def _sensitivities(found: SearchRecord, arm: str) -> list[float]:
    return list(lr_range.measured(found, arm, "sensitivity").values())


def comparable(records: Records) -> None:
    """Raises ConfigError for runs without a loss, and for runs that are not alike."""
    open_runs = [name for name, record in records.items() if record.state not in RESULT_STATES]
    if open_runs:
        raise ConfigError(
            f"{len(open_runs)} runs of the search have no loss: {', '.join(sorted(open_runs)[:3])}."
        )
    kinds: dict[str, set[str]] = {}
    for record in records.values():
        for key, value in likeness(record).named():
            kinds.setdefault(key, set()).update([str(value)] if value is not None else [])
    for key, values in kinds.items():
        if len(values) > 1:
            raise ConfigError(
                f"runs of the search differ in {key} ({', '.join(sorted(values))}), so their losses pick no "
                "learning rate. --retry trains those of another torch or kind of device again."
            )


def _step(rate: float, decades: float) -> float:
    return float(written(rate * 10**decades))


def loss(record: RunRecord) -> float | None:
    """The final loss of a run; None where it diverged."""
    return value_of(record, METRIC) if record.state == "finished" else None


def entered(loss: float | None, at_init: float) -> float:
    """What a loss counts as: one that is worse than no training, as that."""
    return at_init if loss is None or not math.isfinite(loss) else min(loss, at_init)
