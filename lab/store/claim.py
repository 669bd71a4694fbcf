"""What does a claim of an ablation file ask, and is it well formed?

A claim fixes its metric, its predicate (lab/store/predicate_forms.py) and its margin before the runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.config.strict import absent, closest
from lab.store.metric import EXACT_NAMES, PATTERNS, metric
from lab.store.predicate_forms import Predicate, arms_of, families_of, name_of, problems_of_part


@dataclass(frozen=True)
class Claim:
    """One claim of an ablation file.

    needs: arms that must be there besides those of the predicate. family: claims of one family share the 5 %
    (Holm); those without one share it with all others of their file that have none.
    """

    id: str
    statement: str
    source: str
    prediction: str
    metric: str
    needs: tuple[str, ...]
    predicate: Predicate
    family: str | None = absent(None)


def problems_of(claims: Sequence[Claim | None], *, arms: Sequence[str], families: Sequence[str]) -> list[str]:
    """Everything wrong with the claims of an ablation file that has these arms and families; None stands
    for one that is not well formed.
    """
    found = []
    for number, claim in enumerate(claims):
        if claim is None:
            continue
        where = f"claims[{number}]"
        found += [
            f"{where}.needs = {name}: no such arm.{closest(name, arms)}"
            for name in claim.needs
            if name not in arms
        ]
        judged = metric(claim.metric)
        if judged is None:
            names = (*EXACT_NAMES, *PATTERNS)
            found.append(
                f"{where}.metric = {claim.metric}: unknown.{closest(claim.metric, names)} "
                f"Known: {', '.join(names)}."
            )
            continue
        for part in claim.predicate.parts:
            name = f"{where}.predicate.{name_of(part)}"
            found += [f"{name}{problem}" for problem in problems_of_part(part, judged)]
            for kind, named, known in (("arm", arms_of(part), arms), ("family", families_of(part), families)):
                found += [
                    f"{name}: {kind} {word} is not in this file.{closest(word, known)}"
                    for word in sorted(named - set(known))
                ]
    ids = [claim.id for claim in claims if claim is not None]
    return found + [
        f"claims: the id {name} stands twice." for name in sorted(set(ids)) if ids.count(name) > 1
    ]


def look_problems(looks: Sequence[int], *, seeds: int) -> list[str]:
    """Everything wrong with the looks of an ablation file; none where it looks once, at all its seeds."""
    if not looks:
        return []
    found = []
    if list(looks) != sorted(set(looks)) or looks[0] < 2:
        found.append(f"looks = {list(looks)}: must rise and start at 2 seeds or more. Write [4, 8].")
    if looks[-1] != seeds:
        found.append(f"looks = {list(looks)}: the last must be seeds = {seeds}.")
    return found
