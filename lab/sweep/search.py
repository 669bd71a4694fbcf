"""Which learning rates does a search try, and which one does each arm train with?

Stage 1 trains every arm at every rate of one grid with tuning seeds that judge nothing; while an arm is
best at an edge, the grid grows there by one step for all arms, MOST_EXTENSIONS times at most. Then each
arm that is best inside it tries one rate more, where its losses say that the lowest lies. Stage 2 trains
the seeds that judge, at the best rate of each arm and at the common one, which the baseline is configured
with. A diverged run counts as its loss before training.

A search is part of a plan record, read by lab/verdict/lr_range.py (seeds, losses, at_init) and reports:

    key, common, values     what was searched, the baseline's own value, the grid by rising value
    metric, seeds           the loss, and the tuning seeds
    arms                    {arm: {rate: {seed: run_id}}}, the rates of `between` too
    losses, at_init         {arm: {rate of the grid: [loss by seed, null where it diverged]}}; {arm: loss before training}
    means                   {arm: {rate of the grid: mean over seeds, at most the loss before training}}
    between                 {arm: {lr, losses, mean}} of the rate off the grid; absent in older plans
    best, interior          {arm: rate}; {arm: whether the best one lies inside the grid}
    sensitivity             {arm: mean over the grid of the loss less the best, over seeds; null where all diverged at every
                            rate} (lab/verdict/lr_range.py)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from lab.config.strict import ConfigError
from lab.verdict import lr_range
from lab.verdict.evidence import likeness
from lab.verdict.metric import value_at_init, value_of

KEY = "optimizer.lr"
METRIC = "val/bpb"
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


def between(found: dict[str, Any]) -> dict[str, float]:
    """Of each arm with a best rate inside the grid, the rate where a parabola in log rate through three
    losses is lowest.

    These are the best one and those beside it. A rate where a run diverged, or lost half of what training
    gained, speaks of where learning ends and not of the slope before it; the next one on the other side
    takes its place. At most half a step from the best rate, and at it where the losses are level or too
    few are left.
    """
    return {arm: _lowest(found, arm) for arm in found["best"] if found["interior"][arm]}


def _lowest(found: dict[str, Any], arm: str) -> float:
    values, means, best = found["values"], found["means"][arm], float(found["best"][arm])
    half = (means[written(best)] + found["at_init"][arm]) / 2
    learnt = [
        all(loss is not None and loss < half for loss in found["losses"][arm][written(rate)])
        for rate in values
    ]
    at = values.index(best)
    if learnt[at - 1] and learnt[at + 1]:
        beside = [at - 1, at + 1]
    else:
        beside = [at - 1, at - 2] if learnt[at - 1] else [at + 1, at + 2]
    if min(beside) < 0 or max(beside) >= len(values) or not all(learnt[i] for i in [at, *beside]):
        return best
    (one, rise), (other, climb) = (
        (math.log10(values[i] / best), means[written(values[i])] - means[written(best)]) for i in beside
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
    runs: dict[str, dict[str, dict[str, str]]],
    records: dict[str, dict[str, Any]],
    *,
    common: float,
    values: Sequence[float],
    seeds: Sequence[int],
) -> dict[str, Any]:
    """The search of a plan record from {arm: {rate: {seed: run_id}}} and the record of each of those runs.

    Raises ConfigError for a run that neither finished nor diverged, whose loss is not known, and for runs
    that are not alike.
    """
    _comparable(records)
    losses: dict[str, dict[str, list[float | None]]] = {}
    at_init: dict[str, float] = {}
    for arm, by_rate in runs.items():
        starts = [value_at_init(records[name], METRIC) for of in by_rate.values() for name in of.values()]
        known = [value for value in starts if value is not None]
        if not known:
            raise ConfigError(f"arm {arm}: no run of its search logged a loss.")
        at_init[arm] = fmean(known)
        losses[arm] = {
            rate: [_loss(records[of[str(seed)]]) for seed in seeds] for rate, of in by_rate.items()
        }
    found: dict[str, Any] = {
        "key": KEY,
        "metric": METRIC,
        "common": common,
        "values": list(values),
        "seeds": list(seeds),
        "arms": runs,
        "losses": losses,
        "at_init": at_init,
    }
    means = {
        arm: {rate: fmean(_entered(loss, at_init[arm]) for loss in of) for rate, of in by_rate.items()}
        for arm, by_rate in losses.items()
    }
    exact = {written(rate): rate for rate in values}
    best = {arm: exact[min(of, key=lambda rate: (of[rate], float(rate)))] for arm, of in means.items()}
    return found | {
        "means": means,
        "best": best,
        "interior": {arm: values[0] < rate < values[-1] for arm, rate in best.items()},
        "sensitivity": {arm: fmean(of) if (of := _sensitivities(found, arm)) else None for arm in losses},
    }


def refined(
    found: dict[str, Any], runs: dict[str, dict[str, dict[str, str]]], records: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """The search with what each arm's rate off the grid gave; `runs` as for `table`, one rate an arm,
    `records` of the whole search. Raises ConfigError as `table` does.
    """
    _comparable(records)
    arms, best, tried = dict(found["arms"]), dict(found["best"]), {}
    for arm, by_rate in runs.items():
        [(rate, of)] = by_rate.items()
        losses = [_loss(records[of[str(seed)]]) for seed in found["seeds"]]
        mean = fmean(_entered(loss, found["at_init"][arm]) for loss in losses)
        tried[arm] = {"lr": float(rate), "losses": losses, "mean": mean}
        arms[arm] = arms[arm] | by_rate
        if mean < found["means"][arm][written(best[arm])]:
            best[arm] = float(rate)
    return found | {"arms": arms, "between": tried, "best": best}


def at_rate(run: Any, rate: float) -> Any:
    """The same RunConfig with another learning rate."""
    return dataclasses.replace(run, optimizer=dataclasses.replace(run.optimizer, lr=rate))


def _sensitivities(found: dict[str, Any], arm: str) -> list[float]:
    return list(lr_range.measured(found, arm, "sensitivity").values())


def _comparable(records: dict[str, dict[str, Any]]) -> None:
    open_runs = [name for name, record in records.items() if record["state"] not in ("finished", "diverged")]
    if open_runs:
        raise ConfigError(
            f"{len(open_runs)} runs of the search have no loss: {', '.join(sorted(open_runs)[:3])}."
        )
    kinds = [likeness(record) for record in records.values()]
    for key in kinds[0] if kinds else ():
        values = sorted({str(kind[key]) for kind in kinds if kind[key] is not None})
        if len(values) > 1:
            raise ConfigError(
                f"runs of the search differ in {key} ({', '.join(values)}), so their losses pick no learning rate. "
                "--retry trains those of another torch or kind of device again."
            )


def _step(rate: float, decades: float) -> float:
    return float(written(rate * 10**decades))


def _loss(record: dict[str, Any]) -> float | None:
    """The final loss of a run; None where it diverged."""
    return value_of(record, METRIC) if record["state"] == "finished" else None


def _entered(loss: float | None, at_init: float) -> float:
    return at_init if loss is None or not math.isfinite(loss) else min(loss, at_init)
