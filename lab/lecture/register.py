"""What do the lecture notes say? The register of their claims, ablations/ledger/*.yaml, a file a section.

A row holds what stands nowhere else: what the notes say, where, and what the cited source says where they
differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lab.config.strict import absent, build, read

FOLDER = Path(__file__).resolve().parents[2] / "ablations/ledger"
KINDS = ("exact", "init", "cost", "trained")


@dataclass(frozen=True)
class Paper:
    """A paper that a claim cites; where: its arXiv id, or the rest of an address after https://.

    The register writes it as a list of the three.
    """

    authors: str
    year: int
    where: str

    @classmethod
    def from_plain(cls, value: Any, *, where: str, problems: list[str]) -> Paper | None:
        if isinstance(value, list) and len(value) == 3:
            named = dict(zip(("authors", "year", "where"), value, strict=True))
            return build(cls, named, where=f"{where}.", problems=problems)
        problems.append(f"{where} = {value}: must be [authors, year, arXiv id or address].")
        return None


@dataclass(frozen=True)
class RoughPlan:
    """How a trained claim might be tested that no ablation tests: so many runs of the baseline of a size."""

    size: str
    runs: int


@dataclass(frozen=True)
class RegisteredClaim:
    """One claim of the notes.

    says: what they say, in short; notes: where. kind: one of KINDS, computed, on fresh models, timed or
    trained. source: what the cited source says where the notes differ from it or from each other. plan: of
    trained claims. beyond: why models that a CPU can train can't answer it. parts: further claims of
    ablations that must hold too, where they were tested; against: those that speak against this one where
    they hold. corrected: what was wrong with an outcome that was once published, and what replaces it.
    """

    id: str
    says: str
    notes: str
    papers: tuple[Paper, ...]
    kind: str
    source: str | None = absent(None)
    plan: RoughPlan | None = absent(None)
    beyond: str | None = absent(None)
    parts: tuple[str, ...] = absent(())
    against: tuple[str, ...] = absent(())
    corrected: str | None = absent(None)

    @property
    def asks(self) -> list[object]:
        """What decides its state, as a registration keeps it: wording and what it rests on."""
        return [self.says, self.notes, self.kind, [*self.parts], [*self.against]]

    @property
    def rests_on(self) -> tuple[str, ...]:
        """The ids of all claims that it rests on, its own first."""
        return (self.id, *self.parts, *self.against)


@dataclass(frozen=True)
class LectureSection:
    """One file of the register: a section of the lecture, its place in the ledger, and its claims."""

    section: str
    order: int
    claims: tuple[RegisteredClaim, ...]


@cache
def sections() -> tuple[LectureSection, ...]:
    """The sections of the register in their order. Raises ConfigError naming file, claim and key."""
    import yaml

    found = [
        read(LectureSection, yaml.safe_load(path.read_text()), source=f"ablations/ledger/{path.name}")
        for path in sorted(FOLDER.glob("*.yaml"))
    ]
    return tuple(sorted(found, key=lambda section: section.order))


def register() -> tuple[RegisteredClaim, ...]:
    """Every claim of the register, in the order of the sections."""
    return tuple(claim for section in sections() for claim in section.claims)
