"""The ledger as a page: LEDGER.md and ledger.html from the rows of lab/lecture/ledger.py.

Everything is plain text until a form escapes it; links go to files of the repository, by relative paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lab.report import html
from lab.report.markdown import escape
from lab.store.files import write_atomic
from lab.verdict.outcomes import STATES

READING = (
    "The state speaks of what the lecture notes say, at the size and on the data named beside it. It is the outcome of a rule "
    "that was fixed before the numbers were seen.",
    "Computed claims are reproduced when every check holds and what the notes print is among what holds. Where only part of "
    "the notes' version holds, or none, the row says so and gives the form that does.",
    "A row that says several things holds where all of them that were tested hold; where its main statement alone fared otherwise, "
    "it says so.",
    "Trained claims are judged over paired seeds; their pages have intervals, figures and what else differs between the arms. Several "
    "sizes and texts decide together where those that are decided agree, whatever others leave open; where they disagree the claim "
    "is inconclusive. Sweeps with overrides of their own, or on an earlier recipe of stories, are shown and decide where there are no others.",
    "The notes are three sets, 000, 001 and 003, on lecture 3 of Stanford's CS336 (2025). They are not published here, so each row "
    "says in its own words what they claim, with the section, and links the paper.",
    "Not measurable at this size: models that a CPU trains can't answer it, for the reason given. Not run: without a verdict so far; "
    "most of these have no ablation yet, and lab claims --todo lists those that have one.",
    "Core-minutes are minutes of one core in training steps; evaluation comes on top. The estimate is the number of runs times the median pace of the published ones, for "
    "a claim without an ablation by the plan in the register. One sweep may serve several claims; each shows all of it.",
)


def write(rows: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]], results: Path) -> list[Path]:
    """Write LEDGER.md and ledger.html below `results`; the same rows give the same bytes."""
    content = page(rows, others)
    paths = [results / "LEDGER.md", results / "ledger.html"]
    write_atomic(paths[0], markdown(content))
    write_atomic(paths[1], html.render(content, {}, template=Path(__file__).with_name("ledger.html")))
    return paths


def page(rows: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What both forms show: counts by state, sections of claims, and claims beyond the register."""
    counts = {state: sum(row["state"] == state for row in rows) for state in STATES}
    sections: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        sections.setdefault(row["section"], []).append(claim(row))
    return {
        "title": "Ledger of claims",
        "question": f"What holds of {len(rows)} claims of CS336 lecture 3?",
        "counts": {state: count for state, count in counts.items() if count},
        "sections": sections,
        "others": [
            {"id": item["claim"], "outcome": item["outcome"], "why": item["why"], "where": item["where"]}
            for item in others
        ],
        "reading": READING,
        "columns": ["claim", "state", "kind", "core-minutes: estimate", "spent", "evidence"],
    }


KINDS = {"exact": "computed", "init": "fresh models", "cost": "timed", "trained": "trained"}


def claim(row: dict[str, Any]) -> dict[str, Any]:
    """One row in words."""
    minutes = row["core_minutes"]
    return {
        "id": row["id"],
        "state": row["state"],
        "alone": f"its main statement alone is {row['alone']}" if row["alone"] else "",
        "kind": KINDS[row["kind"]],
        "says": row["says"],
        "notes": row["notes"],
        "source": row["source"],
        "papers": [_paper(paper) for paper in row["papers"]],
        "why": row["why"].rstrip("."),
        "as_printed": f"as the notes print it {row['as_printed']}"
        if row["as_printed"] in ("fails", "holds in part")
        else "",
        "tests": _tests(row),
        "estimate": _minutes(minutes["estimate"]),
        "spent": _minutes(minutes["spent"]),
        "evidence": [_evidence(item) for item in row["evidence"]],
    }


def _tests(row: dict[str, Any]) -> str:
    if row["statement"] is None:
        return ""
    return (
        f"under test in ablations/{row['ablation']}.yaml: {row['statement']} Predicted: {row['prediction']}"
    )


def _evidence(item: dict[str, Any]) -> dict[str, Any]:
    """What one piece of evidence rests on, and where it stands."""
    facts = [item[key] for key in ("n", "size", "data") if item[key]] + item.get("conditions", [])
    facts += [item["device"]] if item["device"] else []
    if item["commit"]:
        facts.append(f"commit {', '.join(commit[:7] for commit in item['commit'].split(', '))}")
    report = f"{item['where']}/REPORT.md" if item["kind"] == "trained" else item["where"]
    runs = [(f"{item['where']}/runs.jsonl", "runs")] if item["kind"] == "trained" else []
    return {
        "outcome": item["outcome"],
        "kind": KINDS[item["kind"]],
        "claim": item["claim"],
        "facts": ", ".join(facts),
        "links": [
            (quote(path), text)
            for path, text in (
                (report, "report" if item["kind"] == "trained" else "record"),
                *runs,
                *((f"{item['where']}/{figure}", Path(figure).stem) for figure in item["figures"]),
            )
        ],
        "spent": _minutes(item["core_minutes"]),
        "checks": [_check(check) for check in item.get("checks", ())],
        "parts": [
            f"{'holds' if part['holds'] else 'does not hold'}: {part['statement']}"
            for part in item.get("parts", ())
        ],
        "table": item.get("table"),
        "confounds": item["confounds"],
    }


def _check(check: dict[str, Any]) -> dict[str, str]:
    about = {"holds": "as the notes print it", "fails": "against what the notes print", None: ""}[
        check["notes"]
    ]
    return {
        "holds": "holds" if check["holds"] else "does not hold",
        "check": check["check"],
        "expected": str(check["expected"]),
        "measured": str(check["measured"]),
        "note": ". ".join(filter(None, [about, check["note"].rstrip(".")])),
    }


def _paper(paper: dict[str, Any]) -> tuple[str, str]:
    """(text, address)."""
    where = paper["where"]
    address = f"https://arxiv.org/abs/{where}" if where[0].isdigit() else f"https://{where}"
    name = f"arXiv:{where}" if where[0].isdigit() else where
    return f"{paper['authors']} {paper['year']}, {name}", address


def _minutes(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def markdown(content: dict[str, Any]) -> str:
    """LEDGER.md: a table a section, and below it what each decided claim rests on."""
    lines = [f"# {content['title']}", "", escape(content["question"]), ""]
    lines += ["| state | claims |", "| --- | ---: |"]
    lines += [f"| {state} | {count} |" for state, count in content["counts"].items()]
    lines += [
        "",
        "`lab claims --write` makes this page from committed files. [The same in a browser](ledger.html).",
        "",
    ]
    for section, claims in content["sections"].items():
        lines += [
            f"## {escape(section)}",
            "",
            "| claim | state | the notes say | source | core-minutes |",
            "| --- | --- | --- | --- | ---: |",
        ]
        for one in claims:
            papers = "; ".join(
                f"[{escape(text).replace('&#58;', ':')}]({address})" for text, address in one["papers"]
            )
            differs = f"**Source:** {escape(one['source'])} " if one["source"] else ""
            said = f"{escape(one['says'])} ({escape(one['notes'])})"
            spent = one["spent"] or (f"about {one['estimate']} to run" if one["estimate"] else "")
            name = f"[{one['id']}](#{one['id']})" if one["evidence"] else one["id"]
            printed = f"; {one['as_printed']}" if one["as_printed"] else ""
            alone = f"; {one['alone']}" if one["alone"] else ""
            lines.append(
                f"| {name} | {one['state']}{alone}{printed} | {said} | {differs}{papers} | {spent} |"
            )
        lines.append("")
        for one in (one for one in claims if one["evidence"]):
            lines += _details(one)
    if content["others"]:
        lines += ["## Beyond the register", ""]
        lines += [
            f"- {escape(o['id'])}: {o['outcome']}. {escape(o['why'])} [{escape(o['where'])}]({quote(o['where'])}/REPORT.md)"
            for o in content["others"]
        ]
        lines.append("")
    lines += ["## How to read this", "", *(f"- {escape(line)}" for line in content["reading"]), ""]
    return "\n".join(lines)


def _details(one: dict[str, Any]) -> list[str]:
    why = f" {escape(one['why'])}." if one["why"] else ""
    printed = f" **{escape(one['as_printed'])}.**" if one["as_printed"] else ""
    state = one["state"] + (f"; {one['alone']}" if one["alone"] else "")
    lines = [f"### {one['id']}", "", f"**{state}.**{why}{printed}", ""]
    lines += [f"{escape(one['tests'])}", ""] if one["tests"] else []
    for item in one["evidence"]:
        links = ", ".join(f"[{escape(text)}]({path})" for path, text in item["links"])
        facts = f" {escape(item['facts'])}." if item["facts"] else ""
        lines.append(f"- {escape(item['claim'])}, {item['kind']}: {item['outcome']}.{facts} {links}")
        lines += [
            f"  - {check['holds']}: {escape(check['check'])}: {escape(check['measured'])}"
            + (f" ({escape(check['note'])})" if check["note"] else "")
            for check in item["checks"]
        ]
        lines += [f"  - {escape(part)}" for part in item["parts"]]
        lines += (
            [f"  - confound: {escape(confound)}" for confound in item["confounds"]] if item["parts"] else []
        )
    return [*lines, ""]
