"""The command that runs a sweep again, or goes further with it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from lab.store.plan_record import PlanRecord
from lab.verdict.evidence import is_searched

VARIABLES = {"size": "SIZE", "data": "DATA"}  # of the Makefile, by the key that they set


def command(plan: PlanRecord) -> str:
    """The make command whose plan this is."""
    seeds = [] if plan.stopped else [f"SEEDS={len(plan.seeds)}"]
    search = ["SEARCH=1"] if is_searched(plan) else []
    return _make(plan, [f"SIZE={plan.size}", f"DATA={plan.data}", *seeds, *search])


def further(plan: PlanRecord) -> str:
    """The make command that searches the rates of the same arms and trains all seeds, to the last horizon."""
    asked = dict(text.split("=", 1) for text in plan.overrides if text.partition("=")[0] in VARIABLES)
    return _make(plan, [*(f"{VARIABLES[key]}={value}" for key, value in asked.items()), "SEARCH=1"])


def _make(plan: PlanRecord, variables: Sequence[str]) -> str:
    rest = [text for text in plan.overrides if text.partition("=")[0] not in VARIABLES]
    rest = [*" ".join(plan.flags).split(), *rest]
    words = [f"make sweep-{plan.ablation}", *variables]
    return " ".join([*words, *([f"ARGS={shlex.quote(shlex.join(rest))}"] if rest else [])])
