"""The ledger as a page: LEDGER.md, and ledger.html of the site, from the rows of lab/lecture/ledger.py.

Everything is plain text until a form escapes it; links go to files of the repository, by relative paths.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from lab.lecture.exact.measured_claim import MeasuredTable
from lab.lecture.finding import Finding
from lab.lecture.ledger import Ledger, LedgerRow
from lab.lecture.register import Paper
from lab.report import html
from lab.report.markdown import escape
from lab.store.exact_check import ExactCheck
from lab.store.files import write_atomic
from lab.verdict.outcomes import STATES

if TYPE_CHECKING:
    from lab.report.horizon_figures import EffectPanel

READING = (
    "The state speaks of what the lecture notes say, at the size and on the data named beside it. It is the "
    "outcome of a rule that was fixed before the numbers were seen.",
    "Computed claims are reproduced when every check holds and what the notes print is among what holds. "
    "Where only part of the notes' version holds, or none, the row says so and gives the form that does.",
    "A row that says several things holds where all of them that were tested hold; where its main statement "
    "alone fared otherwise, it says so.",
    "A trained claim reads with the direction of its effect over horizons: persists, fading, reversing or "
    "budget-bound. Sweeps of protocol 1 stand as they were published; they speak of the first 300 steps, and "
    "decide no state any more: such a claim is not run until a sweep by protocol 2 has judged it.",
    "Trained claims are judged over paired seeds; their pages have intervals, figures and what else differs "
    "between the arms. Several sizes and texts decide together where those that are decided agree, whatever "
    "others leave open; where they disagree the claim is inconclusive. Sweeps with overrides of their own, "
    "or on an earlier recipe of stories, are shown and decide where there are no others.",
    "The notes are three sets, 000, 001 and 003, on lecture 3 of Stanford's CS336 (2025). They are not "
    "published here, so each row says in its own words what they claim, with the section, and links the "
    "paper.",
    "Not measurable at this size: models that a CPU trains can't answer it, for the reason given. Not run: "
    "without a verdict so far; most of these have no ablation yet, and lab claims --todo lists those that "
    "have one.",
    "Core-minutes are minutes of one core in training steps; evaluation comes on top. The estimate is the "
    "number of runs times the median pace of the published ones, for a claim without an ablation by the plan "
    "in the register. One sweep may serve several claims; each shows all of it.",
)


PICTURE = "LEDGER.svg"
COLUMNS = ("claim", "state", "kind", "core-minutes: estimate", "spent", "evidence")
KINDS = {"exact": "computed", "init": "fresh models", "cost": "timed", "trained": "trained"}
PRINTED = {"holds": "as the notes print it", "fails": "against what the notes print", None: ""}


@dataclass(frozen=True)
class Link:
    """Where something stands, quoted for an address, and what to call it."""

    address: str
    text: str


@dataclass(frozen=True)
class CheckInWords:
    """One check of a computed claim."""

    holds: str
    check: str
    expected: str
    measured: str
    note: str


@dataclass(frozen=True)
class EvidenceInWords:
    """What one piece of evidence rests on, and where it stands."""

    outcome: str
    kind: str
    claim: str
    facts: str
    links: tuple[Link, ...]
    spent: str
    checks: tuple[CheckInWords, ...]
    parts: tuple[str, ...]
    table: MeasuredTable | None
    confounds: tuple[str, ...]


@dataclass(frozen=True)
class ClaimInWords:
    """One row of the ledger. What is not known, or goes without saying, is empty."""

    id: str
    state: str
    alone: str
    kind: str
    says: str
    notes: str
    source: str | None
    papers: tuple[Link, ...]
    why: str
    as_printed: str
    tests: str
    estimate: str
    spent: str
    evidence: tuple[EvidenceInWords, ...]


@dataclass(frozen=True)
class LedgerPage:
    """What both forms show: counts by state, what the picture of effects shows and whether there is one,
    sections of claims, and evidence beyond the register.
    """

    title: str
    question: str
    counts: dict[str, int]
    drawn: str
    pictured: bool
    sections: dict[str, list[ClaimInWords]]
    others: tuple[Finding, ...]
    reading: tuple[str, ...]
    columns: tuple[str, ...]


def write(ledger: Ledger, results: Path) -> Path:
    """Write LEDGER.md below `results`, with its picture, and return its path; the same ledger gives the same
    bytes.
    """
    write_atomic(results / "LEDGER.md", markdown(page(ledger)))
    if drawn := picture(ledger):
        write_atomic(results / PICTURE, drawn)
    return results / "LEDGER.md"


def picture(ledger: Ledger) -> bytes | None:
    """The effects of all claims that sweeps over horizons have judged, as one SVG; None before any."""
    from lab.report import canvas, horizon_figures

    with canvas.styled():
        figure = horizon_figures.of_ledger(courses(ledger))
        return canvas.svg(canvas.settled(figure)) if figure else None


def courses(ledger: Ledger) -> list[EffectPanel]:
    """The panels of the picture: of each row the sweep that its direction is told of."""
    from lab.report.horizon_figures import EffectPanel

    found = []
    for row in ledger.rows:
        own = [one for one in row.evidence if one.claim == row.id and one.course and one.decides]
        told = [one for one in own if (one.horizon, one.direction) == (row.horizon, row.direction)]
        if told and (course := told[0].course):
            said = row.outcome if course.name in row.outcome else f"{row.outcome}, {course.name}"
            margins = tuple(margin / 100 for margin in told[0].margins_percent)
            found.append(EffectPanel(row.id, said, course, margins))
    return found


def of_site(ledger: Ledger) -> str:
    """ledger.html, at the top of the site (lab/report/static_site.py); the same ledger gives the same
    text.
    """
    pictures = {"effects": PICTURE} if courses(ledger) else {}
    template = Path(__file__).with_name("ledger.html")
    return html.of_site(page(ledger), template=template, root="", pictures=pictures)


def page(ledger: Ledger) -> LedgerPage:
    """The ledger in words."""
    states = [row.state for row in ledger.rows]
    sections: dict[str, list[ClaimInWords]] = {}
    for row in ledger.rows:
        sections.setdefault(row.section, []).append(_claim(row))
    return LedgerPage(
        title="Ledger of claims",
        question=f"What holds of {len(ledger.rows)} claims of CS336 lecture 3?",
        counts={state: states.count(state) for state in STATES if state in states},
        drawn=_drawn(ledger),
        pictured=bool(courses(ledger)),
        sections=sections,
        others=ledger.beyond_register,
        reading=READING,
        columns=COLUMNS,
    )


def _drawn(ledger: Ledger) -> str:
    """What the picture shows, or why there is none."""
    count, trained = len(courses(ledger)), sum(row.kind == "trained" for row in ledger.rows)
    if not count:
        return f"None of the {trained} claims that need training has been judged over horizons so far."
    return (
        f"The effects of {count} of {trained} claims that need training, at each horizon, in percent; above "
        "0 the first side named is worse. The band is the 95 % interval, broken lines are the margin asked, "
        "and the hollow point on the right is where a line through the last three horizons leads. The others "
        "have not been judged over horizons so far."
    )


def _claim(row: LedgerRow) -> ClaimInWords:
    notable = row.as_printed in ("fails", "holds in part")
    tests = ""
    if row.statement is not None:
        predicted = f"{row.statement} Predicted: {row.prediction}"
        tests = f"under test in ablations/{row.ablation}.yaml: {predicted}"
    return ClaimInWords(
        id=row.id,
        state=row.outcome,
        alone=f"its main statement alone is {row.alone}" if row.alone else "",
        kind=KINDS[row.kind],
        says=row.says,
        notes=row.notes,
        source=row.source,
        papers=tuple(map(_paper, row.papers)),
        why=". ".join(filter(None, [row.corrected and row.corrected.rstrip("."), row.why.rstrip(".")])),
        as_printed=f"as the notes print it {row.as_printed}" if notable else "",
        tests=tests,
        estimate=_minutes(row.core_minutes.estimate),
        spent=_minutes(row.core_minutes.spent),
        evidence=tuple(map(_evidence, row.evidence)),
    )


def _evidence(found: Finding) -> EvidenceInWords:
    facts = [fact for fact in (found.n, found.size, found.data) if fact] + [*(found.conditions or ())]
    if found.trained:
        facts.append(f"{found.tokens}, protocol {found.protocol}")
    facts += [found.direction] if found.direction else []
    facts += [f"registered {found.registered[:10]}"] if found.registered else []
    facts += [f"which asked something else of {', '.join(found.outdated)}"] if found.outdated else []
    facts += [found.device] if found.device else []
    if found.commit:
        facts.append(f"commit {', '.join(commit[:7] for commit in found.commit.split(', '))}")
    if found.trained:
        files = [(f"{found.where}/REPORT.md", "report"), (f"{found.where}/runs.jsonl", "runs")]
    else:
        files = [(found.where, "record")]
    files += [(f"{found.where}/{figure}", Path(figure).stem) for figure in found.figures]
    return EvidenceInWords(
        outcome=found.outcome,
        kind=KINDS[found.kind],
        claim=found.claim,
        facts=", ".join(facts),
        links=tuple(Link(quote(path), text) for path, text in files),
        spent=_minutes(found.core_minutes),
        checks=tuple(map(_check, found.checks)),
        parts=tuple(
            f"{'holds' if part.holds else 'does not hold'}: {part.statement}" for part in found.parts
        ),
        table=found.table,
        confounds=found.confounds,
    )


def _check(check: ExactCheck) -> CheckInWords:
    return CheckInWords(
        holds="holds" if check.holds else "does not hold",
        check=check.check,
        expected=str(check.expected),
        measured=str(check.measured),
        note=". ".join(filter(None, [PRINTED[check.notes], check.note.rstrip(".")])),
    )


def _paper(paper: Paper) -> Link:
    on_arxiv = paper.where[0].isdigit()
    address = f"https://arxiv.org/abs/{paper.where}" if on_arxiv else f"https://{paper.where}"
    name = f"arXiv:{paper.where}" if on_arxiv else paper.where
    return Link(address, f"{paper.authors} {paper.year}, {name}")


def _minutes(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def markdown(content: LedgerPage) -> str:
    """LEDGER.md: a table a section, and below it what each decided claim rests on."""
    lines = [f"# {content.title}", "", escape(content.question), ""]
    lines += ["| state | claims |", "| --- | ---: |"]
    lines += [f"| {state} | {count} |" for state, count in content.counts.items()]
    lines += ["", *([f"![Effects over horizons]({PICTURE})", ""] if content.pictured else []), content.drawn]
    lines += [
        "",
        "`lab claims --write` makes this page from committed files; `make site` shows it in a browser.",
        "",
    ]
    for section, claims in content.sections.items():
        lines += [
            f"## {escape(section)}",
            "",
            "| claim | state | the notes say | source | core-minutes |",
            "| --- | --- | --- | --- | ---: |",
            *map(_table_row, claims),
            "",
        ]
        for claim in claims:
            lines += _details(claim) if claim.evidence else []
    if content.others:
        lines += ["## Beyond the register", "", *map(_other, content.others), ""]
    lines += ["## How to read this", "", *(f"- {escape(line)}" for line in content.reading), ""]
    return "\n".join(lines)


def _table_row(claim: ClaimInWords) -> str:
    papers = "; ".join(
        f"[{escape(link.text).replace('&#58;', ':')}]({link.address})" for link in claim.papers
    )
    differs = f"**Source:** {escape(claim.source)} " if claim.source else ""
    said = f"{escape(claim.says)} ({escape(claim.notes)})"
    spent = claim.spent or (f"about {claim.estimate} to run" if claim.estimate else "")
    name = f"[{claim.id}](#{claim.id})" if claim.evidence else claim.id
    state = "; ".join(filter(None, [claim.state, claim.alone, claim.as_printed]))
    return f"| {name} | {state} | {said} | {differs}{papers} | {spent} |"


def _other(found: Finding) -> str:
    where = f"[{escape(found.where)}]({quote(found.where)}/REPORT.md)"
    outcome = f"{found.outcome} ({escape(found.setting)})"
    return f"- {escape(found.claim)}: {outcome}. {escape(found.why)} {where}"


def _details(claim: ClaimInWords) -> list[str]:
    why = f" {escape(claim.why)}." if claim.why else ""
    printed = f" **{escape(claim.as_printed)}.**" if claim.as_printed else ""
    state = claim.state + (f"; {claim.alone}" if claim.alone else "")
    lines = [f"### {claim.id}", "", f"**{state}.**{why}{printed}", ""]
    lines += [f"{escape(claim.tests)}", ""] if claim.tests else []
    for found in claim.evidence:
        links = ", ".join(f"[{escape(link.text)}]({link.address})" for link in found.links)
        facts = f" {escape(found.facts)}." if found.facts else ""
        lines.append(f"- {escape(found.claim)}, {found.kind}: {found.outcome}.{facts} {links}")
        for check in found.checks:
            note = f" ({escape(check.note)})" if check.note else ""
            lines.append(f"  - {check.holds}: {escape(check.check)}: {escape(check.measured)}{note}")
        lines += [f"  - {escape(part)}" for part in found.parts]
        if found.parts:
            lines += [f"  - confound: {escape(confound)}" for confound in found.confounds]
    return [*lines, ""]
