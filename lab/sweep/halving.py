"""Which rates of a search over horizons go on to the next one, and which one does each arm train with?

Every rate is tried at the first horizon. Those that end within WITHIN of their arm's best go on, their
trunks as they are, to the next one, up to the horizon that chooses (successive halving, Jamieson &
Talwalkar 2016, arXiv:1502.07943; no trial is trained twice). A rate between those of the grid then joins at
that horizon, as in lab/sweep/search.py, where a parabola through the losses at the last horizon that the
best rate and both its neighbours reached is lowest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import fmean

from lab.store.plan_record import OffGrid, Rung, SearchRecord
from lab.sweep import search
from lab.sweep.search import Records, RunsByRate

WITHIN = 0.05
Means = dict[float, float]  # loss by rate


def rung(tokens: int, runs: RunsByRate, records: Records, *, seeds: Sequence[int]) -> Rung:
    """What came of the rates at one horizon. Raises ConfigError as `search.table` does."""
    search.comparable(records)
    losses = {
        arm: {rate: tuple(search.loss(records[of[seed]]) for seed in seeds) for rate, of in by_rate.items()}
        for arm, by_rate in runs.items()
    }
    return Rung(tokens, runs, losses)


def going_on(last: Rung, at_init: dict[str, float]) -> dict[str, list[float]]:
    """By arm the rates whose mean loss lies within WITHIN of its best one."""
    found = {}
    for arm in last.losses:
        means = means_of(last, arm, at_init[arm])
        lowest = min(means.values())
        found[arm] = [rate for rate, mean in means.items() if mean <= (1 + WITHIN) * lowest]
    return found


def means_of(at: Rung, arm: str, at_init: float) -> Means:
    """Mean losses of an arm over seeds by rising rate, each at most the loss before training."""
    of = at.losses[arm]
    return {rate: fmean(search.entered(loss, at_init) for loss in of[rate]) for rate in sorted(of)}


def chosen(first: SearchRecord, rungs: Sequence[Rung]) -> SearchRecord:
    """The search from its rungs: best rates by the last one, the rest by the last that all rates reached.

    first: the search at the first horizon alone.
    """
    whole = [one for one in rungs if all(set(of) == set(first.values) for of in one.losses.values())][-1]
    at_init, last = first.at_init, rungs[-1]
    best = {arm: _lowest(means_of(last, arm, at_init[arm])) for arm in first.best}
    found = dataclasses.replace(
        first,
        losses=whole.losses,
        means={arm: means_of(whole, arm, at_init[arm]) for arm in whole.losses},
        arms=furthest(rungs),
        best=best,
        interior={arm: first.values[0] < rate < first.values[-1] for arm, rate in best.items()},
        rungs=tuple(rungs),
    )
    return search.with_sensitivity(found)


def between(found: SearchRecord) -> dict[str, float]:
    """Of each arm with a best rate inside the grid, one more rate to try."""
    return {arm: _between(found, arm) for arm in found.best if found.interior[arm]}


def refined(found: SearchRecord, off_grid: Rung) -> SearchRecord:
    """The search with what each arm's rate off the grid gave at the horizon that chooses."""
    last, best, tried = found.rungs[-1], dict(found.best), {}
    for arm, by_rate in off_grid.losses.items():
        [(rate, losses)] = by_rate.items()
        mean = means_of(off_grid, arm, found.at_init[arm])[rate]
        tried[arm] = OffGrid(rate, losses, mean)
        if mean < means_of(last, arm, found.at_init[arm])[best[arm]]:
            best[arm] = rate
    both = Rung(
        last.tokens,
        {arm: of | off_grid.runs.get(arm, {}) for arm, of in last.runs.items()},
        {arm: of | off_grid.losses.get(arm, {}) for arm, of in last.losses.items()},
    )
    rungs = (*found.rungs[:-1], both)
    return dataclasses.replace(found, best=best, between=tried, rungs=rungs, arms=furthest(rungs))


def furthest(rungs: Sequence[Rung]) -> RunsByRate:
    """The runs of every rate at the last horizon that it reached."""
    found: RunsByRate = {}
    for one in rungs:
        for arm, by_rate in one.runs.items():
            found[arm] = found.get(arm, {}) | by_rate
    return found


def _lowest(means: Means) -> float:
    return min(means, key=lambda rate: (means[rate], rate))


def _between(found: SearchRecord, arm: str) -> float:
    """At the last horizon that the best rate and both its neighbours reached; all rates reached the first."""
    best = found.best[arm]
    for at in reversed(found.rungs):
        means = means_of(at, arm, found.at_init[arm])
        rates = tuple(means)
        if best in means and rates[0] < best < rates[-1] and _beside(found.values, rates, best):
            there = dataclasses.replace(
                found, values=rates, means={arm: means}, losses={arm: at.losses[arm]}, best={arm: best}
            )
            return search.lowest(there, arm)
    return best


def _beside(values: Sequence[float], rates: Sequence[float], best: float) -> bool:
    """Whether the grid's neighbours of the best rate are among these rates."""
    at = values.index(best)
    return values[at - 1] in rates and values[at + 1] in rates
