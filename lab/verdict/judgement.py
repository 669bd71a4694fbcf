"""What do the looks at the evidence decide on each claim, and at which level?

The 5 % are those of a whole family of claims and of all looks together. Within a look Holm's levels,
separately for what is wrongly called reproduced, contradicted or too small; over looks
lab.verdict.stats.look_levels. A claim keeps the outcome of the first look that decided it. A claim without
`family` belongs with all others of its file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lab.store.claim import Claim
from lab.store.metric import SEARCHED
from lab.store.predicate_forms import Exact, Margin, Part, Trend, arms_of, families_of, margin_of
from lab.verdict import seed_noise, stats
from lab.verdict.comparison import Statement, every, some
from lab.verdict.course import direction_of, undecided
from lab.verdict.direction import Direction
from lab.verdict.evidence import Evidence, MeasuredArm
from lab.verdict.outcomes import CONTRADICTED, DECIDED, INCONCLUSIVE, NOT_RUN, REPRODUCED, SMALL
from lab.verdict.predicates import SEEDLESS, NotRun, statements
from lab.verdict.stats import ALPHA

Levels = tuple[float, float, float]


@dataclass(frozen=True)
class Hearing:
    """What the evidence has to say on a claim; without statements, the outcome is given with its reason.

    undecided: why the claim is inconclusive whatever its statements come to; empty where nothing is in the
    way.
    """

    statements: tuple[Statement, ...] = ()
    outcome: str = ""
    why: str = ""
    could_find: tuple[Statement, ...] = ()  # of the seeds at hand, where planned ones are missing
    direction: Direction | None = None
    undecided: str = ""

    @cached_property
    def known(self) -> list[Statement]:
        return [statement for statement in self.statements if statement.known]

    @cached_property
    def p_values(self) -> tuple[float, float, float]:
        """For: all statements are true, some is false, some difference is too small to matter."""
        small = [statement.p_small for statement in self.known if statement.p_small is not None]
        return (
            every(statement.p_true for statement in self.known),
            some(statement.p_false for statement in self.known),
            some(small or [1.0]),
        )


@dataclass(frozen=True)
class Judgement:
    """A claim's outcome, by which look and at which levels (of true, false, small) it was reached."""

    hearing: Hearing
    outcome: str
    levels: Levels
    seeds: int
    looks: tuple[int, ...] = ()  # those of the ablation; none for a claim that rests on no seeds of its runs


def judge(claims: Sequence[Claim], evidence: dict[str, Evidence], looks: Sequence[int]) -> list[Judgement]:
    """An outcome for each claim from the evidence by metric, looked at after so many seeds.

    Looks at more seeds than there are have not come yet. A family that rests on no seeds of the plan at
    all, as a search of learning rates does, is judged once; in another such a claim shares the levels of
    the looks with the rest.
    """
    found: dict[int, Judgement] = {}
    seedless = [_seedless(claim) for claim in claims]
    waiting = {claim.family for claim, alone in zip(claims, seedless, strict=True) if not alone}
    once = {i for i, c in enumerate(claims) if seedless[i] and (_exact(c) or c.family not in waiting)}
    hearings = {i: hear(claims[i], evidence[claims[i].metric]) for i in sorted(once)}
    for i, (outcome, levels) in _outcomes(claims, hearings, ALPHA).items():
        found[i] = Judgement(hearings[i], outcome, levels, _tuning_seeds(evidence, claims[i]))

    rest = [i for i in range(len(claims)) if i not in once]
    planned = min((len(evidence[claims[i].metric].seeds) for i in rest if not seedless[i]), default=0)
    for look, alpha in zip(looks, stats.look_levels(looks), strict=True):
        if look > planned:
            break
        hearings = {}
        for i in rest:
            of = evidence[claims[i].metric]
            hearings[i] = hear(claims[i], of if seedless[i] else of.only(of.seeds[:look]))
        for i, (outcome, levels) in _outcomes(claims, hearings, alpha).items():
            if i not in found or found[i].outcome in (INCONCLUSIVE, NOT_RUN):
                seeds = _tuning_seeds(evidence, claims[i]) if seedless[i] else look
                found[i] = Judgement(hearings[i], outcome, levels, seeds, tuple(looks))
    for i in (i for i in rest if i not in found):
        of = evidence[claims[i].metric]
        seeds, hearing = len(of.seeds), hear(claims[i], of)
        if hearing.outcome != NOT_RUN:
            why = f"the first look is at {looks[0]} seeds; the plan has {seeds}"
            hearing = Hearing(outcome=INCONCLUSIVE, why=why)
        found[i] = Judgement(hearing, hearing.outcome, (0.0, 0.0, 0.0), seeds, tuple(looks))
    return [found[i] for i in range(len(claims))]


def hear(claim: Claim, evidence: Evidence) -> Hearing:
    """The statements of a claim's predicate, or why none can be made."""
    try:
        arms = _arms(claim, evidence)
        incomplete = [arm for arm in arms if arm.missing]
        if incomplete:
            why = "; ".join(_incomplete(arm) for arm in incomplete)
            shared = [s for s in evidence.seeds if all(s in arm.scores for arm in arms)]
            could_find = _statements(claim, evidence.only(shared)) if len(shared) > 1 else ()
            return Hearing(outcome=INCONCLUSIVE, why=why, could_find=could_find)
        if arms and len(evidence.seeds) == 1 and not _speaks_for_one_seed(claim):
            return Hearing(outcome=INCONCLUSIVE, why="single run per arm: no interval, so no verdict")
        made = _statements(claim, evidence)
        going = direction_of(claim, evidence) if evidence.plan.protocol > 1 else None
        open_anyway = undecided(claim, evidence, going) or _rests_on_one_rate(claim, evidence, made)
        return Hearing(made, direction=going, undecided=open_anyway)
    except NotRun as reason:
        return Hearing(outcome=NOT_RUN, why=str(reason))


def outcome_of(hearing: Hearing, levels: Levels) -> str:
    """The outcome of a claim whose statements must all be true; statements the plan can't speak to are
    left out.
    """
    if not hearing.statements:
        return hearing.outcome
    if not hearing.known:
        return NOT_RUN
    if hearing.undecided:
        return INCONCLUSIVE
    for outcome, p_value, level in zip(
        (REPRODUCED, CONTRADICTED, SMALL), hearing.p_values, levels, strict=True
    ):
        if p_value <= level:
            return outcome
    return INCONCLUSIVE


def _outcomes(
    claims: Sequence[Claim], hearings: dict[int, Hearing], alpha: float
) -> dict[int, tuple[str, Levels]]:
    """Outcome and levels of each claim heard at one look; claims of a family share alpha."""
    families: dict[str, list[int]] = {}
    for i, hearing in hearings.items():
        if any(statement.statistical for statement in hearing.known):
            families.setdefault(claims[i].family or "", []).append(i)
    levels = dict.fromkeys(hearings, (alpha,) * 3)
    for members in families.values():
        held = zip(*(hearings[i].p_values for i in members), strict=True)
        shares = zip(*(stats.holm(p_values, alpha) for p_values in held), strict=True)
        levels |= dict(zip(members, shares, strict=True))
    return {i: (outcome_of(hearing, levels[i]), levels[i]) for i, hearing in hearings.items()}


def _statements(claim: Claim, evidence: Evidence) -> tuple[Statement, ...]:
    return tuple(
        statement
        for part in claim.predicate.parts
        for statement in statements(evidence, _with_margin(part, evidence))
    )


def _with_margin(part: Part, evidence: Evidence) -> Part:
    """The part with a margin in numbers. Raises NotRun where it refers to a noise that was not measured."""
    if (margin := margin_of(part)) is None or margin.number is not None:
        return part
    number = seed_noise.in_numbers(margin, evidence.noise, evidence.metric)
    if number is None:
        raise NotRun(
            f"its margin refers to the baseline's noise in {evidence.metric.name}; run lab noise first"
        )
    return replace(part, margin=Margin(number=number))  # type: ignore[arg-type]


def _rests_on_one_rate(claim: Claim, evidence: Evidence, made: tuple[Statement, ...]) -> str:
    """Why a claim on a metric of the search is open though its statements are decided: without one of the
    rates they would not be. Empty where none is needed alone, and under protocol 1.
    """
    search = evidence.search
    if search is None or not claim.metric.startswith(SEARCHED) or evidence.plan.protocol == 1:
        return ""
    whole = outcome_of(Hearing(made), (ALPHA,) * 3)
    for rate in search.values if whole in DECIDED else ():
        without = outcome_of(Hearing(_statements(claim, evidence.without_rate(rate))), (ALPHA,) * 3)
        if without != whole:
            return f"{whole} by the rate {rate:g} alone: without it the claim would be {without}"
    return ""


def _seedless(claim: Claim) -> bool:
    """Whether the claim rests on no seed that a look could add."""
    return claim.metric.startswith(SEARCHED) or all(
        isinstance(part, SEEDLESS) for part in claim.predicate.parts
    )


def _exact(claim: Claim) -> bool:
    return all(isinstance(part, Exact) for part in claim.predicate.parts)


def _tuning_seeds(evidence: dict[str, Evidence], claim: Claim) -> int:
    search = evidence[claim.metric].search
    return len(search.seeds) if search else 0


def _speaks_for_one_seed(claim: Claim) -> bool:
    return all(isinstance(part, Trend) and part.test == "kendall" for part in claim.predicate.parts)


def _arms(claim: Claim, evidence: Evidence) -> list[MeasuredArm]:
    """The arms whose runs a claim rests on. Raises NotRun where the plan lacks an arm or none of them has a
    result.
    """
    wanted, run = set(claim.needs), set(claim.needs)
    for part in claim.predicate.parts:
        named = arms_of(part)
        named |= {arm.name for family in families_of(part) for arm in evidence.family(family)}
        wanted |= named
        run |= set() if isinstance(part, SEEDLESS) else named
    absent = sorted(wanted - {arm.name for arm in evidence.arms})
    if absent:
        raise NotRun(f"the plan has no arm {', '.join(absent)}; optional arms join by --with NAME")
    arms = [evidence.arm(name) for name in sorted(run)]
    unknown = [arm.label for arm in arms if "finished" in [arm.states[seed] for seed in arm.missing]]
    if unknown:
        raise NotRun(f"runs of {', '.join(unknown)} have ended without {evidence.metric.name}")
    if arms and not any(arm.values or arm.diverged for arm in arms):
        raise NotRun("none of its runs has a result yet")
    return arms


def _incomplete(arm: MeasuredArm) -> str:
    states = list(arm.missing.values())
    counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    return f"{arm.label} lacks {len(states)} of {len(arm.states)} planned seeds ({counts})"
