"""Where is an effect going as training goes on?

Of each seed s and horizon k: d(s, k), the logarithm of the ratio of bits per byte on the two sides, and
e(s, k), the same of the excess over the exact floor, where the corpus has one. Over the last three
horizons of a plan a line is laid through e(s, k) against doublings of tokens, seed by seed, and read three
doublings further on.

    budget-bound    two horizons, of all, are significant with opposite signs (Holm over horizons at 5 %)
    persists        d has one sign at the last three, each at a one-sided p of 5 % or less, and the 95 % t
                    interval of the line three doublings on keeps that sign
    fading          the same, but that interval holds 0
    reversing       the same, but that interval has the opposite sign
    open            none of these

The rule is fixed: a change of it raises PROTOCOL (lab/store/identity.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from lab.verdict import stats
from lab.verdict.evidence import MeasuredArm
from lab.verdict.stats import ALPHA, Estimate

PERSISTS, FADING, REVERSING, BUDGET_BOUND, OPEN = "persists", "fading", "reversing", "budget-bound", "open"
UNDECIDED = (BUDGET_BOUND, REVERSING)  # that leave a claim inconclusive whatever the last horizon says
BY_SEVERITY = (BUDGET_BOUND, REVERSING, OPEN, FADING, PERSISTS)
LINE_THROUGH, DOUBLINGS_ON = 3, 3
Sample = tuple[float, ...]  # a number a seed, by rising seed


@dataclass(frozen=True)
class EffectPoint:
    """The effect at one horizon, as a fraction, and the two-sided p value of "there is none"."""

    tokens: int
    effect: Estimate
    p_value: float


@dataclass(frozen=True)
class Direction:
    """Where the difference between two sides is going; positive where `arm` is worse than `against`.

    by: "val/excess_bpb" where the line goes through excesses over the floor, "val/bpb" else. followed: what
    it goes through at the last three horizons, as fractions. slope: its mean over seeds, in logarithms a
    doubling. later: of the line, at so many tokens, as a fraction.
    """

    name: str
    arm: str
    against: str
    points: tuple[EffectPoint, ...]
    by: str
    followed: tuple[Estimate, ...]
    slope: float
    later_tokens: int
    later: Estimate

    def text(self) -> str:
        """One sentence with the figures that decide."""
        last = self.points[-1]
        on = f"{self.later.percent_text()} at {self.later_tokens / 1e6:.0f} M tokens by the line"
        of = "the excess over the floor" if self.by == "val/excess_bpb" else "the loss"
        curve = ", ".join(f"{100 * p.effect.mean:+.2f} % at {p.tokens / 1e6:.1f} M" for p in self.points)
        if self.name == BUDGET_BOUND:
            return f"{self.arm} against {self.against} changes sign with the budget: {curve}"
        return (
            f"{self.arm} against {self.against} is {self.name}: {100 * last.effect.mean:+.2f} % at "
            f"{last.tokens / 1e6:.1f} M tokens; in {of} {on} (horizons: {curve})"
        )


@dataclass(frozen=True)
class Path:
    """A contrast over all horizons of a plan: tokens, and of each horizon d and, where known, e by seed."""

    arm: str
    against: str
    tokens: tuple[int, ...]
    differences: tuple[Sample, ...]
    excess: tuple[Sample, ...] | None


def path(plus: Sequence[MeasuredArm], minus: Sequence[MeasuredArm]) -> Path | None:
    """The sum of the logarithms of `plus` less that of `minus`; None without three horizons or two seeds."""
    arms = [*plus, *minus]
    if min(len(arm.path) for arm in arms) < LINE_THROUGH:
        return None
    seeds = sorted(set.intersection(*(set(at.scores) for arm in arms for at in arm.path)))
    if len(seeds) < 2:
        return None
    signed = [(1, arm) for arm in plus] + [(-1, arm) for arm in minus]
    count = len(arms[0].path)
    differences = tuple(
        tuple(math.fsum(sign * math.log(arm.path[k].scores[seed]) for sign, arm in signed) for seed in seeds)
        for k in range(count)
    )
    recent = range(count - LINE_THROUGH, count)
    above = all(arm.path[k].excess.get(seed, 0.0) > 0 for arm in arms for k in recent for seed in seeds)
    excess = None
    if above:
        excess = tuple(
            tuple(
                math.fsum(sign * math.log(arm.path[k].excess[seed]) for sign, arm in signed) for seed in seeds
            )
            for k in recent
        )
    return Path(
        " + ".join(arm.label for arm in plus),
        " + ".join(arm.label for arm in minus),
        tuple(at.tokens for at in arms[0].path),
        differences,
        excess,
    )


def direction(of: Path) -> Direction:
    """Where the contrast is going."""
    recent = of.differences[-LINE_THROUGH:]
    followed = recent if of.excess is None else of.excess
    line = further(followed)
    later = stats.estimate(line)
    p_values = [2 * min(stats.p_greater(d, 0), stats.p_less(d, 0)) for d in of.differences]
    points = tuple(
        EffectPoint(tokens, as_fraction(stats.estimate(d)), min(1.0, p))
        for tokens, d, p in zip(of.tokens, of.differences, p_values, strict=True)
    )
    return Direction(
        name=_name(of.differences, p_values, later),
        arm=of.arm,
        against=of.against,
        points=points,
        by="val/bpb" if of.excess is None else "val/excess_bpb",
        followed=tuple(as_fraction(stats.estimate(values)) for values in followed),
        slope=fmean(_slope(values) for values in zip(*followed, strict=True)),
        later_tokens=of.tokens[-1] * 2**DOUBLINGS_ON,
        later=as_fraction(later),
    )


def _name(differences: Sequence[Sample], p_values: Sequence[float], later: Estimate) -> str:
    levels = stats.holm(p_values, ALPHA)
    significant = {
        fmean(d) > 0 for d, p, level in zip(differences, p_values, levels, strict=True) if p <= level
    }
    if len(significant) == 2:
        return BUDGET_BOUND
    for sign in (1, -1):
        recent = [[sign * value for value in d] for d in differences[-LINE_THROUGH:]]
        if all(stats.p_greater(d, 0) <= ALPHA for d in recent):
            low, high = sorted(sign * end for end in (later.low or 0.0, later.high or 0.0))
            return PERSISTS if low > 0 else REVERSING if high < 0 else FADING
    return OPEN


def further(followed: Sequence[Sample]) -> Sample:
    """Each seed's line through its last values against doublings, DOUBLINGS_ON beyond the last of them."""
    return tuple(values[-1] + DOUBLINGS_ON * _slope(values) for values in zip(*followed, strict=True))


def _slope(values: Sequence[float]) -> float:
    """Of the least-squares line through values at 0, 1, 2, ... doublings."""
    middle, mean = (len(values) - 1) / 2, fmean(values)
    spread = math.fsum((k - middle) ** 2 for k in range(len(values)))
    return math.fsum((k - middle) * (value - mean) for k, value in enumerate(values)) / spread


def as_fraction(logarithm: Estimate) -> Estimate:
    """An estimate of ln(a / b) as one of a / b - 1; the sd is that of small differences."""
    low, high = (None if end is None else math.expm1(end) for end in (logarithm.low, logarithm.high))
    return Estimate(logarithm.n, math.expm1(logarithm.mean), logarithm.sd, low, high)


def worst(found: Iterable[Direction]) -> Direction | None:
    """The direction of a claim that rests on several: the one that says least for it."""
    return min(found, key=lambda one: BY_SEVERITY.index(one.name), default=None)
