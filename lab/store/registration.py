"""registration.json: what a sweep was going to judge, and how, noted before the first run that judges.

It is written once and travels with what is published. Every part has a hash of its own, so that whoever
finds another one can say what moved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lab.config.strict import absent, plain, read
from lab.store.files import dumps, read_record, write_atomic
from lab.store.identity import PROTOCOL
from lab.store.plan_record import PlanRecord
from lab.store.provenance import checkout

NAME = "registration.json"
Hashes = dict[str, str]  # by the name of what was hashed


@dataclass(frozen=True)
class Registration:
    """The rules of a sweep. date: in UTC; commit, clean: of the code, no commit outside a git checkout.

    seeds: that judge. claims: each with statement, prediction, metric, predicate, margins and family. arms:
    each with family, overrides, resolved shape and what it is matched in. search: the grid and the tuning
    seeds, where rates were searched. rows: those of the ledger that rest on the claims, with what they say
    and ask. ended: how many of the runs that judge had ended before, as other ablations share them.
    """

    protocol: int
    ablation: str
    setting: str
    date: str
    commit: str | None
    clean: bool
    seeds: tuple[int, ...]
    looks: tuple[int, ...]
    horizons: tuple[int, ...]
    search: str
    claims: Hashes
    arms: Hashes
    rows: Hashes
    ended: int = absent(0)

    def moved(self, now: Registration) -> list[str]:
        """What differs from the rules of now, in words; none where they are the same."""
        found = [
            f"{what} ({_shown(mine)}, now {_shown(theirs)})"
            for what, mine, theirs in (
                ("the protocol", self.protocol, now.protocol),
                ("the judging seeds", self.seeds, now.seeds),
                ("the looks", self.looks, now.looks),
                ("the horizons", self.horizons, now.horizons),
            )
            if mine != theirs
        ]
        found += ["the search of learning rates"] if self.search != now.search else []
        for what, mine, theirs in (
            ("claim", self.claims, now.claims),
            ("arm", self.arms, now.arms),
            ("row of the ledger", self.rows, now.rows),
        ):
            differing = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
            found += [f"{what} {name}" for name in differing]
        return found


def of_plan(
    plan: PlanRecord,
    *,
    rows: Mapping[str, object],
    search: object | None,
    common: Sequence[str],
) -> Registration:
    """The rules of a plan as they are now.

    rows: those of the ledger that rest on its claims, by id. search: its settings, None without one. common:
    the overrides of all arms.
    """
    commit, clean = checkout()
    matched = plain(plan.match)
    return Registration(
        protocol=PROTOCOL,
        ablation=plan.ablation,
        setting=plan.setting,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=commit,
        clean=clean,
        seeds=plan.seeds,
        looks=plan.looks,
        horizons=plan.horizons,
        search=digest(search and plain(search)),
        claims={claim.id: digest(plain(claim)) for claim in plan.claims},
        arms={
            arm.name: digest([arm.family, [*common, *arm.overrides], plain(arm.shape), arm.baseline, matched])
            for arm in plan.arms
        },
        rows={name: digest(plain(row)) for name, row in rows.items()},
    )


def save(registration: Registration, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / NAME, dumps(plain(registration), indent=1) + "\n")


def load(folder: Path) -> Registration | None:
    """The registration of a folder; None where there is none. Raises ConfigError for a damaged file."""
    path, fix = folder / NAME, "Restore it; without it the sweep can't be published."
    return (
        read(Registration, read_record(path, fix=fix), source=str(path), fix=fix) if path.exists() else None
    )


def digest(value: object) -> str:
    """SHA-256 of a plain value, in hex."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
