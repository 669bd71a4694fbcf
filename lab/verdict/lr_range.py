"""How wide a range of learning rates does an arm stand, and how much does it lose beside the best one?

Every arm tried the same grid with the same seeds, none of which judges a claim (lab/store/plan_record.py,
SearchRecord).

A rate is stable for a seed when its run learnt (it did not diverge, nor end above the unigram entropy of the
text) and ended within `tolerance` of the best that seed found. The range is the unbroken stretch of stable
rates around the best one; a half decade is a factor of 10^0.5. Sensitivity is the mean of min(loss, loss at
init) less the best loss (Wortsman et al. 2023, arXiv:2309.14322), over the rates at which some run of some
arm learnt.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable

from lab.store.plan_record import SearchRecord

TOLERANCE = 0.2
Curve = dict[float, float | None]  # learning rate -> loss of one seed, None where it diverged


def measured(
    search: SearchRecord, arm: str, measure: str, *, tolerance: float = TOLERANCE
) -> dict[int, float]:
    """Tuning seed -> highest stable rate (in half decades, 0 = a rate of 1), width in half decades, or
    sensitivity.

    A seed that learnt at no rate stands one half decade below the grid, with a width of -1; it has no
    sensitivity.
    """
    if measure == "sensitivity":
        at_init, rates = search.at_init[arm], _speaking(search)
        return {
            seed: _sensitivity({rate: curve[rate] for rate in rates}, at_init)
            for seed, curve in _curves(search, arm).items()
            if any(search.learnt(loss) for loss in curve.values())
        }
    found: dict[int, float] = {}
    for seed, curve in _learnt_curves(search, arm).items():
        stable = _stable(curve, tolerance)
        low = half_decades(min(curve))
        low, high = (half_decades(stable[0]), half_decades(stable[-1])) if stable else (low, low - 1)
        found[seed] = high if measure == "max_stable" else high - low
    return found


def cut_off(search: SearchRecord, *, tolerance: float = TOLERANCE) -> list[str]:
    """The arms some seed of which is stable up to the highest rate of the grid, so that more may be stable
    than was tried.
    """
    return [arm for arm in search.losses if _reached(search, arm, max, tolerance)]


def is_bound(search: SearchRecord, arm: str, measure: str, *, tolerance: float = TOLERANCE) -> bool:
    """Did some seed of the arm learn nowhere, or stay stable to an edge of the grid that `measure`
    depends on? Then what was measured says only on which side of it the truth lies.
    """
    edges = (min, max) if measure == "width" else (max,)
    return hopeless(search, arm) or any(_reached(search, arm, edge, tolerance) for edge in edges)


def hopeless(search: SearchRecord, arm: str) -> bool:
    """Did some seed of the arm learn at no rate?"""
    curves = _learnt_curves(search, arm).values()
    return not all(any(loss is not None for loss in curve.values()) for curve in curves)


def half_decades(rate: float) -> float:
    """A learning rate on a scale where a factor of 10^0.5 is 1, to a tenth: grids write 3e-3 for 10^-2.5."""
    return round(2 * math.log10(rate), 1)


def _curves(search: SearchRecord, arm: str) -> dict[int, Curve]:
    losses = search.losses[arm]
    return {seed: {rate: losses[rate][n] for rate in sorted(losses)} for n, seed in enumerate(search.seeds)}


def _learnt_curves(search: SearchRecord, arm: str) -> dict[int, Curve]:
    """Without the losses of runs that learnt nothing."""
    return {
        seed: {rate: loss if search.learnt(loss) else None for rate, loss in curve.items()}
        for seed, curve in _curves(search, arm).items()
    }


def _speaking(search: SearchRecord) -> list[float]:
    """The rates at which some run of some arm learnt; all of them in plans that don't know."""
    tried = sorted({rate for by_rate in search.losses.values() for rate in by_rate})
    if search.unigram_bpb is None:
        return tried
    return [
        rate
        for rate in tried
        if any(search.learnt(loss) for by_rate in search.losses.values() for loss in by_rate.get(rate, ()))
    ]


def _reached(
    search: SearchRecord, arm: str, edge: Callable[[Iterable[float]], float], tolerance: float
) -> bool:
    return any(edge(curve) in _stable(curve, tolerance) for curve in _learnt_curves(search, arm).values())


def _stable(curve: Curve, tolerance: float) -> list[float]:
    """The rates of the unbroken stretch around the best one; empty where no run learnt."""
    known = {rate: loss for rate, loss in curve.items() if loss is not None}
    if not known:
        return []
    rates, best = list(curve), min(known, key=lambda rate: known[rate])
    within = [rate in known and known[rate] <= (1 + tolerance) * known[best] for rate in rates]
    first = last = rates.index(best)
    while first > 0 and within[first - 1]:
        first -= 1
    while last < len(rates) - 1 and within[last + 1]:
        last += 1
    return rates[first : last + 1]


def _sensitivity(curve: Curve, at_init: float) -> float:
    entered = [at_init if loss is None else min(loss, at_init) for loss in curve.values()]
    return statistics.fmean(entered) - min(entered)
