"""What is known of each claim of the lecture? One row a claim, joined from committed files alone.

    lab/lecture/register.py      what the notes say, and the source where it says otherwise
    lab/lecture/claim_test.py    the statement under test and its prediction, for trained claims
    lab/lecture/finding.py       what came out: checks, measurements and published sweeps

The same files give the same rows. Core-minutes are CPU seconds of one core over 60; an estimate stands beside
every trained claim before it runs (lab/lecture/core_minutes.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.lecture.claim_test import ClaimTest, tested
from lab.lecture.core_minutes import estimate, seconds_per_flop
from lab.lecture.finding import Finding, as_printed, computed, judged_sweeps, measured, of_checks, of_sweep
from lab.lecture.register import Paper, RegisteredClaim, register, sections
from lab.verdict.outcomes import BEYOND, CONTRADICTED, DECIDED, INCONCLUSIVE, NOT_RUN, REPRODUCED, SMALL


@dataclass(frozen=True)
class CoreMinutes:
    """What testing a claim takes at most, and what went into its evidence; None where nothing is known."""

    estimate: float | None
    spent: float | None


@dataclass(frozen=True)
class LedgerRow:
    """One claim of the register with what is known of it.

    The first fields are those of the register and of the ablation that tests the claim. state: one of STATES
    in lab/verdict/outcomes.py; alone: that of its main statement without its parts, where it is another.
    as_printed: whether what the notes print holds, of a computed claim. why: the state in words. Of a trained
    claim that sweeps decided or left open also the protocol and the tokens of the longest of them that came
    to that state, where its effect is going, and when its rules were registered.
    """

    id: str
    section: str
    says: str
    notes: str
    kind: str
    source: str | None
    beyond: str | None
    papers: tuple[Paper, ...]
    ablation: str | None
    statement: str | None
    prediction: str | None
    state: str
    alone: str | None
    as_printed: str | None
    why: str
    evidence: tuple[Finding, ...]
    core_minutes: CoreMinutes
    corrected: str | None = None
    protocol: int | None = None
    horizon: int | None = None
    direction: str | None = None
    registration: str | None = None

    @property
    def outcome(self) -> str:
        """The state with the direction of the effect, where one was found."""
        found = self.state in (REPRODUCED, CONTRADICTED) and self.direction
        return f"{self.state}, {self.direction}" if found else self.state


@dataclass(frozen=True)
class Ledger:
    """Every claim of the register in its order, and the evidence on claims that the register doesn't name.

    pace: CPU seconds of one core a FLOP, the median of the published runs; None before any was published.
    """

    rows: tuple[LedgerRow, ...]
    beyond_register: tuple[Finding, ...]
    pace: float | None


def load(results: Path) -> Ledger:
    """The ledger of a folder of results. Raises ConfigError naming a damaged file."""
    checks, sweeps, tests = computed(results), judged_sweeps(results), tested()
    findings = [of_checks(of) for of in checks.values()] + measured(results)
    swept = [finding for judged in sweeps for finding in of_sweep(judged)]
    findings += [finding for finding in swept if finding.outcome != NOT_RUN]
    pace = seconds_per_flop(record for judged in sweeps for record in judged.sweep.records)
    rows = [
        _row(claim, section.section, findings, tests.get(claim.id), pace)
        for section in sections()
        for claim in section.claims
    ]
    known = {name for claim in register() for name in claim.rests_on}
    return Ledger(tuple(rows), tuple(one for one in swept if one.claim not in known), pace)


def _row(
    claim: RegisteredClaim,
    section: str,
    findings: Sequence[Finding],
    test: ClaimTest | None,
    pace: float | None,
) -> LedgerRow:
    by_name = {name: [one for one in findings if one.claim == name] for name in claim.rests_on}
    exact = [one for of in by_name.values() for one in of if one.kind == "exact"]
    evidence = exact + [one for one in findings if one.kind != "exact" and one.claim in by_name]
    whole, alone = state(claim, evidence), state(replace(claim, parts=(), against=()), evidence)
    own = [one for one in evidence if one.claim == claim.id and claim.id not in one.outdated]
    sweeps = _deciding(own)
    agreeing = [one for one in sweeps if one.outcome == alone] or sweeps
    sweep = max(agreeing, key=lambda one: one.horizon or 0, default=None)
    return LedgerRow(
        id=claim.id,
        section=section,
        says=claim.says,
        notes=claim.notes,
        kind=claim.kind,
        source=claim.source,
        beyond=claim.beyond,
        papers=claim.papers,
        ablation=test.ablation if test else None,
        statement=test.statement if test else None,
        prediction=test.prediction if test else None,
        state=whole,
        alone=alone if alone != whole else None,
        as_printed=as_printed(check for one in exact if one.claim == claim.id for check in one.checks),
        why=_why(claim, evidence),
        evidence=tuple(evidence),
        core_minutes=CoreMinutes(estimate(claim, test, pace), _spent(evidence)),
        corrected=claim.corrected,
        protocol=sweep.protocol if sweep else None,
        horizon=sweep.horizon if sweep else None,
        direction=sweep.direction if sweep else None,
        registration=sweep.registered if sweep else None,
    )


def state(claim: RegisteredClaim, evidence: Sequence[Finding]) -> str:
    """The one state of a row from the outcomes of its evidence.

    The claim of its own id, and each of its parts that was tested, must all hold; one of `against` that holds
    contradicts it. Sweeps that were registered when the row, or their claim, asked something else have no
    say.
    """
    evidence = [one for one in evidence if claim.id not in one.outdated]
    own = _of_claim(claim.kind, [one for one in evidence if one.claim == claim.id])
    if not own:
        return BEYOND if claim.beyond else NOT_RUN
    outcomes = [*own]
    for name in claim.rests_on[1:]:
        told = [one for one in evidence if one.claim == name]
        kinds = [one.kind for one in told]
        found = _of_claim("trained" if "trained" in kinds else kinds[0], told) if told else []
        if name not in claim.against:
            outcomes += found
        elif found and set(found) == {REPRODUCED}:
            outcomes.append(CONTRADICTED)
    return next((o for o in (CONTRADICTED, INCONCLUSIVE, SMALL) if o in outcomes), REPRODUCED)


def _of_claim(kind: str, evidence: Sequence[Finding]) -> list[str]:
    """What became of one claim, as the outcomes that must all be good.

    Computed and measured parts must all hold, and a trained claim is not decided by its computed part alone.
    Sweeps of protocols before today's decide nothing, and of one size and text the one that trained longest.
    Those of other sizes and data decide where those that are decided agree; where they disagree the claim is
    open. Sweeps with conditions of their own (lab/verdict/evidence.py) count where there are no others: or
    else one more override would be one more chance.
    """
    sweeps = _agreed([one.outcome for one in _deciding(evidence)])
    parts = [one.outcome for one in evidence if not one.trained]
    if kind == "trained" or not any(one.kind == kind for one in evidence):
        return sweeps
    return parts + sweeps


def _deciding(evidence: Sequence[Finding]) -> list[Finding]:
    """The sweeps of a claim that have a say in what became of it."""
    trained = _furthest([one for one in evidence if one.trained and one.outcome != NOT_RUN])
    return [one for one in trained if not one.conditions] or trained


def _furthest(sweeps: Sequence[Finding]) -> list[Finding]:
    """Of each size and text the sweeps by today's protocol with the last horizon."""
    deciding = [one for one in sweeps if one.decides]
    last: dict[tuple[str | None, str | None], int] = {}
    for one in deciding:
        key = (one.size, one.data)
        last[key] = max(last.get(key, 0), one.horizon or 0)
    return [one for one in deciding if (one.horizon or 0) == last[one.size, one.data]]


def _agreed(outcomes: Sequence[str]) -> list[str]:
    """The one decided outcome of several sweeps, or that they leave the claim open; none without sweeps."""
    decided = {outcome for outcome in outcomes if outcome in DECIDED}
    if len(decided) == 1:
        return [*decided]
    return [INCONCLUSIVE] if outcomes else []


def _spent(evidence: Sequence[Finding]) -> float | None:
    """Core-minutes behind a row, a sweep that serves several of its claims once."""
    known = {one.where: one.core_minutes for one in evidence if one.core_minutes is not None}
    return round(sum(known.values()), 2) if known else None


def _why(claim: RegisteredClaim, evidence: Sequence[Finding]) -> str:
    """The evidence on the row's own claim, what became of its parts, or what is missing."""
    own = [
        f"{_led(one, claim.id)}: {one.why}" if one.trained else one.why
        for one in evidence
        if one.claim == claim.id
    ]
    if not own:
        return f"beyond small models on a CPU: {claim.beyond}" if claim.beyond else ""
    for name in claim.rests_on[1:]:
        ends = [f"{one.outcome} ({one.setting})" for one in evidence if one.claim == name]
        role = "Against it, where it holds, is" if name in claim.against else "Its part is"
        own += [f"{role} {name}, {', '.join(ends)}"] if ends else []
    return ". ".join(own)


def _led(found: Finding, row: str) -> str:
    """What a sweep found, as a sentence begins."""
    if row in found.outdated:
        return f"{found.setting}, was {found.outcome} when the row asked something else"
    if found.decides:
        return f"{found.setting}, is {found.outcome}"
    where = ", ".join([f"{found.size} on {found.data}", *(found.conditions or ())])
    return f"Protocol {found.protocol} found it {found.outcome} at {found.tokens}, {where}"
