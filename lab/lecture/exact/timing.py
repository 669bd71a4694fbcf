"""How much faster is one computation than another on this machine, now?

Two computations alternate, in an order that swaps every time, so that what slows the machine slows both.
One ratio a pair; the interval is that of the median by order statistics, which assumes nothing about the
noise (exact binomial). On a CPU the process's own CPU time is taken, one thread, so that waiting for a
core counts for nothing.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Ratio:
    """Time of one computation over that of another: the median over pairs and its 95 % interval, low to high.

    first_seconds, second_seconds: the median time of each.
    """

    pairs: int
    median: float
    low: float
    high: float
    first_seconds: float
    second_seconds: float

    def text(self) -> str:
        return f"{self.median:.3f} (95 % interval {self.low:.3f} to {self.high:.3f}, {self.pairs} pairs)"


def compare(
    first: Callable[[], object],
    second: Callable[[], object],
    *,
    pairs: int = 31,
    device: str = "cpu",
    warm_up: int = 3,
) -> Ratio:
    """Time both computations `pairs` times, interleaved, after `warm_up` calls of each. Six pairs or more."""
    for _ in range(warm_up):
        seconds(first, device), seconds(second, device)
    times: list[tuple[float, float]] = []
    for pair in range(pairs):
        order = (first, second) if pair % 2 == 0 else (second, first)
        taken = [seconds(compute, device) for compute in order]
        times.append((taken[0], taken[1]) if pair % 2 == 0 else (taken[1], taken[0]))
    ratios = sorted(a / b for a, b in times)
    rank = median_rank(pairs)
    return Ratio(
        pairs,
        statistics.median(ratios),
        ratios[rank],
        ratios[-1 - rank],
        statistics.median(a for a, _ in times),
        statistics.median(b for _, b in times),
    )


def seconds(compute: Callable[[], object], device: str) -> float:
    """CPU time of one call, or wall time on a GPU, whose queue is emptied before and after."""
    if device != "cuda":
        start = time.process_time()
        compute()
        return time.process_time() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    compute()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def median_rank(n: int, confidence: float = 0.95) -> int:
    """The k, counted from 0, for which the k-th lowest to the k-th highest of n values hold the median.

    They hold it with that confidence, whatever the values' distribution. Raises ValueError for too few
    values.
    """
    tail, rank = 0.0, -1
    while tail + math.comb(n, rank + 1) / 2**n <= (1 - confidence) / 2:
        rank += 1
        tail += math.comb(n, rank) / 2**n
    if rank < 0:
        raise ValueError(f"{n} values can't hold the median with confidence {confidence}; take 6 or more.")
    return rank
