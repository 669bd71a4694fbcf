"""The rules of a sweep written down before it judges, and held against those of now when it is published."""

import dataclasses
import sys
from typing import TYPE_CHECKING

from lab.commands import places
from lab.config.strict import ConfigError
from lab.store.states import RESULT_STATES

if TYPE_CHECKING:
    from lab.plan.planning import Plan
    from lab.store.plan_record import PlanRecord
    from lab.store.registration import Registration

WAYS_ON = "Restore what moved, or judge anew with lab sweep {name} --fresh-seeds."


def register(plan: "Plan") -> None:
    """Write the registration of a plan that is about to judge.

    Raises ConfigError where the sweep was registered with other rules and has judged runs since. With other
    seeds alone it may go on, and says that it can't be published.
    """
    from lab.store import registration

    now, before = rules_of(plan.record), registration.load(plan.folder)
    if before is not None and before.moved(now) and not before.moved(_with_seeds_of(now, before)):
        asked = ", ".join(map(str, before.seeds))
        print(f"registered with seeds {asked}; with others the sweep can't be published", file=sys.stderr)
        return
    if before is not None and (moved := before.moved(now)):
        store = places.store()
        judged = [run for arm in plan.record.arms for of in (arm.runs, *arm.branches) for run in of.values()]
        if any(store.state(run) in RESULT_STATES for run in judged):
            raise ConfigError(
                f"{plan.record.ablation} {plan.record.setting}: was registered on {before.date}, and since "
                f"then moved: {'; '.join(moved)}. {WAYS_ON.format(name=plan.record.ablation)}"
            )
        print(f"registered anew, as nothing was judged yet: {'; '.join(moved)}", file=sys.stderr)
    if before is None or before.moved(now):
        registration.save(now, plan.folder)


def rules_of(plan: "PlanRecord") -> "Registration":
    """The rules of a plan by the code and the ledger of now."""
    from lab.lecture import register as notes
    from lab.store import registration

    claims = {claim.id for claim in plan.claims}
    return registration.of_plan(plan, {row.id: row for row in notes.register() if claims & {*row.rests_on}})


def unmoved(plan: "PlanRecord") -> "Registration | None":
    """The registration of a sweep that is to be published; None under protocol 1, which had none.

    Raises ConfigError where it lacks one, or where claims, arms, rows of the ledger or rules have moved
    since.
    """
    from lab.plan import ablation
    from lab.store import registration

    if plan.protocol == 1:
        return None
    where = f"{plan.ablation} {plan.setting}"
    before = registration.load(places.RESULTS / "sweeps" / plan.ablation / plan.setting)
    if before is None:
        raise ConfigError(
            f"{where}: has no registration, so nothing shows that its rules are older than its runs. "
            f"Judge it with lab sweep {plan.ablation} --fresh-seeds."
        )
    asked = tuple(ablation.load(plan.ablation).claims)
    now = rules_of(dataclasses.replace(plan, claims=asked))
    stopped_at_a_look = {*plan.seeds} < {*before.seeds} and len(plan.seeds) in plan.looks
    if moved := before.moved(_with_seeds_of(now, before) if stopped_at_a_look else now):
        raise ConfigError(
            f"{where}: was registered on {before.date}, and since then moved: {'; '.join(moved)}. "
            f"{WAYS_ON.format(name=plan.ablation)}"
        )
    return before


def _with_seeds_of(now: "Registration", before: "Registration") -> "Registration":
    return dataclasses.replace(now, seeds=before.seeds)


def first_fresh_seed(name: str) -> int:
    """The seed after all those that a registration of the ablation names, here or published."""
    from lab.store import registration

    folders = [
        path.parent
        for root in (places.RESULTS / "sweeps", places.RESULTS)
        for path in (root / name).glob(f"*/{registration.NAME}")
    ]
    known = [seed for folder in folders if (found := registration.load(folder)) for seed in found.seeds]
    return max(known, default=-1) + 1
