"""The pages of an ablation, rebuilt from its plan and run records alone: report.html, REPORT.md, figures,
verdict.json; and the site, which holds the pages of all of them.

evidence + claims -> verdict    what holds
figures, skills, canvas         the pictures, as matplotlib figures
page                            the words and tables both forms show
html, markdown                  the two forms
static_site                     every published report in one folder
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.store.files import dumps, write_atomic
from lab.verdict.verdicts import verdict


@dataclass(frozen=True)
class Report:
    """What a report says before it takes a form: its verdict, its words and tables, and its figures as SVG
    documents by name.
    """

    verdict: dict[str, Any]
    content: dict[str, Any]
    figures: dict[str, bytes]


def build(
    plan: dict[str, Any], records: Sequence[dict[str, Any]], *, exact: Sequence[dict[str, Any]] = ()
) -> Report:
    """The report of `plan`. exact: lines of results/exact.jsonl. The same arguments give the same bytes."""
    from lab.report import canvas, figures
    from lab.report.page import page

    found = verdict(plan, records, exact=exact)
    drawn = figures.draw(plan, records)
    content = page(plan, records, found, list(drawn))
    return Report(found, content, {name: canvas.svg(figure) for name, figure in drawn.items()})


def write_record(report: Report, folder: Path) -> None:
    """Write what is committed of a report into `folder`: verdict.json, REPORT.md and its figures."""
    from lab.report import markdown

    write_figures(report, folder)
    write_atomic(folder / "verdict.json", dumps(report.verdict, indent=1) + "\n")
    write_atomic(folder / "REPORT.md", markdown.render(report.content))


def write_figures(report: Report, folder: Path) -> None:
    """Write the figures of a report to where its pages look for them, figures/NAME.svg."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for name, picture in report.figures.items():
        write_atomic(folder / "figures" / f"{name}.svg", picture)


def write(
    plan: dict[str, Any],
    records: Sequence[dict[str, Any]],
    folder: Path,
    *,
    exact: Sequence[dict[str, Any]] = (),
) -> Path:
    """Write the whole report of `plan` into `folder` and return the path of report.html.

    exact: lines of results/exact.jsonl.
    """
    from lab.report import html

    report = build(plan, records, exact=exact)
    write_record(report, folder)
    write_atomic(folder / "report.html", html.single_file(report.content, report.figures))
    return folder / "report.html"
