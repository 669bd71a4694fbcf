"""results/measured/<claim>-<device kind>.json: what fresh models, or the clock, said about a claim.

`lab measure` writes such a file; the ledger reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.config.strict import plain, read
from lab.store.files import dumps, read_record, write_atomic
from lab.verdict.outcomes import CONTRADICTED, INCONCLUSIVE, REPRODUCED

FIX = "Remove it and run lab measure again."


@dataclass(frozen=True)
class MeasuredPart:
    """One of the statements that a claim is made of, with its numbers, and whether it holds."""

    statement: str
    holds: bool


@dataclass(frozen=True)
class MeasuredTable:
    """The numbers behind the parts, as they are shown: a heading a column, and rows of so many cells."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Measurement:
    """What measuring a claim found.

    outcome: of lab/verdict/outcomes.py, by a rule fixed before the first measurement. n: how often it was
    measured; size: of what; both in words. confounds: sentences on what else may have moved the numbers.
    """

    outcome: str
    parts: tuple[MeasuredPart, ...]
    table: MeasuredTable
    n: str
    size: str
    confounds: tuple[str, ...]


@dataclass(frozen=True)
class Machine:
    """The code, versions and hardware that a measurement rests on; commit and clean are None outside git."""

    commit: str | None
    clean: bool | None
    source_hash: str
    python: str
    torch: str
    device_kind: str
    device: str
    cores: int | None


@dataclass(frozen=True, kw_only=True)
class MeasuredClaim(Measurement):
    """The content of the file: a measurement, its claim, its machine, and the minutes of one core it took.

    kind: "init" for claims on fresh models, "cost" for those on time.
    """

    claim: str
    kind: str
    core_minutes: float
    provenance: Machine


def outcome(holding: Iterable[bool], failing: Iterable[bool]) -> str:
    """Of parts that must all hold: reproduced, contradicted where one is refuted, else inconclusive."""
    return REPRODUCED if all(holding) else CONTRADICTED if any(failing) else INCONCLUSIVE


def save(record: MeasuredClaim, results: Path) -> Path:
    """Write the record where the ledger finds it; the same record gives the same bytes."""
    folder = results / "measured"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.claim}-{record.provenance.device_kind}.json"
    write_atomic(path, dumps(plain(record), indent=1, ensure_ascii=False) + "\n")
    return path


def load(path: Path) -> MeasuredClaim:
    """The record of a file. Raises ConfigError naming the file, the key and the fix."""
    return read(MeasuredClaim, read_record(path, fix=FIX), source=str(path), fix=FIX)


def load_all(results: Path) -> dict[str, MeasuredClaim]:
    """The name of each file and its record, in the order of the names."""
    return {path.name: load(path) for path in sorted((results / "measured").glob("*.json"))}
