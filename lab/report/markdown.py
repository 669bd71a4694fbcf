"""REPORT.md: the same report for reading in a repository, with its figures beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lab.report.cells import SortableTable
from lab.report.page import Page


def render(page: Page) -> str:
    """The Markdown of a page; every text is escaped, so none of it acts as markup."""
    lines = [f"# {escape(page.title)}", "", escape(page.question), ""]
    lines += [f"{escape(page.source)}. {escape(page.setting)}.", "", "## Verdict", ""]
    if page.summary:
        lines += [f"**{escape(page.learnt)}**", "", *_sortable(page.summary)]
    lines += [] if page.claims else [escape(page.no_claim), ""]
    for claim in page.claims:
        lines += [f"### {escape(claim.id)}: {escape(claim.outcome)}", "", escape(claim.statement), ""]
        lines += [f"**{escape(claim.why)}.**", ""]
        lines += _bullets([*claim.details, f"predicted: {claim.prediction}", f"source: {claim.source}"])
    for figure in page.figures:
        heading = escape(figure.heading)
        lines += [f"## {heading}", "", f"![{heading}](figures/{figure.name}.svg)", ""]
        lines += [escape(figure.caption), ""]
    lines += ["## Arms", "", *_sortable(page.arms)]
    for one in page.tables:
        lines += [f"## {escape(one.heading)}", "", escape(one.caption), "", *_sortable(one.table)]
    lines += ["## What confounds this", "", *_bullets([*page.confounds, *page.noise, *page.failures])]
    lines += ["## How to read this", "", *_bullets(page.reading)]
    lines += ["## Where it comes from", "", *_table(["field", "value"], page.provenance)]
    lines += ["## Run it again", "", f"    {_one_line(page.command)}", ""]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Text on one line that Markdown shows as it is: no markup, no HTML, no table cell of its own."""
    text = _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_{}\[\]|#~!])", r"\\\1", text)
    return re.sub(r"://", "&#58;//", text)


def _one_line(text: str) -> str:
    return " ".join(str(text).split())


def _bullets(lines: Sequence[str]) -> list[str]:
    return [*(f"- {escape(line)}" for line in lines), ""]


def _sortable(table: SortableTable) -> list[str]:
    return _table(table.header, [[cell.text for cell in row] for row in table.rows])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    listed = [
        [escape(name) for name in header],
        ["---"] * len(header),
        *([escape(cell) for cell in row] for row in rows),
    ]
    return ["| " + " | ".join(row) + " |" for row in listed] + [""]
