"""Which tests may a claim be put to, and when do they hold?

A predicate turns the evidence into statements that must all be true. A statement carries two p values: `p_true` is
small when the data speak for it, `p_false` when they speak against it. "For all" takes the largest p value of its
parts, which needs no correction (intersection-union test, Berger 1982); "there is" takes the smallest times the
number of parts (Bonferroni). So holding and failing are each wrong in at most 5 % of experiments, and "within 1 % of
the best arm" means within 1 % of every other arm, with no best arm picked from the seeds that then judge it. "Better" is
tested against no difference; its margin is asked of the mean alone, and the 5 % do not cover it.

Differences are relative and paired by seed: a / b - 1, judged by one-sided t tests. A diverged run decides without a
test: its arm is worse than any arm without one. Margins are fractions. `PREDICATES` at the end is the closed set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lab import stats
from lab.evidence import Arm, Evidence, relative_differences
from lab.stats import in_percent

ALPHA = 0.05


class NotRun(Exception):
    """The plan can't speak to a claim at all; the message says why."""


@dataclass(frozen=True)
class Comparison:
    """Arm `a` against arm `b`, both with a result for every planned seed."""

    a: Arm
    b: Arm

    @property
    def sample(self) -> list[float]:
        return relative_differences(self.a, self.b)

    @property
    def mean(self) -> float:
        """Mean relative difference; infinite where one arm diverged, nan where both did."""
        if self.a.diverged and self.b.diverged:
            return math.nan
        if self.a.diverged or self.b.diverged:
            return math.inf if self.a.diverged else -math.inf
        return stats.estimate(self.sample).mean

    def p_above(self, margin: float) -> float:
        """p value for: `a` is worse than `b` by more than `margin`."""
        if math.isfinite(self.mean):
            return stats.p_greater(self.sample, margin)
        return 0.0 if self.mean == math.inf else 1.0

    def p_below(self, margin: float) -> float:
        """p value for: `a` is worse than `b` by less than `margin`, or better."""
        if math.isfinite(self.mean):
            return stats.p_less(self.sample, margin)
        return 0.0 if self.mean == -math.inf else 1.0

    @property
    def detectable(self) -> float | None:
        """Relative difference found with probability 0.8 at this number and spread of seeds."""
        if not math.isfinite(self.mean):
            return None
        summary = stats.estimate(self.sample)
        return stats.detectable_effect(sd=summary.sd, n=summary.n) if summary.sd is not None else None

    def text(self) -> str:
        diverged = " and ".join(arm.label for arm in (self.a, self.b) if arm.diverged)
        if diverged:
            return f"{self.a.label} against {self.b.label}: {diverged} diverged"
        return f"{self.a.label} against {self.b.label}: {stats.estimate(self.sample).percent_text()}"

    def json(self) -> dict[str, Any]:
        diverged = [arm.name for arm in (self.a, self.b) if arm.diverged]
        relative = None if diverged else stats.estimate(self.sample).times(100).json()
        return {
            "arm": self.a.name,
            "against": self.b.name,
            "relative_percent": relative,
            "diverged": diverged,
        }


@dataclass(frozen=True)
class Statement:
    """One part of a claim. `known` is False where the plan lacks what it needs and the other parts decide."""

    text: str
    p_true: float
    p_false: float
    p_small: float = 1.0
    known: bool = True
    detectable: float | None = None
    comparisons: tuple[Comparison, ...] = ()


def level(arm: Arm) -> float:
    """Mean metric of an arm for choosing which comparison to show; a diverged arm stands last."""
    return math.inf if arm.diverged else stats.estimate(list(arm.values.values())).mean


def every(p_values: Iterable[float]) -> float:
    """p value of "all of these are true"."""
    return max(p_values)


def some(p_values: Iterable[float]) -> float:
    """p value of "at least one of these is true", corrected for the number of chances."""
    listed = list(p_values)
    return min(1.0, len(listed) * min(listed))


def basin(evidence: Evidence, *, family: str, inside: Sequence[float], margin: float) -> list[Statement]:
    """Arms with x inside [lo, hi] are within `margin` of the best, the best is one of them, some arm outside is worse."""
    arms, (low, high) = evidence.family(family), inside
    within = [arm for arm in arms if arm.x is not None and low <= arm.x <= high]
    outside = [arm for arm in arms if arm.x is not None and not low <= arm.x <= high]
    span = f"{low:g} to {high:g}"
    if len(within) < 2 or not outside:
        raise NotRun(
            f"needs two {family} arms inside {span} and one outside; the plan has {len(within)} and {len(outside)}"
        )

    near = [Comparison(a, b) for a in within for b in arms if a is not b]
    far = [Comparison(a, b) for a in outside for b in arms if a is not b]
    tightest, edge = (min(pairs, key=lambda c: c.p_above(margin)) for pairs in (near, far))
    leader, contest = min(arms, key=level), Comparison(min(outside, key=level), min(within, key=level))
    return [
        Statement(
            f"every arm inside {span} is within {in_percent(margin)} of the best (decided by {tightest.text()})",
            every(c.p_below(margin) for c in near),
            some(c.p_above(margin) for c in near),
            detectable=tightest.detectable,
            comparisons=tuple(Comparison(arm, leader) for arm in arms if arm is not leader),
        ),
        Statement(
            f"the best arm lies inside {span} ({contest.text()})",
            every(some(Comparison(o, i).p_above(0) for i in within) for o in outside),
            some(every(Comparison(o, i).p_below(0) for i in within) for o in outside),
            detectable=contest.detectable,
        ),
        Statement(
            f"some arm outside {span} is worse than the best by more than {in_percent(margin)} ({edge.text()})",
            some(c.p_above(margin) for c in far),
            every(c.p_below(margin) for c in far),
            detectable=edge.detectable,
        ),
    ]


def non_inferior(evidence: Evidence, *, arm: str, against: dict[str, str], margin: float) -> list[Statement]:
    """`arm` is within `margin` of every other arm of a family, or of one arm: against {family: ...} or {arm: ...}."""
    subject = evidence.arm(arm)
    rivals = evidence.family(against["family"]) if "family" in against else [evidence.arm(against["arm"])]
    comparisons = [Comparison(subject, rival) for rival in rivals if rival is not subject]
    if not comparisons:
        raise NotRun(f"{subject.label} has no other arm of its family in the plan to be compared with")
    hardest = max(comparisons, key=lambda c: (c.p_below(margin), c.p_above(0)))
    return [
        Statement(
            f"{subject.label} is within {in_percent(margin)} of {'the best of its rivals' if len(rivals) > 1 else rivals[0].label}"
            f" (decided by {hardest.text()})",
            every(c.p_below(margin) for c in comparisons),
            some(c.p_above(margin) for c in comparisons),
            detectable=hardest.detectable,
            comparisons=tuple(comparisons),
        )
    ]


def superior(evidence: Evidence, *, better: str, worse: str, margin: float) -> list[Statement]:
    """`better` beats `worse`: the two-sided 95 % interval excludes 0 and the mean difference is `margin` or more."""
    comparison = Comparison(evidence.arm(worse), evidence.arm(better))
    finite = math.isfinite(comparison.mean)
    return [
        Statement(
            f"{comparison.b.label} is better than {comparison.a.label}, by {in_percent(margin)} or more in the mean ({comparison.text()})",
            min(1.0, 2 * comparison.p_above(0)) if comparison.mean >= margin else 1.0,
            min(1.0, 2 * comparison.p_below(0)) if comparison.mean <= -margin else 1.0,
            p_small=stats.p_equivalent(comparison.sample, margin) if finite else 1.0,
            detectable=comparison.detectable,
            comparisons=(comparison,),
        )
    ]


def below_line(evidence: Evidence, *, arm: str, line: str) -> list[Statement]:
    """The mean bits per byte of `arm` lie below a reference line of the plan; skipped where the plan has no such line."""
    subject = evidence.arm(arm)
    if line not in evidence.lines:
        return [
            Statement(
                f"{subject.label} below {line}: no such reference line for this corpus", 1.0, 1.0, known=False
            )
        ]
    bpb = evidence.lines[line]
    if subject.diverged:
        return [Statement(f"{subject.label} is below {line} ({subject.label} diverged)", 1.0, 0.0)]
    sample = list(subject.values.values())
    return [
        Statement(
            f"{subject.label} is below {line} ({stats.estimate(sample).mean:.3f} against {bpb:.3f} bits per byte)",
            stats.p_less(sample, bpb),
            stats.p_greater(sample, bpb),
        )
    ]


PREDICATES: dict[str, Callable[..., list[Statement]]] = {
    "basin": basin,
    "non_inferior": non_inferior,
    "superior": superior,
    "below_line": below_line,
}
