"""The rules of a sweep written down before it judges, and held against those of now when it is published."""

import dataclasses
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lab.commands import places
from lab.config.strict import ConfigError
from lab.store.states import RESULT_STATES

if TYPE_CHECKING:
    from lab.plan.ablation import Ablation
    from lab.plan.planning import Plan
    from lab.store.plan_record import PlanRecord
    from lab.store.registration import Registration

WAYS_ON = "Restore what moved, or judge anew with lab sweep {name} --fresh-seeds."


def register(plan: "Plan") -> None:
    """Write the registration of a plan that is about to judge.

    One that was published with it stays the one. Raises ConfigError where the sweep was registered with other
    rules and has judged runs since. With other seeds alone it may go on, and says that it can't be published.
    """
    from lab.store import registration

    record, ended = plan.record, _ended(plan.record)
    now = dataclasses.replace(rules_of(record), ended=ended)
    published = registration.load(_published(record))
    before = published or registration.load(plan.folder)
    moved = before.moved(now) if before else []
    if before and not moved:
        registration.save(before, plan.folder)
        return
    if before and (ended or published):
        if before.moved(_with_seeds_of(now, before)):
            raise ConfigError(_told_moved(record, before, moved))
        asked = ", ".join(map(str, before.seeds))
        print(f"registered with seeds {asked}; with others the sweep can't be published", file=sys.stderr)
        return
    if before:
        print(f"registered anew, as nothing was judged yet: {'; '.join(moved)}", file=sys.stderr)
    elif ended:
        told = f"{ended} of {len(record.judging_ids())} runs that judge had ended before this registration"
        print(told, file=sys.stderr)
    registration.save(now, plan.folder)


def rules_of(
    plan: "PlanRecord", *, searched: bool | None = None, asked: "Ablation | None" = None
) -> "Registration":
    """The rules of a plan by the code, the ablation file and the ledger of now, with the claims and arms of
    `asked` where that is given, and else of the plan. searched: whether rates are, as in the plan if None.
    """
    from lab.lecture import register as notes
    from lab.plan import ablation
    from lab.store import registration

    file = asked or ablation.load(plan.ablation)
    searched = plan.search is not None if searched is None else searched
    if asked:
        known = {**asked.arms, **asked.optional_arms}
        arms = tuple(
            dataclasses.replace(
                arm, family=known[arm.name].family, overrides=tuple(known[arm.name].overrides)
            )
            for arm in plan.arms
            if arm.name in known
        )
        plan = dataclasses.replace(plan, claims=tuple(asked.claims), arms=arms)
    claims = {claim.id for claim in plan.claims}
    rows = {row.id: row.asks for row in notes.register() if claims & {*row.rests_on}}
    search = (file.search or ablation.Search.standard()) if searched else None
    return registration.of_plan(plan, rows=rows, search=search, common=file.common)


def unmoved(plan: "PlanRecord") -> "Registration | None":
    """The registration of a sweep that is to be published; None under protocol 1, which had none.

    Raises ConfigError where it lacks one, where it was published with another one, or where claims, arms,
    search, rows of the ledger or rules, be it those of the plan or those of now, aren't those registered.
    """
    from lab.plan import ablation
    from lab.store import registration

    if plan.protocol == 1:
        return None
    where = f"{plan.ablation} {plan.setting}"
    published = registration.load(_published(plan))
    here = registration.load(places.RESULTS / "sweeps" / plan.ablation / plan.setting)
    if (before := here or published) is None:
        raise ConfigError(
            f"{where}: has no registration, so nothing shows that its rules are older than its runs. "
            f"Judge it with lab sweep {plan.ablation} --fresh-seeds."
        )
    stopped_at_a_look = {*plan.seeds} < {*before.seeds} and len(plan.seeds) in plan.looks
    moved: dict[str, None] = {}
    for now in (rules_of(plan), rules_of(plan, asked=ablation.load(plan.ablation))):
        moved |= dict.fromkeys(before.moved(_with_seeds_of(now, before) if stopped_at_a_look else now))
    if moved:
        raise ConfigError(_told_moved(plan, before, moved))
    if published and published != before:
        raise ConfigError(
            f"{where}: was published with a registration of {published.date}; this one is of {before.date}. "
            f"Judge anew with lab sweep {plan.ablation} --fresh-seeds."
        )
    return before


def first_fresh_seed(plan: "Plan", *, searched: bool) -> int:
    """The first of the seeds that a plan is to judge with, where it is to judge anew: the one after all that
    have judged this setting, with a search or without, here or in what is published.

    Where those that were registered last are themselves fresh, and nothing has moved since, it is the first
    of these: the same command goes on with them.
    """
    from lab.store import plan_record, registration

    now, taken = rules_of(plan.record, searched=searched), set[int]()
    newest: Registration | None = None
    for folder in _alike(plan.record):
        registered = registration.load(folder)
        if registered is not None:
            taken |= {*registered.seeds}
            alike = folder.name.endswith("-lr") == searched
            if alike and (newest is None or max(registered.seeds) > max(newest.seeds)):
                newest = registered
        if (folder / "plan.json").exists():
            known = plan_record.load(folder / "plan.json")
            here = folder.parent.parent.name == "sweeps"
            taken |= {*known.seeds} if not here or _ended(known) else set()
    if newest is not None and max(newest.seeds) == max(taken) and min(newest.seeds) > 0:
        if len(newest.seeds) == len(now.seeds) and not newest.moved(_with_seeds_of(now, newest)):
            return min(newest.seeds)
    return max(taken, default=-1) + 1


def _told_moved(plan: "PlanRecord", before: "Registration", moved: Iterable[str]) -> str:
    return (
        f"{plan.ablation} {plan.setting}: was registered on {before.date}, and since then moved: "
        f"{'; '.join(moved)}. {WAYS_ON.format(name=plan.ablation)}"
    )


def _alike(plan: "PlanRecord") -> Iterator[Path]:
    """The folders of sweeps of an ablation at one setting, whatever their seeds, searched or not."""
    name = re.compile(rf"{re.escape(plan.setting)}(-s\d+)?(-lr)?")
    for root in (places.RESULTS / "sweeps", places.RESULTS):
        for folder in sorted((root / plan.ablation).glob("*")):
            if name.fullmatch(folder.name):
                yield folder


def _published(plan: "PlanRecord") -> Path:
    return places.RESULTS / plan.ablation / plan.setting


def _ended(plan: "PlanRecord") -> int:
    """How many of the runs that judge have a result."""
    store = places.store()
    return sum(store.state(run) in RESULT_STATES for run in plan.judging_ids())


def _with_seeds_of(now: "Registration", before: "Registration") -> "Registration":
    return dataclasses.replace(now, seeds=before.seeds)
