"""Which ablation tests a claim, and what does that take? Read from ablations/*.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from lab.config.strict import plain
from lab.plan import ablation
from lab.store.registration import digest


@dataclass(frozen=True)
class ClaimTest:
    """The test of one claim by one ablation.

    statement, prediction: those of the claim. needs: the optional arms that it asks for. runs: how many that
    takes at most, seeds times arms. searched: the ablation's claims rest on a search of learning rates.
    core_minutes: what the whole ablation takes at most, None where its file doesn't say. horizons: how many
    it has, 0 for one budget. digest: of the whole claim, as a registration keeps it.
    """

    ablation: str
    statement: str
    prediction: str
    needs: tuple[str, ...]
    runs: int
    seeds: int
    searched: bool
    core_minutes: float | None
    horizons: int = 0
    digest: str = ""


@cache
def tested() -> dict[str, ClaimTest]:
    """Claim id -> its test, for the claims of all ablations. Raises ConfigError for a damaged ablation."""
    return {claim: test for name in ablation.names() for claim, test in tests_of(name).items()}


def tests_of(name: str) -> dict[str, ClaimTest]:
    """Claim id -> its test, for the claims of one ablation."""
    asked = ablation.load(name)
    found = {}
    for claim in asked.claims:
        needs = sorted((set(claim.needs) | claim.predicate.arms()) & asked.optional_arms.keys())
        found[claim.id] = ClaimTest(
            ablation=name,
            statement=claim.statement,
            prediction=claim.prediction,
            needs=tuple(needs),
            runs=(len(asked.arms) + len(needs)) * asked.seeds,
            seeds=asked.seeds,
            searched=asked.search is not None,
            core_minutes=asked.core_minutes,
            horizons=asked.horizons or 0,
            digest=digest(plain(claim)),
        )
    return found
