"""Which tests may a claim be put to, and when do they hold?

A predicate turns the evidence into statements that must all be true. A statement carries two p values:
`p_true` is small when the data speak for it, `p_false` when they speak against it. "For all" takes the
largest p value of its parts, which needs no correction (intersection-union test, Berger 1982); "there is"
takes the smallest times the number of parts (Bonferroni). So holding and failing are each wrong in at most
5 % of experiments, and "within 1 % of the best arm" means within 1 % of every other arm, with no best arm
picked from the seeds that then judge it. "Better" is tested against no difference; its margin is asked of
the mean alone, and the 5 % do not cover it.

Differences are paired by seed and have the unit of the claim's metric (lab/store/metric.py): fractions
of the rival's value for bits per byte, so that a margin of 0.01 is 1 %. `PREDICATES` at the end is the
closed set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

from lab.store import predicate_forms as forms
from lab.verdict import lr_range as rates
from lab.verdict import stats, wording
from lab.verdict.comparison import Comparison, Statement, compare, every, interaction, some
from lab.verdict.evidence import Evidence, MeasuredArm, pooled


class NotRun(Exception):
    """The plan can't speak to a claim at all; the message says why."""


def level(arm: MeasuredArm) -> float:
    """Mean metric of an arm for choosing which comparison to show."""
    return stats.estimate(list(arm.scores.values())).mean


def basin(evidence: Evidence, asked: forms.Basin) -> list[Statement]:
    """BASIN: arms with x inside [lo, hi] are within `margin` of the best, the best is one of them, some
    arm outside is worse.
    """
    metric, arms, margin = evidence.metric, evidence.family(asked.family), asked.margin.known
    within = [arm for arm in arms if arm.x is not None and asked.inside.holds(arm.x)]
    outside = [arm for arm in arms if arm.x is not None and not asked.inside.holds(arm.x)]
    span, amount = f"{asked.inside.low:g} to {asked.inside.high:g}", wording.amount(metric, margin)
    if len(within) < 2 or not outside:
        raise NotRun(
            f"needs two {asked.family} arms inside {span} and one outside; the plan has "
            f"{len(within)} and {len(outside)}"
        )

    def best(of: list[MeasuredArm]) -> MeasuredArm:
        return (max if metric.higher_is_better else min)(of, key=level)

    pairs = {(a.name, b.name): compare(a, b, metric) for a in arms for b in arms if a is not b}
    near = [pairs[a.name, b.name] for a in within for b in arms if a is not b]
    far = [pairs[a.name, b.name] for a in outside for b in arms if a is not b]
    tightest, edge = (min(group, key=lambda c: c.p_above(margin)) for group in (near, far))
    leader, contest = best(arms), pairs[best(outside).name, best(within).name]
    return [
        Statement(
            f"every arm inside {span} is within {amount} of the best (decided by {tightest.text()})",
            every(c.p_below(margin) for c in near),
            some(c.p_above(margin) for c in near),
            decisive=tightest,
            comparisons=tuple(pairs[arm.name, leader.name] for arm in arms if arm is not leader),
        ),
        Statement(
            f"the best arm lies inside {span} ({contest.text()})",
            every(some(pairs[o.name, i.name].p_above(0) for i in within) for o in outside),
            some(every(pairs[o.name, i.name].p_below(0) for i in within) for o in outside),
            decisive=contest,
            chances=len(within),
        ),
        Statement(
            f"some arm outside {span} is worse than the best by more than {amount} ({edge.text()})",
            some(c.p_above(margin) for c in far),
            every(c.p_below(margin) for c in far),
            decisive=edge,
            chances=len(far),
        ),
    ]


def non_inferior(evidence: Evidence, asked: forms.NonInferior) -> list[Statement]:
    """NI: `arm` is within `margin` of every other arm of a family, or of one arm: against {family: ...} or
    {arm: ...}.
    """
    subject, rivals, margin = evidence.arm(asked.arm), evidence.chosen(asked.against), asked.margin.known
    comparisons = [compare(subject, rival, evidence.metric) for rival in rivals if rival is not subject]
    if not comparisons:
        raise NotRun(f"{subject.label} has no other arm of its family in the plan to be compared with")
    hardest = max(comparisons, key=lambda c: (c.p_below(margin), c.p_above(0)))
    return [
        Statement(
            f"{subject.label} is within {wording.amount(evidence.metric, margin)} of "
            f"{'the best of its rivals' if len(rivals) > 1 else rivals[0].label}"
            f" (decided by {hardest.text()})",
            every(c.p_below(margin) for c in comparisons),
            some(c.p_above(margin) for c in comparisons),
            decisive=hardest,
            comparisons=tuple(comparisons),
        )
    ]


def equivalent(evidence: Evidence, asked: forms.Equivalent) -> list[Statement]:
    """EQ: any two arms of {arms: [...]} or {family: ...} differ by less than `margin` (TOST for every
    pair).
    """
    arms, margin = evidence.chosen(asked.among), asked.margin.known
    comparisons = [compare(a, b, evidence.metric) for a, b in combinations(arms, 2)]
    if not comparisons:
        raise NotRun("needs two arms to be compared; the plan has one")
    widest = max(comparisons, key=lambda c: (c.p_within(margin), c.label))
    names = ", ".join(arm.label for arm in arms)
    return [
        Statement(
            f"{names} differ by less than {wording.amount(evidence.metric, margin)} (decided by "
            f"{widest.text()})",
            every(c.p_within(margin) for c in comparisons),
            some(c.p_outside(margin) for c in comparisons),
            decisive=widest,
            comparisons=tuple(comparisons),
        )
    ]


def superior(evidence: Evidence, asked: forms.Superior) -> list[Statement]:
    """SUP: `better` beats `worse`: the two-sided 95 % interval excludes 0 and the mean difference is
    `margin` or more.

    Each is an arm, or {family: ...} or {arms: [...]}, whose mean within a seed is taken.
    """
    a, b = side(evidence, asked.worse), side(evidence, asked.better)
    comparison = compare(a, b, evidence.metric)
    return [_contrast(wording.beats(evidence.metric, b.label, a.label), comparison, asked.margin.known)]


def did(evidence: Evidence, asked: forms.DifferenceOfDifferences) -> list[Statement]:
    """DID: what `arm` loses against `against` is more in `larger` than in `smaller`, each {arm: ...,
    against: ...}.

    The two-sided 95 % interval of the difference of differences excludes 0, and its mean is `margin` or
    more.
    """
    pairs = (asked.larger, asked.smaller)
    a, b, c, d = (evidence.arm(name) for pair in pairs for name in (pair.arm, pair.against))
    text = f"{a.label} loses more against {b.label} than {c.label} against {d.label}"
    return [_contrast(text, interaction(a, b, c, d, evidence.metric), asked.margin.known)]


def trend(evidence: Evidence, asked: forms.Trend) -> list[Statement]:
    """TREND: the metric rises or falls along {arms: [...]} in that order, or along {family: ...} by x.

    page: Page's L over arms ranked within each seed. kendall: Kendall's tau over one value an arm, its
    mean over seeds, for four arms or more. Asked of the mean alone: that the ends differ by `margin` that
    way. Where two arms can't be ranked, as where both diverged for one seed, no test is made.
    """
    arms, margin = evidence.chosen(asked.along), asked.margin.known
    if len(arms) < (least := 3 if asked.test == "page" else 4):
        raise NotRun(f"a trend needs {least} arms; the plan has {len(arms)}")
    shared = sorted(set.intersection(*(set(arm.scores) for arm in arms)))
    rows = [[arm.scores[seed] for arm in arms] for seed in shared]
    ranked = all(compare(a, b, evidence.metric).ranked for a, b in combinations(arms, 2))
    ends = compare(arms[-1], arms[0], evidence.metric)
    height = -ends.estimate.mean if evidence.metric.higher_is_better else ends.estimate.mean
    up, down = (
        _p_trend([[sign * value for value in row] for row in rows], asked.test)
        if ranked and stats.at_least(sign * height, margin)
        else 1.0
        for sign in (1, -1)
    )
    rises = asked.direction == "rises"
    return [
        Statement(
            f"{evidence.metric.name} {asked.direction} from {arms[0].label} to {arms[-1].label} over "
            f"{len(arms)} arms ({ends.text()})",
            up if rises else down,
            down if rises else up,
            p_small=ends.p_within(margin),
            decisive=ends,
            comparisons=tuple(compare(arm, arms[0], evidence.metric) for arm in arms[1:]),
        )
    ]


def lr_range(evidence: Evidence, asked: forms.LearningRateRange) -> list[Statement]:
    """LRRANGE: in every tuning seed `wider` stands learning rates at least `half_decades` further than
    `narrower`.

    measure: max_stable, the highest stable rate, or width of the stable range (lab/verdict/lr_range.py).
    Exact by regrouping the seeds of both arms: 3 seeds an arm reach p = 1/20, 4 reach 1/70. No difference
    is called small where the grid ends first.
    """
    search, measure, tolerance = evidence.search, asked.measure, asked.tolerance
    if search is None or not {asked.wider, asked.narrower} <= search.losses.keys():
        raise NotRun("needs a search of learning rates for both arms")
    a, b, half_decades = evidence.arm(asked.wider), evidence.arm(asked.narrower), asked.half_decades
    one, other = (
        list(rates.measured(search, arm.name, measure, tolerance=tolerance).values()) for arm in (a, b)
    )
    further = round(min(x - y for x, y in zip(one, other, strict=True)), 1)  # -0.4 less -1.4 is not quite 1
    bound = [arm.label for arm in (a, b) if rates.is_bound(search, arm.name, measure, tolerance=tolerance)]
    small = [
        stats.p_shuffled([x + half_decades for x in high], low) for high, low in ((one, other), (other, one))
    ]
    shown = {"max_stable": "highest stable learning rate", "width": "width of the stable range"}[measure]
    listed = " against ".join(", ".join(f"{value / 2:.2f}" for value in values) for values in (one, other))
    hopeless = [arm.label for arm in (a, b) if rates.hopeless(search, arm.name)]
    if hopeless:
        failed = "diverged" if search.unigram_bpb is None else "learnt nothing"
        names = " and ".join(hopeless)
        listed += f"; {names} {failed} at every rate, which counts as half a decade below the lowest"
    return [
        Statement(
            f"the {shown} of {a.label} lies {half_decades:g} half decade{'s' * (half_decades != 1)} "
            "or more above that of "
            f"{b.label} in every tuning seed (decades: {listed})",
            stats.p_shuffled(one, other) if further >= half_decades else 1.0,
            stats.p_shuffled(other, one),
            p_small=1.0 if bound else max(small),
            could_find=f"a range wider in every tuning seed (at {len(one)} an arm p = "
            f"{stats.p_shuffled(range(1, len(one) + 1), [0] * len(one)):.3g} at best)"
            + (
                f"; no sameness, since the grid ends before the range of {' and '.join(bound)}"
                if bound
                else ""
            ),
        )
    ]


def below_line(evidence: Evidence, asked: forms.BelowLine) -> list[Statement]:
    """The mean bits per byte of `arm` lie below a reference line of the plan; skipped where the plan has
    no such line.

    A line counted on a part of the text is that line too: "2-gram" finds "2-gram on 20 M tokens".
    """
    subject = evidence.arm(asked.arm)
    line = next(
        (name for name in evidence.lines if name == asked.line or name.startswith(f"{asked.line} on ")),
        asked.line,
    )
    if line not in evidence.lines:
        return [
            Statement(
                f"{subject.label} below {line}: no such reference line for this corpus", 1.0, 1.0, known=False
            )
        ]
    bpb, sample = evidence.lines[line], list(subject.scores.values())
    diverged = f"; {subject.label} diverged" if subject.diverged else ""
    return [
        Statement(
            f"{subject.label} is below {line} ({stats.estimate(sample).mean:.3f} against {bpb:.3f} "
            f"bits per byte{diverged})",
            stats.p_less(sample, bpb),
            stats.p_greater(sample, bpb),
            decisive=Comparison(
                asked.arm,
                line,
                f"{subject.label} against {line}",
                evidence.metric,
                tuple(value / bpb - 1 for value in sample),
                (),
                True,
            ),
        )
    ]


def bounded(evidence: Evidence, asked: forms.Bounded) -> list[Statement]:
    """BOUND: the mean metric of one arm lies below a bound, or above one; a single sample, against a fixed
    number.
    """
    subject, metric, above = evidence.arm(asked.arm), evidence.metric, asked.above
    bound, sample = (asked.below if above is None else above) or 0.0, list(subject.scores.values())
    low, high = stats.p_less(sample, bound), stats.p_greater(sample, bound)
    side = "below" if above is None else "above"
    diverged = f"; {subject.label} diverged" if subject.diverged else ""
    off = tuple(value - bound for value in sample)
    return [
        Statement(
            f"{metric.name} of {subject.label} is {side} {bound:g} "
            f"({stats.estimate(sample).text(metric.unit)}{diverged})",
            low if above is None else high,
            high if above is None else low,
            decisive=Comparison(
                asked.arm,
                str(bound),
                f"{subject.label} against {bound:g}",
                replace(metric, relative=False),
                off,
                (),
                True,
            ),
        )
    ]


def exact(evidence: Evidence, asked: forms.Exact) -> list[Statement]:
    """EXACT: every check that results/exact.jsonl has of a claim holds to its tolerance; computed, not
    sampled.
    """
    lines = evidence.exact.get(asked.claim, [])
    if not lines:
        raise NotRun(f"results/exact.jsonl has no check of {asked.claim}; compute it first")
    failed = [line.check for line in lines if not line.holds]
    text = f"{len(lines) - len(failed)} of {len(lines)} exact checks of {asked.claim} hold"
    text += f" (not: {', '.join(failed)})" if failed else ""
    return [Statement(text, float(bool(failed)), float(not failed), statistical=False)]


def _contrast(text: str, comparison: Comparison, margin: float) -> Statement:
    """The statement that a difference is positive: two-sided test against 0, the margin asked of the mean."""
    mean = comparison.estimate.mean if comparison.ranked else 0.0
    return Statement(
        f"{text}, by {wording.amount(comparison.metric, margin)} or more in the mean ({comparison.text()})",
        min(1.0, 2 * comparison.p_above(0)) if stats.at_least(mean, margin) else 1.0,
        min(1.0, 2 * comparison.p_below(0)) if stats.at_least(-mean, margin) else 1.0,
        p_small=comparison.p_within(margin),
        decisive=comparison,
        comparisons=(comparison,),
        sides=2,
    )


def side(evidence: Evidence, asked: forms.Side) -> MeasuredArm:
    """One arm, or the mean of several. Raises NotRun where the plan has none of them."""
    arms = evidence.chosen(asked)
    if not arms:
        raise NotRun(f"the plan has no arm of family {asked.family}; optional arms join by --with NAME")
    label = asked.family or " and ".join(arm.label for arm in arms)
    return pooled(arms, f"the mean of {label}")


def _p_trend(rows: list[list[float]], test: str) -> float:
    if test == "page":
        return stats.p_trend(rows)
    return stats.p_concordant([sum(column) / len(column) for column in zip(*rows, strict=True)])


SEEDLESS = (forms.LearningRateRange, forms.Exact)  # judge no runs of the plan, so at any number of its seeds
TESTS: dict[type[forms.Part], Callable[..., list[Statement]]] = {
    forms.Superior: superior,
    forms.Equivalent: equivalent,
    forms.NonInferior: non_inferior,
    forms.Basin: basin,
    forms.Trend: trend,
    forms.DifferenceOfDifferences: did,
    forms.LearningRateRange: lr_range,
    forms.BelowLine: below_line,
    forms.Bounded: bounded,
    forms.Exact: exact,
}


def statements(evidence: Evidence, part: forms.Part) -> list[Statement]:
    """What one part of a predicate states of the evidence; its margin must be a number. Raises NotRun."""
    return TESTS[type(part)](evidence, part)
