"""How large is a difference between two arms, and how sure are we?

Everything here works on one sample: the differences of two arms, one number per seed (paired by seed). At the usual
3 to 9 seeds the t interval is the honest one: a percentile bootstrap of 3 pairs excludes 0 whenever the three signs
agree, which chance alone does a quarter of the time.

Methods: Student's paired t interval; one-sided t tests against a margin, which make two one-sided tests (TOST,
Schuirmann 1987) and non-inferiority; smallest detectable effect from the power of the t test (non-central t).
A sample of n = 1 has a mean and no interval. A sample without spread is taken at its word: probability 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

POWER = 0.8


@dataclass(frozen=True)
class Estimate:
    """Mean of a sample with its two-sided t interval; `sd`, `low`, `high` are None for n = 1."""

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None

    def times(self, factor: float) -> Estimate:
        """The same estimate in another unit (a positive factor)."""
        scaled = (None if value is None else factor * value for value in (self.sd, self.low, self.high))
        return Estimate(self.n, factor * self.mean, *scaled)

    def json(self) -> dict[str, float | int | None]:
        return {"n": self.n, "mean": self.mean, "sd": self.sd, "low": self.low, "high": self.high}

    def percent_text(self) -> str:
        """A relative difference in words: `+1.2 % (95 % interval +0.3 to +2.1 %)`."""
        interval = "one seed, no interval"
        if self.low is not None and self.high is not None:
            interval = f"95 % interval {100 * self.low:+.2f} to {100 * self.high:+.2f} %"
        return f"{100 * self.mean:+.2f} % ({interval})"


def estimate(sample: Sequence[float], *, confidence: float = 0.95) -> Estimate:
    """Two-sided t interval of the mean of `sample` (finite numbers, at least one)."""
    n, mean, sd = _moments(sample)
    if sd is None:
        return Estimate(n, mean, None, None, None)
    half = t_quantile(0.5 + confidence / 2, degrees=n - 1) * sd / math.sqrt(n)
    return Estimate(n, mean, sd, mean - half, mean + half)


def p_greater(sample: Sequence[float], than: float) -> float:
    """p value of the one-sided t test whose alternative is: the mean is greater than `than`. 1 for n = 1."""
    from scipy.special import stdtr

    n, mean, sd = _moments(sample)
    if sd is None:
        return 1.0
    if sd == 0:
        return 0.0 if mean > than else 1.0
    return float(stdtr(n - 1, (than - mean) * math.sqrt(n) / sd))


def p_less(sample: Sequence[float], than: float) -> float:
    """p value of the one-sided t test whose alternative is: the mean is less than `than`. 1 for n = 1."""
    return p_greater([-value for value in sample], -than)


def p_equivalent(sample: Sequence[float], margin: float) -> float:
    """p value of TOST: at or below 0.05 exactly when the 90 % interval lies inside -margin..margin."""
    return max(p_less(sample, margin), p_greater(sample, -margin))


def t_quantile(probability: float, *, degrees: int) -> float:
    """Quantile of Student's t distribution: 4.303 for probability 0.975 and 2 degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def detectable_effect(*, sd: float, n: int, alpha: float = 0.05, power: float = POWER) -> float:
    """Smallest true mean difference that a two-sided t test of n pairs finds with probability `power`.

    `sd` is that of the paired differences; the answer has its unit and is as uncertain as `sd` itself.
    """
    from scipy.optimize import brentq
    from scipy.special import nctdtr

    critical = t_quantile(1 - alpha / 2, degrees=n - 1)
    # The chance of a significant result of the wrong sign is below 1e-5 at this power and left out.
    noncentrality = brentq(lambda shift: 1 - nctdtr(n - 1, shift, critical) - power, 0.0, 10 * critical + 10)
    return float(noncentrality) * sd / math.sqrt(n)


def in_percent(fraction: float) -> str:
    """`2.5 %` for 0.025."""
    return f"{100 * fraction:.3g} %"


def _moments(sample: Sequence[float]) -> tuple[int, float, float | None]:
    """Count, mean and sample standard deviation (n - 1 in the denominator; None for n = 1)."""
    n = len(sample)
    if n == 0 or not all(math.isfinite(value) for value in sample):
        raise ValueError(f"sample = {list(sample)}: a mean needs at least one number, all of them finite")
    mean = math.fsum(sample) / n
    if n == 1:
        return n, mean, None
    if min(sample) == max(sample):
        return n, sample[0], 0.0  # fsum / n can miss the common value by one unit in the last place
    return n, mean, math.sqrt(math.fsum((value - mean) ** 2 for value in sample) / (n - 1))
