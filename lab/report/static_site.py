"""All published reports as one site: a folder of pages that share one style and one script and link each
other by relative addresses, so that it opens from disk and from any web server.

    reports.html, report.css, report.js           the list of reports
    ledger.html                                   given by whoever knows the ledger
    <ablation>/<setting>/report.html, figures/    as below results/, rebuilt from the committed lines
    <ablation>/<setting>/runs.jsonl               those lines, and exact.jsonl and measured/, which pages link

Where MkDocs has put the pages of docs/ there before (mkdocs.yml), the list links their first one, index.html.
The same results give the same bytes.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lab.report import build, html, write_figures
from lab.report.publication import published_folders, published_sweep
from lab.store.files import write_atomic


@dataclass(frozen=True)
class Entry:
    """A report as reports.html lists it: its address relative to that page, and its claims' outcomes."""

    address: str
    title: str
    question: str
    setting: str
    outcomes: str


@dataclass(frozen=True)
class SiteIndex:
    """What reports.html shows; docs: whether the pages of docs/ stand beside it."""

    entries: Sequence[Entry]
    docs: bool
    title: str = "Ablations of small language models"
    question: str = "Which design choices matter, and by how much?"
    columns: Sequence[str] = ("ablation", "question", "size and text", "claims")


def write_reports(results: Path, site: Path) -> Iterator[Entry]:
    """Write the page of every published report, its figures and lines; yields its line of the list."""
    for folder in published_folders(results):
        report = build(published_sweep(folder).evidence(results))
        place = folder.relative_to(results)
        write_figures(report, site / place)
        pictures = {name: f"figures/{name}.svg" for name in report.figures}
        root, template = "../" * len(place.parts), html.FOLDER / "report.html"
        page = html.of_site(report.page, template=template, root=root, pictures=pictures)
        write_atomic(site / place / "report.html", page)
        shutil.copyfile(folder / "runs.jsonl", site / place / "runs.jsonl")
        counts = Counter(claim.outcome for claim in report.page.claims)
        yield Entry(
            address=quote(f"{place.as_posix()}/report.html"),
            title=report.page.title,
            question=report.page.question,
            setting=report.page.setting,
            outcomes=", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())),
        )


def write_frame(results: Path, site: Path, *, entries: Sequence[Entry], ledger: str) -> None:
    """Write what holds the reports together: the list of `entries`, the page of the ledger, style and
    script, and the records that the ledger links.
    """
    site.mkdir(parents=True, exist_ok=True)
    index = SiteIndex(entries, docs=(site / "index.html").exists())
    reports = html.of_site(index, template=html.FOLDER / "reports.html", root="")
    for name, page in (("reports.html", reports), ("ledger.html", ledger)):
        write_atomic(site / name, page)
    for name in html.ASSETS:
        shutil.copyfile(html.FOLDER / name, site / name)
    for record in (*results.glob("exact.jsonl"), *results.glob("measured/*.json")):
        target = site / record.relative_to(results)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(record, target)
