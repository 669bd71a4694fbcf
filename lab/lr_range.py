"""How wide a range of learning rates does an arm stand, and how much does it lose beside the best one?

A search is plain JSON, part of a plan: every arm tried the same grid with the same seeds, none of which judges a claim.

    {"seeds": [100, 101, 102],                                the tuning seeds
     "losses": {arm: {"0.001": [1.52, 1.49, 1.50], ...}},     final loss by learning rate, in the order of the seeds;
                                                              null where the run diverged
     "at_init": {arm: 9.97}}                                  loss before training, in the same unit

A rate is stable for a seed when its run did not diverge and ended within `tolerance` of the best that seed found. The
range is the unbroken stretch of stable rates around the best one; a half decade is a factor of 10^0.5. Sensitivity is
the mean over the grid of min(loss, loss at init) less the best loss (Wortsman et al. 2023, arXiv:2309.14322).
"""

from __future__ import annotations

import math
import statistics
from typing import Any

TOLERANCE = 0.2
MEASURES = ("max_stable", "width", "sensitivity")


def measured(
    search: dict[str, Any], arm: str, measure: str, *, tolerance: float = TOLERANCE
) -> dict[int, float]:
    """Tuning seed -> highest stable rate (in half decades, 0 = a rate of 1), width in half decades, or sensitivity.

    A seed that diverged at every rate stands one half decade below the grid, with a width of -1; it has no sensitivity.
    """
    losses = {float(rate): values for rate, values in search["losses"][arm].items()}
    found: dict[int, float] = {}
    for number, seed in enumerate(search["seeds"]):
        curve = {rate: losses[rate][number] for rate in sorted(losses)}
        if measure == "sensitivity":
            if any(loss is not None for loss in curve.values()):
                found[seed] = _sensitivity(curve, search["at_init"][arm])
            continue
        stable = _stable(curve, tolerance)
        low = half_decades(min(losses))
        low, high = (half_decades(stable[0]), half_decades(stable[-1])) if stable else (low, low - 1)
        found[seed] = high if measure == "max_stable" else high - low
    return found


def cut_off(search: dict[str, Any], *, tolerance: float = TOLERANCE) -> list[str]:
    """The arms some seed of which is stable up to the highest rate of the grid, so that more may be stable than was tried."""
    found = []
    for arm, losses in search["losses"].items():
        top = half_decades(max(map(float, losses)))
        if top in measured(search, arm, "max_stable", tolerance=tolerance).values():
            found.append(arm)
    return found


def half_decades(rate: float) -> float:
    """A learning rate on a scale where a factor of 10^0.5 is 1, to a tenth: grids write 3e-3 for 10^-2.5."""
    return round(2 * math.log10(rate), 1)


def _stable(curve: dict[float, float | None], tolerance: float) -> list[float]:
    """The rates of the unbroken stretch around the best one; empty where every run diverged."""
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


def _sensitivity(curve: dict[float, float | None], at_init: float) -> float:
    entered = [at_init if loss is None else min(loss, at_init) for loss in curve.values()]
    return statistics.fmean(entered) - min(entered)
