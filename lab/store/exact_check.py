"""results/exact.jsonl: checks of claims that are computed and not sampled, one a line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.config.strict import plain, read
from lab.store.files import dumps, read_lines, write_atomic


@dataclass(frozen=True)
class ExactCheck:
    """One check of a claim: what ought to come out, what came out, and whether that holds.

    note: a remark for readers. notes: where the check is about what the lecture notes print, whether that
    "holds" or "fails"; else None.
    """

    claim: str
    check: str
    expected: Any
    measured: Any
    holds: bool
    note: str
    notes: str | None


def load(results: Path) -> list[ExactCheck]:
    """Every check; none before they were computed. Raises ConfigError naming a damaged line."""
    path = results / "exact.jsonl"
    return [
        read(ExactCheck, line, source=f"{path}, line {number}", fix="Restore the file from the commit.")
        for number, line in enumerate(read_lines(path), start=1)
    ]


def save(checks: Iterable[ExactCheck], results: Path) -> Path:
    """Write every check; the same checks give the same bytes."""
    path = results / "exact.jsonl"
    results.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "".join(dumps(plain(check), ensure_ascii=False) + "\n" for check in checks))
    return path
