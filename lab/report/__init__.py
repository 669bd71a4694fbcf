"""The pages of an ablation, rebuilt from its plan and run records alone: report.html, REPORT.md, figures,
verdict.json.

evidence + claims -> verdict    what holds
figures, skills, canvas         the pictures, as matplotlib figures
page                            the words and tables both pages show
html, markdown                  the two forms
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.store.files import dumps, write_atomic
from lab.verdict.verdicts import verdict


def write(
    plan: dict[str, Any],
    records: Sequence[dict[str, Any]],
    folder: Path,
    *,
    exact: Sequence[dict[str, Any]] = (),
) -> Path:
    """Write the report of `plan` into `folder` and return the path of report.html. exact: lines of
    results/exact.jsonl.

    The same plan and records give the same verdict.json, REPORT.md and report.html to the byte.
    """
    from lab.report import canvas, figures, html, markdown
    from lab.report.page import page

    found = verdict(plan, records, exact=exact)
    drawn = figures.draw(plan, records)
    content = page(plan, records, found, list(drawn))
    pictures = {}
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for name, figure in drawn.items():
        pictures[name] = canvas.svg(figure)
        write_atomic(folder / "figures" / f"{name}.png", canvas.png(figure))
    write_atomic(folder / "verdict.json", dumps(found, indent=1) + "\n")
    write_atomic(folder / "REPORT.md", markdown.render(content))
    write_atomic(folder / "report.html", html.render(content, pictures))
    return folder / "report.html"
