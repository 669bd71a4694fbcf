"""All published reports as one site: a folder of pages that share one style and one script and link each
other by relative addresses, so that it opens from disk and from any web server.

    index.html, report.css, report.js
    ledger.html                                   given by whoever knows the ledger
    <ablation>/<setting>/report.html, figures/    as below results/, rebuilt from the committed lines
    <ablation>/<setting>/runs.jsonl               those lines, and exact.jsonl and measured/, which pages link

The same results give the same bytes.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lab.report import build, html, write_figures
from lab.report.publication import published_folders
from lab.store.files import read_lines, write_atomic
from lab.verdict.evidence import exact_lines


@dataclass(frozen=True)
class Entry:
    """A report as the index lists it: its address relative to the index, and the outcomes of its claims."""

    address: str
    title: str
    question: str
    setting: str
    outcomes: str


@dataclass(frozen=True)
class Index:
    """What index.html shows."""

    entries: Sequence[Entry]
    title: str = "Ablations of small language models"
    question: str = "Which design choices matter, and by how much?"
    columns: Sequence[str] = ("ablation", "question", "size and text", "claims")


def write_reports(results: Path, site: Path) -> Iterator[Entry]:
    """Write the page of every report published in `results`, with its figures and lines; one after the other."""
    exact = exact_lines(results)
    for folder in published_folders(results):
        plan = json.loads((folder / "plan.json").read_text())
        report = build(plan, list(read_lines(folder / "runs.jsonl")), exact=exact)
        place = folder.relative_to(results)
        write_figures(report, site / place)
        pictures = {name: f"figures/{name}.svg" for name in report.figures}
        root, template = "../" * len(place.parts), html.FOLDER / "report.html"
        page = html.of_site(report.content, template=template, root=root, pictures=pictures)
        write_atomic(site / place / "report.html", page)
        shutil.copyfile(folder / "runs.jsonl", site / place / "runs.jsonl")
        counts = Counter(claim["outcome"] for claim in report.content["claims"])
        yield Entry(
            address=quote(f"{place.as_posix()}/report.html"),
            title=report.content["title"],
            question=report.content["question"],
            setting=report.content["setting"],
            outcomes=", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())),
        )


def write_frame(results: Path, site: Path, *, entries: Sequence[Entry], ledger: str) -> None:
    """Write what holds the reports together: the index of `entries`, the page of the ledger, style and
    script, and the records that the ledger links.
    """
    site.mkdir(parents=True, exist_ok=True)
    index = html.of_site(Index(entries), template=html.FOLDER / "index.html", root="")
    for name, page in (("index.html", index), ("ledger.html", ledger)):
        write_atomic(site / name, page)
    for name in html.ASSETS:
        shutil.copyfile(html.FOLDER / name, site / name)
    for record in (*results.glob("exact.jsonl"), *results.glob("measured/*.json")):
        target = site / record.relative_to(results)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(record, target)
