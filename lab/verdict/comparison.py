"""By how much is one arm worse than another, seed by seed, and what does a test make of it?

A comparison is one number a seed, positive where the first arm is worse, whichever way the metric goes.
Statements are what predicates make of comparisons (lab/verdict/predicates.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean

from lab.store.metric import Metric
from lab.verdict import stats, wording
from lab.verdict.direction import LINE_THROUGH, further, path
from lab.verdict.evidence import METRIC, MeasuredArm
from lab.verdict.stats import Beyond, Estimate
from lab.verdict.text_error import beyond_seeds


@dataclass(frozen=True)
class Comparison:
    """One arm against another over the seeds that both have; `sample` is by rising seed.

    `diverged` has the arms with diverged runs, which enter as before training unless the metric counts a
    run's own steps. Where that leaves nothing to tell which side is worse, as where both diverged for one
    seed, `ranked` is False and every p value is 1. `beyond` is the variance of the mean that seeds don't
    show (lab/verdict/text_error.py); `later` what the differences are heading for (lab/verdict/direction.py):
    a difference is small only where that is small too.
    """

    arm: str
    against: str
    label: str
    metric: Metric
    sample: tuple[float, ...]
    diverged: tuple[MeasuredArm, ...]
    ranked: bool
    beyond: Beyond | None = None
    later: tuple[float, ...] = ()

    @cached_property
    def estimate(self) -> Estimate:
        return stats.estimate(self.sample, beyond=self.beyond)

    def p_above(self, margin: float) -> float:
        """p value for: `arm` is worse than `against` by more than `margin`."""
        return stats.p_greater(self.sample, margin, beyond=self.beyond) if self.ranked else 1.0

    def p_below(self, margin: float) -> float:
        """p value for: `arm` is worse than `against` by less than `margin`, or better."""
        return stats.p_less(self.sample, margin, beyond=self.beyond) if self.ranked else 1.0

    def p_within(self, margin: float) -> float:
        """p value for: the difference is smaller than `margin` either way."""
        if not self.ranked:
            return 1.0
        now = stats.p_equivalent(self.sample, margin, beyond=self.beyond)
        return max(now, stats.p_equivalent(self.later, margin)) if self.later else now

    def p_outside(self, margin: float) -> float:
        """p value for: the difference is larger than `margin` one way or the other."""
        return min(1.0, 2 * min(self.p_above(margin), self.p_below(-margin)))

    def detectable(self, alpha: float, *, n: int | None = None) -> float:
        """Difference found with probability 0.8 at this spread, by `n` seeds or as many as there are; inf
        where none is.
        """
        if not self.ranked or (sd := self.estimate.sd) is None:
            return math.inf
        return stats.detectable_effect(sd=sd, n=n or len(self.sample), alpha=alpha)

    def text(self) -> str:
        if not self.ranked:
            return (
                f"{self.label}: both sides diverged for the same seed"
                if self.sample
                else f"{self.label}: no shared seed"
            )
        notes = [f"{arm.label} diverged for {seeds(arm.diverged)}" for arm in self.diverged]
        entered = f"; {' and '.join(notes)}, entered {wording.entered(self.metric)}" if notes else ""
        return f"{self.label}: {wording.text(self.metric, self.estimate)}{entered}"


def compare(a: MeasuredArm, b: MeasuredArm, metric: Metric) -> Comparison:
    """By how much `a` is worse than `b`, seed by seed."""
    one, other = a.scores, b.scores
    shared = sorted(one.keys() & other.keys())
    sample = tuple(metric.worse_by(one[seed], other[seed]) for seed in shared)
    diverged = tuple(arm for arm in (a, b) if arm.diverged)
    ranked = bool(shared) and (metric.of_own_steps or not a.diverged & b.diverged)
    label = f"{a.label} against {b.label}"
    beyond, later = _of_loss([a], [b], metric, sample)
    return Comparison(a.name, b.name, label, metric, sample, diverged, ranked, beyond, later)


def interaction(a: MeasuredArm, b: MeasuredArm, c: MeasuredArm, d: MeasuredArm, metric: Metric) -> Comparison:
    """By how much more `a` is worse than `b` than `c` is than `d`: a difference of differences."""
    label = f"({a.label} against {b.label}) against ({c.label} against {d.label})"
    one, two, three, four = (arm.scores for arm in (a, b, c, d))
    sample = tuple(
        metric.worse_by(one[seed], two[seed]) - metric.worse_by(three[seed], four[seed])
        for seed in sorted(one.keys() & two.keys() & three.keys() & four.keys())
    )
    both = (a.diverged | d.diverged) & (b.diverged | c.diverged)
    ranked = bool(sample) and (metric.of_own_steps or not both)
    diverged = tuple(arm for arm in (a, b, c, d) if arm.diverged)
    names = f"{a.name} - {b.name}", f"{c.name} - {d.name}"
    beyond, later = _of_loss([a, d], [b, c], metric, sample)
    return Comparison(*names, label, metric, sample, diverged, ranked, beyond, later)


def _of_loss(
    plus: Sequence[MeasuredArm], minus: Sequence[MeasuredArm], metric: Metric, sample: Sequence[float]
) -> tuple[Beyond | None, tuple[float, ...]]:
    """What seeds don't show of a difference of bits per byte, in its own unit, and what it is heading for."""
    if metric.name != METRIC or not sample:
        return None, ()
    beyond, along = beyond_seeds(plus, minus), path(plus, minus)
    if beyond:  # logarithms as fractions
        beyond = beyond.times(1 + fmean(sample))
    later = further(along.differences[-LINE_THROUGH:]) if along else ()
    return beyond, tuple(map(math.expm1, later))


@dataclass(frozen=True)
class Statement:
    """One part of a claim. `known` is False where the plan lacks what it needs and the other parts decide.

    `p_small` is None where the statement has no margin to be small by; `decisive` is the comparison whose
    spread says what could have been found, `comparisons` those to be shown; `could_find` says the same in
    words where no comparison does; `chances` is how often `some` multiplied the decisive p value, `sides`
    how many its test has; `statistical` is False for what can't be wrong by chance.
    """

    text: str
    p_true: float
    p_false: float
    p_small: float | None = None
    known: bool = True
    decisive: Comparison | None = None
    comparisons: tuple[Comparison, ...] = field(default=())
    statistical: bool = True
    could_find: str = ""
    chances: int = 1
    sides: int = 1


def every(p_values: Iterable[float]) -> float:
    """p value of "all of these are true"."""
    return max(p_values)


def some(p_values: Iterable[float]) -> float:
    """p value of "at least one of these is true", corrected for the number of chances."""
    listed = list(p_values)
    return min(1.0, len(listed) * min(listed))


def seeds(numbers: Iterable[int]) -> str:
    """`seed 1` or `seeds 1, 2`."""
    listed = sorted(numbers)
    return ("seed " if len(listed) == 1 else "seeds ") + ", ".join(map(str, listed))
