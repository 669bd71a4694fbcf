"""What was found out about a claim? Everything that is known, from committed files alone.

results/exact.jsonl               checks of computed claims            (lab/lecture/exact/verify.py)
results/measured/*.json           claims on fresh models and on time   (lab/lecture/exact/measuring.py)
results/<ablation>/<setting>/     published sweeps: verdict.json, plan.json, runs.jsonl
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.config.strict import absent
from lab.lecture.claim_test import tested
from lab.lecture.exact import measured_claim
from lab.lecture.exact.measured_claim import MeasuredClaim, MeasuredPart, MeasuredTable
from lab.lecture.register import register
from lab.report.publication import PublishedSweep, published_folders, published_sweep
from lab.store import exact_check, registration
from lab.store.exact_check import ExactCheck
from lab.store.identity import PROTOCOL
from lab.store.plan_record import PlanRecord
from lab.store.registration import Registration
from lab.verdict import verdict_record
from lab.verdict.direction import Direction
from lab.verdict.evidence import conditions
from lab.verdict.outcomes import CONTRADICTED, REPRODUCED
from lab.verdict.verdict_record import Verdict


@dataclass(frozen=True)
class Finding:
    """One piece of evidence on a claim: what became of it there, why, and what that rests on.

    kind: one of lab/lecture/register.py. where: the file or folder below results. n: how often it was
    measured, in words. commit: of the code, several where runs differ. figures: files below `where`. What is
    None or empty is not known of that kind. checks: of computed claims. parts, table: of measured ones.
    conditions: what sets a sweep apart from others of its size and data, None where there was no sweep. Of a
    sweep also the protocol that judged it, the tokens that it speaks of, where its effect is going, when its
    rules were registered, in `outdated` the rows of the ledger that asked something else then, and the
    effect at its horizons with the margins asked.
    """

    claim: str
    kind: str
    outcome: str
    why: str
    where: str
    n: str | None = None
    size: str | None = None
    data: str | None = None
    device: str | None = None
    commit: str | None = None
    figures: tuple[str, ...] = ()
    confounds: tuple[str, ...] = ()
    core_minutes: float | None = None
    checks: tuple[ExactCheck, ...] = absent(())
    parts: tuple[MeasuredPart, ...] = absent(())
    table: MeasuredTable | None = absent(None)
    conditions: tuple[str, ...] | None = absent(None)
    protocol: int | None = absent(None)
    horizon: int | None = absent(None)
    direction: str | None = absent(None)
    registered: str | None = absent(None)
    outdated: tuple[str, ...] = absent(())
    course: Direction | None = absent(None)
    margins_percent: tuple[float, ...] = absent(())

    @property
    def decides(self) -> bool:
        """Whether it has a say in the state of a row: sweeps of earlier protocols are records alone."""
        return not self.trained or self.protocol == PROTOCOL

    @property
    def trained(self) -> bool:
        return self.kind == "trained"

    @property
    def tokens(self) -> str:
        """How many a sweep speaks of, in words."""
        return f"{(self.horizon or 0) / 1e6:.1f} M tokens"

    @property
    def setting(self) -> str:
        """What was trained on what, in words; of what was not trained, its kind."""
        if not self.trained:
            return self.kind
        spoken_of = self.tokens + ("" if self.protocol == PROTOCOL else f", protocol {self.protocol}")
        return ", ".join([f"{self.size} on {self.data}", spoken_of, *(self.conditions or ())])


@dataclass(frozen=True)
class JudgedSweep:
    """A published sweep with the verdict that stands beside it."""

    sweep: PublishedSweep
    verdict: Verdict


def judged_sweeps(results: Path) -> list[JudgedSweep]:
    """Every published sweep that has a verdict, by folder. Raises ConfigError naming a damaged file."""
    return [
        JudgedSweep(published_sweep(folder), verdict_record.load(folder / "verdict.json"))
        for folder in published_folders(results)
        if folder.parent.name not in ("runs", "sweeps") and (folder / "verdict.json").exists()
    ]


def computed(results: Path) -> dict[str, list[ExactCheck]]:
    """Claim id -> its checks, of every claim that was computed."""
    found: dict[str, list[ExactCheck]] = {}
    for check in exact_check.load(results):
        found.setdefault(check.claim, []).append(check)
    return found


def of_checks(checks: Sequence[ExactCheck]) -> Finding:
    """The checks of one claim: contradicted where one fails, or where all that the notes print does."""
    holding = sum(check.holds for check in checks)
    refuted = [check for check in checks if check.notes == "fails"]
    why = f"{holding} of {len(checks)} checks hold"
    if refuted:
        told = "; ".join(f"{check.check} ({check.measured})" for check in refuted)
        why += f"; against what the notes print: {told}"
    bad = holding < len(checks) or as_printed(checks) == "fails"
    return Finding(
        claim=checks[0].claim,
        kind="exact",
        outcome=CONTRADICTED if bad else REPRODUCED,
        why=why,
        where="exact.jsonl",
        checks=tuple(checks),
    )


def as_printed(checks: Iterable[ExactCheck]) -> str | None:
    """Whether what the notes print "holds", "fails" or "holds in part"; None where no check is about it."""
    answers = {check.notes for check in checks} - {None}
    return "holds in part" if len(answers) == 2 else next(iter(answers), None)


def measured(results: Path) -> list[Finding]:
    """The claims on fresh models and on time that were measured."""
    return [_of_measured(name, record) for name, record in measured_claim.load_all(results).items()]


def _of_measured(name: str, record: MeasuredClaim) -> Finding:
    failing = [part.statement for part in record.parts if not part.holds]
    texts = failing or [part.statement for part in record.parts]
    return Finding(
        claim=record.claim,
        kind=record.kind,
        outcome=record.outcome,
        why=("does not hold: " if failing else "") + "; ".join(texts),
        where=f"measured/{name}",
        n=record.n,
        size=record.size,
        data="random tokens",
        device=record.provenance.device,
        commit=record.provenance.commit,
        confounds=record.confounds,
        core_minutes=record.core_minutes,
        parts=record.parts,
        table=record.table,
    )


def of_sweep(judged: JudgedSweep) -> list[Finding]:
    """The claims of a published sweep."""
    folder, plan, records = judged.sweep.folder, judged.sweep.plan, judged.sweep.records
    seconds = sum(record.summary.seconds or 0.0 for record in records if record.summary)
    devices = sorted({record.provenance.device for record in records})
    commits = sorted({str(record.provenance.commit) for record in records})
    figures = sorted(path.name for path in (folder / "figures").glob("*.svg"))
    rules = registration.load(folder)
    return [
        Finding(
            claim=claim.id,
            kind="trained",
            outcome=claim.outcome,
            why=claim.why,
            where=f"{folder.parent.name}/{folder.name}",
            n=f"{claim.seeds} {'' if claim.looks else 'tuning '}seeds",
            size=plan.size,
            data=plan.data,
            device=", ".join(devices),
            commit=", ".join(commits),
            figures=tuple(f"figures/{name}" for name in figures),
            confounds=judged.verdict.confounds,
            core_minutes=round(seconds / 60, 2),
            conditions=tuple(conditions(plan, records)),
            protocol=plan.protocol,
            horizon=plan.baseline.tokens,
            direction=claim.direction.name if claim.direction else None,
            registered=rules.date if rules else None,
            outdated=_outdated(claim.id, plan, rules),
            course=claim.direction,
            margins_percent=claim.margins_percent,
        )
        for claim in judged.verdict.claims
    ]


def _outdated(claim: str, plan: PlanRecord, rules: Registration | None) -> tuple[str, ...]:
    """The rows that rest on a claim of a sweep, and don't ask what they did when the sweep was registered;
    none under protocol 1, which decides nothing.
    """
    rows = [row for row in register() if claim in row.rests_on and plan.protocol == PROTOCOL]
    test = tested().get(claim)
    of_file = test.digest if test and test.ablation == plan.ablation else None
    if rules is None or (of_file and rules.claims.get(claim) != of_file):
        return tuple(row.id for row in rows)
    return tuple(row.id for row in rows if rules.rows.get(row.id) != registration.digest(row.asks))
