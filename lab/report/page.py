"""What does the report say? The words, tables and figures' captions that report.html and REPORT.md both show.

Everything is plain text here; each form escapes it in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.config.strict import plain
from lab.report import captions, spike_tables
from lab.report.answer import answer, table
from lab.report.arm_table import arm_table
from lab.report.cells import SortableTable
from lab.report.rerun import command
from lab.store.metric import named
from lab.verdict import seed_noise
from lab.verdict.evidence import METRIC, Evidence, conditions
from lab.verdict.standing import ranks
from lab.verdict.stats import ALPHA, in_percent
from lab.verdict.verdict_record import ClaimVerdict, PartVerdict, Triple, Verdict
from lab.verdict.verdicts import OPEN

NO_CLAIM = "No claim was fixed beforehand for this ablation: the table and figures stand for themselves."


@dataclass(frozen=True)
class ClaimCard:
    """A claim as the report shows it: what it says, what became of it and why, and the lines below that."""

    id: str
    outcome: str
    statement: str
    why: str
    details: tuple[str, ...]
    prediction: str
    source: str


@dataclass(frozen=True)
class CaptionedFigure:
    """A figure by its name, with what stands above and below it."""

    name: str
    heading: str
    caption: str


@dataclass(frozen=True)
class CaptionedTable:
    """A table with its heading and what is said of it."""

    heading: str
    caption: str
    table: SortableTable


@dataclass(frozen=True)
class Page:
    """The content of a report, from top to bottom.

    setting: size, text, device and seeds, in words. learnt, summary: the answer in two or three sentences and
    its table; none under protocol 1, whose pages stay as they were. tables: those besides the one of the
    arms. confounds, noise and failures are sentences on what else may be the cause. provenance: a field of
    the runs and the values it takes. command: what has to be typed to run it again.
    """

    title: str
    question: str
    source: str
    setting: str
    learnt: str
    summary: SortableTable | None
    claims: tuple[ClaimCard, ...]
    figures: tuple[CaptionedFigure, ...]
    arms: SortableTable
    tables: tuple[CaptionedTable, ...]
    confounds: tuple[str, ...]
    noise: tuple[str, ...]
    failures: tuple[str, ...]
    provenance: tuple[tuple[str, str], ...]
    command: str
    no_claim: str = NO_CLAIM
    reading: tuple[str, ...] = captions.READING


def page(evidence: Evidence, verdict: Verdict, figures: Sequence[str]) -> Page:
    """The content of a report from its evidence, the verdict on that, and the names of its figures."""
    plan = evidence.plan
    first = answer(evidence, verdict) if ranks(plan) else None
    apart = conditions(plan, evidence.run_records.values())
    seeds = f"{len(plan.seeds)} seeds an arm"
    return Page(
        title=plan.title,
        question=plan.question,
        source=plan.source,
        setting=", ".join([f"{plan.size} on {plan.data}", *apart, plan.device_kind, seeds]),
        learnt=first.learnt if first else "",
        summary=table(first) if first else None,
        claims=tuple(_card(claim) for claim in verdict.claims),
        figures=tuple(CaptionedFigure(name, *captions.CAPTIONS[name]) for name in figures),
        arms=arm_table(evidence, verdict),
        tables=_spike_tables(evidence) if plan.side_by_side else (),
        confounds=verdict.confounds,
        noise=tuple(_noise(evidence)),
        failures=tuple(_failures(evidence)),
        provenance=tuple(_provenance(evidence)),
        command=command(plan),
    )


def _card(claim: ClaimVerdict) -> ClaimCard:
    return ClaimCard(
        claim.id,
        claim.outcome,
        claim.statement,
        claim.why,
        tuple(_details(claim)),
        claim.prediction,
        claim.source,
    )


def _details(claim: ClaimVerdict) -> list[str]:
    """The lines under a claim's sentence: parts, intervals, and what could have been found."""
    lines = [f"{part.answer}: {part.statement}" for part in claim.parts if part.statement not in claim.why]
    if same := claim.same_lr:
        look = f" (the look at {same.seeds} of {same.looks[-1]} seeds)" if len(same.looks) > 1 else ""
        lines.append(f"at one rate of {same.lr:g} for all arms: {same.outcome}{look}; {same.why}")
    if levels := claim.levels:
        lines += [_open(part, levels) for part in claim.parts if part.answer == OPEN]
    if claim.detectable is not None:
        lines.append(f"smallest effect that {claim.seeds} seeds find with 80 % power: {claim.detectable}")
    if levels and levels.true < ALPHA:
        many = len(claim.looks) > 1
        look = f", at the look at {claim.seeds} of {claim.looks[-1]} seeds" if many else ""
        share, whole = in_percent(levels.true), in_percent(ALPHA)
        lines.append(f"judged at {share}, its share of the {whole} of its family{look}")
    return lines


def _open(part: PartVerdict, levels: Triple) -> str:
    """Why a statement is open: its p values, corrected for all pairs and parts, and what they would have
    to be.
    """
    found = part.p_values
    asked = (
        [
            ("holds", found.true, levels.true),
            ("fails", found.false, levels.false),
            ("is too small to matter", found.small, levels.small),
        ]
        if found
        else []
    )
    told = [
        f"that it {answer} p = {value:.2g}, {level:.2g} needed"
        for answer, value, level in asked
        if value is not None
    ]
    statement = part.statement.partition(" (")[0]
    return f"open after correction for all pairs and parts ({'; '.join(told)}): {statement}"


def _noise(evidence: Evidence) -> list[str]:
    """What was measured beforehand of the metrics that are judged, where its runs are like the plan's."""
    if evidence.noise is None:
        return []
    names = dict.fromkeys([METRIC, *(claim.metric for claim in evidence.plan.claims)])
    found = [seed_noise.sentence(evidence.noise, named(name)) for name in names]
    return [f"Measured by lab noise: {text}" for text in found if text is not None]


def _spike_tables(evidence: Evidence) -> tuple[CaptionedTable, ...]:
    """The spikes by arm, and the largest one by one."""
    return (
        CaptionedTable("Spikes by arm", captions.BY_ARM, spike_tables.by_arm(evidence)),
        CaptionedTable("The largest spikes", captions.ONE_BY_ONE, spike_tables.one_by_one(evidence)),
    )


def _failures(evidence: Evidence) -> list[str]:
    """Runs that ended badly, with the reason they gave, an arm a sentence."""
    ended = {
        arm.label: [
            f"seed {seed} ({record.run_id}) {record.state}: {record.summary.reason}"
            for seed, record in arm.records.items()
            if record.summary and record.state != "finished"
        ]
        for arm in evidence.arms
    }
    return [f"{label}: {'; '.join(runs)}" for label, runs in ended.items() if runs]


def _provenance(evidence: Evidence) -> list[tuple[str, str]]:
    """Every field of the runs' provenance with the values it takes; many values as their first and last."""
    found: dict[str, set[str]] = {}
    for arm in evidence.arms:
        for record in arm.records.values():
            for field, value in plain(record.provenance).items():
                found.setdefault(field, set()).add(str(value))
    return [(field, _listed(sorted(values))) for field, values in sorted(found.items())]


def _listed(values: Sequence[str]) -> str:
    return f"{values[0]} to {values[-1]}" if len(values) > 2 else ", ".join(values)
