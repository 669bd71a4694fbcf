"""How large is a difference between two arms, and how sure are we?

Everything here works on one sample: the differences of two arms, one number per seed (paired by seed). A
percentile bootstrap of 3 pairs excludes 0 whenever the three signs agree, which chance alone does a
quarter of the time, so:

    tests       Student's t for fewer than 6 seeds; exact sign-flip from 6 to 16 (Fisher 1935), which needs
                symmetric noise only; t again above, where flips are too many to list
    intervals   t for fewer than 10 seeds, from 10 to 16 the sign-flip test turned round (typical values,
                Hartigan 1969)
    trends      Page's L (1963) over arms ranked within a seed; Kendall's tau over one value an arm
    families    Holm's step-down levels (1979); several looks share the level, which holds for all together

A test against a margin on each side makes equivalence (TOST, Schuirmann 1987), on one side
non-inferiority. A sample of n = 1 has a mean and no interval; one of fewer than 6 seeds without spread is
taken at its word: probability 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

ALPHA = 0.05
POWER = 0.8
FLIPS_FROM, FLIPS_TO = 6, 16  # seeds that are tested by flipping signs
FLIPPED_INTERVAL_FROM = 10
SHUFFLED = 8  # tied values whose orders are listed
EARLY_SHARE = 0.2  # of the level, for all looks before the last
ROUNDING = 1e-12  # of the larger number: -0.4 less -1.4 is 1


@dataclass(frozen=True)
class Estimate:
    """Mean of a sample with its two-sided interval; `sd`, `low`, `high` are None for n = 1."""

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None

    def times(self, factor: float) -> Estimate:
        """The same estimate in another unit; a negative factor swaps the ends of the interval."""
        low, high = (None if value is None else factor * value for value in (self.low, self.high))
        if low is not None and high is not None:
            low, high = sorted((low, high))
        sd = None if self.sd is None else abs(factor) * self.sd
        return Estimate(self.n, factor * self.mean, sd, low, high)

    def percent_text(self) -> str:
        """A relative difference in words: `+1.20 % (95 % interval +0.30 to +2.10 %)`."""
        return self.times(100).text("%", ".2f")

    def text(self, unit: str, form: str = ".3g") -> str:
        """A difference in words, in its unit."""
        interval = "one seed, no interval"
        if self.low is not None and self.high is not None:
            interval = f"95 % interval {self.low:+{form}} to {self.high:+{form}} {unit}".rstrip()
        return f"{self.mean:+{form}} {unit}".rstrip() + f" ({interval})"


@dataclass(frozen=True)
class Beyond:
    """A variance of a mean that the spread of its sample doesn't show, and its degrees of freedom."""

    variance: float
    degrees: float

    @classmethod
    def sum(cls, parts: Sequence[Beyond]) -> Beyond:
        """That of a sum of independent parts (Satterthwaite 1946, doi 10.2307/3002019)."""
        variance = math.fsum(part.variance for part in parts)
        uncertain = math.fsum(part.variance**2 / part.degrees for part in parts)
        return cls(variance, variance**2 / uncertain if uncertain else math.inf)

    def times(self, factor: float) -> Beyond:
        """The same variance with the mean in another unit."""
        return Beyond(self.variance * factor**2, self.degrees)

    def with_spread(self, sd: float, n: int) -> Beyond:
        """The whole variance of a mean of n numbers that spread by sd."""
        return Beyond.sum([self, Beyond(sd**2 / n, n - 1)])


def estimate(sample: Sequence[float], *, confidence: float = 0.95, beyond: Beyond | None = None) -> Estimate:
    """Mean of `sample` (finite numbers, at least one) with its two-sided interval.

    With a variance beyond the sample's it is the wider one of that without it and of Student's t with both.
    """
    n, mean, sd = _moments(sample)
    if sd is None:
        return Estimate(n, mean, None, None, None)
    if beyond is not None and beyond.variance > 0:
        whole, narrow = beyond.with_spread(sd, n), estimate(sample, confidence=confidence)
        half = t_quantile(0.5 + confidence / 2, degrees=whole.degrees) * math.sqrt(whole.variance)
        assert narrow.low is not None and narrow.high is not None
        return Estimate(n, mean, sd, min(narrow.low, mean - half), max(narrow.high, mean + half))
    if FLIPPED_INTERVAL_FROM <= n <= FLIPS_TO:
        import numpy as np

        ordered = np.sort(_subset_means(sample))
        rank = math.floor((1 - confidence) / 2 * 2**n)  # at these sizes at least 25
        return Estimate(n, mean, sd, float(ordered[rank - 1]), float(ordered[-rank]))
    half = t_quantile(0.5 + confidence / 2, degrees=n - 1) * sd / math.sqrt(n)
    return Estimate(n, mean, sd, mean - half, mean + half)


def p_greater(sample: Sequence[float], than: float, *, beyond: Beyond | None = None) -> float:
    """p value of the one-sided test whose alternative is: the mean is greater than `than`. 1 for n = 1.

    With a variance beyond the sample's it is the larger one of the test without it and of Student's t with
    both.
    """
    from scipy.special import stdtr

    n, mean, sd = _moments(sample)
    if sd is None:
        return 1.0
    if beyond is not None and beyond.variance > 0:
        whole = beyond.with_spread(sd, n)
        joint = float(stdtr(whole.degrees, (than - mean) / math.sqrt(whole.variance)))
        return max(joint, p_greater(sample, than))
    if FLIPS_FROM <= n <= FLIPS_TO:
        return p_flipped([_beyond(value, than) for value in sample])
    if sd == 0:
        return 0.0 if _beyond(mean, than) > 0 else 1.0
    return float(stdtr(n - 1, (than - mean) * math.sqrt(n) / sd))


def p_apart(sample: Sequence[float], *, beyond: Beyond | None = None) -> float:
    """p value of Student's t, two-sided, that the mean is not 0; of any number of seeds, 1 for n = 1.

    With a variance beyond the sample's it is the larger one of the test without it and with both.
    """
    from scipy.special import stdtr

    n, mean, sd = _moments(sample)
    if sd is None:
        return 1.0
    if sd == 0:
        return 1.0 if mean == 0 else 0.0
    tests = [(float(n - 1), sd / math.sqrt(n))]
    if beyond is not None and beyond.variance > 0:
        whole = beyond.with_spread(sd, n)
        tests.append((whole.degrees, math.sqrt(whole.variance)))
    return max(2 * float(stdtr(degrees, -abs(mean) / error)) for degrees, error in tests)


def at_least(value: float, bound: float) -> bool:
    """Whether `value` reaches `bound`, but for rounding."""
    return _beyond(value, bound) >= 0


def _beyond(value: float, bound: float) -> float:
    """value - bound, 0 where that is rounding."""
    return 0.0 if math.isclose(value, bound, rel_tol=ROUNDING) else value - bound


def p_less(sample: Sequence[float], than: float, *, beyond: Beyond | None = None) -> float:
    """p value of the one-sided test whose alternative is: the mean is less than `than`. 1 for n = 1."""
    return p_greater([-value for value in sample], -than, beyond=beyond)


def p_equivalent(sample: Sequence[float], margin: float, *, beyond: Beyond | None = None) -> float:
    """p value of TOST: the mean lies inside -margin..margin (for t: at or below 0.05 exactly when the 90 %
    interval does).
    """
    return max(p_less(sample, margin, beyond=beyond), p_greater(sample, -margin, beyond=beyond))


def p_flipped(sample: Sequence[float]) -> float:
    """Exact one-sided p value of "above 0": the share of all 2^n changes of sign whose sum is at least the
    sample's.
    """
    # The sum does not fall by a change of sign exactly when the values whose sign changes sum to 0 or less.
    means = _subset_means(sample)
    rounding = ROUNDING * max(map(abs, sample))
    return (1 + int((means <= rounding).sum())) / 2 ** len(sample)


def p_shuffled(sample: Sequence[float], below: Sequence[float]) -> float:
    """Exact p value of "`sample` lies higher than `below`", unpaired: the share of regroupings with as
    large a sum.
    """
    from itertools import combinations

    pooled, observed = [*sample, *below], math.fsum(sample)
    rounding = ROUNDING * max(map(abs, pooled))
    sums = [math.fsum(chosen) for chosen in combinations(pooled, len(sample))]
    return sum(total >= observed - rounding for total in sums) / len(sums)


def p_trend(rows: Sequence[Sequence[float]]) -> float:
    """p value of Page's L that values rise along each row (one row a seed, one column an arm, three or
    more arms).
    """
    from scipy.stats import page_trend_test

    return float(page_trend_test([list(row) for row in rows]).pvalue)


def p_concordant(values: Sequence[float]) -> float:
    """p value of Kendall's tau that values rise in the order given, one value an arm; exact, with ties up
    to 8 of them.
    """
    from itertools import permutations

    from scipy.stats import kendalltau

    if len(set(values)) < len(values) <= SHUFFLED:  # where scipy knows an approximation only
        observed, orders = _rises(values), list(permutations(values))
        return sum(_rises(order) >= observed for order in orders) / len(orders)
    found = kendalltau(range(len(values)), values, alternative="greater")
    return 1.0 if math.isnan(found.pvalue) else float(found.pvalue)


def _rises(values: Sequence[float]) -> int:
    """Pairs that rise less pairs that fall."""
    return sum((b > a) - (b < a) for i, a in enumerate(values) for b in values[i + 1 :])


def holm(p_values: Sequence[float], alpha: float = ALPHA) -> list[float]:
    """The level each p value is held against, so that any false rejection among them has probability alpha
    at most.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    levels, steps = [0.0] * len(p_values), len(p_values)
    for i in order:
        levels[i] = alpha / steps
        steps -= p_values[i] <= levels[i]  # at the first that is kept, the level stays for all that follow
    return levels


def look_levels(looks: Sequence[int], alpha: float = ALPHA) -> list[float]:
    """The level of each look: all but the last share EARLY_SHARE of alpha evenly, the last has the rest.

    They add up to alpha, so whatever the looks have in common a true null hypothesis is rejected at any of
    them with probability alpha at most (Bonferroni over looks).
    """
    early = len(looks) - 1
    return [EARLY_SHARE * alpha / early] * early + [(1 - EARLY_SHARE) * alpha] if early else [alpha]


def t_quantile(probability: float, *, degrees: float) -> float:
    """Quantile of Student's t distribution: 4.303 for probability 0.975 and 2 degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def detectable_effect(*, sd: float, n: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """Smallest true mean difference that the two-sided test of n pairs finds with probability `power`; inf
    where it can't.

    `sd` is that of the paired differences; the answer has its unit and is as uncertain as `sd` itself. For
    the sign-flip test it is that of a t test at the level that flips can reach.
    """
    from scipy.optimize import brentq
    from scipy.special import nctdtr

    if n < 2:
        return math.inf
    if FLIPS_FROM <= n <= FLIPS_TO:
        alpha = 2 * math.floor(alpha / 2 * 2**n) / 2**n
    if alpha == 0:
        return math.inf
    critical = t_quantile(1 - alpha / 2, degrees=n - 1)
    # The chance of a significant result of the wrong sign is below 1e-5 at this power and left out.
    noncentrality = brentq(lambda shift: 1 - nctdtr(n - 1, shift, critical) - power, 0.0, 10 * critical + 10)
    return float(noncentrality) * sd / math.sqrt(n)


def in_percent(fraction: float) -> str:
    """`2.5 %` for 0.025."""
    return f"{100 * fraction:.3g} %"


def _subset_means(sample: Sequence[float]) -> Any:
    """float64 [2^n - 1]: the mean of every non-empty part of the sample."""
    import numpy as np

    return _subsets(len(sample)) @ np.asarray(sample, dtype=float)


@lru_cache(maxsize=4)
def _subsets(n: int) -> Any:
    """float64 [2^n - 1, n]: a row a non-empty subset, its members weighted to sum to 1."""
    import numpy as np

    members = (np.arange(1, 2**n)[:, None] >> np.arange(n)) & 1
    return members / members.sum(axis=1, keepdims=True)


def _moments(sample: Sequence[float]) -> tuple[int, float, float | None]:
    """Count, mean and sample standard deviation (n - 1 in the denominator; None for n = 1)."""
    return _moments_of(tuple(sample))


@lru_cache(maxsize=256)
def _moments_of(sample: tuple[float, ...]) -> tuple[int, float, float | None]:
    n = len(sample)
    if n == 0 or not all(math.isfinite(value) for value in sample):
        raise ValueError(f"sample = {list(sample)}: a mean needs at least one number, all of them finite")
    mean = math.fsum(sample) / n
    if n == 1:
        return n, mean, None
    if min(sample) == max(sample):
        return n, sample[0], 0.0  # fsum / n can miss the common value by one unit in the last place
    return n, mean, math.sqrt(math.fsum((value - mean) ** 2 for value in sample) / (n - 1))
