"""REPORT.md: the same report for reading in a repository, with its figures beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def render(content: dict[str, Any]) -> str:
    """The Markdown of `content` (lab/report/page.py); every text is escaped, so none of it acts as markup."""
    lines = [f"# {escape(content['title'])}", "", escape(content["question"]), ""]
    lines += [f"{escape(content['source'])}. {escape(content['setting'])}.", "", "## Verdict", ""]
    lines += [] if content["claims"] else [escape(content["no_claim"]), ""]
    for claim in content["claims"]:
        lines += [
            f"### {escape(claim['id'])}: {escape(claim['outcome'])}",
            "",
            escape(claim["statement"]),
            "",
        ]
        lines += [f"**{escape(claim['why'])}.**", ""]
        lines += _bullets(
            [*claim["details"], f"predicted: {claim['prediction']}", f"source: {claim['source']}"]
        )
    for name, heading, caption in content["figures"]:
        lines += [
            f"## {escape(heading)}",
            "",
            f"![{escape(heading)}](figures/{name}.svg)",
            "",
            escape(caption),
            "",
        ]
    arms = content["arms"]
    lines += ["## Arms", "", *_table(arms.header, arms.rows)]
    for heading, caption, table in content["tables"]:
        lines += [f"## {escape(heading)}", "", escape(caption), "", *_table(table.header, table.rows)]
    lines += [
        "## What confounds this",
        "",
        *_bullets([*content["confounds"], *content["noise"], *content["failures"]]),
    ]
    lines += ["## How to read this", "", *_bullets(content["reading"])]
    lines += ["## Where it comes from", "", *_table(["field", "value"], content["provenance"])]
    lines += ["## Run it again", "", f"    {_one_line(content['command'])}", ""]
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


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    listed = [
        [escape(name) for name in header],
        ["---"] * len(header),
        *([escape(cell) for cell in row] for row in rows),
    ]
    return ["| " + " | ".join(row) + " |" for row in listed] + [""]
