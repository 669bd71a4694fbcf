"""How much does it matter that a few tuning seeds chose the learning rate?

Drawn anew from themselves, the tuning seeds would at times have chosen another rate of the last rung. What
that costs in mean loss, squared and averaged over all such draws, is a variance that the interval of a
judged difference has on top of the spread over seeds.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from itertools import combinations_with_replacement
from statistics import fmean

from lab.store.plan_record import SearchRecord


def choice_variance(search: SearchRecord | None, arm: str) -> float:
    """The variance of the relative loss of an arm by the choice of its rate; 0 without a search over
    horizons.
    """
    if search is None or not search.rungs or arm not in search.rungs[-1].losses:
        return 0.0
    at_init = search.at_init[arm]
    losses = {
        rate: [at_init if loss is None else min(loss, at_init) for loss in of]
        for rate, of in search.rungs[-1].losses[arm].items()
    }
    means = {rate: fmean(of) for rate, of in losses.items()}
    chosen = means[search.best[arm]]
    seeds = range(len(search.seeds))
    draws = list(combinations_with_replacement(seeds, len(seeds)))
    times = [_orders(drawn) for drawn in draws]

    def best_by(drawn: tuple[int, ...]) -> float:
        return min(losses, key=lambda rate: (fmean(losses[rate][i] for i in drawn), rate))

    costs = [(means[best_by(drawn)] / chosen - 1) ** 2 for drawn in draws]
    return math.fsum(map(operator.mul, costs, times)) / sum(times)


def _orders(drawn: tuple[int, ...]) -> int:
    """In how many orders the same seeds can be drawn."""
    return math.factorial(len(drawn)) // math.prod(map(math.factorial, Counter(drawn).values()))
