"""The pages of an ablation, rebuilt from its plan and run records alone: report.html, REPORT.md, figures,
verdict.json; and the site, which holds the pages of all of them.

page            the words and tables both forms show: arm_table, spike_tables, cells, captions
answer          what a sweep says first, also in the terminal; rerun has the command that goes on
figures         the pictures on one canvas: horizon_figures, other_metrics, rates, side_by_side, skill_figures
html, markdown  the two forms
publication     what `lab publish` commits, and reading it again
static_site     every published report in one folder; docs_links: what the pages of docs/ point to there
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.config.strict import plain
from lab.store.files import dumps, write_atomic
from lab.verdict.evidence import Evidence
from lab.verdict.verdict_record import Verdict
from lab.verdict.verdicts import verdict

if TYPE_CHECKING:
    from lab.report.page import Page


@dataclass(frozen=True)
class Report:
    """What a report says before it takes a form: its verdict, its words and tables, and its figures as SVG
    documents by name.
    """

    verdict: Verdict
    page: Page
    figures: dict[str, bytes]


def build(evidence: Evidence) -> Report:
    """The report of a sweep from its evidence by bits per byte. The same evidence gives the same bytes."""
    from lab.report import canvas, figures
    from lab.report.page import page

    found, drawn = verdict(evidence), figures.draw(evidence)
    pictures = {name: canvas.svg(figure) for name, figure in drawn.items()}
    return Report(found, page(evidence, found, list(drawn)), pictures)


def write_record(report: Report, folder: Path) -> None:
    """Write what is committed of a report into `folder`: verdict.json, REPORT.md and its figures."""
    from lab.report import markdown

    write_figures(report, folder)
    write_atomic(folder / "verdict.json", dumps(plain(report.verdict), indent=1) + "\n")
    write_atomic(folder / "REPORT.md", markdown.render(report.page))


def write_figures(report: Report, folder: Path) -> None:
    """Write the figures of a report to where its pages look for them, figures/NAME.svg."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for name, picture in report.figures.items():
        write_atomic(folder / "figures" / f"{name}.svg", picture)


def write(report: Report, folder: Path) -> Path:
    """Write the whole report of a sweep into `folder` and return the path of report.html."""
    from lab.report import html

    write_record(report, folder)
    write_atomic(folder / "report.html", html.single_file(report.page, report.figures))
    return folder / "report.html"
