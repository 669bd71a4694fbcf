"""Is a claim of an ablation file well formed, and which arms does it speak of?

    id, statement, source, prediction      words
    metric                                 a name of lab/verdict/metric.py
    needs                                  arms that must be there besides those of the predicate
    predicate                              {name: {...}} of lab/verdict/predicates.py, or {all: [{name: {...}}, ...]}
    family                                 optional: claims of one family share the 5 % (Holm); else all of the file do

A margin is a number, a fraction where the metric is relative, or {seed_sds: 2}: that many standard
deviations of the baseline over seeds, as `lab noise` measured them before.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any, TypeGuard

from lab.config.strict import closest
from lab.verdict.lr_range import MEASURES
from lab.verdict.metric import EXACT_NAMES, PATTERNS, Metric, metric
from lab.verdict.predicates import DIRECTIONS, PREDICATES, TRENDS

CLAIM_KEYS = ("id", "statement", "source", "prediction", "metric", "needs", "predicate")
OPTIONAL_KEYS = ("family",)
ARM_KEYS = ("arm", "better", "worse", "wider", "narrower", "against", "arms")
GROUPS = {
    "against": ("arm", "family"),
    "among": ("arms", "family"),
    "along": ("arms", "family"),
    "better": ("arms", "family"),
    "worse": ("arms", "family"),
}
NUMBERS = ("tolerance", "half_decades", "below", "above")
CHOICES = {"direction": DIRECTIONS, "measure": MEASURES[:2], "test": TRENDS}


def problems(claims: Sequence[dict[str, Any]], *, arms: Sequence[str], families: Sequence[str]) -> list[str]:
    """Everything wrong with the claims of an ablation file that has these arms and families; empty when
    all is well.
    """
    found = []
    for number, claim in enumerate(claims):
        where, known = f"claims[{number}]", (*CLAIM_KEYS, *OPTIONAL_KEYS)
        found += [f"{where}.{key}: must be given." for key in CLAIM_KEYS if key not in claim]
        found += [
            f"{where}.{key}: unknown key.{closest(str(key), known)}" for key in claim if key not in known
        ]
        if not set(CLAIM_KEYS) <= claim.keys() <= set(known):
            continue
        if malformed := _form_problems(claim):
            found += [f"{where}.{problem}" for problem in malformed]
            continue
        found += [
            f"{where}.needs = {name}: no such arm.{closest(name, arms)}"
            for name in claim["needs"]
            if name not in arms
        ]
        judged = metric(claim["metric"])
        if judged is None:
            names = (*EXACT_NAMES, *PATTERNS)
            found.append(
                f"{where}.metric = {claim['metric']}: unknown.{closest(claim['metric'], names)} Known: {', '.join(names)}."
            )
            continue
        for name, parameters in parts(claim["predicate"]):
            found += [
                f"{where}.predicate.{name}{problem}"
                for problem in _predicate_problems(name, parameters, judged, arms=arms, families=families)
            ]
    ids = [claim["id"] for claim in claims if isinstance(claim.get("id"), str)]
    return found + [
        f"claims: the id {name} stands twice." for name in sorted(set(ids)) if ids.count(name) > 1
    ]


def _form_problems(claim: dict[str, Any]) -> list[str]:
    """What of a claim is not even of the right form."""
    found = [
        f"{key} = {claim[key]}: must be a text."
        for key in claim.keys() - {"needs", "predicate"}
        if not isinstance(claim[key], str)
    ]
    if not _is_names(claim["needs"]):
        found.append(f"needs = {claim['needs']}: must be a list of arms. Write [NAME, ...], or [] for none.")
    listed = claim["predicate"]
    if isinstance(listed, dict):
        listed = listed["all"] if listed.keys() == {"all"} else [listed]
    well_formed = isinstance(listed, list) and all(
        isinstance(part, dict) and part and all(isinstance(value, dict) for value in part.values())
        for part in listed
    )
    if not well_formed or not listed:
        found.append(
            f"predicate = {claim['predicate']}: must be {{NAME: {{...}}}} or {{all: [{{NAME: {{...}}}}, ...]}}."
        )
    return sorted(found)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


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


def parts(predicate: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """A predicate as (name, parameters) pairs that must all hold."""
    listed = predicate["all"] if "all" in predicate else [predicate]
    return [pair for part in listed for pair in part.items()]


def arms_of(parameters: dict[str, Any]) -> set[str]:
    """The arms that a predicate's parameters name."""
    found: set[str] = set()
    for key, value in parameters.items():
        if isinstance(value, dict):
            found |= arms_of(value)
        elif key in ARM_KEYS:
            found |= {value} if isinstance(value, str) else set(value)
    return found


def families_of(parameters: dict[str, Any]) -> set[str]:
    """The families of arms that a predicate's parameters name."""
    found = {parameters["family"]} if "family" in parameters else set()
    return found.union(*(families_of(value) for value in parameters.values() if isinstance(value, dict)))


def _predicate_problems(
    name: str, parameters: dict[str, Any], judged: Metric, *, arms: Sequence[str], families: Sequence[str]
) -> list[str]:
    """Everything wrong with one predicate of a claim."""
    if name not in PREDICATES:
        return [f": unknown predicate.{closest(str(name), PREDICATES)} Known: all, {', '.join(PREDICATES)}."]
    signature = list(inspect.signature(PREDICATES[name]).parameters.values())[1:]
    wanted = sorted(p.name for p in signature if p.default is p.empty)
    optional = sorted(p.name for p in signature if p.default is not p.empty)
    if not set(wanted) <= parameters.keys() <= {*wanted, *optional}:
        more = f" and may take {optional}" if optional else ""
        return [f": has the keys {sorted(map(str, parameters))}. It takes exactly {wanted}{more}."]
    found = []
    if "margin" in wanted:
        found += _margin_problems(parameters["margin"], judged)
    if "inside" in wanted and not _is_interval(parameters["inside"]):
        found.append(f".inside = {parameters['inside']}: must be [lowest x, highest x].")
    malformed = [
        f".{key} = {parameters[key]}: must be a name."
        for key in ("arm", "wider", "narrower", "family", "line", "claim")
        if key in wanted and not isinstance(parameters[key], str)
    ]
    for key in ("larger", "smaller"):
        pair = parameters[key] if key in wanted else None
        if key in wanted and not (
            isinstance(pair, dict) and pair.keys() == {"arm", "against"} and _is_names([*pair.values()])
        ):
            malformed.append(f".{key} = {pair}: must be {{arm: NAME, against: NAME}}.")
    for key, keys in GROUPS.items():
        if key in wanted and not _is_group(parameters[key], keys, or_arm=key in ("better", "worse")):
            shape = "[NAME, ...]" if "arms" in keys else "NAME"
            either = "an arm, " if key in ("better", "worse") else ""
            malformed.append(
                f".{key} = {parameters[key]}: must be {either}{{{keys[0]}: {shape}}} or {{family: NAME}}."
            )
    if malformed:  # so that no arm can be named by it
        return found + malformed
    found += [
        f".{key} = {parameters[key]}: must be a number."
        for key in NUMBERS
        if key in parameters and not _is_number(parameters[key])
    ]
    for key, choices in CHOICES.items():
        if key in parameters and parameters[key] not in choices:
            found.append(f".{key} = {parameters[key]}: unknown. Known: {', '.join(choices)}.")
    if name == "bounded" and ("below" in parameters) == ("above" in parameters):
        found.append(": needs one bound. Write below: NUMBER or above: NUMBER.")
    if name == "below_line" and judged.name != "val/bpb":
        found.append(": reference lines are in bits per byte. Set metric: val/bpb.")
    for kind, named, known in (
        ("arm", arms_of(parameters), arms),
        ("family", families_of(parameters), families),
    ):
        found += [
            f": {kind} {word} is not in this file.{closest(word, known)}"
            for word in sorted(named - set(known))
        ]
    return found


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_interval(value: Any) -> bool:
    numbers = isinstance(value, list) and all(map(_is_number, value))
    return numbers and len(value) == 2 and value[0] <= value[1]


def _is_group(value: Any, keys: Sequence[str], *, or_arm: bool) -> bool:
    """Whether it names arms by one of the keys, a list of them where the key is `arms`."""
    if isinstance(value, str):
        return or_arm
    if not isinstance(value, dict) or len(value) != 1:
        return False
    [(key, named)] = value.items()
    listed = named if key == "arms" else [named]
    return key in keys and bool(listed) and _is_names(listed)


def _margin_problems(margin: Any, judged: Metric) -> list[str]:
    if isinstance(margin, dict):
        sds = margin.get("seed_sds")
        good = set(margin) == {"seed_sds"} and _is_number(sds) and sds > 0
        return [] if good else [f".margin = {margin}: must be a number or {{seed_sds: 2}}."]
    if not _is_number(margin) or not 0 < margin < (1 if judged.relative else float("inf")):
        if judged.relative:
            return [f".margin = {margin}: must be a fraction between 0 and 1. Write 0.025 for 2.5 %."]
        return [f".margin = {margin}: must be above 0, in the unit of {judged.name}."]
    return []
